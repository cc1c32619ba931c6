//go:build unix

package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// LedgerStore is what keeps a ledger: a server, a file. Its methods fail the
// test. What else can be done to it, it shows by the interfaces below; a case
// that needs more than a store can is skipped.
type LedgerStore interface {
	// Open opens the ledger as one more process would, and runs it. It returns
	// at once, whatever became of the store. stop ends it and returns when
	// nothing of it runs.
	Open(t testing.TB) (l watchdog.Ledger, stop func())
}

// Mortal is a LedgerStore that can be killed without a farewell and started
// again with what it had kept.
type Mortal interface {
	Kill(t testing.TB)
	Restart(t testing.TB)
}

// Vandal is a LedgerStore into which anybody may write. False says that the
// store did not let him.
type Vandal interface {
	PutTerminal(t testing.TB, id watchdog.ID, g watchdog.Generation, stored []byte) bool
	PutHead(t testing.TB, id watchdog.ID, stored []byte) bool
}

// Replaceable is a LedgerStore that can lose what it had kept.
type Replaceable interface {
	// Replace puts an empty one in its place, as somebody would who deletes
	// everything and sets it up anew.
	Replace(t testing.TB)
}

// LedgerHarness is what the suite needs to know of a ledger.
type LedgerHarness struct {
	// Serve starts an empty store.
	Serve func(t testing.TB) LedgerStore
	// Exclusive says that one process at a time may hold the store.
	Exclusive bool
	// InMemory says that the ledger keeps values as they are and has nothing to
	// close.
	InMemory bool
	// Patience is how long a change may take until followers are told, and a
	// ledger to be ready after its store is back. 10 s if it is 0.
	Patience time.Duration
}

// RunLedger proves that a ledger keeps the promises of watchdog.Ledger.
func RunLedger(t *testing.T, h LedgerHarness) {
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, LedgerHarness)
		long bool // it waits most of its time
	}{
		{"gives every generation one end that all learn", endsOnce, false},
		{"knows its own write again", knowsItsOwn, false},
		{"keeps every id and generation apart", keepsApart, false},
		{"finds nothing where nothing is", findsNothing, false},
		{"writes no record that is none", writesNoNonsense, false},
		{"swaps heads one at a time", swapsHeads, false},
		{"gives numbers out once", allocatesOnce, false},
		{"tells followers what stands and what comes", tellsFollowers, false},
		{"keeps in the outbox what is not told", keepsOutbox, false},
		{"is the same authority every time", keepsIdentity, false},
		{"refuses an authority that was emptied", refusesReplaced, false},
		{"takes hostile bytes for no end", refusesHostile, false},
		{"lets an operator end what a foreign record blocks", overrulesForeign, false},
		{"ends its calls with their context", endsWithContext, false},
		{"survives its store's death", survivesDeath, true},
		{"says what is not known while its store hangs", toldOfHanging, true},
		{"leaves no goroutine behind", leavesNoLedger, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long { // these run together once the others are through
				t.Parallel()
			}
			c.run(t, h)
		})
	}
}

// open gives a ledger that is ready, and what ends it.
func (h LedgerHarness) open(t *testing.T, s LedgerStore) (watchdog.Ledger, func()) {
	t.Helper()
	l, stop := s.Open(t)
	h.ready(t, l)
	return l, stop
}

// ready waits until nothing speaks against settling.
func (h LedgerHarness) ready(t *testing.T, l watchdog.Ledger) {
	t.Helper()
	var err error
	if !Eventually(3*h.Patience, func() bool { err = h.check(t, l); return err == nil }) {
		t.Fatalf("the ledger does not become ready: %v", err)
	}
}

func (h LedgerHarness) check(t *testing.T, l watchdog.Ledger) error {
	ctx, cancel := h.limited(t)
	defer cancel()
	return l.Check(ctx)
}

// serve gives a store and n ledgers on it that are ready; one if only one may be.
func (h LedgerHarness) serve(t *testing.T, n int) (LedgerStore, []watchdog.Ledger) {
	t.Helper()
	s := h.Serve(t)
	if h.Exclusive {
		n = 1
	}
	var all []watchdog.Ledger
	for range n {
		l, stop := h.open(t, s)
		t.Cleanup(stop)
		all = append(all, l)
	}
	return s, all
}

// limited bounds a call that should be answered soon.
func (h LedgerHarness) limited(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), h.Patience)
}

// endOf makes a record that can be written.
func endOf(id watchdog.ID, g watchdog.Generation, nonce string) watchdog.Record {
	return watchdog.Record{
		ID: id, Generation: g, Outcome: watchdog.OutcomeLost, SettledBy: watchdog.BySweeper, Writer: "suite@here/1", Nonce: nonce,
		Reason: "3 beats missed", At: time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC), Why: []byte(`{"rule":"lost"}`),
	}
}

// settle writes until it is known what stands, as a settler does: the same
// nonce each time.
func (h LedgerHarness) settle(t *testing.T, l watchdog.Ledger, r watchdog.Record) watchdog.Record {
	t.Helper()
	var stands watchdog.Record
	var err error
	if !Eventually(4*h.Patience, func() bool {
		ctx, cancel := h.limited(t)
		defer cancel()
		stands, err = l.WriteOnce(ctx, r)
		return err == nil
	}) {
		t.Errorf("what ended %s#%d is not known: %v", r.ID, r.Generation, err)
	}
	return stands
}

// record reads what stands, and fails the test if that is not known.
func (h LedgerHarness) record(t *testing.T, l watchdog.Ledger, id watchdog.ID, g watchdog.Generation) (watchdog.Record, bool) {
	t.Helper()
	ctx, cancel := h.limited(t)
	defer cancel()
	r, found, err := l.Record(ctx, id, g)
	if err != nil {
		t.Fatalf("the record of %s#%d cannot be read: %v", id, g, err)
	}
	return r, found
}

// swap replaces a head, and fails the test if it cannot.
func (h LedgerHarness) swap(t *testing.T, l watchdog.Ledger, head watchdog.Head, rev watchdog.Revision) watchdog.Revision {
	t.Helper()
	ctx, cancel := h.limited(t)
	defer cancel()
	next, err := l.SwapHead(ctx, head, rev)
	if err != nil {
		t.Fatalf("the head of %s cannot be written: %v", head.ID, err)
	}
	return next
}

// follow starts a follower.
func (h LedgerHarness) follow(t *testing.T, l watchdog.Ledger) (rec *Recorder, stop func()) {
	t.Helper()
	rec = &Recorder{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Follow(ctx, rec.Post) }()
	return rec, sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Follow: %v", err)
			}
		case <-time.After(h.Patience):
			t.Error("Follow outlives its context")
		}
	})
}

// terminals are the ends that a follower was told, the last of each.
func terminals(rec *Recorder) map[string]watchdog.TerminalSeen {
	out := map[string]watchdog.TerminalSeen{}
	for _, ev := range EventsOf[watchdog.TerminalSeen](rec, 0) {
		out[fmt.Sprintf("%s#%d", ev.ID, ev.Generation)] = ev
	}
	return out
}

// ids are such as the wire format lets in.
func ids() []watchdog.ID {
	return []watchdog.ID{
		"a", "team.a.job-1", "team.a", "user:42:chat", "世界", `q"\`, "a/b@c", "$x#1", "A", "a.1", "a.1.1", "YQ",
		watchdog.ID(strings.Repeat("x", 256)), watchdog.ID(strings.Repeat("世", 85)),
	}
}
