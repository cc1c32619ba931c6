package stackdump

import (
	"slices"
	"strings"
)

// loop is the thread of an event loop, and what it does.
type loop struct {
	thread int
	above  int  // how many frames are of what the loop runs; 0: all, -1: none
	idle   bool // it waits in its own poll
}

// findLoop finds the thread of the event loop, or gives nil.
func findLoop(d *Dump, groups []Group, o Options) *loop {
	if o.LoopThread != "" {
		for i := range d.Threads {
			if named(d, i, o.LoopThread) {
				return loopAt(d, i)
			}
		}
	}
	switch d.family {
	case pythonFamily:
		return pythonLoop(d)
	case goFamily:
		return goLoop(d, groups)
	case javaFamily:
		return javaLoop(d)
	case scriptFamily:
		if len(d.Threads) > 0 && (d.Interrupt || d.Threads[0].State == "idle") {
			return loopAt(d, 0)
		}
	case nativeFamily:
		return nativeLoop(d)
	}
	return nil
}

// named reports whether a person may mean this thread.
func named(d *Dump, i int, name string) bool {
	t := &d.Threads[i]
	if t.Torn {
		return false
	}
	if t.Name == name || t.ID == name || t.Labels != "" && slices.Contains(labelValues(t.Labels), name) {
		return true
	}
	fam := d.family
	return slices.ContainsFunc(t.Frames, func(f Frame) bool {
		return f.Code == User && (f.Function == name || fam.short(f.Function) == name)
	})
}

func labelValues(labels string) []string {
	var values []string
	for pair := range strings.SplitSeq(strings.Trim(labels, "{}"), ",") {
		if _, value, ok := strings.Cut(pair, ":"); ok {
			values = append(values, strings.Trim(value, ` "`))
		}
	}
	return values
}

// loopAt says what a thread does that is known to be the loop's.
func loopAt(d *Dump, i int) *loop {
	t := &d.Threads[i]
	switch d.family {
	case pythonFamily:
		if l := pythonLoopAt(t); l != nil {
			l.thread = i
			return l
		}
	case goFamily:
		return &loop{thread: i, idle: ownPoll(t, "select", "chan receive", "IO wait", "sleep")}
	case javaFamily:
		return &loop{thread: i, idle: javaIdle(t)}
	case scriptFamily:
		return &loop{thread: i, idle: t.State == "idle"}
	case nativeFamily:
		return &loop{thread: i, idle: pollsItself(t)}
	}
	return &loop{thread: i}
}

// framework is how a loop of Python shows itself in a stack.
type framework struct {
	dir   string   // its own code
	file  string   // where it runs
	runs  []string // its functions there
	polls []string // files in which it waits
}

func frameworks() []framework {
	return []framework{
		{dir: "asyncio/", file: "asyncio/base_events.py", runs: []string{"run_forever", "_run_once"}, polls: []string{"selectors.py", "asyncio/windows_events.py"}},
		{dir: "trio/", file: "trio/_core/_run.py", runs: []string{"unrolled_run"}, polls: []string{"trio/_core/_io_"}},
		{dir: "twisted/", file: "twisted/internet/base.py", runs: []string{"mainLoop", "runUntilCurrent"}, polls: []string{"reactor.py"}},
	}
}

// pythonLoop finds the thread that runs a loop. Of several the one that is not
// idle counts, then the last, which is the main thread.
func pythonLoop(d *Dump) *loop {
	var found *loop
	for i := range d.Threads {
		l := pythonLoopAt(&d.Threads[i])
		if l == nil {
			continue
		}
		l.thread = i
		if found == nil || found.idle || !l.idle {
			found = l
		}
	}
	return found
}

// pythonLoopAt looks for the innermost frame of a loop. It is idle if it was
// that frame which called the poll.
func pythonLoopAt(t *Thread) *loop {
	for _, fw := range frameworks() {
		for i, f := range t.Frames {
			if !strings.HasSuffix(f.File, fw.file) || !slices.Contains(fw.runs, f.Function) {
				continue
			}
			top, _ := t.top()
			l := &loop{above: i}
			inner := 0
			for _, g := range t.Frames[:i] {
				if g.Code != Writer {
					inner++
				}
			}
			poll := slices.ContainsFunc(fw.polls, func(p string) bool { return strings.Contains(top.File, p) })
			l.idle = poll && inner == 1
			if i == 0 {
				l.above = -1
			}
			return l
		}
	}
	return nil
}

// goLoop finds a goroutine by its label, else the one blocked goroutine whose
// frames of the program's own nobody shares, main apart.
func goLoop(d *Dump, groups []Group) *loop {
	for i := range d.Threads {
		if d.Threads[i].Role {
			return loopAt(d, i)
		}
	}
	if d.Deadlock || !stated(d) || strings.HasPrefix(d.Lead, "panic: ") {
		return nil
	}
	shared := map[string]int{}
	for _, g := range groups {
		shared[userKey(&d.Threads[g.Threads[0]])] += g.Count
	}
	found := -1
	for _, g := range groups {
		i := g.Threads[0]
		t := &d.Threads[i]
		if !t.user() || t.ID == "1" || g.Count != 1 || shared[userKey(t)] != 1 || !blocked(t) {
			continue
		}
		if found >= 0 {
			return nil
		}
		found = i
	}
	if found < 0 {
		return nil
	}
	return loopAt(d, found)
}

// stated reports whether the dump says of goroutines what they do.
func stated(d *Dump) bool { return d.Format == "go" }

// blocked reports a goroutine that waits.
func blocked(t *Thread) bool {
	switch t.State {
	case "running", "runnable", "syscall", "idle", "":
		return false
	}
	return true
}

// userKey is the frames of the program's own.
func userKey(t *Thread) string {
	var b strings.Builder
	for _, f := range t.Frames {
		if f.Code == User {
			b.WriteString(f.Function)
			b.WriteByte(' ')
			b.WriteString(f.File)
			b.WriteByte(byte(f.Line))
			b.WriteByte(byte(f.Line >> 8))
		}
	}
	return b.String()
}

// ownPoll reports a loop that waits, in one of these states, in its own function:
// nothing that it called waits.
func ownPoll(t *Thread, states ...string) bool {
	state, _, _ := strings.Cut(t.State, " (")
	if state == "select" && strings.Contains(t.State, "no cases") || !slices.Contains(states, state) {
		return false
	}
	own := 0
	for _, f := range t.Frames {
		if f.Code == User && !generatedGo(f.Function) {
			own++
		}
	}
	return own <= 1
}

// generatedGo reports a closure, or what the compiler wraps round a go statement.
func generatedGo(function string) bool {
	return strings.Contains(function, ".func") || strings.Contains(function, ".gowrap") || strings.Contains(function, ".deferwrap")
}

// javaLoop finds the one thread that is called an event loop.
func javaLoop(d *Dump) *loop {
	found := -1
	for i := range d.Threads {
		name := strings.ToLower(d.Threads[i].Name)
		if d.Threads[i].Torn || !strings.Contains(name, "event-loop") && !strings.Contains(name, "eventloop") {
			continue
		}
		if found >= 0 {
			return nil
		}
		found = i
	}
	if found < 0 {
		return nil
	}
	return loopAt(d, found)
}

// nativeLoop finds the loop of Node.js or of asyncio in the stacks of C, where
// it is the main thread's.
func nativeLoop(d *Dump) *loop {
	for i := range d.Threads {
		t := &d.Threads[i]
		for k, f := range t.Frames {
			switch {
			case strings.HasPrefix(f.Function, "node::SpinEventLoop"):
				top, _ := t.top()
				return &loop{thread: i, above: k, idle: polls(top.Function) && k > 0 && t.Frames[k-1].Function == "uv_run" && k <= 3}
			case strings.HasPrefix(f.Function, "TaskStepMethWrapper_call"), strings.HasPrefix(f.Function, "task_step_impl"):
				return nativeTask(d, i)
			}
		}
	}
	return nil
}

// nativeTask is the loop of asyncio within a task. The C function that a module
// offers is what it waits in: faulthandler cannot show it.
func nativeTask(d *Dump, i int) *loop {
	return &loop{thread: i, above: len(d.Threads[i].Frames)}
}
