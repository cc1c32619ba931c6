package terminal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// arrival is one piece of input and how long after the one before it came.
type arrival struct {
	after time.Duration
	bytes string
}

// play feeds arrivals as the edge would: time-outs that are due in between
// expire on time. It ends after a long silence.
func play(f *Filter, arrivals ...arrival) string {
	now := f.last
	if now.IsZero() {
		now = time.Unix(1000, 0)
	}
	var out []byte
	for _, a := range append(arrivals, arrival{after: time.Minute}) {
		next := now.Add(a.after)
		if due, ok := f.Due(); ok && due.Before(next) {
			out = f.Expire(out, due)
		}
		now = next
		out = f.Feed(out, []byte(a.bytes), now)
	}
	return string(out)
}

func whole(s string) string { return play(new(Filter), arrival{bytes: s}) }

// keys is what Bubble Tea's decoder makes of filtered input.
func keys(s string) (printable []string) {
	var d uv.EventDecoder
	buf := []byte(s)
	for len(buf) > 0 {
		n, ev := d.Decode(buf)
		switch ev := ev.(type) {
		case uv.KeyPressEvent:
			if ev.Text != "" {
				printable = append(printable, ev.Text)
			}
		case uv.UnknownEvent:
			printable = append(printable, fmt.Sprintf("unknown %q", string(ev)))
		}
		buf = buf[max(n, 1):]
	}
	return printable
}

// sequences that terminals send, none of which holds a printable key.
var sequenceTable = []string{
	"\x1b[A", "\x1b[1;5C", "\x1b[3~", "\x1b[27;5;106~", "\x1b[106;5u", "\x1b[27u",
	"\x1bOS", "\x1bOA", "\x1bO5P", "\x1b[[A", "\x1b[[E",
	"\x1b[<0;12;7M", "\x1b[<35;112;43m", "\x1b[M !\"",
	"\x1b]11;rgb:1e1e/2e2e/3e3e\x1b\\", "\x1b]11;rgb:ffff/ffff/ffff\a", "\x1b]52;c;aGVsbG8=\x1b\\",
	"\x1b[?2026;2$y", "\x1b[?1u", "\x1b[?62;22;52c", "\x1b[12;40R", "\x1b[I", "\x1b[O",
	"\x1bP1+r524742=38\x1b\\", "\x1bP>|tmux 3.3a\x1b\\", "\x1b_Gi=1;OK\x1b\\",
	"\x1b[200~hello jjR\ny\x1b[201~",
}

func TestWholeInputPassesUnchanged(t *testing.T) {
	for _, s := range append(sequenceTable, "j", "é", "漢", "🧪", "\x1bj", "\x1b\r", "\x1b\x7f", "\x03", "abc\x1b[Adef") {
		want := s
		if strings.HasPrefix(s, "\x1b[[") {
			want = map[string]string{"\x1b[[A": "\x1b[11~", "\x1b[[E": "\x1b[15~"}[s]
		}
		if got := whole(s); got != want {
			t.Errorf("%q came out as %q", s, got)
		}
	}
}

func TestLoneEscapeIsAKeyAfterFiftyMilliseconds(t *testing.T) {
	f := new(Filter)
	start := time.Unix(0, 0)
	if out := f.Feed(nil, []byte("\x1b"), start); len(out) != 0 {
		t.Fatalf("at once: %q", out)
	}
	due, ok := f.Due()
	if !ok || due.Sub(start) != EscapeHold {
		t.Fatalf("due %v %v", due.Sub(start), ok)
	}
	if out := f.Expire(nil, due.Add(-1)); len(out) != 0 {
		t.Fatalf("early: %q", out)
	}
	if out := f.Expire(nil, due); string(out) != escapeKey {
		t.Fatalf("on time: %q", out)
	}
	if got := whole("\x1b\x1b"); got != escapeKey+escapeKey {
		t.Errorf("twice: %q", got)
	}
}

// A pause after the first ESC decides between a key and a sequence, so there
// the limit is EscapeHold; anywhere else it is SequenceHold.
func TestShortPausesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(sequenceTable, "j", "é", "漢", "🧪", "\x03", " ")), 1, 4).Draw(t, "input"), "")
		var pieces []arrival
		for i := 0; i < len(s); {
			n := rapid.IntRange(1, min(6, len(s)-i)).Draw(t, "n")
			limit := SequenceHold
			if i > 0 && s[i-1] == esc {
				limit = EscapeHold
			}
			pause := time.Duration(rapid.Int64Range(0, int64(limit-1)).Draw(t, "pause"))
			pieces = append(pieces, arrival{pause, s[i : i+n]})
			i += n
		}
		if got, want := play(new(Filter), pieces...), whole(s); got != want {
			t.Fatalf("%v\ngave %q\nwant %q", pieces, got, want)
		}
	})
}

func TestEverySplitInTwo(t *testing.T) {
	for _, s := range sequenceTable {
		want := whole(s)
		for i := 1; i < len(s); i++ {
			pause := SequenceHold - 1
			if i == 1 || strings.HasSuffix(s[:i], "\x1b") {
				pause = EscapeHold - 1
			}
			if got := play(new(Filter), arrival{0, s[:i]}, arrival{pause, s[i:]}); got != want {
				t.Errorf("%q | %q gave %q", s[:i], s[i:], got)
			}
		}
	}
}

// However long the pauses, within the limits that are promised, no sequence
// ever gives a printable key. (In a paste a long silence and a single key mean
// that a person waits; see TestStuckPaste.)
func TestLongPausesNeverMakeKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(sequenceTable[:len(sequenceTable)-1]).Draw(t, "sequence")
		var pieces []arrival
		for i := 0; i < len(s); {
			n := rapid.IntRange(1, len(s)-i).Draw(t, "n")
			pause := time.Duration(rapid.Int64Range(0, int64(EscapeEcho-1)).Draw(t, "pause"))
			pieces = append(pieces, arrival{pause, s[i : i+n]})
			if len(pieces) > 8 {
				n = len(s) - i
				pieces[len(pieces)-1].bytes = s[i:]
			}
			i += n
		}
		f := new(Filter)
		got := play(f, pieces...)
		if k := keys(got); len(k) > 0 {
			t.Fatalf("%v\ngave %q: keys %q", pieces, got, k)
		}
		if after := play(f, arrival{bytes: "q"}); after != "q" {
			t.Fatalf("a key after all that: %q", after)
		}
	})
}

func TestRestsAreSwallowed(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name string
		in   []arrival
		want string
	}{
		{"arrow behind a lone escape", []arrival{{0, "\x1b"}, {300 * ms, "[A"}}, escapeKey},
		{"its letter apart", []arrival{{0, "\x1b"}, {300 * ms, "["}, {300 * ms, "A"}}, escapeKey},
		{"function key", []arrival{{0, "\x1b"}, {999 * ms, "OS"}}, escapeKey},
		{"colour answer", []arrival{{0, "\x1b"}, {80 * ms, "]11;rgb:1234/5678/9abc\x1b\\"}}, escapeKey},
		{"mouse", []arrival{{0, "\x1b"}, {80 * ms, "[<0;1;1M"}, {0, "j"}}, escapeKey + "j"},
		{"paste", []arrival{{0, "\x1b"}, {80 * ms, "[200~R\nyy\x1b[201~"}, {0, "j"}}, escapeKey + "j"},
		{"start of a paste in two, late", []arrival{{0, "\x1b[200"}, {700 * ms, "~Ryy\x1b[201~j"}}, "j"},
		{"after a second it is a key", []arrival{{0, "\x1b"}, {1001 * ms, "["}}, escapeKey + "["},
		{"other keys pass", []arrival{{0, "\x1b"}, {200 * ms, "j"}, {10 * ms, "]"}}, escapeKey + "j]"},
		{"capital X is no introducer", []arrival{{0, "\x1b"}, {200 * ms, "X"}}, escapeKey + "X"},
		{"a person types ] and j", []arrival{{0, "\x1b"}, {400 * ms, "]"}, {200 * ms, "j"}, {100 * ms, "k"}}, escapeKey + "jk"},
		{"late rest", []arrival{{0, "\x1b[1;"}, {700 * ms, "5A"}, {0, "j"}}, "j"},
		{"very late rest", []arrival{{0, "\x1b[<0;1"}, {4900 * ms, "2;5M"}}, ""},
		{"late rest of an answer", []arrival{{0, "\x1b]11;rgb:12"}, {900 * ms, "34/1/1"}, {900 * ms, "\a"}, {0, "j"}}, "j"},
		{"half a rune", []arrival{{0, "\xc3"}, {600 * ms, "\xa9"}, {0, "j"}}, "j"},
		{"ctrl+c in an answer that does not end", []arrival{{0, "\x1b]11;rgb:"}, {10 * ms, "\x03"}}, "\x03"},
		{"ctrl+c in a control", []arrival{{0, "\x1b[1"}, {10 * ms, "\x03"}}, "\x03"},
		{"end of a paste that is over", []arrival{{0, "\x1b[201~j"}}, "j"},
		{"text in an answer beyond ASCII", []arrival{{0, "\x1b]2;caf\xc3\xa9 \xc5\x9c\x1b\\j"}}, "j"},
		{"too many parameters", []arrival{{0, "\x1b[" + strings.Repeat("1;", 40) + "5Aj"}}, "j"},
		{"endless control", []arrival{{0, "\x1b[" + strings.Repeat("1", 3000) + "Aj"}}, "j"},
		{"endless answer", []arrival{{0, "\x1b]52;c;" + strings.Repeat("A", 5000) + "\x1b\\j"}}, "j"},
		{"string cut by a key sequence", []arrival{{0, "\x1b]11;rgb\x1b[Aj"}}, "\x1b[Aj"},
		{"C1", []arrival{{0, "\x9b\xff\x80j"}}, "j"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := play(new(Filter), tt.in...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// An answer that never ends costs keys for ten seconds at most.
func TestUnendedAnswerGivesTheKeyboardBack(t *testing.T) {
	pieces := []arrival{{0, "\x1b]11;rgb:"}}
	for range 120 {
		pieces = append(pieces, arrival{100 * time.Millisecond, "j"})
	}
	got := play(new(Filter), pieces...)
	if n := strings.Count(got, "j"); n < 20 || n > 21 {
		t.Errorf("%d of 120 keys in 12 s came through, want those after ten", n)
	}
}

func TestStuckPaste(t *testing.T) {
	f := new(Filter)
	got := play(f, arrival{0, "\x1b[200~text"}, arrival{1200 * time.Millisecond, "j"}, arrival{100 * time.Millisecond, "k"})
	if want := pasteStart + "text" + pasteEnd + "k"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if f.Counts().StuckPastes != 1 {
		t.Errorf("%+v", f.Counts())
	}
	slow := play(new(Filter), arrival{0, "\x1b[200~one "}, arrival{3 * time.Second, "two and three"}, arrival{3 * time.Second, "\x1b[201~"})
	if want := pasteStart + "one two and three" + pasteEnd; slow != want {
		t.Errorf("a slow paste: %q", slow)
	}
	split := play(new(Filter), arrival{0, "\x1b[200~one"}, arrival{3 * time.Second, "\x1b"}, arrival{100 * time.Millisecond, "[201~"}, arrival{0, "j"})
	if want := pasteStart + "one" + pasteEnd + "j"; split != want {
		t.Errorf("its end split after a silence: %q", split)
	}
}

// fault 45
func TestPasteIsCleanedAndBounded(t *testing.T) {
	got := whole("\x1b[200~a\x1b]b\x00\x07\tc\r\n\xc3(\xc2\x9bd\xf0\x9f\xa7\xaa\x1b[20e\x1b[201~")
	if want := pasteStart + "a]b\tc\r\n(d🧪[20e" + pasteEnd; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f := new(Filter)
	big := play(f, arrival{0, pasteStart + strings.Repeat("x", maxPaste+5) + pasteEnd})
	if want := len(pasteStart) + maxPaste + len(pasteEnd); len(big) != want || f.Counts().PasteBytes != 5 {
		t.Errorf("%d bytes, want %d; %+v", len(big), want, f.Counts())
	}
}

func TestCounts(t *testing.T) {
	f := new(Filter)
	play(f, arrival{0, "\x1b[1"}, arrival{time.Hour, "\x1b"}, arrival{100 * time.Millisecond, "[A"}, arrival{time.Hour, "\x1b[\x03\xff"})
	if diff := cmp.Diff(Counts{Unfinished: 1, Continuations: 1, Malformed: 2}, f.Counts()); diff != "" {
		t.Error(diff)
	}
}

func TestAwaitedColumnIsKept(t *testing.T) {
	f := new(Filter)
	f.AwaitColumn(2)
	got := play(f, arrival{0, "\x1b[1;5Rj\x1b[2;1"}, arrival{100 * time.Millisecond, "1R\x1b[2;8R"})
	if want := "\x1b[1;5Rj\x1b[2;8R"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if c := f.Column(); c != 11 {
		t.Errorf("column %d", c)
	}
	if c := f.Column(); c != 0 {
		t.Errorf("given twice: %d", c)
	}
}

// FuzzFilter checks what must hold for any bytes at any pace: the output stays
// within bounds, holds nothing that a decoder must wait for, and ctrl+c gets
// through in the end.
func FuzzFilter(f *testing.F) {
	for _, s := range sequenceTable {
		f.Add([]byte(s), uint16(100))
	}
	f.Fuzz(func(t *testing.T, in []byte, pace uint16) {
		filter := new(Filter)
		var pieces []arrival
		for i := 0; i < len(in); i += 7 {
			pieces = append(pieces, arrival{time.Duration(pace) * time.Millisecond, string(in[i:min(i+7, len(in))])})
		}
		out := play(filter, pieces...)
		if len(out) > maxExpansion*len(in)+2*maxSequence {
			t.Fatalf("%d bytes from %d", len(out), len(in))
		}
		if strings.HasSuffix(out, "\x1b") {
			t.Fatalf("ends in an open escape: %q", out)
		}
		if after := play(filter, arrival{2 * time.Second, "\x03"}, arrival{0, "\x03"}); !strings.Contains(after, "\x03") {
			t.Fatalf("ctrl+c is dead after %q: %q", in, after)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	in := []byte(strings.Repeat("jjk\x1b[A\x1b[<35;100;40M", 20))
	now := time.Unix(0, 0)
	f := new(Filter)
	var out []byte
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		out = f.Feed(out[:0], in, now)
	}
}
