package stackdump

import (
	"slices"
	"strings"
)

// Programs print stacks with traceback.print_stack under a title of their own,
// newest call last:
//
//	# Thread: MainThread (140332630875008)
//	  File "/srv/app/cur.py", line 15, in <module>
//	    asyncio.run(main())
type printStack struct {
	r       *reader
	dump    *Dump
	cur     *Thread
	head    string   // title of the thread to come
	sources []string // source lines of cur's frames
	ids     map[string]bool
}

func startsPrintStack(line string) bool {
	_, ok := printFrame(line)
	return ok
}

func newPrintStack(r *reader) parser {
	return &printStack{r: r, head: r.takeBack(1), ids: map[string]bool{}}
}

// printFrame reads `  File "x", line N, in f`.
func printFrame(line string) (f Frame, ok bool) {
	rest, ok := strings.CutPrefix(line, `  File "`)
	if !ok {
		return f, false
	}
	i := strings.LastIndex(rest, `", line `)
	if i < 0 {
		return f, false
	}
	n, after, ok := number(rest[i+len(`", line `):])
	if !ok {
		return f, false
	}
	function, ok := strings.CutPrefix(after, ", in ")
	if !ok || function == "" {
		return f, false
	}
	return Frame{Function: function, File: rest[:i], Line: n}, true
}

func (p *printStack) take(line string) bool {
	if f, ok := printFrame(line); ok {
		p.frame(f)
		return true
	}
	switch {
	case line == "":
		p.finish()
		return p.dump != nil
	case strings.HasPrefix(line, "    "):
		if p.cur == nil || len(p.sources) == 0 {
			return false
		}
		if n := len(p.sources); p.sources[n-1] == "" {
			p.sources[n-1] = line
		}
		return true // the rest marks places in the source line
	case p.cur != nil && raised(line):
		p.drop()
		return true
	}
	next, ok := p.r.peek(0)
	if _, frame := printFrame(next); ok && frame && line != tracebackHead {
		p.finish()
		p.head = line
		return true
	}
	return false
}

func (p *printStack) frame(f Frame) {
	if p.cur == nil {
		p.begin()
	}
	f.File, f.Function = clean(f.File), clean(f.Function)
	f.Code = pythonCode(f.File)
	p.r.frame(p.cur, f)
	p.sources = append(p.sources, "")
}

// begin begins a thread. One that was seen already begins the next dump.
func (p *printStack) begin() {
	name, id := titleOf(p.head)
	p.head = ""
	key := name + "\x00" + id
	if p.dump == nil || key != "\x00" && p.ids[key] {
		p.flush()
		p.dump = p.r.begin("")
	}
	p.ids[key] = true
	p.cur = p.r.thread(p.dump)
	p.cur.ID, p.cur.Name = clean(id), clean(name)
}

// finish turns the frames of a thread round and finds those that wrote it.
func (p *printStack) finish() {
	t := p.cur
	p.cur = nil
	if t == nil {
		return
	}
	slices.Reverse(t.Frames)
	slices.Reverse(p.sources)
	for i := range t.Frames {
		if i >= len(p.sources) || !p.wrote(t, i) {
			break
		}
		t.Frames[i].Code = Writer
		t.Current = true
	}
	p.sources = p.sources[:0]
}

// wrote reports whether frame i, within which all are of the writing, belongs
// to it too. A signal handler is called by no line of the program: its caller's
// source does not name it.
func (p *printStack) wrote(t *Thread, i int) bool {
	source := p.sources[i]
	if i == 0 {
		for _, call := range []string{"print_stack", "format_stack", "extract_stack", "_current_frames", "dump_traceback", "walk_stack", "print_list"} {
			if strings.Contains(source, call) {
				return true
			}
		}
		return strings.HasSuffix(t.Frames[0].File, "/traceback.py")
	}
	called := strings.Trim(t.Frames[i-1].Function, "<>")
	return source != "" && strings.Contains(source, called)
}

// drop forgets a thread that was a traceback without its head.
func (p *printStack) drop() {
	if p.dump != nil && len(p.dump.Threads) > 0 && p.cur == &p.dump.Threads[len(p.dump.Threads)-1] {
		p.dump.Threads = p.dump.Threads[:len(p.dump.Threads)-1]
	}
	p.cur, p.sources = nil, p.sources[:0]
}

func (p *printStack) flush() {
	p.r.keep(p.dump)
	p.dump = nil
	clear(p.ids)
}

func (p *printStack) end(broken bool) {
	p.finish()
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}

// titleOf finds a name and a number in the title that a program gives a thread.
func titleOf(head string) (name, id string) {
	name = strings.Trim(head, "#-=*: \t")
	for _, field := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" ()[],:=#", r) }) {
		digits := strings.TrimPrefix(field, "0x")
		if len(digits) >= 4 && hexDigits(digits) == len(digits) && strings.ContainsAny(digits, "0123456789") {
			id = field
		}
	}
	if id != "" {
		for _, around := range []string{"(" + id + ")", "[" + id + "]", id} {
			name = strings.Replace(name, around, "", 1)
		}
	}
	name = strings.Trim(name, "#-=*:(), \t")
	for _, word := range []string{"Thread", "thread", "Stack of", "Stack (most recent call last)"} {
		name = strings.Trim(strings.TrimPrefix(name, word), ":(), \t")
	}
	return name, id
}
