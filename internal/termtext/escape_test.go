package termtext

import "testing"

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain text": "plain text", "é 漢 ✓": "é 漢 ✓",
		"a\x1b[31mb": `a\x1b[31mb`, "tab\tnl\n": `tab\x09nl\x0a`, "\xff\xfe": `\xff\xfe`, "a\u202eb": `a\u{202e}b`,
		"zero\u200bwidth": `zero\u{200b}width`, "\u2028": `\u{2028}`, "\u009b1m": `\u{9b}1m`, "tag\U000e0041": `tag\u{e0041}`, "\x7f": `\x7f`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}

// Whatever comes in, what goes out has nothing left for Clean to change.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "\x1b[2J\x1b]52;c;x\a", "a\u202e\u200d\ufe0f", "\xff\x80é", "\x0e\x1b(0", "❤\ufe0f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := Escape(in)
		if CleanLong(out) != out {
			t.Errorf("%q becomes %q, which cleaning makes %q", in, out, CleanLong(out))
		}
	})
}
