package ui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Shift sums up what one who leaves tells the one who comes. It may take long:
// it runs off the screen's goroutine.
type Shift interface {
	// Handover is of so long until now.
	Handover(ctx context.Context, since time.Duration) (watchdog.Handover, error)
}

// DefaultShift is how far a hand-over looks back unless told otherwise.
const DefaultShift = 8 * time.Hour

// handoverLimit is how long a hand-over may take to be made.
const handoverLimit = 15 * time.Second

// handoverSeen is what the hand-over view shows.
type handoverSeen struct {
	opened  uint64 // what was asked before is dropped
	since   time.Duration
	waiting bool
	trouble string
	result  *watchdog.Handover
	lines   []handoverLine
	version uint64
}

// handoverMade is the outcome of one.
type handoverMade struct {
	gen, opened uint64
	result      watchdog.Handover
	err         error
}

func needsShift(m *Model) string {
	switch {
	case m.feed == nil || !m.have:
		return "hand-over: nothing is watched yet"
	case m.about.Shift == nil:
		return "hand-over: nobody here keeps what happened"
	}
	return ""
}

// openHandover makes a hand-over and shows it.
func (m *Model) openHandover() tea.Cmd {
	if m.handover.since == 0 {
		m.handover.since = DefaultShift
	}
	m.pagers[viewHandover] = pager{wrap: true}
	m.openView(viewHandover)
	return m.makeHandover()
}

// openHandoverWith makes one of the time that was typed behind the name.
func (m *Model) openHandoverWith(text string) tea.Cmd {
	since, err := ParseShift(text)
	if err != nil {
		return m.refuse(err.Error())
	}
	m.handover.since = since
	return m.openHandover()
}

// ParseShift reads how far a hand-over looks back: "8h", "90m", "2d".
func ParseShift(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if d, err = time.ParseDuration(days + "h"); err == nil {
			d *= 24
		}
	}
	if err != nil || d < time.Minute || d > 30*24*time.Hour {
		return 0, fmt.Errorf("%q is no time to look back; give one from 1m to 30d, such as 8h, 90m or 2d", text)
	}
	return d, nil
}

func (m *Model) makeHandover() tea.Cmd {
	m.lastOpened++
	s := &m.handover
	s.opened, s.waiting, s.trouble = m.lastOpened, true, ""
	shift, gen, opened, since := m.about.Shift, m.gen, s.opened, s.since
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), handoverLimit)
		defer cancel()
		h, err := shift.Handover(ctx, since)
		return handoverMade{gen: gen, opened: opened, result: h, err: err}
	}
}

func (m *Model) handoverCame(msg *handoverMade) tea.Cmd {
	s := &m.handover
	if msg.gen != m.gen || msg.opened != s.opened {
		return nil
	}
	s.waiting = false
	if msg.err != nil {
		s.trouble, _, _ = strings.Cut(msg.err.Error(), "\n")
		return m.refuse("no hand-over: " + s.trouble)
	}
	s.result = &msg.result
	s.lines = handoverLines(s.result, m.about.Name, m.about.Operator)
	s.version++
	return nil
}

func (m *Model) handoverPagerLines() lines {
	list := m.handover.lines
	return lines{total: len(list), version: m.handover.version,
		text: func(i int) string { return list[i].plain() },
		height: func(i, width int) int {
			l := &list[i]
			if l.word == "" {
				return wrapCount(strings.TrimPrefix(l.text, " "), width-1)
			}
			return wrapCount(l.text, width-1-handoverIndent(width))
		}}
}

// handoverIndent is where the text behind a word begins, one cell after the
// cursor's column.
func handoverIndent(width int) int {
	if width < 60 {
		return 2 // under its word, as far as it is wrapped
	}
	return handoverWord
}

func (m *Model) drawHandover(p *painter) {
	s := &m.handover
	if s.result == nil {
		text := "asking what happened in the last " + age(s.since)
		if s.trouble != "" {
			text = s.trouble
		}
		p.pad(1)
		p.text(m.styles.Title, "HANDOVER")
		p.line()
		p.pad(1)
		p.wrapped(m.styles.Dim, text, 1, 4)
		p.line()
		return
	}
	m.drawLines(p, func(i int, _ bool) { m.drawHandoverLine(p, &s.lines[i]) })
}

func (m *Model) drawHandoverLine(p *painter, l *handoverLine) {
	g := m.pager()
	st := m.styles.of(l.means)
	switch {
	case l.heading:
		st = m.styles.Title
	case l.dim:
		st = m.styles.Dim
	}
	text := strings.TrimPrefix(l.text, " ") // the cursor's column stands before it
	indent := p.x
	if l.word != "" {
		m.marked(p, st, padded(l.word, handoverWord), g.search)
		indent, st = p.x, Style{}
		if p.width < 60 {
			indent = 3
		}
	}
	if g.wrap && g.search == "" {
		p.wrapped(st, text, indent, mostWrapped)
		return
	}
	m.marked(p, st, text, g.search)
}

// askShift asks how far to look back.
func (m *Model) askShift() tea.Cmd {
	m.prompt = &prompt{
		label: "since", hint: "how far back: 8h, 90m, 2d; enter makes it anew, esc leaves", in: newInput(shiftWords(m.handover.since)),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, text string) (tea.Cmd, bool) {
			since, err := ParseShift(text)
			if err != nil {
				m.prompt.err = err.Error()
				return nil, false
			}
			m.handover.since = since
			return m.makeHandover(), true
		},
	}
	return nil
}

// shiftWords is "8h" or "1h30m", as it can be typed.
func shiftWords(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func needsHandover(m *Model) string {
	if m.handover.result == nil {
		return "there is no hand-over yet"
	}
	return ""
}

// needsHandoverLine: the line under the cursor is of a session.
func needsHandoverLine(m *Model) string {
	if at := m.pager().cur; at >= len(m.handover.lines) || m.handover.lines[at].id == "" {
		return "this line is of no session"
	}
	return ""
}

// goToHandedOver drills into the session of the line under the cursor.
func (m *Model) goToHandedOver() tea.Cmd {
	m.table.follow(m.handover.lines[m.pager().cur].id, m.bodyRows(), m.opt.Now())
	m.openView(viewWhy)
	return m.ask()
}

// copyHandover copies all of it as text.
func (m *Model) copyHandover() tea.Cmd {
	lines := HandoverText(m.handover.result, m.about.Name, m.about.Operator)
	cmd := m.copyText(strings.Join(lines, "\n"))
	m.say("copied, if the terminal allows: " + counted(len(lines), "line"))
	return cmd
}

// saveHandover writes it into a new file, as text or JSON.
func (m *Model) saveHandover() tea.Cmd {
	if m.opt.Export == nil {
		return m.refuse("export: this screen can write no files")
	}
	h := m.handover.result
	m.prompt = &prompt{
		label: "export to", hint: "this hand-over, as .txt or .json; esc leaves", in: newInput("handover-" + h.Until.Format("20060102T150405Z") + ".txt"),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, path string) (tea.Cmd, bool) {
			if !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".txt") {
				m.prompt.err = "end the name with .txt or .json"
				return nil, false
			}
			e := Export{Path: path, Handover: h, Text: HandoverText(h, m.about.Name, m.about.Operator)}
			write := m.opt.Export
			return func() tea.Msg {
				path, err := write(e)
				return exportWritten{path: path, what: e.What(), n: e.Len(), err: err}
			}, true
		},
	}
	return nil
}
