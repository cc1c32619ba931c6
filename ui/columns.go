package ui

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// column is one column of the table behind the verdict.
type column struct {
	name  string // in the header and in the menu
	right bool
	width int
	// from is the width of the table from which it is shown by itself.
	from int
	help string
	draw func(*Model, *painter, *watchdog.Row, int)
	// field and value are its heading and its cells in a file.
	field string
	value func(*watchdog.Row) string
}

// The columns that are always there.
const (
	verdictWidth = 10
	shortName    = 20
	longName     = 28
	longNameFrom = 120 // table width from which ids get the long column
	leastWhy     = 8   // a WHY narrower than this says nothing
)

// allColumns is the one table of them, in the order on the screen. SESSION has
// width 0: it takes shortName or longName; WHY / TASK the rest.
func allColumns() []column {
	return []column{
		{name: "FOR", field: "since_secs", value: func(r *watchdog.Row) string { return secondsOf(r.For) }, right: true, width: 4, from: 40, help: "since when the verdict holds", draw: drawFor},
		{name: "SESSION", field: "session_id", value: func(r *watchdog.Row) string { return string(r.ID) }, from: 0, help: "the session's id", draw: nil},
		{name: "GEN", field: "generation", value: func(r *watchdog.Row) string { return figure(int64(r.Generation)) }, right: true, width: 4, from: 100, help: "generation: which execution of the session", draw: drawGen},
		{name: "UP", field: "uptime_secs", value: func(r *watchdog.Row) string { return secondsOf(r.Uptime) }, right: true, width: 4, from: 105, help: "since its execution started", draw: func(m *Model, p *painter, r *watchdog.Row, w int) {
			p.cellRight(Style{}, appendAge(m.scratch[:0], stepped(r, r.Uptime)), w)
		}},
		{name: "BEAT", field: "beat_age_secs", value: func(r *watchdog.Row) string { return secondsOf(r.BeatAge) }, right: true, width: 4, from: 60, help: "age of the last beat: it lives", draw: func(m *Model, p *painter, r *watchdog.Row, w int) {
			p.cellRight(Style{}, appendBeatAge(m.scratch[:0], r), w)
		}},
		{name: "WORK", field: "work_age_secs", value: func(r *watchdog.Row) string { return secondsOf(r.WorkAge) }, right: true, width: 4, from: 70, help: "age of the last work; ~ last visible change, > at least", draw: func(m *Model, p *painter, r *watchdog.Row, w int) {
			p.cellRight(Style{}, appendWorkAge(m.scratch[:0], r), w)
		}},
		{name: "CREDIT", field: "credits_remaining", value: func(r *watchdog.Row) string { return creditsOf(r.Credits) }, right: true, width: 6, from: 112, help: "credits remaining", draw: func(m *Model, p *painter, r *watchdog.Row, w int) {
			p.cellRight(Style{}, appendCredits(m.scratch[:0], r.Credits), w)
		}},
		{name: "HOST", field: "host", value: func(r *watchdog.Row) string { return r.Host }, width: 6, from: 120, help: "host", draw: func(_ *Model, p *painter, r *watchdog.Row, w int) {
			p.cell(Style{}, fitMiddle(r.Host, w), w)
		}},
		{name: "SRC", field: "sources", value: func(r *watchdog.Row) string { return sourceNames(r.Sources) }, width: 4, from: 132, help: "who sees it: N nats, R redis, H http, L local; - configured, not seeing", draw: drawSources},
	}
}

// columnSet is which columns the operator wants.
type columnSet struct {
	all  []column
	want map[string]bool // by name: shown or hidden whatever the width
}

func defaultColumns() columnSet {
	return columnSet{all: allColumns(), want: map[string]bool{}}
}

// Columns checks names of columns: those that are shown, whatever the width of
// the screen says, as far as there is room.
func Columns(names []string) error {
	var known []string
	for _, c := range allColumns() {
		if c.width > 0 {
			known = append(known, strings.ToLower(c.name))
		}
	}
	for _, name := range names {
		if !slices.Contains(known, strings.ToLower(name)) {
			return fmt.Errorf("%q is no column; choose among %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// choose shows the named columns and hides the others; none leaves it to the
// width.
func (c *columnSet) choose(names []string) {
	for _, col := range c.all {
		if col.width > 0 && len(names) > 0 {
			c.want[col.name] = slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, col.name) })
		}
	}
}

// layout is the columns of a table that is width cells wide.
type layout struct {
	width int
	cols  []placed
	name  int // width of SESSION
	why   int // width of WHY / TASK; 0 not shown
}

type placed struct {
	column
	w int
}

// fit chooses the columns for a width. VERDICT is never cut.
func (c *columnSet) fit(width int) layout {
	l := layout{width: width, name: shortName}
	if width >= longNameFrom {
		l.name = longName
	}
	used := 3 + verdictWidth // cursor, glyph, space
	for _, col := range c.all {
		if col.width == 0 {
			l.cols = append(l.cols, placed{col, l.name})
			used += 1 + l.name
			continue
		}
		show, set := c.want[col.name]
		if !set {
			show = width >= col.from
		}
		if show && (!set || used+1+col.width < width-leastWhy || width >= col.from) {
			l.cols = append(l.cols, placed{col, col.width})
			used += 1 + col.width
		}
	}
	l.why = width - used - 1
	if l.why < leastWhy {
		for i := range l.cols { // the id gets what WHY cannot use
			if l.cols[i].width == 0 {
				l.cols[i].w = max(l.cols[i].w+width-used, 1)
				l.name = l.cols[i].w
			}
		}
		l.why = 0
	}
	return l
}

// stepped is an age that moves in steps while its row is healthy.
func stepped(r *watchdog.Row, d time.Duration) time.Duration {
	if d >= 0 && healthy(r) {
		return coarse(d)
	}
	return d
}

func drawFor(m *Model, p *painter, r *watchdog.Row, w int) {
	if r.Verdict == watchdog.Running {
		p.pad(p.x + w)
		return
	}
	p.cellRight(Style{}, appendAge(m.scratch[:0], stepped(r, r.For)), w)
}

func drawGen(m *Model, p *painter, r *watchdog.Row, w int) {
	p.cellRight(Style{}, appendGeneration(m.scratch[:0], r.Generation, w), w)
}

// appendGeneration writes "#3"; "#?" while no number is known. One that is too
// long shows its end.
func appendGeneration(b []byte, g watchdog.Generation, w int) []byte {
	if g == 0 {
		return append(b, "#?"...)
	}
	var digits [12]byte
	d := strconv.AppendUint(digits[:0], uint64(g), 10)
	if len(d)+1 > w {
		b = append(b, '~')
		return append(b, d[len(d)-w+1:]...)
	}
	return append(append(b, '#'), d...)
}

func generation(g watchdog.Generation) string { return string(appendGeneration(nil, g, math.MaxInt32)) }

var sourceLetters = [...]byte{watchdog.SourceNATS: 'N', watchdog.SourceRedis: 'R', watchdog.SourceHTTP: 'H', watchdog.SourceLocal: 'L'}

func drawSources(m *Model, p *painter, r *watchdog.Row, w int) {
	b := m.scratch[:0]
	for i := range m.window.Links {
		s := m.window.Links[i].Source
		switch {
		case int(s) >= len(sourceLetters):
		case r.Seeing.Has(s):
			b = append(b, sourceLetters[s])
		default:
			b = append(b, '-')
		}
	}
	p.bytes(Style{}, b[:min(len(b), w)])
	p.pad(p.x + w - min(len(b), w))
}

// sourceNames is "nats redis".
func sourceNames(set watchdog.SourceSet) string {
	var names []string
	for _, s := range set.Sources() {
		names = append(names, s.String())
	}
	return strings.Join(names, " ")
}
