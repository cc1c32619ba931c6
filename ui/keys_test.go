package ui

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestNoKeyDoesTwoThings(t *testing.T) {
	for _, err := range DefaultKeyMap().conflicts() {
		t.Error(err)
	}
	names := map[string]bool{}
	for _, a := range allActions() {
		if names[a.name] {
			t.Errorf("two actions are called %s", a.name)
		}
		names[a.name] = true
		if a.do == nil && a.off == nil {
			t.Errorf("%s can neither be done nor says why not", a.name)
		}
		if a.help == "" || a.group == "" {
			t.Errorf("%s has no place in help", a.name)
		}
		for _, k := range strings.Fields(a.keys) {
			if why, bad := forbidden[k]; bad && !a.fixed {
				t.Errorf("%s is bound to %s, but %s", a.name, k, why)
			}
		}
	}
}

// Help shows exactly the keys that the dispatcher knows.
func TestHelpEqualsDispatcher(t *testing.T) {
	m := New(Options{})
	inHelp := map[string]bool{}
	for _, l := range m.helpLines() {
		if l.heading || l.glyph != "" {
			continue
		}
		for _, k := range strings.Fields(l.left) {
			inHelp[k] = true
		}
	}
	for in, keys := range m.bound {
		for k, a := range keys {
			if !inHelp[k] {
				t.Errorf("%s does %s in %s, but help does not say so", k, a.name, sceneNames[in])
			}
		}
	}
	for _, a := range m.actions {
		for _, k := range m.keys[a.name] {
			for _, in := range a.in.scenes() {
				if got := m.bound[in][k]; got == nil || got.name != a.name {
					t.Errorf("help gives %s for %s, but in %s it does something else", k, a.name, sceneNames[in])
				}
			}
		}
	}
}

func TestLowerCaseNeverTouchesAnAgent(t *testing.T) {
	m := New(Options{})
	for in, keys := range m.bound {
		for k, a := range keys {
			if a.touch && (len(k) != 1 || k[0] < 'A' || k[0] > 'Z') {
				t.Errorf("%s touches an agent in %s (%s)", k, sceneNames[in], a.name)
			}
		}
	}
	if _, errs := m.keys.Rebind(map[string]string{"stop": "x"}); len(errs) == 0 {
		t.Error("stop was bound to a lower-case letter")
	}
}

func TestRebind(t *testing.T) {
	km, errs := DefaultKeyMap().Rebind(map[string]string{"why": "w y"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff([]string{"w", "y"}, km["why"]); diff != "" {
		t.Error(diff)
	}
	s := newScreen(t, sickWindow(), About{}, 80, 24, func(o *Options) { o.KeyMap = km })
	s.press("i")
	if s.m.top() == viewWhy {
		t.Error("the old key still works")
	}
	s.press("y")
	if s.m.top() != viewWhy {
		t.Error("the new key does not work")
	}
	for name, keys := range map[string]string{
		"nothing": "x", "why": "n", "sort": "ctrl+i", "filter": "alt+x", "help": "esc", "undo": "x", "accept": "a", "redraw": "x", "next": "ctrl-x", "columns": "foo",
	} {
		if _, errs := DefaultKeyMap().Rebind(map[string]string{name: keys}); len(errs) == 0 {
			t.Errorf("%s: %q was accepted", name, keys)
		}
	}
}

// What shows a key shows the one that it was bound to, wherever that is.
func TestRebindingIsShownEverywhere(t *testing.T) {
	km, errs := DefaultKeyMap().Rebind(map[string]string{"why": "W", "help": "f1", "filter": "", "mark": "ctrl+space"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	s := newScreen(t, sickWindow(), About{}, 120, 40, func(o *Options) { o.KeyMap = km })
	lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
	footer := lines[len(lines)-1]
	if !strings.Contains(footer, "W why") || !strings.Contains(footer, "f1 help") || strings.Contains(footer, "filter") {
		t.Errorf("the footer is %q", footer)
	}
	s.press("W")
	if s.m.top() != viewWhy {
		t.Error("the new key does not work")
	}
	s.press("esc", ":")
	frame := ansi.Strip(s.m.frame())
	for _, must := range []string{"why               W ", "filter                      "} {
		if !strings.Contains(frame, must) {
			t.Errorf("the palette lacks %q:\n%s", must, frame)
		}
	}
	s.press("esc")
	s.m.openView(viewHelp)
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "  W              why:") || !strings.Contains(frame, ":filter") {
		t.Errorf("help shows\n%s", frame)
	}
	_, errs = DefaultKeyMap().Rebind(map[string]string{"why": "n", "sort": "n"})
	for _, err := range errs {
		if !strings.Contains(err.Error(), "n does both") || !strings.Contains(err.Error(), "bind one of them to another key") {
			t.Errorf("two actions on one key: %v", err)
		}
	}
	if len(errs) == 0 {
		t.Error("two actions on one key were accepted")
	}
}

// fault 45
func TestBurst(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	burst := func(names ...string) {
		s.now += time.Second
		for _, n := range names {
			s.now += time.Millisecond
			s.m.Update(key(n))
		}
		s.now += time.Second
		s.send(keysSettled{})
	}
	burst("i", "Z", "q")
	if s.m.top() != viewSessions || s.m.table.frozen || s.quit {
		t.Error("a key of a burst did something")
	}
	if s.m.burst.total != 3 || !strings.Contains(s.m.note.text, "3 keys") {
		t.Errorf("%d were counted, and the screen says %q", s.m.burst.total, s.m.note.text)
	}
	burst("j", "j", "j", "j", "i")
	if got := s.m.table.at; got != 4 {
		t.Errorf("the moves of a burst led to row %d, not 4", got)
	}
	if s.m.top() != viewSessions {
		t.Error("the last key of a burst opened a view")
	}
	burst("i")
	if s.m.top() != viewWhy {
		t.Error("a single key was dropped")
	}
	burst("q", "Z") // two are no burst
	if !s.m.table.frozen {
		t.Error("two keys were taken for a burst")
	}
}

func TestKeysKeepTheirOrder(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.now += time.Second
	s.m.Update(key("i"))
	s.now += time.Millisecond
	s.m.Update(key("j")) // must not move before the view is open
	s.send(keysSettled{})
	if s.m.top() != viewWhy || s.m.table.at != 0 {
		t.Errorf("the move overtook the key before it: row %d", s.m.table.at)
	}
}

func TestAltCountsAsEsc(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("i", "alt+S")
	if s.m.top() != viewSessions {
		t.Error("alt with a key did not undo the view")
	}
	s.press("/", "alt+x")
	if s.m.prompt != nil {
		t.Error("alt with a key did not leave the prompt")
	}
}

// fault 45
func TestPasteOutsideAnInputDoesNothing(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.send(tea.PasteMsg{Content: "qqq S y"})
	if s.quit || s.m.top() != viewSessions || !strings.Contains(s.m.note.text, "ignored") {
		t.Errorf("a paste did something; the screen says %q", s.m.note.text)
	}
	s.press("/")
	s.send(tea.PasteMsg{Content: "batch\x1b]52;c;aGk=\x07\n"})
	if got := s.m.prompt.in.String(); strings.ContainsAny(got, "\x1b\x07\n") || !strings.HasPrefix(got, "batch") {
		t.Errorf("pasted %q", got)
	}
}

func TestLeaving(t *testing.T) {
	for name, keys := range map[string][]string{
		"q": {"q"}, "ctrl+c": {"ctrl+c"}, "q from a view": {"i", "q", "q"}, "ctrl+c twice from a prompt": {"i", "q", "/", "ctrl+c", "ctrl+c"},
		"ctrl+c twice from help": {"?", "ctrl+c", "ctrl+c"},
	} {
		s := newScreen(t, sickWindow(), About{}, 80, 24)
		s.press(keys[:len(keys)-1]...)
		if s.quit {
			t.Errorf("%s: left too early", name)
		}
		s.press(keys[len(keys)-1])
		if !s.quit {
			t.Errorf("%s: still there", name)
		}
	}
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("esc", "esc", "esc", "i", "esc", "/", "esc")
	if s.quit {
		t.Error("esc quits")
	}
	s.press("?", "/", "ctrl+c")
	s.now += 2 * time.Second
	s.press("ctrl+c")
	if s.quit || s.m.top() != viewSessions {
		t.Error("two ctrl+c with time between them do not go back one layer each")
	}
}

func TestEscUndoesOneLayer(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("/", "b", "a", "t", "c", "h", "enter")
	s.press("!", "i", ":")
	layers := func() string {
		m := s.m
		return strings.Join([]string{word(m.palette != nil, "palette"), word(m.top() == viewWhy, "why"), word(m.query.text != "", "filter"), word(m.query.only, "need")}, " ")
	}
	var got []string
	for range 5 {
		got = append(got, strings.TrimSpace(layers()))
		s.press("esc")
	}
	want := []string{"palette why filter need", "why filter need", "filter need", "need", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func word(on bool, w string) string {
	if on {
		return w
	}
	return ""
}

// What cannot work says so, in help and when its key is pressed.
func TestWhatIsOffSaysWhy(t *testing.T) {
	s := newScreen(t, sickWindow(), About{Name: "prod", ReadOnly: true}, 80, 24)
	for i := range s.m.actions {
		a := &s.m.actions[i]
		off := s.m.offReason(a)
		keys := s.m.keys[a.name]
		if off == "" || a.in&inSessions == 0 || len(keys) == 0 {
			continue
		}
		s.press(keys[0])
		if got := s.m.note.text; got != off {
			t.Errorf("%s (%s): the screen says %q, help says %q", keys[0], a.name, got, off)
		}
	}
	s.press("S")
	if !strings.Contains(s.m.note.text, "prod is READ-ONLY") {
		t.Errorf("S on a read-only view says %q", s.m.note.text)
	}
	s.press("i")
	if !strings.Contains(ansi.Strip(s.m.frame()), "IF RESTARTED") {
		t.Error("i does not answer what a restart would mean")
	}
}

func TestFooterOffersNothingThatIsOff(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 200, 60)
	lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
	footer := lines[len(lines)-1]
	for i := range s.m.actions {
		a := &s.m.actions[i]
		if a.foot != "" && s.m.offReason(a) != "" && strings.Contains(footer, a.foot) {
			t.Errorf("the footer offers %s", a.name)
		}
	}
	for _, must := range []string{"n next", "i why", "/ filter", ": actions", "? help", "q quit"} {
		if !strings.Contains(footer, must) {
			t.Errorf("the footer %q lacks %q", footer, must)
		}
	}
}

func TestHelpSearch(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 120, 40)
	s.press("?", "/")
	s.press(strings.Split("freeze", "")...)
	frame := ansi.Strip(s.m.frame())
	if !strings.Contains(frame, "freeze the table") || strings.Contains(frame, "half a page") {
		t.Errorf("searching for freeze shows\n%s", frame)
	}
	s.press("enter", "esc")
	if s.m.search != "" || s.m.top() != viewHelp {
		t.Error("esc does not show all of help again")
	}
}

func TestPaletteHasEveryAction(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press(":")
	var names []string
	for _, e := range s.m.palette.entries {
		names = append(names, e.name)
	}
	for _, want := range []string{"ctx", "release", "trial", "record", "demo", "freeze", "stop", "columns", "connect"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in the palette: %v", want, names)
		}
	}
	s.press(strings.Split("frz", "")...)
	s.press("enter")
	if !s.m.table.frozen {
		t.Error("frz does not find freeze")
	}
	s.press(":")
	s.press(strings.Split("trial", "")...)
	s.press("enter")
	if !strings.Contains(s.m.note.text, "this serve keeps nothing to try on") {
		t.Errorf("trial says %q", s.m.note.text)
	}
}

func TestCopyShowsTheID(t *testing.T) {
	var copied string
	s := newScreen(t, sickWindow(), About{}, 80, 24, func(o *Options) {
		o.Copy = func(text string, done func(error) tea.Msg) tea.Cmd {
			copied = text
			return func() tea.Msg { return done(errNoClipboard) }
		}
	})
	s.press("c")
	if copied != "indexer" || !strings.Contains(s.m.note.text, "no clipboard") || !strings.Contains(s.m.note.text, "indexer") {
		t.Errorf("copied %q; the screen says %q", copied, s.m.note.text)
	}
}

type clipboardError string

func (e clipboardError) Error() string { return string(e) }

const errNoClipboard = clipboardError("no clipboard here")

func TestSortAndColumns(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("s", "j", "enter", "I")
	if a := s.feed.last(); a.Sort == nil || !a.Invert {
		t.Error("the order was not asked for")
	}
	if s.m.top() != viewSessions {
		t.Error("the menu stayed")
	}
	s.press("C")
	for i, it := range s.m.menu.items(s.m) {
		if it.name == "BEAT" {
			s.m.menu.sel = i
		}
	}
	s.press("space", "esc")
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "BEAT") {
		t.Errorf("BEAT is still there:\n%s", frame)
	}
}

func TestVerdictFilterKeepsGoodEnds(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("/")
	s.press(strings.Split("verdict:completed", "")...)
	s.press("enter")
	if a := s.feed.last(); !a.KeepEnded || a.Match == nil || !a.Match(&watchdog.Candidate{Verdict: watchdog.Completed}) {
		t.Error("completed sessions are not asked for")
	}
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "filter  verdict:completed") {
		t.Errorf("no banner:\n%s", frame)
	}
}

func TestFilterErrorStandsInThePrompt(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("/")
	s.press(strings.Split("verdict:nonsense", "")...)
	s.press("enter")
	if s.m.prompt == nil || !strings.Contains(ansi.Strip(s.m.frame()), "nonsense\" is not a value") {
		t.Errorf("the error is not shown:\n%s", ansi.Strip(s.m.frame()))
	}
	s.press("esc")
	if s.m.query.text != "" {
		t.Error("esc kept a filter that was never there")
	}
}

func TestBurstIsToldByTimeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := newFakeFeed(About{})
		m := New(Options{Feed: feed, Theme: ThemeDark}) // with the clock that the program uses
		m.Init()
		m.resize(80, 24)
		m.Update(windowArrived{gen: m.gen, window: sickWindow()})
		time.Sleep(time.Second)
		_, wait := m.Update(key("i"))
		m.Update(wait()) // 10 ms go by
		if m.top() != viewWhy {
			t.Error("a single key was not passed on after its wait")
		}
		time.Sleep(time.Second)
		_, wait = m.Update(key("q"))
		m.Update(key("Z"))
		m.Update(key("S"))
		m.Update(wait())
		if m.top() != viewWhy || m.burst.total != 3 {
			t.Errorf("%d keys of a burst of 3 were dropped", m.burst.total)
		}
	})
}

func TestMouse(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	if s.m.View().MouseMode != tea.MouseModeNone {
		t.Error("the mouse is on by default")
	}
	s.send(tea.MouseClickMsg{X: 5, Y: 5, Button: tea.MouseLeft})
	if s.m.table.at != 2 {
		t.Errorf("a click led to row %d", s.m.table.at)
	}
	s.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	if s.m.table.at != 2+wheelRows {
		t.Errorf("the wheel led to row %d", s.m.table.at)
	}
}

func TestZeroShowsAll(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("/", "x", "enter", "!", "0")
	if a := s.feed.last(); a.Match != nil || a.OnlyAttention {
		t.Error("0 does not show all")
	}
}
