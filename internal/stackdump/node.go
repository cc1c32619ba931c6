package stackdump

import "strings"

// A JavaScript stack under a title, newest call first. Node.js writes one with
// --trace-sigint; a watchdog that pauses the main thread writes the like:
//
//	KEYBOARD_INTERRUPT: Script execution was interrupted by `SIGINT`
//	    at scanTokens (/srv/app/agent.js:9:3)
type nodeStack struct {
	r    *reader
	dump *Dump
	cur  *Thread
}

const scriptCall = "    at "

func startsNodeStack(line string) bool {
	return strings.HasPrefix(line, "KEYBOARD_INTERRUPT:") || strings.HasSuffix(line, faultTail)
}

func newNodeStack(r *reader) parser { return &nodeStack{r: r} }

func (p *nodeStack) take(line string) bool {
	switch {
	case startsNodeStack(line):
		next, ok := p.r.peek(0)
		if !ok || !strings.HasPrefix(next, scriptCall) {
			return false
		}
		p.flush()
		p.dump = p.r.begin(line)
		p.dump.Interrupt = true
		p.cur = p.r.thread(p.dump)
		p.cur.Name, p.cur.Running = "main", true
		return true
	case p.dump == nil:
		return false
	case line == "":
		return true
	case strings.HasPrefix(line, scriptCall):
		f, ok := scriptFrame(line[len(scriptCall):])
		if ok {
			p.r.frame(p.cur, f)
		}
		return ok
	}
	return false
}

func (p *nodeStack) flush() {
	p.r.keep(p.dump)
	p.dump = nil
}

func (p *nodeStack) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}

// scriptFrame reads `async step (file:///srv/app/agent.js:16:23)`, with or
// without a name.
func scriptFrame(line string) (f Frame, ok bool) {
	function, place := "<anonymous>", line
	if body, found := strings.CutSuffix(line, ")"); found {
		if i := strings.LastIndex(body, " ("); i > 0 {
			function, place = line[:i], body[i+2:]
		}
	}
	f.Function = clean(function)
	f.File, f.Line = scriptPlace(place)
	f.Code = scriptCode(f.File)
	f.Native = place == "native" || place == "<anonymous>"
	return f, f.File != "" || f.Native
}

// scriptPlace reads `file:///srv/app/agent.js:16:23`; the column may be missing.
func scriptPlace(place string) (file string, line int) {
	place = strings.TrimPrefix(place, "file://")
	for range 2 {
		i := strings.LastIndexByte(place, ':')
		if i <= 0 {
			break
		}
		n, rest, ok := number(place[i+1:])
		if !ok || rest != "" {
			break
		}
		place, line = place[:i], n
	}
	return clean(place), line
}

// scriptCode tells whose code a JavaScript file is.
func scriptCode(file string) Code {
	if file == "" || strings.HasPrefix(file, "node:") || strings.HasPrefix(file, "internal/") || file == "<anonymous>" || file == "native" {
		return Standard
	}
	return User
}

// nodeError reads an error that was not caught.
type nodeError struct {
	r    *reader
	head bool
}

func startsNodeError(line string) bool {
	name, _, _ := strings.Cut(line[:min(len(line), 100)], ":")
	name, _, _ = strings.Cut(name, " [")
	name = strings.TrimPrefix(name, "Uncaught ")
	return strings.HasSuffix(name, "Error") && !strings.ContainsAny(name, " .\t(")
}

func newNodeError(r *reader) parser { return &nodeError{r: r} }

func (p *nodeError) take(line string) bool {
	if !p.head {
		p.head = true
		next, ok := p.r.peek(0)
		return ok && strings.HasPrefix(next, scriptCall)
	}
	return strings.HasPrefix(line, scriptCall) || strings.HasPrefix(line, "Node.js v")
}

func (p *nodeError) end(bool) {}

// nodeFatal reads what Node.js writes when it dies of itself: no more memory, a
// failed assertion.
//
//	FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
//	----- Native stack trace -----
//
//	 1: 0xb78db3 node::OOMErrorHandler(char const*, v8::OOMDetails const&) [node]
type nodeFatal struct {
	r    *reader
	dump *Dump
	cur  *Thread
}

func startsNodeFatal(line string) bool {
	switch head(line) {
	case '<':
		return strings.HasPrefix(line, "<--- Last few GCs --->") || strings.HasPrefix(line, "<--- JS stacktrace --->")
	case '-':
		return strings.HasPrefix(line, "----- Native stack trace -----") || strings.HasPrefix(line, "----- JavaScript stack trace -----")
	}
	return strings.HasPrefix(line, "FATAL ERROR: ")
}

func newNodeFatal(r *reader) parser { return &nodeFatal{r: r} }

func (p *nodeFatal) take(line string) bool {
	if startsNodeFatal(line) {
		if p.dump == nil {
			p.dump = p.r.begin("")
		}
		if line[0] == 'F' {
			p.dump.Lead = clean(line)
		}
		return true
	}
	if p.dump == nil {
		return false
	}
	if line == "" || line[0] == '[' && strings.Contains(line, " ms: ") {
		return true
	}
	n, call, ok := strings.Cut(line, ": ")
	if _, rest, isNumber := number(strings.TrimSpace(n)); !ok || !isNumber || rest != "" {
		return false
	}
	if p.cur == nil {
		p.cur = p.r.thread(p.dump)
		p.cur.Name = "main"
	}
	p.frame(call)
	return true
}

// frame reads `0xb78db3 node::OOMErrorHandler(...) [node]`, or a call in JavaScript.
func (p *nodeFatal) frame(call string) {
	if address, rest, ok := strings.Cut(call, " "); ok && strings.HasPrefix(address, "0x") {
		if i := strings.LastIndex(rest, " ["); i >= 0 {
			rest = rest[:i]
		}
		name := clean(withoutArguments(strings.TrimSpace(rest)))
		if name == "" {
			name = clean(address)
		}
		p.r.frame(p.cur, Frame{Function: name, Code: Standard, Native: true})
		return
	}
	if f, ok := scriptFrame(call); ok {
		p.r.frame(p.cur, f)
	}
}

func (p *nodeFatal) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.r.keep(p.dump)
	p.dump = nil
}
