//go:build unix

package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Dumps is a way by which dumps that were asked for come back.
type Dumps interface {
	PublishDump(ctx context.Context, d wire.Dump) error
	// AwaitDump waits for the dump that a command asks for, until ctx ends, and
	// then says why there is none. ready is called once, when nothing that is
	// published from then on can be missed.
	AwaitDump(ctx context.Context, id watchdog.ID, command string, ready func()) (wire.Dump, error)
	// IgnoredDumps counts what came in the place of one that was waited for.
	IgnoredDumps() uint64
}

// DumpRogue is a bus on which a stranger may put anything where a dump that is
// waited for comes.
type DumpRogue interface {
	PutDump(t testing.TB, id watchdog.ID, command string, stored []byte)
}

// DumpHarness is what the suite needs to know of a way of dumps: a way of
// commands that is one of dumps too.
type DumpHarness struct {
	// Serve starts an empty bus; its Commands are Dumps, too.
	Serve func(t testing.TB) CommandBus
	// Most is the longest text that arrives; what is longer is cut.
	Most int
	// Forgets says that nothing is kept for who comes later.
	Forgets bool
	// Alone says that Serve empties one bus for each case.
	Alone bool
	// Brief leaves the longest of all to other buses of the kind.
	Brief bool
	// Patience is how long a change may take; 20 s if it is 0.
	Patience time.Duration
}

// RunDumps proves that dumps come back to who asked, whole or cut with a word of
// it, and nothing else does.
func RunDumps(t *testing.T, h DumpHarness) {
	if h.Patience == 0 {
		h.Patience = 20 * time.Second
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, DumpHarness)
	}{
		{"comes as it was sent", dumpComes},
		{"comes whole, or cut with a word of it", longDumps},
		{"keeps sessions and commands apart", keepsDumpsApart},
		{"is told when none came", noDump},
		{"ignores what was not asked for", ignoresDumps},
		{"comes after the bus was away", dumpAfterOutage},
		{"ends with its bus", dumpsEnd},
		{"stands for who comes later, if nobody asked for it", dumpsStand},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !h.Alone {
				t.Parallel()
			}
			c.run(t, h)
		})
	}
}

func (h DumpHarness) open(t testing.TB, b CommandBus, name string) (Dumps, func()) {
	t.Helper()
	c, stop := b.Open(t, trusting(name))
	return c.(Dumps), stop
}

// awaited is a wait for a dump under way.
type awaited struct {
	done   chan struct{}
	cancel context.CancelFunc
	d      wire.Dump
	err    error
}

// await begins to wait for a dump, and returns when nothing is missed any more.
func (h DumpHarness) await(t testing.TB, on Dumps, id watchdog.ID, command string) *awaited {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &awaited{done: make(chan struct{}), cancel: cancel}
	t.Cleanup(func() { cancel(); <-w.done })
	ready := make(chan struct{})
	go func() {
		defer close(w.done)
		w.d, w.err = on.AwaitDump(ctx, id, command, func() { close(ready) })
	}()
	select {
	case <-ready:
	case <-w.done:
		t.Fatalf("nobody can wait for a dump: %v", w.err)
	case <-time.After(h.Patience):
		t.Fatal("nobody listens for dumps")
	}
	return w
}

func (w *awaited) came(t testing.TB, within time.Duration) wire.Dump {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(within):
		t.Fatalf("no dump came within %v", within)
	}
	if w.err != nil {
		t.Fatalf("no dump came: %v", w.err)
	}
	return w.d
}

// gone ends the wait and gives the reason.
func (w *awaited) gone(t testing.TB, within time.Duration) error {
	t.Helper()
	w.cancel()
	select {
	case <-w.done:
	case <-time.After(within):
		t.Fatal("a wait that is over goes on")
	}
	return w.err
}

func (h DumpHarness) publish(t testing.TB, on Dumps, d wire.Dump) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	if err := on.PublishDump(ctx, d); err != nil {
		t.Fatalf("a dump was not sent: %v", err)
	}
}

// DumpOfCommand is a dump of generation 2 with a text that is not to be printed.
func DumpOfCommand(id watchdog.ID, command string) wire.Dump {
	text := []byte("Current thread 0x1 (most recent call first):\r\n  File \"agent.py\", line 13 in call_tool\x1b[2J\x00\xff\n")
	return wire.Dump{
		ID: string(id) + "@20261130T031244.120Z", Session: id, Generation: 2, BootID: "k3x9", Command: command, At: time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC),
		Reason: "asked", Method: "SIGUSR1", Runtime: "python", PID: 4711, Steps: []wire.DumpStep{{Method: "SIGUSR1", Taken: true, Took: 3 * time.Millisecond}},
		By: "run@there/1", Bytes: int64(len(text)), Text: text,
	}
}

func dumpComes(t *testing.T, h DumpHarness) {
	b := h.Serve(t)
	operator, _ := h.open(t, b, "ops")
	there, _ := h.open(t, b, "run@there/2")
	for i, change := range []func(*wire.Dump){
		func(*wire.Dump) {},
		func(d *wire.Dump) { d.Text, d.Bytes = []byte{}, 0 },
		func(d *wire.Dump) { d.By = "" }, // who sends it says who he is
		func(d *wire.Dump) { d.ID, d.Generation, d.Steps = "", 0, nil },
	} {
		want := DumpOfCommand("team.a:7", fmt.Sprintf("c%d", i))
		change(&want)
		w := h.await(t, operator, want.Session, want.Command)
		h.publish(t, there, want)
		if want.By == "" {
			want.By = "run@there/2"
		}
		if diff := cmp.Diff(want, w.came(t, h.Patience)); diff != "" {
			t.Errorf("dump %d came otherwise:\n%s", i, diff)
		}
	}
}

// longText is one of lines that are told apart.
func longText(size int) []byte {
	var text bytes.Buffer
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "goroutine %d [chan send]:\n", i)
	}
	return text.Bytes()[:size]
}

func longDumps(t *testing.T, h DumpHarness) {
	b := h.Serve(t)
	operator, _ := h.open(t, b, "ops")
	there, _ := h.open(t, b, "run@there/2")
	sizes := []int{900 << 10, 1 << 20, 3<<20 + 7}
	if h.Most > 3<<20 && !h.Brief {
		sizes = append(sizes, wire.MaxDumpBytes+1<<20)
	}
	whole := longText(sizes[len(sizes)-1])
	for i, size := range sizes {
		d := DumpOfCommand("a", fmt.Sprintf("c%d", i))
		d.Text = whole[:size:size]
		w := h.await(t, operator, "a", d.Command)
		h.publish(t, there, d)
		got := w.came(t, h.Patience)
		switch {
		case size <= h.Most:
			if !bytes.Equal(got.Text, d.Text) || got.Truncated {
				t.Errorf("of %d bytes %d came, truncated %v", size, len(got.Text), got.Truncated)
			}
		case !got.Truncated || len(got.Text) > h.Most || len(got.Text) < h.Most*9/10:
			t.Errorf("of %d bytes %d came, truncated %v; up to %d can", size, len(got.Text), got.Truncated, h.Most)
		default:
			lines := strings.Split(strings.TrimSuffix(string(got.Text), "\n"), "\n")
			if last := lines[len(lines)-1]; !strings.Contains(last, "cut: ") || !strings.Contains(last, fmt.Sprint(size)) && size <= wire.MaxDumpBytes {
				t.Errorf("of %d bytes the last line is %q", size, last)
			}
			if body := strings.Join(lines[:len(lines)-1], "\n"); !strings.HasPrefix(string(d.Text), body) {
				t.Error("what was kept is not how it began")
			}
		}
		if got.Bytes != int64(len(got.Text)) {
			t.Errorf("it has %d bytes, and its header says %d", len(got.Text), got.Bytes)
		}
	}
}

func keepsDumpsApart(t *testing.T, h DumpHarness) {
	b := h.Serve(t)
	operator, _ := h.open(t, b, "ops")
	colleague, _ := h.open(t, b, "ops2")
	there, _ := h.open(t, b, "run@there/2")
	ids := []watchdog.ID{"a", "a.b", "a.b.c", "a:b", "日本"}
	waits := map[string]*awaited{}
	for _, id := range ids {
		for _, command := range []string{"c1", "c2"} {
			waits[string(id)+" "+command] = h.await(t, operator, id, command)
		}
		waits[string(id)+" c1 again"] = h.await(t, colleague, id, "c1") // who joins a command has it too
	}
	for _, id := range ids {
		for _, command := range []string{"c2", "c1"} {
			d := DumpOfCommand(id, command)
			d.Text = []byte(string(id) + " " + command)
			h.publish(t, there, d)
		}
	}
	for name, w := range waits {
		if d := w.came(t, h.Patience); string(d.Text) != strings.TrimSuffix(name, " again") {
			t.Errorf("%s got %q of %s", name, d.Text, d.Session)
		}
	}
}

func noDump(t *testing.T, h DumpHarness) {
	operator, _ := h.open(t, h.Serve(t), "ops")
	w := h.await(t, operator, "a", "c1")
	if err := w.gone(t, h.Patience); err == nil || !strings.Contains(err.Error(), "none came") {
		t.Errorf("it is told as %v", err)
	}
}

func ignoresDumps(t *testing.T, h DumpHarness) {
	b := h.Serve(t)
	rogue, ok := b.(DumpRogue)
	if !ok {
		t.Skip("nobody else can write here")
	}
	operator, _ := h.open(t, b, "ops")
	there, _ := h.open(t, b, "run@there/2")
	w := h.await(t, operator, "a", "c1")
	spell := func(change func(*wire.Dump)) []byte {
		d := DumpOfCommand("a", "c1")
		change(&d)
		data, err := wire.EncodeDump(d)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	whole := spell(func(*wire.Dump) {})
	for i, stored := range [][]byte{
		spell(func(d *wire.Dump) { d.Session = "b" }),
		spell(func(d *wire.Dump) { d.Command = "c2" }),
		spell(func(d *wire.Dump) { d.Command = "" }),
		spell(func(d *wire.Dump) { d.Object, d.Bytes, d.Text = "nowhere", 5, nil }),
		whole[:len(whole)-3], append(bytes.Clone(whole), "more"...),
		[]byte("\x1b]52;c;eA==\x07"), []byte("{}\n"), bytes.Repeat([]byte("x"), 900<<10),
	} {
		before := operator.IgnoredDumps()
		rogue.PutDump(t, "a", "c1", stored)
		if !Eventually(h.Patience, func() bool { return operator.IgnoredDumps() > before }) {
			t.Errorf("what was put there as number %d was not counted: %.80q", i, stored)
		}
	}
	h.publish(t, there, DumpOfCommand("a", "c1"))
	if diff := cmp.Diff(DumpOfCommand("a", "c1"), w.came(t, h.Patience)); diff != "" {
		t.Errorf("it came otherwise:\n%s", diff)
	}
	bad := h.await(t, operator, "a", "c3")
	before := operator.IgnoredDumps()
	rogue.PutDump(t, "a", "c3", []byte("nonsense"))
	if !Eventually(h.Patience, func() bool { return operator.IgnoredDumps() > before }) {
		t.Error("nonsense was not counted")
	}
	if err := bad.gone(t, h.Patience); err == nil || !strings.Contains(err.Error(), "ignored") && !strings.Contains(err.Error(), "not it") {
		t.Errorf("that something else came is told as %v", err)
	}
}

func dumpAfterOutage(t *testing.T, h DumpHarness) {
	b := h.Serve(t)
	mortal, ok := b.(Mortal)
	if !ok {
		t.Skip("this bus cannot be killed")
	}
	operator, _ := h.open(t, b, "ops")
	there, _ := h.open(t, b, "run@there/2")
	w := h.await(t, operator, "a", "c1")
	mortal.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := there.PublishDump(ctx, DumpOfCommand("a", "c1")); err == nil {
		t.Error("a dump was sent over a bus that is away")
	}
	mortal.Restart(t)
	if !Eventually(h.Patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_ = there.PublishDump(ctx, DumpOfCommand("a", "c1"))
		select {
		case <-w.done:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}) {
		t.Fatal("nobody hears dumps after the bus is back")
	}
	if diff := cmp.Diff(DumpOfCommand("a", "c1"), w.came(t, h.Patience)); diff != "" {
		t.Errorf("it came otherwise:\n%s", diff)
	}
}

func dumpsEnd(t *testing.T, h DumpHarness) {
	b := h.Serve(t)
	operator, stop := h.open(t, b, "ops")
	w := h.await(t, operator, "a", "c1")
	stop()
	select {
	case <-w.done:
		if w.err == nil {
			t.Errorf("a dump came from nowhere: %+v", w.d)
		}
	case <-time.After(h.Patience):
		t.Fatal("a wait goes on after its bus was closed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	if err := operator.PublishDump(ctx, DumpOfCommand("a", "c1")); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a dump over a bus that is closed: %v", err)
	}
}

// RunDumpsLeaveNothing proves that no goroutine is left of dumps that came, and
// of those that did not. It runs alone.
func RunDumpsLeaveNothing(t *testing.T, h DumpHarness) {
	if h.Patience == 0 {
		h.Patience = 20 * time.Second
	}
	b := h.Serve(t)
	run := func(id watchdog.ID) {
		operator, stop := h.open(t, b, "ops")
		stop = sync.OnceFunc(stop)
		for _, size := range []int{10, 2 << 20} {
			command := fmt.Sprintf("c%d", size)
			d := DumpOfCommand(id, command)
			d.Text = longText(size)
			w := h.await(t, operator, id, command)
			h.publish(t, operator, d)
			w.came(t, h.Patience)
		}
		if err := h.await(t, operator, id, "never").gone(t, h.Patience); err == nil {
			t.Error("a dump came that nobody sent")
		}
		stop()
	}
	run("warm")
	mine := goleak.IgnoreCurrent()
	run("counted")
	goleak.VerifyNone(t, mine)
}
