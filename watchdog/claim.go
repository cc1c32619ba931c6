package watchdog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Claim decides which number an execution has, and gives the head that must
// stand for it to be so. A zero number: it cannot be told whether the execution
// is a new one, or it is older than all that is known.
//
// The rules, the first that applies:
//
//   - a number that the publisher names is its number, and the head is at least that;
//   - a boot id that is recorded keeps its number;
//   - New gives the next number;
//   - a boot id that is not recorded gives the next number, unless it only adds
//     the id to an execution that is known already: by its start, or because a
//     supervisor started the open head;
//   - but none if it did not start after all that is recorded and was not heard
//     since its claimer knew the head: then it was over before its successor got
//     a number, and would stand above it;
//   - what was seen to begin after a generation has a higher number;
//   - without a boot id a recorded start (within 5 s) keeps its number; what an
//     open head's supervisor started is the head's; a start later than all
//     recorded gives the next number; one that is not known is the head's while
//     that is open.
//
// Every rule gives the same answer when it is asked again of the next head, so
// that a claim may be repeated when its fate is not known.
func (h Head) Claim(c Claim) (next Head, g Generation, changed bool) {
	g = h.numberOf(&c)
	if g == 0 {
		return h, 0, false
	}
	next = h
	next.ID = c.ID
	if g > h.Generation {
		next.Generation, next.Ended, next.Cadence, next.Sources = g, false, 0, 0
	}
	start := c.Start
	if !start.IsZero() {
		start = start.UTC().Truncate(time.Millisecond)
	}
	next.Executions = remember(h.Executions, Execution{Generation: g, BootID: c.BootID, Start: start, Supervised: c.New})
	if g == next.Generation {
		if c.Cadence > 0 {
			next.Cadence = c.Cadence
		}
		next.Sources |= c.Sources
	}
	return next, g, !next.same(h)
}

// End marks the head ended where it names the generation that r ended. A head
// that has moved on is left alone; one that lags behind is brought up, so that
// no number is given out a second time.
func (h Head) End(r Record) (next Head, changed bool) {
	if r.Generation < h.Generation || r.Generation == h.Generation && h.Ended {
		return h, false
	}
	next = h
	if r.Generation > h.Generation {
		next.ID, next.Generation, next.Cadence, next.Sources = r.ID, r.Generation, 0, 0
	}
	next.Ended = true
	return next, true
}

// Overrule ends a generation at whose place something foreign stands: with r, an
// operator's expire. The first such end stands.
func (h Head) Overrule(r Record) (next Head, changed bool) {
	if h.overruling(r.Generation) != nil {
		return h, false
	}
	next, _ = h.End(r)
	at, _ := slices.BinarySearchFunc(h.Overruled, r.Generation, func(o Overruling, g Generation) int { return cmp.Compare(g, o.Generation) })
	next.Overruled = slices.Insert(slices.Clone(h.Overruled), at, Overruling{Generation: r.Generation, Writer: r.Writer,
		Nonce: r.Nonce, Reason: r.Reason, At: r.At.UTC().Truncate(time.Millisecond)})
	next.Overruled = next.Overruled[:min(len(next.Overruled), MaxExecutions)]
	return next, at < MaxExecutions
}

func (h *Head) overruling(g Generation) *Overruling {
	for i := range h.Overruled {
		if h.Overruled[i].Generation == g {
			return &h.Overruled[i]
		}
	}
	return nil
}

func (h *Head) same(o Head) bool {
	return h.ID == o.ID && h.Generation == o.Generation && h.Ended == o.Ended && h.Cadence == o.Cadence &&
		h.Sources == o.Sources && slices.Equal(h.Executions, o.Executions) && slices.Equal(h.Overruled, o.Overruled)
}

// open reports whether the head's generation goes on.
func (h *Head) open() bool { return h.Generation != 0 && !h.Ended }

// following is the next number; 0 if there is none left.
func (h *Head) following() Generation {
	if h.Generation == math.MaxUint32 {
		return 0
	}
	return h.Generation + 1
}

func (h *Head) numberOf(c *Claim) Generation {
	if c.Generation != 0 && !c.New {
		return c.Generation
	}
	if e := h.byBoot(c.BootID); e != nil {
		return e.Generation
	}
	switch {
	case c.New:
		return h.following()
	case c.BootID == "":
		return h.numberByStart(c)
	}
	if g := h.match(c.BootID, c.Start, c.After); g != 0 || h.outlived(c) {
		return g
	}
	return h.following()
}

// outlived reports whether an execution may have been over before the newest one
// that is recorded got its number. A claim may wait for as long as its claimer is
// stopped.
func (h *Head) outlived(c *Claim) bool {
	newest := h.newestStart()
	return c.Knew < h.Generation && !c.Start.IsZero() && !newest.IsZero() && !before(newest, c.Start)
}

// match finds the number of an execution by what the head knows of others than
// its boot id; 0: nothing matches. It is higher than after.
func (h *Head) match(boot string, start time.Time, after Generation) Generation {
	if e := h.byStart(start, func(e *Execution) bool { return e.Generation > after && (boot == "" || e.BootID == "") }); e != nil {
		return e.Generation
	}
	if e := h.supervised(); e != nil && h.Generation > after && (boot == "" || !before(start, e.Start)) {
		return h.Generation
	}
	return 0
}

// numberByStart is the share of publishers without a boot id.
func (h *Head) numberByStart(c *Claim) Generation {
	if g := h.match("", c.Start, c.After); g != 0 {
		return g
	}
	newest := h.newestStart()
	switch {
	case h.Generation == 0:
		return max(1, c.After+1)
	case h.Generation <= c.After:
		return (&Head{Generation: c.After}).following()
	case c.Start.IsZero() || newest.IsZero():
		if h.open() {
			return h.Generation
		}
		return 0
	case !before(newest, c.Start):
		return 0
	case c.First && h.open():
		return 0 // the beat that it was told by may have come late
	}
	return h.following()
}

// before reports whether a lies before b by more than estimates of one start
// may differ. What is not known lies before nothing.
func before(a, b time.Time) bool {
	return !a.IsZero() && !b.IsZero() && a.Before(b.Add(-startTolerance))
}

func (h *Head) byBoot(boot string) *Execution {
	for i := range h.Executions {
		if boot != "" && h.Executions[i].BootID == boot {
			return &h.Executions[i]
		}
	}
	return nil
}

// byStart gives the execution whose start is nearest to start, within the
// tolerance.
func (h *Head) byStart(start time.Time, match func(*Execution) bool) *Execution {
	var best *Execution
	for i := range h.Executions {
		e := &h.Executions[i]
		if start.IsZero() || e.Start.IsZero() || !match(e) {
			continue
		}
		off := e.Start.Sub(start).Abs()
		if off <= startTolerance && (best == nil || off < best.Start.Sub(start).Abs()) {
			best = e
		}
	}
	return best
}

// supervised is the open head's execution, if a supervisor started it.
func (h *Head) supervised() *Execution {
	for i := range h.Executions {
		if e := &h.Executions[i]; h.open() && e.Generation == h.Generation && e.Supervised {
			return e
		}
	}
	return nil
}

func (h *Head) newestStart() time.Time {
	var newest time.Time
	for i := range h.Executions {
		if s := h.Executions[i].Start; s.After(newest) {
			newest = s
		}
	}
	return newest
}

// remember adds e to the executions, newest first, or what it tells more of one
// that is there. The list given is not changed.
func remember(have []Execution, e Execution) []Execution {
	out := slices.Clone(have)
	for i := range out {
		k := &out[i]
		if k.Generation != e.Generation || k.BootID != "" && e.BootID != "" && k.BootID != e.BootID {
			continue
		}
		if k.BootID == "" {
			k.BootID = e.BootID
		}
		// An estimate is late by as much as its beat was: the earliest is the nearest.
		if !e.Start.IsZero() && (k.Start.IsZero() || k.Start.Sub(e.Start) > time.Second) {
			k.Start = e.Start
		}
		k.Supervised = k.Supervised || e.Supervised
		return out
	}
	at := 0
	for at < len(out) && out[at].Generation > e.Generation {
		at++
	}
	out = slices.Insert(out, at, e)
	return out[:min(len(out), MaxExecutions)]
}

// maxSwaps bounds how often a head is read again because others changed it.
// Each time somebody else has got on.
const maxSwaps = 200

// maxUnknown bounds how often a head is read again because the fate of a write
// is not known.
const maxUnknown = 2

// Allocate asks the ledger for the number of an execution. Zero: it cannot be
// told yet, see Head.Claim. ErrUnknown and ErrAuthorityAway may be wrapped; the
// same claim may be made again then, a New one with the same boot id.
func Allocate(ctx context.Context, l Ledger, c Claim) (Generation, error) {
	if c.ID == "" {
		return 0, errors.New("a claim needs a session id")
	}
	if c.New && c.BootID == "" {
		c.BootID = rand.Text() // so that a repeat finds its own number
	}
	var number Generation
	err := swap(ctx, l, c.ID, func(h Head) (Head, bool) {
		next, g, changed := h.Claim(c)
		number = g
		return next, changed
	})
	if err != nil {
		return 0, err
	}
	if number == 0 && c.New {
		return 0, fmt.Errorf("session %s has used up its numbers; give the next run another id", c.ID)
	}
	return number, nil
}

// CloseHead marks a session's head ended, if it still names the generation that
// r ended.
func CloseHead(ctx context.Context, l Ledger, r Record) error {
	return swap(ctx, l, r.ID, func(h Head) (Head, bool) { return h.End(r) })
}

// OverruleForeign ends the generation of r, an operator's expire, in its
// session's head, because something foreign stands where its record belongs. It
// gives the end that stands: another operator's if that was there first.
func OverruleForeign(ctx context.Context, l Ledger, r Record) (stands Record, err error) {
	err = swap(ctx, l, r.ID, func(h Head) (Head, bool) {
		next, changed := h.Overrule(r)
		if o := next.overruling(r.Generation); o != nil {
			stands = o.record(r.ID)
		}
		return next, changed
	})
	if err == nil && stands.Generation == 0 {
		err = fmt.Errorf("the head of %s already tells of %d newer generations that were expired over foreign records", r.ID, MaxExecutions)
	}
	if err != nil {
		return Record{}, err
	}
	return stands, nil
}

// EndOf reads how a generation ended: its record, or, where something foreign
// stands at its place, the operator's expire that overruled it. Its errors are
// those of Ledger.Record.
func EndOf(ctx context.Context, l Ledger, id ID, g Generation) (r Record, found bool, err error) {
	r, found, err = l.Record(ctx, id, g)
	if !errors.Is(err, ErrForeignRecord) {
		return r, found, err
	}
	h, _, headErr := l.Head(ctx, id)
	if headErr != nil {
		return Record{}, false, headErr
	}
	if o := h.overruling(g); o != nil {
		return o.record(id), true, nil
	}
	return Record{}, false, err
}

// swap reads a head, decides, and writes what was decided, until nobody comes
// between.
func swap(ctx context.Context, l Ledger, id ID, decide func(Head) (next Head, changed bool)) error {
	unknown := 0
	for range maxSwaps {
		h, rev, err := l.Head(ctx, id)
		if err != nil {
			return fmt.Errorf("reading the head of %s: %w", id, err)
		}
		next, changed := decide(h)
		if !changed {
			return nil
		}
		next.ID = id
		_, err = l.SwapHead(ctx, next, rev)
		if err == nil {
			return nil
		}
		// What is not known is found out by reading again; every decision may be
		// made twice.
		if errors.Is(err, ErrUnknown) {
			unknown++
		}
		again := errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown) && unknown <= maxUnknown
		if !again || ctx.Err() != nil {
			return fmt.Errorf("writing the head of %s: %w", id, err)
		}
	}
	return fmt.Errorf("writing the head of %s: others changed it %d times meanwhile; ask again: %w", id, maxSwaps, ErrConflict)
}
