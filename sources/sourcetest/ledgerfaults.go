//go:build unix

package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// keepsIdentity opens the same store twice.
func keepsIdentity(t *testing.T, h LedgerHarness) {
	s := h.Serve(t)
	first, stop := h.open(t, s)
	a := first.Authority()
	if a.Name == "" || a.Identity == "" {
		t.Errorf("the authority is not known after Check: %+v", a)
	}
	stop()
	second, stop := h.open(t, s)
	defer stop()
	if b := second.Authority(); a != b {
		t.Errorf("the same store is %+v and then %+v", a, b)
	}
	other := h.Serve(t)
	third, stop := h.open(t, other)
	defer stop()
	if c := third.Authority(); c.Identity == a.Identity {
		t.Errorf("two stores are both %+v", c)
	}
}

// refusesReplaced empties the store under a ledger that knew it.
func refusesReplaced(t *testing.T, h LedgerHarness) {
	s, all := h.serve(t, 1)
	store, ok := s.(Replaceable)
	if !ok {
		t.Skip("this store cannot be replaced while it is open")
	}
	h.settle(t, all[0], endOf("kept", 1, "n"))
	h.ready(t, all[0])
	store.Replace(t)
	err := error(nil)
	if Eventually(h.Patience, func() bool { err = h.check(t, all[0]); return errors.Is(err, watchdog.ErrAuthorityAway) }) {
		t.Logf("told as: %v", err)
	} else {
		t.Errorf("a store that was emptied passes: %v", err)
	}
}

// endsWithContext calls everything with a context that is over.
func endsWithContext(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 1)
	l := all[0]
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r := endOf("late", 1, "n")
	for name, call := range map[string]func(context.Context) error{
		"Check":     l.Check,
		"WriteOnce": func(ctx context.Context) error { _, err := l.WriteOnce(ctx, r); return err },
		"Record":    func(ctx context.Context) error { _, _, err := l.Record(ctx, r.ID, 1); return err },
		"Head":      func(ctx context.Context) error { _, _, err := l.Head(ctx, r.ID); return err },
		"SwapHead": func(ctx context.Context) error {
			_, err := l.SwapHead(ctx, watchdog.Head{ID: r.ID, Generation: 1}, "")
			return err
		},
		"Outbox": func(ctx context.Context) error { _, err := l.Outbox(ctx, 1); return err },
		"Told":   func(ctx context.Context) error { return l.Told(ctx, r) },
	} {
		Promptly(t, name+" whose context is over", func() {
			if err := call(over); err == nil {
				t.Errorf("%s answers although its context is over", name)
			}
		})
	}
}

// survivesDeath kills the store again and again while many write.
func survivesDeath(t *testing.T, h LedgerHarness) {
	s, all := h.serve(t, 2)
	store, ok := s.(Mortal)
	if !ok {
		t.Skip("this store cannot be killed")
	}
	rec, stopFollowing := h.follow(t, all[len(all)-1])
	defer stopFollowing()
	rec.Wait(t, h.Patience, "a follower that has caught up", func() bool { return len(EventsOf[watchdog.FollowedUp](rec, 0)) > 0 })
	ends := &agreement{ends: map[watchdog.Generation]string{}}
	over := make(chan struct{})
	var race sync.WaitGroup
	for w := range 6 {
		race.Go(func() {
			for g := watchdog.Generation(1); ; g++ {
				select {
				case <-over:
					return
				case <-time.After(20 * time.Millisecond): // so that the kills fall among the writes
				}
				ends.learn(t, g, h.settle(t, all[w%len(all)], endOf("survivor", g, fmt.Sprintf("%d-%d", g, w))))
			}
		})
	}
	for range kills() {
		time.Sleep(100 * time.Millisecond)
		store.Kill(t)
		store.Restart(t)
		h.ready(t, all[0])
	}
	close(over)
	race.Wait()
	for g, nonce := range ends.ends {
		if r, found := h.record(t, all[0], "survivor", g); !found || r.Nonce != nonce {
			t.Fatalf("the end %q of generation %d became %+v, %v", nonce, g, r, found)
		}
	}
	t.Logf("%d generations, each written by up to 6, over %d kills", len(ends.ends), kills())
	rec.Wait(t, 2*h.Patience, "every end, told to a follower", func() bool { return len(terminals(rec)) == len(ends.ends) })
	mark := rec.Mark()
	store.Kill(t)
	store.Restart(t)
	rec.Wait(t, 2*h.Patience, "that all has been told again after a break", func() bool { return len(EventsOf[watchdog.FollowedUp](rec, mark)) > 0 })
}

// kills is how often a store is killed: the full figure where there is time.
func kills() int {
	if Soaking() {
		return 100
	}
	return 3
}

// agreement is what many writers learned of the same generations.
type agreement struct {
	mu   sync.Mutex
	ends map[watchdog.Generation]string // nonces
}

func (a *agreement) learn(t *testing.T, g watchdog.Generation, r watchdog.Record) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.ends[g]
	a.ends[g] = r.Nonce
	if known && before != r.Nonce {
		t.Errorf("generation %d ended as %q for one and as %q for another", g, before, r.Nonce)
	}
}

// toldOfHanging stops the store in the midst of a write.
func toldOfHanging(t *testing.T, h LedgerHarness) {
	s, all := h.serve(t, 2)
	store, ok := s.(Pauser)
	if !ok {
		t.Skip("this store cannot be stopped like a hanging machine")
	}
	l, other := all[0], all[len(all)-1]
	for round := range 2 {
		r := endOf("hung", watchdog.Generation(round+1), "mine")
		h.record(t, l, r.ID, r.Generation)
		store.Pause(t)
		// An answer may still be under way.
		if !Eventually(h.Patience, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, _, err := l.Record(ctx, r.ID, r.Generation)
			return err != nil
		}) {
			t.Fatal("a store that is stopped answers")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := l.WriteOnce(ctx, r)
		cancel()
		if !errors.Is(err, watchdog.ErrUnknown) && !errors.Is(err, watchdog.ErrAuthorityAway) {
			t.Errorf("a write that nobody answered: %v", err)
		}
		Promptly(t, "WriteOnce whose context ends while nobody answers", func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _ = l.WriteOnce(ctx, r)
		})
		if round == 1 { // long enough for the connection to be given up
			time.Sleep(min(h.Patience, 12*time.Second))
		}
		store.Resume(t)
		h.ready(t, other)
		rival := endOf("hung", r.Generation, "theirs")
		stands := h.settle(t, other, rival)
		if again := h.settle(t, l, r); again.Nonce != stands.Nonce {
			t.Errorf("the end is %q for one and %q for the other", again.Nonce, stands.Nonce)
		}
		if got, found := h.record(t, l, "hung", r.Generation); !found || got.Nonce != stands.Nonce {
			t.Errorf("the end %q became %+v, %v", stands.Nonce, got, found)
		}
	}
}

func leavesNoLedger(t *testing.T, h LedgerHarness) {
	s := h.Serve(t)
	l, stop := h.open(t, s) // what the store itself starts is there before we count
	h.settle(t, l, endOf("early", 1, "n"))
	stop()
	before := goleak.IgnoreCurrent()
	l, stop = h.open(t, s)
	rec, stopFollowing := h.follow(t, l)
	rec.Wait(t, h.Patience, "a follower that has caught up", func() bool { return len(EventsOf[watchdog.FollowedUp](rec, 0)) > 0 })
	stopFollowing()
	stop()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
	if _, err := l.WriteOnce(t.Context(), endOf("after", 1, "n")); err == nil && !h.InMemory {
		t.Error("a ledger that was closed still writes")
	}
}
