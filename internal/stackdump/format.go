package stackdump

import (
	"slices"
	"strings"
)

// format is one kind of dump: its name for people, how its beginning is
// recognised, and its parser. A new kind is a new row of formats.
type format struct {
	name   Format
	title  string
	first  string // bytes that such a line may begin with; empty: any
	starts func(line string) bool
	open   func(r *reader) parser
	refuse string // what it is, if it is no dump of threads; its parser makes none
	family family
}

// parser reads the lines of one dump, or of several that follow each other.
type parser interface {
	// take reads one line, without its end, and reports whether it belongs to
	// the dump. A line that it leaves may be another format's or stray; the
	// parser is asked again for the next one.
	take(line string) bool
	// end is called once, when another format begins or the text ends. broken
	// reports that the text ends inside a line that was taken.
	end(broken bool)
}

const (
	lower = "abcdefghijklmnopqrstuvwxyz"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// formats is the table of all line-by-line formats. The first row whose anchor
// matches wins.
func formats() []format {
	return []format{
		{name: "py-faulthandler", title: "python faulthandler", first: "TCSFW", starts: startsFault, open: newFault, family: pythonFamily},
		{name: "py-traceback", title: "python traceback", starts: startsTraceback, open: newTraceback, refuse: "a Python traceback, not a thread dump", family: pythonFamily},
		{name: "py-print_stack", title: "python print_stack", first: " ", starts: startsPrintStack, open: newPrintStack, family: pythonFamily},
		{name: "py-spy", title: "py-spy", first: "PT", starts: startsPySpy, open: newPySpy, family: pythonFamily},
		{name: "go-race", title: "Go race report", first: "W", starts: startsRace, open: newRace, family: goFamily},
		{name: "go-pprof-text", title: "Go goroutine profile", first: "g", starts: startsProfileText, open: newProfileText, family: goFamily},
		{name: "go", title: "Go goroutines", first: "gpfS", starts: startsGo, open: newGo, family: goFamily},
		{name: "java-traceback", title: "Java exception", first: "E" + lower, starts: startsJavaException, open: newJavaException, refuse: "a Java exception, not a thread dump", family: javaFamily},
		{name: "java", title: "Java threads", first: "F", starts: startsJava, open: newJava, family: javaFamily},
		{name: "node-fatal", title: "Node.js native stack", first: "<-F", starts: startsNodeFatal, open: newNodeFatal, family: nativeFamily},
		{name: "node-stack", title: "Node.js stack", starts: startsNodeStack, open: newNodeStack, family: scriptFamily},
		{name: "node-traceback", title: "JavaScript error", first: upper, starts: startsNodeError, open: newNodeError, refuse: "a JavaScript error, not a thread dump", family: scriptFamily},
		{name: "gdb", title: "gdb", first: "[T", starts: startsGDB, open: newGDB, family: nativeFamily},
		{name: "eu-stack", title: "eu-stack", first: "PT", starts: startsEUStack, open: newEUStack, family: nativeFamily},
		{name: "ruby-bug", title: "Ruby bug report", starts: startsRubyBug, open: newRubyBug, family: rubyFamily},
		{name: "ruby-threads", title: "Ruby threads", starts: startsRubyDeadlock, open: newRubyDeadlock, family: rubyFamily},
		{name: "ruby-traceback", title: "Ruby exception", starts: startsRubyException, open: newRubyException, refuse: "a Ruby exception, not a thread dump", family: rubyFamily},
		{name: "ruby-threads", title: "Ruby threads", starts: startsRubyThreads, open: newRubyThreads, family: rubyFamily},
		{name: "proc", title: "/proc snapshot", first: "=", starts: startsProc, open: newProc, family: nativeFamily},
	}
}

// The formats that are one value rather than lines.
const (
	formatProfile    Format = "pprof-proto"
	formatNodeReport Format = "node-report"
	formatNodePause  Format = "node-cdp-json"
)

// Title is what a person calls the format.
func (f Format) Title() string {
	for _, row := range formats() {
		if row.name == f {
			return row.title
		}
	}
	switch f {
	case formatProfile:
		return "Go goroutine profile"
	case formatNodeReport:
		return "Node.js report"
	case formatNodePause:
		return "Node.js, paused"
	}
	return "no known format"
}

// shortestAnchor is the length of the shortest line that begins a format.
const shortestAnchor = 5

// anchors is the table of formats by the first byte of a line, so that most lines
// are compared with few anchors.
type anchors [256][]*format

func newAnchors() *anchors {
	table := formats()
	var a anchors
	for i := range table {
		f := &table[i]
		for c := range a {
			if f.first == "" || strings.IndexByte(f.first, byte(c)) >= 0 {
				a[c] = append(a[c], f)
			}
		}
	}
	return &a
}

// of gives the formats that a line may begin.
func (a *anchors) of(line string) []*format {
	if len(line) < shortestAnchor {
		return nil
	}
	return a[line[0]]
}

// match reports whether a line looks like the beginning of any format.
func (a *anchors) match(line string) bool {
	return slices.ContainsFunc(a.of(line), func(f *format) bool { return f.starts(line) })
}
