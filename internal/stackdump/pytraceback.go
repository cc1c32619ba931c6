package stackdump

import "strings"

// A Python traceback tells of one exception. It looks much like a dump and is
// none:
//
//	Traceback (most recent call last):
//	  File "/srv/app/exc.py", line 5, in step
//	    parse(n)
//	KeyError: 'tool_name'
//
// That of a group of exceptions is drawn with `|` and `+-+---` in front.
type traceback struct {
	body bool // the exception itself is still to come
}

const tracebackHead = "Traceback (most recent call last):"

func startsTraceback(line string) bool {
	return strings.HasSuffix(line, tracebackHead)
}

func newTraceback(*reader) parser {
	return &traceback{}
}

func (p *traceback) take(line string) bool {
	switch {
	case strings.HasSuffix(line, tracebackHead):
		p.body = true
		return true
	case line == "":
		return true
	case line[0] == ' ', line[0] == '|', line[0] == '+':
		return p.body
	case strings.HasPrefix(line, "The above exception was "), strings.HasPrefix(line, "During handling of the above "):
		return true
	case p.body && !strings.HasPrefix(line, "Thread 0x") && !strings.HasPrefix(line, "Current thread 0x"):
		p.body = false
		return true
	}
	return false
}

func (p *traceback) end(bool) {}

// raised reports whether a line is the last one of a traceback.
func raised(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	if name == "" || strings.ContainsAny(name, " \t(") {
		return false
	}
	for _, end := range []string{"Error", "Exception", "Exit", "Interrupt", "Warning", "Iteration"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
