package ui

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// marksMost is how many sessions can be marked.
const marksMost = 5000

// ownMove is how long ago the cursor must have gone to another session by itself
// before an action takes that one: who pressed the key has seen where it is.
const ownMove = time.Second

// marks are the sessions that the next action is meant for. They belong to
// sessions, not to rows: wherever one is sorted, its mark goes with it.
type marks struct {
	ids  []watchdog.ID // in the order in which they were marked
	set  map[watchdog.ID]bool
	last watchdog.ID // from which a range goes on
	// hidden of them the filter hides, as last told.
	hidden int
	seq    uint64 // answers to older asks do not know the newest of them
}

func (k *marks) has(id watchdog.ID) bool { return k.set[id] }

func (k *marks) add(id watchdog.ID) bool {
	if k.set[id] || len(k.ids) >= marksMost {
		return k.set[id]
	}
	if k.set == nil {
		k.set = map[watchdog.ID]bool{}
	}
	k.set[id] = true
	k.ids = append(k.ids, id)
	return true
}

func (k *marks) drop(id watchdog.ID) {
	delete(k.set, id)
	k.ids = slices.DeleteFunc(k.ids, func(other watchdog.ID) bool { return other == id })
}

// keep drops those that nobody knows any more, and says how many.
func (k *marks) keep(known []watchdog.Picked) (gone int) {
	before := len(k.ids)
	was := k.set
	k.set, k.hidden = make(map[watchdog.ID]bool, before), 0
	for i := range known {
		if was[known[i].ID] {
			k.set[known[i].ID] = true
			if !known[i].Shown {
				k.hidden++
			}
		}
	}
	k.ids = slices.DeleteFunc(k.ids, func(id watchdog.ID) bool { return !k.set[id] })
	return before - len(k.ids)
}

// changedMarks asks what may be done to those that are marked now.
func (m *Model) changedMarks() tea.Cmd {
	cmd := m.ask()
	m.marks.seq = m.asking.seq
	return cmd
}

// toggleMark marks the session under the cursor, or takes its mark away.
func (m *Model) toggleMark() tea.Cmd {
	k, id := &m.marks, m.table.cursor
	m.table.touched = true // the cursor is meant: it stays on this session
	switch {
	case k.has(id):
		k.drop(id)
	case !k.add(id):
		return m.refuse("no more than " + count(marksMost) + " can be marked")
	}
	k.last = id
	return m.changedMarks()
}

// markRange marks every session from the last mark to the cursor.
func (m *Model) markRange() tea.Cmd {
	t, k := &m.table, &m.marks
	at := t.index()
	from := slices.IndexFunc(t.rows, func(r watchdog.Row) bool { return r.ID == k.last })
	switch {
	case len(k.ids) == 0 || k.last == "":
		return m.refuse("a range goes from a marked session to the cursor: mark one with " + m.keys.firstKey("mark") + " first")
	case at < 0 || from < 0:
		return m.refuse(string(k.last) + " is too far away for a range: mark in steps of a page or two")
	}
	t.touched = true
	full := false
	for i := min(at, from); i <= max(at, from); i++ {
		full = !k.add(t.rows[i].ID) || full
	}
	k.last = t.cursor
	cmd := m.changedMarks()
	if full {
		m.refuse("no more than " + count(marksMost) + " can be marked")
	}
	return cmd
}

func (m *Model) clearMarks() tea.Cmd {
	n := len(m.marks.ids)
	m.marks = marks{}
	m.say(counted(n, "mark") + " taken away")
	return m.ask()
}

func needsMarks(m *Model) string {
	if len(m.marks.ids) == 0 {
		return "nothing is marked"
	}
	return ""
}

// fillPicked asks what may be done to those whom an action would be meant for:
// those that a question is about, or else the marked ones and the one under the
// cursor.
func (m *Model) fillPicked(a *watchdog.Ask) {
	if q := m.asksAbout(); q != nil {
		a.Picked = q.ids()
		if len(a.Picked) == 1 {
			a.Focus = a.Picked[0]
		}
		return
	}
	a.Picked = slices.Clone(m.marks.ids)
	if a.Focus != "" && !m.marks.has(a.Focus) {
		a.Picked = append(a.Picked, a.Focus)
	}
}

// takePicked uses what a window says of them. The marks of sessions that are
// gone are dropped.
func (m *Model) takePicked(w *watchdog.Window) {
	m.picked = w.Picked
	if q := m.asksAbout(); q != nil {
		q.follow(w)
		return
	}
	if len(m.marks.ids) == 0 || w.AskSeq < m.marks.seq {
		return
	}
	if gone := m.marks.keep(w.Picked); gone > 0 {
		m.say(counted(gone, "marked session") + " gone, and no longer marked")
	}
}

// aim is what an action is meant for.
type aim struct {
	on      []watchdog.Picked
	hidden  []watchdog.ID // marked, but the filter hides them: they are left out
	unknown []watchdog.ID // marked or under the cursor, and no answer about them came yet
}

// targets are the marked sessions, where there are marks and the table is seen;
// else the one that is shown.
func (m *Model) targets() aim {
	ids, marked := m.marks.ids, true
	if len(ids) == 0 || m.top() == viewWhy {
		ids, marked = nil, false
		if m.table.cursor != "" {
			ids = []watchdog.ID{m.table.cursor}
		}
	}
	byID := make(map[watchdog.ID]*watchdog.Picked, len(m.picked))
	for i := range m.picked {
		byID[m.picked[i].ID] = &m.picked[i]
	}
	var a aim
	for _, id := range ids {
		switch p := byID[id]; {
		case p == nil:
			a.unknown = append(a.unknown, id)
		case marked && !p.Shown:
			a.hidden = append(a.hidden, id)
		default:
			a.on = append(a.on, *p)
		}
	}
	return a
}

// marksBanner says that actions are meant for the marked.
func (m *Model) marksBanner() string {
	n := len(m.marks.ids)
	if n == 0 {
		return ""
	}
	text := counted(n, "session") + " marked"
	if m.marks.hidden > 0 {
		text += ", " + count(m.marks.hidden) + " of them hidden and left out"
	}
	return text + ": actions are meant for them   " + m.keys.firstKey("mark-range") + " range   " + m.keys.firstKey("unmark") + " clears"
}

// markOf is what stands between the glyph and the word of a row.
func (m *Model) markOf(id watchdog.ID) string {
	if m.marks.has(id) {
		return "+"
	}
	return " "
}
