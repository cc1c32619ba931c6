package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func texts(lines []Line) []string {
	var out []string
	for _, l := range lines {
		text := l.Text
		if l.Cut {
			text += "\\"
		}
		if l.Partial {
			text += "..."
		}
		out = append(out, text)
	}
	return out
}

func TestLinesAreCutCleanedAndKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"lines", []string{"one\ntwo\n"}, []string{"one", "two"}},
		{"in pieces", []string{"o", "ne\nt", "wo\n"}, []string{"one", "two"}},
		{"CR LF", []string{"one\r\ntwo\r", "\nthree\r\n"}, []string{"one", "two", "three"}},
		{"a progress bar", []string{"10%\r20%\r\r30%"}, []string{"10%", "20%", "30%..."}},
		{"a prompt without an end", []string{"Approve? [y/N] "}, []string{"Approve? [y/N] ..."}},
		{"empty lines", []string{"\n\na\n"}, []string{"", "", "a"}},
		{"escapes", []string{"\x1b[31mred\x1b[0m\x1b]52;c;AAAA\x07 \x1b]0;title\n"}, []string{"red "}},
		{"not UTF-8", []string{"a\xff\xfeb\n"}, []string{"a\ufffd\ufffdb"}},
		{"too long", []string{strings.Repeat("x", maxLine+3) + "\n"}, []string{strings.Repeat("x", maxLine) + "\\", "xxx"}},
	} {
		o := newOutput(1<<20, 1<<20, nil)
		for _, chunk := range c.chunks {
			o.write(Stdout, []byte(chunk), time.Now())
		}
		if diff := cmp.Diff(c.want, texts(o.lines(0, 1000))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestStreamsAreCutApart(t *testing.T) {
	o := newOutput(1<<20, 1<<20, nil)
	o.write(Stdout, []byte("out "), time.Now())
	o.write(Stderr, []byte("err\n"), time.Now())
	o.write(Stdout, []byte("put\n"), time.Now())
	if diff := cmp.Diff([]string{"err", "out put"}, texts(o.lines(0, 9))); diff != "" {
		t.Error(diff)
	}
	if got := o.last(); got != "err" {
		t.Errorf("last line of stderr %q", got)
	}
}

func TestHeadAndTailAreKeptWithinTheBound(t *testing.T) {
	const bound = 64 << 10
	o := newOutput(bound, 1<<10, nil)
	for i := range 20_000 {
		o.write(Stdout, fmt.Appendf(nil, "line %d of a long life\n", i), time.Now())
	}
	all := o.lines(0, 1<<20)
	size := 0
	for i, l := range all {
		size += len(l.Text) + lineCost
		if i > 0 && l.Seq <= all[i-1].Seq {
			t.Fatalf("line %d comes after %d", l.Seq, all[i-1].Seq)
		}
	}
	if size > bound || size < bound*3/4 {
		t.Errorf("%d bytes are kept with a bound of %d", size, bound)
	}
	if all[0].Text != "line 0 of a long life" || all[len(all)-1].Text != "line 19999 of a long life" {
		t.Errorf("from %q to %q", all[0].Text, all[len(all)-1].Text)
	}
	if got := o.lines(-1, 2); len(got) != 2 || got[1].Seq != 20_000 {
		t.Errorf("the newest two: %+v", got)
	}
	if got := o.lines(19_990, 3); len(got) != 3 || got[0].Seq != 19_990 {
		t.Errorf("three from 19990: %+v", got)
	}
}

func TestTheRawTailIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 50).Draw(t, "max")
		r := newRawTail(most)
		var all []byte
		for range rapid.IntRange(0, 30).Draw(t, "writes") {
			chunk := rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(t, "chunk")
			r.write(chunk)
			all = append(all, chunk...)
			mark := int64(rapid.IntRange(0, len(all)).Draw(t, "mark"))
			want := all[max(int(mark), len(all)-most):]
			if got := r.Since(mark); !bytes.Equal(got, want) {
				t.Fatalf("Since(%d) of %d gives %q, want %q", mark, len(all), got, want)
			}
			if r.Mark() != int64(len(all)) {
				t.Fatalf("Mark() = %d, want %d", r.Mark(), len(all))
			}
			if len(r.buf) > 2*most {
				t.Fatalf("%d bytes are held", len(r.buf))
			}
		}
	})
}

func FuzzOutputIsSafeHoweverItIsCut(f *testing.F) {
	f.Add([]byte("a\x1b[2Jb\nc\r\nd"), 3)
	f.Add([]byte("\x1b]52;c;\x1b\\\n\xf0\x9f\x98\x80\u202e"), 1)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		o := newOutput(1<<12, 1<<10, nil)
		at = min(max(at, 0), len(text))
		o.write(Stderr, text[:at], time.Now())
		o.write(Stderr, text[at:], time.Now())
		o.end(time.Now())
		for _, l := range o.lines(0, 1<<20) {
			if !utf8.ValidString(l.Text) || strings.ContainsFunc(l.Text, func(r rune) bool { return r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e' }) {
				t.Fatalf("line %q is not safe", l.Text)
			}
		}
	})
}

func TestALogFileIsOurOwnRegularFile(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{link: "symbolic link", pipe: "", dir: "", filepath.Join(dir, "none", "x"): "cannot be opened"} {
		l, err := openLogFile(path, log)
		if err == nil {
			l.close()
			t.Errorf("%s was taken", path)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, _ := os.ReadFile(victim); string(text) != "precious\n" {
		t.Errorf("the target of the link is %q now", text)
	}
}

func TestALogFileIsAppendedToAndOpenedAnewAfterARotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := openLogFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.write("one")
	holds := func(file, want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s holds %q", file, want), func() bool {
			text, err := os.ReadFile(file)
			return err == nil && string(text) == want
		})
	}
	holds(path, "before\none\n")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	n := 0
	eventually(t, "the new file is written", func() bool {
		n++
		l.write(fmt.Sprintf("after %d", n))
		_, err := os.Stat(path)
		return err == nil
	})
	l.close()
	old, _ := os.ReadFile(path + ".1")
	young, _ := os.ReadFile(path)
	if got := strings.Count(string(old)+string(young), "after"); got != n {
		t.Errorf("%d of %d lines are in the two files", got, n)
	}
}
