package stackdump

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// View is a file as it is read by a person: in this order, without styles. Its
// text is clean; its lines may be longer than a screen.
type View struct {
	Title    string // kind and size
	Verdict  Verdict
	Headline string // the verdict, and why
	Notes    []string
	Sections []Section
	More     int // stacks that are not shown, since there are too many

	Stray     []string // lines that belong to no dump, the first of them
	StrayMore int
	Log       []string // of the capture
}

// Limits of what is shown. The raw text shows the rest.
const (
	mostSections = 500
	mostThreads  = 100 // named in a section
)

// SectionKind says what a section is of.
type SectionKind uint8

// The kinds of sections.
const (
	LoopSection     SectionKind = iota // the thread of the event loop
	DeadlockSection                    // threads of a cycle
	StackSection                       // others of the program's own
	RuntimeSection                     // nothing of the program's own
	ChangeSection                      // what became of threads between two dumps
)

// Section is one stack and the threads that have it.
type Section struct {
	Kind    SectionKind
	Title   string   // who: `LOOP  8 [chan send]`, `40 x [sync.Mutex.Lock]`
	Summary string   // where, while it is folded
	Status  string   // `same 4/4`; empty if there is one dump
	Count   int      // threads
	Threads []string // ids or names, the first of them
	Open    bool     // unfolded at first
	Rows    []Row
}

// RowKind says what a row is.
type RowKind uint8

// The kinds of rows.
const (
	FrameRow RowKind = iota // a call
	FoldRow                 // calls of a library, folded: Folded holds them
	FactRow                 // what is known of the threads: Name is the sentence
)

// Row is a line of a section.
type Row struct {
	Kind   RowKind
	Where  string // `gateway.py:10`; may be empty
	Name   string
	Mark   string // `culprit`; may be empty
	Path   string // of the file in full, to be opened
	Line   int
	Folded []Row
}

// NewView shows a file: its first dump, compared with the others of the same
// capture.
func NewView(f *File, o Options) *View {
	v := &View{Verdict: NotADump, Log: cleanAll(o.Log), Stray: f.StrayText, StrayMore: f.Stray - len(f.StrayText)}
	if len(f.Dumps) == 0 {
		v.Title = f.Format.Title()
		v.Headline = "NOT A DUMP  " + notADump(f)
		return v
	}
	first := Analyze(&f.Dumps[0], o)
	a, at := decisive(f, first, o)
	taken := newCapture(f.Dumps[at:])
	v.Verdict = a.Verdict
	v.Title = titleOfFile(f)
	v.Headline = headline(a.Verdict) + "  " + a.Why
	if a.Loop >= 0 {
		if same, of := taken.same(a.Loop); of > 1 {
			v.Headline += fmt.Sprintf(", same in %d of %d", same, of)
		}
	}
	v.notes(f, a, taken)
	v.sections(a, taken)
	return v
}

// headline is the verdict as it begins a line.
func headline(v Verdict) string { return strings.ToUpper(strings.ReplaceAll(string(v), "_", " ")) }

func notADump(f *File) string {
	if len(f.Other) == 0 {
		return "nothing in it is known as a dump of threads"
	}
	text := f.Other[0].Text
	if n := len(f.Other); n > 1 {
		text += fmt.Sprintf(", and %d more of the like", n-1)
	}
	return text
}

// titleOfFile is `python faulthandler   4 dumps of 3 threads`.
func titleOfFile(f *File) string {
	d := &f.Dumps[0]
	words := plural(d.Count(), "thread")
	if d.family == goFamily {
		words = plural(d.Count(), "goroutine")
	}
	n, alike := 0, true // of its kind: a capture of ours has dumps of several
	for i := range f.Dumps {
		if e := &f.Dumps[i]; e.Format == d.Format {
			n, alike = n+1, alike && e.Count() == d.Count()
		}
	}
	if n > 1 {
		words = fmt.Sprintf("%d dumps, the first of %s", n, words)
		if alike {
			words = fmt.Sprintf("%d dumps of %s", n, plural(d.Count(), "thread"))
		}
	}
	words = f.Format.Title() + "   " + words
	if f.Cut != Whole {
		words += "   TRUNCATED: " + f.Cut.String()
	}
	return words
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// notes are the sentences below the verdict.
func (v *View) notes(f *File, a *Analysis, taken capture) {
	d := a.Dump
	add := func(format string, args ...any) { v.Notes = append(v.Notes, fmt.Sprintf(format, args...)) }
	if d.Lead != "" {
		add("%s", d.Lead)
	}
	switch f.Cut {
	case CutBytes:
		add("TRUNCATED: the text breaks off; what stands last is incomplete")
	case CutThreads:
		add("TRUNCATED: threads are missing (cut at %d)", d.Count())
		if a.Loop < 0 {
			add("loop thread not in the dump (cut at %d)", d.Count())
		}
	case CutFrames:
		add("TRUNCATED: outer frames are missing")
	}
	for _, c := range a.Cycles {
		if c.Certainty != Suspected && a.Verdict != Deadlock {
			add("deadlock, %s", a.CycleWords(c))
		}
	}
	if a.Loop >= 0 && a.Verdict == Wedged {
		v.Notes = append(v.Notes, loopConsumed(f, a, taken)...)
	}
	if n := tornThreads(d); n > 0 {
		add("%s below a header that cannot be believed: not counted", plural(n, "stack"))
	}
	if f.Stray > 0 {
		add("%s of other output", plural(f.Stray, "line"))
	}
	for _, o := range f.Other[:min(len(f.Other), 3)] {
		add("line %d: %s", o.Line, o.Text)
	}
}

// loopConsumed says what the loop's thread consumed between the first dump and
// the last one.
func loopConsumed(f *File, a *Analysis, taken capture) []string {
	t := &a.Dump.Threads[a.Loop]
	if a.Dump.family == goFamily && t.State != "running" {
		return nil // it is parked
	}
	if n := len(taken.dumps) - 1; n > 0 {
		for _, p := range Compare(a.Dump, taken.dumps[n]) {
			if p.From == a.Loop && p.CPU >= 0 {
				return []string{"loop thread: " + p.Consumed(), p.Stuck()}
			}
		}
	}
	if words := kernelSays(f, a); words != nil {
		return words
	}
	return []string{"CPU per thread not recorded: spinning or blocked cannot be told"}
}

// kernelSays is what snapshots of /proc in the same capture tell of the loop's
// thread. Python and the kernel name threads differently: only the main thread,
// the last one of Python and the first one of the kernel, is known to be the same.
func kernelSays(f *File, a *Analysis) []string {
	if a.Dump.Format != "py-faulthandler" || a.Loop != len(a.Dump.Threads)-1 {
		return nil
	}
	var first, last *Dump
	for i := range f.Dumps {
		if d := &f.Dumps[i]; d.Format == "proc" {
			if first == nil {
				first = d
			}
			last = d
		}
	}
	switch {
	case first == nil:
		return nil
	case first == last || first.Threads[0].ID != last.Threads[0].ID:
		return []string{"the kernel says of the main thread: " + first.Threads[0].State}
	}
	p := Pair{CPU: Unknown, Elapsed: Unknown, Switches: Unknown}
	p.measure(&first.Threads[0], &last.Threads[0])
	return []string{"the kernel says of the main thread: " + last.Threads[0].State + "; " + p.Consumed()}
}

func tornThreads(d *Dump) int {
	n := 0
	for i := range d.Threads {
		if d.Threads[i].Torn {
			n++
		}
	}
	return n
}

// sections shows the groups, the most suspect first.
func (v *View) sections(a *Analysis, taken capture) {
	for i := range a.Groups {
		if i == mostSections {
			v.More = len(a.Groups) - i
			break
		}
		v.Sections = append(v.Sections, a.section(&a.Groups[i], taken, i == 0))
	}
}

func (a *Analysis) section(g *Group, taken capture, first bool) Section {
	d := a.Dump
	lead := g.Threads[0]
	if slices.Contains(g.Threads, a.Loop) {
		lead = a.Loop
	}
	t := &d.Threads[lead]
	s := Section{Kind: StackSection, Count: g.Count, Summary: a.summary(lead)}
	switch g.Rank {
	case IsLoop:
		s.Kind = LoopSection
	case InDeadlock:
		s.Kind = DeadlockSection
	case IsRuntime, WroteDumpOnly:
		s.Kind = RuntimeSection
	}
	for _, i := range g.Threads[:min(len(g.Threads), mostThreads)] {
		s.Threads = append(s.Threads, d.Threads[i].title())
	}
	s.Title = a.sectionTitle(g, t, s.Kind)
	if same, of := taken.same(lead); of > 1 {
		s.Status = fmt.Sprintf("same %d/%d", same, of)
	}
	s.Open = first || s.Kind == LoopSection || s.Kind == DeadlockSection || slices.ContainsFunc(a.Culprits, func(c Culprit) bool { return slices.Contains(g.Threads, c.Thread) })
	s.Rows = append(a.rows(lead, g), a.facts(lead, g)...)
	return s
}

// sectionTitle says who has this stack.
func (a *Analysis) sectionTitle(g *Group, t *Thread, kind SectionKind) string {
	name := t.title()
	switch {
	case t.Torn:
		name = "a stack below a torn header"
	case g.Count > 1 || len(g.Threads) > 1:
		name = fmt.Sprintf("%d x %s", g.Count, cmp.Or(commonName(a.Dump, g), fewNames(a.Dump, g), a.noun()))
	}
	if kind == LoopSection {
		name = "LOOP  " + name
	}
	if t.State != "" {
		name += " [" + t.State + "]"
	}
	if g.Wait > 0 {
		name += fmt.Sprintf(" %s", waitWords(g.Wait))
	}
	return name
}

func waitWords(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	return plural(int(d/time.Minute), "minute")
}

// commonName is what the names of all threads of a group begin with.
func commonName(d *Dump, g *Group) string {
	common := d.Threads[g.Threads[0]].Name
	for _, i := range g.Threads[1:] {
		name := d.Threads[i].Name
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	return strings.TrimRight(strings.ToValidUTF8(common, ""), "-_#0123456789 ")
}

// fewNames is the names of all threads of a group, if they are few.
func fewNames(d *Dump, g *Group) string {
	const most = 3
	if len(g.Threads) > most {
		return ""
	}
	var names []string
	for _, i := range g.Threads {
		if d.Threads[i].Name == "" {
			return ""
		}
		names = append(names, d.Threads[i].Name)
	}
	return strings.Join(names, ", ")
}

// summary says in a few words where a thread stands.
func (a *Analysis) summary(i int) string {
	t := &a.Dump.Threads[i]
	fam := a.Dump.family
	switch {
	case soleWriter(t), t.WroteDump && fam == goFamily:
		return "wrote this dump: not the culprit"
	case t.Current && a.Loop >= 0 && a.Loop != i && fam == pythonFamily:
		return "watchdog that wrote this: not the culprit"
	case len(t.Frames) == 0:
		return "no frames shown"
	}
	if k := t.innermost(); k >= 0 {
		f := t.Frames[k]
		return place(base(f.File), f.Line, fam.short(f.Function))
	}
	f, _ := t.top()
	return place(base(f.File), f.Line, f.Function)
}

// rows are the frames of a thread, those of libraries folded.
func (a *Analysis) rows(thread int, g *Group) []Row {
	t := &a.Dump.Threads[thread]
	var rows []Row
	for i := 0; i < len(t.Frames); {
		if t.Frames[i].Code == User {
			r := a.row(thread, i)
			for _, k := range g.Threads[:min(len(g.Threads), mostThreads)] {
				if a.accuses(k, i) {
					r.Mark = "culprit"
				}
			}
			rows = append(rows, r)
			i++
			continue
		}
		end := i + 1
		for end < len(t.Frames) && t.Frames[end].Code == t.Frames[i].Code {
			end++
		}
		fold := Row{Kind: FoldRow, Name: foldName(a.Dump.family, t.Frames[i:end])}
		for ; i < end; i++ {
			fold.Folded = append(fold.Folded, a.row(thread, i))
		}
		rows = append(rows, fold)
	}
	if t.Cut {
		rows = append(rows, Row{Kind: FactRow, Name: "outer frames are missing"})
	}
	return rows
}

func (a *Analysis) row(thread, frame int) Row {
	f := a.Dump.Threads[thread].Frames[frame]
	r := Row{Kind: FrameRow, Name: a.Dump.family.short(f.Function), Path: f.File, Line: f.Line}
	if f.Code != User {
		r.Name = f.Function
	}
	if r.Where = base(f.File); r.Where != "" && f.Line > 0 {
		r.Where += fmt.Sprintf(":%d", f.Line)
	}
	return r
}

// foldName is `(4 asyncio frames)`.
func foldName(fam family, frames []Frame) string {
	if frames[0].Code == Writer {
		return fmt.Sprintf("(%s that wrote this dump)", plural(len(frames), "frame"))
	}
	name := libraryOf(fam, frames[0])
	for _, f := range frames[1:] {
		if libraryOf(fam, f) != name {
			name = "library"
		}
	}
	return "(" + plural(len(frames), cmp.Or(name, "library")+" frame") + ")"
}

// libraryOf is the package that a frame of a library belongs to.
func libraryOf(fam family, f Frame) string {
	switch fam {
	case pythonFamily:
		file := f.File
		if i := strings.LastIndex(file, "/python"); i >= 0 {
			_, file, _ = strings.Cut(file[i+1:], "/")
		}
		first, _, _ := strings.Cut(file, "/")
		return strings.TrimSuffix(first, ".py")
	case goFamily:
		return goPackage(f.Function)
	case javaFamily:
		parts := strings.SplitN(f.Function, ".", 4)
		if len(parts) > 2 {
			return strings.Join(parts[:2], ".")
		}
	case scriptFamily:
		if f.Native {
			return "native"
		}
		return "node"
	case rubyFamily:
		return "ruby"
	}
	return "library"
}

// facts are what is known of the threads of a group beside their stack.
func (a *Analysis) facts(thread int, g *Group) []Row {
	t := &a.Dump.Threads[thread]
	var facts []string
	for _, e := range a.Edges {
		if len(facts) == 20 {
			break
		}
		if slices.Contains(g.Threads[:min(len(g.Threads), mostThreads)], e.From) {
			facts = appendOnce(facts, a.edgeWords(e))
		}
	}
	if t.Waits != "" && !t.Lock {
		facts = append(facts, "waits on "+t.Waits)
	}
	if len(t.Holds) > 0 && g.Count == 1 {
		facts = append(facts, "holds "+strings.Join(t.Holds[:min(len(t.Holds), 8)], ", "))
	}
	if t.Labels != "" {
		facts = append(facts, "labels "+t.Labels)
	}
	if g.Count == 1 && t.CPU >= 0 {
		facts = append(facts, consumedWords(t))
	}
	var rows []Row
	for _, f := range facts {
		rows = append(rows, Row{Kind: FactRow, Name: f})
	}
	return rows
}

func consumedWords(t *Thread) string {
	words := fmt.Sprintf("cpu %d ms", t.CPU.Milliseconds())
	if t.Elapsed > 0 {
		words += fmt.Sprintf(" of %.2f s", t.Elapsed.Seconds())
	}
	if t.Switches >= 0 {
		words += fmt.Sprintf(", %d context switches", t.Switches)
	}
	return words
}

func (a *Analysis) edgeWords(e Edge) string {
	words := "waits for " + e.Lock
	if e.To >= 0 {
		words += ", held by " + a.Dump.Threads[e.To].title()
	}
	return words
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func cleanAll(lines []string) []string {
	var out []string
	for _, line := range lines {
		out = append(out, clean(line))
	}
	return out
}
