package watchdog

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned by Look once the engine has ended.
var ErrClosed = errors.New("the engine has ended; open the view again")

// Tap is shown every input of the engine before it is applied: a flight
// recorder. It runs on the engine's goroutine, must copy what it keeps and
// must not block.
type Tap interface {
	Beats([]Beat)
	Event(Event)
}

// EngineConfig says how to run a tracker.
type EngineConfig struct {
	Policy  Policy
	Clock   Clock   // nil: time comes from posted Ticked events alone, as in a replay
	Start   Instant // of the tracker, if Clock is nil
	Tap     Tap
	Sweeper string // who settles; empty nobody
	Acts    Acts   // how far we can act on sessions
	// Effects is given what the tracker wants done. It runs on the engine's
	// goroutine and must not block; nil: nothing is carried out.
	Effects func([]Effect)
}

// Engine is the one goroutine that owns a Tracker: beats and events in, windows
// out. Beats and Post never block and may be called from any goroutine.
type Engine struct {
	clock   Clock
	tap     Tap
	effects func([]Effect)
	tracker *Tracker
	inbox   inbox
	taken   []item // being applied

	ask     atomic.Pointer[Ask]
	asked   chan struct{}
	stale   chan struct{} // holds a token when the last answer is no longer good
	pace    pace
	windows chan Window
	done    chan struct{}
}

// NewEngine makes an engine; nothing happens before Run.
func NewEngine(cfg EngineConfig) *Engine {
	start := cfg.Start
	if cfg.Clock != nil {
		start = cfg.Clock.Now()
	}
	e := &Engine{
		clock: cfg.Clock, tap: cfg.Tap, effects: cfg.Effects, tracker: NewTracker(cfg.Policy, start),
		asked: make(chan struct{}, 1), stale: make(chan struct{}, 1), windows: make(chan Window, 1), done: make(chan struct{}),
	}
	e.pace.began = time.Now()
	e.pace.answered.Store(-int64(lensRefresh)) // never
	e.inbox.wake, e.inbox.lazy = make(chan struct{}, 1), cfg.Clock != nil
	e.tracker.SetSweeper(cfg.Sweeper)
	e.tracker.SetActs(cfg.Acts)
	e.ask.Store(&Ask{})
	return e
}

// Beats takes in a batch, which is applied within a tick. The structs are copied;
// the bytes that they point to must stay as they are until applied, so a source
// never reuses that memory.
func (e *Engine) Beats(batch []Beat) { e.inbox.beats(batch) }

// Post takes in an event.
func (e *Engine) Post(ev Event) { e.inbox.event(ev) }

// Ask replaces the wanted window.
func (e *Engine) Ask(a Ask) {
	e.ask.Store(&a)
	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// Windows gives the newest answer; one that was not read is replaced by the
// next. It is closed when Run returns.
func (e *Engine) Windows() <-chan Window { return e.windows }

// Look gives one answer in which everything that was put in before is applied.
func (e *Engine) Look(ctx context.Context, a Ask) (Window, error) {
	applied := make(chan struct{})
	e.inbox.barrier(applied)
	select {
	case <-applied:
	case <-ctx.Done():
		return Window{}, ctx.Err()
	case <-e.done:
		return Window{}, ErrClosed
	}
	return e.tracker.Look(a), nil
}

// Do asks for an action and gives what became of it at once: requested, or
// refused. If the same was asked for and is still open, it gives that one. What
// is left empty of the command is filled in: its id, its times, the fleet.
func (e *Engine) Do(ctx context.Context, c Command) (Action, error) {
	if c.ID == "" {
		c.ID = rand.Text()
	}
	now := e.now()
	if c.At.IsZero() {
		c.At = time.Unix(0, now.Wall).UTC()
	}
	if c.Expires.IsZero() {
		c.Expires = c.At.Add(CommandTTL)
	}
	if c.Fleet == "" {
		c.Fleet = e.tracker.fleetIdentity()
	}
	e.Post(Ordered{Command: c, At: now.Mono})
	applied := make(chan struct{})
	e.inbox.barrier(applied)
	select {
	case <-applied:
	case <-ctx.Done():
		return Action{}, ctx.Err()
	case <-e.done:
		return Action{}, ErrClosed
	}
	a, ok := e.tracker.actionOf(c.ID)
	if !ok {
		return Action{}, ErrClosed
	}
	return a, nil
}

func (e *Engine) now() Instant {
	if e.clock != nil {
		return e.clock.Now()
	}
	e.tracker.mu.RLock()
	defer e.tracker.mu.RUnlock()
	return e.tracker.now
}

// Changes grows with everything that a window could show.
func (e *Engine) Changes() uint64 { return e.tracker.changeCount() }

// stillDueWithin bounds how long StillDue waits for what was put in before.
const stillDueWithin = 5 * time.Second

// StillDue reports whether a settlement that the tracker asked for a moment ago
// still holds, with everything applied that was put in before. It is asked right
// before the write. An engine that is late itself answers no.
func (e *Engine) StillDue(s Settle) bool {
	applied := make(chan struct{})
	e.inbox.barrier(applied)
	limit := time.NewTimer(stillDueWithin)
	defer limit.Stop()
	select {
	case <-applied:
	case <-limit.C:
		return false
	case <-e.done:
		return false
	}
	if e.clock != nil && e.clock.Now().Mono-e.tracker.lastTick() > stopTick {
		return false // we were stopped, and what came meanwhile is still on its way
	}
	return e.tracker.StillDue(s)
}

// Run drives the tracker until ctx ends. A panic on its way leaves at once: the
// lens ends with ctx, and waiting for it would hold the panic back for ever.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	var lens sync.WaitGroup
	lens.Go(func() { e.runLens(ctx) })
	drive := e.loop
	if e.clock == nil {
		drive = e.replayLoop
	}
	err := drive(ctx)
	lens.Wait()
	close(e.windows)
	return err
}

// loop applies the inbox as it fills and ticks by the clock.
func (e *Engine) loop(ctx context.Context) error {
	ticker := time.NewTicker(tickLength)
	defer ticker.Stop()
	due := e.clock.Now().Mono + tickLength
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.inbox.wake:
			e.drain()
		case <-ticker.C:
			now := e.clock.Now()
			late := max(now.Mono-due, 0)
			due = now.Mono + tickLength
			e.drain()
			e.apply(Ticked{Now: now, Late: late})
			if e.due() { // the lens is not woken for nothing
				select {
				case e.stale <- struct{}{}:
				default:
				}
			}
		}
	}
}

// replayLoop has no clock of its own.
func (e *Engine) replayLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.inbox.wake:
			e.drain()
		}
	}
}

// drain applies everything in the inbox, in the order in which it came.
func (e *Engine) drain() {
	e.taken = e.inbox.take(e.taken)
	for _, it := range e.taken {
		switch {
		case it.applied != nil:
			close(it.applied)
		case it.event != nil:
			e.apply(it.event)
		default:
			if e.tap != nil {
				e.tap.Beats(it.beats)
			}
			e.tracker.ApplyBeats(it.beats)
		}
	}
	e.inbox.applied()
	coalesced, drops := e.inbox.losses()
	e.tracker.addCoalesced(coalesced)
	for src, n := range drops {
		if n > 0 {
			e.apply(Dropped{Source: Source(src), Count: n, At: e.tracker.now.Mono})
		}
	}
}

// apply feeds one event. Effects that the world must see are carried out by
// whoever settles; a mere observer has none to carry out.
func (e *Engine) apply(ev Event) {
	if e.tap != nil {
		e.tap.Event(ev)
	}
	effects := e.tracker.Apply(ev)
	if e.effects != nil && len(effects) > 0 {
		e.effects(effects)
	}
}

// The lens answers at most ten times a second, at least once a second as ages
// move, and rests five times as long as it worked. A new beat that tells nothing
// but that somebody lives is an age that moved.
const (
	lensPause   = 100 * time.Millisecond
	lensRefresh = time.Second - lensPause/2 // a tick comes a little early or late
	lensRest    = 5
)

// pace is when the lens has answered, for the engine to know when it is to again.
type pace struct {
	began               time.Time
	seen                atomic.Uint64 // the tracker's changes in the last answer
	answered, restUntil atomic.Int64  // nanoseconds since began
}

// due reports whether the last answer is no longer good.
func (e *Engine) due() bool {
	p := &e.pace
	now := int64(time.Since(p.began))
	return now >= p.restUntil.Load() && (e.tracker.changeCount() != p.seen.Load() || now-p.answered.Load() >= int64(lensRefresh))
}

// runLens answers the asked window at once when it is asked, and after each
// tick if something changed. In a replay time passes otherwise, and the lens
// looks by a clock of its own.
func (e *Engine) runLens(ctx context.Context) {
	l := lens{t: e.tracker}
	var passed <-chan time.Time
	if e.clock == nil {
		ticker := time.NewTicker(lensPause)
		defer ticker.Stop()
		passed = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.asked:
		case <-e.stale:
		case <-passed:
			if !e.due() {
				continue
			}
		}
		began := time.Since(e.pace.began)
		e.pace.seen.Store(e.tracker.changeCount())
		a := *e.ask.Load()
		w := l.look(&a)
		w.Self.Queue, w.Self.Oldest = e.inbox.length(), e.inbox.oldest()
		e.publish(w)
		answered := time.Since(e.pace.began)
		e.pace.answered.Store(int64(answered))
		e.pace.restUntil.Store(int64(answered + (answered-began)*lensRest))
	}
}

// publish replaces a window that nobody read.
func (e *Engine) publish(w Window) {
	select {
	case <-e.windows:
	default:
	}
	e.windows <- w // only this goroutine sends, so the slot is free
}

// lastTick is the Mono of the last advance.
func (t *Tracker) lastTick() time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ticked.Mono
}

func (t *Tracker) changeCount() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changes
}

func (t *Tracker) addCoalesced(n uint64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.coalesced += n
}

// FleetIdentity names the fleet that is watched, by its authority; empty: it is
// not known yet.
func (e *Engine) FleetIdentity() string { return e.tracker.fleetIdentity() }

// ClaimOf gives what the ledger is to be told of a session's present execution to
// number it. Its Generation is 0 if it has no number yet.
func (e *Engine) ClaimOf(id ID) (Claim, bool) { return e.tracker.claimNow(id) }
