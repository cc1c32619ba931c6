package ui

import (
	"strings"
	"testing"

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

// questionShots are questions, and what is seen around them.
func questionShots() []shot {
	var out []shot
	for _, q := range questions {
		out = append(out, shot{name: q.name, styled: true, open: func(t *testing.T, width, height int, change ...func(*Options)) *screen {
			return questionScreen(t, q.window(), q.keys, width, height, change...)
		}})
	}
	return out
}
