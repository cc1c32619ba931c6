package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// errReplyTooLarge says that an answer passed its bound. The connection is of
// no use after it, because the rest of the answer is unread.
var errReplyTooLarge = errors.New("the answer is larger than beats can be")

// errReplyBroken says that an answer is not what was asked for.
var errReplyBroken = errors.New("the server's answer cannot be read")

// replyBuffer keeps one raw answer. Its memory is used again, so that a poll
// in which nothing changed allocates nothing for its values.
type replyBuffer struct {
	bytes []byte
	limit int
}

// Write appends a piece of the answer.
func (r *replyBuffer) Write(p []byte) (int, error) {
	if len(r.bytes)+len(p) > r.limit {
		return 0, errReplyTooLarge
	}
	r.bytes = append(r.bytes, p...)
	return len(p), nil
}

// ReadFrom appends a value straight from the connection's buffer; the library
// copies values with io.CopyN, which prefers it to Write.
func (r *replyBuffer) ReadFrom(src io.Reader) (int64, error) {
	bounded, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{r}, src)
	}
	length := bounded.N
	if length > int64(r.limit-len(r.bytes)) {
		return 0, errReplyTooLarge
	}
	start := len(r.bytes)
	if need := start + int(length); need > cap(r.bytes) {
		grown := make([]byte, start, max(need, 2*cap(r.bytes)))
		copy(grown, r.bytes)
		r.bytes = grown
	}
	r.bytes = r.bytes[:start+int(length)]
	n, err := io.ReadFull(bounded, r.bytes[start:])
	r.bytes = r.bytes[:start+n]
	return int64(n), err
}

// reset makes the buffer ready for the answer about some keys.
func (r *replyBuffer) reset(limit int) {
	r.bytes, r.limit = r.bytes[:0], limit
}

// values calls visit for each value of an MGET answer, in order; a missing one
// is nil. The values are part of the buffer. An error answer is returned as
// redisText.
func (r *replyBuffer) values(want int, visit func(i int, value []byte)) error {
	rest := r.bytes
	count, kind, rest, err := readHeader(rest)
	if err != nil {
		return err
	}
	if kind != '*' || count != want {
		return errReplyBroken
	}
	for i := range want {
		var length int
		if length, kind, rest, err = readHeader(rest); err != nil {
			return err
		}
		switch {
		case kind == '_', kind == '$' && length < 0:
			visit(i, nil)
		case kind == '$' && length <= len(rest)-2 && rest[length] == '\r':
			visit(i, rest[:length:length])
			rest = rest[length+2:]
		default:
			return errReplyBroken
		}
	}
	return nil
}

// readHeader reads one line such as "$12": its first byte and its number.
func readHeader(b []byte) (n int, kind byte, rest []byte, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 2 {
		return 0, 0, nil, errReplyBroken
	}
	line, rest := b[:end-1], b[end+1:]
	switch line[0] {
	case '-':
		return 0, 0, nil, redisText(line[1:])
	case '_':
		return 0, '_', rest, nil
	}
	if n, err = strconv.Atoi(string(line[1:])); err != nil {
		return 0, 0, nil, fmt.Errorf("%w: %q", errReplyBroken, line)
	}
	return n, line[0], rest, nil
}

// redisText is an error that a server answered with.
type redisText string

// Error is the server's text.
func (e redisText) Error() string { return string(e) }

// RedisError marks it as a server's error, as the client library does.
func (redisText) RedisError() {}
