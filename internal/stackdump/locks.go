package stackdump

import (
	"fmt"
	"slices"
	"strings"
)

// Edge says that a thread waits for a lock, and who holds it if that is known.
type Edge struct {
	From, To int // indexes; To is -1 if unknown
	Lock     string
}

// Certainty says how well a cycle is known.
type Certainty uint8

// From the runtime's own word to a guess.
const (
	Named     Certainty = iota // the runtime shows who holds what
	Likely                     // each waits for what another one must hold
	Suspected                  // their lines alone point at it
)

// String is the word for it.
func (c Certainty) String() string { return [...]string{"named", "likely", "suspected"}[c] }

// Cycle is threads that wait for each other.
type Cycle struct {
	Threads   []int
	Certainty Certainty
}

// waits gives who waits for which lock.
func waits(d *Dump) []Edge {
	holder := map[string]int{}
	for i := range d.Threads {
		for _, lock := range d.Threads[i].Holds {
			holder[lock] = i
		}
	}
	var edges []Edge
	for i := range d.Threads {
		t := &d.Threads[i]
		if !t.Lock || t.Waits == "" {
			continue
		}
		e := Edge{From: i, To: -1, Lock: t.Waits}
		if h, ok := holder[t.Waits]; ok && h != i {
			e.To = h
		}
		edges = append(edges, e)
	}
	return edges
}

// cycles gives the cycles that the dump shows, the best known kind only.
func cycles(d *Dump, a *Analysis) []Cycle {
	if found := runtimeCycles(d); found != nil {
		a.nameHolders(found)
		return found
	}
	if found := edgeCycles(a.Edges, len(d.Threads)); found != nil {
		return found
	}
	switch fam := d.family; {
	case fam == goFamily, d.Format == "gdb":
		return crossed(d, a)
	case fam == pythonFamily && a.Loop < 0:
		return suspected(d, a.Groups)
	}
	return nil
}

// runtimeCycles are those that the runtime found itself. It names threads, of
// which several may have one name: the one that waits is meant.
func runtimeCycles(d *Dump) []Cycle {
	var out []Cycle
	for _, names := range d.Deadlocks {
		c := Cycle{Certainty: Named}
		for _, name := range names {
			at := slices.IndexFunc(d.Threads, func(t Thread) bool { return t.Name == name && t.Lock })
			if at < 0 {
				at = d.named(name)
			}
			if at >= 0 && !slices.Contains(c.Threads, at) {
				c.Threads = append(c.Threads, at)
			}
		}
		if len(c.Threads) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// nameHolders says of locks that have no holder in the dump, those that are
// objects of Java, what the cycles say.
func (a *Analysis) nameHolders(cycles []Cycle) {
	for _, c := range cycles {
		for k, i := range c.Threads {
			for n := range a.Edges {
				if e := &a.Edges[n]; e.From == i && e.To < 0 {
					e.To = c.Threads[(k+1)%len(c.Threads)]
				}
			}
		}
	}
}

// edgeCycles follows who waits for whom.
func edgeCycles(edges []Edge, threads int) []Cycle {
	to := map[int]int{}
	for _, e := range edges {
		if e.To >= 0 {
			to[e.From] = e.To
		}
	}
	var out []Cycle
	seen := make([]int, threads) // the walk that came by, from 1
	for n, e := range edges {
		walk := n + 1
		at, more := e.From, true
		for more && seen[at] == 0 {
			seen[at] = walk
			at, more = to[at]
		}
		if !more || seen[at] != walk {
			continue
		}
		c := Cycle{Threads: []int{at}}
		for i := to[at]; i != at; i = to[i] {
			c.Threads = append(c.Threads, i)
		}
		out = append(out, c)
	}
	return out
}

// mostCrossed is how many locks a likely cycle may go over.
const mostCrossed = 8

// crossed finds threads of which each waits for another lock, where nobody else
// is left who could hold one. Neither Go nor the C library says who does.
func crossed(d *Dump, a *Analysis) []Cycle {
	first := map[string]int{}
	var locks []string
	var members []int
	for _, e := range a.Edges {
		if _, ok := first[e.Lock]; ok {
			continue
		}
		first[e.Lock] = e.From
		locks = append(locks, e.Lock)
		members = append(members, e.From)
		if len(locks) > mostCrossed {
			return nil
		}
	}
	if len(locks) < 2 {
		return nil
	}
	if mutual(d, members) || !othersCouldHold(d, a.Groups) {
		return []Cycle{{Threads: members, Certainty: Likely}}
	}
	return nil
}

// mutual reports two waiters of which each has the other's lock among the
// arguments of its calls.
func mutual(d *Dump, members []int) bool {
	if len(members) != 2 {
		return false
	}
	x, y := &d.Threads[members[0]], &d.Threads[members[1]]
	return slices.Contains(x.knows, y.Waits) && slices.Contains(y.knows, x.Waits)
}

// othersCouldHold reports a thread that waits for no lock, runs code of the
// program's own, and is not one of a pool: it may hold what others wait for. A
// main that only waits for the rest does not.
func othersCouldHold(d *Dump, groups []Group) bool {
	for _, g := range groups {
		t := &d.Threads[g.Threads[0]]
		if t.Lock || !t.user() || g.Count > 1 || t.WroteDump {
			continue
		}
		if i := t.innermost(); t.Frames[i].Function == "main" || t.Frames[i].Function == "main.main" {
			continue
		}
		return true
	}
	return false
}

// suspected finds threads of Python that stand in different lines of the
// program's own with no call below: in C, perhaps in a lock. The main thread is
// the last one and waits for them.
func suspected(d *Dump, groups []Group) []Cycle {
	if d.Cut == CutThreads {
		return nil
	}
	var c Cycle
	for _, g := range groups {
		t := &d.Threads[g.Threads[0]]
		if f, ok := t.top(); ok && g.Count == 1 && f.Code == User && !t.Running {
			c.Threads = append(c.Threads, g.Threads[0])
		}
	}
	if len(c.Threads) < 2 || len(c.Threads) > mostCrossed {
		return nil
	}
	main := &d.Threads[len(d.Threads)-1]
	if f, ok := main.top(); !ok || f.Code == User || !strings.HasSuffix(f.File, "threading.py") {
		return nil
	}
	c.Certainty = Suspected
	return []Cycle{c}
}

// deadlocked reports whether a cycle is shown, or the runtime says that all wait.
func (a *Analysis) deadlocked() bool {
	return a.Dump.Deadlock || slices.ContainsFunc(a.Cycles, func(c Cycle) bool {
		// A likely cycle that leaves the loop out does not explain the loop.
		return c.Certainty == Named || c.Certainty == Likely && (a.Loop < 0 || slices.Contains(c.Threads, a.Loop))
	})
}

// accuseDeadlock names where the members of cycles stand, the loop's thread
// first; without a cycle those that wait, main apart if there are others.
func (a *Analysis) accuseDeadlock() {
	var members []int
	for _, c := range a.Cycles {
		members = append(members, c.Threads...)
	}
	if i := slices.Index(members, a.Loop); i > 0 {
		members[0], members[i] = members[i], members[0]
	}
	for _, i := range members {
		a.accuse(i, 0)
	}
	if len(members) > 0 {
		return
	}
	for _, g := range a.Groups {
		if i := g.Threads[0]; a.Dump.Threads[i].user() && !a.isMain(i) && blocked(&a.Dump.Threads[i]) {
			a.accuse(i, 0)
		}
	}
	for i := 0; len(a.Culprits) == 0 && i < len(a.Dump.Threads); i++ {
		if a.isMain(i) {
			a.accuse(i, 0)
		}
	}
}

// isMain reports the main goroutine, or the main thread of Ruby.
func (a *Analysis) isMain(thread int) bool {
	if a.Dump.family == rubyFamily {
		return thread == 0
	}
	return a.Dump.Threads[thread].ID == "1"
}

func (a *Analysis) deadlockWords() string {
	var cycles []string
	for _, c := range a.Cycles {
		cycles = append(cycles, a.CycleWords(c))
	}
	if len(cycles) == 0 {
		return "the runtime says that all " + a.noun() + "s wait"
	}
	return strings.Join(cycles, "; ")
}

// CycleWords says who waits for whom, as `event-loop > flusher > event-loop`.
func (a *Analysis) CycleWords(c Cycle) string {
	var names []string
	for _, i := range c.Threads {
		t := &a.Dump.Threads[i]
		name := t.Name
		if name == "" {
			name = a.noun() + " " + t.title()
		}
		names = append(names, name)
	}
	words := strings.Join(append(names, names[0]), " > ")
	if c.Certainty != Named {
		words = fmt.Sprintf("%s: %s", c.Certainty, words)
	}
	return words
}

// noun is what the runtime calls its threads.
func (a *Analysis) noun() string {
	if a.Dump.family == goFamily {
		return "goroutine"
	}
	return "thread"
}

func (a *Analysis) unclearWords() string {
	for _, c := range a.Cycles {
		if c.Certainty == Suspected {
			return "perhaps a deadlock, which Python does not show: " + a.CycleWords(c)
		}
	}
	switch {
	case a.Dump.Cut == CutThreads && a.Loop < 0:
		return fmt.Sprintf("loop thread not in the dump (cut at %d)", a.Dump.Count())
	case strings.HasPrefix(a.Dump.Lead, "panic: "), a.Dump.Format == "go-race", a.Dump.Format == "node-fatal", a.Dump.Format == "ruby-bug":
		return "the process ended: " + a.Dump.Lead
	case len(a.Culprits) > 0:
		return "no event loop is known; most suspect: " + a.Culprits[0].where()
	}
	return "no event loop is known; loop_thread names one"
}

// place is `agent.py:13 call_tool`, as far as it is known.
func place(file string, line int, function string) string {
	switch {
	case file == "":
		return function
	case line == 0:
		return file + " " + function
	}
	return fmt.Sprintf("%s:%d %s", file, line, function)
}
