package stackdump

import (
	"compress/gzip"
	"io"
	"strings"

	"github.com/google/pprof/profile"
)

// A goroutine profile counts stacks. As text (debug=1):
//
//	goroutine profile: total 205
//	150 @ 0x489fee 0x466e45 0x674acd 0x491881
//	# labels: {"role":"event-loop"}
//	#	0x674acc	main.(*Dispatcher).waitJob+0x6c	/srv/app/goagent/main.go:29
//
// Frames of the runtime are left out by its writer, and so are states.
type profileText struct {
	r    *reader
	dump *Dump
	cur  *Thread
}

func startsProfileText(line string) bool {
	name, rest, ok := strings.Cut(line, " profile: total ")
	_, after, isNumber := number(rest)
	return ok && isNumber && after == "" && strings.HasPrefix(name, "goroutine") && !strings.Contains(name, " ")
}

func newProfileText(r *reader) parser { return &profileText{r: r} }

func (p *profileText) take(line string) bool {
	if line == "" {
		return p.dump != nil
	}
	switch {
	case startsProfileText(line):
		p.flush()
		p.dump = p.r.begin(line)
		return true
	case p.dump == nil:
		return false
	case strings.HasPrefix(line, "# labels: ") && p.cur != nil:
		p.cur.Labels = clean(line[len("# labels: "):])
		p.cur.Role = loopRole(p.cur.Labels)
		return true
	case strings.HasPrefix(line, "#\t") && p.cur != nil:
		return p.frame(line)
	}
	n, rest, ok := number(line)
	if !ok || !strings.HasPrefix(rest, " @") {
		return false
	}
	p.cur = p.r.thread(p.dump)
	p.cur.Count = n
	return true
}

// frame reads `#	0x674acc	main.f+0x6c	/srv/app/main.go:29`, in which more
// tabs align the columns.
func (p *profileText) frame(line string) bool {
	_, rest, ok := strings.Cut(line[2:], "\t")
	function, place, _ := strings.Cut(rest, "\t")
	file, n, placed := goPlace(strings.TrimLeft(place, "\t"))
	if !ok || !placed {
		return false
	}
	if i := strings.LastIndex(function, "+0x"); i > 0 {
		function = function[:i]
	}
	f := Frame{Function: clean(function), File: clean(file), Line: n}
	f.Code = goCode(f.Function, f.File)
	p.r.frame(p.cur, f)
	return true
}

func (p *profileText) flush() {
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
}

func (p *profileText) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}

// gzipped reports whether gzip made a text.
func gzipped(text string) bool { return strings.HasPrefix(text, "\x1f\x8b") }

// inflate decompresses a text that gzip made, and reports whether it broke off
// or was too long.
func inflate(text string) (string, bool) {
	if !gzipped(text) {
		return text, false
	}
	z, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return text, true
	}
	var b strings.Builder
	_, err = io.Copy(&b, io.LimitReader(z, MaxBytes+1))
	return b.String(), err != nil
}

// readProfile reads a profile in its binary form (debug=0), if it is one.
func readProfile(text string) (Dump, bool) {
	if text == "" || !binary(text) || !affordable(text) {
		return Dump{}, false
	}
	p, err := profile.ParseUncompressed([]byte(text))
	if err != nil || p.CheckValid() != nil || len(p.SampleType) == 0 || !strings.HasPrefix(p.SampleType[0].Type, "goroutine") {
		return Dump{}, false
	}
	r := newReader(&File{Raw: text})
	d := Dump{Format: formatProfile, Line: 1, family: goFamily}
	for _, s := range p.Sample {
		if len(s.Value) == 0 || s.Value[0] <= 0 || s.Value[0] > 1<<30 {
			continue
		}
		t := r.thread(&d)
		t.Count = int(s.Value[0])
		t.Labels = clean(labelsOf(s.Label))
		t.Role = loopRole(t.Labels)
		for _, at := range s.Location {
			for _, l := range at.Line {
				if l.Function == nil {
					continue
				}
				f := Frame{Function: clean(l.Function.Name), File: clean(l.Function.Filename), Line: int(max(0, min(l.Line, 1<<30)))}
				f.Code = goCode(f.Function, f.File)
				r.frame(t, f)
			}
		}
	}
	if len(d.Threads) > 0 && r.full {
		d.Cut = CutThreads
	}
	return d, len(d.Threads) > 0
}

// binary reports whether a text holds bytes that no dump in words has.
func binary(text string) bool {
	return strings.IndexByte(text[:min(len(text), 4096)], 0) >= 0 || text[0] < ' ' && text[0] != '\t' && text[0] != '\r' && text[0] != '\x1b'
}

// affordable walks over the outermost fields of a protocol buffer and reports
// whether it is one whose decoded form stays within bounds: its library takes
// hundreds of bytes for each message of two.
func affordable(text string) bool {
	const (
		message = 250 // bytes of memory for a message
		inner   = 16  // and for each byte of it
	)
	cost := 0
	for rest := text; rest != ""; {
		tag, n := protowire(rest)
		if n == 0 || tag == 0 {
			return false
		}
		rest = rest[n:]
		value, n := protowire(rest)
		if n == 0 {
			return false
		}
		rest = rest[n:]
		switch tag & 7 {
		case 0:
		case 2:
			if value > uint64(len(rest)) {
				return false
			}
			cost += message + inner*int(value)
			rest = rest[value:]
		default:
			return false
		}
	}
	return cost <= 16<<20+2*len(text)
}

// protowire reads a varint and gives its length in bytes, or 0.
func protowire(s string) (v uint64, n int) {
	for i := range min(len(s), 10) {
		v |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// labelsOf spells labels as the text form does.
func labelsOf(labels map[string][]string) string {
	var pairs []string
	for name, values := range labels {
		for _, value := range values {
			pairs = append(pairs, `"`+name+`":"`+value+`"`)
		}
	}
	if pairs == nil {
		return ""
	}
	return "{" + strings.Join(sorted(pairs), ", ") + "}"
}
