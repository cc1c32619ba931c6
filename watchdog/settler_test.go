package watchdog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// postbox gathers what a settler tells.
type postbox struct {
	mu     sync.Mutex
	events []Event
}

func (p *postbox) post(ev Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, ev)
}

func eventsOf[E Event](p *postbox) []E {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []E
	for _, ev := range p.events {
		if e, ok := ev.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// projecting is a projection made of a function.
type projecting func(context.Context, Record) error

func (f projecting) Project(ctx context.Context, r Record) error { return f(ctx, r) }
func (f projecting) ProjectionName() string                      { return "a test" }

// settling runs a settler inside a bubble until the test ends.
func settlingBy(t *testing.T, cfg SettlerConfig) (*Settler, *postbox) {
	t.Helper()
	box := &postbox{}
	cfg.Post, cfg.Clock, cfg.Writer = box.post, bubbleClock{time.Now()}, "test"
	s := NewSettler(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return s, box
}

func due(id string) Settle {
	return Settle{ID: ID(id), Generation: 1, Outcome: OutcomeLost, By: BySweeper, Reason: "3 beats missed"}
}

func TestSettlerWritesThenTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemoryLedger("x", nil)
		var shown atomic.Int64
		s, box := settlingBy(t, SettlerConfig{Ledger: l, Why: func(Settle) []byte { return []byte(`{"rule":"x"}`) },
			Projections: []Projection{projecting(func(context.Context, Record) error { shown.Add(1); return nil })}})
		if g, err := s.Claim(t.Context(), Claim{ID: "a", BootID: "b"}); g != 1 || err != nil {
			t.Fatal(g, err)
		}
		s.Effects([]Effect{due("a"), due("a"), Number{Claim{ID: "c", BootID: "d"}}})
		synctest.Wait()
		r, found, _ := l.Record(t.Context(), "a", 1)
		if !found || r.Writer != "test" || r.Nonce == "" || string(r.Why) != `{"rule":"x"}` || r.At.IsZero() {
			t.Errorf("%+v", r)
		}
		if h, _, _ := l.Head(t.Context(), "a"); !h.Ended {
			t.Errorf("%+v", h)
		}
		if left, _ := l.Outbox(t.Context(), 10); len(left) != 0 || shown.Load() != 1 {
			t.Errorf("%d left to tell, shown %d times", len(left), shown.Load())
		}
		if seen := eventsOf[TerminalSeen](box); len(seen) != 1 || seen[0].Outcome != OutcomeLost {
			t.Errorf("%+v", seen)
		}
		if claims := eventsOf[Claimed](box); len(claims) != 2 || claims[1].Generation != 1 {
			t.Errorf("%+v", claims)
		}
	})
}

// fault 8: what panics, fails or hangs costs itself alone; the next pass goes on.
func TestSettlerOutlivesWhatItCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemoryLedger("x", nil)
		var mended atomic.Bool
		var shown sync.Map
		projections := []Projection{
			projecting(func(ctx context.Context, r Record) error {
				switch {
				case mended.Load():
				case r.ID == "panics":
					panic("in a projection")
				case r.ID == "hangs":
					<-ctx.Done()
					time.Sleep(time.Hour) // does not heed its limit
				case r.ID == "fails":
					return errors.New("no")
				}
				return nil
			}),
			projecting(func(_ context.Context, r Record) error { shown.Store(r.ID, true); return nil }),
		}
		s, box := settlingBy(t, SettlerConfig{Ledger: l, Projections: projections})
		s.Effects([]Effect{due("panics"), due("hangs"), due("fails"), due("fine"), Sweep{}})
		time.Sleep(time.Minute)
		for _, id := range []ID{"panics", "hangs", "fails", "fine"} {
			if _, found, _ := l.Record(t.Context(), id, 1); !found {
				t.Errorf("%s was not settled", id)
			}
			if _, ok := shown.Load(id); !ok {
				t.Errorf("%s was not shown by the second projection", id)
			}
		}
		left, _ := l.Outbox(t.Context(), 10)
		if len(left) != 3 {
			t.Errorf("%d left to tell, want 3", len(left))
		}
		mended.Store(true)
		s.Effects([]Effect{Sweep{}})
		time.Sleep(2 * time.Minute)
		if left, _ := l.Outbox(t.Context(), 10); len(left) != 0 {
			t.Errorf("%d left to tell after the next pass", len(left))
		}
		passes := eventsOf[Swept](box)
		if len(passes) < 2 || passes[len(passes)-1].Reason != "" {
			t.Errorf("passes %+v", passes)
		}
		time.Sleep(2 * time.Hour) // for what did not heed its limit
	})
}

func TestSettlerWaitsForItsAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemoryLedger("x", nil)
		away := atomic.Bool{}
		away.Store(true)
		l.SetFault(func(Call, ID) Fault {
			if away.Load() {
				return FaultAway
			}
			return FaultNone
		})
		mark := &sharedMark{name: "NATS"}
		s, box := settlingBy(t, SettlerConfig{Ledger: l, Markers: []Marker{mark}})
		s.Effects([]Effect{due("a"), Sweep{}})
		synctest.Wait()
		if _, err := s.Settle(t.Context(), Record{ID: "a", Generation: 1, Outcome: OutcomeExpired}); !errors.Is(err, ErrAuthorityAway) {
			t.Errorf("an operator is told %v", err)
		}
		if failed := eventsOf[SettleFailed](box); len(failed) != 1 || failed[0].Reason == "" {
			t.Errorf("%+v", failed)
		}
		if swept := eventsOf[Swept](box); len(swept) != 1 || swept[0].Reason == "" {
			t.Errorf("%+v", swept)
		}
		away.Store(false)
		time.Sleep(2 * retryChecks)
		changes := eventsOf[LedgerChanged](box)
		if last := changes[len(changes)-1]; !last.Ready || mark.named == nil {
			t.Errorf("%+v, named %v", last, mark.named)
		}
		mark.named = &Authority{Name: AuthorityRedis, Identity: "R"}
		s.Effects([]Effect{Sweep{}})
		time.Sleep(time.Second)
		if ok, why := s.Ready(); ok || !strings.Contains(why, "needs Redis") {
			t.Errorf("ready %v: %s", ok, why)
		}
	})
}

// fault 17: applied, but the answer never came: read again, own nonce is won.
// Every settlement that fails while the authority is away names another session;
// the view is told of the authority, once a check.
func TestSettlerTellsOnceThatItsAuthorityIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemoryLedger("x", nil)
		var broken atomic.Bool
		s, box := settlingBy(t, SettlerConfig{Ledger: away{l, &broken}})
		broken.Store(true)
		before := len(eventsOf[LedgerChanged](box))
		var all []Effect
		for i := range 200 {
			all = append(all, due(fmt.Sprint("s", i)), Number{Claim{ID: ID(fmt.Sprint("n", i)), BootID: "b"}})
		}
		s.Effects(all)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		told := eventsOf[LedgerChanged](box)[before:]
		reasons := map[string]bool{}
		for _, ev := range told {
			reasons[ev.Reason] = true
			if ev.Ready {
				t.Errorf("told ready: %+v", ev)
			}
		}
		if len(told) == 0 || len(reasons) > 2 {
			t.Errorf("%d events give %d reasons, want one of a session and one of the check at most", len(told), len(reasons))
		}
	})
}

// away is a ledger whose connection breaks under every question at once: each
// fails in words of its own.
type away struct {
	*MemoryLedger
	broken *atomic.Bool
}

func (a away) Check(ctx context.Context) error {
	if a.broken.Load() {
		return fmt.Errorf("%w: connection lost", ErrAuthorityAway)
	}
	return a.MemoryLedger.Check(ctx)
}

func (a away) Head(_ context.Context, id ID) (Head, Revision, error) {
	time.Sleep(time.Second)
	return Head{}, "", fmt.Errorf("reading the head of %s: %w", id, ErrAuthorityAway)
}

func (a away) WriteOnce(_ context.Context, r Record) (Record, error) {
	time.Sleep(time.Second)
	return Record{}, fmt.Errorf("writing the end of %s: %w", r.ID, ErrAuthorityAway)
}

func TestSettlerFindsOutWhatAnUnknownWriteBecame(t *testing.T) {
	for name, c := range map[string]struct {
		faults []Fault // of successive writes
		other  bool    // somebody else's record stands
	}{
		"applied": {faults: []Fault{FaultApplied}}, "lost": {faults: []Fault{FaultLost}}, "lost, then applied": {faults: []Fault{FaultLost, FaultApplied}},
		"another won": {faults: []Fault{FaultApplied}, other: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := NewMemoryLedger("x", nil)
			if c.other {
				if _, err := l.WriteOnce(t.Context(), Record{ID: "a", Generation: 1, Outcome: OutcomeStopped, Nonce: "other"}); err != nil {
					t.Fatal(err)
				}
			}
			writes := 0
			l.SetFault(func(call Call, _ ID) Fault {
				if call != CallWriteOnce || writes >= len(c.faults) {
					return FaultNone
				}
				writes++
				return c.faults[writes-1]
			})
			s, _ := settlingBy(t, SettlerConfig{Ledger: l})
			r, err := s.Settle(t.Context(), Record{ID: "a", Generation: 1, Outcome: OutcomeExpired, SettledBy: ByOperator})
			want := OutcomeExpired
			if c.other {
				want = OutcomeStopped
			}
			if err != nil || r.Outcome != want {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		})
	}
}

func TestSettlerRefusesAnEndWithoutAName(t *testing.T) {
	s := NewSettler(SettlerConfig{Ledger: NewMemoryLedger("x", nil)})
	for _, r := range []Record{{}, {ID: "a", Outcome: OutcomeLost}, {ID: "a", Generation: 1}} {
		if _, err := s.Settle(t.Context(), r); err == nil {
			t.Errorf("%+v was settled", r)
		}
	}
}

// Effects never block, whatever hangs behind them.
func TestSettlerNeverHoldsUpTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemoryLedger("x", nil)
		hold := make(chan struct{})
		l.SetFault(func(call Call, _ ID) Fault {
			if call == CallWriteOnce {
				<-hold
			}
			return FaultNone
		})
		s, _ := settlingBy(t, SettlerConfig{Ledger: l})
		for i := range 3 * maxSettles {
			s.Effects([]Effect{due(fmt.Sprint("s", i)), Number{Claim{ID: ID(fmt.Sprint("n", i))}}})
		}
		s.mu.Lock()
		settles, numbers := len(s.settles), len(s.numbers)
		s.mu.Unlock()
		if settles > maxSettles || numbers > maxNumbers {
			t.Errorf("%d and %d wait", settles, numbers)
		}
		close(hold)
	})
}

// The engine, a settler and a ledger together: a silence is settled by itself.
func TestEngineAndSettlerSettleByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemoryLedger("x", nil)
		clock := bubbleClock{time.Now()}
		var s *Settler
		e := runEngine(t, EngineConfig{Clock: clock, Sweeper: "serve@x", Effects: func(effects []Effect) { s.Effects(effects) }})
		s = NewSettler(SettlerConfig{Ledger: l, Post: e.Post, StillDue: e.StillDue, Clock: clock, Writer: "serve@x"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		running.Go(func() { _ = l.Follow(ctx, e.Post) })
		running.Go(func() {
			for n := int64(0); ctx.Err() == nil; n++ {
				at := clock.Now().Mono
				e.Post(RoundTrip{Source: SourceNATS, Sent: at, At: at})
				if n < 20 {
					b := beat("a", n, func(b *Beat) { b.Interval, b.BootID, b.Seq = time.Second, []byte("boot"), n })
					b.Received = at
					e.Beats([]Beat{b})
				}
				time.Sleep(time.Second)
			}
		})
		time.Sleep(100 * time.Second)
		if _, found, _ := l.Record(ctx, "a", 1); found {
			t.Error("settled before 90 s of silence")
		}
		time.Sleep(20 * time.Second)
		w, err := e.Look(ctx, Ask{Focus: "a"})
		if err != nil || w.Focus.Verdict != Lost || w.Focus.Generation != 1 || w.Focus.Terminal.Writer != "serve@x" {
			t.Errorf("%v, %+v", err, w.Focus.Row)
		}
		if !w.Ledger.Ready || !w.Ledger.Sweeping || w.Ledger.LastPass < 0 || w.Ledger.Overdue {
			t.Errorf("%+v", w.Ledger)
		}
		cancel()
		running.Wait()
	})
}
