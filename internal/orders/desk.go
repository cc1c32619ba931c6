package orders

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Results keeps the one result of each command.
type Results interface {
	// Result reads it; found is false if there is none yet. ErrForeign says that
	// something else stands there for good, ErrNotKept that none are kept.
	Result(ctx context.Context, id watchdog.ID, command string) (a watchdog.Answer, found bool, err error)
	// Conclude writes it unless there is one, and gives the one that stands. An
	// error that wraps watchdog.ErrUnknown or watchdog.ErrAuthorityAway is tried
	// again.
	Conclude(ctx context.Context, a watchdog.Answer) (watchdog.Answer, error)
}

// Errors of Results.
var (
	ErrForeign = errors.New("something that is no result of the command stands in its place")
	ErrNotKept = errors.New("results are not kept here")
)

// Sender is where somebody waits for what becomes of a command. It is comparable,
// and Tell neither blocks nor fails.
type Sender interface{ Tell(watchdog.Answer) }

// Parcel is a command as it came.
type Parcel struct {
	Envelope      []byte
	Authenticated bool      // the server demanded it of everybody
	Loopback      bool      // the server is on this machine
	Deliveries    int       // counted by who keeps the command, this one included; 0: nobody does
	At            time.Time // when it was sent, by the clock of whoever keeps it; zero: now
	Herald        bool      // it only says who waits: the command itself comes from whoever keeps it
	Sender        Sender    // nil: nobody waits
	Done          func()    // it need not come again; nil: nobody would send it
	Renew         func()    // called now and then while it is handled, to keep the lease; nil: there is none
}

// maxRemembered is how many command ids a process remembers, and maxSenders how
// many who wait for one.
const (
	maxRemembered = 10_000
	maxSenders    = 16
)

// Desk is what a process knows of the commands that came to it.
type Desk struct {
	way     string
	rules   Rules
	results Results
	wall    func() time.Time
	log     *slog.Logger

	mu      sync.Mutex
	known   map[string]*order
	oldest  []string // ids in the order in which they came
	refused watchdog.RefusedCommands
}

// NewDesk makes a desk of a way. wall is the clock that expiry is judged by.
func NewDesk(way string, rules Rules, results Results, wall func() time.Time, log *slog.Logger) *Desk {
	return &Desk{way: way, rules: rules.WithDefaults(), results: results, wall: wall, log: log, known: map[string]*order{}}
}

// order is what this process did with a command.
type order struct {
	mu         sync.Mutex
	senders    []Sender // who wants to hear of it, or did
	last       watchdog.Answer
	busy       bool
	deliveries int       // where nobody else counts
	handedAt   time.Time // with a monotonic reading
}

// Refused counts what was not obeyed.
func (d *Desk) Refused() watchdog.RefusedCommands {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// refuse counts, tells and logs a command that is not obeyed.
func (d *Desk) refuse(f watchdog.CommandFault, id watchdog.ID, c watchdog.Command, why string) {
	d.mu.Lock()
	d.refused.Add(f)
	d.mu.Unlock()
	d.log.Warn("a command was refused", "session", id, "command", c.ID, "op", string(c.Op), "fault", f.String(), "reason", why)
	if d.rules.Refused != nil {
		d.rules.Refused(watchdog.RefusedCommand{Fault: f, Session: id, Command: c, Why: why, Way: d.way, At: d.wall()})
	}
}

// remember gives what is known of a command: an id is of one session.
func (d *Desk) remember(id string) *order {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.known[id]
	if o == nil {
		o = &order{}
		d.known[id] = o
		if d.oldest = append(d.oldest, id); len(d.oldest) > maxRemembered {
			delete(d.known, d.oldest[0])
			d.oldest = d.oldest[1:]
		}
	}
	return o
}

// say notes what became of a command and tells everybody who waits.
func (o *order) say(a watchdog.Answer) {
	o.mu.Lock()
	if o.last.Fate.Final() {
		o.mu.Unlock()
		return
	}
	o.last = a
	senders := slices.Clone(o.senders)
	o.mu.Unlock()
	for _, s := range senders {
		s.Tell(a)
	}
}

func (o *order) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last.Fate.Final()
}

// Receiver takes the commands to one session that know some ops.
type Receiver struct {
	desk    *Desk
	id      watchdog.ID
	knows   []watchdog.Op
	handle  func(context.Context, watchdog.Delivery)
	running sync.WaitGroup
	warned  bool // of an unknown op, in this pass
}

// Receiver makes one. Its Take and Pass are for one goroutine.
func (d *Desk) Receiver(id watchdog.ID, knows []watchdog.Op, handle func(context.Context, watchdog.Delivery)) *Receiver {
	return &Receiver{desk: d, id: id, knows: knows, handle: handle}
}

// Pass begins a new pass: one warning of unknown ops.
func (r *Receiver) Pass() { r.warned = false }

// Wait waits for the handlers that run.
func (r *Receiver) Wait() { r.running.Wait() }

// Go runs f as one of those that Wait waits for.
func (r *Receiver) Go(f func()) { r.running.Go(f) }

// Take looks at one parcel and starts what is to be done with it. ctx is that of
// the handler.
func (r *Receiver) Take(ctx context.Context, p Parcel) {
	c, ok := r.read(&p)
	if !ok {
		p.done()
		return
	}
	o := r.desk.remember(string(c.Session) + " " + c.ID)
	o.mu.Lock()
	defer o.mu.Unlock()
	waited := slices.Contains(o.senders, p.Sender)
	if p.Sender != nil {
		if !waited {
			o.senders = append(o.senders[max(0, len(o.senders)-maxSenders+1):], p.Sender)
		}
		if o.last.Fate != watchdog.FateNone {
			p.Sender.Tell(o.last)
		}
	}
	switch {
	case o.last.Fate.Final():
		if !p.Herald && !waited {
			r.again(c, &p, o.last)
		}
		p.done()
	case o.busy, p.Herald, p.Deliveries == 0 && o.deliveries > 0 && time.Since(o.handedAt) < r.desk.rules.Lease:
	default:
		o.busy, o.handedAt = true, time.Now()
		o.deliveries++
		if p.Deliveries == 0 {
			p.Deliveries = o.deliveries
		}
		d := &delivery{command: c, desk: r.desk, order: o, before: p.Deliveries > o.deliveries}
		r.running.Go(func() { r.carry(ctx, d, p) })
	}
}

// again counts a command that was sent after its result had been written.
func (r *Receiver) again(c watchdog.Command, p *Parcel, result watchdog.Answer) {
	if p.Deliveries <= 1 && (p.At.IsZero() || p.At.After(result.At)) {
		r.desk.refuse(watchdog.CommandReplayed, r.id, c, "it came again after it was finished: "+result.Fate.Sentence())
	}
}

// read opens a parcel; ok is false if nothing is to be done with it.
func (r *Receiver) read(p *Parcel) (c watchdog.Command, ok bool) {
	d := r.desk
	e, err := wire.DecodeEnvelope(p.Envelope)
	if err == nil {
		c, err = wire.DecodeCommand(r.id, e.Payload)
	}
	if err != nil {
		if !p.Herald {
			d.refuse(watchdog.CommandUnreadable, r.id, watchdog.Command{}, err.Error())
		}
		return c, false
	}
	if f, err := d.rules.fault(e, p); err != nil {
		if p.Herald {
			return c, false
		}
		d.refuse(f, r.id, c, err.Error())
		if p.Sender != nil {
			p.Sender.Tell(d.answer(c, watchdog.FateRefused, err.Error()))
		}
		return c, false
	}
	if !slices.Contains(r.knows, c.Op) {
		if !r.warned {
			r.warned = true
			d.log.Warn("a command is left to others: its op is not known here", "session", r.id, "op", string(c.Op))
		}
		return c, false
	}
	return c, true
}

func (p *Parcel) done() {
	if p.Done != nil {
		p.Done()
	}
}

func (d *Desk) answer(c watchdog.Command, f watchdog.Fate, detail string) watchdog.Answer {
	return watchdog.Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: f, Detail: detail, By: d.rules.Name, At: d.wall()}
}
