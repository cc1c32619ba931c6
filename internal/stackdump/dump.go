package stackdump

import (
	"slices"
	"strings"
	"time"
)

// Format names a kind of dump, as dump-view --json prints it.
type Format string

// None is the format of a text in which nothing was recognised.
const None Format = "none"

// Cut says what of a dump is missing, as far as the text shows it.
type Cut uint8

// What is missing, the least first.
const (
	Whole      Cut = iota
	CutFrames      // outer frames of a deep stack
	CutThreads     // whole threads
	CutBytes       // the text breaks off
)

// String is the word for it; that of Whole is empty.
func (c Cut) String() string { return [...]string{"", "frames", "threads", "bytes"}[c] }

// File is what one text holds.
type File struct {
	Dumps  []Dump
	Format Format   // of the first dump; else of what was recognised instead; else None
	Other  []Remark // tracebacks and the like: recognised, but no dumps of threads
	Cut    Cut      // the worst of all dumps
	Raw    string   // the text itself, decompressed, without environments: hostile

	Stray     int      // lines that belong to nothing that was recognised
	StrayText []string // the first of them
}

// Remark is a part of a text that is known and is no dump of threads.
type Remark struct {
	Format Format
	Text   string // what it is, in a few words
	Line   int    // where it begins, from 1
}

// Threads counts the threads of all dumps.
func (f *File) Threads() int {
	n := 0
	for i := range f.Dumps {
		n += f.Dumps[i].Count()
	}
	return n
}

// Dump is one look at all threads of a process.
type Dump struct {
	Format    Format
	Line      int       // where it begins, from 1
	Lead      string    // what the runtime said first: a signal, a fatal error; may be empty
	Time      time.Time // when it was taken, by the clock of the process; zero if not said. Without zone it is taken as UTC
	Threads   []Thread
	Deadlocks [][]string // cycles that the runtime found itself: names of threads
	Deadlock  bool       // the runtime says that all threads wait
	Interrupt bool       // running code was stopped for this dump: it was on a CPU
	Cut       Cut

	family family
}

// Count is how many threads the dump holds; a counted stack stands for several,
// a torn one for none.
func (d *Dump) Count() int {
	n := 0
	for i := range d.Threads {
		n += d.Threads[i].Count
	}
	return n
}

// named gives the index of the thread with this name, or -1.
func (d *Dump) named(name string) int {
	return slices.IndexFunc(d.Threads, func(t Thread) bool { return t.Name == name })
}

// Unknown is a number that the dump does not tell.
const Unknown = -1

// Thread is one thread or goroutine, or, in a profile, several of one stack.
type Thread struct {
	ID     string // as the runtime writes it; may be empty
	Name   string
	State  string // in the runtime's words
	Labels string // as the runtime writes them
	Frames []Frame

	Waits   string        // the lock, or its address, that it waits for
	Holds   []string      // the locks that it says it holds
	Wait    time.Duration // since when it waits; 0 if not said
	CPU     time.Duration // consumed since its start, or Unknown
	Elapsed time.Duration // since its start, or Unknown

	Switches int64 // context switches since its start, or Unknown
	Count    int   // threads of this stack: 1 but in profiles, 0 if torn

	Current   bool // took the dump, or handled the signal
	Running   bool // on a CPU when the dump was taken
	Cut       bool // outer frames are missing
	Torn      bool // its header cannot be believed: its stack is shown, it is no thread
	Role      bool // labelled as an event loop
	Lock      bool // it waits for a mutual exclusion, not for a message or a time
	WroteDump bool // running only because it wrote the dump

	knows []string // of a waiter for a lock: the addresses that its own frames hold
}

// Frame is one call.
type Frame struct {
	Function string // as the runtime spells it, without arguments
	File     string // as the runtime spells it; empty if not said
	Line     int    // from 1; 0 if not said
	Code     Code
	Native   bool // entered code that the runtime cannot see into
}

// Code says whose code a frame runs.
type Code uint8

// Whose code it is.
const (
	User     Code = iota // the program's, third parties included
	Standard             // the standard library's or the runtime's
	Writer               // wrote the dump, or handled the signal to do so
)

// innermost gives the index of the innermost frame of the program's own, or -1.
func (t *Thread) innermost() int {
	return slices.IndexFunc(t.Frames, func(f Frame) bool { return f.Code == User })
}

// user reports whether any frame is the program's own.
func (t *Thread) user() bool { return t.innermost() >= 0 }

// top gives the innermost frame that is not of the writing of the dump.
func (t *Thread) top() (Frame, bool) {
	for _, f := range t.Frames {
		if f.Code != Writer {
			return f, true
		}
	}
	return Frame{}, false
}

// title is what a person calls the thread.
func (t *Thread) title() string {
	id := t.ID
	if digits, ok := strings.CutPrefix(id, "0x"); ok && len(digits) > 8 {
		id = "0x" + strings.TrimLeft(digits, "0")
	}
	switch {
	case t.Name != "" && id != "":
		return t.Name + " " + id
	case t.Name != "":
		return t.Name
	case id != "":
		return id
	}
	return "thread"
}
