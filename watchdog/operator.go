package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// OperatorConfig says with what an Operator carries out commands.
type OperatorConfig struct {
	// Ways are tried in their order, those first on which a session was heard.
	Ways []CommandWay
	// Heard reports whether a session was heard on the way of a name; nil: it was
	// on each.
	Heard func(id ID, way string) bool
	// Settle writes an end and gives the one that stands, see Settler.Settle; nil:
	// no end is written from here.
	Settle func(context.Context, Record) (Record, error)
	// Number gives the number of the execution that a command means without one;
	// nil: a command without a number writes no end.
	Number func(context.Context, Command) (Generation, error)
	// Evidence is what the record of an end that was asked for keeps, as JSON;
	// nil: nothing.
	Evidence func(ID) []byte
	// Released runs the release hook of an expired session and tells how it ended,
	// or that there is none; nil: nothing is told.
	Released func(context.Context, Record) string

	Name  string // who we are in results: "serve@eu1-01/812"
	Clock Clock
	Post  func(Event)
	// Audit keeps each change of a fate, in order; nil: nobody does.
	Audit func(Action)
	Log   *slog.Logger // nil: nothing is logged
}

// Operator carries out what people ask for: it is to commands what the Settler is
// to ends. Everything in it may block or fail; what it learns goes back to the
// tracker as events, and whether an action took effect is judged there.
type Operator struct {
	cfg OperatorConfig
	log *slog.Logger

	mu      sync.Mutex
	jobs    []Effect // Deliver, Confirm and Conclude, not begun yet
	audits  []Action
	cancels map[string]context.CancelFunc // of what is being carried, by command
	went    map[string][]CommandWay       // by which ways a command went, until its fate is final
	wake    chan struct{}
	written chan struct{}
}

// How long an expire tries while the ledger is away, and how long it waits
// between two tries.
const (
	expireWithin = 30 * time.Second
	expireAgain  = 2 * time.Second
)

// NewOperator makes an operator; nothing happens before Run.
func NewOperator(cfg OperatorConfig) *Operator {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Operator{cfg: cfg, log: log, cancels: map[string]context.CancelFunc{}, went: map[string][]CommandWay{}, wake: make(chan struct{}, 1), written: make(chan struct{}, 1)}
}

// Effects takes in what a tracker wants done, as EngineConfig.Effects. It never
// blocks; effects that are not the operator's are ignored.
func (o *Operator) Effects(effects []Effect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range effects {
		switch e := e.(type) {
		case Deliver, Confirm, Conclude:
			o.jobs = append(o.jobs, e)
			ring(o.wake)
		case Fated:
			if e.Fate.Final() {
				if cancel := o.cancels[e.ID]; cancel != nil {
					cancel() // nobody waits for it any more
				}
				delete(o.went, e.ID)
			}
			if o.cfg.Audit != nil {
				o.audits = append(o.audits, e.Action)
				ring(o.written)
			}
		}
	}
}

// Run works until ctx ends. What is on its way then is not lost: a kept command
// stands on its bus, and its result too.
func (o *Operator) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { o.keepAudit(ctx) })
	for ctx.Err() == nil {
		for _, e := range o.take() {
			running.Go(func() { o.do(ctx, e) })
		}
		select {
		case <-ctx.Done():
		case <-o.wake:
		}
	}
	running.Wait()
	return ctx.Err()
}

func (o *Operator) take() []Effect {
	o.mu.Lock()
	defer o.mu.Unlock()
	jobs := o.jobs
	o.jobs = nil
	return jobs
}

// keepAudit writes fates down in their order, the last ones at the end too.
func (o *Operator) keepAudit(ctx context.Context) {
	for {
		o.mu.Lock()
		audits := o.audits
		o.audits = nil
		o.mu.Unlock()
		for _, a := range audits {
			o.cfg.Audit(a)
		}
		select {
		case <-o.written:
		case <-ctx.Done():
			if len(audits) == 0 {
				return
			}
		}
	}
}

// do carries one effect out. A panic costs that action alone.
func (o *Operator) do(ctx context.Context, e Effect) {
	var c Command
	defer func() {
		if r := recover(); r != nil {
			o.log.Error("a panic was caught", "in", "an action", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			o.tell(c, FateTimedOut, "carrying it out failed here; what became of it is not known: please report this", "")
		}
	}()
	switch e := e.(type) {
	case Deliver:
		c = e.Command
		ctx, cancel := context.WithTimeout(ctx, CommandTTL+effectWithin)
		defer cancel()
		o.carrying(c.ID, cancel)
		defer o.carrying(c.ID, nil)
		if c.Op == OpExpire {
			o.expire(ctx, c)
		} else {
			o.deliver(ctx, c)
		}
	case Confirm:
		c = e.Command
		ctx, cancel := context.WithTimeout(ctx, effectWithin)
		defer cancel()
		o.post(o.stopped(ctx, c, e.Answer), e.Way)
	case Conclude:
		c = Command{ID: e.Answer.Command, Session: e.Answer.Session, Generation: e.Answer.Generation}
		o.conclude(ctx, e.Answer)
	}
}

func (o *Operator) carrying(id string, cancel context.CancelFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cancel == nil {
		delete(o.cancels, id)
		return
	}
	o.cancels[id] = cancel
}

// stopped writes the end of an execution that was seen to have ended. A supervisor
// has done so itself; an agent cannot.
func (o *Operator) stopped(ctx context.Context, c Command, a Answer) Answer {
	if o.cfg.Settle == nil {
		return a
	}
	if c.Generation == 0 {
		c.Generation = a.Generation
	}
	stands, err := o.settle(ctx, c, OutcomeStopped, "stopped by "+cmp.Or(c.IssuedBy, "an operator"))
	switch {
	case err != nil:
		a.Detail += "; its end is not written yet: " + err.Error()
	case stands.Outcome != OutcomeStopped:
		a.Fate = FateLostRace
		a.Detail = "it ended otherwise first: " + stands.Outcome.String() + " by " + string(stands.SettledBy)
	default:
		a.Generation = stands.Generation
	}
	return a
}

// settle writes an end that was asked for. Asked again with the same command it
// finds its own.
func (o *Operator) settle(ctx context.Context, c Command, outcome Outcome, reason string) (Record, error) {
	if c.Generation == 0 {
		if o.cfg.Number == nil {
			return Record{}, errors.New("the number of its execution is not known")
		}
		g, err := o.cfg.Number(ctx, c)
		if err != nil {
			return Record{}, err
		}
		c.Generation = g
	}
	if c.Reason != "" {
		reason += ": " + c.Reason
	}
	r := Record{ID: c.Session, Generation: c.Generation, Outcome: outcome, SettledBy: ByOperator, Reason: reason, Nonce: "command-" + c.ID}
	if o.cfg.Evidence != nil {
		r.Why = o.cfg.Evidence(c.Session)
	}
	return o.cfg.Settle(ctx, r)
}

// expire writes the end of an execution, whatever its process does.
func (o *Operator) expire(ctx context.Context, c Command) {
	if o.cfg.Settle == nil {
		o.tell(c, FateRefused, "no ledger is open here to write its end to", "")
		return
	}
	o.tell(c, FateAcknowledged, "", "here")
	stands, err := o.expireOnce(ctx, c)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, ErrUnknown):
		o.tell(c, FateTimedOut, "whether its end was written is not known: "+err.Error(), "here")
	case err != nil:
		o.tell(c, FateRefused, "nothing was written: "+err.Error(), "here")
	case stands.Nonce != "command-"+c.ID:
		o.tell(c, FateLostRace, "it ended otherwise first: "+stands.Outcome.String()+" by "+string(stands.SettledBy), "here")
	default:
		detail := "its end is written; its process was not signalled"
		if o.cfg.Released != nil {
			if said := o.cfg.Released(ctx, stands); said != "" {
				detail += "; " + said
			}
		}
		a := o.answer(c, FateEffective, detail)
		a.Generation = stands.Generation
		o.post(a, "here")
	}
}

// expireOnce tries until it is known what stands, and over a short absence of the
// ledger.
func (o *Operator) expireOnce(ctx context.Context, c Command) (Record, error) {
	limit := time.NewTimer(expireWithin)
	defer limit.Stop()
	for {
		stands, err := o.settle(ctx, c, OutcomeExpired, "expired by "+cmp.Or(c.IssuedBy, "an operator"))
		if !errors.Is(err, ErrAuthorityAway) && !errors.Is(err, ErrUnknown) {
			return stands, err
		}
		again := time.NewTimer(expireAgain)
		select {
		case <-again.C:
		case <-limit.C:
			again.Stop()
			return stands, err
		case <-ctx.Done():
			again.Stop()
			return stands, err
		}
	}
}

// conclude makes what we saw of a command its one result, so that everybody sees
// the same, unless it has one.
func (o *Operator) conclude(ctx context.Context, a Answer) {
	a.By, a.At = o.cfg.Name, o.wall()
	name := ""
	for _, w := range o.wentBy(a.Command) { // what stands on one of them stands
		limited, cancel := context.WithTimeout(ctx, concludeWithin/3)
		stands, err := w.Conclude(limited, a)
		cancel()
		if err != nil {
			o.log.Warn("the result of a command could not be written", "session", a.Session, "command", a.Command, "way", w.WayName(), "reason", err.Error())
			continue
		}
		a, name = stands, cmp.Or(name, w.WayName())
	}
	o.post(a, name)
}

func (o *Operator) tell(c Command, f Fate, detail, way string) { o.post(o.answer(c, f, detail), way) }

func (o *Operator) answer(c Command, f Fate, detail string) Answer {
	return Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: f, Detail: detail, By: o.cfg.Name, At: o.wall()}
}

func (o *Operator) post(a Answer, way string) {
	o.cfg.Post(Answered{Answer: a, Way: way, At: o.cfg.Clock.Now().Mono})
}

func (o *Operator) wall() time.Time { return time.Unix(0, o.cfg.Clock.Now().Wall).UTC() }
