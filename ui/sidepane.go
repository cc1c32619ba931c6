package ui

import (
	"bytes"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The side pane stands beside a table of tableBeside cells.
const (
	tableBeside = 132
	sideFrom    = 180
	widestSide  = 90
)

// sidePane draws the strip and the fleet's latest events, as lines that are
// at most width cells wide.
func (m *Model) sidePane(width, lines int) [][]byte {
	p := &m.pane
	p.reset(width, lines)
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
	latest := m.window.Events
	if m.window.AskSeq < m.events.seq {
		latest = nil // they are still those of the events view
	}
	for i := range latest {
		m.drawTransition(p, &latest[i])
	}
	if len(m.window.Events) == 0 {
		p.text(m.styles.Dim, " nothing happened since we watch")
		p.line()
	}
	return bytes.Split(p.buf, []byte("\n"))
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
	text := eventText(t)
	if text == "" && t.Kind == "" {
		text = "was " + t.From.String()
	}
	p.text(m.styles.Dim, text)
	p.line()
}
