package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The engine reads its two clocks one after the other. What happened at one
// moment must not be a second earlier in one window and later in the next.
func TestAMomentKeepsItsTime(t *testing.T) {
	s := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24)
	s.m.window.Started.Wall = at.Add(-watched).Add(400 * time.Microsecond).UnixNano()
	began := watched - 20*sec
	seen := map[string]bool{}
	for i := range 20 {
		now := &s.m.window.Now
		now.Mono = watched + time.Duration(i)*sec
		now.Wall = at.UnixNano() + int64(i)*int64(sec) + int64(i%3-1)*int64(900*time.Microsecond)
		seen[s.m.wallAt(began)] = true
	}
	if len(seen) != 1 || !seen["03:12:24Z"] {
		t.Errorf("one moment was said to be %v", seen)
	}
	s.m.window.Now.Wall += int64(time.Hour)
	if got := s.m.wallAt(began); got != "04:12:24Z" {
		t.Errorf("after the wall clock was set an hour on it is %s", got)
	}
}

// What one reads while typing must be readable whole on a common terminal.
func TestHintsFitEightyColumns(t *testing.T) {
	hints := map[string]string{}
	for _, key := range []string{"/", ":", "?"} {
		s := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24, withHost)
		s.press(key)
		if key == "?" {
			s.press("/")
		}
		lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
		hints[key] = lines[len(lines)-2]
	}
	{
		s := newScreen(t, massWindow(), About{Name: "prod"}, 80, 24)
		s.palette("release")
		lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
		hints["release"] = lines[len(lines)-2]
		s = newScreen(t, eventfulWindow(), About{Name: "prod"}, 80, 24)
		s.press("3", "/")
		lines = strings.Split(ansi.Strip(s.m.frame()), "\n")
		hints["search"] = lines[len(lines)-2]
	}
	for _, key := range []string{"c", "o", "s"} {
		s := newScreen(t, emptyWindow(refusedLinks()...), About{}, 80, 24, withHost)
		s.press(key)
		lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
		hints[key] = lines[len(lines)-2]
	}
	for key, hint := range hints {
		if strings.HasSuffix(hint, "~") || strings.TrimSpace(hint) == "" {
			t.Errorf("the hint after %s is %q", key, hint)
		}
	}
}

func TestHelpKeyGoesThereAndBack(t *testing.T) {
	s := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24)
	s.press("?")
	if s.m.top() != viewHelp {
		t.Fatal("? does not open help")
	}
	s.press("?")
	if s.m.top() != viewSessions {
		t.Errorf("? in help leads to view %v", s.m.top())
	}
}

func TestATryThatIsDueSaysNow(t *testing.T) {
	l := refusedLinks()[0]
	l.Attempt, l.NextTry = 2, 300*time.Millisecond
	s := newScreen(t, emptyWindow(l), About{}, 80, 24, withHost)
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "try 2 now") || strings.Contains(frame, "in 0s") {
		t.Errorf("a try that is due shows\n%s", frame)
	}
	if got := linkTrouble(&watchdog.Link{Phase: watchdog.LinkDown, Attempt: 3, NextTry: 4 * sec}); !strings.HasSuffix(got, "try 3 in 4s") {
		t.Errorf("a later try reads %q", got)
	}
}

// Who accuses itself says no more than that; what it was at is the why.
func TestASelfAccusedRowShowsItsTask(t *testing.T) {
	w := sickWindow()
	w.Rows[2].Why, w.Rows[2].Task = "publisher says stalled", "tool web.fetch"
	s := newScreen(t, w, About{Name: "prod"}, 120, 40)
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "publisher says stalled: tool web.fetch") {
		t.Errorf("its row lacks the task:\n%s", frame)
	}
}

// The lag of a loop stands in why once: with who says so, if the verdict rests on
// it.
func TestWhySaysTheLagOnce(t *testing.T) {
	for _, evident := range []bool{false, true} {
		w := sickWindow()
		w.Focus.LoopLag = 8502 * time.Millisecond
		if evident {
			w.Focus.Evidence.Inputs = append(w.Focus.Evidence.Inputs, watchdog.Input{Name: "loop_lag", Value: "8502", Unit: "ms", Source: "publisher"})
		}
		s := newScreen(t, w, About{Name: "prod"}, 120, 40)
		s.press("i")
		if frame := ansi.Strip(s.m.frame()); strings.Count(frame, " loop lag ") != 1 {
			t.Errorf("the lag is said %d times:\n%s", strings.Count(frame, " loop lag "), frame)
		}
	}
}

// What an empty list says is wrapped, not cut.
func TestEmptyDumpsSayAllOnANarrowScreen(t *testing.T) {
	s := newScreen(t, sickWindow(), ops1(), 40, 10)
	s.supervise(&fakeChildren{}, sickWindow())
	s.press("6")
	frame := strings.Join(strings.Fields(ansi.Strip(s.m.frame())), " ")
	if !strings.Contains(frame, "stalls is dumped first; T in the table takes one") {
		t.Errorf("%s", frame)
	}
}
