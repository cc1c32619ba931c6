package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// stop is a command to the session a.
func stop(id string) watchdog.Command {
	now := time.Now().UTC()
	return watchdog.Command{ID: id, Op: watchdog.OpStop, Session: "a", Generation: 2, Reason: "wedged", IssuedBy: "ops1@host", At: now, Expires: now.Add(time.Minute)}
}

// shelf keeps results, unless it is away.
type shelf struct {
	mu      sync.Mutex
	away    error
	results map[string]watchdog.Answer
}

func (s *shelf) Result(_ context.Context, _ watchdog.ID, command string) (watchdog.Answer, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, found := s.results[command]
	return a, found, s.away
}

func (s *shelf) Conclude(_ context.Context, a watchdog.Answer) (watchdog.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return watchdog.Answer{}, s.away
	}
	if stands, found := s.results[a.Command]; found {
		return stands, nil
	}
	s.results[a.Command] = a
	return a, nil
}

func (s *shelf) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = err
}

// waiter is a sender that hears fates.
type waiter struct {
	mu    sync.Mutex
	fates []string
}

func (w *waiter) Tell(a watchdog.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates = append(w.fates, a.Fate.String())
}

// table is a desk with its results and one receiver of the session a.
type table struct {
	t       *testing.T
	results shelf
	rules   Rules
	desk    *Desk
	in      *Receiver

	mu     sync.Mutex
	handed int
}

func (b *table) handle(ctx context.Context, d watchdog.Delivery) {
	b.mu.Lock()
	b.handed++
	b.mu.Unlock()
	_ = d.Acknowledge(ctx, "")
	time.Sleep(time.Second)
	_, _ = d.Finish(ctx, watchdog.FateEffective, "")
}

// onTable runs a test in simulated time.
func onTable(t *testing.T, rules Rules, handle func(context.Context, watchdog.Delivery), test func(*table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &table{t: t, results: shelf{results: map[string]watchdog.Answer{}}}
		rules.TrustLoopback = true
		b.rules = rules
		b.desk = NewDesk("here", rules, &b.results, func() time.Time { return time.Now().UTC() }, slog.New(slog.DiscardHandler))
		if handle == nil {
			handle = b.handle
		}
		b.in = b.desk.Receiver("a", []watchdog.Op{watchdog.OpStop}, handle)
		test(b)
		b.in.Wait()
	})
}

// parcel carries a command from this machine.
func (b *table) parcel(c watchdog.Command, deliveries int, s Sender) Parcel {
	b.t.Helper()
	envelope, err := b.rules.Seal(c)
	if err != nil {
		b.t.Fatal(err)
	}
	return Parcel{Envelope: envelope, Loopback: true, Deliveries: deliveries, Sender: s}
}

func (b *table) wantHanded(n int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.handed != n {
		b.t.Errorf("handed over %d times, want %d", b.handed, n)
	}
}

func (b *table) wantFate(command string, f watchdog.Fate) {
	b.t.Helper()
	b.results.mu.Lock()
	defer b.results.mu.Unlock()
	if got := b.results.results[command].Fate; got != f {
		b.t.Errorf("the result of %s is %q, want %q", command, got, f)
	}
}

func (b *table) wantRefused(f watchdog.CommandFault, n uint64) {
	b.t.Helper()
	if refused := b.desk.Refused(); refused.Of(f) != n {
		b.t.Errorf("%d were refused as %s, want %d", refused.Of(f), f, n)
	}
}

// TestTheSameParcelTwice: a command that comes twice at once is handled once, and
// both who sent it hear of it.
func TestTheSameParcelTwice(t *testing.T) {
	onTable(t, Rules{}, nil, func(b *table) {
		var first, second waiter
		c := stop("c1")
		b.in.Take(b.t.Context(), b.parcel(c, 1, &first))
		synctest.Wait()
		b.in.Take(b.t.Context(), b.parcel(c, 2, &second))
		b.in.Wait()
		b.wantHanded(1)
		b.wantFate("c1", watchdog.FateEffective)
		if diff := cmp.Diff([]string{"delivered", "acknowledged", "effective"}, first.fates); diff != "" {
			t.Errorf("the first heard (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"acknowledged", "effective"}, second.fates); diff != "" {
			t.Errorf("the second heard (-want +got):\n%s", diff)
		}
	})
}

// TestAReplayIsAnsweredAndCounted: what comes again after its end hears the result
// that stands, whether this receiver finished it or one before it.
func TestAReplayIsAnsweredAndCounted(t *testing.T) {
	onTable(t, Rules{}, nil, func(b *table) {
		c := stop("c1")
		b.in.Take(b.t.Context(), b.parcel(c, 1, nil))
		b.in.Wait()
		var again waiter
		b.in.Take(b.t.Context(), b.parcel(c, 1, &again))
		b.in.Wait()
		b.results.results["c2"] = watchdog.Answer{Command: "c2", Session: "a", Fate: watchdog.FateIneffective, At: time.Now()}
		var before waiter
		b.in.Take(b.t.Context(), b.parcel(stop("c2"), 1, &before))
		b.in.Wait()
		b.wantHanded(1)
		b.wantRefused(watchdog.CommandReplayed, 2)
		if diff := cmp.Diff([][]string{{"effective"}, {"ineffective"}}, [][]string{again.fates, before.fates}); diff != "" {
			t.Errorf("who sent it again heard (-want +got):\n%s", diff)
		}
	})
}

// TestAnIDIsOfOneCommand: another one under an id that was used is not obeyed,
// while the first is at work and after it, and counts as a replay.
func TestAnIDIsOfOneCommand(t *testing.T) {
	onTable(t, Rules{}, nil, func(b *table) {
		other := stop("c1")
		other.Generation, other.Reason = 3, "another payload"
		b.in.Take(b.t.Context(), b.parcel(stop("c1"), 1, nil))
		synctest.Wait()
		b.in.Take(b.t.Context(), b.parcel(other, 1, nil))
		b.in.Wait()
		b.in.Take(b.t.Context(), b.parcel(other, 1, nil))
		b.in.Wait()
		b.wantHanded(1)
		b.wantRefused(watchdog.CommandReplayed, 1)
		if a := b.results.results["c1"]; a.Generation != 2 {
			t.Errorf("its result is of #%d, want that of the first", a.Generation)
		}
	})
}

// TestClocksThatDifferAreSaid: a command that its sender's clock made old, which
// whoever keeps it knows to be fresh, is obeyed by nobody, and that says why. One
// that waited for its bus is no proof of a wrong clock.
func TestClocksThatDifferAreSaid(t *testing.T) {
	for by, want := range map[time.Duration]string{
		time.Hour: "its sender's clock was 1h0m0s behind", time.Second: "", -2 * time.Minute: "its sender's clock was 2m0s ahead",
		3 * time.Minute: "3m0s after it was asked for by its sender's clock: the bus was away, or",
	} {
		onTable(t, Rules{}, nil, func(b *table) {
			c := stop("c1")
			kept := c.At
			c.At = c.At.Add(-by)
			c.Expires = c.At.Add(watchdog.CommandTTL)
			time.Sleep(max(0, time.Until(c.Expires)) + time.Second)
			p := b.parcel(c, 1, nil)
			p.At = kept
			b.in.Take(b.t.Context(), p)
			b.in.Wait()
			b.wantHanded(0)
			b.wantFate("c1", watchdog.FateTimedOut)
			_, said, _ := strings.Cut(b.results.results["c1"].Detail, "began with it")
			if (said != "") != (want != "") || !strings.Contains(said, want) {
				t.Errorf("%v behind: %s", by, said)
			}
		})
	}
}

func TestWhatIsAnsweredWithoutTheHandler(t *testing.T) {
	onTable(t, Rules{Fleet: func() string { return "ours" }, MaxDeliveries: 2}, nil, func(b *table) {
		late := stop("late")
		late.Expires = time.Now().Add(-time.Second)
		other := stop("other")
		other.Fleet = "theirs"
		b.in.Take(b.t.Context(), b.parcel(late, 1, nil))
		b.in.Take(b.t.Context(), b.parcel(other, 1, nil))
		b.in.Take(b.t.Context(), b.parcel(stop("often"), 3, nil))
		b.in.Wait()
		b.wantHanded(0)
		b.wantFate("late", watchdog.FateTimedOut)
		b.wantFate("other", watchdog.FateRefused)
		b.wantFate("often", watchdog.FateUndeliverable)
		b.wantRefused(watchdog.CommandExpired, 1)
		b.wantRefused(watchdog.CommandFleet, 1)
	})
}

// TestAForgeryLeavesNoResult: it would settle the true command of the same id.
func TestAForgeryLeavesNoResult(t *testing.T) {
	var told []watchdog.RefusedCommand
	onTable(t, Rules{Refused: func(r watchdog.RefusedCommand) { told = append(told, r) }}, nil, func(b *table) {
		var w waiter
		p := b.parcel(stop("c1"), 1, &w)
		p.Loopback = false
		b.in.Take(b.t.Context(), p)
		b.in.Take(b.t.Context(), Parcel{Envelope: []byte("{"), Loopback: true})
		b.in.Wait()
		b.wantHanded(0)
		b.wantFate("c1", watchdog.FateNone)
		b.wantRefused(watchdog.CommandUnsigned, 1)
		b.wantRefused(watchdog.CommandUnreadable, 1)
		if diff := cmp.Diff([]string{"refused"}, w.fates); diff != "" {
			t.Errorf("its sender heard (-want +got):\n%s", diff)
		}
		if len(told) != 2 || told[0].Way != "here" || told[0].Session != "a" {
			t.Errorf("the wiring was told %+v", told)
		}
		b.in.Take(b.t.Context(), b.parcel(stop("c1"), 1, nil))
		b.in.Wait()
		b.wantFate("c1", watchdog.FateEffective)
	})
}

// TestAnUnknownOpIsLeft: neither counted nor answered, and done with here.
func TestAnUnknownOpIsLeft(t *testing.T) {
	onTable(t, Rules{}, nil, func(b *table) {
		var w waiter
		c := stop("c1")
		c.Op = "defrost"
		p := b.parcel(c, 1, &w)
		done := false
		p.Done = func() { done = true }
		b.in.Take(b.t.Context(), p)
		b.in.Wait()
		b.wantHanded(0)
		b.wantFate("c1", watchdog.FateNone)
		if !done || len(w.fates) > 0 {
			t.Errorf("done with: %v; its sender heard %v", done, w.fates)
		}
	})
}

// TestALeaseIsKeptWhileItIsHandled: and what is not finished comes again after it.
func TestALeaseIsKeptWhileItIsHandled(t *testing.T) {
	handed := 0
	forgets := func(context.Context, watchdog.Delivery) {
		handed++
		time.Sleep(10 * time.Second)
	}
	onTable(t, Rules{Lease: 3 * time.Second}, forgets, func(b *table) {
		c := stop("c1")
		var mu sync.Mutex
		renewed, done := 0, 0
		p := b.parcel(c, 1, nil)
		p.Renew = func() { mu.Lock(); renewed++; mu.Unlock() }
		p.Done = func() { mu.Lock(); done++; mu.Unlock() }
		b.in.Take(b.t.Context(), p)
		b.in.Wait()
		if renewed < 9 || done != 0 {
			t.Errorf("renewed %d times and done with %d times in 10 s of a lease of 3 s", renewed, done)
		}
		b.in.Take(b.t.Context(), b.parcel(c, 2, nil))
		b.in.Wait()
		if handed != 2 {
			t.Errorf("handed over %d times, want again after the lease", handed)
		}
	})
}

// TestUncountedDeliveriesComeAgainAfterALease: where nobody keeps commands a sender
// sends again and again, and that is no new delivery within a lease.
func TestUncountedDeliveriesComeAgainAfterALease(t *testing.T) {
	handed := 0
	forgets := func(context.Context, watchdog.Delivery) { handed++ }
	onTable(t, Rules{Lease: 10 * time.Second}, forgets, func(b *table) {
		c := stop("c1")
		for range 15 {
			b.in.Take(b.t.Context(), b.parcel(c, 0, nil))
			time.Sleep(time.Second)
		}
		b.in.Wait()
		if handed != 2 {
			t.Errorf("handed over %d times in 15 s of a lease of 10 s, want 2", handed)
		}
	})
}

// TestAHeraldOnlySaysWhoWaits: the command itself comes from whoever keeps it.
func TestAHeraldOnlySaysWhoWaits(t *testing.T) {
	onTable(t, Rules{}, nil, func(b *table) {
		var w waiter
		c := stop("c1")
		herald := b.parcel(c, 0, &w)
		herald.Herald = true
		b.in.Take(b.t.Context(), herald)
		b.in.Wait()
		b.wantHanded(0)
		b.in.Take(b.t.Context(), b.parcel(c, 1, nil))
		b.in.Wait()
		b.wantHanded(1)
		if diff := cmp.Diff([]string{"delivered", "acknowledged", "effective"}, w.fates); diff != "" {
			t.Errorf("who waits heard (-want +got):\n%s", diff)
		}
	})
}

// TestAResultOutlivesAnAbsence: it is written once what keeps results is back, and
// one that may not be written is told all the same.
func TestAResultOutlivesAnAbsence(t *testing.T) {
	gone := fmt.Errorf("%w: connection lost", watchdog.ErrAuthorityAway)
	var begun chan struct{}
	breaks := func(ctx context.Context, d watchdog.Delivery) {
		close(begun)
		time.Sleep(time.Second)
		_, _ = d.Finish(ctx, watchdog.FateEffective, "")
	}
	onTable(t, Rules{}, breaks, func(b *table) {
		begun = make(chan struct{})
		b.in.Take(b.t.Context(), b.parcel(stop("c1"), 1, nil))
		<-begun
		b.results.set(gone)
		time.Sleep(time.Minute)
		b.wantFate("c1", watchdog.FateNone)
		b.results.set(nil)
		b.in.Wait()
		b.wantFate("c1", watchdog.FateEffective)

		var w waiter
		begun = make(chan struct{})
		b.in.Take(b.t.Context(), b.parcel(stop("c2"), 1, &w))
		<-begun
		b.results.set(errors.New("no permission"))
		b.in.Wait()
		if diff := cmp.Diff([]string{"delivered", "effective"}, w.fates); diff != "" {
			t.Errorf("who waits heard (-want +got):\n%s", diff)
		}
	})
}

// TestAPanicCostsOneDelivery: the receiver goes on.
func TestAPanicCostsOneDelivery(t *testing.T) {
	panics := true
	handle := func(ctx context.Context, d watchdog.Delivery) {
		if panics {
			panics = false
			panic("boom")
		}
		_, _ = d.Finish(ctx, watchdog.FateEffective, "")
	}
	onTable(t, Rules{}, handle, func(b *table) {
		c := stop("c1")
		b.in.Take(b.t.Context(), b.parcel(c, 1, nil))
		b.in.Wait()
		b.in.Take(b.t.Context(), b.parcel(c, 2, nil))
		b.in.Wait()
		b.wantFate("c1", watchdog.FateEffective)
	})
}

// TestADeskForgetsTheOldest: it remembers as many commands as it says.
func TestADeskForgetsTheOldest(t *testing.T) {
	d := NewDesk("here", Rules{}, &shelf{}, time.Now, slog.New(slog.DiscardHandler))
	first := d.remember("first")
	if d.remember("first") != first {
		t.Error("it does not know what came before")
	}
	for i := range maxRemembered {
		d.remember(fmt.Sprint(i))
	}
	if d.remember("first") == first || len(d.known) != maxRemembered || len(d.oldest) != maxRemembered {
		t.Errorf("it remembers %d of %d, and the oldest", len(d.known), maxRemembered)
	}
}
