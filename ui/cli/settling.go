package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// settlingOptions say who settles, and with what.
type settlingOptions struct {
	// Writer is who we are in records; empty: this process only reads ends.
	Writer string
	// OnDemand is a process that only looks: it reads until somebody asks for an end
	// to be written or for a number. What that needs is opened then, and nothing is
	// made on a bus before.
	OnDemand bool
	// File is the ledger of a process without a bus; nil: it has none.
	File watchdog.Ledger
	// Projections and Quarantine stand beside those of the buses.
	Projections []watchdog.Projection
	Quarantine  watchdog.Quarantine
	// Alone is a process that somebody waits for: it takes the local file at once
	// when the buses that nobody configured refuse it, and waits for no server
	// that may be starting.
	Alone bool

	clock watchdog.Clock
	log   *slog.Logger
	spawn func(func())
}

// settling finds the one store that decides the ends of what is watched, tells
// the engine what stands in it, and, if this process settles, carries out what
// the engine decides. It is chosen once and never switched.
//
// One that settles on demand goes on reading with what it reads with: who may read
// ends is not always allowed to write them.
type settling struct {
	o        settlingOptions
	settings *config.Config
	seal     wire.Seal
	post     func(watchdog.Event)
	due      func(watchdog.Settle) bool

	stores  *ledgerStores
	running sync.WaitGroup

	// spare says that a settlement is another's to make; nil: none is.
	spare   atomic.Pointer[func(watchdog.Settle) bool]
	settler atomic.Pointer[watchdog.Settler]
	ledger  atomic.Pointer[chosenLedger]
	settles chan struct{} // closed once there is a settler
	asked   chan struct{} // closed by ask: somebody wants to write
	ask     func()
	reason  atomic.Pointer[string] // why there is no ledger yet
	unready atomic.Pointer[string] // why nothing can be settled yet
	blocked atomic.Bool            // a bus came up that was away when the ledger was chosen
	retried chan struct{}
	told    watchdog.LedgerChanged
}

type chosenLedger struct{ watchdog.Ledger }

// settledEngine is what a settling tells, and asks.
type settledEngine interface {
	Post(ev watchdog.Event)
	StillDue(s watchdog.Settle) bool
}

// newSettling opens the stores that are configured; it waits for none.
func newSettling(settings *config.Config, o settlingOptions) (*settling, error) {
	seal, err := sealOf(settings)
	if err != nil {
		return nil, err
	}
	if settings.ReadOnly {
		o.Writer, o.OnDemand = "", false
	}
	stores, err := openLedgerStores(settings, seal, o, o.Writer == "" || o.OnDemand)
	if err != nil {
		return nil, err
	}
	s := &settling{o: o, settings: settings, seal: seal, stores: stores, retried: make(chan struct{}, 1), settles: make(chan struct{}), asked: make(chan struct{})}
	s.ask = sync.OnceFunc(func() { close(s.asked) })
	waiting := "the ledger was not chosen yet"
	s.reason.Store(&waiting)
	s.unready.Store(&waiting)
	return s, nil
}

// writes reports whether this process may settle, and has where.
func (s *settling) writes() bool {
	return s.o.Writer != "" && (s.o.File != nil || len(s.stores.all()) > 0)
}

// effects carries out what the engine decides. It is EngineConfig.Effects.
func (s *settling) effects(effects []watchdog.Effect) {
	if t := s.settler.Load(); t != nil && !s.blocked.Load() {
		t.Effects(effects)
	}
}

// retry tries at once to choose a ledger.
func (s *settling) retry() {
	select {
	case s.retried <- struct{}{}:
	default:
	}
}

// run keeps the stores connected until ctx ends.
func (s *settling) run(ctx context.Context, engine settledEngine) {
	s.post, s.due = engine.Post, engine.StillDue
	s.stores.connect()
	defer s.running.Wait()
	defer s.stores.close()
	if s.o.OnDemand {
		s.goes(func() { s.learn(ctx) })
	}
	if ledger := s.stores.find(ctx, s.retried, s.wait); ledger != nil {
		s.work(ctx, ledger)
	}
}

func (s *settling) goes(f func()) {
	s.running.Add(1)
	s.o.spawn(func() {
		defer s.running.Done()
		f()
	})
}

// wait says why nothing can be settled yet.
func (s *settling) wait(why string) {
	s.reason.Store(&why)
	if !s.o.OnDemand {
		s.unready.Store(&why)
	}
	s.tell(watchdog.LedgerChanged{Unnamed: why == unnamed, Reason: why})
}

// tell passes a change on once.
func (s *settling) tell(ev watchdog.LedgerChanged) {
	if ev == s.told {
		return
	}
	s.told = ev
	ev.At = s.o.clock.Now().Mono
	s.post(ev)
}

// work follows the ledger, and settles with it if this process does.
func (s *settling) work(ctx context.Context, ledger watchdog.Ledger) {
	s.ledger.Store(&chosenLedger{ledger})
	s.goes(func() {
		for ctx.Err() == nil {
			if err := ledger.Follow(ctx, s.post); err != nil && ctx.Err() == nil {
				s.o.log.Warn("the ledger cannot be followed", "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(chooseAgain):
			}
		}
	})
	if s.stores.reads {
		s.tell(watchdog.LedgerChanged{Authority: ledger.Authority(), Ready: true})
		<-ctx.Done()
		return
	}
	if why := s.settle(ctx, s.stores, ledger); why != "" {
		s.tell(watchdog.LedgerChanged{Authority: ledger.Authority(), Reason: why})
		<-ctx.Done()
	}
}

// learn waits until somebody wants to write, and settles from then on, with stores
// of its own.
func (s *settling) learn(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.asked:
	}
	cannot := func(why string) { s.unready.Store(&why) }
	stores, err := openLedgerStores(s.settings, s.seal, s.o, false)
	for err != nil { // a file that the settings name can be gone
		cannot(err.Error())
		select {
		case <-ctx.Done():
			return
		case <-time.After(chooseAgain):
		}
		stores, err = openLedgerStores(s.settings, s.seal, s.o, false)
	}
	stores.connect()
	defer stores.close()
	if ledger := stores.find(ctx, nil, cannot); ledger != nil {
		s.settle(ctx, stores, ledger)
	}
}

// settle carries settlements out until ctx ends, or says at once why it cannot.
func (s *settling) settle(ctx context.Context, stores *ledgerStores, ledger watchdog.Ledger) (why string) {
	if err := s.seal.Usable(); err != nil {
		why := err.Error()
		s.unready.Store(&why)
		s.o.log.Warn("this process settles nothing", "reason", why)
		return why
	}
	post := s.post
	if s.o.OnDemand {
		post = s.postOfSessions
	}
	settler := watchdog.NewSettler(watchdog.SettlerConfig{
		Ledger: ledger, Markers: stores.nameable(), Projections: stores.projections(ledger), Quarantine: s.o.Quarantine,
		Writer: s.o.Writer, Why: wire.EncodeEvidence, StillDue: s.stillDue, Post: post,
		Clock: s.o.clock, Log: s.o.log, Policy: s.settings.Policy,
	})
	s.settler.Store(settler)
	close(s.settles)
	if len(stores.optional) > 0 {
		s.goes(func() { s.guardOptional(ctx) })
	}
	_ = settler.Run(ctx) // ends with ctx
	return ""
}

// postOfSessions leaves what a settler says of the ledger to what reads it all the
// time.
func (s *settling) postOfSessions(ev watchdog.Event) {
	switch ev.(type) {
	case watchdog.LedgerChanged, watchdog.Swept:
		return
	}
	s.post(ev)
}

// stillDue is asked right before a write.
func (s *settling) stillDue(e watchdog.Settle) bool {
	if spare := s.spare.Load(); spare != nil && (*spare)(e) {
		return false
	}
	return s.due(e)
}

// guardOptional stops settling for others when a bus comes up that nobody
// answered at when the local file was chosen: another process may settle there.
func (s *settling) guardOptional(ctx context.Context) {
	if st := s.stores.awaitOptional(ctx); st != nil {
		s.blocked.Store(true)
		s.wait(st.MarkerName() + " came up after this process had chosen its own file as ledger; restart it to settle there")
	}
}

// learnWithin is how long a process that learns to write waits for the ledger.
const learnWithin = 10 * time.Second

// ready gives the settler, or why there is none. One that settles on demand is
// waited for.
func (s *settling) ready(ctx context.Context) (*watchdog.Settler, error) {
	if s.o.OnDemand {
		s.ask()
		limit := time.NewTimer(learnWithin)
		defer limit.Stop()
		select {
		case <-s.settles:
		case <-limit.C: // what it waits for is told below
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if t := s.settler.Load(); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s", watchdog.ErrAuthorityAway, *s.unready.Load())
}

// Claim asks the ledger for the number of an execution.
func (s *settling) Claim(ctx context.Context, c watchdog.Claim) (watchdog.Generation, error) {
	t, err := s.ready(ctx)
	if err != nil {
		return 0, err
	}
	return t.Claim(ctx, c)
}

// Settle writes an end once, and gives the record that stands.
func (s *settling) Settle(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	t, err := s.ready(ctx)
	if err != nil {
		return watchdog.Record{}, err
	}
	return t.Settle(ctx, r)
}

// chosen gives the ledger to read from.
func (s *settling) chosen() (watchdog.Ledger, error) {
	if l := s.ledger.Load(); l != nil {
		return l.Ledger, nil
	}
	return nil, fmt.Errorf("%w: %s", watchdog.ErrAuthorityAway, *s.reason.Load())
}
