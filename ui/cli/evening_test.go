package cli

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// evening is one evening of an operator: a recording that is played, in
// simulated time and through an engine of its own, to the screen that people
// see. What is asserted is the text on it.
type evening struct {
	t    *testing.T
	m    *ui.Model
	feed *eveningFeed
	msgs chan tea.Msg
	at   time.Duration // recorded time that is shown, since the start
}

// stage says on what screen an evening is looked at. The zero value is 80x24,
// dark, as one who may act.
type stage struct {
	width, height int
	theme         ui.Theme
	readOnly      bool
	children      ui.Children
	host          ui.Host
}

// eveningFeed plays a recording as if it were live.
type eveningFeed struct {
	ui.Feed  // whatever no evening asks for
	engine   *watchdog.Engine
	player   *recording.Player
	about    ui.About
	children ui.Children
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu  sync.Mutex
	did []watchdog.Command
}

func (f *eveningFeed) Ask(a watchdog.Ask)              { f.engine.Ask(a) }
func (f *eveningFeed) Windows() <-chan watchdog.Window { return f.engine.Windows() }
func (f *eveningFeed) Retry()                          {}
func (f *eveningFeed) About() ui.About                 { return f.about }
func (f *eveningFeed) Children() ui.Children           { return f.children }
func (f *eveningFeed) Close()                          { f.cancel(); f.running.Wait() }

// Do keeps what was asked for.
func (f *eveningFeed) Do(_ context.Context, c watchdog.Command) (watchdog.Action, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, c)
	return watchdog.Action{Command: c, Fate: watchdog.FateRequested}, nil
}

// asked gives what the screen asked to be done so far.
func (f *eveningFeed) asked() []watchdog.Command {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.did
}

func openEvening(t *testing.T, script *recordingtest.Script, s stage) *eveningFeed {
	t.Helper()
	r, err := script.Reader()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &eveningFeed{children: s.children, cancel: cancel,
		about: ui.About{Name: "prod", ReadOnly: s.readOnly, Operator: "ops1", Sweeper: "serve@eu1-01"}}
	cfg := r.Header().EngineConfig()
	cfg.Acts = watchdog.Acts{ReadOnly: s.readOnly, Able: true, Bus: true, Settles: true}
	f.engine = watchdog.NewEngine(cfg)
	f.about.Shift = shift{look: f.engine.Look}
	f.player = recording.NewPlayer(r, f.engine, recording.PlayerOptions{Paused: true})
	f.running.Go(func() { _ = f.engine.Run(ctx) })
	f.running.Go(func() { _ = f.player.Run(ctx) })
	return f
}

// spend plays an evening inside a bubble of simulated time.
func spend(t *testing.T, script *recordingtest.Script, s stage, story func(*evening)) {
	t.Helper()
	if s.width == 0 {
		s.width, s.height = 80, 24
	}
	if s.theme == ui.ThemeAuto {
		s.theme = ui.ThemeDark
	}
	synctest.Test(t, func(t *testing.T) {
		e := &evening{t: t, feed: openEvening(t, script, s), msgs: make(chan tea.Msg, 256)}
		e.m = ui.New(ui.Options{Feed: e.feed, Theme: s.theme, Host: s.host})
		e.run(e.m.Init())
		e.take(tea.WindowSizeMsg{Width: s.width, Height: s.height})
		e.settle()
		story(e)
		e.m.Close()
		synctest.Wait()
		for len(e.msgs) > 0 {
			<-e.msgs
		}
	})
}

func (e *evening) run(cmd tea.Cmd) {
	if cmd != nil {
		go func() { e.msgs <- cmd() }()
	}
}

func (e *evening) take(msg tea.Msg) {
	if batch, ok := msg.(tea.BatchMsg); ok {
		for _, cmd := range batch {
			e.run(cmd)
		}
		return
	}
	_, cmd := e.m.Update(msg)
	e.run(cmd)
}

// settle lets everything happen that needs no time.
func (e *evening) settle() {
	for {
		synctest.Wait()
		select {
		case msg := <-e.msgs:
			e.take(msg)
		default:
			return
		}
	}
}

// until plays on, without a key, to a recorded time since the start.
func (e *evening) until(at time.Duration) {
	e.t.Helper()
	const own = 20 // steps of the screen's own time: the lens answers, and looks once more
	e.at = max(at-own*step, 0)
	e.feed.player.Seek(e.at)
	e.pass(own)
	if reached := e.feed.player.Progress().Offset; reached < at-time.Second {
		e.t.Fatalf("the recording was played to %v, not to %v", reached, at)
	}
}

// press presses keys, slower than a burst, and lets what follows from them
// happen: "n", "enter", "esc".
func (e *evening) press(keys ...string) {
	e.t.Helper()
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "space": ' '}
	for _, key := range keys {
		code, special := codes[key]
		msg := tea.KeyPressMsg{Code: code}
		if !special {
			code = []rune(key)[0]
			msg = tea.KeyPressMsg{Code: code, Text: key}
		}
		e.take(msg)
		e.pass(5)
	}
}

// wait lets a second pass on the screen's own clock.
func (e *evening) wait() {
	e.pass(10)
}

// step is how far the recorded time and the screen's own go together.
const step = 100 * time.Millisecond

// pass lets both times go on, for an engine whose time stands is blocked.
func (e *evening) pass(steps int) {
	for range steps {
		e.at += step
		e.feed.player.Seek(e.at)
		time.Sleep(step)
		e.settle()
	}
}

// frame is what stands on the screen, without its colours.
func (e *evening) frame() string { return ansi.Strip(e.m.View().Content) }

// shows fails unless every pattern is found on one line of the screen.
func (e *evening) shows(patterns ...string) {
	e.t.Helper()
	frame := e.frame()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(frame) {
			e.t.Errorf("after %v the screen does not show %q:\n%s", e.at, p, frame)
		}
	}
}

// hides fails if one of the texts stands anywhere.
func (e *evening) hides(texts ...string) {
	e.t.Helper()
	frame := e.frame()
	for _, text := range texts {
		if strings.Contains(frame, text) {
			e.t.Errorf("after %v the screen shows %q:\n%s", e.at, text, frame)
		}
	}
}
