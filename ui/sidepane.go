package ui

import (
	"bytes"
	"slices"
	"strconv"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The side pane stands beside a table of tableBeside cells.
const (
	tableBeside = 132
	sideFrom    = 180
	widestSide  = 90
)

// sidePane draws the strip and the fleet's latest events, as lines that are
// at most width cells wide: all that there is room for, from where it was
// scrolled to.
func (m *Model) sidePane(width, lines int) [][]byte {
	all := m.wholePane(width)
	if m.sideOf != m.table.cursor {
		m.sideOf, m.side.off = m.table.cursor, 0
	}
	m.side.total = len(all)
	room := lines
	if m.paneFocused() {
		room = m.sideRows()
	}
	m.side.move(0, room)
	all = all[min(m.side.off, len(all)):]
	all = all[:min(room, len(all))]
	if !m.paneFocused() {
		return all
	}
	p := &m.foot
	p.reset(width, 1)
	p.text(m.styles.Title, " >")
	p.text(m.styles.Dim, " lines "+count(m.side.off+1)+" to "+count(m.side.off+len(all))+" of "+count(m.side.total)+"; "+m.keys.firstKey("down")+" and "+
		m.keys.firstKey("up")+" scroll, "+m.keys.firstKey("focus")+" goes back")
	for len(all) < room {
		all = append(all, nil)
	}
	return append(all, p.buf)
}

// paneFocused reports whether the moves scroll the side pane.
func (m *Model) paneFocused() bool {
	return m.paneFocus && m.top() == viewSessions && m.sideWidth() > 0
}

// sideRows is how many lines of a focused pane are seen: its last one says where.
func (m *Model) sideRows() int { return max(m.tableRows(), 1) }

// moveSide scrolls the side pane.
func (m *Model) moveSide(n int) tea.Cmd {
	m.sidePane(m.sideWidth(), m.tableRows()+1) // how long is it now?
	m.side.move(n, m.sideRows())
	return nil
}

func needsPane(m *Model) string {
	if m.sideWidth() == 0 {
		return "there is no second pane: a screen of " + strconv.Itoa(sideFrom) + " columns has one, unless " + m.keys.firstKey("pane") + " hid it"
	}
	return ""
}

// toggleFocus goes to the side pane, and back to the table.
func (m *Model) toggleFocus() tea.Cmd {
	m.paneFocus = !m.paneFocus
	return nil
}

func (m *Model) wholePane(width int) [][]byte {
	p := &m.pane
	p.reset(width, textLimit)
	d, full := m.detail()
	m.drawStripTitle(p, d)
	if d != nil {
		for _, f := range m.sideFacts(d, full) {
			m.drawFact(p, &f, 6, 3)
		}
	}
	p.rule(m.styles.Dim, m.glyphs.Rule, 2)
	p.text(m.styles.Title, " latest ")
	p.rule(m.styles.Dim, m.glyphs.Rule, width)
	p.line()
	latest := newestFirst(m.window.Events)
	latest = slices.DeleteFunc(latest, func(t watchdog.Transition) bool { return t.Kind == watchdog.EventNumbered }) // no news to who looks at verdicts
	nothing := len(latest) == 0
	if m.window.AskSeq < m.events.seq {
		latest = nil // they are still those of the events view
	}
	for i := range latest {
		m.drawTransition(p, &latest[i])
	}
	if nothing {
		p.text(m.styles.Dim, " nothing happened since we watch")
		p.line()
	}
	out := bytes.Split(p.buf, []byte("\n"))
	return out[:min(len(out), p.lines)]
}

func (m *Model) sideFacts(d *watchdog.Detail, full bool) []fact {
	out := []fact{m.whyFact(d, full)}
	if f, ok := m.actFact(d.ID); ok {
		out = append(out, f)
	}
	if r := d.Evidence.Rule; full && r != "" {
		out = append(out, fact{label: "rule", text: r})
	}
	if full {
		out = append(out, m.endFacts(d)...)
		if f, ok := m.childFact(d); ok {
			out = append(out, f)
		}
	}
	out = append(out, m.beatsFact(d, full), m.workFact(d, full), m.taskFact(d), m.creditFact(d))
	where := orDash(d.Agent) + " on " + orDash(d.Host)
	out = append(out, fact{label: "where", text: where})
	out = append(out, m.canFact(d, full), m.nextFact(d))
	restart := m.restartFact(d)
	restart.label = "again"
	restart.text = "if restarted, " + restart.text
	return append(out, restart)
}

// drawTransition is "03:12:13Z stalled    indexer #2  no work 5m".
func (m *Model) drawTransition(p *painter, t *watchdog.Transition) {
	glyph, means, word := m.eventLook(t)
	st := m.styles.of(means)
	p.pad(1)
	p.text(m.styles.Dim, clock(t.At.Wall))
	p.pad(p.x + 1)
	p.glyph(st, glyph)
	p.pad(p.x + 1)
	p.cell(st, word, verdictWidth)
	p.pad(p.x + 1)
	if t.ID != "" {
		p.text(Style{}, fitMiddle(string(t.ID), longName)+" "+generation(t.Generation))
		p.pad(p.x + 1)
	}
	text := m.eventText(t)
	if text == "" && t.Kind == "" {
		text = "was " + t.From.String()
	}
	p.text(m.styles.Dim, text)
	p.line()
}
