package stackdump

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// triedValues is how many lines that begin with a brace are read as JSON: a log
// may have one on every line.
const triedValues = 8

// longestValue bounds a value that is read, in bytes: decoded it takes ten times
// that at worst.
const longestValue = 4 << 20

// nodeReport is what is read of a diagnostic report of Node.js. Its environment
// variables, command line and limits are not: they hold secrets.
type nodeReport struct {
	Header struct {
		Version  int    `json:"reportVersion"`
		Event    string `json:"event"`
		Trigger  string `json:"trigger"`
		Time     string `json:"dumpEventTime"`
		ThreadID *int   `json:"threadId"`
	} `json:"header"`
	Script struct {
		Message string   `json:"message"`
		Stack   []string `json:"stack"`
	} `json:"javascriptStack"`
	Native []struct {
		PC     string `json:"pc"`
		Symbol string `json:"symbol"`
	} `json:"nativeStack"`
	Usage *struct {
		User   float64 `json:"userCpuSeconds"`
		Kernel float64 `json:"kernelCpuSeconds"`
	} `json:"uvthreadResourceUsage"`
	Workers []nodeReport `json:"workers"`
}

// nodePause is what a client of the inspector writes of a paused script: frames
// in its own words, or the event of the protocol as it came.
type nodePause struct {
	Frames     []nodeCall `json:"frames"`
	CallFrames []nodeCall `json:"callFrames"`
	Params     *struct {
		CallFrames []nodeCall `json:"callFrames"`
	} `json:"params"`
}

type nodeCall struct {
	Function *string `json:"functionName"`
	URL      string  `json:"url"`
	Line     *int    `json:"line"`
	Location *struct {
		Line int `json:"lineNumber"` // from 0
	} `json:"location"`
}

// value reads a JSON value that begins at start, if it is a dump, and goes
// behind it.
func (r *reader) value(start int) bool {
	report, pause := r.near(0, `"reportVersion"`, start), r.near(1, `"functionName"`, start)
	if !report && !pause || r.values == triedValues {
		return false
	}
	text := r.text[start:]
	r.values++
	end, whole := valueEnd(text)
	if end > longestValue {
		return false
	}
	var d Dump
	ok := false
	if report {
		d, ok = r.report([]byte(text[:end]), whole)
	} else if whole {
		d, ok = r.pause([]byte(text[:end]))
	}
	if !ok {
		return false
	}
	r.close(false)
	d.Line = r.line
	r.line += strings.Count(r.text[r.at:max(r.at, start+end)], "\n")
	if start+end > r.at {
		r.at, r.ended = start+end, whole
	}
	r.keep(&d)
	return true
}

// near reports whether a mark stands within reach after start. Values are asked
// for in their order, so the text is searched once.
func (r *reader) near(which int, mark string, start int) bool {
	const reach = 64 << 10
	at := &r.marks[which]
	if *at < start {
		i := strings.Index(r.text[start:], mark)
		if i < 0 {
			i = len(r.text)
		}
		*at = start + i
	}
	return *at-start <= reach && *at < len(r.text)
}

// valueEnd finds where the object that text begins with ends.
func valueEnd(text string) (end int, whole bool) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(text), false
}

// report reads a diagnostic report. Of one that breaks off the headers of its
// parts may still be read.
func (r *reader) report(text []byte, whole bool) (Dump, bool) {
	var report nodeReport
	d := Dump{Format: formatNodeReport, family: scriptFamily}
	if !whole {
		d.Cut = CutBytes
		text = mendReport(text)
	}
	if err := json.Unmarshal(text, &report); err != nil || report.Header.Version == 0 {
		return d, false
	}
	d.Lead = clean(strings.TrimSpace(report.Header.Event + " (" + report.Header.Trigger + ")"))
	if at, err := time.Parse(time.RFC3339, report.Header.Time); err == nil {
		d.Time = at
	}
	idle := report.Header.Trigger == "Signal"
	r.reported(&d, &report, "main", idle)
	for i := range report.Workers {
		r.reported(&d, &report.Workers[i], "worker", idle)
	}
	return d, true
}

// reported adds the thread of one report. On a signal it writes itself between
// two turns of the loop: what it shows then is its own writing.
func (r *reader) reported(d *Dump, report *nodeReport, name string, signalled bool) {
	t := r.thread(d)
	t.Name = name
	if id := report.Header.ThreadID; id != nil {
		t.ID = strconv.Itoa(*id)
	}
	if u := report.Usage; u != nil && u.User >= 0 && u.Kernel >= 0 && u.User+u.Kernel < 1e9 {
		t.CPU = time.Duration((u.User + u.Kernel) * float64(time.Second))
	}
	for _, line := range report.Script.Stack {
		line = strings.TrimPrefix(strings.TrimSpace(line), "at ")
		if f, ok := scriptFrame(line); ok && line != "Unavailable." {
			r.frame(t, f)
		}
	}
	script := len(t.Frames) > 0
	t.WroteDump = script && report.Header.Trigger == "GetReport" || script && report.Header.Trigger == "API"
	t.Current = t.WroteDump
	for _, n := range report.Native {
		symbol := n.Symbol
		if i := strings.LastIndex(symbol, " ["); i >= 0 {
			symbol = symbol[:i]
		}
		if symbol = clean(withoutArguments(strings.TrimSpace(symbol))); symbol == "" {
			symbol = clean(n.PC)
		}
		r.frame(t, Frame{Function: symbol, Code: Standard, Native: true})
	}
	if signalled && !script {
		t.State = "idle"
	}
}

// withoutEnvironment empties the variables of the environment in a report: they
// hold secrets.
func withoutEnvironment(text string) string {
	const name = `"environmentVariables"`
	if !strings.Contains(text, name) {
		return text
	}
	var b strings.Builder
	for {
		i := strings.Index(text, name)
		if i < 0 {
			break
		}
		i += len(name)
		b.WriteString(text[:i])
		text = text[i:]
		open := strings.IndexByte(text, '{')
		if open < 0 || strings.Trim(text[:open], ": \t\r\n") != "" {
			continue
		}
		end, _ := valueEnd(text[open:])
		b.WriteString(": {}")
		text = text[open+end:]
	}
	b.WriteString(text)
	return b.String()
}

// mendReport closes what a report that breaks off has open.
func mendReport(text []byte) []byte {
	var open []byte
	quoted := false
	safe, closing := 0, []byte(nil)
	for i := 0; i < len(text) && len(open) < 64; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open = append(open, c+2) // its closing bracket
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
			safe, closing = i+1, append(closing[:0], open...)
		}
	}
	if safe == 0 {
		return nil
	}
	out := append([]byte(nil), text[:safe]...)
	for i := len(closing) - 1; i >= 0; i-- {
		out = append(out, closing[i])
	}
	return out
}

// pause reads the frames of a script that the inspector paused.
func (r *reader) pause(text []byte) (Dump, bool) {
	var pause nodePause
	d := Dump{Format: formatNodePause, family: scriptFamily, Interrupt: true}
	if err := json.Unmarshal(text, &pause); err != nil {
		return d, false
	}
	calls := pause.Frames
	if calls == nil {
		calls = pause.CallFrames
	}
	if calls == nil && pause.Params != nil {
		calls = pause.Params.CallFrames
	}
	if len(calls) == 0 {
		return d, false
	}
	t := r.thread(&d)
	t.Name, t.Running = "main", true
	for _, in := range calls {
		if in.Function == nil {
			continue
		}
		f := Frame{Function: clean(*in.Function), File: clean(strings.TrimPrefix(in.URL, "file://"))}
		switch {
		case in.Line != nil && *in.Line > 0:
			f.Line = min(*in.Line, 1<<30)
		case in.Location != nil && in.Location.Line >= 0:
			f.Line = min(in.Location.Line, 1<<30) + 1
		}
		if f.Function == "" {
			f.Function = "<anonymous>"
		}
		f.Code = scriptCode(f.File)
		r.frame(t, f)
	}
	return d, true
}
