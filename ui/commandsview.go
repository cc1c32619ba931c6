package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// commandsSeen is what the commands view shows: what was asked for here, the
// newest first.
type commandsSeen struct {
	list    []sent
	version uint64
	lost    []sent // that the source did not take: nobody else knows of them
}

// lostKept is how many of them are kept.
const lostKept = 50

// keep remembers of an order what nobody else does.
func (c *commandsSeen) keep(o *order) {
	for _, s := range o.list {
		if s.failed != "" {
			c.lost = append(c.lost, *s)
		}
	}
	c.lost = c.lost[max(len(c.lost)-lostKept, 0):]
}

// listActions puts together what was asked for and what became of it. The cursor
// stays on its action while newer ones come in above.
func (m *Model) listActions(w *watchdog.Window) {
	c, g := &m.commands, &m.pagers[viewCommands]
	on := ""
	if g.cur < len(c.list) && !g.follow {
		on = c.list[g.cur].action.ID
	}
	before := c.list
	c.list = make([]sent, 0, len(w.Actions))
	known := make(map[string]bool, len(w.Actions))
	for i := range w.Actions {
		known[w.Actions[i].ID] = true
	}
	for i := range w.Actions {
		c.list = append(c.list, sent{action: w.Actions[i], gone: true, asked: w.Now.Mono - w.Actions[i].Age})
	}
	for _, o := range m.orders.list {
		for _, s := range o.list {
			if !known[s.action.ID] {
				c.list = append(c.list, *s)
			}
		}
	}
	c.list = append(c.list, c.lost...)
	slices.SortStableFunc(c.list, func(a, b sent) int { return cmp.Compare(b.asked, a.asked) })
	if !slices.EqualFunc(before, c.list, sameCommand) {
		c.version++
	}
	if on != "" {
		if at := slices.IndexFunc(c.list, func(s sent) bool { return s.action.ID == on }); at >= 0 {
			g.shift(at - g.cur)
		}
	}
}

func sameCommand(a, b sent) bool {
	return a.action.ID == b.action.ID && a.action.Fate == b.action.Fate && a.action.Detail == b.action.Detail && a.failed == b.failed
}

func (m *Model) openCommands() tea.Cmd {
	m.pagers[viewCommands].restart()
	m.listActions(&m.window)
	cmd := m.openView(viewCommands)
	m.seenFates()
	return cmd
}

func (m *Model) commandLines() lines {
	c := &m.commands
	return lines{total: len(c.list), version: c.version, newest: growsAtTop, text: func(i int) string {
		s := &c.list[i]
		a := &s.action
		return strings.Join([]string{string(a.Op), string(a.Session), s.fateWord(), a.IssuedBy, a.Way, firstOf(s.failed, a.Detail)}, " ")
	}}
}

// commandWidths are the columns of the commands view; 0: not there.
type commandWidths struct{ time, fate, op, name, age, by, way int }

// commandColumns gives each column what its words need, and DETAIL the rest.
func (m *Model) commandColumns() commandWidths {
	w := commandWidths{time: 10, fate: len("FATE"), op: len("OP"), name: len("SESSION"), age: 4}
	name, by, way := shortName, 0, 0
	switch {
	case m.width < 60:
		w.time, w.age = 0, 0
	case m.width >= tableBeside:
		name, by, way = longName+5, 12, 6
	case m.width >= longNameFrom:
		name, by = shortName+4, 12
	}
	for i := range m.commands.list {
		s := &m.commands.list[i]
		w.fate = max(w.fate, cells(s.fateWord()))
		w.op = max(w.op, len(s.action.Op))
		w.name = max(w.name, cells(sessionName(s.action.Session, s.action.Generation, name)))
		w.by = max(w.by, cells(orDash(s.action.IssuedBy)))
		w.way = max(w.way, cells(orDash(s.action.Way)))
	}
	w.by, w.way = min(w.by, by), min(max(w.way, len("WAY")), way)
	if m.width < 60 {
		w.name = min(w.name, m.width-1-2-w.fate-1-w.op-1)
	}
	return w
}

// drawCommands lists what was asked for, and tells all of what the cursor is on.
func (m *Model) drawCommands(p *painter) {
	c := &m.commands
	open := 0
	for i := range c.list {
		if !c.list[i].over() {
			open++
		}
	}
	if len(c.list) == 0 {
		m.drawNoCommands(p)
		return
	}
	text := counted(len(c.list), "action") + ", " + count(open) + " open, newest first"
	m.drawLinesTitle(p, "COMMANDS", "asked for here", segment{m.styles.Dim, text, 3, 40})
	w := m.commandColumns()
	m.drawCommandsHeading(p, w)
	m.drawLinesOverStrip(p, linesOverStrip{
		line:  func(i int) { m.drawCommand(p, &c.list[i], w) },
		strip: func() stripText { return m.commandStrip(p.width) },
	})
}

// drawNoCommands says what will stand here.
func (m *Model) drawNoCommands(p *painter) {
	key := m.keys.firstKey
	p.text(m.styles.Title, " COMMANDS")
	p.line()
	for _, text := range []string{
		"nothing was asked for yet",
		"each action stands here with who asked, its fate and what can be done next:",
		key("restart") + " restart, " + key("expire") + " expire, " + key("stop") + " stop or kill, " + key("dump") + " dump the session under the cursor of " + key("sessions"),
	} {
		p.pad(1)
		p.wrapped(m.styles.Dim, text, 1, 3)
		p.line()
	}
}

func (m *Model) drawCommandsHeading(p *painter, w commandWidths) {
	p.pad(1)
	if w.time > 0 {
		p.cell(m.styles.Title, "ASKED", w.time)
	}
	p.cell(m.styles.Title, "  FATE", 2+w.fate)
	for _, c := range []struct {
		name  string
		width int
	}{{"OP", w.op}, {"SESSION", w.name}, {"TOOK", w.age}, {"BY", w.by}, {"WAY", w.way}} {
		if c.width > 0 {
			p.pad(p.x + 1)
			p.cell(m.styles.Title, c.name, c.width)
		}
	}
	p.pad(p.x + 1)
	p.text(m.styles.Title, "DETAIL")
	p.line()
}

func (m *Model) drawCommand(p *painter, s *sent, w commandWidths) {
	a := &s.action
	st := m.styles.of(s.means())
	if w.time > 0 {
		p.cell(m.styles.Dim, m.askedAt(s), w.time)
	}
	glyph := m.glyphs.fateGlyph(a.Fate)
	if s.failed != "" {
		glyph, _ = m.glyphs.verdict(watchdog.Stalled)
	}
	p.glyph(st, glyph)
	p.pad(p.x + 1)
	p.cell(st, s.fateWord(), w.fate)
	p.pad(p.x + 1)
	p.cell(Style{}, string(a.Op), w.op)
	p.pad(p.x + 1)
	p.cell(Style{}, sessionName(a.Session, a.Generation, w.name), w.name)
	if w.age > 0 {
		p.pad(p.x + 1)
		p.cellRight(Style{}, []byte(strings.TrimPrefix(strings.TrimSpace(s.fateAge()), "in ")), w.age)
	}
	if w.by > 0 {
		p.pad(p.x + 1)
		p.cell(Style{}, orDash(a.IssuedBy), w.by)
	}
	if w.way > 0 {
		p.pad(p.x + 1)
		p.cell(m.styles.Dim, orDash(a.Way), w.way)
	}
	p.pad(p.x + 1)
	text := firstOf(s.failed, a.Detail)
	if next := m.nextStep(a.Next); next != "" {
		text = "next: " + next + "; " + text
	}
	m.marked(p, Style{}, text, m.pager().search)
}

// askedAt is when an action was asked for, by the clock of the feed.
func (m *Model) askedAt(s *sent) string {
	now := &m.window.Now
	return stamp(now.Wall-int64(now.Mono-s.asked), now.Wall)
}

// commandStrip tells all that is known of the action under the cursor.
func (m *Model) commandStrip(width int) stripText {
	c, g := &m.commands, m.pager()
	if g.cur >= len(c.list) {
		return stripText{}
	}
	s := &c.list[g.cur]
	a := &s.action
	return stripText{title: string(a.Op) + " " + sessionName(a.Session, a.Generation, max(width-30, 12)), facts: m.commandFacts(s), labels: 7}
}

func (m *Model) commandFacts(s *sent) []fact {
	a := &s.action
	fate := s.fateWord()
	if s.gone && s.failed == "" && a.Fate != watchdog.FateNone {
		fate += " " + age(a.Since) + " ago"
		if a.Fate.Final() {
			fate += ", " + age(max(a.Age-a.Since, 0)) + " after it was asked for"
		}
		if a.By != "" {
			fate += ", says " + a.By
		}
		if a.Way != "" {
			fate += ", by way of " + a.Way
		}
	}
	out := []fact{{"fate", fate, s.means()}}
	if next := m.nextStep(a.Next); next != "" {
		out = append(out, fact{"next", next, meansAct})
	}
	if why := firstOf(s.failed, a.Detail); why != "" {
		out = append(out, fact{label: "detail", text: why})
	}
	asked := "by " + firstOf(a.IssuedBy, "somebody")
	if a.Reason != "" {
		asked += ": " + a.Reason
	}
	if !a.Fate.Final() && !a.Expires.IsZero() {
		if left := time.Duration(a.Expires.UnixNano() - m.window.Now.Wall); left > 0 {
			asked += "; nobody begins with it any more in " + age(left)
		}
	}
	return append(out, fact{label: "asked", text: asked})
}

func needsCommand(m *Model) string {
	if m.pager().cur >= len(m.commands.list) {
		return "there is no action under the cursor"
	}
	return ""
}

// goToCommand drills into the session of the action under the cursor.
func (m *Model) goToCommand() tea.Cmd {
	m.table.follow(m.commands.list[m.pager().cur].action.Session, m.bodyRows(), m.opt.Now())
	m.openView(viewWhy)
	return m.ask()
}
