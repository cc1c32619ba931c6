package ui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (s *screen) palette(text string) {
	s.t.Helper()
	s.press(":")
	for _, r := range text {
		if r == ' ' {
			s.press("space")
			continue
		}
		s.press(string(r))
	}
	s.press("enter")
}

func TestRelease(t *testing.T) {
	s := newScreen(t, massWindow(), About{Name: "prod", Sweeper: "serve@eu1"}, 80, 24)
	s.feed.held = 400
	s.palette("release")
	frame := ansi.Strip(s.m.frame())
	if !strings.Contains(frame, "RELEASE 400 held") || strings.Contains(frame, "esc: n~") {
		t.Fatalf("it does not say how many, or not whole:\n%s", frame)
	}
	s.press("enter")
	if s.m.prompt == nil || s.m.prompt.err == "" || len(s.feed.reasons) > 0 {
		t.Error("released without a reason")
	}
	s.press("r", "a", "c", "k", "enter")
	if diff := cmp.Diff([]string{"rack"}, s.feed.reasons); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(s.m.note.text, "released: 400 sessions") {
		t.Errorf("the screen says %q", s.m.note.text)
	}
	s.feed.err = errors.New("nobody here settles; name a serve")
	s.palette("release rack 7")
	if s.m.prompt == nil || s.m.prompt.in.String() != "rack 7" {
		t.Fatal("the reason behind the name is lost")
	}
	s.press("enter")
	if !strings.Contains(s.m.note.text, "not released: nobody here settles") {
		t.Errorf("the screen says %q", s.m.note.text)
	}
}

func TestReleaseRefusesBeforeAnyQuestion(t *testing.T) {
	for want, s := range map[string]*screen{
		"READ-ONLY":       newScreen(t, massWindow(), About{Name: "prod", ReadOnly: true}, 80, 24),
		"nothing is held": newScreen(t, quietWindow(), About{Name: "prod"}, 80, 24),
	} {
		s.palette("release")
		if s.m.prompt != nil || !strings.Contains(s.m.note.text, want) {
			t.Errorf("%s: the screen says %q", want, s.m.note.text)
		}
	}
}

// What is held may change while the reason is typed.
func TestReleaseIsOfWhatWasNamed(t *testing.T) {
	s := newScreen(t, massWindow(), About{Name: "prod"}, 80, 24)
	s.palette("release")
	more := massWindow()
	more.Groups[0].N = 900
	s.show(more)
	s.press("x", "enter")
	if s.m.prompt == nil || !strings.Contains(s.m.prompt.err, "900 are held now") || len(s.feed.reasons) > 0 {
		t.Error("more were released than was named")
	}
	s.show(quietWindow())
	s.press("enter")
	if s.m.prompt != nil || len(s.feed.reasons) > 0 || !strings.Contains(s.m.note.text, "nothing is held any more") {
		t.Errorf("the screen says %q", s.m.note.text)
	}
}

func TestLeavingAsksIfChildrenWouldEnd(t *testing.T) {
	about := About{Name: "local", Supervised: []watchdog.ID{"indexer", "etl"}}
	s := newScreen(t, runningChild(), about, 80, 24)
	s.press("q")
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"LEAVE ?", "2 sessions supervised here: indexer, etl", "y leave and stop them", "n, enter, esc stay (default)"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	s.press("y") // too soon: it may have been typed ahead
	if s.quit {
		t.Fatal("a key that was typed ahead left")
	}
	for _, stay := range []string{"n", "enter", "esc", "q"} {
		s.now += time.Second
		s.press(stay)
		if s.quit || s.m.top() != viewSessions {
			t.Errorf("%s does not stay", stay)
		}
		s.now += time.Second
		s.press("q")
	}
	s.now += time.Second
	s.press("x", "Y")
	if s.quit {
		t.Error("another key left")
	}
	s.now += time.Second
	s.press("y")
	if !s.quit {
		t.Error("y does not leave")
	}
	s = newScreen(t, runningChild(), about, 80, 24)
	s.press("ctrl+c")
	if s.quit {
		t.Error("ctrl+c left without asking")
	}
	s.press("ctrl+c")
	if !s.quit {
		t.Error("ctrl+c twice does not leave")
	}
	s = newScreen(t, runningChild(), About{Name: "prod"}, 80, 24)
	s.press("q")
	if !s.quit {
		t.Error("it asks though nothing would end")
	}
}

func TestOpeningAnotherAsksIfChildrenWouldEnd(t *testing.T) {
	o := &opens{answer: func(Target) (Feed, error) { return newFakeFeed(About{}), nil }}
	s := newScreen(t, runningChild(), About{Name: "local", Supervised: []watchdog.ID{"indexer"}}, 80, 24, func(opt *Options) { opt.Host = o.host() })
	s.palette("ctx prod")
	if len(o.targets) > 0 || !strings.Contains(ansi.Strip(s.m.frame()), "OPEN context prod ?") {
		t.Fatalf("opened %v without asking:\n%s", o.targets, ansi.Strip(s.m.frame()))
	}
	s.now += time.Second
	s.press("y")
	if len(o.targets) != 1 {
		t.Error("y does not open it")
	}
}

func TestSplitCommand(t *testing.T) {
	for text, want := range map[string][]string{
		"python3 agent.py":            {"python3", "agent.py"},
		`  sh -c 'echo "a b" $HOME' `: {"sh", "-c", `echo "a b" $HOME`},
		`a\ b "c \" d" ''`:            {"a b", `c " d`, ""},
		"日本 x":                        {"日本", "x"},
	} {
		got, err := splitCommand(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for text, want := range map[string]string{"": "type a command", `a "b`: "not closed", `a \`: "backslash", "''": "type a command"} {
		if _, err := splitCommand(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
