package stackdump

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"
)

// Group is all threads of one state and stack. Arguments, addresses and labels
// do not count.
type Group struct {
	Threads []int // indexes, in the order of the dump
	Count   int   // threads that they stand for
	Rank    Suspicion
	Wait    time.Duration // the longest
}

// Suspicion says why a group stands where it does. Less is more suspect.
type Suspicion uint8

// The order of groups.
const (
	IsLoop        Suspicion = iota // the thread of the event loop
	InDeadlock                     // of a cycle of waits
	HoldsLock                      // others wait for what it holds
	WaitsLong                      // the runtime says since when it waits
	OnCPU                          // running
	IsRare                         // a stack of its own
	InPool                         // one of many of the same stack
	IsRuntime                      // nothing of the program's own
	WroteDumpOnly                  // runs only because it wrote the dump
)

// group puts threads together, in the order of the first of each.
func group(d *Dump) []Group {
	seed := maphash.MakeSeed()
	var groups []Group
	byHash := make(map[uint64]int, 64)
	next := map[int]int{} // groups whose stacks have the same hash
	for i := range d.Threads {
		t := &d.Threads[i]
		h := hashOf(seed, t)
		at, found := byHash[h]
		for found && !sameStack(&d.Threads[groups[at].Threads[0]], t) {
			var more bool
			if at, more = next[at]; !more {
				at, found = -1, false
			}
		}
		if !found {
			groups = append(groups, Group{})
			if first, taken := byHash[h]; taken {
				for last, more := next[first]; more; last, more = next[first] {
					first = last
				}
				next[first] = len(groups) - 1
			} else {
				byHash[h] = len(groups) - 1
			}
			at = len(groups) - 1
		}
		g := &groups[at]
		g.Threads = append(g.Threads, i)
		g.Count += t.Count
		g.Wait = max(g.Wait, t.Wait)
	}
	return groups
}

func hashOf(seed maphash.Seed, t *Thread) uint64 {
	return hashFrames(seed, t.Frames) ^ maphash.String(seed, t.State)
}

func hashFrames(seed maphash.Seed, frames []Frame) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range frames {
		f := &frames[i]
		h.WriteString(f.Function)
		h.WriteByte(0)
		h.WriteString(f.File)
		h.WriteByte(byte(f.Line))
		h.WriteByte(byte(f.Line >> 8))
	}
	return h.Sum64()
}

// sameStack reports whether two threads belong to one group.
func sameStack(a, b *Thread) bool {
	return a.State == b.State && a.Torn == b.Torn && sameFrames(a.Frames, b.Frames)
}

func sameFrames(a, b []Frame) bool {
	if len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] {
		return true
	}
	return slices.EqualFunc(a, b, sameFrame)
}

// equalFrame reports whether two frames are alike in everything.
func equalFrame(a, b Frame) bool { return a == b }

func sameFrame(a, b Frame) bool {
	return a.Line == b.Line && a.Function == b.Function && a.File == b.File
}

// rank orders the groups by suspicion.
func rank(a *Analysis) {
	d := a.Dump
	members := map[int]bool{}
	for _, c := range a.Cycles {
		for _, i := range c.Threads {
			members[i] = true
		}
	}
	held := map[int]bool{}
	for _, e := range a.Edges {
		held[e.To] = e.To >= 0
	}
	for i := range a.Groups {
		g := &a.Groups[i]
		g.Rank = suspicion(d, g, a.Loop, members, held)
	}
	slices.SortStableFunc(a.Groups, func(x, y Group) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(y.Wait, x.Wait), cmp.Compare(x.Count, y.Count))
	})
}

func suspicion(d *Dump, g *Group, loop int, members, held map[int]bool) Suspicion {
	t := &d.Threads[g.Threads[0]]
	has := func(set map[int]bool) bool { return slices.ContainsFunc(g.Threads, func(i int) bool { return set[i] }) }
	switch {
	case slices.Contains(g.Threads, loop):
		return IsLoop
	case has(members):
		return InDeadlock
	case has(held):
		return HoldsLock
	case t.WroteDump && t.Frames != nil && d.family != rubyFamily:
		return WroteDumpOnly
	case !t.user() && !t.Torn:
		return IsRuntime
	case g.Wait > 0:
		return WaitsLong
	case t.Running:
		return OnCPU
	case g.Count > 1:
		return InPool
	}
	return IsRare
}
