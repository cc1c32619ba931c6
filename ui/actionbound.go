package ui

import (
	"slices"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// acting is an action that is asked about: what it is for, bound when its key
// was pressed, and what became of that since.
type acting struct {
	op     watchdog.Op
	by     string // as whom it is audited; empty not known
	gen    uint64 // of the feed
	on     []watchdog.Picked
	left   []leftOut
	reason string

	known *watchdog.Detail                 // of the only one: as last told of the bound execution; nil not yet
	now   map[watchdog.ID]*watchdog.Picked // as last told; nil not yet
	seq   uint64                           // answers to older asks are of others
}

// leftOut is a session that does not get the action, and why.
type leftOut struct {
	id  watchdog.ID
	why string
}

const filterHides = "hidden by the filter"

// newActing binds op to what is current now.
func newActing(op watchdog.Op, a *aim, m *Model) *acting {
	act := &acting{op: a.takes(op), by: m.about.Operator, gen: m.gen}
	for i := range a.on {
		if why := a.on[i].Can.Not(act.op); why != "" {
			act.left = append(act.left, leftOut{a.on[i].ID, why})
			continue
		}
		act.on = append(act.on, a.on[i])
	}
	for _, id := range a.hidden {
		act.left = append(act.left, leftOut{id, filterHides})
	}
	for _, id := range a.unknown {
		act.left = append(act.left, leftOut{id, "not known yet"})
	}
	if d, full := m.detail(); full && len(act.on) == 1 && d.ID == act.on[0].ID {
		act.known = d
	}
	return act
}

func (a *acting) ids() []watchdog.ID {
	ids := make([]watchdog.ID, len(a.on))
	for i := range a.on {
		ids[i] = a.on[i].ID
	}
	return ids
}

// follow takes in how those that it is bound to are now.
func (a *acting) follow(w *watchdog.Window) {
	if w.AskSeq < a.seq {
		return // it was asked about others
	}
	a.now = make(map[watchdog.ID]*watchdog.Picked, len(w.Picked))
	for i := range w.Picked {
		a.now[w.Picked[i].ID] = &w.Picked[i]
	}
	if d := w.Focus; d != nil && len(a.on) == 1 && d.ID == a.on[0].ID && a.moved(0) == "" {
		a.known = d
	}
}

// newest is how a bound session was last told to be; nil: it is gone.
func (a *acting) newest(i int) *watchdog.Picked {
	if a.now == nil {
		return &a.on[i]
	}
	return a.now[a.on[i].ID]
}

// moved says that another execution than the bound one is current, or why it
// does not take the action any more; empty: neither.
func (a *acting) moved(i int) string {
	bound, now := &a.on[i], a.newest(i)
	switch {
	case now == nil:
		return "it is not known any more"
	case !bound.SameExecution(now) && now.Generation != bound.Generation:
		return generation(now.Generation) + " is current now, and is not touched"
	case !bound.SameExecution(now):
		return "another run of it is current now, and is not touched"
	}
	return now.Can.Not(a.op)
}

// still is for how many it can be done.
func (a *acting) still() int {
	n := 0
	for i := range a.on {
		if a.moved(i) == "" {
			n++
		}
	}
	return n
}

// refusal says why there is nothing left to confirm; empty: there is.
func (a *acting) refusal(m *Model) string {
	switch {
	case a.gen != m.gen:
		return "nothing was done: something else is watched now"
	case a.still() > 0:
		return ""
	case len(a.on) == 1:
		return "nothing was done: " + string(a.on[0].ID) + ": " + a.moved(0)
	}
	return "nothing was done: all " + count(len(a.on)) + " have moved on"
}

// canKill reports whether it is a stop that could be a kill.
func (a *acting) canKill(m *Model) bool {
	if a.op != watchdog.OpStop || a.refusal(m) != "" {
		return false
	}
	for i := range a.on {
		if p := a.newest(i); p != nil && p.Can.Not(watchdog.OpKill) == "" {
			return true
		}
	}
	return false
}

// killing is the same, bound to the same executions, as a kill.
func (a *acting) killing() *acting {
	k := *a
	k.op, k.on, k.left = watchdog.OpKill, nil, slices.Clone(a.left)
	for i := range a.on {
		p := a.newest(i)
		if p == nil {
			p = &a.on[i]
		}
		if why := p.Can.Not(watchdog.OpKill); why != "" {
			k.left = append(k.left, leftOut{a.on[i].ID, why})
			continue
		}
		k.on = append(k.on, a.on[i])
	}
	return &k
}

// whom names what it is for: "indexer #2", "12 sessions".
func (a *acting) whom() string {
	if len(a.on) == 1 {
		return string(a.on[0].ID) + " " + generation(a.on[0].Generation)
	}
	return counted(len(a.on), "session")
}

// what is "stop indexer #2".
func (a *acting) what() string { return string(a.op) + " " + a.whom() }
