package watchdog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// SettlerConfig says with what a Settler carries out effects.
type SettlerConfig struct {
	Ledger      Ledger
	Markers     []Marker     // of every configured bus
	Projections []Projection // each is shown every end; one that fails is tried again by the next pass
	Quarantine  Quarantine   // nil: late beats are not kept
	Writer      string       // who we are in records: "serve@eu1-01/812"

	// Why writes the evidence of a settlement as JSON; nil: none is kept.
	Why func(Settle) []byte
	// StillDue is asked right before the write whether a settlement that was
	// judged a moment ago still holds; nil: it does. See Engine.StillDue.
	StillDue func(Settle) bool
	// Post tells the engine what came of it; nil: nobody wants to know.
	Post func(Event)

	Clock Clock         // nil: events carry no time
	Nonce func() string // a new text each time; nil: at random
	Log   *slog.Logger  // nil: nothing is logged

	Policy Policy // SweepBatch and SweepTimeout count here
}

// Limits of the settler. What does not fit is left to the next pass, which
// judges it again.
const (
	settleWorkers = 8
	maxSettles    = 20_000
	maxNumbers    = 20_000
	maxLates      = 20_000

	callLimit     = 10 * time.Second // for one call of the ledger or a marker
	projectLimit  = 20 * time.Second // for one projection; release hooks bound themselves below
	retryChecks   = 3 * time.Second  // between two checks while the authority is away
	maxAbandoned  = 64               // calls that outlived their limit, beyond which no more are made
	unknownWrites = 3                // how often a record of unknown fate is read back
)

// Settler carries the effects of a sweeper out: records, numbers, quarantine,
// passes. It is the edge around the pure core: everything in it may block or
// fail, none of it may hold up the engine, and whatever fails is judged again by
// the next pass. All methods may be called from any goroutine.
type Settler struct {
	cfg SettlerConfig
	log *slog.Logger

	mu        sync.Mutex
	settles   []Settle
	settling  map[generationKey]bool // queued or in work
	numbers   []Claim
	numbering map[string]bool
	lates     []Late
	lateLost  int
	sweep     bool // a pass is asked for
	work      int  // settles taken and not done
	settled   int  // since the last pass
	failed    int
	abandoned int

	stuck map[generationKey]int // how often an end could not be told; of the one that sweeps

	ready    bool
	reason   string // why not ready
	checking sync.Mutex

	wake  chan struct{} // for workers
	pass  chan struct{} // for the one that sweeps
	shelf chan struct{} // for the one that quarantines

	// The simulation drives the steps itself, one after the other, and may end
	// the process between any two.
	inline  bool
	step    func(settleStep)
	without guards
}

// NewSettler makes a settler; nothing happens before Run, but for Settle and
// Claim.
func NewSettler(cfg SettlerConfig) *Settler {
	cfg.Policy = cfg.Policy.WithDefaults()
	if cfg.Nonce == nil {
		cfg.Nonce = rand.Text
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Settler{cfg: cfg, log: log, settling: map[generationKey]bool{}, numbering: map[string]bool{},
		reason: "the ledger was not checked yet",
		wake:   make(chan struct{}, settleWorkers), pass: make(chan struct{}, 1), shelf: make(chan struct{}, 1)}
}

// Effects takes in what a tracker wants done, as EngineConfig.Effects. It never
// blocks; effects that are not the settler's are ignored.
func (s *Settler) Effects(effects []Effect) {
	s.mu.Lock()
	for _, e := range effects {
		switch e := e.(type) {
		case Settle:
			s.queueSettle(e)
		case Number:
			s.queueNumber(e.Claim)
		case QuarantineLate:
			s.queueLate(e.Late)
		case Sweep:
			s.sweep = true
		}
	}
	workers := min(len(s.settles)+len(s.numbers), settleWorkers)
	sweep, late := s.sweep, len(s.lates) > 0
	s.mu.Unlock()
	for range workers {
		ring(s.wake)
	}
	if sweep {
		ring(s.pass)
	}
	if late {
		ring(s.shelf)
	}
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Settler) queueSettle(e Settle) {
	key := generationKey{e.ID, e.Generation}
	if s.settling[key] || len(s.settles) >= maxSettles {
		return
	}
	s.settling[key] = true
	s.settles = append(s.settles, e)
}

func (c *Claim) key() string {
	return fmt.Sprint(c.ID, "\x00", c.BootID, "\x00", c.Start.UnixMilli(), "\x00", c.Generation)
}

func (s *Settler) queueNumber(c Claim) {
	if s.numbering[c.key()] || len(s.numbers) >= maxNumbers {
		return
	}
	s.numbering[c.key()] = true
	s.numbers = append(s.numbers, c)
}

func (s *Settler) queueLate(l Late) {
	if s.cfg.Quarantine == nil {
		return
	}
	if len(s.lates) >= maxLates {
		s.lateLost++
		return
	}
	s.lates = append(s.lates, l)
}

// Run works until ctx ends.
func (s *Settler) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for range settleWorkers {
		running.Go(func() { s.serve(ctx, s.wake, s.next) })
	}
	running.Go(func() { s.serve(ctx, s.shelf, s.nextLate) })
	running.Go(func() { s.watch(ctx) })
	running.Wait()
	return ctx.Err()
}

// serve does jobs until there is none, and then waits to be woken.
func (s *Settler) serve(ctx context.Context, wake chan struct{}, next func() func(context.Context)) {
	for ctx.Err() == nil {
		if job := next(); job != nil {
			job(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-wake:
		}
	}
}

// next takes the next settlement, or else the next claim.
func (s *Settler) next() func(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.settles) > 0 {
		e := s.settles[0]
		s.settles = s.settles[1:]
		s.work++
		return func(ctx context.Context) { s.settleDue(ctx, e) }
	}
	if len(s.numbers) > 0 {
		c := s.numbers[0]
		s.numbers = s.numbers[1:]
		return func(ctx context.Context) { s.number(ctx, c) }
	}
	return nil
}

func (s *Settler) nextLate() func(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lateLost > 0 {
		s.log.Warn("late beats were not kept: they came faster than they can be written", "count", s.lateLost)
		s.lateLost = 0
	}
	if len(s.lates) == 0 {
		return nil
	}
	l := s.lates[0]
	s.lates = s.lates[1:]
	return func(ctx context.Context) { s.keep(ctx, l) }
}

// watch checks the authority at the start, while it is away, and before each
// pass, and makes the passes.
func (s *Settler) watch(ctx context.Context) {
	ticker := time.NewTicker(retryChecks)
	defer ticker.Stop()
	s.check(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.pass:
			s.mu.Lock()
			s.sweep = false
			s.mu.Unlock()
			s.makePass(ctx)
		case <-ticker.C:
			if ok, _ := s.Ready(); !ok {
				s.check(ctx)
			}
		}
	}
}

// Ready reports whether ends can be settled, as far as the last check knows, and
// why not.
func (s *Settler) Ready() (bool, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready, s.reason
}

// check looks at the ledger and at the names on the buses, and tells the engine
// what changed.
func (s *Settler) check(ctx context.Context) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	err := s.call(ctx, callLimit, "checking the ledger", s.cfg.Ledger.Check)
	if err == nil && s.without&guardAuthority == 0 {
		err = s.call(ctx, callLimit, "reading the cluster's authority", func(ctx context.Context) error {
			return NameAuthority(ctx, s.cfg.Ledger.Authority(), s.cfg.Markers)
		})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	s.mu.Lock()
	changed := s.ready != (err == nil) || s.reason != reason
	s.ready, s.reason = err == nil, reason
	s.mu.Unlock()
	if changed {
		if err != nil {
			s.log.Warn("nothing can be settled now", "authority", s.cfg.Ledger.Authority().String(), "reason", reason)
		} else {
			s.log.Info("ends can be settled", "authority", s.cfg.Ledger.Authority().String())
		}
	}
	// Told again each time: an event that was lost must not hide it for ever.
	s.post(LedgerChanged{Authority: s.cfg.Ledger.Authority(), Ready: err == nil, Reason: reason, Warning: s.warning(), At: s.now()})
	return err
}

// Warner is a Ledger that has something to say of what it may lose.
type Warner interface {
	// Warning is a sentence for people: "a failover can lose the last second".
	Warning() string
}

func (s *Settler) warning() string {
	if w, ok := s.cfg.Ledger.(Warner); ok {
		return w.Warning()
	}
	return ""
}

// doubt notes that the authority may be away, so that the next check is made
// soon. Of everything that fails until then only the first is told: each names
// another session.
func (s *Settler) doubt(err error) {
	if !errors.Is(err, ErrAuthorityAway) {
		return
	}
	s.mu.Lock()
	known := !s.ready && s.reason != ""
	if !known {
		s.ready, s.reason = false, err.Error()
	}
	s.mu.Unlock()
	if known {
		return
	}
	s.post(LedgerChanged{Authority: s.cfg.Ledger.Authority(), Reason: err.Error(), Warning: s.warning(), At: s.now()})
}

func (s *Settler) post(ev Event) {
	if s.cfg.Post != nil {
		s.cfg.Post(ev)
	}
}

func (s *Settler) now() time.Duration {
	if s.cfg.Clock == nil {
		return 0
	}
	return s.cfg.Clock.Now().Mono
}

// wall is the time in records.
func (s *Settler) wall() time.Time {
	if s.cfg.Clock == nil {
		return time.Now().UTC()
	}
	return time.Unix(0, s.cfg.Clock.Now().Wall).UTC()
}

var errPanicked = errors.New("panicked")

// call makes one call that may hang or panic: neither takes more with it than
// itself. What does not heed its limit is left behind.
func (s *Settler) call(ctx context.Context, limit time.Duration, what string, do func(context.Context) error) error {
	if s.inline {
		return do(ctx)
	}
	s.mu.Lock()
	if s.abandoned >= maxAbandoned {
		s.mu.Unlock()
		return fmt.Errorf("%w: %d calls hang; restart this process", ErrAuthorityAway, maxAbandoned)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("a panic was caught", "in", what, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
				done <- fmt.Errorf("%s %w: %v", what, errPanicked, r)
			}
		}()
		done <- do(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// It was told to end, and gets a moment to say what became of it.
	grace := time.NewTimer(time.Second)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
	}
	s.mu.Lock()
	s.abandoned++
	s.mu.Unlock()
	go func() {
		<-done
		s.mu.Lock()
		s.abandoned--
		s.mu.Unlock()
	}()
	return fmt.Errorf("%w: %s hangs, for more than %v", ErrUnknown, what, limit)
}
