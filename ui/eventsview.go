package ui

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// eventsSeen is what the events view shows.
type eventsSeen struct {
	of      watchdog.ID           // one session's alone; "" all
	fleet   []watchdog.Transition // as the window gave them
	late    lateSeen
	list    []watchdog.Transition // both, as they are shown
	version uint64
	seq     uint64 // answers to older asks are of other events
	wanted  int    // as last asked
	have    bool
}

// eventsMost is all that anybody keeps; eventsStep what is asked for at first.
const (
	eventsMost = 4096
	eventsStep = 256
)

// openEvents shows what happened, to one session or to all.
func (m *Model) openEvents(of watchdog.ID) tea.Cmd {
	late := lateSeen{shown: m.events.late.shown && needsLate(m) == ""}
	m.lastOpened++
	late.opened = m.lastOpened
	m.events = eventsSeen{of: of, version: m.events.version + 1, late: late}
	m.pagers[viewEvents].restart()
	m.openView(viewEvents)
	cmd := m.ask()
	m.events.seq = m.asking.seq
	if late.shown {
		cmd = tea.Batch(cmd, m.readLate(0))
	}
	return cmd
}

// openAllEvents is what the view's key does.
func (m *Model) openAllEvents() tea.Cmd { return m.openEvents("") }

// fillEvents adds to an ask what the events view needs: more the further it is
// read, all for a search.
func (m *Model) fillEvents(a *watchdog.Ask) {
	if !slices.Contains(m.layers, viewEvents) {
		m.events.wanted = 0
		return
	}
	g := &m.pagers[viewEvents]
	want := eventsStep
	for want < eventsMost && (g.cur+2*m.height >= want || g.search != "" || m.prompt != nil && m.top() == viewEvents) {
		want *= 2
	}
	m.events.wanted = max(want, m.events.wanted)
	a.Events, a.EventsOf = m.events.wanted, m.events.of
}

// askEvents asks again if more events are wanted now.
func (m *Model) askEvents() tea.Cmd {
	if m.top() != viewEvents {
		return nil
	}
	before := m.events.wanted
	var a watchdog.Ask
	if m.fillEvents(&a); a.Events == before {
		return nil
	}
	return m.ask()
}

// takeEvents uses the events of a window.
func (m *Model) takeEvents(w *watchdog.Window) {
	e := &m.events
	if e.wanted == 0 || w.AskSeq < e.seq {
		return
	}
	if !slices.Equal(e.fleet, w.Events) {
		e.fleet = w.Events
		m.mergeEvents()
	}
	e.have = true
}

func (m *Model) eventLines() lines {
	e := &m.events
	return lines{total: len(e.list), version: e.version, newest: growsAtTop,
		text: func(i int) string { t := &e.list[i]; return string(t.ID) + " " + eventWord(t) + " " + m.eventText(t) },
		height: func(i, width int) int {
			t, w := &e.list[i], m.eventColumns()
			indent := w.text
			if t.ID == "" {
				indent = 1 + w.time + 2 + cells(eventWord(t)) + 2
			}
			return wrapCount(m.eventText(t), width-indent)
		}}
}

// eventWord is "running > stalled", or what else happened.
func eventWord(t *watchdog.Transition) string {
	switch {
	case t.Kind == watchdog.EventSettled:
		return t.Kind + " " + t.To.String()
	case t.Kind != "":
		return t.Kind
	case t.New:
		return "new " + t.To.String()
	}
	return t.From.String() + " > " + t.To.String()
}

// eventLook is how an event appears where there is little room: as the verdict
// that came, or as what else happened.
func (m *Model) eventLook(t *watchdog.Transition) (glyph string, means meaning, word string) {
	if t.Kind == eventLate {
		return "?", meansSuspect, t.Kind
	}
	if t.Kind != "" && t.Kind != watchdog.EventSettled {
		return "-", meansNothing, t.Kind
	}
	glyph, means = m.glyphs.verdict(t.To)
	if t.Kind != "" {
		return glyph, means, t.Kind
	}
	return glyph, means, t.To.String()
}

// eventText says what an event was. The time of a first sight is that of the verdict's
// begin, not of our look.
func (m *Model) eventText(t *watchdog.Transition) string {
	switch {
	case t.New && t.At.Wall < m.window.Started.Wall:
		return "so since before we watched" + behind(": ", t.Text)
	case t.New:
		return "stood so when first seen" + behind(": ", t.Text)
	}
	return t.Text
}

// eventWidths are the columns of the events view: where each begins.
type eventWidths struct{ time, name, word, text int }

func (m *Model) eventColumns() eventWidths {
	w := eventWidths{time: 10, name: shortName, word: 19}
	if n := len(m.events.list); n > 0 && m.window.Now.Wall-m.events.list[n-1].At.Wall > int64(24*time.Hour) {
		w.time = 12 // with its day
	}
	switch {
	case m.width < 60:
		w.name, w.word = 13, 10
	case m.width >= longNameFrom:
		w.name, w.word = longName+5, len("restarting > crash-loop")
	}
	if m.events.of != "" {
		w.name = 5
	}
	if m.pagers[viewEvents].bare {
		w.time = 0
	}
	w.text = 1 + w.time + 2 + w.name + 1 + w.word + 1
	return w
}

// drawEvents lists what happened, the newest first.
func (m *Model) drawEvents(p *painter) {
	e := &m.events
	of := "of all sessions"
	if e.of != "" {
		of = "of " + fitMiddle(string(e.of), 40)
	}
	n := count(len(e.list))
	if len(e.fleet) >= e.wanted {
		n = "the latest " + n
	}
	if e.late.shown {
		n += " with " + count(len(e.late.list)) + " quarantined"
	}
	m.drawLinesTitle(p, "EVENTS", of, segment{m.styles.Dim, n + ", newest first", 3, 40})
	if e.late.trouble != "" {
		p.pad(1)
		p.wrapped(m.styles.Suspect, "the quarantine cannot be read: "+e.late.trouble, 1, 3)
		p.line()
	}
	if len(e.list) == 0 {
		text := "asking for events"
		if e.have {
			text = "nothing happened since we watch, " + wall(m.window.Started.Wall, m.window.Now.Wall)
		}
		p.text(m.styles.Dim, " "+text)
		p.line()
	}
	w := m.eventColumns()
	m.drawLines(p, func(i int, _ bool) { m.drawEvent(p, &e.list[i], w) })
}

func (m *Model) drawEvent(p *painter, t *watchdog.Transition, w eventWidths) {
	g := m.pager()
	if w.time > 0 {
		at := clock(t.At.Wall)
		if w.time > 10 {
			at = time.Unix(0, t.At.Wall).UTC().Format("01-02 15:04")
		}
		p.cell(m.styles.Dim, at, w.time)
	}
	glyph, means, short := m.eventLook(t)
	p.glyph(m.styles.of(means), glyph)
	p.pad(p.x + 1)
	word := eventWord(t)
	if w.word < 12 {
		word = short
	}
	if t.ID == "" { // of the fleet: it has the room of a session's name too
		p.text(Style{}, word)
		p.pad(p.x + 2)
	} else {
		p.cell(Style{}, eventName(t, m.events.of != "", w.name), w.name)
		p.pad(p.x + 1)
		p.cell(m.styles.of(means), word, w.word)
		p.pad(p.x + 1)
	}
	if g.wrap {
		p.wrapped(Style{}, m.eventText(t), p.x, mostWrapped)
		return
	}
	m.marked(p, Style{}, m.eventText(t), g.search)
}

// eventName is "indexer #2", or the generation alone where the session is known.
func eventName(t *watchdog.Transition, alone bool, room int) string {
	if alone {
		return fit(generation(t.Generation), room)
	}
	return sessionName(t.ID, t.Generation, room)
}

// goToEvent drills into the session of the event under the cursor.
func (m *Model) goToEvent() tea.Cmd {
	e, g := &m.events, m.pager()
	if g.cur >= len(e.list) || e.list[g.cur].ID == "" {
		return m.say("this event is of no session")
	}
	m.table.follow(e.list[g.cur].ID, m.bodyRows(), m.opt.Now())
	m.openView(viewWhy)
	return m.ask()
}

func (m *Model) openSessionEvents() tea.Cmd { return m.openEvents(m.table.cursor) }
