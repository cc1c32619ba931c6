package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// HintMemory remembers, by the name of an action, how often its key was pointed
// out. Both methods may block: they run off the screen's goroutine. What cannot be
// read or written is forgotten, and said nowhere.
type HintMemory interface {
	Recall() map[string]int
	Keep(map[string]int)
}

// HintsEnough is after how many sittings a hint never comes again. Who has used
// its key once has had enough of it.
const HintsEnough = 5

// hint points out a key to who has not used it yet, when it is of use.
type hint struct {
	action string
	also   string // another action that shows that it is known
	text   string
	when   func(*Model, *watchdog.Detail) bool
}

// allHints are in the order in which they are needed; one is shown at a time.
func allHints() []hint {
	always := func(*Model, *watchdog.Detail) bool { return true }
	longer := func(m *Model, _ *watchdog.Detail) bool { return m.table.matched > m.bodyRows() }
	trouble := func(m *Model, _ *watchdog.Detail) bool { return m.window.Fleet.NeedYou > 0 }
	return []hint{
		{action: "why", also: "open", text: "why it is so, with the evidence", when: func(_ *Model, d *watchdog.Detail) bool { return d.Attention.Counted() }},
		{action: "next", text: "the next that needs you", when: func(m *Model, _ *watchdog.Detail) bool { return m.window.Fleet.NeedYou > 1 }},
		{action: "alerts", text: "alerts: answer them, or mute", when: trouble},
		{action: "attention", text: "only what needs you", when: func(m *Model, d *watchdog.Detail) bool { return trouble(m, d) && longer(m, d) }},
		{action: "filter", text: "filter: words, verdict, age, host", when: longer},
		{action: "palette", text: "every action by its name", when: always},
		{action: "help", text: "all keys, and what is off, with why", when: always},
	}
}

// hinting is what the screen knows of hints.
type hinting struct {
	all     []hint
	counts  map[string]int  // by the name of the action; nil: not recalled yet
	here    map[string]bool // shown in this sitting
	used    map[string]bool // its action was, in this sitting
	current *hint           // nil: none
}

// hintsRecalled brings what was remembered.
type hintsRecalled struct{ counts map[string]int }

// recallHints asks for what was remembered; no hint is shown before.
func (m *Model) recallHints() tea.Cmd {
	memory := m.opt.Hints
	if memory == nil {
		return nil
	}
	return func() tea.Msg { return hintsRecalled{memory.Recall()} }
}

func (m *Model) hintsCame(msg hintsRecalled) tea.Cmd {
	m.hints = hinting{all: allHints(), counts: map[string]int{}, here: map[string]bool{}, used: map[string]bool{}}
	for name, n := range msg.counts {
		m.hints.counts[name] = n
	}
	return nil
}

// heed notes that an action was used: its hint never comes again.
func (m *Model) heed(action string) tea.Cmd {
	for i := range m.hints.all {
		h := &m.hints.all[i]
		if (h.action != action && h.also != action) || m.hints.used[h.action] {
			continue
		}
		m.hints.used[h.action] = true
		if m.hints.counts[h.action] < HintsEnough {
			return m.countHint(h.action, HintsEnough)
		}
	}
	return nil
}

func (m *Model) countHint(action string, n int) tea.Cmd {
	m.hints.counts[action] = n
	memory, kept := m.opt.Hints, map[string]int{action: n}
	return func() tea.Msg { memory.Keep(kept); return nil }
}

// chooseHint finds the hint that is of use now, and counts the sitting in which it
// is first shown.
func (m *Model) chooseHint() tea.Cmd {
	s := &m.hints
	s.current = nil
	if s.counts == nil || !m.have || m.scene()&inLists == 0 || m.stripLines() == 0 && m.sideWidth() == 0 {
		return nil
	}
	d, _ := m.detail()
	if d == nil {
		return nil
	}
	for i := range s.all {
		h := &s.all[i]
		if s.used[h.action] || !s.here[h.action] && s.counts[h.action] >= HintsEnough {
			continue
		}
		a := m.bound[m.scene()][m.keys.firstKey(h.action)]
		if a == nil || a.name != h.action || m.offReason(a) != "" || !h.when(m, d) {
			continue
		}
		s.current = h
		if !s.here[h.action] {
			s.here[h.action] = true
			return m.countHint(h.action, s.counts[h.action]+1)
		}
		return nil
	}
	return nil
}
