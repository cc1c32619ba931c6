package stackdump

import (
	"cmp"
	"fmt"
	"slices"
)

// NewDiff shows what became of the threads of one file's first dump until the
// last dump of another, later one, that is of the same format: a capture may hold
// several, whose threads have other names.
func NewDiff(from, to *File, o Options) *View {
	if len(from.Dumps) == 0 || len(to.Dumps) == 0 {
		v := NewView(to, o)
		if len(from.Dumps) == 0 {
			v.Notes = append([]string{"the earlier file: " + notADump(from)}, v.Notes...)
		}
		return v
	}
	before, after := Analyze(&from.Dumps[0], o), Analyze(lastAlike(to, from.Dumps[0].Format), o)
	pairs := Compare(before.Dump, after.Dump)
	v := &View{Verdict: after.Verdict, Log: cleanAll(o.Log)}
	v.Title = "compared: " + titleOfFile(from) + "  with  " + titleOfFile(to)
	v.Headline = headline(after.Verdict) + "  " + after.Why
	v.Notes = append(v.Notes, countChanges(pairs))
	if before.Dump.Format != after.Dump.Format {
		v.Notes = append(v.Notes, "they are of different kinds: threads are matched by id and name only")
	}
	for _, p := range pairs {
		if p.To >= 0 && p.To == after.Loop {
			v.Notes = append(v.Notes, loopChange(p)...)
		}
	}
	v.changes(before, after, pairs)
	return v
}

// lastAlike is the last dump of a format, or the last one if there is none.
func lastAlike(f *File, format Format) *Dump {
	for i := len(f.Dumps) - 1; i >= 0; i-- {
		if f.Dumps[i].Format == format {
			return &f.Dumps[i]
		}
	}
	return &f.Dumps[len(f.Dumps)-1]
}

// countChanges is `2 moved, 5 same, 1 new, 0 gone`.
func countChanges(pairs []Pair) string {
	var n [4]int
	for _, p := range pairs {
		n[p.Change] += max(p.Count, 1)
	}
	return fmt.Sprintf("%d moved, %d same, %d new, %d gone", n[Moved], n[Same], n[New], n[Gone])
}

func loopChange(p Pair) []string {
	words := []string{"loop thread: " + p.Change.String()}
	if consumed := p.Consumed(); consumed != "" {
		words[0] += ", " + consumed
	}
	if stuck := p.Stuck(); stuck != "" {
		words = append(words, stuck)
	}
	return words
}

// change is threads that came from one stack to another.
type change struct {
	kind     Change
	from, to int // groups, or -1
}

// changes adds a section for each kind of change, the loop's first.
func (v *View) changes(before, after *Analysis, pairs []Pair) {
	byInterest(pairs)
	fromGroup, toGroup := groupsOf(before), groupsOf(after)
	var order []change
	members := map[change][]Pair{}
	for _, p := range pairs {
		key := change{kind: p.Change, from: -1, to: -1}
		if p.From >= 0 {
			key.from = fromGroup[p.From]
		}
		if p.To >= 0 {
			key.to = toGroup[p.To]
		}
		if members[key] == nil {
			order = append(order, key)
		}
		members[key] = append(members[key], p)
	}
	isLoop := func(c change) bool {
		return slices.ContainsFunc(members[c], func(p Pair) bool { return p.To >= 0 && p.To == after.Loop })
	}
	slices.SortStableFunc(order, func(x, y change) int {
		return cmp.Compare(interest(x, isLoop(x), before, after), interest(y, isLoop(y), before, after))
	})
	for i, c := range order {
		if i == mostSections {
			v.More = len(order) - i
			return
		}
		v.Sections = append(v.Sections, changeSection(before, after, members[c], isLoop(c)))
	}
}

// interest orders changes: the loop, then by kind, the runtime's own last.
func interest(c change, loop bool, before, after *Analysis) int {
	if loop {
		return -1
	}
	rank := 0
	if c.to >= 0 && after.Groups[c.to].Rank >= IsRuntime || c.to < 0 && before.Groups[c.from].Rank >= IsRuntime {
		rank = 10
	}
	return rank + int(c.kind)
}

// groupsOf gives for each thread the group that it is in.
func groupsOf(a *Analysis) []int {
	of := make([]int, len(a.Dump.Threads))
	for g := range a.Groups {
		for _, i := range a.Groups[g].Threads {
			of[i] = g
		}
	}
	return of
}

func changeSection(before, after *Analysis, pairs []Pair, loop bool) Section {
	p := pairs[0]
	s := Section{Kind: ChangeSection, Status: p.Change.String(), Open: loop || p.Change != Same}
	a, lead := after, p.To
	if p.To < 0 {
		a, lead = before, p.From
	}
	for _, q := range pairs {
		s.Count += max(q.Count, 1)
		i := q.To
		if i < 0 {
			i = q.From
		}
		if len(s.Threads) < mostThreads {
			s.Threads = append(s.Threads, a.Dump.Threads[i].title())
		}
	}
	g := Group{Threads: []int{lead}, Count: s.Count}
	t := &a.Dump.Threads[lead]
	kind := ChangeSection
	if loop {
		kind = LoopSection
	}
	s.Title = a.sectionTitle(&g, t, kind)
	s.Summary = a.summary(lead)
	if p.Change == Moved {
		s.Rows = append(s.Rows, Row{Kind: FactRow, Name: "was in " + before.standing(p.From)})
	}
	if consumed := p.Consumed(); consumed != "" && s.Count == 1 {
		s.Rows = append(s.Rows, Row{Kind: FactRow, Name: consumed})
	}
	s.Rows = append(s.Rows, a.rows(lead, &g)...)
	return s
}
