package watchdog

import (
	"fmt"
	"math"
	"time"
)

// group is a correlated silence: many sessions that stopped within one
// GroupWindow of each other. Settling its members is held.
type group struct {
	members map[uint32]struct{}
	began   time.Duration
	lastIn  time.Duration
	of      int  // live when it formed
	half    bool // more than half of the live: held until they beat again, or released
}

type silence struct {
	n  uint32
	at time.Duration
}

// brake finds correlated silences.
type brake struct {
	recent []silence // in the last GroupWindow, oldest first, not in a group
	groups []*group
	byRec  map[uint32]*group
}

// groupSize is how many silences within GroupWindow are one group.
func groupSize(p *Policy, live int) int {
	return max(GroupMin, int(math.Ceil(p.BrakeShare*float64(live))))
}

// wentSilent notes that a session became silent at. It may join or form a group.
func (t *Tracker) wentSilent(n uint32, at time.Duration) {
	b := &t.brake
	if !t.guarded(guardBrake) {
		return
	}
	if g := b.latest(); g != nil && at-g.lastIn <= GroupWindow {
		t.join(g, n, at)
		return
	}
	keep := b.recent[:0]
	for _, s := range b.recent {
		if at-s.at <= GroupWindow && t.store.at(s.n).verdict == Silent {
			keep = append(keep, s)
		}
	}
	b.recent = append(keep, silence{n, at})
	if len(b.recent) < groupSize(&t.policy, t.live) {
		return
	}
	g := &group{members: map[uint32]struct{}{}, began: b.recent[0].at, of: t.live}
	b.groups = append(b.groups, g)
	for _, s := range b.recent {
		t.join(g, s.n, s.at)
	}
	b.recent = b.recent[:0]
	t.effects = append(t.effects, Grouped{N: len(g.members), At: t.instantAt(at)})
}

func (b *brake) latest() *group {
	if len(b.groups) == 0 {
		return nil
	}
	return b.groups[len(b.groups)-1]
}

func (t *Tracker) join(g *group, n uint32, at time.Duration) {
	if t.brake.byRec == nil {
		t.brake.byRec = map[uint32]*group{}
	}
	g.members[n] = struct{}{}
	g.lastIn = max(g.lastIn, at)
	t.brake.byRec[n] = g
	t.store.at(n).flags |= flagGrouped
	if g.of >= GroupMin && len(g.members)*2 > g.of {
		g.half = true
	}
}

// leftSilence takes a session out of its group; the last one ends it.
func (t *Tracker) leftSilence(n uint32, now time.Duration) {
	g := t.brake.byRec[n]
	if g == nil {
		return
	}
	delete(t.brake.byRec, n)
	delete(g.members, n)
	t.store.at(n).flags &^= flagGrouped
	if len(g.members) > 0 {
		return
	}
	for i, other := range t.brake.groups {
		if other == g {
			t.brake.groups = append(t.brake.groups[:i], t.brake.groups[i+1:]...)
			break
		}
	}
	t.effects = append(t.effects, Ungrouped{Reason: "all of them beat again", At: t.instantAt(now)})
}

// held reports how long settling g is held from now; a negative duration has
// no end by time.
func (g *group) held(p *Policy, now time.Duration) (time.Duration, bool) {
	if g.half {
		return -1, true
	}
	left := g.began + p.BrakeHold - now
	return max(left, 0), left > 0
}

// heldText says it, empty if it is not held.
func (g *group) heldText(p *Policy, now time.Duration) string {
	left, held := g.held(p, now)
	switch {
	case !held:
		return ""
	case left < 0:
		return fmt.Sprintf("%d of %d live went silent together: held until they beat again or an operator releases it", len(g.members), g.of)
	}
	return fmt.Sprintf("%d silent together: held %s more", len(g.members), FormatAge(left))
}
