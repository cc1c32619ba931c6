package termtext

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Limits of a cleaned text. What lies beyond is cut off between graphemes.
const (
	MaxGraphemes = 512
	MaxBytes     = 1024
)

// Clean returns text without anything that a terminal would obey or that a
// person cannot see:
//
//   - whole escape sequences go, as the parser of a terminal delimits them
//     (see sequenceEnd); one that does not end takes the rest of the text along;
//   - line breaks (LF, CR, CR LF, VT, FF, NEL, U+2028, U+2029) and tabs become
//     one space each;
//   - other controls go, and so do bidirectional controls, joiners and other
//     zero-width or invisible marks, U+E0000 tags among them. A variation
//     selector stays only behind a symbol that it can change;
//   - invalid UTF-8 becomes U+FFFD, byte by byte, and so do code points that
//     have no agreed look or width: unassigned ones and those of private use;
//   - at most MaxGraphemes graphemes and MaxBytes bytes are kept.
//
// Text that is clean already is returned as it is, without an allocation.
// Cleaning twice is cleaning once.
func Clean[T ~string | ~[]byte](text T) T {
	s := view(text)
	kept := cleanPrefix(s)
	if kept == len(s) {
		if n := limit(s); n < len(s) {
			return text[:n]
		}
		return text
	}
	out := appendClean(make([]byte, 0, min(len(s), 2*MaxBytes)), s, kept)
	return T(out[:limit(view(out))])
}

// CleanLong cleans like Clean but keeps any length: for lines of output and
// dumps, which their holder bounds.
func CleanLong(text string) string {
	kept := cleanPrefix(text)
	if kept == len(text) {
		return text
	}
	return string(appendClean(make([]byte, 0, len(text)), text, kept))
}

// Changes reports whether cleaning would change text. It refuses names that
// look like another one.
func Changes[T ~string | ~[]byte](text T) bool {
	s := view(text)
	return cleanPrefix(s) < len(s) || limit(s) < len(s)
}

// view is text as a string that shares its bytes: it must not outlive the call.
func view[T ~string | ~[]byte](text T) string {
	if len(text) == 0 {
		return ""
	}
	switch t := any(text).(type) {
	case string:
		return t
	case []byte:
		return unsafe.String(unsafe.SliceData(t), len(t))
	}
	return string(text) // a named type: copied
}

// cleanPrefix is how many leading bytes of s cleaning would leave alone, limits
// aside.
func cleanPrefix(s string) int {
	last := rune(-1)
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < 0x7f {
			last = rune(c)
			i++
			continue
		}
		if c < utf8.RuneSelf {
			return i
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || fateOf(r, last) != keep {
			return i
		}
		last = r
		i += size
	}
	return len(s)
}

// appendClean appends the cleaned form of s, of which the first kept bytes are
// known to be clean.
func appendClean(dst []byte, s string, kept int) []byte {
	dst = append(dst, s[:kept]...)
	last, _ := utf8.DecodeLastRuneInString(s[:kept])
	for i := kept; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if end := sequenceEnd(s, i, r); end > i {
			i = end
			continue
		}
		fate := replace
		if r != utf8.RuneError || size > 1 {
			fate = fateOf(r, last)
		}
		if r == '\r' && strings.HasPrefix(s[i+1:], "\n") {
			size = 2
		}
		i += size
		switch fate {
		case drop:
			continue
		case space:
			r = ' '
		case replace:
			r = utf8.RuneError
		}
		dst = utf8.AppendRune(dst, r)
		last = r
	}
	return dst
}

// limit is how many leading bytes of the cleaned text s are within the limits.
func limit(s string) int {
	if len(s) <= MaxGraphemes {
		return len(s)
	}
	if len(s) <= MaxBytes && utf8.RuneCountInString(s) <= MaxGraphemes {
		return len(s)
	}
	end, count := 0, 0
	for g := graphemes.FromString(s); count < MaxGraphemes && g.Next(); count++ {
		if g.End() > MaxBytes {
			break
		}
		end = g.End()
	}
	if end > 0 {
		return end
	}
	// One grapheme of marks alone is over the limit: cut between its runes.
	end = min(len(s), MaxBytes)
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	return end
}
