package stackdump

import (
	"strings"
	"time"
)

// The Go runtime writes, newest call first, after SIGQUIT, a panic or a fatal
// error, from runtime.Stack and from /debug/pprof/goroutine?debug=2:
//
//	goroutine 8 gp=0xd2c m=nil [chan send, 2 minutes]:
//	main.(*Dispatcher).loop(0x660845?, {0xd2cb6b030e0?, 0x70d100?})
//		/srv/app/goagent/main.go:53 +0x85 fp=0xd2cb6ab7700
//	created by main.main in goroutine 1
//		/srv/app/goagent/main.go:61 +0x265
//
// Consecutive dumps need nothing between them. With GOTRACEBACK=crash one
// capture has sections, with `-----` between them.
type goText struct {
	r    *reader
	dump *Dump
	cur  *Thread

	call      string // a line of a function whose file is still to come
	created   bool   // that line names the creator, which is no frame
	skip      bool   // the frames belong to no goroutine
	blank     bool   // a blank line since the last frame
	crash     bool   // in the sections of GOTRACEBACK=crash
	pc        bool   // a signal ended the process: registers are to come
	registers bool
	ids       map[string]int // goroutine to index
}

func startsGo(line string) bool {
	switch head(line) {
	case 'g':
		_, ok := goHeader(line)
		return ok
	case 'p', 'f', 'S':
		return goLead(line)
	}
	return false
}

func goLead(line string) bool {
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return true
	}
	name, _, ok := strings.Cut(line, ": ")
	return ok && strings.HasPrefix(name, "SIG") && name == strings.ToUpper(name) && !strings.Contains(name, " ")
}

func newGo(r *reader) parser { return &goText{r: r, ids: map[string]int{}} }

type goHead struct {
	id, state, labels string
	wait              time.Duration
}

// goHeader reads the header of a goroutine in the spellings of all releases.
func goHeader(line string) (h goHead, ok bool) {
	rest, ok := strings.CutPrefix(line, "goroutine ")
	if !ok {
		return h, false
	}
	n, state, ok := strings.Cut(rest, " [")
	h.id, _, _ = strings.Cut(n, " ")
	if _, after, isNumber := number(h.id); !ok || !isNumber && len(h.id) < 10 || after != "" && isNumber {
		return h, false
	}
	if !strings.HasSuffix(state, ":") {
		return h, false
	}
	state = state[:len(state)-1]
	if i := strings.Index(state, " labels:{"); i >= 0 && strings.HasSuffix(state, "}]") {
		h.labels = state[i+len(" labels:") : len(state)-1]
		state = state[:i]
	} else {
		var after string
		if state, after, ok = strings.Cut(state, "]"); !ok {
			return h, false
		}
		if h.labels = strings.TrimSpace(after); h.labels != "" && (h.labels[0] != '{' || !strings.HasSuffix(h.labels, "}")) {
			return h, false
		}
	}
	base, more, _ := strings.Cut(state, ", ")
	h.state = strings.TrimSuffix(base, " (scan)")
	for part := range strings.SplitSeq(more, ", ") {
		if minutes, ok := strings.CutSuffix(part, " minutes"); ok {
			if n, rest, ok := number(minutes); ok && rest == "" {
				h.wait = time.Duration(n) * time.Minute
			}
		}
	}
	return h, true
}

func (p *goText) take(line string) bool {
	if line == "" {
		p.lose()
		p.blank, p.skip = true, false
		return p.dump != nil
	}
	switch line[0] {
	case '\t':
		return p.place(line[1:])
	case '.':
		if strings.HasSuffix(line, "frames elided...") && p.cur != nil {
			p.cur.Cut = true
			p.dump.Cut = max(p.dump.Cut, CutFrames)
			return true
		}
	}
	if h, ok := goHeader(line); ok {
		p.lose()
		p.header(h)
		return true
	}
	if goLead(line) {
		p.lose()
		p.leads(line)
		return true
	}
	if p.dump == nil {
		return false
	}
	return p.note(line) || p.function(line)
}

// leads begins a dump with what the runtime says first.
func (p *goText) leads(line string) {
	if p.dump != nil && (p.crash || len(p.dump.Threads) == 0) {
		return // a section, or a second line of the same message
	}
	p.flush()
	p.dump = p.r.begin(line)
	p.dump.Deadlock = strings.HasPrefix(line, "fatal error: all goroutines are asleep - deadlock!")
}

// header begins a goroutine, and perhaps the next dump.
func (p *goText) header(h goHead) {
	p.skip = false
	at, again := p.ids[h.id]
	if p.dump != nil && again && p.crash && h.id != "0" {
		p.cur = &p.dump.Threads[at] // another thread of the system shows the stack it runs
		p.cur.Frames = nil
		p.set(h)
		return
	}
	follows := len(p.ids) > 0 && !p.blank && h.state == "running" && !p.crash
	if p.dump == nil || again && !p.crash || follows {
		p.flush()
		p.dump = p.r.begin("")
	}
	first := len(p.dump.Threads) == 0
	if first {
		p.r.expect(p.dump, "\ngoroutine ", " [running]:", "\ngoroutine "+h.id+" ")
	}
	p.cur = p.r.thread(p.dump)
	p.ids[h.id] = max(0, len(p.dump.Threads)-1)
	p.cur.ID = clean(h.id)
	p.set(h)
	if first && p.cur.Running && !strings.HasPrefix(p.dump.Lead, "SIG") {
		p.cur.WroteDump = true // or panicked
		p.cur.Current = true
	}
	p.blank = false
}

func (p *goText) set(h goHead) {
	t := p.cur
	t.State, t.Labels, t.Wait = clean(h.state), clean(h.labels), h.wait
	t.Role = loopRole(h.labels)
	t.Running = h.state == "running"
	for _, lock := range []string{"sync.Mutex", "sync.RWMutex", "semacquire"} {
		t.Lock = t.Lock || strings.HasPrefix(h.state, lock)
	}
}

// loopRole reports whether labels name an event loop, in any spelling.
func loopRole(labels string) bool {
	if !strings.Contains(labels, "event-loop") {
		return false
	}
	for pair := range strings.SplitSeq(strings.Trim(labels, "{}"), ",") {
		name, value, _ := strings.Cut(pair, ":")
		if strings.Trim(name, ` "`) == "role" && strings.Trim(value, ` "`) == "event-loop" {
			return true
		}
	}
	return false
}

// function notes a line like `main.f(0x1, {0x2, ...})`; the next one says where.
func (p *goText) function(line string) bool {
	if created, ok := strings.CutPrefix(line, "created by "); ok {
		p.lose()
		p.call, p.created = created, true
		return true
	}
	if i := strings.IndexByte(line, '('); i <= 0 || strings.IndexByte(line[:i], ' ') >= 0 || strings.HasPrefix(line, "PC=") {
		return false
	}
	next, ok := p.r.peek(0)
	if ok && !strings.HasPrefix(next, "\t") && p.cur != nil {
		mended, mend := p.r.mend(line, p.fits, p.fits)
		if !mend {
			return false
		}
		line = mended
	}
	p.lose()
	p.call, p.created = line, false
	return true
}

// fits reports a whole line of a function.
func (p *goText) fits(line string) bool {
	name, _ := goCall(line)
	return name != "" && strings.HasSuffix(line, ")") && strings.Contains(name, ".") && !strings.ContainsAny(name, " \t")
}

// place reads the line that says where the function before it stands.
func (p *goText) place(line string) bool {
	if p.dump == nil {
		return false
	}
	if strings.HasPrefix(line, "goroutine running on other thread") && p.cur != nil {
		p.cur.Running = true
		return true
	}
	file, n, ok := goPlace(line)
	if !ok || p.call == "" {
		return len(p.dump.Threads) == 0 || ok // more of a message; or a line whose function was torn away
	}
	call, created := p.call, p.created
	p.call = ""
	p.blank = false
	if created || p.skip || p.cur == nil {
		return true
	}
	name, args := goCall(call)
	f := Frame{Function: clean(name), File: clean(file), Line: n}
	f.Code = goCode(f.Function, f.File)
	p.r.frame(p.cur, f)
	if p.cur.State == "runnable" && len(p.cur.Frames) == 1 && strings.HasPrefix(name, "runtime.asyncPreempt") {
		p.cur.Running = true // taken off its CPU this moment
	}
	if p.cur.Lock {
		p.lock(f, args)
	}
	return true
}

// lock notes the mutex that a goroutine waits for, and what else it knows.
func (p *goText) lock(f Frame, args string) {
	if f.Code == User {
		for arg := range strings.FieldsFuncSeq(args, func(r rune) bool { return strings.ContainsRune("{}?, ", r) }) {
			if strings.HasPrefix(arg, "0x") && len(arg) > 6 && len(p.cur.knows) < 16 {
				p.cur.knows = append(p.cur.knows, clean(arg))
			}
		}
		return
	}
	if p.cur.Waits == "" && (strings.Contains(f.Function, "Mutex).") || strings.Contains(f.Function, "RWMutex).")) {
		first, _, _ := strings.Cut(args, ",")
		if first = strings.TrimSuffix(first, "?"); strings.HasPrefix(first, "0x") && len(first) > 3 {
			p.cur.Waits = clean(first)
		}
	}
}

// goCall splits a line of a function into its name and its arguments.
func goCall(line string) (name, args string) {
	depth := 0
	for i := len(line) - 1; i > 0; i-- {
		switch line[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return line[:i], strings.TrimSuffix(line[i+1:], ")")
			}
		}
	}
	name, args, _ = strings.Cut(line, "(0x") // torn
	return name, args
}

// goPlace reads `/srv/app/main.go:53 +0x85 fp=...`.
func goPlace(line string) (file string, n int, ok bool) {
	for _, end := range []string{" +0x", " fp=0x"} {
		line, _, _ = strings.Cut(line, end)
	}
	i := strings.LastIndexByte(line, ':')
	if i <= 0 {
		return "", 0, false
	}
	n, _, ok = number(line[i+1:])
	return line[:i], n, ok
}

// note takes the lines of the runtime that are no stacks.
func (p *goText) note(line string) bool {
	switch {
	case line == "-----":
		p.crash = len(p.dump.Threads) > 0
		p.cur = nil
		return true
	case strings.HasPrefix(line, "PC=0x"):
		p.pc, p.registers = true, false
		return true
	case strings.HasPrefix(line, "runtime stack:"):
		p.skip = true
		return true
	case strings.HasPrefix(line, "[signal "), strings.HasPrefix(line, "[originating from "), strings.HasPrefix(line, "signal arrived during "),
		strings.HasPrefix(line, "exit status "), strings.HasPrefix(line, "FAIL"), strings.HasPrefix(line, "+0x"), strings.HasPrefix(line, "\tgoroutine running"):
		return true
	}
	if name, value, ok := strings.Cut(line, " "); ok && len(name) <= 7 && len(p.dump.Threads) > 0 {
		if value = strings.TrimSpace(value); strings.HasPrefix(value, "0x") && hexDigits(value[2:]) == len(value)-2 {
			p.registers = true
			return true
		}
	}
	return false
}

// lose gives back a line of a function that says nowhere where it stands.
func (p *goText) lose() {
	if p.call != "" && !p.created {
		p.r.stray(p.call)
	}
	p.call = ""
}

func (p *goText) flush() {
	p.lose()
	p.r.keep(p.dump)
	*p = goText{r: p.r, ids: p.ids}
	clear(p.ids)
}

func (p *goText) end(broken bool) {
	if p.dump != nil && len(p.dump.Threads) > 0 {
		atEnd := p.r.at >= len(p.r.text)
		half := p.call != "" || p.pc && !p.registers || p.cur != nil && len(p.cur.Frames) == 0 && !p.cur.Running && !p.blank
		if broken || atEnd && half {
			p.dump.Cut = CutBytes
			p.call = ""
		}
	}
	p.flush()
}

// goCode tells whose code a Go function is. That the first element of its path
// has no dot does not do: programs have such names too.
func goCode(function, file string) Code {
	if function == "panic" || file == "_testmain.go" || strings.HasPrefix(function, "_cgo") || strings.HasPrefix(function, "vendor/") {
		return Standard
	}
	pkg := goPackage(function)
	first, _, _ := strings.Cut(pkg, "/")
	switch first {
	case "archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed",
		"encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter", "log",
		"maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort", "strconv",
		"strings", "structs", "sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe", "weak":
	default:
		return User
	}
	// Files of a package may be linked into another: sync's stand in runtime.
	if file == "" || strings.Contains(file, "/src/"+first+"/") || strings.Contains(file, "/src/runtime/") || strings.HasPrefix(file, first+"/") || strings.HasPrefix(file, "runtime/") || strings.Contains(file, "/src/testing/") || strings.Contains(file, "/src/internal/") {
		return Standard
	}
	return User
}

// goPackage gives the import path of a function.
func goPackage(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	if i := strings.IndexByte(function[:slash], '['); i >= 0 { // a type argument with a path
		slash = strings.LastIndexByte(function[:i], '/') + 1
	}
	if dot := strings.IndexByte(function[slash:], '.'); dot >= 0 {
		return function[:slash+dot]
	}
	return function
}
