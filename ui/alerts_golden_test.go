package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// alertFrames are the views of the queue of alerts; the first keys are pressed
// before its answer comes.
func alertFrames() []struct {
	name   string
	window watchdog.Window
	about  About
	keys   string
} {
	ops, prod := About{Name: "prod", Sweeper: "serve@eu1-01"}, About{Name: "prod", ReadOnly: true, Sweeper: "serve@eu1-01"}
	return []struct {
		name   string
		window watchdog.Window
		about  About
		keys   string
	}{
		{"alerts", alertsWindow(), ops, ""},
		{"alerts-answered", alertsWindow(), prod, "j j j j j j j j"},
		{"alerts-hosts", alertsWindow(), ops, "B"},
		{"alerts-members", alertsWindow(), ops, "enter j"},
		{"alerts-mute", alertsWindow(), ops, "G"},
		{"alerts-search", alertsWindow(), ops, "/ r e d i s"},
		{"ask-ack", alertsWindow(), ops, "j a v e n d o r"},
		{"ask-snooze", alertsWindow(), ops, "j z x enter"},
		{"ask-mute", alertsWindow(), ops, "M"},
		{"ask-mute-end", alertsWindow(), ops, "j M enter"},
		{"ask-mute-note", alertsWindow(), ops, "j M enter 2 h enter enter"},
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

func TestGoldenAlerts(t *testing.T) {
	for _, f := range alertFrames() {
		for _, size := range sizes {
			name := fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				s := showAlerts(t, f.window, f.about, f.keys, size[0], size[1])
				golden(t, name, ansi.Strip(s.m.frame())+"\n")
			})
		}
	}
}

func TestGoldenAlertStyles(t *testing.T) {
	for _, theme := range []Theme{ThemeDark, ThemeLight, ThemeMono, ThemeContrast, ThemeNone} {
		s := showAlerts(t, alertsWindow(), About{Name: "prod"}, "", 80, 24, func(o *Options) { o.Theme = theme })
		golden(t, "style-alerts-"+theme.String(), strings.ReplaceAll(s.m.frame(), "\x1b", "\\e")+"\n")
	}
	for _, f := range alertFrames() {
		s := showAlerts(t, f.window, f.about, f.keys, 80, 24, func(o *Options) { o.ASCII, o.Theme = true, ThemeNone })
		frame := s.m.frame()
		if i := strings.IndexFunc(frame, func(r rune) bool { return r != '\n' && (r < 0x20 || r > 0x7e) }); i >= 0 {
			t.Fatalf("%s: %q in an ASCII frame without styles", f.name, frame[i:i+1])
		}
		if f.name == "alerts" {
			golden(t, "ascii-alerts", frame+"\n")
		}
	}
}
