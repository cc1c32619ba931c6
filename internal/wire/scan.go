package wire

import (
	"encoding/binary"
	"math/bits"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// kind is what a JSON value is, as far as a beat cares.
type kind uint8

const (
	kindNull kind = iota // also NaN, Infinity and -Infinity
	kindText
	kindNumber
	kindArray
	kindOther // true, false, an object
)

// token is one scanned value. Of a text, src[start:end] is what stands between
// the quotes; of a number, its spelling; of an array, what stands between the
// brackets.
type token struct {
	kind       kind
	plain      bool // text: printable ASCII without escapes
	escaped    bool // text: has escapes
	start, end int
	number     number
}

// scanner reads JSON strictly and in one pass. A method that returns false has
// set why.
type scanner struct {
	src []byte
	pos int
	why watchdog.Refusal
}

func (s *scanner) fail(why watchdog.Refusal) bool {
	s.why = why
	return false
}

// space skips white space and gives the byte behind it, 0 at the end (which no
// rule accepts).
func (s *scanner) space() byte {
	if s.pos < len(s.src) && s.src[s.pos] > ' ' {
		return s.src[s.pos]
	}
	return s.skipSpace()
}

func (s *scanner) skipSpace() byte {
	for i := s.pos; i < len(s.src); i++ {
		switch c := s.src[i]; c {
		case ' ', '\n', '\t', '\r':
		default:
			s.pos = i
			return c
		}
	}
	s.pos = len(s.src)
	return 0
}

// colon skips the colon behind a name and the white space around it.
func (s *scanner) colon() bool {
	if s.space() != ':' {
		return s.fail(watchdog.RefusedJSON)
	}
	s.pos++
	s.space()
	return true
}

// value scans any value; pos is at its first byte.
func (s *scanner) value(t *token) bool {
	if s.pos >= len(s.src) {
		return s.fail(watchdog.RefusedJSON)
	}
	switch c := s.src[s.pos]; c {
	case '"':
		return s.text(t)
	case '{':
		t.kind = kindOther
		return s.nested()
	case '[':
		t.kind, t.start = kindArray, s.pos+1
		ok := s.nested()
		t.end = s.pos - 1
		return ok
	case 'n':
		return s.literal(t, "null", kindNull)
	case 't':
		return s.literal(t, "true", kindOther)
	case 'f':
		return s.literal(t, "false", kindOther)
	case 'N':
		return s.literal(t, "NaN", kindNull)
	case 'I':
		return s.literal(t, "Infinity", kindNull)
	case '-':
		if s.pos+1 < len(s.src) && s.src[s.pos+1] == 'I' {
			return s.literal(t, "-Infinity", kindNull)
		}
		return s.number(t)
	default:
		if c-'0' > 9 {
			return s.fail(watchdog.RefusedJSON)
		}
		return s.number(t)
	}
}

// literal scans a fixed word. What follows it is the caller's to check.
func (s *scanner) literal(t *token, word string, k kind) bool {
	if len(s.src)-s.pos < len(word) || string(s.src[s.pos:s.pos+len(word)]) != word {
		return s.fail(watchdog.RefusedJSON)
	}
	t.kind = k
	s.pos += len(word)
	return true
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

// special marks with its high bit the first byte of w, and maybe later ones,
// that ends a plain text: a quote, a backslash, a control or one beyond ASCII.
func special(w uint64) uint64 {
	quote := w ^ eachByte*'"'
	slash := w ^ eachByte*'\\'
	del := w ^ eachByte*0x7f
	return (w | (w - eachByte*0x20) | (quote - eachByte) | (slash - eachByte) | (del - eachByte)) & highBits
}

// text scans a string; pos is at its opening quote.
func (s *scanner) text(t *token) bool {
	t.kind, t.plain, t.escaped, t.start = kindText, true, false, s.pos+1
	src, i := s.src, s.pos+1
	for {
		for i+8 <= len(src) {
			if m := special(binary.LittleEndian.Uint64(src[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(src) {
			return s.fail(watchdog.RefusedJSON)
		}
		switch c := src[i]; {
		case c == '"':
			t.end, s.pos = i, i+1
			return true
		case c == '\\':
			n := escapeLen(src[i:])
			if n == 0 {
				return s.fail(watchdog.RefusedJSON)
			}
			t.plain, t.escaped = false, true
			i += n
		case c < 0x20:
			return s.fail(watchdog.RefusedJSON)
		case c >= 0x7f:
			t.plain = false
			i++
		default:
			i++
		}
	}
}

// nested skips an object or array inside the beat; pos is at its bracket.
// Objects are told from arrays by one bit for each level.
func (s *scanner) nested() bool {
	var t token
	objects := uint64(0)
	for depth := 1; ; {
		open := s.space()
		if open == '{' || open == '[' {
			if depth++; depth > MaxDepth {
				return s.fail(watchdog.RefusedDepth)
			}
			objects <<= 1
			if open == '{' {
				objects |= 1
			}
			s.pos++
			if s.space() != closer(objects) {
				if !s.member(objects, &t) {
					return false
				}
				continue
			}
		} else if !s.value(&t) {
			return false
		}
		for depth > 1 {
			c := s.space()
			if c == ',' {
				s.pos++
				s.space()
				if !s.member(objects, &t) {
					return false
				}
				break
			}
			if c != closer(objects) {
				return s.fail(watchdog.RefusedJSON)
			}
			s.pos++
			objects >>= 1
			depth--
		}
		if depth == 1 {
			return true
		}
	}
}

// member skips the name before a value, where the innermost level is an object.
func (s *scanner) member(objects uint64, t *token) bool {
	if objects&1 == 0 {
		return true
	}
	if s.pos >= len(s.src) || s.src[s.pos] != '"' {
		return s.fail(watchdog.RefusedJSON)
	}
	return s.text(t) && s.colon()
}

// closer is the bracket that ends the innermost level.
func closer(objects uint64) byte {
	if objects&1 == 1 {
		return '}'
	}
	return ']'
}
