package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// What happened to the terminal, as messages for the screen. The wiring makes
// them out of what its terminal reports.
type (
	glyphsMeasured  struct{ wide bool }
	terminalStalled struct{ long time.Duration }
	terminalDrained struct{ dropped uint64 }
	suspendDeclined struct{ reason string }
	terminalResumed struct{ after time.Duration }
	editorClosed    struct{ err error }
)

// GlyphsMeasured tells whether the terminal draws the symbols two cells wide;
// then ASCII is drawn instead.
func GlyphsMeasured(wide bool) tea.Msg { return glyphsMeasured{wide} }

// TerminalStalled tells that the terminal has taken no frame for some time.
func TerminalStalled(d time.Duration) tea.Msg { return terminalStalled{d} }

// TerminalDrained tells that it takes frames again, and how many were dropped.
func TerminalDrained(dropped uint64) tea.Msg { return terminalDrained{dropped} }

// SuspendDeclined tells why ctrl+z did nothing.
func SuspendDeclined(reason string) tea.Msg { return suspendDeclined{reason} }

// Resumed tells that the program was stopped and goes on.
func Resumed(after time.Duration) tea.Msg { return terminalResumed{after} }

// EditorClosed tells how the editor that had the terminal ended; nil: well.
func EditorClosed(err error) tea.Msg { return editorClosed{err} }

// toggleASCII draws ASCII alone, or symbols again.
func (m *Model) toggleASCII() tea.Cmd {
	m.glyphs = DefaultGlyphs(!m.glyphs.ascii)
	return nil
}

// noticed shows what happened to the terminal.
func (m *Model) noticed(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case glyphsMeasured:
		if msg.wide && !m.glyphs.ascii {
			m.glyphs = DefaultGlyphs(true)
			return m.say("this terminal draws the symbols two cells wide: ASCII instead; :ascii draws them")
		}
	case terminalStalled:
		return m.refuse("terminal not draining for " + age(msg.long) + ": frames are dropped")
	case terminalDrained:
		return m.say("the terminal takes frames again; " + count(msg.dropped) + " were dropped")
	case suspendDeclined:
		return m.refuse("not suspended: " + msg.reason)
	case editorClosed:
		if msg.err != nil {
			return m.refuse("the editor ended: " + msg.err.Error())
		}
		return m.ask()
	case tea.ResumeMsg:
		return m.ask()
	case terminalResumed:
		m.say("back after " + age(msg.after))
		if m.feed != nil {
			return tea.Batch(tea.ClearScreen, m.ask())
		}
		return tea.ClearScreen
	}
	return nil
}
