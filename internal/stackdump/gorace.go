package stackdump

import (
	"slices"
	"strings"
)

// The race detector writes, newest call first:
//
//	WARNING: DATA RACE
//	Read at 0x0000005ce310 by goroutine 8:
//	  main.inc()
//	      /srv/app/gorace/main.go:7 +0x24
//
// Each paragraph becomes a thread. The panic that may follow joins the report.
type race struct {
	r    *reader
	dump *Dump
	cur  *Thread
	call string
}

func startsRace(line string) bool { return line == "WARNING: DATA RACE" }

func newRace(r *reader) parser {
	if rule := r.takeBack(1); rule != "" && strings.Trim(rule, "=") != "" {
		r.stray(rule) // it was not the rule above the report
	}
	return &race{r: r}
}

func (p *race) take(line string) bool {
	switch {
	case startsRace(line):
		p.flush()
		p.dump = p.r.begin(line)
		return true
	case p.dump == nil:
		return false
	case line == "":
		p.cur = nil
		return true
	case strings.HasPrefix(line, "======"):
		p.flush()
		return true
	case strings.HasPrefix(line, "      "):
		return p.place(line[6:])
	case strings.HasPrefix(line, "  ") && p.cur != nil:
		p.call = line[2:]
		return true
	case strings.HasSuffix(line, ":") && (strings.Contains(line, "oroutine ") || strings.Contains(line, " by ")):
		p.cur = p.r.thread(p.dump)
		p.cur.Name = clean(strings.TrimSuffix(line, ":"))
		return true
	}
	return false
}

func (p *race) place(line string) bool {
	file, n, ok := goPlace(line)
	if !ok || p.call == "" || p.cur == nil {
		return false
	}
	name, _ := goCall(p.call)
	p.call = ""
	f := Frame{Function: clean(name), File: clean(file), Line: n}
	f.Code = goCode(f.Function, f.File)
	p.r.frame(p.cur, f)
	return true
}

func (p *race) flush() {
	p.r.keep(p.dump)
	p.dump, p.cur = nil, nil
}

func (p *race) end(broken bool) {
	if broken && p.dump != nil {
		p.dump.Cut = CutBytes
	}
	p.flush()
}

// joinRace makes one of a race report and the panic that ended the program
// after it: they are one look at one failure.
func joinRace(dumps []Dump) []Dump {
	for i := 1; i < len(dumps); i++ {
		before, d := &dumps[i-1], &dumps[i]
		if before.Format != "go-race" || d.Format != "go" || len(d.Threads) != 1 || strings.HasPrefix(d.Lead, "SIG") {
			continue
		}
		before.Threads = append(slices.Clip(before.Threads), d.Threads...)
		before.Cut = max(before.Cut, d.Cut)
		dumps = slices.Delete(dumps, i, i+1)
		i--
	}
	return dumps
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
