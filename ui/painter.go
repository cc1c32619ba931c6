package ui

import "github.com/sessionwatch/sessionwatch/internal/termtext"

// painter appends one frame. Everything that reaches the terminal goes through
// it, so two promises are kept in one place: no line is wider, and no frame
// higher, than the screen; and no control character comes from text.
type painter struct {
	buf    []byte
	width  int
	height int
	lines  int   // finished lines
	x      int   // cells written in the present line
	edge   int   // x never passes it; width, or less while a part of a line is drawn
	row    Style // while set, one style for everything: the row under the cursor
	inRow  bool
}

// reset makes ready for a new frame and keeps the memory.
func (p *painter) reset(width, height int) {
	*p = painter{buf: p.buf[:0], width: width, height: height, edge: width}
}

// full reports whether nothing more can be seen.
func (p *painter) full() bool { return p.lines >= p.height || p.width <= 0 }

// line ends the present line.
func (p *painter) line() {
	if p.full() {
		return
	}
	p.lines++
	p.x, p.edge = 0, p.width
	if p.lines < p.height {
		p.buf = append(p.buf, '\n')
	}
}

// plain reports whether s is printable ASCII: as many cells as bytes, and
// nothing in it to clean.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

// cells is the width of s on the screen.
func cells(s string) int {
	if plain(s) {
		return len(s)
	}
	return termtext.Width(termtext.Clean(s))
}

// fit cuts s to n cells; what was cut is marked with "~".
func fit(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if plain(s) {
		if len(s) <= n {
			return s
		}
		return s[:n-1] + "~"
	}
	s = termtext.Clean(s)
	if termtext.Width(s) <= n {
		return termtext.Truncate(s, n)
	}
	return termtext.Truncate(s, n-1) + "~"
}

// fitMiddle cuts s to n cells in its middle.
func fitMiddle(s string, n int) string {
	if plain(s) && len(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	return termtext.TruncateMiddle(termtext.Clean(s), n, "~")
}

// text writes s in a style, cut at the edge.
func (p *painter) text(st Style, s string) {
	room := p.edge - p.x
	if room <= 0 || s == "" || p.full() {
		return
	}
	if plain(s) {
		if len(s) > room {
			p.put(st, s[:room-1])
			p.buf = append(p.buf, '~')
			p.close(st)
			p.x = p.edge
			return
		}
		p.x += len(s)
		p.put(st, s)
		p.close(st)
		return
	}
	s = fit(s, room)
	w := termtext.Width(s)
	if w > room { // never trust a width twice: rather nothing than a broken row
		return
	}
	p.x += w
	p.put(st, s)
	p.close(st)
}

// bytes is text for what was appended to a buffer: numbers and ages.
func (p *painter) bytes(st Style, s []byte) {
	if room := p.edge - p.x; !plain(s) || len(s) > room {
		p.text(st, string(s))
		return
	}
	if p.full() {
		return
	}
	if !p.inRow {
		p.buf = append(p.buf, st.on...)
	}
	p.buf = append(p.buf, s...)
	p.x += len(s)
	p.close(st)
}

// glyph writes one of our own characters, known to take one cell.
func (p *painter) glyph(st Style, g string) {
	if p.x >= p.edge || p.full() {
		return
	}
	p.put(st, g)
	p.close(st)
	p.x++
}

func (p *painter) put(st Style, s string) {
	if !p.inRow {
		p.buf = append(p.buf, st.on...)
	}
	p.buf = append(p.buf, s...)
}

func (p *painter) close(st Style) {
	if !p.inRow {
		p.buf = append(p.buf, st.off...)
	}
}

const blanks = "                                                                "

// pad writes spaces up to column x.
func (p *painter) pad(x int) {
	if p.full() {
		return
	}
	for n := min(x, p.edge) - p.x; n > 0; {
		k := min(n, len(blanks))
		p.buf = append(p.buf, blanks[:k]...)
		p.x += k
		n -= k
	}
}

// cell is a left-aligned cell of exactly w cells.
func (p *painter) cell(st Style, s string, w int) {
	end := min(p.x+w, p.edge)
	edge := p.edge
	p.edge = end
	p.text(st, s)
	p.pad(end)
	p.edge = edge
}

// cellRight is a right-aligned cell of exactly w cells of ASCII.
func (p *painter) cellRight(st Style, s []byte, w int) {
	if len(s) > w {
		s = s[:w]
	}
	end := p.x + w
	p.pad(end - len(s))
	p.bytes(st, s)
	p.pad(end)
}

// rule fills up to column x with the horizontal line.
func (p *painter) rule(st Style, glyph string, x int) {
	n := min(x, p.edge) - p.x
	if n <= 0 || p.full() {
		return
	}
	if !p.inRow {
		p.buf = append(p.buf, st.on...)
	}
	for range n {
		p.buf = append(p.buf, glyph...)
	}
	p.x += n
	p.close(st)
}

// begin starts a row that has one style from edge to edge; end finishes it.
func (p *painter) begin(st Style) {
	if p.full() {
		return
	}
	p.row, p.inRow = st, true
	p.buf = append(p.buf, st.on...)
}

func (p *painter) end() {
	if !p.inRow {
		return
	}
	p.pad(p.edge)
	p.buf = append(p.buf, p.row.off...)
	p.row, p.inRow = Style{}, false
}

// wrapped writes s over as many lines as it needs, at most limit, each behind
// the indent; the first line goes on where the painter stands.
func (p *painter) wrapped(st Style, s string, indent, limit int) {
	for n := 1; s != "" && !p.full(); n++ {
		room := p.edge - p.x
		if n == limit || room < 8 || cells(s) <= room {
			p.text(st, s)
			return
		}
		head, tail := breakAt(s, room)
		p.text(st, head)
		edge := p.edge
		p.line()
		p.edge = edge
		p.pad(indent)
		s = tail
	}
}

// breakAt splits s after at most n cells, at a space where there is one.
func breakAt(s string, n int) (head, tail string) {
	cut, space, w := len(s), -1, 0
	for i, r := range s {
		rw := 1
		if r > 0x7e {
			rw = max(termtext.Width(string(r)), 0)
		}
		if w+rw > n {
			cut = i
			break
		}
		if r == ' ' {
			space = i
		}
		w += rw
	}
	if cut == len(s) {
		return s, ""
	}
	if space > n/3 {
		return s[:space], s[space+1:]
	}
	if cut == 0 { // one character wider than the line: let the painter clip it
		return s, ""
	}
	return s[:cut], s[cut:]
}
