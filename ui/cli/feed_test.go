package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// until reads windows until one is as it should be.
func until(t *testing.T, f ui.Feed, what string, good func(watchdog.Window) bool) watchdog.Window {
	t.Helper()
	deadline := time.After(20 * time.Second)
	var last watchdog.Window
	for {
		select {
		case w, ok := <-f.Windows():
			if !ok {
				t.Fatalf("the feed ended before %s", what)
			}
			if last = w; good(w) {
				return w
			}
		case <-deadline:
			t.Fatalf("waited in vain until %s; last: %d sessions at %v, %+v", what, last.Total, last.Now.Mono, last.Links)
		}
	}
}

func closedAfter(t *testing.T, f ui.Feed) {
	t.Helper()
	f.Close()
	f.Close() // twice is once
	for range f.Windows() {
	}
}

func testHost(t *testing.T, environ ...string) *host {
	t.Helper()
	env := Env{Environ: append([]string{"HOME=" + t.TempDir()}, environ...)}
	return &host{
		load: func(name string, over ...config.Flag) (*config.Config, error) {
			return config.Load(config.Options{Context: name, Flags: over, Getenv: env.getenv, DeferSecrets: true})
		},
		log:   discard(),
		spawn: func(f func()) { go f() },
	}
}

func TestDemoFeedLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	f, err := testHost(t).Open(t.Context(), ui.Target{Kind: ui.TargetDemo, Seed: 1, Agents: 12, Speed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if about := f.About(); !about.Demo {
		t.Errorf("about %+v: no DEMO badge", about)
	}
	f.Ask(everything())
	w := until(t, f, "the fleet is there", func(w watchdog.Window) bool { return w.Total >= 10 && len(w.Links) == 2 })
	if w.Links[0].Origin != "demo" {
		t.Errorf("the address comes from %q", w.Links[0].Origin)
	}
	f.Retry()
	closedAfter(t, f)
}

// TestConfiguredFeedPingsUnlessReadOnly looks at what an observer says on a bus.
func TestConfiguredFeedPingsUnlessReadOnly(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n, err := embedded.StartNATS(embedded.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for _, readOnly := range []bool{false, true} {
		heard := make(chan struct{}, 8)
		stop := listen(t, n.ClientURL(), "agent.ping", heard)
		dir := t.TempDir()
		path := filepath.Join(dir, "c.yaml")
		text := "redis: {url: \"-\"}\n"
		if readOnly {
			text += "read_only: true\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := testHost(t, "SESSIONWATCH_CONFIG="+path, "NATS_URL="+n.ClientURL()).Open(t.Context(), ui.Target{})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.About().ReadOnly; got != readOnly {
			t.Errorf("read-only: %v, want %v", got, readOnly)
		}
		until(t, f, "NATS is seen", func(w watchdog.Window) bool { return len(w.Links) == 1 && w.Links[0].Sighted })
		if readOnly {
			// What the server got before our next round trip is there by now.
			before := until(t, f, "a window", func(watchdog.Window) bool { return true }).Links[0].LastTrip
			until(t, f, "another round trip", func(w watchdog.Window) bool { return w.Links[0].LastTrip < before || w.Links[0].LastTrip == 0 })
			if len(heard) > 0 {
				t.Error("a read-only observer published agent.ping")
			}
		} else {
			select {
			case <-heard:
			case <-time.After(10 * time.Second):
				t.Error("no agent.ping came")
			}
		}
		closedAfter(t, f)
		stop()
	}
}

func TestReplayFeedGoesBack(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	f, err := openReplay("", 1, func(f func()) { go f() })
	if err != nil {
		t.Fatal(err)
	}
	if about := f.About(); about.Name != "bundled night" || about.Replay == nil || !about.ReadOnly {
		t.Errorf("about %+v", about)
	}
	f.Ask(watchdog.Ask{Focus: "indexer"})
	verdictIs := func(v watchdog.Verdict) func(watchdog.Window) bool {
		return func(w watchdog.Window) bool { return w.Focus != nil && w.Focus.Verdict == v }
	}
	f.player.Pause()
	f.player.Seek(15 * time.Minute)
	until(t, f, "the indexer is stalled", verdictIs(watchdog.Stalled))
	f.player.Seek(2 * time.Minute)
	w := until(t, f, "it runs again, in the past", verdictIs(watchdog.Running))
	if at := w.Now.Mono - w.Started.Mono; at > 3*time.Minute {
		t.Errorf("the window is of %v", at)
	}
	closedAfter(t, f)
}

func TestOpenTellsWhatIsWrong(t *testing.T) {
	h := testHost(t)
	for _, c := range []struct {
		target ui.Target
		want   string
	}{
		{ui.Target{Kind: ui.TargetRecording, File: "absent.jsonl"}, "absent.jsonl"},
		{ui.Target{Kind: ui.TargetDemo, Agents: -1}, "cannot be played"},
		{ui.Target{Context: "prod"}, "\"prod\" is not known"},
		{ui.Target{NATS: "http://h"}, "scheme"},
	} {
		f, err := h.Open(t.Context(), c.target)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.target, err, c.want)
		}
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := h.Open(given, ui.Target{Kind: ui.TargetRecording}); err == nil {
		f.Close()
		t.Error("a feed came out of an opening that was given up")
	}
}
