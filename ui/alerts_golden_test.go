package ui

import (
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// alertShots are the views of the queue of alerts; the first key is pressed
// before its answer comes.
func alertShots(ops, prod About) []shot {
	queue := func(name string, about About, keys string) shot {
		return shot{name: name, open: func(t *testing.T, width, height int, change ...func(*Options)) *screen {
			return showAlerts(t, alertsWindow(), about, keys, width, height, change...)
		}}
	}
	return []shot{
		queue("alerts", ops, "").kept(),
		queue("alerts-answered", prod, "j j j j j j j j"),
		queue("alerts-hosts", ops, "B"),
		queue("alerts-members", ops, "enter j").kept(),
		queue("alerts-mute", ops, "G"),
		queue("alerts-search", ops, "/ r e d i s").kept(),
		queue("ask-ack", ops, "j a v e n d o r").kept(),
		queue("ask-snooze", ops, "j z x enter"),
		queue("ask-mute", ops, "M").kept(),
		queue("ask-mute-end", ops, "j M enter"),
		queue("ask-mute-note", ops, "j M enter 2 h enter enter"),
	}
}

func showAlerts(t *testing.T, w watchdog.Window, about About, keys string, width, height int, change ...func(*Options)) *screen {
	t.Helper()
	s := newScreen(t, w, about, width, height, change...)
	s.press("2")
	s.show(w)
	s.press(strings.Fields(keys)...)
	return s
}
