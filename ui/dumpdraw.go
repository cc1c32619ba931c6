package ui

import (
	"time"

	"github.com/sessionwatch/sessionwatch/internal/stackdump"
)

// Where the lines of a dump begin.
const (
	noteIndent  = 9
	frameIndent = 5
	innerIndent = 7
)

func dumpIndent(l *dumpLine) int {
	switch {
	case l.kind == rawLine || l.kind == verdictLine:
		return 1
	case l.kind == noteLine:
		return noteIndent
	case l.inner >= 0:
		return innerIndent
	}
	return frameIndent
}

// drawDump shows one dump: the verdict, the loop's thread, then all stacks.
func (m *Model) drawDump(p *painter) {
	d := &m.dump
	var rest []segment
	if at := d.entry.At; !at.IsZero() {
		text := stamp(at.UnixNano(), m.window.Now.Wall)
		if m.onlyDumps() { // it may be of any day
			text = at.UTC().Format(time.DateTime + "Z")
		}
		rest = append(rest, segment{m.styles.Dim, text, 3, 30})
	}
	if d.view != nil {
		rest = append([]segment{{Style{}, d.view.Title, 3, 45}}, rest...)
	}
	if d.order != bySuspicion && !d.showRaw {
		rest = append(rest, segment{m.styles.Wait, d.order.String(), 3, 54})
	}
	if d.compared != "" {
		text := "compared"
		if m.onlyDumps() {
			text += " with " + fileName(d.compared, max(m.width/4, shortName))
		}
		rest = append(rest, segment{m.styles.Wait, text, 3, 55})
	}
	name := sessionName(d.entry.ID, d.entry.Generation, longName+5)
	if d.entry.ID == "" { // a file
		name = fileName(d.entry.Name, max(m.width/3, shortName))
	}
	m.drawLinesTitle(p, "DUMP", name, rest...)
	switch {
	case d.trouble != "":
		p.pad(1)
		p.wrapped(m.styles.Suspect, "cannot be read: "+d.trouble, 1, 4)
		p.line()
		return
	case d.view == nil:
		p.text(m.styles.Dim, " reading "+size(d.entry.Bytes))
		p.line()
		return
	}
	m.drawLines(p, func(i int, _ bool) { m.drawDumpLine(p, &d.flat[i]) })
}

func (m *Model) drawDumpLine(p *painter, l *dumpLine) {
	d := &m.dump
	switch l.kind {
	case verdictLine:
		p.wrapped(m.styles.of(dumpMeans(string(d.view.Verdict))), l.text, 1, mostWrapped)
	case noteLine:
		p.pad(noteIndent)
		p.wrapped(Style{}, l.text, noteIndent, mostWrapped)
	case headingLine:
		p.text(m.styles.Title, l.text)
	case sectionLine:
		m.drawSectionLine(p, &d.view.Sections[l.section], d.open[l.section])
	case rowLine:
		r := &d.view.Sections[l.section].Rows[l.row]
		if l.inner >= 0 {
			r = &r.Folded[l.inner]
		}
		m.drawFrame(p, r, l)
	case rawLine:
		if m.pager().wrap {
			p.wrapped(Style{}, l.text, 1, mostWrapped)
			return
		}
		m.marked(p, Style{}, l.text, m.pager().search)
	}
}

// drawSectionLine is "+ 40 x [sync.Mutex.Lock]   main.go:53 loop   same 4/4".
func (m *Model) drawSectionLine(p *painter, s *stackdump.Section, open bool) {
	st := Style{}
	switch {
	case s.Kind == stackdump.LoopSection && m.dump.view.Verdict == stackdump.Wedged, s.Kind == stackdump.DeadlockSection:
		st = m.styles.Act
	case open:
		st = m.styles.Title
	}
	fold := "+ "
	if open {
		fold = "- "
	}
	if p.edge-len(s.Status) > 30 {
		p.edge -= len(s.Status) + 1
	}
	p.text(m.styles.Dim, fold)
	m.marked(p, st, s.Title, m.pager().search)
	if !open && s.Summary != "" {
		p.pad(p.x + 3)
		m.marked(p, Style{}, s.Summary, m.pager().search)
	}
	p.edge = p.width
	p.pad(p.width - len(s.Status))
	p.text(m.styles.Dim, s.Status)
}

// drawFrame is "> gateway.py:10  rebuild_index      culprit".
func (m *Model) drawFrame(p *painter, r *stackdump.Row, l *dumpLine) {
	indent := dumpIndent(l)
	st := Style{}
	switch {
	case r.Mark != "":
		p.pad(indent - 2)
		p.text(m.styles.Act, "> ")
		st = m.styles.Act
	case r.Kind != stackdump.FrameRow || l.inner >= 0:
		st = m.styles.Dim
	}
	p.pad(indent)
	if m.pager().wrap && cells(l.text) > p.edge-p.x {
		p.wrapped(st, l.text, indent, mostWrapped)
		return
	}
	m.marked(p, st, l.text, m.pager().search)
	if r.Mark != "" && p.width-p.x > len(r.Mark)+2 {
		p.pad(max(min(p.width-len(r.Mark), 66), p.x+3))
		p.text(m.styles.Act, r.Mark)
	}
}
