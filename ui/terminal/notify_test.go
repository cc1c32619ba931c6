package terminal

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

const hostile = "STALLED a #1\x1b]52;c;aGk=\a: \u009b2Jno work; \u202elimit 5m."

func TestNoticeSequence(t *testing.T) {
	const (
		nine   = "\x1b]9;sessionwatch prod: STALLED a #1: no work; limit 5m.\a"
		notify = "\x1b]777;notify;sessionwatch prod;STALLED a #1: no work; limit 5m.\a"
	)
	for name, c := range map[string]struct {
		environ string
		want    string
	}{
		"a terminal that is not known":   {"TERM=xterm-256color", nine + notify},
		"one that knows both":            {"TERM=xterm-256color TERM_PROGRAM=WezTerm", nine},
		"kitty":                          {"TERM=xterm-kitty", nine},
		"one that is built on VTE":       {"TERM=xterm-256color VTE_VERSION=7600", notify},
		"rxvt":                           {"TERM=rxvt-unicode-256color", notify},
		"one that can do nothing":        {"TERM=dumb", ""},
		"the Linux console":              {"TERM=linux", ""},
		"no terminal at all":             {"", ""},
		"tmux, whatever it runs in":      {"TERM=tmux-256color TMUX=/tmp/tmux-1000/default,1,0 TERM_PROGRAM=tmux", "\x1bPtmux;\x1b" + nine + "\x1b\\\x1bPtmux;\x1b" + notify + "\x1b\\"},
		"tmux that was started in kitty": {"TERM=screen TMUX=x VTE_VERSION=7600", "\x1bPtmux;\x1b" + nine + "\x1b\\\x1bPtmux;\x1b" + notify + "\x1b\\"},
	} {
		if got := noticeSequence(strings.Fields(c.environ), "sessionwatch prod", hostile); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
	if got := noticeSequence([]string{"TERM=rxvt"}, "a;b", strings.Repeat("long ", 100)); !strings.HasPrefix(got, "\x1b]777;notify;a,b;long") || len(got) > 300 {
		t.Errorf("got %q", got)
	}
}

// TestBellAndNoticeOnATerminal looks at the bytes that a terminal gets.
func TestBellAndNoticeOnATerminal(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close(); _ = slave.Close() }()
	term, err := Open(Config{In: slave, Out: slave, Env: []string{"TERM=xterm-kitty"}})
	if err != nil {
		t.Fatal(err)
	}
	term.Ring()
	term.Notify("sessionwatch", hostile)
	want := "\a\x1b]9;sessionwatch: STALLED a #1: no work; limit 5m.\a"
	if got := readFrom(t, master, len(want)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	term.Close() // what it writes now undoes modes, and is read by nobody
	term.Ring()
	term.Notify("sessionwatch", "late")
}

// readFrom reads so many bytes.
func readFrom(t *testing.T, f *os.File, n int) string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		var text []byte
		for buf := make([]byte, 1024); len(text) < n; {
			k, err := f.Read(buf)
			if text = append(text, buf[:k]...); err != nil {
				break
			}
		}
		got <- string(text)
	}()
	select {
	case text := <-got:
		return text
	case <-time.After(10 * time.Second):
		t.Fatal("the terminal gets nothing")
		return ""
	}
}
