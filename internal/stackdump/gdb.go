package stackdump

import "strings"

// gdb writes for `thread apply all bt`:
//
//	Thread 6 (Thread 0x7f5579b036c0 (LWP 16112) "flusher"):
//	#3  ___pthread_mutex_lock (mutex=0x5592ea3b2080 <session_mu>) at ./nptl/pthread_mutex_lock.c:93
//	#4  0x00005592ea3af24b in flusher (arg=0x0) at /srv/app/agent.c:19
type gdb struct {
	r    *reader
	dump *Dump
	cur  *Thread
}

func startsGDB(line string) bool {
	switch head(line) {
	case '[':
		return strings.HasPrefix(line, "[New LWP ") || strings.HasPrefix(line, "[Thread debugging using ")
	case 'T':
		_, _, ok := gdbHeader(line)
		return ok
	}
	return false
}

func newGDB(r *reader) parser { return &gdb{r: r} }

// gdbHeader reads the id of a thread for the system, and its name.
func gdbHeader(line string) (id, name string, ok bool) {
	rest, ok := strings.CutPrefix(line, "Thread ")
	if !ok {
		return "", "", false
	}
	_, rest, ok = number(rest)
	rest, open := strings.CutPrefix(rest, " (")
	end := strings.LastIndex(rest, "):")
	if !ok || !open || end < 0 {
		return "", "", false
	}
	rest = rest[:end]
	for _, mark := range []string{"LWP ", "process ", "Thread "} {
		if _, after, found := strings.Cut(rest, mark); found {
			id, _, _ = strings.Cut(after, ")")
			id, _, _ = strings.Cut(id, " ")
			break
		}
	}
	if _, after, found := strings.Cut(rest, ` "`); found {
		name = strings.TrimSuffix(after, `"`)
	}
	return id, name, id != ""
}

func (p *gdb) take(line string) bool {
	if line == "" {
		return p.dump != nil
	}
	switch line[0] {
	case '#':
		return p.cur != nil && p.frame(line)
	case '[':
		if startsGDB(line) || p.dump != nil && (strings.HasPrefix(line, "[Inferior ") || strings.HasPrefix(line, "[Switching to ")) {
			if p.dump == nil {
				p.dump = p.r.begin("")
			}
			return true
		}
		return false
	case 'U', 'B', '(':
		return p.dump != nil && (strings.HasPrefix(line, "Using host libthread_db") || p.stopped(line))
	}
	id, name, ok := gdbHeader(line)
	if !ok {
		return false
	}
	if p.dump == nil || p.has(id) {
		p.flush()
		p.dump = p.r.begin("")
	}
	p.cur = p.r.thread(p.dump)
	p.cur.ID, p.cur.Name = clean(id), clean(name)
	return true
}

// has reports whether the dump has the thread already. gdb counts down to 1, so
// a look at the first one does.
func (p *gdb) has(id string) bool {
	return len(p.dump.Threads) > 0 && p.dump.Threads[0].ID == id
}

// stopped takes what gdb says when it cannot follow a stack.
func (p *gdb) stopped(line string) bool {
	if strings.HasPrefix(line, "(More stack frames follow") && p.cur != nil {
		p.cur.Cut = true
		p.dump.Cut = max(p.dump.Cut, CutFrames)
		return true
	}
	return strings.HasPrefix(line, "Backtrace stopped:")
}

func (p *gdb) frame(line string) bool {
	_, rest, ok := number(line[1:])
	if !ok || !strings.HasPrefix(rest, " ") {
		return false
	}
	rest = strings.TrimLeft(rest, " ")
	if strings.HasPrefix(rest, "0x") {
		if _, after, found := strings.Cut(rest, " in "); found {
			rest = after
		}
	}
	f, args := gdbCall(rest)
	p.r.frame(p.cur, f)
	p.lock(f.Function, args)
	return true
}

// gdbCall reads `flusher (arg=0x0) at /srv/app/agent.c:19`.
func gdbCall(rest string) (f Frame, args string) {
	if i := strings.LastIndex(rest, ") at "); i >= 0 {
		f.File, f.Line = scriptPlace(rest[i+len(") at "):])
		rest = rest[:i+1]
	} else if i := strings.LastIndex(rest, ") from "); i >= 0 {
		f.File = clean(rest[i+len(") from "):])
		rest = rest[:i+1]
	}
	name, args := goCall(rest)
	f.Function = clean(withoutArguments(strings.TrimSpace(name)))
	f.Code = nativeCode(f.Function, f.File)
	return f, args
}

// lock notes the mutex that a thread waits for: by its symbol, else its address.
func (p *gdb) lock(function, args string) {
	if !lockFunction(function) {
		return
	}
	p.cur.Lock = true
	for _, name := range []string{"mutex=", "rwlock="} {
		_, value, ok := strings.Cut(args, name)
		if !ok {
			continue
		}
		value = strings.TrimPrefix(value, "mutex@entry=")
		value, _, _ = strings.Cut(value, ",")
		if _, symbol, ok := strings.Cut(value, "<"); ok {
			value, _, _ = strings.Cut(symbol, ">")
		}
		p.cur.Waits = clean(value)
		return
	}
}

// lockFunction reports a function of the C or Rust library that waits for a mutex.
func lockFunction(name string) bool {
	for _, part := range []string{"pthread_mutex_lock", "lll_lock_wait", "pthread_rwlock_", "mutex_lock_optimized", "lock_contended"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func (p *gdb) flush() {
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
}

func (p *gdb) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}
