package orders

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How long is waited between two tries to reach what keeps results, and how long
// it is asked whether there is one already.
const (
	tryAgain  = 200 * time.Millisecond
	askWithin = 10 * time.Second
)

// delivery is a command in the hands of a handler.
type delivery struct {
	command watchdog.Command
	desk    *Desk
	order   *order
	before  bool // another receiver had it, and never told what it did
}

// hadBefore is what a result says then: a receiver that dies with a command in its
// hands may have obeyed it.
const hadBefore = "it had been delivered before, to a receiver that never told what it did with it"

var _ watchdog.Delivery = (*delivery)(nil)

func (d *delivery) Command() watchdog.Command { return d.command }

// Acknowledge tells everybody who waits. One who waits no more, or not yet, asks
// again by sending again.
func (d *delivery) Acknowledge(_ context.Context, detail string) error {
	d.order.say(d.desk.answer(d.command, watchdog.FateAcknowledged, detail))
	return nil
}

// Finish goes on trying while the results cannot be reached, until ctx ends. If
// they may not be written, those who wait are told all the same.
func (d *delivery) Finish(ctx context.Context, f watchdog.Fate, detail string) (watchdog.Answer, error) {
	if d.before {
		detail = join(detail, hadBefore)
	}
	a := d.desk.answer(d.command, f, detail)
	for {
		stands, err := d.desk.results.Conclude(ctx, a)
		if err == nil {
			d.order.say(stands)
			return stands, nil
		}
		again := errors.Is(err, watchdog.ErrUnknown) || errors.Is(err, watchdog.ErrAuthorityAway)
		switch {
		case ctx.Err() != nil:
			return watchdog.Answer{}, err
		case !again:
			d.order.say(a)
			return watchdog.Answer{}, err
		}
		pause(ctx, tryAgain)
	}
}

// carry sees one delivery through.
func (r *Receiver) carry(ctx context.Context, d *delivery, p Parcel) {
	defer func() {
		d.order.mu.Lock()
		d.order.busy = false
		d.order.mu.Unlock()
	}()
	stop := r.renew(p)
	defer stop()
	stands, found, err := r.stands(ctx, d)
	switch {
	case errors.Is(err, ErrForeign):
		r.desk.log.Warn("a command is not obeyed, for its result could not be told", "session", r.id, "command", d.command.ID, "error", err)
		p.done()
		return
	case found: // a receiver before us finished it
		r.again(d.command, &p, stands)
		d.order.say(stands)
	case err == nil || errors.Is(err, ErrNotKept):
		r.answerOrHandle(ctx, d, &p)
	default:
		r.desk.log.Warn("a command waits: whether it was finished before cannot be read", "session", r.id, "command", d.command.ID, "error", err)
	}
	stop()
	if d.order.over() {
		p.done()
	}
}

// stands reads the result of a command, over a short absence of what keeps it.
func (r *Receiver) stands(ctx context.Context, d *delivery) (a watchdog.Answer, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for {
		a, found, err = r.desk.results.Result(ctx, r.id, d.command.ID)
		if err == nil || errors.Is(err, ErrForeign) || errors.Is(err, ErrNotKept) || ctx.Err() != nil {
			return a, found, err
		}
		pause(ctx, tryAgain)
	}
}

// answerOrHandle answers what needs no handler.
func (r *Receiver) answerOrHandle(ctx context.Context, d *delivery, p *Parcel) {
	var (
		err error
		now = r.desk.wall()
		c   = d.command
	)
	switch {
	case r.desk.rules.otherFleet(&c):
		why := "it is for another fleet, whose ledger is " + c.Fleet
		r.desk.refuse(watchdog.CommandFleet, r.id, c, why)
		_, err = d.Finish(ctx, watchdog.FateRefused, why)
	case now.After(c.Expires):
		d.before = false // what is told says so
		why := "it had expired " + now.Sub(c.Expires).Round(time.Second).String() + " ago by the receiver's clock, before anybody began with it" + p.skew(&c)
		if p.Deliveries > 1 {
			why = "it expired before anybody could tell what became of it"
		}
		r.desk.refuse(watchdog.CommandExpired, r.id, c, why)
		_, err = d.Finish(ctx, watchdog.FateTimedOut, why)
	case p.Deliveries > r.desk.rules.MaxDeliveries:
		d.before = false
		_, err = d.Finish(ctx, watchdog.FateUndeliverable, fmt.Sprintf("it was delivered %d times and never finished", r.desk.rules.MaxDeliveries))
	default:
		d.order.say(r.desk.answer(c, watchdog.FateDelivered, ""))
		r.hand(ctx, d)
	}
	if err != nil {
		r.desk.log.Warn("the result of a command could not be written; it is delivered again", "command", c.ID, "error", err)
	}
}

// skewTold is by how much the clock of a sender must differ from that of whoever
// keeps its commands to be worth a word.
const skewTold = time.Minute

// skew says that the sender of a command that expired has another time than who
// keeps it, or may have; empty: it has not, or that is not known. Nobody sends a
// command that has expired, but it may wait until then for its bus.
func (p *Parcel) skew(c *watchdog.Command) string {
	switch behind := p.At.Sub(c.At); {
	case p.At.IsZero(), c.At.IsZero(), behind.Abs() < skewTold:
		return ""
	case behind > 0 && p.At.Before(c.Expires.Add(skewTold)):
		return "; it came to the bus " + behind.Round(time.Second).String() + " after it was asked for by its sender's clock: the bus was away, or the clocks differ"
	case behind > 0:
		return "; its sender's clock was " + behind.Round(time.Second).String() + " behind that of the bus: set the clocks"
	default:
		return "; its sender's clock was " + (-behind).Round(time.Second).String() + " ahead of that of the bus: set the clocks"
	}
}

// hand gives a command to the handler; a panic in it costs this delivery alone.
func (r *Receiver) hand(ctx context.Context, d *delivery) {
	defer func() {
		if p := recover(); p != nil {
			r.desk.log.Error("handling a command panicked; please report this", "op", string(d.command.Op), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	r.handle(ctx, d)
}

// renew keeps a command from being delivered again while it is handled.
func (r *Receiver) renew(p Parcel) (stop func()) {
	if p.Renew == nil {
		return func() {}
	}
	over := make(chan struct{})
	r.running.Go(func() {
		t := time.NewTicker(r.desk.rules.Lease / 3)
		defer t.Stop()
		for {
			select {
			case <-over:
				return
			case <-t.C:
				p.Renew()
			}
		}
	})
	return sync.OnceFunc(func() { close(over) })
}

func join(detail, more string) string { return strings.TrimPrefix(detail+"; "+more, "; ") }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
