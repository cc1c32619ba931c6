package stackdump

import "strings"

// eu-stack writes, with -v a library and with -s a second line with the place:
//
//	PID 16106 - process
//	TID 16106:
//	#0  0x00007f557bb9112b     futex_wait - /usr/lib/x86_64-linux-gnu/libc.so.6
//	    ../sysdeps/nptl/futex-internal.h:146:13
//	#4  0x00005592ea3af1f5 - 1 dispatch - /srv/app/agent-c
type euStack struct {
	r    *reader
	dump *Dump
	cur  *Thread
	ids  map[string]bool
}

func startsEUStack(line string) bool {
	if rest, ok := strings.CutPrefix(line, "PID "); ok {
		_, rest, ok = number(rest)
		return ok && strings.HasPrefix(rest, " - ")
	}
	_, ok := euHeader(line)
	return ok
}

func euHeader(line string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(line, "TID ")
	if !ok {
		return "", false
	}
	_, after, ok := number(rest)
	return rest[:len(rest)-len(after)], ok && strings.HasPrefix(after, ":")
}

func newEUStack(r *reader) parser { return &euStack{r: r, ids: map[string]bool{}} }

func (p *euStack) take(line string) bool {
	if line == "" {
		return p.dump != nil
	}
	switch line[0] {
	case '#':
		return p.cur != nil && p.frame(line)
	case ' ':
		return p.place(line)
	case 'P':
		if startsEUStack(line) {
			p.flush()
			p.dump = p.r.begin(line)
			return true
		}
		return false
	}
	id, ok := euHeader(line)
	if !ok {
		return false
	}
	if p.dump == nil || p.ids[id] {
		p.flush()
		p.dump = p.r.begin("")
	}
	p.ids[id] = true
	p.cur = p.r.thread(p.dump)
	p.cur.ID = clean(id)
	return true
}

func (p *euStack) frame(line string) bool {
	_, rest, ok := number(line[1:])
	rest = strings.TrimLeft(rest, " ")
	if !ok || !strings.HasPrefix(rest, "0x") {
		return false
	}
	address, rest, _ := strings.Cut(rest, " ")
	rest = strings.TrimSpace(rest)
	if rest == "- 1" {
		rest = ""
	}
	rest = strings.TrimPrefix(rest, "- 1 ")
	var library string
	if i := strings.LastIndex(rest, " - /"); i >= 0 {
		rest, library = rest[:i], rest[i+3:]
	} else if after, ok := strings.CutPrefix(rest, "- /"); ok {
		rest, library = "", "/"+after
	}
	name, _, _ := strings.Cut(rest, "@")
	if strings.Contains(name, "(") { // of C++, which may hold one
		name = rest
	}
	f := Frame{Function: clean(withoutArguments(demangle(name)))}
	if f.Function == "" {
		f.Function = clean(address)
	}
	f.Code = nativeCode(f.Function, library)
	p.cur.Lock = p.cur.Lock || lockFunction(f.Function)
	p.r.frame(p.cur, f)
	return true
}

// place reads the line below a frame that says where it stands.
func (p *euStack) place(line string) bool {
	if p.cur == nil || len(p.cur.Frames) == 0 || !strings.HasPrefix(line, "    ") {
		return false
	}
	f := &p.cur.Frames[len(p.cur.Frames)-1]
	if f.Line > 0 {
		return false
	}
	place := strings.TrimSpace(line)
	file, rest, ok := strings.Cut(place, ":")
	n, _, isNumber := number(rest)
	if !ok || !isNumber {
		return false
	}
	f.File, f.Line = clean(file), n
	if f.Code == User {
		f.Code = nativeCode(f.Function, f.File)
	}
	return true
}

func (p *euStack) flush() {
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
	clear(p.ids)
}

func (p *euStack) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}
