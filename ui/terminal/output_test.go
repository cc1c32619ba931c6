package terminal

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/charmbracelet/x/term"
)

// openPair is a pseudo-terminal in raw mode: what is written to the second
// comes out of the first.
func openPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
	if _, err := term.MakeRaw(slave.Fd()); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// read takes what the terminal would, until it has seen the end.
func read(t *testing.T, master *os.File, end string) string {
	t.Helper()
	var got bytes.Buffer
	buf := make([]byte, 1<<16)
	for !strings.HasSuffix(got.String(), end) {
		if !pollFor(int(master.Fd()), unix.POLLIN, 10*time.Second) {
			t.Fatalf("no more output; the last 200 bytes are %q", got.String()[max(0, got.Len()-200):])
		}
		n, err := master.Read(buf)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		got.Write(buf[:n])
	}
	return got.String()
}

// awaitStuck waits until the writer has met a terminal that takes nothing.
func awaitStuck(t *testing.T, o *Output) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); o.Stuck() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a terminal that takes nothing is not called stuck")
		}
	}
}

func TestOutputDropsWholeFramesUntilARepaint(t *testing.T) {
	defer goleak.VerifyNone(t)
	master, slave := openPair(t)
	asked := make(chan struct{}, 8)
	o := newOutput(slave, func() { asked <- struct{}{} })
	defer o.shut()

	frame := strings.Repeat("x", 20<<10)
	for range 20 {
		if n, err := o.Write([]byte(frame)); n != len(frame) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	dropped := int(o.Dropped())
	if dropped == 0 || dropped >= 20 {
		t.Fatalf("%d of 20 frames dropped", dropped)
	}
	// Lasting sequences survive, the newest of each; text does not.
	_, _ = o.Write([]byte("\x1b[?1002h\x1b]2;one\aGONE"))
	_, _ = o.Write([]byte("\x1b]2;two\a\x1b[?1002l\x1b[?2026h\x1b[31mGONE\x1b[?2026l"))
	_, _ = o.Write([]byte("\x1b[H\x1b[2Jtoo early, the terminal is not drained"))
	awaitStuck(t, o)
	passed := 20 - dropped
	got := read(t, master, frame)
	for len(got) < passed*len(frame) {
		got += read(t, master, "x")
	}
	<-asked
	if o.Stuck() != 0 {
		t.Error("still stuck after it drained")
	}
	_, _ = o.Write([]byte("a difference to what was lost"))
	_, _ = o.Write([]byte("\x1b[H\x1b[2Jnew"))
	_, _ = o.Write([]byte("+diff"))
	if got := read(t, master, "+diff"); got != "\x1b]2;two\a\x1b[?1002l\x1b[H\x1b[2Jnew+diff" {
		t.Errorf("after the repaint: %q", got)
	}
}

func TestOutputTakesAnyFrameWhenItIsIdle(t *testing.T) {
	defer goleak.VerifyNone(t)
	master, slave := openPair(t)
	o := newOutput(slave, nil)
	defer o.shut()
	frame := strings.Repeat("y", 3*maxQueued) + "end"
	_, _ = o.Write([]byte(frame))
	if got := read(t, master, "end"); got != frame || o.Dropped() != 0 {
		t.Errorf("%d of %d bytes, %d dropped", len(got), len(frame), o.Dropped())
	}
	if !o.Flush(10 * time.Second) {
		t.Error("not flushed")
	}
}

func TestSealUndoesWhatWentOut(t *testing.T) {
	defer goleak.VerifyNone(t)
	master, slave := openPair(t)
	o := newOutput(slave, nil)
	defer o.shut()
	_, _ = o.Write([]byte("\x1b[?1049h\x1b[?25l\x1b[>1u"))
	_ = read(t, master, "\x1b[>1u")
	if !o.Flush(10 * time.Second) {
		t.Fatal("not flushed")
	}
	o.seal(time.Second)
	_, _ = o.Write([]byte("too late"))
	o.seal(time.Second)
	const want = "\x1b\\\x1b[m\x1b[<1u\x1b[?1049l\x1b[?25h" + "\x1b\\\x1b[m"
	if got := read(t, master, want); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	o.unseal()
	_, _ = o.Write([]byte("again"))
	if got := read(t, master, "again"); got != "again" {
		t.Errorf("after unsealing: %q", got)
	}
}

func TestSealOnATerminalThatTakesNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	master, slave := openPair(t)
	o := newOutput(slave, nil)
	defer o.shut()
	_, _ = o.Write([]byte("\x1b[?1049h" + strings.Repeat("z", 1<<20)))
	awaitStuck(t, o)
	start := time.Now()
	o.seal(restoreLimit)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := read(t, master, "\x1b[?1049l"); len(got) > 1<<19 {
		t.Errorf("%d bytes of the frame were still shown", len(got))
	}
}

func TestWritesAfterAHangUpAreThrownAway(t *testing.T) {
	defer goleak.VerifyNone(t)
	master, slave := openPair(t)
	o := newOutput(slave, nil)
	defer o.shut()
	_ = master.Close()
	for range 3 {
		if n, err := o.Write([]byte("text")); n != 4 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
		o.Flush(10 * time.Second)
	}
	if o.Stuck() != 0 {
		t.Error("stuck on a terminal that is gone")
	}
}

func TestUndo(t *testing.T) {
	for out, want := range map[string]string{
		"text":                          "",
		"\x1b[?1049h":                   "\x1b[?1049l",
		"\x1b[?1049h\x1b[?1049l":        "",
		"\x1b[?25l":                     "\x1b[?25h",
		"\x1b[?25l\x1b[?25h":            "",
		"\x1b[?7l":                      "\x1b[?7h",
		"\x1b[?1002h\x1b[?1006h":        "\x1b[?1002l\x1b[?1006l",
		"\x1b[?1002;1006h\x1b[?1002l":   "\x1b[?1006l",
		"\x1b[?2004h\x1b[?1049h":        "\x1b[?2004l\x1b[?1049l",
		"\x1b[>1u\x1b[>5u\x1b[<u":       "\x1b[<1u",
		"\x1b[<4u\x1b[>1u":              "\x1b[<1u",
		"\x1b[?u\x1b[=1;1u":             "",
		"\x1b[>4;2m":                    "\x1b[>4m",
		"\x1b[>4;2m\x1b[>4m":            "",
		"\x1b[3 q":                      "\x1b[0 q",
		"\x1b[2;10r":                    "\x1b7\x1b[r\x1b8",
		"\x1b[2;10r\x1b[r":              "",
		"\x1b]11;#000000\a":             "\x1b]111\a",
		"\x1b]11;?\a":                   "",
		"\x1b]11;#000000\a\x1b]111\a":   "",
		"\x1b]9;4;1;50\a":               "\x1b]9;4;0\a",
		"\x1b]9;4;1;50\a\x1b]9;4;0\a":   "",
		"\x1b[22;0t":                    "\x1b[23;0t",
		"\x1b[22;0t\x1b[23;0t":          "",
		"\x1b[?2026h\x1b[31mcut off":    "\x1b[?2026l",
		"\x1b]2;title\x1b\\\x1b[?1004h": "\x1b[?1004l",
		"\x1b[":                         "", "\x1b]2;open": "", "\x1b": "", "\x1b[?": "",
	} {
		var m modes
		sequences([]byte(out), m.note)
		got := strings.Replace(string(m.undo()), "\x1b\\", "", 1)
		if got = strings.Replace(got, "\x1b[m", "", 1); got != want {
			t.Errorf("%q is undone by %q, want %q", out, got, want)
		}
	}
}

func FuzzSequences(f *testing.F) {
	f.Add([]byte("a\x1b[?1049hb\x1b]2;x\x1b\\c"))
	f.Fuzz(func(_ *testing.T, p []byte) {
		var m modes
		sequences(p, func(seq []byte) {
			m.note(seq)
			_, _ = lasting(seq)
		})
		_ = m.undo()
	})
}

// BenchmarkOutput compares queueing a frame with copying it, which is the least
// that can be done.
func BenchmarkOutput(b *testing.B) {
	master, slave, err := pty.Open()
	if err != nil {
		b.Fatal(err)
	}
	defer slave.Close()
	defer master.Close()
	if _, err := term.MakeRaw(slave.Fd()); err != nil {
		b.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, master) }()
	o := newOutput(slave, nil)
	defer o.shut()
	frame := []byte("\x1b[H\x1b[2J" + strings.Repeat("\x1b[31mstalled\x1b[m text of a row", 300))

	start := time.Now()
	const rounds = 2000
	for range rounds {
		_ = bytes.Clone(frame)
	}
	floor := float64(time.Since(start)) / rounds
	for b.Loop() {
		_, _ = o.Write(frame)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/floor, "ratio")
}
