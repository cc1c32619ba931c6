package terminal

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

func TestQuestionsAndTheirAnswers(t *testing.T) {
	for _, c := range []struct {
		asks, answer string
		what         question
	}{
		{"\x1b[6n", "\x1b[2;6R", askCursor},
		{"\x1b[?2026$p", "\x1b[?2026;2$y", askMode},
		{"\x1b[?2027$p", "\x1b[?2027;0$y", askMode},
		{"\x1b]11;?\a", "\x1b]11;rgb:0000/0000/0000\x1b\\", askColour},
		{"\x1b]10;?\x1b\\", "\x1b]10;rgb:ffff/ffff/ffff\a", askColour},
		{"\x1b[c", "\x1b[?62;1;6;22c", askAttribute},
		{"\x1b[?2026h", "\x1b[1;2R", noQuestion}, // shift+F3
		{"\x1b]11;#000000\a", "\x1b[27u", noQuestion},
		{"\x1b]2;title?\a", "\x1bOR", noQuestion},
		{"\x1b[0m", "\x1b[<0;1;5M", noQuestion},
		{"\x1b[2J", "\x1b[I", noQuestion},
	} {
		got := noQuestion
		sequences([]byte(c.asks), func(seq []byte) { got = asks(seq) })
		if got != c.what {
			t.Errorf("%q asks %d, want %d", c.asks, got, c.what)
		}
		var f Filter
		f.Feed(nil, []byte(c.answer), time.Unix(1000, 0))
		if got := append(f.answers(), noQuestion)[0]; got != c.what {
			t.Errorf("%q answers %d, want %d", c.answer, got, c.what)
		}
	}
}

// An answer that came in pieces, too late to be delivered, is one.
func TestAnAnswerThatIsSwallowedIsHeard(t *testing.T) {
	var f Filter
	now := time.Unix(1000, 0)
	out := f.Feed(nil, []byte("\x1b[?2027"), now)
	out = f.Feed(out, []byte(";0$y"), now.Add(SequenceHold+time.Second))
	if heard := f.answers(); len(out) > 0 || len(heard) != 1 || heard[0] != askMode {
		t.Errorf("%q, heard %v", out, heard)
	}
}

func TestWhatIsStillToBeAnswered(t *testing.T) {
	now := time.Unix(1000, 0)
	var q questions
	for _, what := range []question{askCursor, askMode, askMode, askColour} {
		q.ask(what, now)
	}
	q.answered(askAttribute) // that nobody asked for
	q.answered(askMode)      // the first of two; the cursor's will not come any more
	if len(q.open) != 2 || !q.waiting(now) {
		t.Errorf("open: %v", q.open)
	}
	if q.waiting(now.Add(answerAge)) {
		t.Error("a mute terminal is waited for")
	}
	q.answered(askColour) // terminals answer in order
	if q.owed() || q.waiting(now) {
		t.Errorf("open: %v", q.open)
	}
}

// What is typed behind the last answer was typed after the screen had gone: it is
// the shell's. What comes before that, answers and keys, is nobody's.
func TestNothingBehindTheLastAnswerIsTaken(t *testing.T) {
	master, slave := openPair(t)
	go answerLast(master, "\x1b[2;6R\x1b[?2026;2$yx\x1b[?2027;0$y", "\x1b[?62c", "ls\r")
	terminal, err := Open(Config{In: slave, Out: slave, Env: []string{"TERM=xterm-256color", "LANG=C.UTF-8"}})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	terminal.AwaitAnswers(20 * time.Second)
	if _, err := terminal.Run(t.Context(), doing{tea.Quit}, Options{Capabilities: Probe(terminal.env)}); err != nil {
		t.Fatal(err)
	}
	if !pollFor(int(slave.Fd()), unix.POLLIN, 10*time.Second) {
		t.Fatal("nothing is left to be read")
	}
	buf := make([]byte, 4096)
	if n, err := terminal.in.Read(buf); n > 0 || err != nil { // Bubble Tea's reader goes on after a fault
		t.Errorf("the program reads on: %q, %v", buf[:n], err)
	}
	n, err := unix.Read(int(slave.Fd()), buf)
	if got := string(buf[:max(n, 0)]); err != nil || got != "ls\r" {
		t.Errorf("left for the shell: %q, %v", got, err)
	}
}

// answerLast is a terminal that gives all its answers when it is asked the last
// question, and then types.
func answerLast(master *os.File, answers, last, typed string) {
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		seen.Write(buf[:n])
		if bytes.Contains(seen.Bytes(), []byte(fence)) {
			_, _ = io.WriteString(master, answers+last+typed)
			return
		}
		if err != nil {
			return
		}
	}
}

// A terminal that has answered everything is not asked again, and one that is
// mute not waited for.
func TestNoQuestionsAtTheEnd(t *testing.T) {
	master, slave := openPair(t)
	o := newOutput(slave, nil)
	defer o.shut()
	_, _ = o.Write([]byte("\x1b[6nend"))
	read(t, master, "end")
	o.asked.answered(askCursor)
	if o.seal(time.Second) {
		t.Error("asked again although it has answered")
	}
	if out := read(t, master, "\x1b[m"); bytes.Contains([]byte(out), []byte(fence)) {
		t.Errorf("asked: %q", out)
	}
	in := newInput(slave, nil)
	defer in.shut()
	in.asked.ask(askCursor, time.Now())
	if in.settle(time.Millisecond) {
		t.Error("a mute terminal has answered")
	}
	if in.asked.owed() {
		t.Error("it is waited for again")
	}
}
