package stackdump

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Change is what became of a thread between two dumps.
type Change uint8

// In the order in which they are shown.
const (
	Moved Change = iota // it stands somewhere else
	Same                // the same stack and state
	New                 // only in the later dump
	Gone                // only in the earlier one
)

// String is the word for it.
func (c Change) String() string { return [...]string{"moved", "same", "new", "gone"}[c] }

// Pair is one thread in two dumps. An unmoved stack alone is not stuck: what it
// consumed in between tells.
type Pair struct {
	From, To int // indexes; -1 if it is not in that dump
	Change   Change
	Count    int           // threads of this stack, in profiles
	CPU      time.Duration // consumed in between, or Unknown
	Elapsed  time.Duration // in between, by the clock of the process, or Unknown
	Switches int64         // context switches in between, or Unknown
}

// Compare matches the threads of an earlier dump with those of a later one: by
// id, by name where there is none, by stack in profiles.
func Compare(from, to *Dump) []Pair {
	later := map[string][]int{}
	for i := range to.Threads {
		key := identity(to, i)
		later[key] = append(later[key], i)
	}
	elapsed := time.Duration(Unknown)
	if !from.Time.IsZero() && to.Time.After(from.Time) {
		elapsed = to.Time.Sub(from.Time)
	}
	var pairs []Pair
	matched := make([]bool, len(to.Threads))
	for i := range from.Threads {
		key := identity(from, i)
		p := Pair{From: i, To: -1, Change: Gone, Count: from.Threads[i].Count, CPU: Unknown, Elapsed: elapsed, Switches: Unknown}
		if at := later[key]; len(at) > 0 {
			p.To = at[0]
			later[key] = at[1:]
			matched[p.To] = true
			p.measure(&from.Threads[i], &to.Threads[p.To])
		}
		pairs = append(pairs, p)
	}
	for i := range to.Threads {
		if !matched[i] {
			pairs = append(pairs, Pair{From: -1, To: i, Change: New, Count: to.Threads[i].Count, CPU: Unknown, Elapsed: elapsed, Switches: Unknown})
		}
	}
	return pairs
}

// measure compares one thread.
func (p *Pair) measure(from, to *Thread) {
	p.Change = Moved
	if sameFrames(from.Frames, to.Frames) && from.State == to.State {
		p.Change = Same
	}
	p.Count = to.Count
	if from.CPU >= 0 && to.CPU >= from.CPU {
		p.CPU = to.CPU - from.CPU
	}
	if from.Elapsed >= 0 && to.Elapsed > from.Elapsed {
		p.Elapsed = to.Elapsed - from.Elapsed
	}
	if from.Switches >= 0 && to.Switches >= from.Switches {
		p.Switches = to.Switches - from.Switches
	}
}

// identity is what a thread keeps from one dump to the next.
func identity(d *Dump, i int) string {
	t := &d.Threads[i]
	switch {
	case t.ID != "":
		return "id " + t.ID
	case t.Name != "" && d.Format != "go-race":
		return "name " + t.Name
	}
	key := t.State
	for _, f := range t.Frames {
		key += "\x00" + f.Function + "\x00" + strconv.Itoa(f.Line)
	}
	return key
}

// Consumed says what a thread consumed between two dumps, as
// `cpu +2222 ms in 2.29 s = 97 % of a core`; empty if that is not known.
func (p Pair) Consumed() string {
	var words string
	if p.CPU >= 0 {
		words = fmt.Sprintf("cpu +%d ms", p.CPU.Round(time.Millisecond).Milliseconds())
		if p.Elapsed > 0 {
			words += fmt.Sprintf(" in %.2f s = %.0f %% of a core", p.Elapsed.Seconds(), 100*float64(p.CPU)/float64(p.Elapsed))
		}
	}
	if p.Switches >= 0 {
		if words != "" {
			words += ", "
		}
		words += fmt.Sprintf("%d context switches", p.Switches)
	}
	return words
}

// Stuck says what an unmoved stack means, as far as it can be told.
func (p Pair) Stuck() string {
	switch {
	case p.Change != Same:
		return ""
	case p.CPU < 0:
		return "CPU per thread not recorded: spinning or blocked cannot be told"
	case p.CPU == 0 && p.Switches > 0:
		return "same stack, but it was woken in between: it may only look stuck"
	case p.CPU == 0:
		return "blocked: no CPU in between"
	case p.Elapsed > 0 && p.CPU*2 > p.Elapsed:
		return "spinning: the same stack, and most of a core"
	}
	return "same stack, but it ran in between"
}

// capture is dumps of one kind that were taken one after another.
type capture struct {
	dumps []*Dump
	find  []map[string]int // thread by identity, of each
}

// mostCompared is how many dumps of a capture are compared.
const mostCompared = 32

func newCapture(dumps []Dump) capture {
	var c capture
	for i := range dumps[:min(len(dumps), mostCompared)] {
		d := &dumps[i]
		if d.Format != dumps[0].Format {
			continue
		}
		find := map[string]int{}
		for k := range d.Threads {
			find[identity(d, k)] = k
		}
		c.dumps, c.find = append(c.dumps, d), append(c.find, find)
	}
	return c
}

// same counts the dumps in which a thread of the first one stands where it stood,
// the first included.
func (c capture) same(thread int) (same, of int) {
	t := &c.dumps[0].Threads[thread]
	key := identity(c.dumps[0], thread)
	same = 1
	for i := 1; i < len(c.dumps); i++ {
		if at, ok := c.find[i][key]; ok && sameStack(t, &c.dumps[i].Threads[at]) {
			same++
		}
	}
	return same, len(c.dumps)
}

// byInterest orders pairs: who consumed most first, then by change.
func byInterest(pairs []Pair) {
	slices.SortStableFunc(pairs, func(x, y Pair) int {
		return cmp.Or(cmp.Compare(x.Change, y.Change), cmp.Compare(y.CPU, x.CPU))
	})
}
