package ui

import "bytes"

// scroller is the place in a text that is longer than the screen.
type scroller struct {
	off   int
	total int // lines of the text when it was last drawn
}

// textLimit is how many lines of a generated text are kept.
const textLimit = 2000

// move steps by n lines.
func (s *scroller) move(n, page int) {
	s.off = min(max(s.off+n, 0), max(s.total-page, 0))
}

// drawText draws a text of any length into the rest of the frame, scrolled.
func (m *Model) drawText(p *painter, rows int, draw func(*painter)) {
	m.long.reset(p.width, textLimit)
	draw(&m.long)
	lines := bytes.Split(m.long.buf, []byte("\n"))
	lines = lines[:min(len(lines), m.long.lines)]
	m.text.total = len(lines)
	m.text.move(0, rows)
	for i := range rows {
		if below := len(lines) - m.text.off - rows + 1; i == rows-1 && below > 1 && rows > 3 {
			p.text(m.styles.Dim, " "+count(below)+" more lines: "+m.keys.firstKey("down"))
			p.line()
			continue
		}
		if at := m.text.off + i; at < len(lines) {
			p.raw(lines[at])
		}
		p.line()
	}
}

// raw appends what another painter of the same width, or less, has drawn.
func (p *painter) raw(line []byte) {
	if !p.full() {
		p.buf = append(p.buf, line...)
		p.x = p.edge
	}
}
