package ui

import (
	"strconv"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// drawTable draws the heading and rows of the table, in lines that are width
// cells wide; beside is called at the end of each line, for what stands right
// of the table.
func (m *Model) drawTable(p *painter, width, rows int, beside func(line int)) {
	l := m.layoutFor(width)
	p.edge = width
	m.drawHeading(p, l)
	beside(0)
	p.line()
	visible := m.table.visible(rows)
	names := m.table.names.of(visible, m.table.top, l.name)
	for i := range rows {
		p.edge = width
		switch {
		case i < len(visible):
			m.drawRow(p, l, &visible[i], names[i])
		case i == 0 || i == 1:
			m.drawNoRows(p, i)
		}
		beside(i + 1)
		p.line()
	}
}

// layoutFor keeps the layout of the last width.
func (m *Model) layoutFor(width int) layout {
	if m.layout.width != width || m.layout.cols == nil {
		m.layout = m.columns.fit(width)
	}
	return m.layout
}

func (m *Model) drawHeading(p *painter, l layout) {
	p.pad(3)
	p.cell(m.styles.Title, "VERDICT", verdictWidth)
	for i := range l.cols {
		c := &l.cols[i]
		p.pad(p.x + 1)
		name := c.name
		if c.right {
			p.pad(p.x + c.w - len(name))
			p.text(m.styles.Title, name)
		} else {
			p.cell(m.styles.Title, name, c.w)
		}
	}
	if l.why > 0 {
		p.pad(p.x + 1)
		p.text(m.styles.Title, "WHY / TASK")
	}
}

func (m *Model) drawRow(p *painter, l layout, r *watchdog.Row, name string) {
	glyph, means := m.glyphs.verdict(r.Verdict)
	cursor := r.ID == m.table.cursor
	if cursor {
		p.begin(m.styles.Cursor)
		p.text(Style{}, ">")
	} else {
		p.pad(1)
	}
	m.drawVerdict(p, glyph, m.markOf(r.ID), m.styles.of(means), r.Verdict)
	for i := range l.cols {
		c := &l.cols[i]
		p.pad(p.x + 1)
		if c.width == 0 {
			p.cell(Style{}, name, c.w)
			continue
		}
		c.draw(m, p, r, c.w)
	}
	if l.why > 0 {
		p.pad(p.x + 1)
		m.drawWhyCell(p, r)
	}
	p.end()
}

// drawVerdict writes glyph, mark and word in one style.
func (m *Model) drawVerdict(p *painter, glyph, mark string, st Style, v watchdog.Verdict) {
	if p.edge-p.x < 2 || p.full() {
		return
	}
	p.put(st, glyph)
	p.put(Style{}, mark)
	p.x += 2
	p.cell(Style{}, v.String(), verdictWidth)
	p.close(st)
}

// drawWhyCell writes the reason when a session is sick, its task when it is
// well.
func (m *Model) drawWhyCell(p *painter, r *watchdog.Row) {
	if r.Verdict != watchdog.Running && r.Why != "" {
		p.text(Style{}, r.Why)
		if r.Task != "" && (r.Verdict == watchdog.Waiting || saysStalled(r)) {
			p.text(Style{}, ": ")
			p.text(Style{}, r.Task)
		}
		return
	}
	tail := progressTail(m.scratch[:0], r, true)
	if cells(r.Task)+len(tail) > p.edge-p.x { // the task says more, and often the share as well
		tail = progressTail(m.scratch[:0], r, false)
	}
	if room := p.edge - p.x - len(tail); len(tail) > 0 && room >= leastWhy {
		p.text(Style{}, fitMiddle(r.Task, room)) // the numbers stand at the end
		p.bytes(Style{}, tail)
		return
	}
	p.text(Style{}, r.Task)
}

// saysStalled: its publisher accuses itself, and what it was at is the rest of
// the why.
func saysStalled(r *watchdog.Row) bool {
	return r.Verdict == watchdog.Stalled && r.State == watchdog.StateStalled.String()
}

// progressTail is "  56%  eta 1h30", or without the share where there is an end.
func progressTail(b []byte, r *watchdog.Row, share bool) []byte {
	pr := &r.Progress
	if !pr.Known || pr.Of <= 0 {
		return b
	}
	ends := pr.ETA >= 0 && pr.Done < pr.Of
	if share || !ends {
		b = append(b, "  "...)
		b = strconv.AppendInt(b, percent(pr.Done, pr.Of), 10)
		b = append(b, '%')
	}
	if ends {
		b = append(b, "  eta "...)
		b = appendAge(b, stepped(r, pr.ETA))
	}
	return b
}

// percent is rounded down, so that 100 % is said only when all is done.
func percent(done, of int64) int64 {
	if done >= of {
		return 100
	}
	return max(int64(float64(done)/float64(of)*100), 0)
}

// drawNoRows says why the table is empty and how to get rows again.
func (m *Model) drawNoRows(p *painter, line int) {
	if !m.have || len(m.table.rows) > 0 && line == 0 {
		if line == 0 && !m.have {
			p.text(m.styles.Dim, "   asking for the first window")
		}
		return
	}
	if len(m.table.rows) > 0 {
		return
	}
	var started []string
	for _, id := range m.about.Supervised {
		started = append(started, string(id))
	}
	what, how := m.query.whyEmpty(&m.window, started, m.keys)
	p.pad(3)
	if line == 0 {
		p.text(Style{}, what)
	} else {
		p.text(m.styles.Dim, how)
	}
}

// drawSessions fills the body with the table, and what explains its cursor.
func (m *Model) drawSessions(p *painter) {
	if m.firstRunShown() {
		m.drawFirstRun(p)
		return
	}
	side := m.sideWidth()
	if side == 0 {
		m.drawTable(p, m.width, m.tableRows(), func(int) {})
		m.drawStrip(p)
		return
	}
	pane := m.sidePane(side, m.tableRows()+1)
	m.drawTable(p, m.width-side-1, m.tableRows(), func(line int) {
		p.edge = m.width
		p.pad(m.width - side - 1)
		p.glyph(m.styles.Dim, m.glyphs.Side)
		if line < len(pane) {
			p.raw(pane[line])
		}
	})
}
