package stackdump

import (
	"hash/maphash"
	"regexp"
	"slices"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// MaxBytes is how much of a text is read. The rest is cut off, and said so.
const MaxBytes = 64 << 20

// keptStray is how many stray lines are kept to be shown.
const keptStray = 200

// Parse reads a text of any kind. It never fails: what it does not recognise is
// stray, and a File without dumps says what it is instead. A text that gzip
// made is decompressed first.
func Parse(text string) *File {
	text, cut := inflate(text)
	if len(text) > MaxBytes {
		text, cut = text[:MaxBytes], true
	}
	f := &File{Format: None, Raw: text}
	if d, ok := readProfile(text); ok {
		f.Dumps = append(f.Dumps, d)
		f.Raw = "" // bytes of a protocol buffer: nothing to read
	} else {
		r := newReader(f)
		r.run()
	}
	f.settle(cut)
	f.Raw = withoutEnvironment(f.Raw)
	return f
}

// settle says of the whole what its parts say.
func (f *File) settle(cut bool) {
	f.Dumps = joinRace(f.Dumps)
	if cut {
		f.Cut = CutBytes
	}
	for i := range f.Dumps {
		f.Cut = max(f.Cut, f.Dumps[i].Cut)
	}
	switch {
	case len(f.Dumps) > 0:
		f.Format = f.Dumps[0].Format
	case len(f.Other) > 0:
		f.Format = f.Other[0].Format
	}
}

// reader walks over the lines of a text and hands them to parsers.
type reader struct {
	file  *File
	table *anchors
	text  string
	at    int  // where the next line begins
	line  int  // number of the line that was read last, from 1
	ended bool // that line had an end

	format *format // of the open parser
	open   parser  // nil: none
	aside  parser  // reads what is no dump, and does not end an open one; nil: none

	taken  bool // the line before belonged to a dump
	recent []recentLine

	budget   budget
	full     bool    // it is used up
	room     int     // what was spent for the threads of the current dump
	reserved int     // for so many of them at once
	looks    int     // for how many threads a dump has; see expect
	spare    Thread  // one that is not kept
	arena    []Frame // frames of the current thread end it
	seed     maphash.Seed
	stacks   map[uint64][]Frame // that were seen, by their hash

	logs    []string // how log lines begin; nil: not looked yet
	mending int      // bytes that mending may still look at
	values  int      // JSON values that were tried
	marks   [2]int   // where the next mark of such a value is; see value
}

func newReader(f *File) *reader {
	return &reader{
		file: f, table: newAnchors(), text: f.Raw, budget: newBudget(len(f.Raw)),
		seed: maphash.MakeSeed(), stacks: map[uint64][]Frame{}, mending: mendingBase + len(f.Raw), marks: [2]int{-1, -1},
	}
}

func (r *reader) run() {
	for r.at < len(r.text) && !r.full {
		start := r.at
		line := r.next()
		inside := r.taken
		r.taken = r.place(line, start, r.ended || !inside)
		if !r.ended && r.open != nil && (r.taken || inside) {
			r.close(true)
		}
	}
	r.close(false)
	if r.full {
		r.file.Cut = CutThreads // more than any real dump holds: the first ones are kept
	}
}

// next reads a line without its end, and notes whether it had one.
func (r *reader) next() string {
	line, _, ended := strings.Cut(r.text[r.at:], "\n")
	r.at += len(line)
	if r.ended = ended; ended {
		r.at++
	}
	r.line++
	return strings.TrimRight(line, "\r")
}

// peek gives the line n lines on from the next one, n from 0, without reading it.
func (r *reader) peek(n int) (line string, ok bool) {
	rest := r.text[r.at:]
	for ; n > 0 && rest != ""; n-- {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	if rest == "" {
		return "", false
	}
	line, _, _ = strings.Cut(rest, "\n")
	return strings.TrimRight(line, "\r"), true
}

// place gives a line to whom it belongs, and reports whether that is a dump.
// One that belongs to nobody is stray, if it counts: the piece of a line on
// which a dump breaks off does not.
func (r *reader) place(line string, start int, counts bool) bool {
	if r.aside != nil {
		if r.aside.take(line) {
			return true
		}
		r.aside = nil
	}
	if r.open != nil && r.open.take(line) {
		return true
	}
	if line == "" {
		return false
	}
	if line[0] == '{' && r.value(start) {
		return true
	}
	if r.opens(line) {
		return true
	}
	if counts {
		r.stray(line)
	}
	return false
}

// opens begins the format whose anchor the line is, if it is one: the first whose
// parser takes it.
func (r *reader) opens(line string) bool {
	before := r.format
	for _, f := range r.table.of(line) {
		if !f.starts(line) {
			continue
		}
		r.format = f
		if p := f.open(r); p.take(line) {
			r.adopt(p, before)
			return true
		}
		r.format = before
	}
	return false
}

// adopt makes p, of the format that r has now, the open parser. Something that is
// no dump stands aside of an open one, which may go on after it.
func (r *reader) adopt(p parser, before *format) {
	if r.format.refuse != "" {
		r.remark(r.format)
		r.aside, r.format = p, before
		return
	}
	r.close(false)
	r.open = p
}

// takeBack gives the line that stands n before this one if it was stray, as one
// that belongs to a dump after all: a title, or a date.
func (r *reader) takeBack(n int) string {
	if len(r.recent) == 0 {
		return ""
	}
	newest := r.recent[len(r.recent)-1]
	if newest.at != r.line-n {
		return ""
	}
	r.recent = r.recent[:len(r.recent)-1]
	r.file.Stray--
	if kept := len(r.file.StrayText); kept > r.file.Stray {
		r.file.StrayText = r.file.StrayText[:kept-1]
	}
	return newest.text
}

// recentLines is how many stray lines can be taken back.
const recentLines = 2

// recentLine is a stray line and its number.
type recentLine struct {
	text string
	at   int
}

// close ends the open parser.
func (r *reader) close(broken bool) {
	if r.open == nil {
		return
	}
	open := r.open
	r.open = nil
	open.end(broken)
}

// captureMark is the line that a capture of ours writes between its parts.
var captureMark = regexp.MustCompile(`^## [\w.:-]+, sample \d+, [0-9TZ:.-]+$`)

// stray notes a line that belongs to nothing.
func (r *reader) stray(line string) {
	if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "## ") && captureMark.MatchString(line) {
		return
	}
	r.file.Stray++
	if len(r.recent) == recentLines {
		r.recent = append(r.recent[:0], r.recent[1:]...)
	}
	r.recent = append(r.recent, recentLine{line, r.line})
	if len(r.file.StrayText) < keptStray && len(line) <= 4096 {
		r.file.StrayText = append(r.file.StrayText, termtext.CleanLong(line))
	}
}

// remark notes something that is known and is no dump.
func (r *reader) remark(f *format) {
	if len(r.file.Other) < keptStray {
		r.file.Other = append(r.file.Other, Remark{Format: f.name, Text: f.refuse, Line: r.line})
	}
}

// begin opens a dump of the open format.
func (r *reader) begin(lead string) *Dump {
	return &Dump{Format: r.format.name, Line: r.line, Lead: clean(lead), family: r.format.family}
}

// keep adds a dump to the file, unless it has no threads.
func (r *reader) keep(d *Dump) {
	if d == nil || len(d.Threads) == 0 {
		return
	}
	r.share(&d.Threads[len(d.Threads)-1])
	if cap(d.Threads) > len(d.Threads) { // the room to grow is given back
		d.Threads = append(make([]Thread, 0, len(d.Threads)), d.Threads...)
	}
	r.budget += budget(r.room - len(d.Threads)*threadSize)
	r.room, r.reserved = 0, 0
	if r.spend(dumpCost) {
		r.file.Dumps = append(r.file.Dumps, *d)
	}
}

// expect makes room for all threads that begin with mark, before the next dump
// begins as until says, so that very many are not moved about as they grow. Of a
// text with many dumps only the first ones are worth the look.
func (r *reader) expect(d *Dump, mark string, until ...string) {
	if r.looks == mostLooks {
		return
	}
	r.looks++
	rest := r.text[r.at:]
	for _, end := range until {
		rest, _, _ = strings.Cut(rest, end)
	}
	n := min(1+strings.Count(rest, mark), int(r.budget)/threadSize)
	if n > 100 && r.spend(n*threadSize) {
		r.room += n * threadSize
		r.reserved = n
		d.Threads = make([]Thread, 0, n)
	}
}

// thread adds a thread to a dump and gives it, valid until the next one. Over
// the budget it gives one that is not kept.
func (r *reader) thread(d *Dump) *Thread {
	if n := len(d.Threads); n > 0 {
		r.share(&d.Threads[n-1])
	}
	fresh := Thread{CPU: Unknown, Elapsed: Unknown, Switches: Unknown, Count: 1}
	if len(d.Threads) >= r.reserved {
		if !r.spend(threadCost) {
			d.Cut = max(d.Cut, CutThreads)
			r.spare = fresh
			return &r.spare
		}
		r.room += threadCost
	}
	d.Threads = append(d.Threads, fresh)
	return &d.Threads[len(d.Threads)-1]
}

// frame adds an outer frame to a thread. Frames of all threads share their
// memory, since a dump has many threads of few frames.
func (r *reader) frame(t *Thread, f Frame) {
	n := len(t.Frames)
	if n >= mostFrames || !r.spend(frameCost) {
		t.Cut = true
		return
	}
	atEnd := n == 0 || len(r.arena) > 0 && &r.arena[len(r.arena)-1] == &t.Frames[n-1]
	if !atEnd || len(r.arena) == cap(r.arena) {
		grown := make([]Frame, n, n+max(arenaStep, n))
		copy(grown, t.Frames)
		r.arena = grown
	}
	r.arena = append(r.arena, f)
	t.Frames = r.arena[len(r.arena)-n-1 : len(r.arena) : len(r.arena)]
}

// share gives a thread that is complete the frames of an earlier one with the
// same stack: pools have thousands of those.
func (r *reader) share(t *Thread) {
	n := len(t.Frames)
	if n == 0 || len(r.arena) < n || &r.arena[len(r.arena)-1] != &t.Frames[n-1] {
		return
	}
	h := hashFrames(r.seed, t.Frames)
	if known := r.stacks[h]; slices.EqualFunc(known, t.Frames, equalFrame) {
		t.Frames = known
		r.arena = r.arena[:len(r.arena)-n]
		r.budget += budget(n * frameCost)
		return
	}
	if len(r.stacks) < mostStacks {
		r.stacks[h] = t.Frames
	}
}

// spend takes from the budget. Once that is used up, reading ends.
func (r *reader) spend(n int) bool {
	ok := r.budget.spend(n)
	r.full = r.full || !ok
	return ok
}

// clean makes a name safe to show.
func clean(name string) string { return termtext.Clean(name) }
