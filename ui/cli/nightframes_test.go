package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// still is a feed that stands at one moment of the night.
type still struct {
	tracker *watchdog.Tracker
	windows chan watchdog.Window
}

func nightStill(t *testing.T, at time.Duration) *still {
	t.Helper()
	r, err := openRecording("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := &still{tracker: watchdog.NewTracker(r.Header().Policy, r.Header().Started), windows: make(chan watchdog.Window, 1)}
	if _, err := recording.Replay(r, f.tracker, recording.ReplayOptions{Until: at}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *still) Ask(a watchdog.Ask) {
	select {
	case <-f.windows:
	default:
	}
	f.windows <- f.tracker.Look(a)
}

func (f *still) Windows() <-chan watchdog.Window                { return f.windows }
func (f *still) Retry()                                         {}
func (f *still) Close()                                         {}
func (f *still) Children() ui.Children                          { return nil }
func (f *still) Release(context.Context, string) (int, error)   { return 0, nil }
func (f *still) Note(context.Context, watchdog.AlertNote) error { return nil }
func (f *still) Do(context.Context, watchdog.Command) (watchdog.Action, error) {
	return watchdog.Action{}, nil
}
func (f *still) About() ui.About {
	return ui.About{Name: nightName, ReadOnly: true, Replay: held{}}
}

// held is a recording that is paused.
type held struct{}

func (held) Pause()              {}
func (held) Resume()             {}
func (held) Paused() bool        { return true }
func (held) Step(int)            {}
func (held) SetSpeed(float64)    {}
func (held) Speed() float64      { return nightSpeed }
func (held) End() (bool, string) { return false, "" }

// frameOf is what the screen shows of f after the keys.
func frameOf(f ui.Feed, width, height int, keys string) string {
	m := ui.New(ui.Options{Feed: f, Theme: ui.ThemeNone})
	msgs := make(chan tea.Msg, 64)
	run := func(cmd tea.Cmd) {
		if cmd != nil {
			go func() { msgs <- cmd() }()
		}
	}
	take := func(msg tea.Msg) {
		if batch, ok := msg.(tea.BatchMsg); ok {
			for _, cmd := range batch {
				run(cmd)
			}
			return
		}
		_, cmd := m.Update(msg)
		run(cmd)
	}
	settle := func() {
		for {
			synctest.Wait()
			select {
			case msg := <-msgs:
				take(msg)
			default:
				return
			}
		}
	}
	run(m.Init())
	take(tea.WindowSizeMsg{Width: width, Height: height})
	settle()
	for _, key := range keys {
		take(tea.KeyPressMsg{Code: key, Text: string(key)})
		time.Sleep(time.Second) // slower than a burst
		settle()
	}
	frame := m.View().Content
	m.Close()
	synctest.Wait()
	return frame
}

// TestNightFrames holds what is shown of a recording, by the engine's own
// windows, at some moments of the bundled night.
func TestNightFrames(t *testing.T) {
	for _, moment := range []struct {
		name string
		at   time.Duration
		keys string
	}{
		{"quiet", 4 * time.Minute, ""},
		{"trouble", nightError + 2*time.Minute, ""},
		{"silence", nightSilence + 2*time.Minute, ""},
		{"silence-why", nightSilence + 2*time.Minute, "nnni"},
		{"blind", nightSight - 5*time.Second, ""},
		{"end", nightEnd, "!"},
	} {
		feed := nightStill(t, moment.at)
		for _, size := range [][2]int{{40, 10}, {80, 24}, {120, 40}, {200, 60}} {
			name := fmt.Sprintf("%s-%dx%d", moment.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				var frame string
				synctest.Test(t, func(t *testing.T) {
					feed.windows = make(chan watchdog.Window, 1)
					frame = ansi.Strip(frameOf(feed, size[0], size[1], moment.keys)) + "\n"
				})
				nightGolden(t, name, frame)
				for i, line := range strings.Split(strings.TrimSuffix(frame, "\n"), "\n") {
					if w := ansi.StringWidth(line); w > size[0] || i >= size[1] {
						t.Errorf("line %d is %d cells wide on a screen of %dx%d", i+1, w, size[0], size[1])
					}
				}
			})
		}
	}
}

func nightGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "night", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./ui/cli -run TestNightFrames -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if it should, run go test ./ui/cli -run TestNightFrames -update:\n%s", path, diff)
	}
}
