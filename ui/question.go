package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// questionQuiet is for how long no key may have come before a question takes
// one: what was typed ahead answers nothing.
const questionQuiet = 300 * time.Millisecond

// Quiet that we slept through is none: what was typed while the process was held up
// (suspended, swapped out, its terminal blocked) comes late, and all the time before
// it would look quiet. Each look is begun after the one before was taken in, so that
// as many of them show that keys would have been seen.
const (
	quietLooks = 4
	lookEvery  = questionQuiet / (quietLooks + 1)
)

// question is asked before something that cannot be undone. Only y does it, or
// the words that it wants to be typed.
type question struct {
	title   string
	facts   []fact
	last    string // a line of its own below them
	yes, no string // what y does, and n, enter and esc
	lastKey time.Duration
	looks   int    // since the last key
	looking uint64 // the look that is under way; 0: none
	early   bool   // the last key came too soon
	do      func(*Model) tea.Cmd

	words string  // to be typed before it is done; empty: y is enough
	act   *acting // the action that it is about; nil none
}

const questionLabels = 8

// labelsFor is how wide the labels of a question are.
func labelsFor(width int) int {
	if width < 60 {
		return questionLabels - 2
	}
	return questionLabels
}

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
	q := &m.question
	q.early = m.opt.Now()-q.lastKey < questionQuiet || q.looks < quietLooks
	m.noise()
	return q.early
}

// noise is what comes and is no answer: it must be quiet after it too.
func (m *Model) noise() { m.question.lastKey, m.question.looks = m.opt.Now(), 0 }

// quietLooked is a look that found the loop awake while a question is open.
type quietLooked struct{ look uint64 }

// listen looks on until it was quiet for long enough; nil: it was, or nothing is
// asked.
func (m *Model) listen() tea.Cmd {
	q := &m.question
	if q.looking != 0 || q.looks >= quietLooks || m.top() != viewQuestion {
		return nil
	}
	m.quietLook++
	q.looking = m.quietLook
	looked := quietLooked{q.looking}
	return func() tea.Msg {
		time.Sleep(lookEvery)
		return looked
	}
}

// listened counts a look of the question that is open.
func (m *Model) listened(msg quietLooked) {
	if q := &m.question; msg.look == q.looking {
		q.looking = 0
		q.looks++
	}
}

// answerYes does it, or wants the words typed first.
func (m *Model) answerYes() tea.Cmd {
	q := m.question
	if q.unsure() {
		return nil
	}
	if why := q.refusal(m); why != "" {
		return tea.Batch(m.closeQuestion(), m.refuse(why))
	}
	if q.words != "" {
		return m.openTyped()
	}
	return m.carryOut()
}

func (m *Model) carryOut() tea.Cmd {
	do := m.question.do
	closed := m.closeQuestion()
	return tea.Batch(closed, do(m))
}

func (m *Model) answerNo() tea.Cmd {
	no := m.question.no
	if act := m.question.act; act != nil {
		no = "nothing was asked for: " + act.what() + " was not confirmed"
	}
	closed := m.closeQuestion()
	m.say(no)
	return closed
}

// closeQuestion takes the question away.
func (m *Model) closeQuestion() tea.Cmd {
	m.closeView()
	about := m.question.act != nil
	m.question = question{}
	if about {
		return m.ask() // the last ask was about its sessions
	}
	return nil
}

// refusal says why a question can be answered with no alone; empty: it is open.
func (q *question) refusal(m *Model) string {
	if q.act == nil {
		return ""
	}
	return q.act.refusal(m)
}

// unsure reports whether nobody has told yet who is current since the question
// was asked: until then it takes no yes.
func (q *question) unsure() bool { return q.act != nil && q.act.now == nil }

// drawQuestion writes the question with what must be known to answer it. What is
// short of room loses lines, never the first and the last one.
func (m *Model) drawQuestion(p *painter) {
	q := &m.question
	facts, last := q.facts, q.last
	if q.act != nil {
		facts, last = m.actingFacts(q.act), q.act.lastLine(p.width)
	}
	p.text(m.styles.Act, " "+q.title)
	p.line()
	room := p.height - p.lines
	if last != "" {
		room -= min(wrapCount(last, p.width-2), 2)
	}
	labels := labelsFor(p.width)
	for i, lines := range shareLines(facts, p.width-labels-2, room) {
		if lines > 0 {
			m.drawFact(p, &facts[i], labels, lines)
		}
	}
	if last != "" {
		if p.height-p.lines > 4 { // there is room for rest
			p.line()
		}
		p.pad(1)
		p.wrapped(Style{}, last, 1, 2)
		p.line()
	}
}

// mostFactLines is how many lines of a question one fact takes at most.
const mostFactLines = 3

// shareLines gives each fact its lines. The longest lose some first; then those
// at the end have none.
func shareLines(facts []fact, width, room int) []int {
	lines := make([]int, len(facts))
	total := 0
	for i := range facts {
		lines[i] = min(wrapCount(facts[i].text, width), mostFactLines)
		total += lines[i]
	}
	for total > room {
		longest := len(lines) - 1
		for i, n := range lines {
			if n > lines[longest] {
				longest = i
			}
		}
		if longest < 0 {
			return lines
		}
		if lines[longest] <= 1 { // all of them have one: the last one goes
			for longest = len(lines) - 1; longest > 0 && lines[longest] == 0; longest-- {
			}
			if lines[longest] == 0 {
				return lines
			}
		}
		lines[longest]--
		total--
	}
	return lines
}

// drawAnswers says in the footer what each key does; it never gives way to a
// note.
func (m *Model) drawAnswers(p *painter) {
	q := &m.question
	var all []segment
	if q.refusal(m) == "" {
		all = append(all, segment{m.styles.Title, m.keys.firstKey("yes"), 0, 9}, segment{Style{}, q.yes, 1, 8})
		if q.act != nil && q.act.canKill(m) {
			all = append(all, segment{m.styles.Title, m.keys.firstKey("kill"), 3, 6}, segment{Style{}, "kill instead", 1, 6})
		}
		if q.act != nil {
			all = append(all, segment{m.styles.Title, m.keys.firstKey("reason"), 3, 3}, segment{Style{}, "reason", 1, 3})
		}
	}
	all = append(all, segment{m.styles.Title, "n", 3, 9}, segment{m.styles.Title, ", enter, esc", 0, 5}, segment{Style{}, q.no, 1, 7}, segment{Style{}, " (default)", 0, 4})
	if q.unsure() {
		all = append(all, segment{m.styles.Wait, "[wait: asking what is current]", 3, 7})
	} else if q.early {
		all = append(all, segment{m.styles.Wait, "[wait: settling keys]", 3, 7})
	}
	p.pad(1)
	p.segments(all, p.width-1)
}
