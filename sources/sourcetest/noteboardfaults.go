//go:build unix

package sourcetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// vandal gives a store that anybody may write to, and a board on it that has
// begun.
func (h NoteBoardHarness) vandal(t *testing.T) (NoteVandal, watchdog.NoteBoard, watchdog.AlertNote) {
	t.Helper()
	s, all := h.serve(t, 1)
	v, ok := s.(NoteVandal)
	if !ok {
		t.Skip("nobody else can write there")
	}
	first := ack("first#1/stalled", "ops1", 0)
	h.put(t, all[0], first)
	return v, all[0], first
}

// spelled gives notes as the store keeps them.
func (h NoteBoardHarness) spelled(t *testing.T, notes ...watchdog.AlertNote) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, n := range notes {
		text, err := h.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		out[string(n.Key)] = text
	}
	return out
}

func passesJunk(t *testing.T, h NoteBoardHarness) {
	v, b, first := h.vandal(t)
	seen := h.watch(t, b)
	h.sees(t, seen, first)
	junk := map[string][]byte{
		"a#1/stalled": []byte("\x1b[2J\xff\x00"),
		"b#1/stalled": []byte(`{"key":"b#1/stalled","kind":"explode","at":"2026-11-30T03:12:44.120Z","evidence":"1"}`),
		"c#1/stalled": h.spelled(t, ack("another#1/stalled", "ops1", 0))["another#1/stalled"],
		"d#1/stalled": []byte(`{"key":"d#1/stalled","key":"d#1/stalled"}`),
		"e#1/stalled": fmt.Appendf(nil, `{"key":"e#1/stalled","text":"%9000s"}`, "x"),
		"f#1/stalled": []byte(`{"key":"f#1/stalled","kind":"ack","at":"2026-11-30T03:12:44.120Z","evidence":-1}`),
		"g#1/stalled": nil,
		"!odd":        []byte("{}"),
	}
	v.PutRaw(t, junk)
	counter := b.(interface{ Junk() int })
	if !Eventually(h.Patience, func() bool { return counter.Junk() == len(junk) }) {
		t.Errorf("%d entries are counted as no notes, want %d", counter.Junk(), len(junk))
	}
	h.sees(t, seen, first)
	over := ack("a#1/stalled", "ops1", 0)
	h.put(t, b, over) // junk blocks nobody
	long := ack("e#1/stalled", "ops1", 0)
	h.put(t, b, long)
	h.sees(t, seen, first, over, long)
}

func takesNoFuture(t *testing.T, h NoteBoardHarness) {
	v, b, first := h.vandal(t)
	seen := h.watch(t, b)
	far := ack("a#1/stalled", "mallory", 0)
	far.At = time.Now().Add(100 * 365 * 24 * time.Hour)
	v.PutRaw(t, h.spelled(t, far))
	h.sees(t, seen, first)
	ours := ack("a#1/stalled", "ops1", 0)
	h.put(t, b, ours)
	h.sees(t, seen, first, ours)
}

func removesSpent(t *testing.T, h NoteBoardHarness) {
	v, b, first := h.vandal(t)
	old := ack("old#1/stalled", "ops1", -31*24*time.Hour)
	cleared := ack("cleared#1/stalled", "ops1", -8*24*time.Hour)
	cleared.Kind = watchdog.NoteClear
	over := ack("over#1/stalled", "ops1", -40*24*time.Hour)
	over.Kind, over.Until = watchdog.NoteMute, theHour().Add(-31*24*time.Hour)
	lately := ack("lately#1/stalled", "ops1", -24*time.Hour)
	lately.Kind = watchdog.NoteClear
	holds := ack("match/etl-*", "ops1", -40*24*time.Hour)
	holds.Kind, holds.Until = watchdog.NoteMute, theHour().Add(24*time.Hour)
	v.PutRaw(t, h.spelled(t, old, cleared, over, lately, holds))
	last := ack("last#1/stalled", "ops1", 0)
	h.put(t, b, last)
	if n := v.Count(t); n != 4 {
		t.Errorf("%d entries stand after somebody wrote, want first, last, one that was taken back lately, and a mute that holds", n)
	}
	h.sees(t, h.watch(t, b), first, holds, last)
}

func holdsNoMore(t *testing.T, h NoteBoardHarness) {
	if h.Synced && !Soaking() {
		t.Skip("it would take its time to fill")
	}
	v, b, _ := h.vandal(t)
	many := make([]watchdog.AlertNote, watchdog.MaxNotes+20)
	for i := range many {
		many[i] = ack(watchdog.AlertKey(fmt.Sprintf("flood-%d#1/stalled", i)), "mallory", -time.Hour+time.Duration(i)*time.Millisecond)
	}
	v.PutRaw(t, h.spelled(t, many...))
	last := ack("last#1/stalled", "ops1", time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 4*h.Patience)
	defer cancel()
	if err := b.Put(ctx, last); err != nil {
		t.Fatalf("a full board takes no note: %v", err)
	}
	if n := v.Count(t); n > watchdog.MaxNotes {
		t.Errorf("%d entries stand on a board that holds %d", n, watchdog.MaxNotes)
	}
	seen := h.watch(t, b)
	found := func() bool {
		notes, _ := seen.newest()
		for _, n := range notes {
			if n == last {
				return len(notes) <= watchdog.MaxNotes
			}
		}
		return false
	}
	if !Eventually(4*h.Patience, found) {
		notes, told := seen.newest()
		t.Errorf("the newest note is not among the %d that are told (%v)", len(notes), told)
	}
}

func endsNoteCalls(t *testing.T, h NoteBoardHarness) {
	_, all := h.serve(t, 1)
	h.put(t, all[0], ack("first#1/stalled", "ops1", 0))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Put":   func() error { return all[0].Put(over, ack("a#1/stalled", "ops1", 0)) },
		"Watch": func() error { return all[0].Watch(over, func([]watchdog.AlertNote) {}) },
	} {
		Promptly(t, name+" whose context is over", func() {
			if err := call(); err == nil {
				t.Errorf("%s answers although its context is over", name)
			}
		})
	}
}

func saysItHangs(t *testing.T, h NoteBoardHarness) {
	s, all := h.serve(t, 1)
	store, ok := s.(Pausable)
	if !ok {
		t.Skip("this store cannot hang")
	}
	b := all[0]
	first, last := ack("first#1/stalled", "ops1", 0), ack("last#1/stalled", "ops1", 0)
	h.put(t, b, first)
	seen := h.watch(t, b)
	h.sees(t, seen, first)
	store.Pause(t)
	Promptly(t, "Put whose context ends while the store hangs", func() {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := b.Put(ctx, ack("hung#1/stalled", "ops1", 0)); err == nil {
			t.Error("a store that hangs takes a note")
		}
	})
	store.Resume(t)
	if !Eventually(3*h.Patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
		defer cancel()
		return b.Put(ctx, last) == nil
	}) {
		t.Fatal("a store that goes on takes no note")
	}
	if !Eventually(3*h.Patience, func() bool { notes, _ := seen.newest(); return len(notes) >= 2 }) {
		t.Error("a watcher does not see what was written after that")
	}
}

// deaths is how often a store is killed: fifty times in a soak.
func deaths() int {
	if Soaking() {
		return 50
	}
	return 5
}

func sameAfterDeath(t *testing.T, h NoteBoardHarness) {
	s, all := h.serve(t, 2)
	store, ok := s.(Mortal)
	if !ok {
		t.Skip("this store cannot be killed")
	}
	seen := h.watch(t, all[1])
	var want []watchdog.AlertNote
	for i := range deaths() {
		n := ack(watchdog.AlertKey(fmt.Sprintf("death-%d#1/stalled", i)), "ops1", time.Duration(i)*time.Second)
		if !Eventually(3*h.Patience, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
			defer cancel()
			return all[0].Put(ctx, n) == nil
		}) {
			t.Fatalf("nothing can be written after death %d", i)
		}
		want = append(want, n)
		h.sees(t, seen, want...)
		store.Kill(t)
		store.Restart(t)
	}
	late, stop := s.Open(t, false)
	t.Cleanup(stop)
	h.sees(t, h.watch(t, late), want...)
	test, _, _ := strings.Cut(t.Name(), "/")
	Figure(t, "12, 23", fmt.Sprintf("store of notes killed %d times after a write (%s)", len(want), test), "every note that was taken is seen by all, one who comes late too",
		fmt.Sprintf("%d of %d", len(want), len(want)))
}

func leavesNoBoard(t *testing.T, h NoteBoardHarness) {
	s, all := h.serve(t, 1) // what the store itself starts is there before we count
	h.put(t, all[0], ack("first#1/stalled", "ops1", 0))
	before := goleak.IgnoreCurrent()
	b, stop := s.Open(t, false)
	seen := h.watch(t, b)
	Eventually(h.Patience, func() bool { _, told := seen.newest(); return told })
	seen.end(t, h.Patience)
	stop()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
	if err := b.Put(t.Context(), ack("after#1/stalled", "ops1", 0)); err == nil && !h.Lasting {
		t.Error("a board that was closed still writes")
	}
}
