package ui

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How the list of dumps is kept fresh while it is looked at.
const (
	dumpsPause = 3 * time.Second
	dumpsLimit = 10 * time.Second // of one reading
)

// dumpsSeen is the list of captures, the newest first.
type dumpsSeen struct {
	opened  uint64
	list    []DumpEntry
	version uint64
	trouble string
	have    bool
}

// dumpsListed is a reading of the list.
type dumpsListed struct {
	gen, opened uint64
	list        []DumpEntry
	err         error
}

// openDumps lists the dumps of all sessions.
func (m *Model) openDumps() tea.Cmd {
	m.lastOpened++
	m.dumps = dumpsSeen{opened: m.lastOpened, version: m.dumps.version + 1}
	m.pagers[viewDumps].restart()
	m.openView(viewDumps)
	return m.listDumps(0)
}

// listDumps reads the list after a pause, off the screen's goroutine.
func (m *Model) listDumps(pause time.Duration) tea.Cmd {
	children, gone, gen, opened := m.children, m.gone, m.gen, m.dumps.opened
	read := func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), dumpsLimit)
		defer cancel()
		list, err := children.Dumps(ctx, "")
		return dumpsListed{gen: gen, opened: opened, list: list, err: err}
	}
	return readAgain(pause, gone, read)
}

// dumpsCame takes the list in; the cursor stays on its dump.
func (m *Model) dumpsCame(msg *dumpsListed) tea.Cmd {
	d := &m.dumps
	if msg.gen != m.gen || msg.opened != d.opened || !slices.Contains(m.layers, viewDumps) || m.children == nil {
		return nil
	}
	d.have, d.trouble = true, ""
	if msg.err != nil {
		d.trouble = msg.err.Error()
		return m.listDumps(dumpsPause)
	}
	if !slices.Equal(d.list, msg.list) {
		d.version++
		g := &m.pagers[viewDumps]
		if g.cur < len(d.list) && !g.follow {
			name := d.list[g.cur].Name
			if i := slices.IndexFunc(msg.list, func(e DumpEntry) bool { return e.Name == name }); i >= 0 {
				g.shift(i - g.cur)
			}
		}
		d.list = msg.list
	}
	return m.listDumps(dumpsPause)
}

func (m *Model) dumpsLines() lines {
	d := &m.dumps
	return lines{total: len(d.list), version: d.version, newest: growsAtTop, text: func(i int) string {
		e := &d.list[i]
		return string(e.ID) + " " + e.Reason + " " + e.Method + " " + e.Format + " " + e.Verdict + " " + e.Culprit
	}}
}

// drawDumps lists the captures.
func (m *Model) drawDumps(p *painter) {
	d := &m.dumps
	var rest []segment
	if len(d.list) > 0 {
		rest = append(rest, segment{m.styles.Dim, count(len(d.list)) + ", newest first", 3, 40})
	}
	m.drawLinesTitle(p, "DUMPS", "of all sessions", rest...)
	m.drawTrouble(p, d.trouble)
	switch {
	case !d.have:
		p.text(m.styles.Dim, " reading")
		p.line()
		return
	case len(d.list) == 0 && d.trouble == "":
		text := "no dump was taken yet: a supervised session that stalls is dumped first"
		if take := m.keys.firstKey("dump"); take != "" {
			text += "; " + take + " in the table takes one"
		}
		p.pad(1)
		p.wrapped(m.styles.Dim, text, 1, 4)
		p.line()
		return
	}
	cols := dumpColumns(m.width)
	p.pad(1)
	for i := range cols {
		p.cell(m.styles.Title, cols[i].name, max(cols[i].w, len(cols[i].name)))
		p.pad(p.x + 1)
	}
	p.line()
	m.drawLines(p, func(i int, _ bool) {
		for k := range cols {
			st, text := cols[k].draw(m, &d.list[i], cols[k].w)
			if cols[k].w == 0 {
				p.text(st, text)
				break
			}
			p.cell(st, text, cols[k].w)
			p.pad(p.x + 1)
		}
	})
}

// dumpColumn is one column of the list; the last one has the rest of the line.
type dumpColumn struct {
	name string
	w    int
	from int // width of the screen from which it is there
	draw func(m *Model, e *DumpEntry, w int) (Style, string)
}

func dumpColumns(width int) []dumpColumn {
	name := shortName
	if width >= tableBeside {
		name = longName
	}
	if width < 60 {
		name = 12
	}
	all := []dumpColumn{
		{"AT", 9, 0, func(m *Model, e *DumpEntry, _ int) (Style, string) {
			return m.styles.Dim, stamp(e.At.UnixNano(), m.window.Now.Wall)
		}},
		{"SESSION", name, 0, func(_ *Model, e *DumpEntry, w int) (Style, string) {
			return Style{}, sessionName(e.ID, e.Generation, w)
		}},
		{"REASON", 9, 80, func(_ *Model, e *DumpEntry, _ int) (Style, string) { return Style{}, orDash(e.Reason) }},
		{"METHOD", 15, 110, func(_ *Model, e *DumpEntry, _ int) (Style, string) {
			return Style{}, firstOf(e.Method, "nothing was had")
		}},
		{"FORMAT", 15, 110, func(_ *Model, e *DumpEntry, _ int) (Style, string) { return Style{}, orDash(e.Format) }},
		{"SIZE", 7, 100, func(m *Model, e *DumpEntry, _ int) (Style, string) {
			if e.Truncated {
				return m.styles.Suspect, size(e.Bytes) + "!"
			}
			return Style{}, size(e.Bytes)
		}},
		{"VERDICT", verdictWidth, 0, func(m *Model, e *DumpEntry, _ int) (Style, string) {
			return m.styles.of(dumpMeans(e.Verdict)), orDash(e.Verdict)
		}},
		{"CULPRIT", 0, 0, func(_ *Model, e *DumpEntry, _ int) (Style, string) { return Style{}, orDash(e.Culprit) }},
	}
	return slices.DeleteFunc(all, func(c dumpColumn) bool { return width < c.from })
}

// dumpMeans is the colour of a dump's verdict.
func dumpMeans(verdict string) meaning {
	switch verdict {
	case "wedged", "deadlock":
		return meansAct
	case "unclear", "not_a_dump":
		return meansSuspect
	}
	return meansNothing
}

// olderDump is the next older dump of the same session that has a text; of files
// the one that was named first.
func (m *Model) olderDump(e *DumpEntry) (DumpEntry, bool) {
	if m.onlyDumps() {
		return m.opt.Dumps[len(m.opt.Dumps)-1], len(m.opt.Dumps) > 1
	}
	for i := range m.dumps.list {
		o := &m.dumps.list[i]
		if o.ID == e.ID && o.Name != e.Name && o.At.Before(e.At) && o.Bytes > 0 {
			return *o, true
		}
	}
	return DumpEntry{}, false
}

func needsDump(m *Model) string {
	if g := &m.pagers[viewDumps]; g.cur >= len(m.dumps.list) {
		return "there is no dump under the cursor"
	}
	return ""
}

// openDump shows the dump under the cursor of the list.
func (m *Model) openDump() tea.Cmd {
	m.showDump(m.dumps.list[m.pagers[viewDumps].cur])
	return m.readDump(nil)
}

// sessionName names a session and its generation.
func sessionName(id watchdog.ID, g watchdog.Generation, room int) string {
	gen := " " + generation(g)
	return fitMiddle(string(id), room-len(gen)) + gen
}
