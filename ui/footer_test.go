package ui

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// footer is the last line of a screen.
func (s *screen) footer() string {
	lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
	return lines[len(lines)-1]
}

// TestFooterSaysWhatAKeyDoesNow: not what it did before.
func TestFooterSaysWhatAKeyDoesNow(t *testing.T) {
	r := &fakeReplay{}
	s := newScreen(t, sickWindow(), About{Name: "night", ReadOnly: true, Replay: r}, 80, 24)
	for _, c := range []struct{ keys, want string }{{"", "space pause"}, {"space", "space play"}, {"space", "space pause"}} {
		s.press(strings.Fields(c.keys)...)
		s.show(sickWindow())
		if got := s.footer(); !strings.HasPrefix(got, " "+c.want+"  ") {
			t.Errorf("after %q the footer is %q", c.keys, got)
		}
	}
	r.ended = true
	s.show(sickWindow())
	if got := s.footer(); !strings.HasPrefix(got, " space once more  ") {
		t.Errorf("at the end the footer is %q", got)
	}
}

// TestFooterOffersWhatIsOfUse in each view of lines: looking for text, unless there is
// none.
func TestFooterOffersWhatIsOfUse(t *testing.T) {
	for _, f := range shots() {
		s := f.open(t, 120, 40)
		in := s.m.scene()
		if in&inLines == 0 || s.m.note.text != "" {
			continue
		}
		lines := s.m.lines()
		if got := strings.Contains(s.footer(), "/ search"); got != (lines.total > 0) {
			t.Errorf("%s with %d lines: %q", f.name, lines.total, s.footer())
		}
	}
}

// TestContextsAreOffWithoutAny: the palette says why before they are chosen.
func TestContextsAreOffWithoutAny(t *testing.T) {
	for _, contexts := range [][]string{nil, {"prod"}} {
		s := newScreen(t, sickWindow(), About{}, 80, 24, func(o *Options) { o.Host = fakeHost{contexts: contexts} })
		s.press(":")
		list := s.m.palette.entries
		at := slices.IndexFunc(list, func(e paletteEntry) bool { return e.name == "ctx" })
		if at < 0 || (list[at].off == "") != (len(contexts) > 0) {
			t.Errorf("with %d contexts the palette has %+v", len(contexts), list[max(at, 0)])
		}
	}
}

// TestWhatIsOffIsSaidOnce: the word beside a reason stands in the reason too.
func TestWhatIsOffIsSaidOnce(t *testing.T) {
	for _, keys := range []string{":", "? / r e a d - enter"} {
		s := newScreen(t, sickWindow(), About{Name: "prod", ReadOnly: true}, 200, 60)
		s.press(strings.Fields(keys)...)
		if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, ": off, ") || !strings.Contains(frame, "off: prod is READ-ONLY") {
			t.Errorf("after %s:\n%s", keys, frame)
		}
	}
}
