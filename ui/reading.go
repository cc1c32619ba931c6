package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// readAgain reads after a pause, off the screen's goroutine, unless the feed was
// replaced meanwhile: gone is closed then.
func readAgain(pause time.Duration, gone chan struct{}, read func() tea.Msg) tea.Cmd {
	if pause == 0 {
		return read
	}
	return func() tea.Msg {
		select {
		case <-gone:
			return nil
		case <-time.After(pause):
			return read()
		}
	}
}

// drawTrouble says why something could not be read; empty: it could.
func (m *Model) drawTrouble(p *painter, trouble string) {
	if trouble == "" {
		return
	}
	p.pad(1)
	p.wrapped(m.styles.Suspect, "cannot be read: "+trouble, 1, 3)
	p.line()
}
