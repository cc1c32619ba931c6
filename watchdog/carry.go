package watchdog

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// otherWayAfter is how long a command waits for a receiver on one way before it
// goes by the next one too. Its id is the same, and so is the execution that it is
// pinned to.
const otherWayAfter = 5 * time.Second

var errCarrying = errors.New("carrying it out failed here; what became of it is not known: please report this")

// carrying is a command on its ways.
type carrying struct {
	o       *Operator
	c       Command
	rest    []CommandWay // not begun
	open    int
	taken   atomic.Bool // a receiver has it
	ends    chan wayEnd
	running sync.WaitGroup
	failed  wayEnd // what is told if no way brings a result
}

// wayEnd is what came of one way of a command.
type wayEnd struct {
	way    CommandWay
	answer Answer
	err    error
}

// ways are those by which a session may be reached, in the order in which they
// are tried.
func (o *Operator) ways(id ID) []CommandWay {
	var heard, others []CommandWay
	for _, w := range o.cfg.Ways {
		switch {
		case !w.Carries(id):
		case o.cfg.Heard == nil || o.cfg.Heard(id, w.WayName()):
			heard = append(heard, w)
		default:
			others = append(others, w)
		}
	}
	return append(heard, others...)
}

// goes notes that a command goes by a way.
func (o *Operator) goes(id string, w CommandWay) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.went[id] = append(o.went[id], w)
}

// wentBy are the ways by which a command went, until its fate is final.
func (o *Operator) wentBy(id string) []CommandWay {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.went[id])
}

// deliver brings a command to its receiver and tells what becomes of it.
func (o *Operator) deliver(ctx context.Context, c Command) {
	ways := o.ways(c.Session)
	if len(ways) == 0 {
		o.tell(c, FateRefused, "no bus carries commands to it", "")
		return
	}
	carry, cancel := context.WithCancel(ctx)
	d := &carrying{o: o, c: c, rest: ways, ends: make(chan wayEnd, len(ways))}
	defer d.running.Wait()
	defer cancel()
	d.begin(carry)
	for {
		next := time.NewTimer(otherWayAfter)
		select {
		case <-next.C:
			if !d.taken.Load() {
				d.begin(carry)
			}
		case e := <-d.ends:
			if d.over(ctx, carry, e) {
				return
			}
		case <-ctx.Done(): // its fate is known, or whoever comes next reads it
			return
		}
		next.Stop()
	}
}

// begin sends by one more way.
func (d *carrying) begin(ctx context.Context) {
	if len(d.rest) == 0 || ctx.Err() != nil {
		return
	}
	w := d.rest[0]
	d.rest = d.rest[1:]
	d.open++
	d.o.goes(d.c.ID, w)
	d.running.Go(func() {
		e := wayEnd{way: w, err: errCarrying}
		defer func() {
			if r := recover(); r != nil {
				d.o.log.Error("a panic was caught", "in", "the way of a command", "way", w.WayName(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			}
			d.ends <- e
		}()
		e.answer, e.err = w.Carry(ctx, d.c, func(word Answer) {
			if word.Fate >= FateDelivered {
				d.taken.Store(true)
			}
			d.o.post(word, w.WayName())
		})
	})
}

// over takes in what came of one way; it reports whether that decides.
func (d *carrying) over(ctx, carry context.Context, e wayEnd) bool {
	d.open--
	if ctx.Err() != nil {
		return true
	}
	if e.err == nil {
		went := d.o.wentBy(d.c.ID)
		// An end that a receiver tells of is verified before it counts.
		claims := e.answer.Fate == FateEffective && (d.c.Op == OpStop || d.c.Op == OpKill)
		d.o.cfg.Post(Answered{Answer: e.answer, Way: e.way.WayName(), At: d.o.cfg.Clock.Now().Mono, Unverified: claims})
		d.concludeOthers(ctx, e, went)
		return true
	}
	if d.failed.err == nil || errors.Is(d.failed.err, ErrNobody) && !errors.Is(e.err, ErrNobody) {
		d.failed = e
	}
	if !d.taken.Load() {
		d.begin(carry)
	}
	if d.open > 0 {
		return false
	}
	d.fail()
	return true
}

// fail tells that no way brought a result.
func (d *carrying) fail() {
	err, way := d.failed.err, d.failed.way.WayName()
	switch {
	case errors.Is(err, errCarrying):
		d.o.tell(d.c, FateTimedOut, err.Error(), way)
	case d.taken.Load(): // what we see of its target tells the rest
		d.o.tell(d.c, FateAcknowledged, "it was taken, and its result cannot be read: "+err.Error(), way)
	case errors.Is(err, ErrNobody) && d.c.Op == OpRestart:
		d.o.tell(d.c, FateRefused, noSupervisor, way)
	case errors.Is(err, ErrNobody):
		d.o.tell(d.c, FateUndeliverable, ErrNobody.Error(), way)
	default:
		d.o.tell(d.c, FateRefused, err.Error(), way)
	}
}

// concludeOthers lets the result stand on the other ways by which the command
// went: who finds it there later leaves it.
func (d *carrying) concludeOthers(ctx context.Context, e wayEnd, went []CommandWay) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeWithin/5)
	defer cancel()
	for _, w := range went {
		if w.WayName() == e.way.WayName() {
			continue
		}
		if _, err := w.Conclude(ctx, e.answer); err != nil {
			d.o.log.Warn("the result of a command is not told on every way that it went", "session", d.c.Session, "command", d.c.ID, "way", w.WayName(), "reason", err.Error())
		}
	}
}
