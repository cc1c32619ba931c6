package ui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// lines is what a view of lines shows: any number of them, each on one line of
// the screen, or more where it is wrapped.
type lines struct {
	total   int
	version uint64                 // moves on when a line changes
	text    func(i int) string     // what a search sees
	height  func(i, width int) int // nil: one
	newest  growth                 // where it grows
	unfold  func(search string)    // shows what is folded and has the text; nil: nothing is folded
}

// growth is where lines are added.
type growth int8

const (
	growsNowhere growth = iota
	growsAtTop
	growsAtEnd
)

// pager is the place in a view of lines: a cursor, what is seen, and a search.
type pager struct {
	cur, top int
	follow   bool // the cursor stays where lines are added
	wrap     bool
	bare     bool // without time stamps
	search   string

	found    []int // lines that match
	foundFor string
	foundAt  uint64
}

// restart goes to the newest line; how lines are shown stays.
func (g *pager) restart() { *g = pager{follow: true, wrap: g.wrap, bare: g.bare} }

// settle keeps the cursor inside of the lines, and in sight.
func (g *pager) settle(l *lines, rows, width int) {
	if l.total == 0 {
		g.cur, g.top = 0, 0
		return
	}
	if g.follow && l.newest == growsAtEnd {
		g.cur = l.total - 1
	} else if g.follow && l.newest == growsAtTop {
		g.cur = 0
	}
	g.cur = max(min(g.cur, l.total-1), 0)
	height := func(i int) int {
		if l.height == nil || !g.wrap {
			return 1
		}
		return max(l.height(i, width), 1)
	}
	first, used := g.cur, 0 // the highest top that still shows the cursor
	for i := g.cur; i >= 0; i-- {
		if used += height(i); used > rows && i < g.cur {
			break
		}
		first = i
	}
	g.top = max(min(g.top, g.cur), first)
	for used, i := 0, l.total-1; i >= 0; i-- { // no empty room below the last one
		if used += height(i); used > rows {
			break
		}
		g.top = min(g.top, i)
	}
	g.top = max(g.top, 0)
}

// move steps the cursor. Reaching the end that grows follows it again.
func (g *pager) move(n int, l *lines) {
	g.cur = max(min(g.cur+n, l.total-1), 0)
	g.follow = l.newest == growsAtEnd && g.cur >= l.total-1 && n > 0 || l.newest == growsAtTop && g.cur == 0 && n < 0
}

// matches are the lines that the search finds.
func (g *pager) matches(l *lines) []int {
	if g.search == "" {
		return nil
	}
	if g.foundFor == g.search && g.foundAt == l.version {
		return g.found
	}
	g.found, g.foundFor, g.foundAt = g.found[:0], g.search, l.version
	want := strings.ToLower(g.search)
	for i := range l.total {
		if foldedIndex(l.text(i), want) >= 0 {
			g.found = append(g.found, i)
		}
	}
	return g.found
}

// seek goes to the nth match after the cursor (or before it, if n is
// negative), around the end; with n 0 to the nearest one, this line too. It
// reports whether there is one, and whether it went around.
func (g *pager) seek(n int, l *lines) (ok, around bool) {
	found := g.matches(l)
	if len(found) == 0 {
		return false, false
	}
	at := 0 // the first match not before the cursor
	for at < len(found) && found[at] < g.cur {
		at++
	}
	here := at < len(found) && found[at] == g.cur
	switch {
	case n == 0 && !here && l.newest == growsAtEnd:
		at-- // what is at its end is read upwards
	case n > 0 && here:
		at++
	case n < 0:
		at--
	}
	around = at < 0 || at >= len(found)
	g.cur = found[(at+len(found))%len(found)]
	g.follow = false
	return true, around
}

// pager is that of the view on top.
func (m *Model) pager() *pager { return &m.pagers[m.top()] }

// lines are those of the view on top.
func (m *Model) lines() lines { return m.views[m.top()].lines(m) }

func (m *Model) moveLine(n int) tea.Cmd {
	l := m.lines()
	m.pager().move(n, &l)
	return m.askEvents()
}

// drawLines draws the lines that fit in what is left of the frame.
func (m *Model) drawLines(p *painter, draw func(i int, cursor bool)) {
	g, l := m.pager(), m.lines()
	g.settle(&l, max(p.height-p.lines, 1), p.width)
	for i := g.top; i < l.total && !p.full(); i++ {
		switch {
		case i == g.cur && g.wrap: // it may take several lines
			p.text(m.styles.Title, ">")
		case i == g.cur:
			p.begin(m.styles.Cursor)
			p.text(Style{}, ">")
		}
		p.pad(1)
		draw(i, i == g.cur)
		p.end()
		p.line()
	}
}

// drawLinesTitle is "EVENTS  of indexer #2   newest first   3 of 17 match x".
func (m *Model) drawLinesTitle(p *painter, name, of string, rest ...segment) {
	g, l := m.pager(), m.lines()
	all := []segment{{m.styles.Title, name, 0, 99}, {m.styles.Title, of, 2, 98}}
	if g.search != "" {
		text := "nothing has \"" + g.search + "\""
		if found := g.matches(&l); len(found) > 0 {
			text = count(len(found)) + " have \"" + g.search + "\""
			for i, at := range found {
				if at == g.cur {
					text = count(i+1) + " of " + text
				}
			}
		}
		all = append(all, segment{m.styles.Wait, text, 3, 60})
	}
	if g.follow && l.newest != growsNowhere && l.total > 0 {
		all = append(all, segment{m.styles.Dim, "following", 3, 50})
	}
	p.pad(1)
	p.segments(append(all, rest...), p.width-1)
	p.line()
}

// marked writes text with what a search found in it set off.
func (m *Model) marked(p *painter, st Style, text, search string) {
	for want := strings.ToLower(search); want != "" && plain(text); {
		at := foldedIndex(text, want)
		if at < 0 {
			break
		}
		p.text(st, text[:at])
		p.text(m.styles.Badge, text[at:at+len(want)])
		text = text[at+len(want):]
	}
	p.text(st, text)
}

// foldedIndex is where text holds want, which is in lower case, whatever the
// case there; -1 nowhere. A text may have very many lines: plain ones cost no
// memory.
func foldedIndex(text, want string) int {
	if want == "" || !plain(want) {
		return strings.Index(strings.ToLower(text), want)
	}
	for i := 0; i+len(want) <= len(text); i++ {
		if c := text[i]; c|0x20 == want[0]|0x20 && strings.EqualFold(text[i:i+len(want)], want) {
			return i
		}
	}
	return -1
}

// openSearch looks for text while it is typed.
func (m *Model) openSearch() tea.Cmd {
	g := m.pager()
	before := *g
	m.prompt = &prompt{
		label: "/", hint: "text to look for; enter keeps it, then " + m.keys.firstKey("next-match") + " and " + m.keys.firstKey("previous-match") + " go from match to match",
		changed: func(m *Model, text string) tea.Cmd {
			g := m.pager()
			g.cur, g.follow, g.search = before.cur, before.follow, text
			m.prompt.err = ""
			if text != "" && !m.seekMatch(0) {
				m.prompt.err = "nothing here has \"" + text + "\""
			}
			return m.askEvents()
		},
		take: func(m *Model, text string) (tea.Cmd, bool) { m.pager().search = text; return nil, true },
		dropped: func(m *Model) tea.Cmd {
			g := m.pager()
			g.cur, g.top, g.follow, g.search = before.cur, before.top, before.follow, before.search
			return nil
		},
	}
	return m.askEvents()
}

// seekMatch goes to a match, also to one that is folded away.
func (m *Model) seekMatch(n int) bool {
	g, l := m.pager(), m.lines()
	if l.unfold != nil && g.search != "" {
		l.unfold(g.search)
		l = m.lines()
	}
	ok, around := g.seek(n, &l)
	if ok && around && n != 0 {
		m.say("past the last match: on from the other end")
	}
	return ok
}

func (m *Model) nextMatch(n int) tea.Cmd {
	if !m.seekMatch(n) {
		return m.say("nothing here has \"" + m.pager().search + "\"")
	}
	return m.askEvents()
}

// overLines is the word of a key that is of use where there are lines. It works
// before too: who is fast presses it before they came.
func overLines(word string) func(*Model) string {
	return func(m *Model) string {
		if m.lines().total == 0 {
			return ""
		}
		return word
	}
}

// needsSearch: n and N need something to look for.
func needsSearch(m *Model) string {
	if m.pager().search == "" {
		return "nothing is looked for; " + m.keys.firstKey("search") + " looks for text"
	}
	return ""
}

// toggleFollow keeps the cursor where lines are added, or lets it rest.
func (m *Model) toggleFollow() tea.Cmd {
	g := m.pager()
	g.follow = !g.follow
	if g.follow {
		return m.say("follows what is added")
	}
	return m.say("stays here")
}

func (m *Model) toggleWrap() tea.Cmd {
	m.pager().wrap = !m.pager().wrap
	return nil
}

func (m *Model) toggleTimes() tea.Cmd {
	m.pager().bare = !m.pager().bare
	return nil
}

// here is a reason that counts where its action can be pressed alone; help,
// which lists all, does not show it.
func here(in scene, off func(*Model) string) func(*Model) string {
	return func(m *Model) string {
		if m.views[m.top()].in&in == 0 {
			return ""
		}
		return off(m)
	}
}

// mostWrapped is how many lines of the screen one line takes at most.
const mostWrapped = 20

// wrapCount is how many lines a text takes in room cells, as wrapped breaks it.
func wrapCount(s string, room int) int {
	n := 1
	for ; n < mostWrapped && room >= 8 && len(s) > room && cells(s) > room; n++ {
		_, s = breakAt(s, room)
	}
	return n
}
