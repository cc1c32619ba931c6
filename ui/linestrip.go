package ui

// linesOverStrip is a view of lines with a strip below, which tells all that is
// known of the line under the cursor.
type linesOverStrip struct {
	line  func(i int)
	strip func() stripText // of the line under the cursor; without a title there is nothing to tell
}

// stripText is what a strip says.
type stripText struct {
	title  string // already as wide as it may be
	right  string // at the end of the title's line; empty: nothing
	facts  []fact
	labels int // cells of the widest label
}

// linesStripHeight is how many lines tell of the line under the cursor.
func linesStripHeight(p *painter) int {
	switch room := p.height - p.lines; {
	case room >= 24:
		return 8
	case room >= 12:
		return 6
	case room >= 7:
		return 3
	}
	return 0
}

// drawLinesOverStrip draws the lines, and the strip at the bottom.
func (m *Model) drawLinesOverStrip(p *painter, v linesOverStrip) {
	strip := linesStripHeight(p)
	bottom := p.height
	p.height -= strip
	m.drawLines(p, func(i int, _ bool) { v.line(i) })
	for !p.full() {
		p.line()
	}
	if p.height = bottom; strip == 0 {
		return
	}
	p.buf = append(p.buf, '\n') // the line that was the last one is not any more
	if t := v.strip(); t.title != "" {
		m.drawLinesStrip(p, t, strip)
	}
}

func (m *Model) drawLinesStrip(p *painter, t stripText, lines int) {
	st := &m.styles
	p.rule(st.Dim, m.glyphs.Rule, 2)
	p.pad(p.x + 1)
	p.text(st.Title, t.title)
	p.pad(p.x + 1)
	if t.right != "" {
		p.rule(st.Dim, m.glyphs.Rule, p.edge-len(t.right)-2)
		p.text(st.Dim, t.right)
	}
	p.rule(st.Dim, m.glyphs.Rule, p.width)
	p.line()
	for i, n := range shareLines(t.facts, p.width-t.labels-3, lines-1) {
		if n > 0 {
			m.drawFact(p, &t.facts[i], t.labels, n)
		}
	}
}
