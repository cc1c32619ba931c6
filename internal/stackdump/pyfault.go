package stackdump

import "strings"

// faulthandler writes, newest call first:
//
//	Timeout (0:00:01.500000)!               or  Fatal Python error: Aborted
//	Thread 0x00007f5fcffff6c0 [name] (most recent call first):
//	  File "/srv/app/agent.py", line 48 in blocked_on_lock
//	  ...                                   100 frames a thread at most
//
//	Current thread 0x00007f5fe8029b80 (most recent call first):
//	...                                     100 threads at most, newest first
//
// A blank line stands between threads and none between dumps.
type fault struct {
	r     *reader
	dump  *Dump
	cur   *Thread
	lead  string
	blank bool // a blank line since the last frame
	inC   bool // in the C stack that 3.14 adds
	ids   map[string]bool
	files map[string]bool
}

const faultTail = " (most recent call first):"

func startsFault(line string) bool {
	switch head(line) {
	case 'T', 'C', 'S':
		return faultHeader(line).ok || faultLead(line) || tornHeader(line)
	case 'F', 'W':
		return faultLead(line)
	}
	return false
}

func faultLead(line string) bool {
	return strings.HasPrefix(line, "Fatal Python error: ") || strings.HasPrefix(line, "Windows fatal exception: ") ||
		strings.HasPrefix(line, "Timeout (") && strings.HasSuffix(line, ")!")
}

// tornHeader reports a header into which a log line fell.
func tornHeader(line string) bool {
	return strings.HasPrefix(line, "Thread 0x") || strings.HasPrefix(line, "Current thread 0x")
}

func newFault(r *reader) parser {
	return &fault{r: r, ids: map[string]bool{}, files: map[string]bool{}}
}

type faultHead struct {
	ok, current, alone bool
	id, name           string
}

// faultHeader reads the header of a thread.
func faultHeader(line string) (h faultHead) {
	rest, found := strings.CutSuffix(line, faultTail)
	if !found {
		return h
	}
	if rest == "Stack" {
		return faultHead{ok: true, alone: true, current: true}
	}
	id, found := strings.CutPrefix(rest, "Thread 0x")
	if !found {
		if id, found = strings.CutPrefix(rest, "Current thread 0x"); !found {
			return h
		}
		h.current = true
	}
	n := hexDigits(id)
	if n < 8 || n > 16 {
		return h
	}
	h.id = "0x" + id[:n]
	if name, ok := strings.CutPrefix(id[n:], " ["); ok && strings.HasSuffix(name, "]") {
		h.name = name[:len(name)-1]
	} else if id[n:] != "" {
		return h
	}
	h.ok = true
	return h
}

// faultFrame reads a line of a frame. A path may itself contain `", line 9 in`:
// the last one counts.
func faultFrame(line string) (f Frame, ok bool) {
	rest, ok := strings.CutPrefix(line, "  File ")
	if !ok {
		return f, false
	}
	var file string
	if quoted, ok := strings.CutPrefix(rest, `"`); ok {
		i := strings.LastIndex(quoted, `", line `)
		if i < 0 {
			return f, false
		}
		file, rest = quoted[:i], quoted[i+len(`", line `):]
	} else if rest, ok = strings.CutPrefix(rest, "???, line "); !ok {
		return f, false
	}
	n, rest, known := number(rest)
	if !known {
		if rest, ok = strings.CutPrefix(rest, "???"); !ok {
			return f, false
		}
	}
	function, ok := strings.CutPrefix(rest, " in ")
	if !ok || function == "" {
		return f, false
	}
	return Frame{Function: function, File: file, Line: n}, true
}

func (p *fault) fits(line string) bool {
	if _, ok := faultFrame(line); ok {
		return true
	}
	return faultHeader(line).ok
}

func (p *fault) likely(line string) bool {
	f, ok := faultFrame(line)
	return ok && p.files[f.File]
}

func (p *fault) take(line string) bool {
	if line == "" {
		p.blank = true
		return p.dump != nil
	}
	switch line[0] {
	case ' ':
		return p.indented(line)
	case '.':
		if line == "..." && p.dump != nil {
			p.dump.Cut = max(p.dump.Cut, CutThreads)
			return true
		}
	case 'T', 'C', 'S', 'F', 'W', 'P', 'E':
		return p.unindented(line)
	}
	return false
}

func (p *fault) unindented(line string) bool {
	if h := faultHeader(line); h.ok {
		p.header(h)
		return true
	}
	switch {
	case faultLead(line):
		p.flush()
		p.lead = line
		return true
	case strings.HasPrefix(line, "Current thread's C stack trace"):
		p.inC = p.dump != nil
		return p.inC
	case strings.HasPrefix(line, "Python runtime state: "), strings.HasPrefix(line, "Extension modules: "):
		return p.dump != nil || p.lead != ""
	case tornHeader(line):
		if mended, ok := p.r.mend(line, func(s string) bool { return faultHeader(s).ok }, func(string) bool { return false }); ok {
			p.header(faultHeader(mended))
			return true
		}
	}
	return false
}

// header begins a thread, and perhaps the next dump.
func (p *fault) header(h faultHead) {
	again := p.dump != nil && (h.alone || !p.blank || p.ids[h.id] || h.current && p.hasCurrent())
	if p.dump == nil || again || p.lead != "" {
		lead := p.lead
		p.flush()
		p.dump = p.r.begin(lead)
		p.lead = ""
	}
	p.ids[h.id] = true
	p.cur = p.r.thread(p.dump)
	p.cur.ID, p.cur.Name, p.cur.Current = h.id, clean(unescape(h.name)), h.current
	p.blank, p.inC = false, false
}

func (p *fault) hasCurrent() bool {
	for i := range p.dump.Threads {
		if p.dump.Threads[i].Current {
			return true
		}
	}
	return false
}

func (p *fault) indented(line string) bool {
	if p.dump == nil {
		return false
	}
	if p.inC {
		return strings.HasPrefix(line, "  ")
	}
	f, ok := faultFrame(line)
	if !ok {
		switch {
		case line == "  ...":
			p.cur.Cut = true
			p.dump.Cut = max(p.dump.Cut, CutFrames)
			return true
		case strings.HasPrefix(line, "  <"), strings.HasPrefix(line, "  Garbage-collecting"):
			return true
		}
		mended, mend := p.r.mend(line, p.fits, p.likely)
		if !mend || !strings.HasPrefix(line, " ") {
			return false
		}
		if h := faultHeader(mended); h.ok {
			p.header(h)
			return true
		}
		f, _ = faultFrame(mended)
	}
	p.frame(f)
	return true
}

func (p *fault) frame(f Frame) {
	if whole := p.r.cutLog(f.Function); whole != f.Function {
		f.Function = whole
		p.restOfName(&f)
	}
	if len(p.files) < 1000 {
		p.files[f.File] = true
	}
	f.File, f.Function = clean(unescape(f.File)), clean(unescape(f.Function))
	f.Code = pythonCode(f.File)
	p.r.frame(p.cur, f)
	p.blank = false
}

// restOfName joins a name that was torn in its middle, as Python before 3.9
// writes it, character by character.
func (p *fault) restOfName(f *Frame) {
	next, ok := p.r.peek(0)
	if !ok || next == "" || len(next) > 64 || p.fits(next) || strings.Trim(next, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_<>.") != "" {
		return
	}
	p.r.next()
	f.Function += next
}

// flush ends the dump.
func (p *fault) flush() {
	p.r.keep(p.dump)
	p.dump = nil
	clear(p.ids)
}

func (p *fault) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}
