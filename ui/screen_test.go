package ui

import (
	"context"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeFeed answers asks from one window, like a lens would.
type fakeFeed struct {
	mu       sync.Mutex
	about    About
	asks     []watchdog.Ask
	windows  chan watchdog.Window
	retries  int
	children Children
	reasons  []string // of releases
	held     int
	notes    []watchdog.AlertNote
	commands []watchdog.Command
	do       func(watchdog.Command) (watchdog.Action, error)
	err      error
	closed   bool
}

func newFakeFeed(about About) *fakeFeed {
	return &fakeFeed{about: about, windows: make(chan watchdog.Window, 1)}
}

func (f *fakeFeed) Ask(a watchdog.Ask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks = append(f.asks, a)
}
func (f *fakeFeed) Windows() <-chan watchdog.Window { return f.windows }
func (f *fakeFeed) Retry()                          { f.mu.Lock(); f.retries++; f.mu.Unlock() }
func (f *fakeFeed) Children() Children              { return f.children }
func (f *fakeFeed) Release(_ context.Context, reason string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reasons = append(f.reasons, reason)
	return f.held, f.err
}

// Do keeps what was asked for, and answers as the test says.
func (f *fakeFeed) Do(_ context.Context, c watchdog.Command) (watchdog.Action, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands = append(f.commands, c)
	if f.do != nil {
		return f.do(c)
	}
	return watchdog.Action{Command: c, Fate: watchdog.FateRequested}, nil
}

// Note keeps what was said of an alert.
func (f *fakeFeed) Note(_ context.Context, n watchdog.AlertNote) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, n)
	return f.err
}

func (f *fakeFeed) About() About { return f.about }
func (f *fakeFeed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		close(f.windows)
	}
}

func (f *fakeFeed) last() watchdog.Ask {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asks) == 0 {
		return watchdog.Ask{}
	}
	return f.asks[len(f.asks)-1]
}

// screen drives a model without a program: commands run at once, but those
// that wait for a window or for time.
type screen struct {
	t    testing.TB
	m    *Model
	feed *fakeFeed
	now  time.Duration
	quit bool
	can  func(watchdog.ID) watchdog.Can // of those that are picked; nil: nothing is possible
	// follow: the focus of a window is what was asked for.
	follow bool
	held   bool      // the loop is: it makes no looks of its own
	said   []tea.Msg // messages that only Bubble Tea understands
}

// newScreen shows a window at a size.
func newScreen(t testing.TB, w watchdog.Window, about About, width, height int, change ...func(*Options)) *screen {
	t.Helper()
	s := &screen{t: t, feed: newFakeFeed(about), now: time.Hour}
	o := Options{Feed: s.feed, Theme: ThemeDark, Now: func() time.Duration { return s.now }}
	for _, c := range change {
		c(&o)
	}
	if o.Feed == nil {
		s.feed = nil
	}
	s.m = New(o)
	s.run(s.m.Init())
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	if s.feed != nil {
		s.show(w)
	}
	return s
}

// show delivers a window as the answer to the newest ask.
func (s *screen) show(w watchdog.Window) {
	s.t.Helper()
	for range 3 { // the answer may change the cursor, and so the ask
		before := s.m.asking.seq
		s.send(windowArrived{gen: s.m.gen, window: s.answer(w), about: s.feed.about, replay: stateOf(s.feed.about.Replay), tape: tapeOf(s.feed.about.Recorder), children: s.feed.children})
		if s.m.asking.seq == before {
			return
		}
	}
}

// supervise puts children behind the feed.
func (s *screen) supervise(f Children, w watchdog.Window) {
	s.t.Helper()
	s.feed.children = f
	s.show(w)
}

// answer cuts the window that was asked for out of one that has all rows.
func (s *screen) answer(all watchdog.Window) watchdog.Window {
	a := s.feed.last()
	w := all
	if d := all.Focus; s.follow && d != nil && d.ID != a.Focus {
		w.Focus = nil
		if i := slices.IndexFunc(all.Rows, func(r watchdog.Row) bool { return r.ID == a.Focus }); i >= 0 {
			w.Focus = detailOf(all.Rows[i])
			w.Focus.Can = s.can(a.Focus)
		}
	}
	w.Picked = s.pick(&all, &a)
	if a.Match != nil || a.OnlyAttention {
		all.Rows = slices.DeleteFunc(slices.Clone(all.Rows), func(r watchdog.Row) bool {
			return a.Match != nil && !a.Match(candidate(&r)) || a.OnlyAttention && r.Attention == watchdog.AttentionNone
		})
		w.Matched = len(all.Rows)
	}
	w.AskSeq, w.Anchor = a.Seq, -1
	for i := range all.Rows {
		if all.Rows[i].ID == a.Anchor {
			w.Anchor = i
		}
	}
	if a.Height < 0 {
		w.Rows, w.Offset = all.Rows, 0
		return w
	}
	from := min(a.Offset, len(all.Rows))
	if w.Anchor >= 0 && (w.Anchor < from || w.Anchor >= from+a.Height) {
		from = max(w.Anchor-a.Height/2, 0)
	}
	w.Offset = from
	w.Rows = append([]watchdog.Row(nil), all.Rows[from:min(from+a.Height, len(all.Rows))]...)
	return w
}

// pick tells of those that were named, as a lens would.
func (s *screen) pick(all *watchdog.Window, a *watchdog.Ask) []watchdog.Picked {
	var out []watchdog.Picked
	for _, id := range a.Picked {
		i := slices.IndexFunc(all.Rows, func(r watchdog.Row) bool { return r.ID == id })
		if i < 0 {
			continue
		}
		r := &all.Rows[i]
		p := watchdog.Picked{ID: id, Generation: r.Generation, Verdict: r.Verdict, Can: canNothing("nobody listens to its commands"),
			Shown: (a.Match == nil || a.Match(candidate(r))) && (!a.OnlyAttention || r.Attention != watchdog.AttentionNone)}
		if s.can != nil {
			p.Can = s.can(id)
		}
		if d := all.Focus; d != nil && d.ID == id {
			p.BootID, p.FirstSeen = d.BootID, all.Now.Mono-d.Watched
			if s.can == nil {
				p.Can = d.Can
			}
			if d.Process != nil {
				p.Processes = d.Process.Processes
				p.DumpPauses = d.Process.Outlook != nil && d.Process.Outlook.DumpPauses
			}
		}
		out = append(out, p)
	}
	return out
}

func candidate(r *watchdog.Row) *watchdog.Candidate {
	return &watchdog.Candidate{
		ID: []byte(r.ID), Task: []byte(r.Task), State: []byte(r.State), Host: []byte(r.Host), Agent: []byte(r.Agent),
		Generation: r.Generation, Verdict: r.Verdict, Attention: r.Attention, For: r.For, BeatAge: r.BeatAge, WorkAge: r.WorkAge,
		WorkKnown: r.WorkKnown, Uptime: r.Uptime, Credits: r.Credits, Waiting: r.Waiting, Sources: r.Sources,
	}
}

func (s *screen) send(msg tea.Msg) {
	s.t.Helper()
	if _, isKey := msg.(tea.KeyPressMsg); isKey && !s.held {
		s.listen()
	}
	_, cmd := s.m.Update(msg)
	s.run(cmd)
}

// listen makes the looks that a loop which is not held up has made by now.
func (s *screen) listen() {
	for q := &s.m.question; q.looking != 0 && s.now-q.lastKey >= time.Duration(q.looks+1)*lookEvery; {
		s.m.Update(quietLooked{q.looking})
	}
}

// run does what commands do, but for those that wait.
func (s *screen) run(cmd tea.Cmd) {
	s.t.Helper()
	if cmd == nil {
		return
	}
	name := runtime.FuncForPC(reflect.ValueOf(cmd).Pointer()).Name()
	switch {
	case strings.Contains(name, "waitWindow"), strings.Contains(name, "lookAgain"), strings.Contains(name, "readAgain"), strings.Contains(name, "listen"):
		return // they wait: windows are delivered by show, readings by poll
	case strings.Contains(name, "takeKey"):
		s.send(keysSettled{}) // nobody waits for a burst here
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			s.run(c)
		}
	case tea.QuitMsg:
		s.quit = true
	default:
		s.said = append(s.said, msg)
		s.send(msg)
	}
}

// press sends keys with time between them, by their names.
func (s *screen) press(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.now += 100 * time.Millisecond
		s.send(key(name))
	}
}

func key(name string) tea.KeyPressMsg {
	special := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "backspace": tea.KeyBackspace,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "left": tea.KeyLeft, "right": tea.KeyRight, "delete": tea.KeyDelete,
	}
	if c, ok := special[name]; ok {
		return tea.KeyPressMsg{Code: c}
	}
	if name == "shift+tab" {
		return tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
	}
	if name == "space" {
		return tea.KeyPressMsg{Code: ' ', Text: " "}
	}
	if len(name) > 5 && name[:5] == "ctrl+" {
		return tea.KeyPressMsg{Code: rune(name[5]), Mod: tea.ModCtrl}
	}
	if len(name) > 4 && name[:4] == "alt+" {
		return tea.KeyPressMsg{Code: rune(name[4]), Mod: tea.ModAlt}
	}
	r := []rune(name)[0]
	return tea.KeyPressMsg{Code: r, Text: name}
}

// fakeHost opens what the test says.
type fakeHost struct {
	open     func(ctx context.Context, t Target) (Feed, error)
	contexts []string
}

func (h fakeHost) Open(ctx context.Context, t Target) (Feed, error) { return h.open(ctx, t) }
func (h fakeHost) Contexts() []string                               { return h.contexts }
