package ui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// prompt is the one line at the bottom into which something is typed.
type prompt struct {
	label string
	hint  string // while nothing is wrong
	err   string // what is wrong with what stands there
	in    input
	hand  *byHand // only what is typed by hand is taken; nil: a paste too
	// changed is told of every edit; take of enter, and reports whether the
	// prompt may close; dropped of esc.
	changed func(*Model, string) tea.Cmd
	take    func(*Model, string) (tea.Cmd, bool)
	dropped func(*Model) tea.Cmd
}

// editInput applies an edit to the line that is typed.
func (m *Model) editInput(edit func(*input)) tea.Cmd {
	switch {
	case m.palette != nil:
		edit(&m.palette.in)
		m.palette.search()
		return nil
	case m.prompt != nil:
		edit(&m.prompt.in)
		if m.prompt.changed != nil {
			return m.prompt.changed(m, m.prompt.in.String())
		}
	}
	return nil
}

// typed takes characters, or a paste, into the line.
func (m *Model) typed(text string) tea.Cmd {
	return m.editInput(func(in *input) { in.insert(text) })
}

// acceptInput is enter in a prompt or the palette.
func (m *Model) acceptInput() tea.Cmd {
	if m.palette != nil {
		return m.takePalette()
	}
	if m.prompt == nil {
		return nil
	}
	cmd, done := m.prompt.take(m, strings.TrimSpace(m.prompt.in.String()))
	if done {
		m.prompt = nil
	}
	return cmd
}

// dropInput is esc in a prompt or the palette.
func (m *Model) dropInput() (tea.Cmd, bool) {
	switch {
	case m.palette != nil:
		m.palette = nil
		return nil, true
	case m.prompt != nil:
		dropped := m.prompt.dropped
		m.prompt = nil
		if dropped != nil {
			return dropped(m), true
		}
		return nil, true
	}
	return nil, false
}

// drawPrompt writes the hint or error, then the line itself.
func (m *Model) drawPrompt(p *painter, lines int) {
	label, in, hint, err := "", (*input)(nil), "", ""
	switch {
	case m.palette != nil:
		label, in = ":", &m.palette.in
		hint = "type a few letters of a name; enter does it, esc leaves"
	case m.prompt != nil:
		label, in, hint, err = m.prompt.label, &m.prompt.in, m.prompt.hint, m.prompt.err
	}
	if lines > 1 {
		p.pad(1)
		if err != "" {
			p.text(m.styles.Suspect, err)
		} else {
			p.text(m.styles.Dim, hint)
		}
		p.line()
	}
	p.pad(1)
	p.text(m.styles.Title, label)
	p.pad(p.x + 1)
	edge := p.edge
	if lines == 1 && err != "" { // one line for both: the error has the right end
		err = fit(err, max(p.width-p.x-12, 0))
		p.edge = min(max(p.width-cells(err)-2, p.x+8), p.width)
	}
	in.draw(p, m.styles.Cursor)
	if lines == 1 && err != "" {
		p.edge = edge
		p.pad(p.width - cells(err))
		p.text(m.styles.Suspect, err)
	}
	p.line()
}

// openHelpSearch narrows help down to the lines that contain what is typed.
func (m *Model) openHelpSearch() tea.Cmd {
	before := m.search
	m.prompt = &prompt{
		label: "search", hint: "lines of this help that contain every word; esc shows all", in: newInput(m.search),
		changed: func(m *Model, text string) tea.Cmd { m.search = text; m.text.off = 0; return nil },
		take:    func(m *Model, text string) (tea.Cmd, bool) { m.search = text; return nil, true },
		dropped: func(m *Model) tea.Cmd { m.search = before; return nil },
	}
	return nil
}
