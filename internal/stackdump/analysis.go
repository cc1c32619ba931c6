package stackdump

import "slices"

// Options are what a person or a session's settings say about a dump.
type Options struct {
	// LoopThread names the thread of the event loop: its name, its id, the value
	// of a label, or a function that it runs. Empty: it is found by its frames.
	LoopThread string
	// Log is what was noted when the dump was taken, to be shown with it.
	Log []string
}

// Verdict is what a dump says about its process.
type Verdict string

// The verdicts; see the package comment.
const (
	Wedged   Verdict = "wedged"
	Idle     Verdict = "idle"
	Deadlock Verdict = "deadlock"
	Busy     Verdict = "busy"
	Unclear  Verdict = "unclear"
	NotADump Verdict = "not_a_dump"
)

// Analysis is what one dump means.
type Analysis struct {
	Dump     *Dump
	Groups   []Group // the most suspect first
	Loop     int     // index of the thread of the event loop, or -1
	Verdict  Verdict
	Why      string // the verdict in words
	Culprits []Culprit
	Cycles   []Cycle
	Edges    []Edge
}

// Culprit is a frame that is accused.
type Culprit struct {
	Thread int    // index
	Frame  int    // index in its frames
	Name   string // the function without package, module or class
	File   string // its base name; empty if not said
	Line   int    // 0 if not said
}

// where is `agent.py:13 call_tool`.
func (c Culprit) where() string { return place(c.File, c.Line, c.Name) }

// Analyze says what a dump means. The dump must not change while the answer is
// used.
func Analyze(d *Dump, o Options) *Analysis {
	a := &Analysis{Dump: d, Loop: -1}
	a.Groups = group(d)
	loop := findLoop(d, a.Groups, o)
	if loop != nil {
		a.Loop = loop.thread
	}
	a.Edges = waits(d)
	a.Cycles = cycles(d, a)
	if loop != nil && a.awaited(loop.thread) {
		loop.idle = false
	}
	a.judge(loop)
	rank(a)
	return a
}

// awaited reports whether another thread waits for a lock that this one holds.
func (a *Analysis) awaited(thread int) bool {
	return slices.ContainsFunc(a.Edges, func(e Edge) bool { return e.To == thread && e.From != thread })
}

// judge gives the verdict and the culprits. The first rule that fits wins.
func (a *Analysis) judge(l *loop) {
	d := a.Dump
	switch {
	case a.deadlocked():
		a.Verdict, a.Why = Deadlock, a.deadlockWords()
		a.accuseDeadlock()
	case l != nil:
		a.judgeLoop(l)
	case a.onCPU() >= 0:
		i := a.onCPU()
		a.Verdict = Busy
		a.accuse(i, 0)
		a.Why = "on a CPU: " + a.standing(i)
	default:
		a.Verdict = Unclear
		a.suspect()
		a.Why = a.unclearWords()
	}
	if d.Format == formatProfile {
		a.Culprits = nil // it counts stacks and says of none whether it waits
	}
}

func (a *Analysis) judgeLoop(l *loop) {
	t := &a.Dump.Threads[l.thread]
	stateless := a.Dump.family == goFamily && t.State == ""
	switch {
	case l.idle:
		a.Verdict, a.Why = Idle, "loop idle, in its own poll"
		return
	case stateless:
		a.Verdict = Unclear
		a.Why = "loop thread in " + a.standing(l.thread) + "; a profile does not say whether it waits"
	case t.Running && !t.WroteDump:
		a.Verdict, a.Why = Busy, "loop thread runs in "+a.standing(l.thread)
	default:
		a.Verdict, a.Why = Wedged, "loop thread in "+a.standing(l.thread)
		if t.State != "" {
			a.Why += " [" + t.State + "]"
		}
	}
	if l.above >= 0 {
		a.accuse(l.thread, l.above)
	}
}

// onCPU gives the first thread whose own code was on a CPU, and that did not
// write the dump; or -1.
func (a *Analysis) onCPU() int {
	for i := range a.Dump.Threads {
		t := &a.Dump.Threads[i]
		if t.Running && !t.WroteDump && !t.Torn && (t.user() || len(t.Frames) == 0) {
			return i
		}
	}
	return -1
}

// accuse names the innermost frame of the program's own in a thread; in Python
// its caller too, if that follows at once: what calls the library is often a
// helper. Only frames before above count, if that is not 0: those of what the
// loop runs. A name that was cut off names nobody.
func (a *Analysis) accuse(thread, above int) {
	most := 1
	if a.Dump.family == pythonFamily && len(a.Cycles) == 0 {
		most = 2
	}
	t := &a.Dump.Threads[thread]
	if above <= 0 {
		above = len(t.Frames)
	}
	found := 0
	for i, f := range t.Frames[:above] {
		if f.Code != User {
			if found > 0 {
				return
			}
			continue
		}
		if cutName(f) || found == most || found > 0 && f.Function == "<module>" {
			return
		}
		found++
		a.name(thread, i)
	}
}

// name adds a frame to the culprits, once.
func (a *Analysis) name(thread, frame int) {
	f := a.Dump.Threads[thread].Frames[frame]
	c := Culprit{Thread: thread, Frame: frame, Name: a.Dump.family.short(f.Function), File: base(f.File), Line: f.Line}
	for _, other := range a.Culprits {
		if other.Name == c.Name && other.File == c.File && other.Line == c.Line {
			return
		}
	}
	a.Culprits = append(a.Culprits, c)
}

// accuses reports whether a frame is a culprit, and no mere caller of one.
func (a *Analysis) accuses(thread, frame int) bool {
	for _, c := range a.Culprits {
		if c.Thread == thread {
			return c.Frame == frame
		}
	}
	return false
}

// cutName reports a name that the runtime cut off.
func cutName(f Frame) bool {
	const cut = 500 // characters, by faulthandler
	return len(f.Function) >= cut || len(f.File) >= cut
}

// standing says where a thread stands: at its innermost frame of the program's
// own, else at its innermost one.
func (a *Analysis) standing(thread int) string {
	t := &a.Dump.Threads[thread]
	fam := a.Dump.family
	if i := t.innermost(); i >= 0 {
		f := t.Frames[i]
		return place(base(f.File), f.Line, fam.short(f.Function))
	}
	if f, ok := t.top(); ok {
		return place(base(f.File), f.Line, fam.short(f.Function))
	}
	return "a stack that is not shown"
}

// suspect names whom the stacks alone point at, where no loop is known.
func (a *Analysis) suspect() {
	d := a.Dump
	switch d.family {
	case pythonFamily:
		a.suspectPython()
	case rubyFamily:
		a.suspectRuby()
	case nativeFamily:
		a.suspectNative()
	case scriptFamily:
		if len(d.Threads) > 0 && !d.Threads[0].WroteDump && d.Threads[0].State != "idle" {
			a.accuse(0, 0)
		}
	}
}

// suspectPython accuses a lone thread, or those whose innermost call is the
// program's own: a wait for a lock is no frame, a wait in the library is.
func (a *Analysis) suspectPython() {
	d := a.Dump
	if len(d.Threads) == 1 {
		a.accuse(0, 0)
		return
	}
	if d.Cut == CutThreads {
		return
	}
	for _, g := range a.Groups {
		t := &d.Threads[g.Threads[0]]
		if f, ok := t.top(); ok && f.Code == User && !cutName(f) && g.Count == 1 && !soleWriter(t) {
			a.accuse(g.Threads[0], 0)
		}
	}
	if len(a.Culprits) == 0 {
		for i := range d.Threads {
			if d.Threads[i].Current && !soleWriter(&d.Threads[i]) {
				a.accuse(i, 0)
			}
		}
	}
}

// soleWriter reports a thread that does nothing but write the dump.
func soleWriter(t *Thread) bool {
	f, ok := t.top()
	return ok && len(t.Frames) > 0 && t.Frames[0].Code == Writer && f.Code == Standard
}

// suspectRuby accuses who is inside a lock that others wait for, else the main
// thread.
func (a *Analysis) suspectRuby() {
	d := a.Dump
	waiting := false
	for i := range d.Threads {
		f, ok := d.Threads[i].top()
		waiting = waiting || ok && shortRuby(f.Function) == "synchronize"
	}
	for i := range d.Threads {
		if waiting && insideLock(&d.Threads[i]) {
			a.accuse(i, 0)
		}
	}
	if len(a.Culprits) == 0 && len(d.Threads) > 0 {
		a.accuse(0, 0)
	}
}

// insideLock reports a thread of Ruby that waits within a synchronized block.
func insideLock(t *Thread) bool {
	first := true
	for _, f := range t.Frames {
		if f.Code == Writer {
			continue
		}
		if shortRuby(f.Function) == "synchronize" && !first {
			return true
		}
		first = false
	}
	return false
}

// suspectNative accuses those that wait for a lock at a place of their own, else
// who stands where nobody else does, the main thread apart.
func (a *Analysis) suspectNative() {
	d := a.Dump
	if d.Format == "node-fatal" || d.Format == "proc" {
		return
	}
	for _, g := range a.Groups {
		if t := &d.Threads[g.Threads[0]]; g.Count == 1 && t.Lock && t.user() {
			a.accuse(g.Threads[0], 0)
		}
	}
	if len(a.Culprits) > 0 {
		return
	}
	alone := -1
	for _, g := range a.Groups {
		if t := &d.Threads[g.Threads[0]]; g.Count == 1 && t.user() && !isMain(d, g.Threads[0]) && !pollsItself(t) {
			if alone >= 0 {
				return // several: none of them stands out
			}
			alone = g.Threads[0]
		}
	}
	if alone >= 0 {
		a.accuse(alone, 0)
	}
	if len(a.Culprits) == 0 {
		for i := range d.Threads {
			if isMain(d, i) {
				a.accuse(i, 0)
			}
		}
	}
}

// pollsItself reports a thread that waits for events.
func pollsItself(t *Thread) bool {
	f, ok := t.top()
	return ok && polls(f.Function)
}

// isMain reports the thread that a native process began with.
func isMain(d *Dump, i int) bool {
	t := &d.Threads[i]
	n := len(t.Frames)
	return n > 0 && (t.Frames[n-1].Function == "_start" || t.Frames[n-1].Function == "main" || n > 1 && t.Frames[n-2].Function == "main") ||
		d.Format == "gdb" && i == len(d.Threads)-1 || d.Format == "eu-stack" && i == 0
}
