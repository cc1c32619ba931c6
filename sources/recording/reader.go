package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// maxLine bounds one line: a beat of 16 KiB whose text needs escapes, with
// room to spare.
const maxLine = 256 << 10

// maxLength bounds the recorded time: a tracker has to pass through all of it.
const maxLength = 366 * 24 * time.Hour

// Reader reads a recording entry by entry. It keeps one line in memory.
type Reader struct {
	name    string
	in      *bufio.Reader
	close   func() error
	dialect *dialect
	header  Header
	line    int
	buf     []byte
	clock   time.Duration // Mono that the entries have reached
	boot    time.Duration
	note    string
	err     error // final
}

// Open opens a recording. Its error names the file and says what to do.
func Open(path string) (*Reader, error) {
	// O_NONBLOCK: opening a pipe that nobody writes must not hang.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the recording: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file (%s)", path, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r, err := NewReader(path, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r.close = file.Close
	return r, nil
}

// NewReader reads the header of a recording from in, compressed or not. The
// name stands in errors.
func NewReader(name string, in io.Reader) (*Reader, error) {
	r := &Reader{name: name, dialect: newDialect(), close: func() error { return nil }}
	r.in = bufio.NewReaderSize(in, 64<<10)
	if magic, err := r.in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		gz, err := gzip.NewReader(r.in)
		if err != nil {
			return nil, fmt.Errorf("%s: cannot be decompressed: %w", name, err)
		}
		r.in = bufio.NewReaderSize(gz, 64<<10)
	}
	line, err := r.readLine()
	switch {
	case errors.Is(err, io.EOF) && r.note == "":
		return nil, fmt.Errorf("%s: is empty; a recording has a header in its first line", name)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: its header is cut off", name)
	case err != nil:
		return nil, err
	}
	if r.header, err = r.dialect.readHeader(line); err != nil {
		return nil, r.fault(err)
	}
	r.clock, r.boot = r.header.Started.Mono, r.header.Started.Boot
	return r, nil
}

// Header is the first line.
func (r *Reader) Header() Header { return r.header }

// Note says what is odd about the file and still tolerated: a last line that
// was cut off by a crash. It is complete once Next gave io.EOF.
func (r *Reader) Note() string { return r.note }

// Close releases the file.
func (r *Reader) Close() error { return r.close() }

// Next gives the next entry; io.EOF after the last. Any other error names the
// line, and is final.
func (r *Reader) Next() (Entry, error) {
	if r.err != nil {
		return Entry{}, r.err
	}
	e, err := r.next()
	r.err = err
	return e, err
}

func (r *Reader) next() (Entry, error) {
	line, err := r.readLine()
	if err != nil {
		return Entry{}, err
	}
	e, err := r.dialect.readEntry(line)
	if err == nil {
		err = r.order(&e)
	}
	if err != nil {
		return Entry{}, r.fault(err)
	}
	e.Line = r.line
	return e, nil
}

// order refuses a clock that goes back: no monotonic one does.
func (r *Reader) order(e *Entry) error {
	if tick, ok := e.Event.(watchdog.Ticked); ok {
		if tick.Now.Mono < r.clock || tick.Now.Boot < r.boot {
			return fmt.Errorf("its clock goes back from %v to %v", r.clock, tick.Now.Mono)
		}
		r.clock, r.boot = tick.Now.Mono, tick.Now.Boot
		return r.length()
	}
	if e.Clock >= 0 {
		if e.Clock < r.clock {
			return fmt.Errorf("its clock goes back from %v to %v", r.clock, e.Clock)
		}
		r.clock = e.Clock
	}
	return r.length()
}

func (r *Reader) length() error {
	if r.clock-r.header.Started.Mono > maxLength {
		return errors.New("is more than a year after the start of the recording")
	}
	return nil
}

// readLine gives the next line that is not blank, without its end. A last line
// without an end was cut off: it is noted and left out.
func (r *Reader) readLine() ([]byte, error) {
	for {
		r.buf = r.buf[:0]
		r.line++
		for {
			part, err := r.in.ReadSlice('\n')
			if len(r.buf)+len(part) > maxLine {
				return nil, r.fault(fmt.Errorf("is longer than %d bytes", maxLine))
			}
			r.buf = append(r.buf, part...)
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, r.cut(err)
			}
		}
		if line := bytes.TrimSpace(r.buf); len(line) > 0 {
			return line, nil
		}
	}
}

// cut judges the end of the data.
func (r *Reader) cut(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF): // of a compressed file
		r.note = fmt.Sprintf("%s: the recording is cut off at line %d; it ends there", r.name, r.line)
		return io.EOF
	case !errors.Is(err, io.EOF):
		return r.fault(fmt.Errorf("cannot be read: %w", err))
	case len(bytes.TrimSpace(r.buf)) > 0:
		r.note = fmt.Sprintf("%s: line %d is cut off and left out; the recording ends before it", r.name, r.line)
	}
	return io.EOF
}

func (r *Reader) fault(err error) error {
	return fmt.Errorf("%s: line %d %w", r.name, r.line, err)
}
