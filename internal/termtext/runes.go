package termtext

import (
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// fate is what becomes of a code point.
type fate uint8

const (
	keep fate = iota
	drop
	space
	replace
)

// fateOf decides about the code point r that follows last in the cleaned text.
func fateOf(r, last rune) fate {
	switch {
	case r < 0x20:
		if r >= '\t' && r <= '\r' {
			return space
		}
		return drop
	case r < 0x7f:
		return keep
	case r < 0xa0:
		if r == '\u0085' {
			return space
		}
		return drop
	case common(r):
		return keep
	case r == '\u2028' || r == '\u2029':
		return space
	case r == '\ufe0e' || r == '\ufe0f':
		if presentable(last) {
			return keep
		}
		return drop
	case ignorable(r):
		return drop
	case unicode.IsGraphic(r):
		return keep
	case unicode.Is(unicode.Cf, r):
		return drop
	case r >= 0x1f680 && r <= 0x1faff && ansi.StringWidth(string(r)) == 2:
		// An emoji that is younger than the tables of the standard library.
		return keep
	}
	return replace
}

// common reports whether r is in a range that holds nothing but visible
// characters: the scripts most often seen, without a table search.
func common(r rune) bool {
	switch {
	case r == '\u00ad':
		return false
	case r <= 0x02ff: // Latin
		return true
	case r < 0x3041:
		return r >= 0x0400 && r <= 0x0481 || // Cyrillic
			r >= 0x2010 && r <= 0x2027 || // dashes, quotes, ellipsis
			r >= 0x2190 && r <= 0x23ff || r >= 0x2500 && r <= 0x27bf // arrows, technical, boxes, symbols
	}
	return r >= 0x3041 && r <= 0x3096 || r >= 0x30a0 && r <= 0x30ff || // kana
		r >= 0x4e00 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7a3 // Han, Hangul
}

// ignorable reports whether r is among the default ignorable code points that
// the general category does not tell: letters and marks that show nothing.
func ignorable(r rune) bool {
	switch {
	case r == 0x034f, // combining grapheme joiner
		r >= 0x115f && r <= 0x1160, r == 0x3164, r == 0xffa0, // Hangul fillers
		r >= 0x17b4 && r <= 0x17b5,   // Khmer inherent vowels
		r >= 0x180b && r <= 0x180f,   // Mongolian selectors
		r >= 0x2060 && r <= 0x206f,   // joiners, invisible operators
		r >= 0xfe00 && r <= 0xfe0f,   // variation selectors
		r >= 0xe0000 && r <= 0xe0fff: // tags and more selectors
		return true
	}
	return false
}

// presentable reports whether a text or emoji selector can change r. The
// ranges are the hull of the standardised sequences; digits, whose sequences
// need an enclosing key cap to show, are left out.
func presentable(r rune) bool {
	switch {
	case r == 0xa9 || r == 0xae,
		r == 0x203c || r == 0x2049 || r == 0x2122 || r == 0x2139,
		r >= 0x2194 && r <= 0x21aa,
		r >= 0x231a && r <= 0x23fa,
		r == 0x24c2,
		r >= 0x25aa && r <= 0x27bf,
		r >= 0x2934 && r <= 0x2935,
		r >= 0x2b05 && r <= 0x2b55,
		r == 0x3030 || r == 0x303d || r == 0x3297 || r == 0x3299,
		r >= 0x1f000 && r <= 0x1faff:
		return true
	}
	return false
}
