package stackdump

import "strings"

// py-spy dump writes, newest call first:
//
//	Process 16345: python3 agent.py
//	Python v3.11.7 (/usr/bin/python3.11)
//
//	Thread 16345 (active+gil): "MainThread"
//	    call_tool (agent.py:13)
type pySpy struct {
	r    *reader
	dump *Dump
	cur  *Thread
}

func startsPySpy(line string) bool {
	if rest, ok := strings.CutPrefix(line, "Process "); ok {
		_, rest, ok = number(rest)
		return ok && strings.HasPrefix(rest, ":")
	}
	_, _, _, ok := pySpyHeader(line)
	return ok
}

func newPySpy(r *reader) parser { return &pySpy{r: r} }

// pySpyHeader reads `Thread 16345 (idle): "name"`; the name may be missing.
func pySpyHeader(line string) (id, state, name string, ok bool) {
	rest, ok := strings.CutPrefix(line, "Thread ")
	if !ok {
		return "", "", "", false
	}
	id, rest, ok = strings.Cut(rest, " (")
	if !ok || hexDigits(strings.TrimPrefix(id, "0x")) == 0 {
		return "", "", "", false
	}
	state, name, ok = strings.Cut(rest, ")")
	if !ok || state != "idle" && !strings.HasPrefix(state, "active") {
		return "", "", "", false
	}
	return id, state, strings.TrimSuffix(strings.TrimPrefix(name, `: "`), `"`), true
}

func (p *pySpy) take(line string) bool {
	if id, state, name, ok := pySpyHeader(line); ok {
		if p.dump == nil {
			p.dump = p.r.begin("")
		}
		p.cur = p.r.thread(p.dump)
		p.cur.ID, p.cur.State, p.cur.Name = clean(id), clean(state), clean(name)
		p.cur.Running = state != "idle"
		return true
	}
	switch {
	case strings.HasPrefix(line, "Process "):
		if !startsPySpy(line) {
			return false
		}
		p.flush()
		p.dump = p.r.begin(line)
		return true
	case p.dump == nil:
		return false
	case line == "", strings.HasPrefix(line, "Python v"):
		return true
	case strings.HasPrefix(line, "        "): // arguments and locals
		return p.cur != nil
	case p.cur != nil && strings.HasPrefix(line, "    "):
		return p.frame(line[4:])
	}
	return false
}

// frame reads `call_tool (agent.py:13)`; native frames have no line.
func (p *pySpy) frame(line string) bool {
	body, ok := strings.CutSuffix(line, ")")
	i := strings.LastIndex(body, " (")
	if !ok || i <= 0 {
		return false
	}
	f := Frame{Function: clean(body[:i]), File: body[i+2:]}
	if k := strings.LastIndexByte(f.File, ':'); k > 0 {
		if n, rest, ok := number(f.File[k+1:]); ok && rest == "" {
			f.File, f.Line = f.File[:k], n
		}
	}
	f.File = clean(f.File)
	f.Code = pythonCode(f.File)
	if f.Line == 0 || strings.Contains(f.File, ".so") {
		f.Code, f.Native = Standard, true
	}
	p.r.frame(p.cur, f)
	return true
}

func (p *pySpy) flush() {
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
}

func (p *pySpy) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}
