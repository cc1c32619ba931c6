package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// View draws what the model holds; it reads no clock and calls nothing else.
func (m *Model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = !m.opt.NoAlt
	if m.opt.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	if m.opt.Title == nil {
		v.WindowTitle = termtext.Clean(m.titleText())
	}
	return v
}

// frame is the whole screen: header, banners, body, footer.
func (m *Model) frame() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	p := m.paint
	p.reset(m.width, m.height)
	g := m.geometry()
	p.height = m.height - g.footer // nothing above can reach into the footer
	m.drawHeader(p, g.header)
	banners := m.banners()
	for i := range g.banners {
		p.pad(1)
		p.text(banners[i].st, banners[i].text)
		p.line()
	}
	switch {
	case g.body <= 0:
	case m.palette != nil:
		m.drawPalette(p, g.body)
	default:
		m.views[m.top()].draw(m, p)
	}
	for !p.full() {
		p.line()
	}
	if g.footer > 0 {
		p.height = m.height
		p.buf = append(p.buf, '\n')
		m.drawFooter(p, g.footer)
	}
	return string(p.buf)
}

// geometry is how the lines of the screen are shared out.
type geometry struct {
	header, banners, body, footer int
	heading, rows, strip, side    int // inside the body of sessions
}

func (m *Model) geometry() geometry {
	var g geometry
	h := m.height
	g.footer = min(h/2, 1)
	if h >= 8 && m.scene()&inInput != 0 {
		g.footer = 2
	}
	g.header = min(2, h-g.footer)
	if h < 5 || m.firstRunShown() || h < 14 && m.top() == viewQuestion {
		g.header = min(1, h-g.footer)
	}
	if m.onlyDumps() { // it tells of what is watched
		g.header = 0
	}
	left := h - g.header - g.footer
	g.banners = min(len(m.banners()), max(left-4, 0))
	g.body = max(left-g.banners, 0)
	g.heading = min(1, g.body)
	g.rows = g.body - g.heading
	if m.noPane {
		return g
	}
	if m.width >= sideFrom && g.body >= 20 {
		g.side = min(m.width-tableBeside-1, widestSide)
		return g
	}
	switch {
	case m.width >= 100 && g.body >= 28:
		g.strip = 8
	case g.body >= 15:
		g.strip = 4
	case g.body >= 11:
		g.strip = 2
	}
	g.rows -= g.strip
	return g
}

// bodyRows is how many rows of the table are seen at once.
func (m *Model) bodyRows() int { return max(m.geometry().rows, 1) }

// pageRows is how many lines a page key moves by.
func (m *Model) pageRows() int {
	if m.scene()&(inPages|inLines) != 0 {
		return max(m.bodyLines()-2, 1)
	}
	return m.bodyRows()
}

// tableRows is how many lines the table has below its heading.
func (m *Model) tableRows() int { return max(m.geometry().rows, 0) }

// bodyLines is how many lines a text view has.
func (m *Model) bodyLines() int { return m.geometry().body }

func (m *Model) stripLines() int { return m.geometry().strip }

func (m *Model) sideWidth() int { return m.geometry().side }

// tableWidth is how wide the table is.
func (m *Model) tableWidth() int {
	if side := m.sideWidth(); side > 0 {
		return m.width - side - 1
	}
	return m.width
}

// banner is a line that must not be overlooked while it holds.
type banner struct {
	st   Style
	text string
}

// heldBanner is "HELD for 8m45  400 silent together since 03:10:48Z; all on hosts
// eu2-*; settling is stopped". What HELD says already goes first where it is narrow.
func (m *Model) heldBanner(g *watchdog.Group) string {
	text := "HELD until they beat or :release  "
	if g.HeldFor > 0 {
		text = "HELD for " + age(coarse(g.HeldFor)) + "  "
	}
	text += count(g.N) + " silent together since " + m.wallAt(g.Began)
	if g.Shared != "" {
		text += "; " + g.Shared
	}
	const more = "; settling is stopped"
	if cells(text)+len(more) < m.width {
		text += more
	}
	return text
}

func (m *Model) banners() []banner {
	var out []banner
	if m.opening.gen != 0 && m.feed != nil {
		out = append(out, banner{m.styles.Wait, "opening " + m.opening.target.what() + "; " + m.keys.firstKey("undo") + " gives up"})
	}
	if m.firstRunShown() || !m.have {
		return out
	}
	for i := range m.window.Groups {
		g := &m.window.Groups[i]
		if g.HeldFor == 0 {
			continue
		}
		out = append(out, banner{m.styles.Suspect, m.heldBanner(g)})
		break
	}
	if m.replay.wrong != "" {
		out = append(out, banner{m.styles.Suspect, "the recording ends here: " + m.replay.wrong})
	}
	if m.top() != viewSessions {
		return out
	}
	if m.table.frozen {
		out = append(out, banner{m.styles.Badge, " FROZEN since " + wall(m.table.frozenAt, m.window.Now.Wall) + ", the header goes on; " + m.keys.firstKey("freeze") + " goes on too "})
	}
	if text := m.marksBanner(); text != "" {
		out = append(out, banner{m.styles.Wait, text})
	}
	if text := m.query.banner(&m.window, m.keys); text != "" {
		out = append(out, banner{m.styles.Wait, text})
	}
	return out
}
