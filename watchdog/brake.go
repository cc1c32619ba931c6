package watchdog

import (
	"math"
	"slices"
	"time"
)

// group is a correlated silence: many sessions that stopped within one
// GroupWindow of each other. Settling its members is held.
type group struct {
	members  map[uint32]time.Duration // since when each is silent
	began    time.Duration
	lastIn   time.Duration
	of       int    // live when it formed
	half     bool   // more than half of the live: held until they beat again, or released
	released string // by whom, and why; empty: it was not
	settled  int    // members that left because they ended
	beat     int    // members that left because they were heard again
}

type silence struct {
	n  uint32
	at time.Duration
}

// brake finds correlated silences.
type brake struct {
	recent []silence // in the last GroupWindow, oldest first
	groups []*group
	byRec  map[uint32]*group
}

// groupSize is how many silences within GroupWindow are one group.
func groupSize(p *Policy, live int) int {
	return max(GroupMin, int(math.Ceil(p.BrakeShare*float64(live))))
}

// wentSilent notes that a session became silent at. It may join or form a group.
// A group takes in what follows closely, but not for longer than it is held: a
// trickle of silences must not keep it alive for ever.
func (t *Tracker) wentSilent(n uint32, at time.Duration) {
	b := &t.brake
	if !t.guarded(guardBrake) {
		return
	}
	keep := b.recent[:0]
	for _, s := range b.recent {
		if at-s.at <= GroupWindow && t.store.at(s.n).verdict == Silent {
			keep = append(keep, s)
		}
	}
	b.recent = append(keep, silence{n, at})
	if g := b.latest(); g != nil && g.released == "" && at-g.lastIn <= GroupWindow && at-g.began <= max(t.policy.BrakeHold, GroupWindow) {
		t.join(g, n, at)
	}
	alone := func(s silence) bool { return b.byRec[s.n] == nil }
	if len(b.recent) < groupSize(&t.policy, t.live) || !slices.ContainsFunc(b.recent, alone) {
		return
	}
	g := &group{members: map[uint32]time.Duration{}, began: at, of: t.live}
	b.groups = append(b.groups, g)
	for _, s := range b.recent {
		if alone(s) {
			g.began = min(g.began, s.at)
			t.join(g, s.n, s.at)
		}
	}
	t.groupFormed(g)
	t.effects = append(t.effects, Grouped{N: len(g.members), At: t.instantAt(at)})
	t.note(Transition{Kind: EventGroup, From: Silent, To: Silent, At: t.instantAt(at),
		Text: FormatCount(len(g.members)) + " of " + FormatCount(g.of) + groupFormedText + "; settling them is held"})
}

// What events say of groups; a hand-over reads it again.
const (
	groupFormedText = " live went silent together"
	groupOverText   = "a group of silent sessions is over: "
)

func (b *brake) latest() *group {
	if len(b.groups) == 0 {
		return nil
	}
	return b.groups[len(b.groups)-1]
}

func (t *Tracker) join(g *group, n uint32, at time.Duration) {
	b := &t.brake
	if b.byRec == nil {
		b.byRec = map[uint32]*group{}
	}
	if old := b.byRec[n]; old != nil && old != g {
		t.leave(n, old)
	}
	g.members[n] = at
	g.lastIn = max(g.lastIn, at)
	b.byRec[n] = g
	t.store.at(n).flags |= flagGrouped
	t.groupJoined(g, n)
	// What is silent in several groups at once counts together.
	if g.of >= GroupMin && len(b.byRec)*2 > max(g.of, t.live) {
		for _, each := range b.groups {
			each.half = each.half || each.released == ""
		}
	}
}

func (t *Tracker) leave(n uint32, g *group) {
	delete(t.brake.byRec, n)
	delete(g.members, n)
	t.store.at(n).flags &^= flagGrouped
}

// leftSilence takes a session out of its group; the last one ends it.
func (t *Tracker) leftSilence(n uint32, now time.Duration) {
	g := t.brake.byRec[n]
	if g == nil {
		return
	}
	t.leave(n, g)
	if t.store.at(n).verdict.Ended() {
		g.settled++
	} else {
		g.beat++
	}
	t.groupLeft(g, n, len(g.members) == 0)
	if len(g.members) > 0 {
		return
	}
	t.brake.groups = slices.DeleteFunc(t.brake.groups, func(other *group) bool { return other == g })
	reason := "all of them beat again"
	switch {
	case g.settled > 0 && g.beat > 0:
		reason = FormatCount(g.settled) + " ended, " + FormatCount(g.beat) + " beat again"
	case g.settled > 0:
		reason = "all of them ended"
	}
	t.effects = append(t.effects, Ungrouped{N: g.settled + g.beat, Reason: reason, At: t.instantAt(now)})
	t.note(Transition{Kind: EventGroup, At: t.instantAt(now), Text: groupOverText + reason})
}

// release lets the groups that are held now be settled.
func (t *Tracker) release(e BrakeReleased) {
	for _, g := range t.brake.groups {
		if g.released != "" {
			continue
		}
		g.released = "released"
		if e.By != "" {
			g.released += " by " + e.By
		}
		if e.Reason != "" {
			g.released += ": " + e.Reason
		}
		for n := range g.members {
			t.unparks = append(t.unparks, n)
		}
		t.note(Transition{Kind: EventGroup, From: Silent, To: Silent, At: t.instantAt(max(t.now.Mono, e.At)),
			Text: "a group of " + FormatCount(len(g.members)) + " is " + g.released})
	}
	slices.Sort(t.unparks)
}

// held reports how long settling a member that is silent since joined is held
// from now; a negative duration has no end by time.
func (g *group) held(p *Policy, joined, now time.Duration) (time.Duration, bool) {
	switch {
	case g.released != "":
		return 0, false
	case g.half:
		return -1, true
	}
	left := joined + p.BrakeHold - now
	return max(left, 0), left > 0
}

// heldWith gives the size of the group that a record is in, and why settling it
// is held; empty: it is not.
func (t *Tracker) heldWith(n uint32) (size int, why string) {
	g := t.brake.byRec[n]
	if g == nil {
		return 0, ""
	}
	left, held := g.held(&t.policy, g.members[n], t.now.Mono)
	switch {
	case !held:
		return len(g.members), ""
	case left < 0:
		return len(g.members), FormatCount(len(g.members)) + " of " + FormatCount(g.of) + groupFormedText + ": held until they beat again or an operator releases it"
	}
	return len(g.members), FormatCount(len(g.members)) + " silent together: held " + FormatAge(left) + " more"
}

// heldUntil is the Mono at which a hold by time ends; forever: none does.
func (t *Tracker) heldUntil(n uint32) time.Duration {
	g := t.brake.byRec[n]
	if g == nil {
		return forever
	}
	if left, held := g.held(&t.policy, g.members[n], t.now.Mono); held && left >= 0 {
		return g.members[n] + t.policy.BrakeHold
	}
	return forever
}
