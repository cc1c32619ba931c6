package termtext

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Width is how many cells the cleaned text s takes at most. Terminals measure
// by grapheme or by code point, and Bubble Tea follows whichever the terminal
// at hand says it does; where the two differ, the wider one counts.
func Width(s string) int {
	if printable(s) {
		return len(s)
	}
	width := 0
	for g := graphemes.FromString(s); g.Next(); {
		width += graphemeWidth(g.Value())
	}
	return width
}

// Truncate cuts the cleaned text s to at most cells cells, between graphemes.
//
// What it returns is made for drawing: variation selectors and skin tones are
// left out, because terminals disagree about their width, and with them the
// columns behind would stand elsewhere on each. PadRight, PadLeft and
// TruncateMiddle do the same.
func Truncate(s string, cells int) string {
	s, _ = cut(s, cells)
	return s
}

// PadRight is s in exactly cells cells: cut if it is wider, else with spaces
// behind it.
func PadRight(s string, cells int) string {
	s, width := cut(s, cells)
	return s + blank(cells-width)
}

// PadLeft is s in exactly cells cells: cut if it is wider, else with spaces
// before it.
func PadLeft(s string, cells int) string {
	s, width := cut(s, cells)
	return blank(cells-width) + s
}

// TruncateMiddle cuts s to at most cells cells by replacing its middle with
// mark, so that both ends of an id stay readable. The head gets the odd cell.
// Where there is no room for both ends and the mark, the end is cut instead.
func TruncateMiddle(s string, cells int, mark string) string {
	s = steady(s)
	if Width(s) <= cells {
		return s
	}
	room := cells - Width(mark)
	if room < 2 {
		return Truncate(s, cells)
	}
	head, width := cut(s, (room+1)/2)
	return head + mark + tail(s, room-width)
}

// cut is the longest head of s, made for drawing, that fits, and its width.
func cut(s string, cells int) (string, int) {
	if cells <= 0 {
		return "", 0
	}
	if printable(s) {
		s = s[:min(len(s), cells)]
		return s, len(s)
	}
	s = steady(s)
	width := 0
	for g := graphemes.FromString(s); g.Next(); {
		w := graphemeWidth(g.Value())
		if width+w > cells {
			return s[:g.Start()], width
		}
		width += w
	}
	return s, width
}

// tail is the longest end of s that fits.
func tail(s string, cells int) string {
	if printable(s) {
		return s[len(s)-min(len(s), max(cells, 0)):]
	}
	over := Width(s) - cells
	for g := graphemes.FromString(s); g.Next(); {
		if over <= 0 {
			return s[g.Start():]
		}
		over -= graphemeWidth(g.Value())
	}
	return ""
}

func graphemeWidth(g string) int {
	if len(g) == 1 {
		return 1
	}
	if r, size := utf8.DecodeRuneInString(g); size == len(g) && alwaysWide(r) {
		return 2
	}
	return max(ansi.StringWidth(g), ansi.StringWidthWc(g))
}

// alwaysWide reports whether r is of the scripts about whose width nobody
// disagrees, so that the tables need not be asked.
func alwaysWide(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7a3 || r >= 0x3041 && r <= 0x3096
}

// printable reports whether s is printable ASCII: as many cells as bytes.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// steady is s without the marks whose width terminals disagree about.
func steady(s string) string {
	if !strings.Contains(s, "\xef\xb8") && !strings.Contains(s, "\xf0\x9f\x8f") {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == 0xfe0e || r == 0xfe0f || r >= 0x1f3fb && r <= 0x1f3ff {
			return -1
		}
		return r
	}, s)
}

// blanks is long enough for the widest column of most screens.
const blanks = "                                                                                                                                "

func blank(n int) string {
	switch {
	case n <= 0:
		return ""
	case n <= len(blanks):
		return blanks[:n]
	}
	return strings.Repeat(" ", n)
}
