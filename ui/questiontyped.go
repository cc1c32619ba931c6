package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// handTime is the least time that a hand takes for a key, in a line of them.
const handTime = 20 * time.Millisecond

// byHand tells what a hand types from what was typed ahead or pasted. Nothing is
// taken before it was quiet; what comes faster than anybody types takes the line
// away.
type byHand struct {
	last    time.Duration // when the last key came, or the prompt was opened
	before  time.Duration // the one before
	began   time.Duration // the line
	keys    int           // of the line
	settled bool          // it was quiet since the prompt was opened
}

const (
	typedEarly = "wait: keys are settling; then type it"
	typedFast  = "this came faster than anybody types: type it by hand"
)

// arrive notes a key and says why it is not taken; empty: it is.
func (h *byHand) arrive(now time.Duration, name string) string {
	last, before := h.last, h.before
	h.before, h.last = last, now
	switch {
	case name == "esc":
		return ""
	case !h.settled && now-last < questionQuiet:
		return typedEarly
	case h.keys >= burstKeys-1 && now-before < burstTime:
		return h.over(typedFast)
	case name == "enter" && now-h.began < time.Duration(h.keys)*handTime:
		return h.over(typedFast)
	}
	if h.keys == 0 {
		h.began = now
	}
	h.settled = true
	h.keys++
	return ""
}

// over begins anew: it must be quiet first.
func (h *byHand) over(why string) string {
	*h = byHand{last: h.last, before: h.before}
	return why
}

// typedKey reports whether a key of a prompt that wants a hand is not taken.
func (m *Model) typedKey(name string) bool {
	p := m.prompt
	if p == nil || p.hand == nil || m.palette != nil {
		return false
	}
	why := p.hand.arrive(m.opt.Now(), name)
	p.err = why
	if why == typedFast {
		p.in.clear()
	}
	return why != ""
}

// openTyped wants the words of a question typed before it is done.
func (m *Model) openTyped() tea.Cmd {
	act, words, gen := m.question.act, m.question.words, m.gen
	m.prompt = &prompt{
		label: "Type  " + words + " :", hint: "then enter; esc cancels (default); a paste does nothing", in: newInput(""),
		hand: &byHand{last: m.opt.Now()},
		take: func(m *Model, text string) (tea.Cmd, bool) {
			switch {
			case gen != m.gen || m.top() != viewQuestion || m.question.act != act:
				return m.refuse("nothing was done: something else is watched now"), true
			case text != words:
				m.prompt.in.clear()
				m.prompt.err = "that is not  " + words + " ; esc cancels"
				return nil, false
			}
			if m.question.unsure() {
				m.prompt.err = "wait: what is current is not known yet; then enter"
				return nil, false
			}
			if why := m.question.refusal(m); why != "" {
				return tea.Batch(m.closeQuestion(), m.refuse(why)), true
			}
			return m.carryOut(), true
		},
		dropped: (*Model).answerNo,
	}
	return nil
}

// openReason asks why, for those who read the audit.
func (m *Model) openReason() tea.Cmd {
	act := m.question.act
	m.prompt = &prompt{
		label: "reason", hint: "why; kept with the audit and the end. enter and esc: back to the question", in: newInput(act.reason),
		take: func(m *Model, text string) (tea.Cmd, bool) {
			act.reason = text
			m.noise()
			return nil, true
		},
		dropped: func(m *Model) tea.Cmd { m.noise(); return nil },
	}
	return nil
}

// needsAction: only questions about an action have a reason.
func needsAction(m *Model) string {
	if m.question.act == nil {
		return "this question takes no reason"
	}
	return ""
}
