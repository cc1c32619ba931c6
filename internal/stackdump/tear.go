package stackdump

import (
	"slices"
	"strings"
)

// Runtimes write a dump in many small writes, often a piece of a line each, and
// what the process or its children log to the same place falls in between:
//
//	  File "/usr/lib/python3.11/threading.py"INFO request 6472 ok
//	, line 1002 in _bootstrap
//
// A torn line is mended by trying the beginnings of it in front of a following
// line against the grammar. What was cut out is a log line.

// Limits of mending: what is longer is no line of a dump.
const (
	tornLength = 2048 // bytes of a line
	tornAcross = 3    // whole log lines between the two parts
	logStarts  = 32   // ways of log lines to begin
)

// mend tries to make one line of a dump out of a torn one and those that follow.
// fits reports whether a line is of the grammar, and likely whether it names
// what was seen before. The lines that it used up are read, and the log lines
// that were cut out are stray.
func (r *reader) mend(line string, fits, likely func(string) bool) (string, bool) {
	if len(line) > tornLength || r.mending <= 0 {
		return "", false
	}
	for n := range tornAcross {
		next, ok := r.peek(n)
		if !ok || len(next) > tornLength || fits(next) {
			return "", false
		}
		if k := r.cutOf(line, next, fits, likely); k >= 0 {
			r.stray(line[k:])
			r.drop(n)
			r.next()
			return line[:k] + next, true
		}
		if mended, ok := r.mendTwice(line, next, n, fits); ok {
			return mended, true
		}
	}
	return "", false
}

// mendTwice mends a line that was torn in two places, where it is known how log
// lines begin.
func (r *reader) mendTwice(line, middle string, n int, fits func(string) bool) (string, bool) {
	end, ok := r.peek(n + 1)
	if !ok || len(end) > tornLength {
		return "", false
	}
	for _, i := range r.logCuts(line) {
		for _, k := range r.logCuts(middle) {
			r.mending -= i + k + len(end)
			if mended := line[:i] + middle[:k] + end; fits(mended) {
				r.stray(line[i:])
				r.drop(n)
				r.next()
				r.stray(middle[k:])
				r.next()
				return mended, true
			}
		}
	}
	return "", false
}

// drop reads n whole log lines that stand between the parts of a torn one.
func (r *reader) drop(n int) {
	for range n {
		r.stray(r.next())
	}
}

// cutOf finds where line was torn, if next goes on with it, or -1. The best
// place is where a log line is known to begin, then one that makes a likely
// line, then the last one.
func (r *reader) cutOf(line, next string, fits, likely func(string) bool) int {
	for _, k := range r.logCuts(line) {
		if fits(line[:k] + next) {
			return k
		}
	}
	found := -1
	for k := len(line) - 1; k > 0 && r.mending > 0; k-- {
		r.mending -= k + len(next)
		mended := line[:k] + next
		if !fits(mended) {
			continue
		}
		if likely(mended) {
			return k
		}
		if found < 0 {
			found = k
		}
	}
	return found
}

// logCuts gives the places in a line where log lines are known to begin.
func (r *reader) logCuts(line string) []int {
	var cuts []int
	for _, start := range r.logBeginnings() {
		for from := 0; ; {
			i := strings.Index(line[from:], start)
			if i < 0 {
				break
			}
			if from+i > 0 {
				cuts = append(cuts, from+i)
			}
			from += i + 1
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// logBeginnings looks once over the text for the ways in which lines begin that
// no format knows.
func (r *reader) logBeginnings() []string {
	if r.logs != nil {
		return r.logs
	}
	r.logs = []string{}
	for line := range strings.Lines(r.text[:min(len(r.text), 1<<20)]) {
		if line[0] <= ' ' || line[0] == '.' || line[0] == ',' || r.table.match(strings.TrimRight(line, "\r\n")) {
			continue
		}
		word, _, ok := strings.Cut(line[:min(len(line), 24)], " ")
		if !ok || len(word) < 3 || word == "Thread" || word == "Current" {
			continue
		}
		if word += " "; !slices.Contains(r.logs, word) {
			if r.logs = append(r.logs, word); len(r.logs) == logStarts {
				break
			}
		}
	}
	return r.logs
}

// cutLog cuts off a log line that fell between a name and the end of its line.
func (r *reader) cutLog(name string) string {
	if !strings.Contains(name, " ") {
		return name
	}
	if i := strings.IndexByte(name, '>'); name[0] == '<' && i > 0 && i < len(name)-1 {
		r.stray(name[i+1:])
		return name[:i+1]
	}
	cuts := r.logCuts(name)
	for _, start := range r.logBeginnings() {
		if strings.HasPrefix(name, start) {
			cuts = []int{0} // the name itself is still to come
		}
	}
	if len(cuts) == 0 {
		return name
	}
	r.stray(name[cuts[0]:])
	return name[:cuts[0]]
}
