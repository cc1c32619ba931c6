package ui

import (
	"maps"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeHints remembers in memory.
type fakeHints map[string]int

func (f fakeHints) Recall() map[string]int { return maps.Clone(f) }
func (f fakeHints) Keep(counts map[string]int) {
	for name, n := range counts {
		f[name] = max(f[name], n)
	}
}

func hinted(f fakeHints) func(*Options) { return func(o *Options) { o.Hints = f } }

// ruleOf is the line of the strip's title, in which a hint stands.
func (s *screen) ruleOf() string {
	for line := range strings.Lines(ansi.Strip(s.m.frame())) {
		if strings.Contains(line, " of 2,0") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// TestHintLeavesOnceItsKeyWasUsed, for this screen and the next.
func TestHintLeavesOnceItsKeyWasUsed(t *testing.T) {
	memory := fakeHints{}
	s := newScreen(t, sickWindow(), ops1(), 80, 24, hinted(memory))
	for _, step := range []struct{ want, key string }{
		{"i why it is so, with the evidence", "i"}, {"n the next that needs you", "n"}, {"2 alerts: answer them", "2"},
		{"! only what needs you", "!"},
	} {
		if got := s.ruleOf(); !strings.Contains(got, step.want) {
			t.Fatalf("%q is not in %q", step.want, got)
		}
		s.press(step.key)
		s.show(sickWindow())
		s.press("esc")
		s.show(sickWindow())
	}
	for _, name := range []string{"why", "next", "alerts", "attention"} {
		if memory[name] != HintsEnough {
			t.Errorf("%s is remembered as %d", name, memory[name])
		}
	}
	again := newScreen(t, sickWindow(), ops1(), 80, 24, hinted(memory))
	if got := again.ruleOf(); !strings.Contains(got, "/ filter:") {
		t.Errorf("the next screen says %q", got)
	}
}

// TestHintLeavesAfterSomeSittings though nobody used its key.
func TestHintLeavesAfterSomeSittings(t *testing.T) {
	memory := fakeHints{}
	for range HintsEnough {
		s := newScreen(t, sickWindow(), ops1(), 80, 24, hinted(memory))
		for range 3 {
			s.show(sickWindow())
		}
		if got := s.ruleOf(); !strings.Contains(got, "i why it is so") {
			t.Fatalf("%v: %q", memory, got)
		}
	}
	if s := newScreen(t, sickWindow(), ops1(), 80, 24, hinted(memory)); strings.Contains(s.ruleOf(), "why it is so") {
		t.Errorf("%v: %q", memory, s.ruleOf())
	}
}

// TestHintsStayAway where they are off, where somebody is asked, where nothing is
// known of them, and where a line would have to go for them.
func TestHintsStayAway(t *testing.T) {
	text := func(s *screen) string { return ansi.Strip(s.m.frame()) }
	plain := newScreen(t, sickWindow(), ops1(), 80, 24)
	if strings.Contains(text(plain), "why it is so") {
		t.Error("a hint without a memory")
	}
	for _, size := range sizes {
		with, without := newScreen(t, sickWindow(), ops1(), size[0], size[1], hinted(fakeHints{})), newScreen(t, sickWindow(), ops1(), size[0], size[1])
		a, b := strings.Split(text(with), "\n"), strings.Split(text(without), "\n")
		for i := range b {
			if a[i] != b[i] && !strings.Contains(b[i], "1 of 2,002 ──") {
				t.Errorf("%v: instead of %q it says %q", size, b[i], a[i])
			}
		}
		if size[1] >= 24 && text(with) == text(without) {
			t.Errorf("%v: no hint:\n%s", size, text(with))
		}
	}
	for _, keys := range []string{"?", ":", "/", "s", "j k ... S", "3"} {
		memory := fakeHints{}
		s := questionScreen(t, hungWindow(), keys, 80, 24, hinted(memory))
		if s.m.hints.current != nil {
			t.Errorf("after %s it points out %s:\n%s", keys, s.m.hints.current.action, text(s))
		}
	}
	w := sickWindow()
	w.Focus.ID, w.Rows[0].ID = watchdog.ID(strings.Repeat("long-", 30)), watchdog.ID(strings.Repeat("long-", 30))
	if s := newScreen(t, w, ops1(), 80, 24, hinted(fakeHints{})); strings.Contains(text(s), "why it is so") {
		t.Errorf("over a name:\n%s", text(s))
	}
}

// TestHintOfAnotherKey: a key that was rebound is the one that is pointed out, and
// an action without a key is not.
func TestHintOfAnotherKey(t *testing.T) {
	for keys, want := range map[string]string{"w": "w why it is so", "": "n the next"} {
		km, faults := DefaultKeyMap().Rebind(map[string]string{"why": keys})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		s := newScreen(t, sickWindow(), ops1(), 80, 24, hinted(fakeHints{}), func(o *Options) { o.KeyMap = km })
		if got := s.ruleOf(); !strings.Contains(got, want) {
			t.Errorf("%q: %q", keys, got)
		}
	}
}
