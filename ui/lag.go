package ui

import (
	"strings"
	"time"
)

// lagShown is how late a loop must be to be worth a place in the header.
const lagShown = 100 * time.Millisecond

// lagText tells how late our own loops are: the screen's, as its watchdog
// measured it, and the engine's. Empty: neither is.
func (m *Model) lagText() string {
	var parts []string
	if m.opt.Lag != nil {
		if lag := m.opt.Lag(); lag > lagShown {
			parts = append(parts, "screen "+lag.Round(10*time.Millisecond).String())
		}
	}
	// A score says it too, and what follows from it.
	if self := &m.window.Self; self.Score == 0 && self.Lag > lagShown {
		parts = append(parts, "engine "+self.Lag.Round(10*time.Millisecond).String())
	}
	if len(parts) == 0 {
		return ""
	}
	return "lag " + strings.Join(parts, ", ")
}
