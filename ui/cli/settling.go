package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
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
	settles chan struct{}          // closed once there is a settler
	reason  atomic.Pointer[string] // why nothing can be settled yet
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
	stores, err := openLedgerStores(settings, seal, o, o.Writer == "" || settings.ReadOnly)
	if err != nil {
		return nil, err
	}
	s := &settling{o: o, settings: settings, seal: seal, stores: stores, retried: make(chan struct{}, 1), settles: make(chan struct{})}
	waiting := "the ledger was not chosen yet"
	s.reason.Store(&waiting)
	return s, nil
}

// reads reports whether this process settles nothing.
func (s *settling) reads() bool { return s.stores.reads }

// writerName is who a process is in records: "serve@eu1-01/812".
func writerName(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s@%s/%d", command, host, os.Getpid())
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
	s.tell(watchdog.LedgerChanged{Reason: why})
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
	if s.reads() {
		s.tell(watchdog.LedgerChanged{Authority: ledger.Authority(), Ready: true})
		<-ctx.Done()
		return
	}
	if err := s.seal.Usable(); err != nil {
		why := err.Error()
		s.reason.Store(&why)
		s.o.log.Warn("this process settles nothing", "reason", why)
		s.tell(watchdog.LedgerChanged{Authority: ledger.Authority(), Reason: why})
		<-ctx.Done()
		return
	}
	settler := watchdog.NewSettler(watchdog.SettlerConfig{
		Ledger: ledger, Markers: s.stores.nameable(), Projections: s.stores.projections(ledger), Quarantine: s.o.Quarantine,
		Writer: s.o.Writer, Why: wire.EncodeEvidence, StillDue: s.stillDue, Post: s.post,
		Clock: s.o.clock, Log: s.o.log, Policy: s.settings.Policy,
	})
	s.settler.Store(settler)
	close(s.settles)
	if len(s.stores.optional) > 0 {
		s.goes(func() { s.guardOptional(ctx) })
	}
	_ = settler.Run(ctx) // ends with ctx
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

// ready gives the settler, or why there is none.
func (s *settling) ready() (*watchdog.Settler, error) {
	if t := s.settler.Load(); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s", watchdog.ErrAuthorityAway, *s.reason.Load())
}

// Claim asks the ledger for the number of an execution.
func (s *settling) Claim(ctx context.Context, c watchdog.Claim) (watchdog.Generation, error) {
	t, err := s.ready()
	if err != nil {
		return 0, err
	}
	return t.Claim(ctx, c)
}

// Settle writes an end once, and gives the record that stands.
func (s *settling) Settle(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	t, err := s.ready()
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
