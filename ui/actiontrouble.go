package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// troubled are the sessions with an action that did not do what was asked for,
// and that nobody has looked at: they need attention too.
func (m *Model) troubled() []watchdog.ID {
	var ids []watchdog.ID
	for _, o := range m.orders.list {
		for _, s := range o.list {
			if s.bad() && !slices.Contains(ids, s.action.Session) {
				ids = append(ids, s.action.Session)
			}
		}
	}
	return ids
}

// nextTroubled is the troubled session that next, or previous, leads to now.
// They stand behind the sessions that need attention by their verdict; "" means
// that one of those is next.
func (m *Model) nextTroubled(n int) watchdog.ID {
	ids, t := m.troubled(), &m.table
	if len(ids) == 0 {
		return ""
	}
	first := 0
	if n < 0 {
		first = len(ids) - 1
	}
	id := m.window.NextAttention
	if n < 0 {
		id = m.window.PrevAttention
	}
	alone := id == "" || id == t.cursor
	if at := slices.Index(ids, t.cursor); at >= 0 {
		switch next := at + n; {
		case next >= 0 && next < len(ids):
			return ids[next]
		case alone && len(ids) > 1:
			return ids[first]
		}
		return ""
	}
	if alone || t.touched && m.wrapsAround(id, n) {
		return ids[first]
	}
	return ""
}

// wrapsAround reports whether the way from the cursor to a session leads around
// the end of the order.
func (m *Model) wrapsAround(id watchdog.ID, n int) bool {
	t := &m.table
	at := slices.IndexFunc(t.rows, func(r watchdog.Row) bool { return r.ID == id })
	if at < 0 { // what needs attention stands at the beginning, as far as it is not at hand
		return n > 0 && t.offset > 0
	}
	if n > 0 {
		return t.offset+at <= t.at
	}
	return t.offset+at >= t.at
}

// goToTroubled puts the cursor on a session with a failed action; one that the
// filter hides is shown by why.
func (m *Model) goToTroubled(id watchdog.ID) tea.Cmd {
	m.table.follow(id, m.bodyRows(), m.opt.Now())
	m.text = scroller{}
	m.say("an action on " + string(id) + " failed: " + m.keys.firstKey("commands") + " shows it")
	return m.ask()
}

// troubleSegment counts failed actions in the verdict of the fleet.
func (m *Model) troubleSegment() (segment, bool) {
	n := len(m.troubled())
	if n == 0 {
		return segment{}, false
	}
	return segment{m.styles.Act, counted(n, "failed action"), 1, 84}, true
}
