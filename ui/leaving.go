package ui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// leave ends the program. Where children run that end with it, it asks first.
func (m *Model) leave() tea.Cmd {
	if m.ended || len(m.about.Supervised) == 0 {
		return tea.Quit
	}
	return m.askFirst(question{
		title: "LEAVE ?", facts: m.supervisedFacts("leaving"), yes: "leave and stop them", no: "stay",
		do: func(*Model) tea.Cmd { return tea.Quit },
	})
}

// leaveFor opens something else instead of what is shown.
func (m *Model) leaveFor(t Target) tea.Cmd {
	if m.feed == nil || m.ended || len(m.about.Supervised) == 0 {
		return m.openTarget(t)
	}
	return m.askFirst(question{
		title: "OPEN " + t.what() + " ?", facts: m.supervisedFacts("opening it"), yes: "open it and stop them", no: "stay",
		do: func(m *Model) tea.Cmd { return m.openTarget(t) },
	})
}

// supervisedFacts say which children run here, and what becomes of them.
func (m *Model) supervisedFacts(what string) []fact {
	ids := m.about.Supervised
	const most = 12
	var names []string
	for _, id := range ids[:min(len(ids), most)] {
		names = append(names, fitMiddle(string(id), longName))
	}
	if more := len(ids) - len(names); more > 0 {
		names = append(names, "and "+count(more)+" more")
	}
	running := counted(len(ids), "session") + " supervised here: " + strings.Join(names, ", ")
	return []fact{
		{label: "now", text: running},
		{label: "then", text: what + " ends them: TERM to all their processes, KILL after the grace, settled stopped"},
		{label: "else", text: "sessionwatch serve supervises the sessions of the configuration without a screen"},
	}
}
