package stackdump

// format is one kind of dump: its name for people, how its beginning is
// recognised, and its parser. A new kind is a new row of formats.
type format struct {
	name   Format
	title  string
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

// formats is the table of all line-by-line formats. The first row whose anchor
// matches wins.
func formats() []format {
	return []format{
		{name: "py-faulthandler", title: "python faulthandler", starts: startsFault, open: newFault, family: pythonFamily},
		{name: "py-traceback", title: "python traceback", starts: startsTraceback, open: newTraceback, refuse: "a Python traceback, not a thread dump", family: pythonFamily},
		{name: "py-print_stack", title: "python print_stack", starts: startsPrintStack, open: newPrintStack, family: pythonFamily},
		{name: "py-spy", title: "py-spy", starts: startsPySpy, open: newPySpy, family: pythonFamily},
		{name: "go-race", title: "Go race report", starts: startsRace, open: newRace, family: goFamily},
		{name: "go-pprof-text", title: "Go goroutine profile", starts: startsProfileText, open: newProfileText, family: goFamily},
		{name: "go", title: "Go goroutines", starts: startsGo, open: newGo, family: goFamily},
		{name: "java-traceback", title: "Java exception", starts: startsJavaException, open: newJavaException, refuse: "a Java exception, not a thread dump", family: javaFamily},
		{name: "java", title: "Java threads", starts: startsJava, open: newJava, family: javaFamily},
		{name: "node-fatal", title: "Node.js native stack", starts: startsNodeFatal, open: newNodeFatal, family: nativeFamily},
		{name: "node-stack", title: "Node.js stack", starts: startsNodeStack, open: newNodeStack, family: scriptFamily},
		{name: "node-traceback", title: "JavaScript error", starts: startsNodeError, open: newNodeError, refuse: "a JavaScript error, not a thread dump", family: scriptFamily},
		{name: "gdb", title: "gdb", starts: startsGDB, open: newGDB, family: nativeFamily},
		{name: "eu-stack", title: "eu-stack", starts: startsEUStack, open: newEUStack, family: nativeFamily},
		{name: "ruby-bug", title: "Ruby bug report", starts: startsRubyBug, open: newRubyBug, family: rubyFamily},
		{name: "ruby-traceback", title: "Ruby exception", starts: startsRubyException, open: newRubyException, refuse: "a Ruby exception, not a thread dump", family: rubyFamily},
		{name: "ruby-threads", title: "Ruby threads", starts: startsRubyThreads, open: newRubyThreads, family: rubyFamily},
		{name: "proc", title: "/proc snapshot", starts: startsProc, open: newProc, family: nativeFamily},
	}
}

// The formats that are one value rather than lines.
const (
	formatProfile    Format = "pprof-proto"
	formatNodeReport Format = "node-report"
	formatNodePause  Format = "node-cdp-json"
)

// familyOf gives what is known of the language of a format.
func familyOf(name Format) family {
	for _, f := range formats() {
		if f.name == name {
			return f.family
		}
	}
	switch name {
	case formatProfile:
		return goFamily
	case formatNodeReport, formatNodePause:
		return scriptFamily
	}
	return nativeFamily
}

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

// anchored reports whether a line looks like the beginning of any format. Most
// lines do not, so every anchor looks at a fixed beginning first.
func anchored(table []format, line string) bool {
	if len(line) < shortestAnchor {
		return false
	}
	for i := range table {
		if table[i].starts(line) {
			return true
		}
	}
	return false
}
