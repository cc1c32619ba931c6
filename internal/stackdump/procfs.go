package stackdump

import (
	"strconv"
	"strings"
	"time"
)

// tick is the unit of utime and stime in /proc, on every Linux that matters.
const tick = 10 * time.Millisecond

// A snapshot of /proc/PID/task says of each thread what the kernel knows:
//
//	== tid 16106 comm=agent-c wchan=futex_do_wait syscall=202 0x5592ea3b20c0 0x80 0x2 ...
//	State:	S (sleeping) voluntary_ctxt_switches:	8 nonvoluntary_ctxt_switches:	3
//	[<0>] futex_do_wait+0x46/0x90
//	0 0
//
// The last line is utime and stime. The stack needs privileges and may be missing.
type procfs struct {
	r    *reader
	dump *Dump
	cur  *Thread
	ids  map[string]bool
}

func startsProc(line string) bool {
	rest, ok := strings.CutPrefix(line, "== tid ")
	if !ok {
		return false
	}
	_, rest, ok = number(rest)
	return ok && (rest == "" || rest[0] == ' ')
}

func newProc(r *reader) parser { return &procfs{r: r, ids: map[string]bool{}} }

func (p *procfs) take(line string) bool {
	if startsProc(line) {
		p.header(line)
		return true
	}
	if p.dump == nil || p.cur == nil {
		return false
	}
	switch {
	case line == "":
		return true
	case strings.HasPrefix(line, "["):
		_, call, ok := strings.Cut(line, "] ")
		call, _, _ = strings.Cut(call, "+0x")
		if ok {
			p.r.frame(p.cur, Frame{Function: clean(call), Code: Standard})
		}
		return ok
	}
	return p.facts(line)
}

func (p *procfs) header(line string) {
	rest := strings.TrimPrefix(line, "== tid ")
	_, after, _ := number(rest)
	id := rest[:len(rest)-len(after)]
	if p.dump == nil || p.ids[id] {
		p.flush()
		p.dump = p.r.begin("")
	}
	p.ids[id] = true
	p.cur = p.r.thread(p.dump)
	t := p.cur
	t.ID = clean(id)
	if i := strings.Index(after, "comm="); i >= 0 {
		t.Name = after[i+len("comm="):]
		if k := strings.LastIndex(t.Name, " wchan="); k >= 0 { // a name may hold anything
			t.Name = t.Name[:k]
		}
		t.Name = clean(t.Name)
	}
	if i := strings.LastIndex(after, " wchan="); i >= 0 {
		where, _, _ := strings.Cut(after[i+len(" wchan="):], " ")
		t.State = clean(where)
	}
	if i := strings.LastIndex(after, " syscall="); i >= 0 {
		p.call(strings.Fields(after[i+len(" syscall="):]))
	}
}

// call reads the system call that the thread is in. A mutex of the C library
// waits on a futex whose value is 2.
func (p *procfs) call(fields []string) {
	if len(fields) < 4 || fields[0] != "202" && fields[0] != "98" {
		return
	}
	op, err := strconv.ParseUint(strings.TrimPrefix(fields[2], "0x"), 16, 64)
	if err != nil || op&0x7f != 0 {
		return
	}
	p.cur.Waits = clean(fields[1])
	p.cur.Lock = fields[3] == "0x2"
}

// facts reads `Name: value` pairs, several a line, and the two times.
func (p *procfs) facts(line string) bool {
	fields := strings.Fields(line)
	if len(fields) == 2 {
		user, err := strconv.ParseUint(fields[0], 10, 40)
		system, err2 := strconv.ParseUint(fields[1], 10, 40)
		if err == nil && err2 == nil {
			p.cur.CPU = time.Duration(user+system) * tick
			return true
		}
	}
	known := false
	for i := 0; i+1 < len(fields); i++ {
		switch fields[i] {
		case "State:":
			p.state(fields[i+1:])
			known = true
		case "voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:":
			if n, err := strconv.ParseInt(fields[i+1], 10, 62); err == nil && n >= 0 {
				p.cur.Switches = max(p.cur.Switches, 0) + n
			}
			known = true
		}
	}
	return known
}

func (p *procfs) state(fields []string) {
	word := fields[0]
	p.cur.Running = word == "R"
	if len(fields) > 1 && strings.HasPrefix(fields[1], "(") {
		word = strings.Trim(fields[1], "()")
	}
	if where := p.cur.State; where != "" && where != "0" && where != "?" {
		word += ", " + where
	}
	p.cur.State = clean(word)
}

func (p *procfs) flush() {
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
	clear(p.ids)
}

func (p *procfs) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}
