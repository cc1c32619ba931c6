package termtext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "Processing chunk 47/200", "Processing chunk 47/200"},
		{"empty", "", ""},
		{"CSI", "\x1b[2J\x1b[1;31mred\x1b[0m", "red"},
		{"CSI with private and intermediate bytes", "\x1b[?25la\x1b[0 qb\x1b[>4;1mc", "abc"},
		{"CSI with controls inside", "\x1b[3\r\n1mred", "red"},
		{"CSI cut off by an accent", "\x1b[31é", "é"},
		{"CSI cancelled", "\x1b[31\x18mred", "mred"},
		{"CSI 6n", "a\x1b[6nb", "ab"},
		{"OSC 52, BEL", "\x1b]52;c;ZXZpbA==\x07red", "red"},
		{"OSC 8, ST", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"OSC title with wide text", "\x1b]0;世界\x07a", "a"},
		{"OSC that does not end", "ok \x1b]0;never", "ok "},
		{"OSC broken by another sequence", "\x1b]0;x\x1b[31mred", "red"},
		{"DCS, APC, PM, SOS", "a\x1bPq#0\x1b\\b\x1b_G\x07\x1b\\c\x1b^x\x1b\\d\x1bXx\x1b\\e", "abcde"},
		{"BEL ends an OSC only", "\x1bPa\x07b\x1b\\c", "c"},
		{"ESC cancelled", "\x1b\x18[31m", "[31m"},
		{"SS2, SS3", "a\x1bNxb\x1bOPc", "abc"},
		{"character set, reset, keypad", "a\x1b(Bb\x1bcc\x1b=d\x1b#8e", "abcde"},
		{"ESC at the end, twice, before a line break", "a\x1b", "a"},
		{"ESC ESC", "\x1b\x1b[31mred", "red"},
		{"ESC before a line break", "a\x1b\nb", "a b"},
		{"C1 CSI", "\u009b31mred", "red"},
		{"C1 OSC, C1 ST", "\u009d0;x\u009cred", "red"},
		{"C1 DCS, SOS, PM, APC", "a\u0090x\u009cb\u0098x\u009cc\u009ex\u009cd\u009fx\u009ce", "abcde"},
		{"C1 single shift", "a\u008fxb", "ab"},
		{"other C1", "a\u0084\u009cb", "ab"},
		{"raw 8-bit CSI is invalid UTF-8", "\x9b31m", "\ufffd31m"},
		{"controls", "a\x00b\x07c\x08d\x7fe", "abcde"},
		{"line breaks", "a\nb\r\nc\rd\u2028e\u2029f\u0085g\vh\fi", "a b c d e f g h i"},
		{"two breaks, two spaces", "a\n\nb", "a  b"},
		{"tab", "a\tb", "a b"},
		{"bidi", "a\u200eb\u200fc\u202ed\u202ce\u2066f\u2069g\u061ch", "abcdefgh"},
		{"zero width", "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u034fh\u180ei", "abcdefghi"},
		{"fillers", "a\u3164b\u115fc\uffa0d\u17b4e\u17b5\ufff9", "abcde"},
		{"tags", "a\U000e0041\U000e007fb\U000e0100c", "abc"},
		{"joined emoji come apart", "👨\u200d👩\u200d👧", "👨👩👧"},
		{"selector behind an emoji stays", "❤\ufe0f ok", "❤\ufe0f ok"},
		{"selector elsewhere goes", "a\ufe0fb1\ufe0fc\ufe01", "ab1c"},
		{"a second selector goes", "❤\ufe0f\ufe0f", "❤\ufe0f"},
		{"selector behind what was dropped", "❤\u200d\ufe0f", "❤\ufe0f"},
		{"private use, unassigned, noncharacter", "a\ue0b0b\u0378c\ufffed\U000f0000", "a\ufffdb\ufffdc\ufffdd\ufffd"},
		{"invalid UTF-8", "a\xffb\xe4\xb8c\xc0\x80", "a\ufffdb\ufffd\ufffdc\ufffd\ufffd"},
		{"surrogate in UTF-8", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"U+FFFD itself", "a\ufffdb", "a\ufffdb"},
		{"scripts", "é 世界 한국 кот ελ עברית हिन्दी ไทย 🇩🇪 👍🏽", "é 世界 한국 кот ελ עברית हिन्दी ไทย 🇩🇪 👍🏽"},
		{"young emoji", "\U0001fae9", "\U0001fae9"},
		{"spaces of other kinds", "a\u00a0b\u3000c", "a\u00a0b\u3000c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Clean(c.in); got != c.want {
				t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.want)
			}
			if got := string(Clean([]byte(c.in))); got != c.want {
				t.Errorf("Clean([]byte(%q)) = %q, want %q", c.in, got, c.want)
			}
			if got := CleanLong(c.in); got != c.want {
				t.Errorf("CleanLong(%q) = %q, want %q", c.in, got, c.want)
			}
			if got := Changes(c.in); got != (c.in != c.want) {
				t.Errorf("Changes(%q) = %v", c.in, got)
			}
		})
	}
}

func TestCleanLimits(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     int // bytes
	}{
		{"at the limit of graphemes", strings.Repeat("x", 512), 512},
		{"over it", strings.Repeat("x", 513), 512},
		{"wide ones reach the bytes first", strings.Repeat("世", 400), 1023},
		{"emoji fill the bytes exactly", strings.Repeat("👍", 300), 1024},
		{"emoji that would pass the bytes by one", "x" + strings.Repeat("👍", 300), 1021},
		{"a grapheme is not split", strings.Repeat("e\u0301\u0302\u0303", 200), 1022},
		{"accents count with their letter", strings.Repeat("e\u0301", 300), 900},
		{"one grapheme of marks alone", "e" + strings.Repeat("\u0301", 2000), 1023},
		{"what is removed does not count", strings.Repeat("\x1b[31mx", 512), 512},
		{"flags", strings.Repeat("🇩🇪", 200), 1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Clean(c.in)
			if len(got) != c.want {
				t.Errorf("%d bytes, want %d", len(got), c.want)
			}
			if !utf8.ValidString(got) {
				t.Error("cut inside a character")
			}
			if Changes(got) {
				t.Error("cleaning again changes it")
			}
		})
	}
	if long := strings.Repeat("x", 5000); CleanLong(long) != long {
		t.Error("CleanLong cut")
	}
}

func TestCleanTextIsReturnedItself(t *testing.T) {
	for _, s := range []string{"Processing chunk 47/200", "世界 é 👍", strings.Repeat("x", 600)} {
		b := []byte(s)
		if allocs := testing.AllocsPerRun(50, func() { b = Clean(b) }); allocs != 0 {
			t.Errorf("%q: %v allocations", s, allocs)
		}
	}
}

func TestCommonRangesAreVisible(t *testing.T) {
	for r := rune(0xa0); r < 0x20000; r++ {
		if !common(r) {
			continue
		}
		if !unicode.IsGraphic(r) || ignorable(r) {
			t.Errorf("%U is taken for visible", r)
		}
	}
}

// checkClean fails if s could do more in a terminal than be seen.
func checkClean(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("%q is not valid UTF-8", s)
	}
	for _, r := range s {
		switch {
		case r < 0x20, r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029:
			t.Fatalf("%q holds the control %U", s, r)
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Bidi_Control, r), unicode.Is(unicode.Join_Control, r),
			unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), r >= 0xfe00 && r <= 0xfe0d:
			t.Fatalf("%q holds the invisible %U", s, r)
		}
	}
}

// fault 42
func FuzzClean(f *testing.F) {
	for _, s := range []string{
		"\x1b[2J\x1b]52;c;ZXZpbA==\x07red", "\u009b31m\u009d0;x\u009c", "a\xff\u202e\u200b❤\ufe0f", "\x1bP\x1b\\\x1bO",
		"👨\u200d👩\u200d👧🇩🇪", strings.Repeat("e\u0301", 600), "\r\n\t\u2028", "\x1b]0;x\x1b[31mred\x18\x1a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		checkClean(t, got)
		if len(got) > MaxBytes {
			t.Fatalf("%d bytes", len(got))
		}
		n := 0
		for g := graphemes.FromString(got); g.Next(); n++ {
		}
		if n > MaxGraphemes {
			t.Fatalf("%d graphemes", n)
		}
		if again := Clean(got); again != got || Changes(got) {
			t.Fatalf("%q cleans to %q", got, again)
		}
		if Changes(s) != (got != s) {
			t.Fatalf("Changes(%q) = %v, cleaned %q", s, Changes(s), got)
		}
		if b := Clean([]byte(s)); string(b) != got {
			t.Fatalf("bytes clean to %q, text to %q", b, got)
		}
		long := CleanLong(s)
		checkClean(t, long)
		if !strings.HasPrefix(long, got) {
			t.Fatalf("%q is no head of %q", got, long)
		}
	})
}

func BenchmarkClean(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"ascii", "Processing chunk 47/200"},
		{"wide", strings.Repeat("世界", 22)},
		{"hostile", "\x1b[2J\x1b]52;c;ZXZpbA==\x07red \u202eevil"},
	} {
		text := []byte(c.text)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Clean(text)
			}
		})
	}
}
