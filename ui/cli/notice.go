package cli

import (
	"os"
	"syscall"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/ui/terminal"
)

// translate turns what happened to the terminal into what the screen is told.
// The two packages do not know each other.
func translate(n terminal.Notice) tea.Msg {
	switch n := n.(type) {
	case terminal.Glyphs:
		return ui.GlyphsMeasured(n.Wide)
	case terminal.Stalled:
		return ui.TerminalStalled(n.For)
	case terminal.Drained:
		return ui.TerminalDrained(n.Dropped)
	case terminal.SuspendRefused:
		return ui.SuspendDeclined(n.Reason)
	case terminal.Resumed:
		return ui.Resumed(n.After)
	}
	return nil
}

// signalled is the exit code of a screen that a signal ended, as shells count:
// 128 and the signal's number.
func signalled(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return nil
	}
	return exitWith(128 + int(number))
}
