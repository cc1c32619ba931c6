package termtext

import (
	"fmt"
	"unicode/utf8"
)

// Escape writes out what Clean would take away or replace, so that hostile text
// can be looked at: \x1b for bytes that are controls or no UTF-8, \u{202e} for
// other code points. Cleaning the outcome changes nothing, but for its length.
func Escape(text string) string {
	kept := plainPrefix(text)
	if kept == len(text) {
		return text
	}
	out := append(make([]byte, 0, len(text)+16), text[:kept]...)
	last := rune(0)
	for i := kept; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < 0x80 && fateOf(r, last) != keep:
			out = fmt.Appendf(out, `\x%02x`, text[i])
			last = 0
		case fateOf(r, last) != keep:
			out = fmt.Appendf(out, `\u{%x}`, r)
			last = 0
		default:
			out = append(out, text[i:i+size]...)
			last = r
		}
		i += size
	}
	return string(out)
}

// plainPrefix is how much of s is printable ASCII.
func plainPrefix(s string) int {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return i
		}
	}
	return len(s)
}
