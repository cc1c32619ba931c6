package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// questions are those that an action asks, by the keys that lead there.
var questions = []struct {
	name   string
	window func() watchdog.Window
	keys   string
}{
	{"ask-restart", hungWindow, "j k ... R"},
	{"ask-stop", hungWindow, "j k ... S"},
	{"ask-kill", hungWindow, "j k ... S ... K"},
	{"ask-expire", hungWindow, "j k ... X"},
	{"ask-dump", pausingWindow, "j k ... T"},
	{"ask-remote", remoteWindow, "j k ... R"},
	{"ask-reason", hungWindow, "j k ... S ... r (hangs_on_a_lock)"},
	{"ask-marked", hungWindow, "j k space j space j space / (n) enter ... S"},
	{"ask-many", hungWindow, "j k space pgdown V pgdown V pgdown V ... X"},
	{"ask-many-typed", hungWindow, "j k space pgdown V pgdown V pgdown V ... S ... y ... (stop)"},
	{"marked", hungWindow, "j k space j j space j V"},
	{"asked", hungWindow, "j k ... S ... y"},
	{"commands", orderedWindow, "4 j j"},
	{"commands-empty", hungWindow, "4"},
}

func pausingWindow() watchdog.Window {
	w := hungWindow()
	o := w.Focus.Process.Outlook
	o.Dump, o.DumpPauses = "by what its runtime offers", true
	return w
}

func questionScreen(t *testing.T, w watchdog.Window, keys string, width, height int, change ...func(*Options)) *screen {
	s := newScreen(t, w, ops1(), width, height, change...)
	s.can = func(id watchdog.ID) watchdog.Can {
		if id == "batch-job-9" || id == "batch-job-7" {
			return canNothing("it has ended")
		}
		return canAll()
	}
	s.follow = true
	s.show(w)
	for _, k := range strings.Fields(keys) {
		s.do(k)
		s.show(w)
	}
	return s
}

func TestGoldenQuestions(t *testing.T) {
	for _, f := range questions {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), func(t *testing.T) {
				s := questionScreen(t, f.window(), f.keys, size[0], size[1])
				golden(t, fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), ansi.Strip(s.m.frame())+"\n")
			})
		}
	}
}

func TestGoldenQuestionStyles(t *testing.T) {
	for _, theme := range []Theme{ThemeDark, ThemeLight, ThemeNone} {
		for _, f := range questions {
			s := questionScreen(t, f.window(), f.keys, 80, 24, func(o *Options) { o.Theme, o.ASCII = theme, theme == ThemeNone })
			frame := s.m.frame()
			if theme == ThemeNone && strings.ContainsFunc(frame, func(r rune) bool { return r != '\n' && (r < 0x20 || r > 0x7e) }) {
				t.Errorf("%s: a frame in ASCII without styles holds something else:\n%s", f.name, frame)
			}
			golden(t, "style-"+f.name+"-"+theme.String(), strings.ReplaceAll(frame, "\x1b", "\\e")+"\n")
		}
	}
}
