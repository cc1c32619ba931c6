package ui

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestLagOfOurOwnLoopsIsShownOnceItIsWorthIt(t *testing.T) {
	for _, c := range []struct {
		screen, engine time.Duration
		score          int
		want           string
	}{
		{0, 0, 0, ""},
		{100 * time.Millisecond, 100 * time.Millisecond, 0, ""},
		{254 * time.Millisecond, 0, 0, "lag screen 250ms"},
		{0, 1200 * time.Millisecond, 0, "lag engine 1.2s"},
		{2 * time.Second, 300 * time.Millisecond, 0, "lag screen 2s, engine 300ms"},
		{2 * time.Second, 3 * time.Second, 2, "lag screen 2s"}, // the rest is said with the score
	} {
		m := New(Options{Lag: func() time.Duration { return c.screen }})
		m.window.Self.Lag, m.window.Self.Score = c.engine, c.score
		if got := m.lagText(); got != c.want {
			t.Errorf("screen %v, engine %v, score %d: %q, want %q", c.screen, c.engine, c.score, got, c.want)
		}
	}
	if got := New(Options{}).lagText(); got != "" {
		t.Errorf("without a watchdog: %q", got)
	}
}

// bubbleTime is the clock of a bubble.
type bubbleTime struct{ began time.Time }

func (c bubbleTime) Now() watchdog.Instant {
	up := time.Since(c.began)
	return watchdog.Instant{Mono: up, Boot: up, Wall: time.Now().UnixNano()}
}

// gate is a tap that holds the engine up while somebody else has its one place.
type gate chan struct{}

func (g gate) Beats([]watchdog.Beat) { g.Event(nil) }
func (g gate) Event(watchdog.Event)  { g <- struct{}{}; <-g }

// realFeed is a feed with an engine behind it.
type realFeed struct {
	*fakeFeed
	engine *watchdog.Engine
}

func (f realFeed) Ask(a watchdog.Ask)              { f.engine.Ask(a) }
func (f realFeed) Windows() <-chan watchdog.Window { return f.engine.Windows() }

// A blocked engine sends nothing by itself, and still answers what is asked: the
// screen must see it within two seconds all the same, and that it goes on again.
func TestBlockedEngineIsSaidWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shut := make(gate, 1)
		start := bubbleTime{time.Now()}
		engine := watchdog.NewEngine(watchdog.EngineConfig{Policy: watchdog.DefaultPolicy(), Clock: start, Start: start.Now(), Tap: shut})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); _ = engine.Run(ctx) }()
		m := New(Options{Feed: realFeed{newFakeFeed(About{Name: "prod"}), engine}, Theme: ThemeDark})
		var out lockedBuffer
		in, keyboard := io.Pipe()
		p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(&out), tea.WithoutSignalHandler(), tea.WithFPS(30),
			tea.WithColorProfile(colorprofile.ANSI256), tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithWindowSize(80, 24))
		done := make(chan error, 1)
		go func() { _, err := p.Run(); done <- err }()
		time.Sleep(5 * time.Minute)
		if strings.Contains(out.String(), "BLOCKED") {
			t.Error("an engine that goes on is called blocked")
		}
		shut <- struct{}{}
		for range 10 { // what is asked is answered, with a time that stands
			time.Sleep(100 * time.Millisecond)
			engine.Ask(watchdog.Ask{Seq: 1 << 40, Height: 20})
		}
		time.Sleep(950 * time.Millisecond)
		synctest.Wait()
		if !strings.Contains(out.String(), "BLOCKED") {
			t.Error("two seconds after the engine was blocked nothing is said")
		}
		<-shut
		time.Sleep(2 * time.Second)
		synctest.Wait()
		before := len(out.String())
		time.Sleep(time.Minute)
		if strings.Contains(out.String()[before:], "BLOCKED") {
			t.Error("it is called blocked though it goes on again")
		}
		p.Quit()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if m.pulse.still != 0 {
			t.Errorf("it is still called blocked for %v", m.pulse.still)
		}
		m.Close()
		cancel()
		<-ran
		keyboard.Close()
		in.Close()
	})
}
