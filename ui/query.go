package ui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/query"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// querying is which sessions are shown, and in which order.
type querying struct {
	text   string // the filter as typed
	filter query.Query
	sort   int // of query.SortKeys
	inv    bool
	only   bool // only what needs attention
}

func (q *querying) reset() { *q = querying{sort: q.sort} }

// fill puts the filter and the order into an ask.
func (q *querying) fill(a *watchdog.Ask) {
	a.Match, a.Invert, a.OnlyAttention = q.filter.Match(), q.inv, q.only
	key := query.SortKeys()[q.sort]
	a.Sort, a.Query, a.SortBy = key.Key, q.filter.String(), key.Name
	a.KeepEnded = strings.Contains(q.filter.String(), "verdict")
}

// among is the end of a sentence that holds only for what is shown.
func (q *querying) among() string {
	if q.text != "" {
		return " among what the filter shows"
	}
	return ""
}

// banner says which rows are left out, and how to see them again.
func (q *querying) banner(w *watchdog.Window, keys KeyMap) string {
	out := ""
	if q.text != "" {
		out = "filter  " + q.text + "   " + count(w.Matched) + " of " + count(w.Total) + "   esc: all"
	}
	if q.only {
		if out != "" {
			return out + "   only what needs attention, " + keys.firstKey("all") + ": all"
		}
		out = "only what needs attention   " + count(w.Matched) + " of " + count(w.Total) + "   " + keys.firstKey("all") + ": all"
	}
	if q.sort != 0 || q.inv {
		order := "order  " + query.SortKeys()[q.sort].Name
		if q.inv {
			order += ", inverted"
		}
		if out != "" {
			return out + "   " + order
		}
		out = order + "   " + keys.firstKey("sort") + ": other"
	}
	return out
}

// whyEmpty says why there are no rows, and what to do.
func (q *querying) whyEmpty(w *watchdog.Window, started []string, keys KeyMap) (what, how string) {
	switch {
	case w.Total == 0 && len(started) > 0:
		return "started: " + someOf(started), "it stands here with its first beat"
	case q.text != "" && q.only:
		return fmt.Sprintf("nothing that needs attention matches  %s", q.text), "esc clears the filter; " + keys.firstKey("all") + " shows all"
	case q.text != "":
		return fmt.Sprintf("no session matches  %s", q.text), fmt.Sprintf("esc clears the filter: %s sessions", count(w.Total))
	case q.only:
		return "nothing needs attention", keys.firstKey("all") + " shows all " + count(w.Total) + " sessions"
	case w.Total > 0:
		return "no session is shown", "good ends leave after 10 min; a filter such as  verdict:completed  shows them"
	}
	return "no session was seen yet", ""
}

// changedQuery makes the order a new one: older answers show another.
func (m *Model) changedQuery() tea.Cmd {
	t := &m.table
	t.top, t.asked, t.heldUntil = 0, 0, 0
	cmd := m.ask()
	t.validSeq = m.asking.seq
	return cmd
}

// setFilter takes a filter that compiles; it says what is wrong with another.
func (m *Model) setFilter(text string) tea.Cmd {
	filter, err := query.Compile(text)
	if err != nil {
		return m.refuse(err.Error())
	}
	m.query.text, m.query.filter = strings.TrimSpace(text), filter
	return m.changedQuery()
}

// openFilter filters while it is typed.
func (m *Model) openFilter() tea.Cmd {
	before := m.query.text
	try := func(m *Model, text string) bool {
		filter, err := query.Compile(text)
		if err != nil {
			m.prompt.err = err.Error()
			return false
		}
		m.prompt.err = ""
		m.query.text, m.query.filter = strings.TrimSpace(text), filter
		return true
	}
	m.prompt = &prompt{
		label: "/", hint: "words /regex/ !not verdict:stalled work>5m credits<2 task:~chunk host:eu2-*", in: newInput(before),
		changed: func(m *Model, text string) tea.Cmd {
			if !try(m, text) {
				return nil
			}
			return m.changedQuery()
		},
		take: func(m *Model, text string) (tea.Cmd, bool) {
			if !try(m, text) {
				return nil, false
			}
			return m.changedQuery(), true
		},
		dropped: func(m *Model) tea.Cmd { return m.setFilter(before) },
	}
	return nil
}

func (m *Model) setOnlyAttention(only bool) tea.Cmd {
	m.query.only = only
	return m.changedQuery()
}

// showAll takes every restriction away.
func (m *Model) showAll() tea.Cmd {
	m.query.only = false
	return m.setFilter("")
}

func (m *Model) setSort(i int) tea.Cmd {
	m.query.sort = i
	return m.changedQuery()
}

func (m *Model) invert() tea.Cmd {
	m.query.inv = !m.query.inv
	return m.changedQuery()
}
