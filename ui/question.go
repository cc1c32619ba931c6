package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// questionQuiet is for how long no key may have come before a question takes
// one: what was typed ahead answers nothing.
const questionQuiet = 300 * time.Millisecond

// question is asked before something that cannot be undone. Only y does it.
type question struct {
	title   string
	facts   []fact
	yes, no string // what y does, and n, enter and esc
	lastKey time.Duration
	early   bool // the last key came too soon
	do      func(*Model) tea.Cmd
}

const questionLabels = 8

// askFirst puts a question in place of the body.
func (m *Model) askFirst(q question) tea.Cmd {
	q.lastKey = m.opt.Now()
	m.question = q
	m.prompt, m.palette = nil, nil
	return m.openView(viewQuestion)
}

// deaf reports whether a key came too soon after another to be an answer.
func (m *Model) deaf() bool {
	if m.scene() != inQuestion {
		return false
	}
	now := m.opt.Now()
	m.question.early = now-m.question.lastKey < questionQuiet
	m.question.lastKey = now
	return m.question.early
}

func (m *Model) answerYes() tea.Cmd {
	do := m.question.do
	m.closeView()
	m.question = question{}
	return do(m)
}

func (m *Model) answerNo() tea.Cmd {
	no := m.question.no
	m.closeView()
	m.question = question{}
	return m.say(no)
}

func (m *Model) drawQuestion(p *painter) {
	q := &m.question
	p.text(m.styles.Act, " "+q.title)
	p.line()
	for i := range q.facts {
		m.drawFact(p, &q.facts[i], questionLabels, 3)
	}
}

// drawAnswers says in the footer what each key does; it never gives way to a
// note.
func (m *Model) drawAnswers(p *painter) {
	q := &m.question
	all := []segment{{m.styles.Title, m.keys.firstKey("yes"), 0, 9}, {Style{}, q.yes, 1, 8}, {m.styles.Title, "n", 3, 9}, {m.styles.Title, ", enter, esc", 0, 5}, {Style{}, q.no, 1, 7}, {Style{}, " (default)", 0, 4}}
	if q.early {
		all = append(all, segment{m.styles.Wait, "[wait: settling keys]", 3, 6})
	}
	p.pad(1)
	p.segments(all, p.width-1)
}
