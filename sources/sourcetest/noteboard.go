//go:build unix

package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// NoteStore is what keeps a board of notes: a server, a file, memory. Mortal and
// the interfaces below show what else can be done to it; a case that needs more
// than a store can is skipped.
type NoteStore interface {
	// Open opens the board as one more process would, and runs it. It returns at
	// once, whatever became of the store. stop ends it and returns when nothing of
	// it runs.
	Open(t testing.TB, readOnly bool) (b watchdog.NoteBoard, stop func())
}

// NoteVandal is a NoteStore into which anybody may write.
type NoteVandal interface {
	// PutRaw writes at the places of alerts, or at places that are none if a key
	// begins with a bang.
	PutRaw(t testing.TB, stored map[string][]byte)
	// Count is how many entries stand in the store, notes or not; -1: nothing was
	// ever created there.
	Count(t testing.TB) int
}

// Pausable is a NoteStore that can be made to hang.
type Pausable interface {
	Pause(t testing.TB)
	Resume(t testing.TB)
}

// NoteBoardHarness is what the suite needs to know of a board.
type NoteBoardHarness struct {
	// Serve starts an empty store.
	Serve func(t testing.TB) NoteStore
	// Encode spells a note as the store keeps it.
	Encode func(watchdog.AlertNote) ([]byte, error)
	// InMemory says that the board keeps values as they are, may always be written
	// to, and has nothing to close.
	InMemory bool
	// Lasting says that a board holds nothing open, so that there is nothing to
	// close.
	Lasting bool
	// Synced says that the store syncs each write to the disk, so that thousands take
	// minutes: to fill it is left to others, unless it is soaked.
	Synced bool
	// Patience is how long a change may take until watchers are told. 15 s if it is
	// 0: a board may look for what strangers write every ten.
	Patience time.Duration
}

// RunNoteBoard proves that a board keeps the promises of watchdog.NoteBoard.
func RunNoteBoard(t *testing.T, h NoteBoardHarness) {
	if h.Patience == 0 {
		h.Patience = 15 * time.Second
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, NoteBoardHarness)
		long bool // it waits most of its time
	}{
		{"tells what stands and what comes", tellsNotes, false},
		{"lets the newest note count", newestCounts, false},
		{"keeps every alert apart", keepsAlertsApart, false},
		{"gives writers at once one answer", oneAnswer, false},
		{"writes no note that is none", writesNoNonNote, false},
		{"cleans what it keeps", cleansNotes, false},
		{"makes nothing before the first note", makesNothing, false},
		{"writes nothing where it may not", writesNothing, false},
		{"passes over what is no note", passesJunk, true},
		{"takes no note from the future", takesNoFuture, true},
		{"removes what nobody needs", removesSpent, true},
		{"holds no more than it may", holdsNoMore, true},
		{"ends its calls with their context", endsNoteCalls, false},
		{"says so while its store hangs", saysItHangs, true},
		{"is the same after every death of its store", sameAfterDeath, true},
		{"leaves no goroutine behind", leavesNoBoard, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long { // these run together once the others are through
				t.Parallel()
			}
			c.run(t, h)
		})
	}
}

// ack is a note that can be written, some seconds after this one started.
func ack(key watchdog.AlertKey, author string, after time.Duration) watchdog.AlertNote {
	return watchdog.AlertNote{Key: key, Kind: watchdog.NoteAck, Author: author, Text: "vendor called", At: theHour().Add(after), Evidence: 7}
}

// theHour is a time that is the same for a whole run, and lately.
func theHour() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

func (h NoteBoardHarness) serve(t *testing.T, n int) (NoteStore, []watchdog.NoteBoard) {
	t.Helper()
	s := h.Serve(t)
	var all []watchdog.NoteBoard
	for range n {
		b, stop := s.Open(t, false)
		t.Cleanup(stop)
		all = append(all, b)
	}
	return s, all
}

// put writes, and fails the test if that does not work.
func (h NoteBoardHarness) put(t *testing.T, b watchdog.NoteBoard, n watchdog.AlertNote) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	if err := b.Put(ctx, n); err != nil {
		t.Fatalf("%s by %q cannot be put: %v", n.Key, n.Author, err)
	}
}

// audience is what one Watch told.
type audience struct {
	mu    sync.Mutex
	sets  [][]watchdog.AlertNote
	ended error
	over  chan struct{}
	stop  context.CancelFunc
}

func (h NoteBoardHarness) watch(t *testing.T, b watchdog.NoteBoard) *audience {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &audience{over: make(chan struct{}), stop: cancel}
	go func() {
		defer close(a.over)
		err := b.Watch(ctx, func(notes []watchdog.AlertNote) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.sets = append(a.sets, notes)
		})
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended = err
	}()
	t.Cleanup(func() { a.end(t, h.Patience) })
	return a
}

// end ends the Watch, and fails the test if it outlives that.
func (a *audience) end(t *testing.T, within time.Duration) {
	t.Helper()
	a.stop()
	select {
	case <-a.over:
	case <-time.After(within):
		t.Error("Watch outlives its context")
	}
}

// newest is the last set that was told; told is false before the first.
func (a *audience) newest() (notes []watchdog.AlertNote, told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.sets) == 0 {
		return nil, false
	}
	return a.sets[len(a.sets)-1], true
}

// sees waits until the set is as wanted, in any order.
func (h NoteBoardHarness) sees(t *testing.T, a *audience, want ...watchdog.AlertNote) {
	t.Helper()
	inOrder := func(notes []watchdog.AlertNote) []watchdog.AlertNote {
		return slices.SortedFunc(slices.Values(notes), func(a, b watchdog.AlertNote) int { return strings.Compare(string(a.Key), string(b.Key)) })
	}
	want = inOrder(want)
	var diff string
	if !Eventually(h.Patience, func() bool {
		got, told := a.newest()
		diff = cmp.Diff(want, inOrder(got))
		return told && len(got) == len(want) && (len(want) == 0 || diff == "")
	}) {
		a.mu.Lock()
		defer a.mu.Unlock()
		t.Fatalf("after %d sets (ended: %v) a watcher does not see what stands (-want +got):\n%s", len(a.sets), a.ended, diff)
	}
}

func tellsNotes(t *testing.T, h NoteBoardHarness) {
	s, all := h.serve(t, 2)
	writer, reader := all[0], all[1]
	if h.InMemory {
		reader = writer
	}
	early := h.watch(t, reader)
	h.sees(t, early)
	one, two := ack("a#1/stalled", "ops1", 0), ack("group/1764472401", "ops2", 0)
	two.Kind, two.Until = watchdog.NoteSnooze, theHour().Add(40*24*time.Hour)
	h.put(t, writer, one)
	h.sees(t, early, one)
	h.put(t, reader, two)
	h.sees(t, early, one, two)
	gone := ack("a#1/stalled", "ops2", time.Second)
	gone.Kind = watchdog.NoteClear
	h.put(t, writer, gone)
	h.sees(t, early, two)
	late, stop := s.Open(t, false)
	t.Cleanup(stop)
	if h.InMemory {
		late = writer
	}
	h.sees(t, h.watch(t, late), two)
	early.mu.Lock()
	defer early.mu.Unlock()
	if n := len(early.sets); n > 6 {
		t.Errorf("%d sets were told of three changes", n)
	}
}

func isNewer(err error) bool {
	var newer *watchdog.NewerNote
	return errors.As(err, &newer)
}

func newestCounts(t *testing.T, h NoteBoardHarness) {
	_, all := h.serve(t, 1)
	b := all[0]
	seen := h.watch(t, b)
	refused := func(n watchdog.AlertNote) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
		defer cancel()
		if err := b.Put(ctx, n); !isNewer(err) {
			t.Errorf("an older note by %s is answered with %v", n.Author, err)
		}
	}
	first := ack("a#1/stalled", "ops2", time.Second)
	h.put(t, b, first)
	h.put(t, b, first) // again is no harm
	refused(ack("a#1/stalled", "ops9", 0))
	refused(ack("a#1/stalled", "ops1", time.Second))
	h.sees(t, seen, first)
	byName := ack("a#1/stalled", "ops3", time.Second)
	h.put(t, b, byName)
	h.sees(t, seen, byName)
	gone := ack("a#1/stalled", "ops1", 2*time.Second)
	gone.Kind = watchdog.NoteClear
	h.put(t, b, gone)
	h.sees(t, seen)
	refused(first) // what was taken back does not come back
	again := ack("a#1/stalled", "ops1", 3*time.Second)
	h.put(t, b, again)
	h.sees(t, seen, again)
}

func keepsAlertsApart(t *testing.T, h NoteBoardHarness) {
	_, all := h.serve(t, 1)
	seen := h.watch(t, all[0])
	var want []watchdog.AlertNote
	for i, id := range ids() {
		n := ack(watchdog.AlertKey(string(id)+"#1/stalled"), "ops1", time.Duration(i)*time.Millisecond)
		n.Evidence = ^uint64(0) - uint64(i)
		want = append(want, n)
		h.put(t, all[0], n)
	}
	for _, key := range []watchdog.AlertKey{watchdog.MatchKey("etl-*"), watchdog.MatchKey("[a-z]?\\*"), "fleet/reap-rate", "a#2/stalled", "a#1/silent"} {
		n := ack(key, "ops1", 0)
		n.Kind, n.Until = watchdog.NoteMute, theHour().Add(24*time.Hour)
		want = append(want, n)
		h.put(t, all[0], n)
	}
	h.sees(t, seen, want...)
}

// oneAnswer lets many write the same alerts at once: what counts is what counts
// for all, whoever came first.
func oneAnswer(t *testing.T, h NoteBoardHarness) {
	const writers, alerts, rounds = 6, 4, 5
	_, all := h.serve(t, writers)
	if h.InMemory {
		all = slices.Repeat(all[:1], writers)
	}
	var race sync.WaitGroup
	var mu sync.Mutex
	newest := map[watchdog.AlertKey]watchdog.AlertNote{}
	for w, b := range all {
		race.Go(func() {
			for i := range rounds * alerts {
				n := ack(watchdog.AlertKey(fmt.Sprintf("race#%d/stalled", i%alerts+1)), fmt.Sprintf("ops%d", w), time.Duration((w*7+i*13)%rounds)*time.Second)
				n.Text = fmt.Sprint(w, i)
				ctx, cancel := context.WithTimeout(t.Context(), 2*h.Patience)
				err := b.Put(ctx, n)
				cancel()
				if err != nil && !isNewer(err) {
					t.Errorf("a writer among many is answered with %v", err)
				}
				mu.Lock()
				if n.Order(newest[n.Key]) > 0 {
					newest[n.Key] = n
				}
				mu.Unlock()
			}
		})
	}
	race.Wait()
	var want []watchdog.AlertNote
	for _, n := range newest {
		want = append(want, n)
	}
	for _, b := range all[:2] {
		h.sees(t, h.watch(t, b), want...)
	}
}

func writesNoNonNote(t *testing.T, h NoteBoardHarness) {
	s, all := h.serve(t, 1)
	good := ack("a#1/stalled", "ops1", 0)
	for name, change := range map[string]func(*watchdog.AlertNote){
		"no alert":             func(n *watchdog.AlertNote) { n.Key = "" },
		"too long an alert":    func(n *watchdog.AlertNote) { n.Key = watchdog.AlertKey(strings.Repeat("x", 400)) },
		"no pattern":           func(n *watchdog.AlertNote) { n.Key = watchdog.MatchKey("") },
		"a broken pattern":     func(n *watchdog.AlertNote) { n.Key = watchdog.MatchKey("etl-[") },
		"no kind":              func(n *watchdog.AlertNote) { n.Kind = 200 },
		"no time":              func(n *watchdog.AlertNote) { n.At = time.Time{} },
		"a snooze without end": func(n *watchdog.AlertNote) { n.Kind = watchdog.NoteSnooze },
	} {
		n := good
		change(&n)
		ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
		if err := all[0].Put(ctx, n); err == nil {
			t.Errorf("a note with %s is put", name)
		}
		cancel()
	}
	if v, ok := s.(NoteVandal); ok && v.Count(t) > 0 {
		t.Errorf("%d entries stand in the store", v.Count(t))
	}
}

func cleansNotes(t *testing.T, h NoteBoardHarness) {
	if h.InMemory {
		t.Skip("what is in this process was cleaned when it came")
	}
	_, all := h.serve(t, 1)
	seen := h.watch(t, all[0])
	n := ack("a#1/stalled", "ops\x1b]0;owned\a1\u202e", 0)
	n.Text = "look\x1b[2J here\nand\u200b there" + strings.Repeat(" more", 1000)
	h.put(t, all[0], n)
	if !Eventually(h.Patience, func() bool { got, _ := seen.newest(); return len(got) == 1 }) {
		t.Fatal("the note is not told")
	}
	got, _ := seen.newest()
	if got[0].Author != "ops1" || !strings.HasPrefix(got[0].Text, "look here and there more") || len(got[0].Text) > 1024 {
		t.Errorf("it is told as %q, %q", got[0].Author, got[0].Text)
	}
}

func makesNothing(t *testing.T, h NoteBoardHarness) {
	s, all := h.serve(t, 1)
	v, ok := s.(NoteVandal)
	if !ok {
		t.Skip("nothing can be looked at there")
	}
	seen := h.watch(t, all[0])
	h.sees(t, seen)
	if n := v.Count(t); n != -1 {
		t.Errorf("who only looks made something that holds %d entries", n)
	}
	n := ack("a#1/stalled", "ops1", 0)
	h.put(t, all[0], n)
	h.sees(t, seen, n)
	if v.Count(t) != 1 {
		t.Errorf("%d entries stand there after one note", v.Count(t))
	}
}

func writesNothing(t *testing.T, h NoteBoardHarness) {
	if h.InMemory {
		t.Skip("this board is its process' own")
	}
	s, all := h.serve(t, 1)
	reader, stop := s.Open(t, true)
	t.Cleanup(stop)
	seen := h.watch(t, reader)
	h.sees(t, seen)
	if err := reader.Put(t.Context(), ack("a#1/stalled", "ops1", 0)); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a board that may not write answers %v", err)
	}
	if v, ok := s.(NoteVandal); ok && v.Count(t) != -1 {
		t.Error("a board that may not write made something")
	}
	n := ack("a#1/stalled", "ops2", 0)
	h.put(t, all[0], n)
	h.sees(t, seen, n)
}
