package stackdump

import (
	"slices"
	"strings"
)

// Ruby programs print their threads in a trap handler, newest call first:
//
//	#<Thread:0x00007f6e892fe910@worker-0 /srv/app/agent.rb:26 sleep_forever> tid=15975
//	    /srv/app/agent.rb:12:in `synchronize'
type rubyThreads struct {
	r    *reader
	dump *Dump
	cur  *Thread
	ids  map[string]bool
}

const rubyThread = "#<Thread:0x"

func startsRubyThreads(line string) bool {
	_, _, _, ok := rubyHeader(line)
	return ok
}

func newRubyThreads(r *reader) parser { return &rubyThreads{r: r, ids: map[string]bool{}} }

// rubyHeader reads the inspected form of a thread, and what stands before it.
func rubyHeader(line string) (id, name, state string, ok bool) {
	i := strings.Index(line, rubyThread)
	if i < 0 || i > 200 {
		return "", "", "", false
	}
	name = strings.Trim(line[:i], "-=*#: \t")
	inside, _, ok := strings.Cut(line[i+len("#<Thread:"):], ">")
	if !ok {
		return "", "", "", false
	}
	n := 2 + hexDigits(inside[2:])
	id, inside = inside[:n], inside[n:]
	if at, found := strings.CutPrefix(inside, "@"); found {
		name, inside, _ = strings.Cut(at, " ")
		inside = " " + inside
	}
	k := strings.LastIndexByte(inside, ' ')
	if k < 0 {
		return "", "", "", false
	}
	return id, name, inside[k+1:], true
}

func (p *rubyThreads) take(line string) bool {
	if id, name, state, ok := rubyHeader(line); ok {
		p.finish()
		if p.dump == nil || p.ids[id] {
			p.flush()
			p.dump = p.r.begin("")
		}
		p.ids[id] = true
		p.cur = p.r.thread(p.dump)
		p.cur.ID, p.cur.Name, p.cur.State = clean(id), clean(name), clean(state)
		return true
	}
	if p.dump == nil {
		return false
	}
	if line == "" {
		return true
	}
	f, ok := rubyFrame(line)
	if ok {
		p.r.frame(p.cur, f)
	}
	return ok
}

// rubyFrame reads "/srv/app/agent.rb:12:in `synchronize'", with any indentation;
// Ruby 3.4 puts the class in front of the method.
func rubyFrame(line string) (f Frame, ok bool) {
	line = strings.TrimLeft(line, " \t")
	line = strings.TrimPrefix(line, "from ")
	i := strings.LastIndex(line, ":in ")
	if i <= 0 || len(line) < i+6 || !strings.HasSuffix(line, "'") || line[i+4] != '`' && line[i+4] != '\'' {
		return f, false
	}
	f.Function = clean(line[i+5 : len(line)-1])
	k := strings.LastIndexByte(line[:i], ':')
	if k <= 0 {
		return f, false
	}
	f.Line, _, ok = number(line[k+1 : i])
	f.File = clean(line[:k])
	f.Code = rubyCode(f.File)
	return f, ok
}

// rubyCode tells whose code a Ruby file is. Gems are the program's.
func rubyCode(file string) Code {
	if strings.HasPrefix(file, "<internal:") || strings.Contains(file, "/lib/ruby/") && !strings.Contains(file, "/gems/") {
		return Standard
	}
	return User
}

// finish marks the functions of C, which carry the line of their caller, and the
// handler that wrote the dump.
func (p *rubyThreads) finish() {
	if p.cur == nil {
		return
	}
	markRubyC(p.cur.Frames)
	markRubyWriter(p.cur)
}

func markRubyC(frames []Frame) {
	for i := range frames[:max(0, len(frames)-1)] {
		f, caller := &frames[i], frames[i+1]
		if f.File == caller.File && f.Line == caller.Line && f.Code == User && !strings.HasPrefix(f.Function, "block ") && !strings.HasPrefix(f.Function, "<") {
			f.Code, f.Native = Standard, true
		}
	}
}

// markRubyWriter marks the frames of the trap handler: up to the first block
// that the frames below it do not explain. A signal calls it, no method does.
func markRubyWriter(t *Thread) {
	if len(t.Frames) == 0 || !wroteRuby(t.Frames[0].Function) {
		return
	}
	t.Current, t.WroteDump = true, true
	end := 0
	for i, f := range t.Frames {
		method, isBlock := blockOf(f.Function)
		if !isBlock {
			continue
		}
		if !calledFrom(t.Frames[i+1:], method) {
			end = i + 1
			break
		}
	}
	for i := range t.Frames[:max(end, 1)] {
		t.Frames[i].Code = Writer
	}
}

// calledFrom reports whether the frames below a block lead to its method, through
// functions of C such as each.
func calledFrom(below []Frame, method string) bool {
	for _, f := range below {
		inner, _ := blockOf(f.Function)
		if f.Function == method || inner == method {
			return true
		}
		if !f.Native || waitsInRuby(f.Function) {
			return false
		}
	}
	return false
}

// waitsInRuby reports a function of C that waits, and calls no block meanwhile:
// what stands above it came by a signal.
func waitsInRuby(function string) bool {
	switch shortRuby(function) {
	case "pop", "deq", "shift", "push", "sleep", "join", "value", "wait", "wait2", "waitpid", "lock", "stop", "pass",
		"select", "read", "readpartial", "sysread", "gets", "readline", "readlines", "getc", "write", "syswrite",
		"accept", "connect", "recv", "recvfrom", "recvmsg", "send", "wait_readable", "wait_writable", "system", "`", "flock", "fsync":
		return true
	}
	return false
}

func wroteRuby(function string) bool {
	return slices.Contains([]string{"backtrace", "Thread#backtrace", "caller", "Kernel#caller", "backtrace_locations", "Thread#backtrace_locations"}, function)
}

// blockOf gives the method that a block stands in.
func blockOf(function string) (method string, isBlock bool) {
	rest, ok := strings.CutPrefix(function, "block ")
	if !ok {
		return "", false
	}
	if i := strings.Index(rest, "in "); i >= 0 {
		return rest[i+3:], true
	}
	return rest, true
}

func (p *rubyThreads) flush() {
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
	clear(p.ids)
}

func (p *rubyThreads) end(broken bool) {
	p.finish()
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}

// rubyBug reads the report of a crash of the interpreter, newest call last:
//
//	/srv/app/agent.rb:6: [BUG] Segmentation fault at 0x0000000000003eb5
//	-- Ruby level backtrace information ----
type rubyBug struct {
	r      *reader
	dump   *Dump
	cur    *Thread
	ruby   bool // in the Ruby level backtrace
	inside bool // the report goes on
	native map[string]bool
}

func startsRubyBug(line string) bool {
	return strings.Contains(line[:min(len(line), 4096)], "[BUG] ")
}

func newRubyBug(r *reader) parser { return &rubyBug{r: r, native: map[string]bool{}} }

func (p *rubyBug) take(line string) bool {
	switch {
	case p.dump == nil && startsRubyBug(line):
		_, lead, _ := strings.Cut(line, "[BUG] ")
		p.dump = p.r.begin("[BUG] " + lead)
		p.cur = p.r.thread(p.dump)
		p.cur.Name = "main"
		p.inside = true
		return true
	case p.dump == nil || !p.inside:
		return false
	case strings.HasPrefix(line, "-- "):
		p.ruby = strings.HasPrefix(line, "-- Ruby level backtrace")
	case strings.HasPrefix(line, "For details: "):
		p.inside = false
	case strings.HasPrefix(line, "c:"):
		if _, name, ok := strings.Cut(line, " CFUNC  :"); ok && len(p.native) < mostFrames {
			p.native[strings.TrimSpace(name)] = true
		}
	case p.ruby:
		if f, ok := rubyFrame(line); ok {
			if p.native[f.Function] || p.native[shortRuby(f.Function)] {
				f.Code, f.Native = Standard, true
			}
			p.r.frame(p.cur, f)
		}
	}
	return true
}

func (p *rubyBug) end(broken bool) {
	if p.dump == nil {
		return
	}
	if broken || len(p.cur.Frames) == 0 {
		p.dump.Cut = CutBytes
	}
	slices.Reverse(p.cur.Frames)
	markRubyC(p.cur.Frames)
	p.r.keep(p.dump)
	p.dump = nil
}

// rubyException reads one that was not caught:
//
//	/srv/app/a.rb:5:in `parse': bad reply (RuntimeError)
//		from /srv/app/a.rb:9:in `<main>'
type rubyException struct {
	r    *reader
	head bool
}

func startsRubyException(line string) bool {
	line = line[:min(len(line), 4096)]
	return strings.HasSuffix(line, "(report_on_exception is true):") ||
		strings.HasSuffix(line, ")") && (strings.Contains(line, ":in `") || strings.Contains(line, ":in '")) && strings.Contains(line, "': ")
}

func newRubyException(r *reader) parser { return &rubyException{r: r} }

func (p *rubyException) take(line string) bool {
	if startsRubyException(line) {
		next, ok := p.r.peek(0)
		if !p.head && (!ok || !strings.HasPrefix(next, "\tfrom ") && !startsRubyException(next)) {
			return strings.HasSuffix(line, "(report_on_exception is true):")
		}
		p.head = true
		return true
	}
	return p.head && strings.HasPrefix(line, "\tfrom ")
}

func (p *rubyException) end(bool) {}
