package termtext

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

func TestWidth(t *testing.T) {
	for _, c := range []struct {
		s    string
		want int
	}{
		{"", 0}, {"abc", 3}, {"世界", 4}, {"é", 1}, {"e\u0301", 1}, {"👍", 2}, {"👍🏽", 4}, {"❤\ufe0f", 2}, {"🇩🇪", 2}, {"한국", 4}, {"~5m", 3},
	} {
		if got := Width(c.s); got != c.want {
			t.Errorf("Width(%q) = %d, want %d", c.s, got, c.want)
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		s     string
		cells int
		want  string
	}{
		{"abc", 5, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""},
		{"世界", 3, "世"}, {"世界", 1, ""}, {"a世", 2, "a"}, {"e\u0301e\u0301", 1, "e\u0301"},
		{"👍🏽👍🏽", 2, "👍"}, {"❤\ufe0f!", 2, "❤!"}, {"🇩🇪🇫🇷", 3, "🇩🇪"},
	} {
		if got := Truncate(c.s, c.cells); got != c.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.s, c.cells, got, c.want)
		}
	}
}

func TestTruncateMiddle(t *testing.T) {
	for _, c := range []struct {
		s     string
		cells int
		want  string
	}{
		{"indexer", 20, "indexer"},
		{"user:42:chat-frontend-worker-eu-1f9c", 20, "user:42:ch~r-eu-1f9c"},
		{"abcdef", 5, "ab~ef"}, {"abcdef", 4, "ab~f"}, {"abcdef", 3, "a~f"}, {"abcdef", 2, "ab"}, {"abcdef", 0, ""},
		{"世界世界", 7, "世~世界"}, {"世界世界", 5, "世~界"}, {"世界世界", 4, "世~"},
	} {
		if got := TruncateMiddle(c.s, c.cells, "~"); got != c.want {
			t.Errorf("TruncateMiddle(%q, %d) = %q, want %q", c.s, c.cells, got, c.want)
		}
	}
}

func TestPad(t *testing.T) {
	if got := PadRight("世", 4) + "|" + PadLeft("世", 4) + "|" + PadRight("abc", 2) + "|" + PadLeft("7", 200)[198:]; got != "世  |  世|ab| 7" {
		t.Errorf("%q", got)
	}
}

// pieces are what shifts rows: joined, flagged, toned, selected, combined and
// wide graphemes, and scripts whose clusters terminals measure differently.
var pieces = []string{
	"a", " ", "世", "界", "한", "각", "é", "e\u0301", "e\u0301\u0302\u0303", "👍", "👍🏽", "🏽", "❤\ufe0f", "❤", "☀\ufe0f", "🇩🇪", "🇩",
	"👨\u200d👩\u200d👧", "1\ufe0f\u20e3", "क्षि", "กำ", "ษ\u0e34", "\u0301", "\u1100", "\u1161", "\u11a8", "ﷺ", "—", "①", "\u3000", "𒐫", "\u0d4e", "~", "한국",
}

func hostile(t *rapid.T) string {
	known := rapid.Custom(func(t *rapid.T) string { return rapid.SampledFrom(pieces).Draw(t, "piece") })
	any := rapid.Custom(func(t *rapid.T) string { return string(rapid.Rune().Draw(t, "rune")) })
	return Clean(strings.Join(rapid.SliceOfN(rapid.OneOf(known, known, any), 0, 30).Draw(t, "text"), ""))
}

// fault 43
func TestRowsNeverExceedTheirWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := hostile(t)
		cells := rapid.IntRange(0, 40).Draw(t, "cells")
		for name, drawn := range map[string]string{
			"Truncate": Truncate(s, cells), "PadRight": PadRight(s, cells), "PadLeft": PadLeft(s, cells),
			"TruncateMiddle": TruncateMiddle(s, cells, "~"),
		} {
			if w := Width(drawn); w > cells {
				t.Fatalf("%s(%q, %d) = %q takes %d", name, s, cells, drawn, w)
			}
			if g, wc := ansi.StringWidth(drawn), ansi.StringWidthWc(drawn); g > cells || wc > cells {
				t.Fatalf("%s(%q, %d) = %q is drawn in %d or %d cells", name, s, cells, drawn, g, wc)
			}
		}
	})
}

func TestWidthIsAnUpperBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, more := hostile(t), hostile(t)
		if w := Width(s); w < ansi.StringWidth(s) || w < ansi.StringWidthWc(s) {
			t.Fatalf("Width(%q) = %d, but %d or %d", s, w, ansi.StringWidth(s), ansi.StringWidthWc(s))
		}
		if joined := Width(s + more); joined > Width(s)+Width(more) {
			t.Fatalf("%q and %q take %d cells together, %d and %d alone", s, more, joined, Width(s), Width(more))
		}
	})
}

func TestEmojiColumnsStandOnEveryTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Clean(strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"a", "世", "é", "👍", "👍🏽", "❤\ufe0f", "☀\ufe0f", "🇩🇪", "👨\u200d👩\u200d👧", "✈\ufe0f",
		})).Draw(t, "text"), ""))
		cells := rapid.IntRange(0, 40).Draw(t, "cells")
		row := PadRight(s, cells)
		if g, wc := ansi.StringWidth(row), ansi.StringWidthWc(row); g != cells || wc != cells {
			t.Fatalf("PadRight(%q, %d) = %q is drawn in %d or %d cells", s, cells, row, g, wc)
		}
	})
}

func BenchmarkPadRight(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"ascii", "Processing chunk 47/200"}, {"wide", strings.Repeat("世界", 12)}, {"emoji", strings.Repeat("👍🏽 ok ", 6)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				PadRight(c.text, 40)
			}
		})
	}
}
