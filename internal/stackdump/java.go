package stackdump

import (
	"strconv"
	"strings"
	"time"
)

// HotSpot writes, newest call first, on SIGQUIT (to stdout), for jstack and for
// jcmd Thread.print:
//
//	2026-11-30 05:38:59
//	Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):
//
//	"event-loop" #20 prio=5 os_prio=0 cpu=1757.46ms elapsed=1.88s tid=0x00007f nid=0x6d2d runnable  [0x00007f6be4c9c000]
//	   java.lang.Thread.State: RUNNABLE
//		at Agent.dispatch(Agent.java:13)
//		- waiting to lock <0x000000069ec1aaf8> (a java.lang.Object)
//
// A thread's name is written raw: it may hold quotes, line breaks and whole
// headers. The last quote of a line ends it; a header that begins elsewhere, or
// whose thread the JVM does not list, is not believed.
type jvm struct {
	r    *reader
	dump *Dump
	cur  *Thread

	listing bool            // in the list of Java threads
	listed  map[string]bool // their addresses
	java    map[int]bool    // indexes of threads that claim to be Java's
	cycle   bool            // in the names of a deadlock
	after   bool            // in what follows the threads
	tail    bool            // JNI references were seen: the dump is whole
}

// Bounds of what is kept of a dump beside its threads.
const (
	mostListed = 100_000 // Java threads that the JVM lists
	mostCycles = 100     // deadlocks, and threads in one
)

func startsJava(line string) bool { return strings.HasPrefix(line, "Full thread dump ") }

func newJava(r *reader) parser { return &jvm{r: r} }

func (p *jvm) take(line string) bool {
	switch {
	case startsJava(line):
		p.begin(line)
		return true
	case p.dump == nil:
		return false
	case line == "":
		p.listing = false
		return true
	case line[0] == '"' && !p.after:
		return p.header(line)
	case line[0] == '\t':
		return p.detail(line[1:])
	case strings.HasPrefix(line, "   java.lang.Thread.State: "):
		if p.cur != nil && !p.after {
			p.cur.State = clean(strings.TrimPrefix(line, "   java.lang.Thread.State: "))
		}
		return true
	case strings.HasPrefix(line, "   "), line[0] == ' ' && p.after:
		return true
	case p.section(line):
		return true
	case !p.after && tornJavaHeader(line):
		p.torn(line)
		return true
	}
	return false
}

func (p *jvm) begin(line string) {
	p.flush()
	r := p.r
	*p = jvm{r: r, listed: map[string]bool{}, java: map[int]bool{}}
	p.dump = r.begin(strings.TrimSuffix(line, ":"))
	date := r.takeBack(1)
	at, err := time.Parse(time.DateTime, date)
	if err == nil {
		p.dump.Time = at
	}
	if pid := r.takeBack(2); pid != "" {
		if _, rest, ok := number(pid); !ok || rest != ":" {
			r.stray(pid)
		}
	}
	if err != nil && date != "" {
		if _, rest, ok := number(date); !ok || rest != ":" {
			r.stray(date)
		}
	}
}

// section takes the lines between and after the threads.
func (p *jvm) section(line string) bool {
	switch {
	case strings.HasPrefix(line, "Threads class SMR info:"), strings.HasPrefix(line, "======"), strings.HasPrefix(line, "Java stack information"):
		p.cycle = p.cycle && line[0] == '='
		return true
	case strings.HasPrefix(line, "_java_thread_list="), strings.HasPrefix(line, "_to_delete_list="):
		p.listing = true
		return true
	case p.listing && (line[0] == '}' || strings.HasPrefix(line, "0x")):
		for address := range strings.SplitSeq(strings.Trim(line, "}, "), ", ") {
			if len(p.listed) < mostListed {
				p.listed[strings.TrimRight(address, ",")] = true
			}
		}
		return true
	case strings.HasPrefix(line, "JNI global ref"):
		p.tail, p.after, p.cur = true, true, nil
		return true
	case strings.HasPrefix(line, "Found one Java-level deadlock"):
		p.after, p.cycle, p.cur = true, true, nil
		if len(p.dump.Deadlocks) < mostCycles {
			p.dump.Deadlocks = append(p.dump.Deadlocks, nil)
		}
		return true
	case strings.HasPrefix(line, "Found "), line == "Heap":
		p.after, p.cur = true, nil
		return true
	case p.after && line[0] == '"':
		if name, ok := strings.CutSuffix(line[1:], `":`); ok && p.cycle && len(p.dump.Deadlocks) > 0 {
			if d := &p.dump.Deadlocks[len(p.dump.Deadlocks)-1]; len(*d) < mostCycles {
				*d = append(*d, clean(name))
			}
		}
		return true
	}
	return false
}

// javaHeader splits a header at its last quote and checks what follows.
func javaHeader(line string) (name, rest string, ok bool) {
	i := strings.LastIndexByte(line, '"')
	if i < 1 {
		return "", "", false
	}
	rest = line[i+1:]
	ok = (strings.HasPrefix(rest, " #") || strings.HasPrefix(rest, " daemon ") || strings.HasPrefix(rest, " prio=") || strings.HasPrefix(rest, " os_prio=") || strings.HasPrefix(rest, " tid=") || strings.HasPrefix(rest, " cpu=")) &&
		strings.Contains(rest, "tid=0x") && strings.Contains(rest, " nid=")
	return line[1:i], rest, ok
}

// tornJavaHeader reports the end of a header whose name had a line break.
func tornJavaHeader(line string) bool {
	_, rest, ok := javaHeader(line)
	return ok && head(line) != '"' && strings.HasPrefix(rest, " #")
}

func (p *jvm) header(line string) bool {
	name, rest, ok := javaHeader(line)
	if !ok {
		return false
	}
	p.add(name, rest)
	return true
}

// torn shows the stack below a header that cannot be believed.
func (p *jvm) torn(line string) {
	name, rest, _ := javaHeader(" " + line)
	p.add("..."+name, rest)
	p.cur.Torn, p.cur.Count = true, 0
}

func (p *jvm) add(name, rest string) {
	p.cur = p.r.thread(p.dump)
	t := p.cur
	t.Name = clean(name)
	for field := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "cpu":
			t.CPU = javaTime(value)
		case "elapsed":
			t.Elapsed = javaTime(value)
		case "tid":
			t.ID = clean(value)
		}
	}
	if strings.HasPrefix(rest, " #") {
		p.java[len(p.dump.Threads)-1] = true
		t.Torn = len(p.listed) > 0 && len(p.listed) < mostListed && !p.listed[t.ID]
	}
	if t.Torn {
		t.Count = 0
	}
	if i := strings.Index(rest, " nid="); i >= 0 {
		_, state, _ := strings.Cut(rest[i+1:], " ")
		state, _, _ = strings.Cut(state, "[0x")
		t.State = clean(strings.TrimSpace(state))
	}
}

// javaTime reads `1757.46ms` and `1.88s`.
func javaTime(s string) time.Duration {
	unit := time.Second
	n, isSeconds := strings.CutSuffix(s, "s")
	if ms, ok := strings.CutSuffix(n, "m"); ok && isSeconds {
		n, unit = ms, time.Millisecond
	}
	v, err := strconv.ParseFloat(n, 64)
	if err != nil || v < 0 || v > 1e9 {
		return Unknown
	}
	return time.Duration(v * float64(unit))
}

// detail takes a line below a header: a frame, or what is known of a lock.
func (p *jvm) detail(line string) bool {
	call, isFrame := strings.CutPrefix(line, "at ")
	lock, isLock := strings.CutPrefix(line, "- ")
	if !isFrame && !isLock {
		return false
	}
	if p.after || p.cur == nil {
		return p.after || isLock
	}
	if isLock {
		p.lock(lock)
		return true
	}
	f, ok := javaFrame(call)
	if ok {
		p.r.frame(p.cur, f)
	}
	return ok
}

// lock reads `waiting to lock <0x...> (a java.lang.Object)`.
func (p *jvm) lock(line string) {
	what, rest, ok := strings.Cut(line, "<0x")
	if !ok {
		return
	}
	address, class, _ := strings.Cut(rest, ">")
	address = "0x" + clean(address)
	t := p.cur
	switch what = strings.TrimSpace(what); what {
	case "waiting to lock", "waiting to re-lock in wait()":
		t.Waits, t.Lock = address, true
	case "parking to wait for":
		t.Waits, t.Lock = address, strings.Contains(class, "Lock$")
	case "waiting on":
		t.Waits, t.Lock = address, false
	case "locked", "":
		if address != t.Waits && len(t.Holds) < 64 && p.r.budget.spend(16) {
			t.Holds = append(t.Holds, address)
		}
	}
}

// javaFrame reads `Agent.dispatch(Agent.java:13)`, with the module in front of
// the file since Java 9.
func javaFrame(line string) (f Frame, ok bool) {
	line = strings.TrimRight(line, " ")
	i := strings.LastIndexByte(line, '(')
	if i <= 0 || !strings.HasSuffix(line, ")") {
		return f, false
	}
	function, place := line[:i], line[i+1:len(line)-1]
	module, file, ok := strings.Cut(place, "/")
	if !ok {
		module, file = "", place
	}
	if k := strings.Index(function, "/0x"); k > 0 { // the address of a hidden class
		function = function[:k] + strings.TrimLeft(function[k+1:], "0x123456789abcdef")
	}
	if k := strings.LastIndexByte(function, '/'); k >= 0 && k < len(function)-1 { // the class loader, or the module
		if module == "" {
			module = function[:k]
		}
		function = function[k+1:]
	}
	f = Frame{Function: clean(function)}
	switch name, n, placed := strings.Cut(file, ":"); {
	case file == "Native Method":
		f.Native = true
	case file == "Unknown Source":
	case placed:
		f.Line, _, _ = number(n)
		f.File = clean(name)
	default:
		f.File = clean(file)
	}
	f.Code = javaCode(f.Function, module)
	return f, true
}

// javaCode tells whose code a Java method is.
func javaCode(function, module string) Code {
	if strings.HasPrefix(module, "java.") || strings.HasPrefix(module, "jdk.") || strings.Contains(function, "$$Lambda") {
		return Standard
	}
	for _, p := range []string{"java.", "javax.", "jdk.", "sun.", "com.sun."} {
		if strings.HasPrefix(function, p) {
			return Standard
		}
	}
	return User
}

// flush settles what only the whole dump tells, and keeps it.
func (p *jvm) flush() {
	if p.dump == nil {
		return
	}
	lastJava := -1
	for i := range p.dump.Threads {
		if p.java[i] {
			lastJava = i
		}
	}
	for i := range p.dump.Threads {
		t := &p.dump.Threads[i]
		if !p.java[i] && i < lastJava && !t.Torn { // the JVM's own come last: somebody's name
			t.Torn, t.Count = true, 0
		}
		t.Running = strings.HasPrefix(t.State, "RUNNABLE") && t.user() && !t.Frames[0].Native && !t.Torn
	}
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
}

func (p *jvm) end(broken bool) {
	if p.dump != nil && (broken || !p.tail && p.r.at >= len(p.r.text)) {
		p.dump.Cut = CutBytes
	}
	p.flush()
}

// javaException reads one that was not caught, or logged:
//
//	Exception in thread "event-loop" java.lang.IllegalStateException: bad reply
//		at Boom.lambda$main$0(Boom.java:4)
//	Caused by: java.lang.NumberFormatException: For input string: "x"
type javaException struct {
	r    *reader
	head bool
}

func startsJavaException(line string) bool {
	if strings.HasPrefix(line, "Exception in thread \"") {
		return true
	}
	name, _, _ := strings.Cut(line[:min(len(line), 200)], ":")
	return strings.IndexByte(name, '.') > 0 && strings.IndexByte(name, ' ') < 0 &&
		(strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Error")) && name[0] >= 'a'
}

func newJavaException(r *reader) parser { return &javaException{r: r} }

func (p *javaException) take(line string) bool {
	if !p.head {
		p.head = true
		next, ok := p.r.peek(0)
		return ok && strings.HasPrefix(next, "\tat ")
	}
	return strings.HasPrefix(line, "\tat ") || strings.HasPrefix(line, "Caused by: ") || strings.HasPrefix(line, "\t... ") ||
		strings.HasPrefix(line, "\tSuppressed: ") || strings.HasPrefix(line, "\t\t")
}

func (p *javaException) end(bool) {}
