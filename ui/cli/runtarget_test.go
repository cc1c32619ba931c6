package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// runHost opens what a screen wants, with everything it keeps in dir.
func runHost(t *testing.T, dir string) *host {
	t.Helper()
	h := testHost(t)
	load := h.load
	h.load = func(name string, over ...config.Flag) (*config.Config, error) {
		return load(name, append(over, config.Flag{Name: "data-dir", Key: "data_dir", Value: dir},
			config.Flag{Name: "nats", Key: "nats.url", Value: config.None}, config.Flag{Name: "redis", Key: "redis.url", Value: config.None})...)
	}
	return h
}

// A command that was typed into the screen runs as a session until the screen
// lets it go; what is said of it names it as long as it would end with that.
func TestTypedCommandRunsAsASession(t *testing.T) {
	dir := t.TempDir()
	f, err := runHost(t, dir).Open(t.Context(), ui.Target{Kind: ui.TargetRun, Command: []string{"sh", "-c", "echo here it is; exec sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	f.Ask(watchdog.Ask{Height: 10, Focus: "sh"})
	w := until(t, f, "its output counts as work", func(w watchdog.Window) bool {
		return w.Focus != nil && w.Focus.Supervisor == watchdog.SupervisorRunning && w.Focus.Process != nil && w.Focus.Process.PID > 0
	})
	pid := w.Focus.Process.PID
	if got := f.About().Supervised; len(got) != 1 || got[0] != "sh" {
		t.Errorf("%v end with the screen", got)
	}
	deadline := time.Now().Add(10 * time.Second)
	for lines := []ui.LogLine(nil); len(lines) == 0; time.Sleep(20 * time.Millisecond) {
		if lines, err = f.Children().Logs(t.Context(), "sh", -1, 10); err != nil || time.Now().After(deadline) {
			t.Fatalf("its output is %v, %v", lines, err)
		}
	}
	if _, err := f.Release(t.Context(), "to try"); err == nil || !strings.Contains(err.Error(), "nobody here settles") {
		t.Errorf("released by a view that settles nothing: %v", err)
	}
	if audit, _ := os.ReadFile(filepath.Join(dir, "audit.jsonl")); !bytes.Contains(audit, []byte(`"brake.release_refused"`)) || !bytes.Contains(audit, []byte("to try")) {
		t.Errorf("the refusal is not in the audit file: %s", audit)
	}
	f.Close()
	if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
		t.Errorf("process %d is left", pid)
	}
}

func TestCommandsThatCannotRunAreRefused(t *testing.T) {
	h := runHost(t, t.TempDir())
	if _, err := h.Open(context.Background(), ui.Target{Kind: ui.TargetRun}); err == nil || !strings.Contains(err.Error(), "no command") {
		t.Errorf("no command: %v", err)
	}
	h.load = func(name string, over ...config.Flag) (*config.Config, error) {
		return config.Load(config.Options{Flags: append(over, config.Flag{Name: "read-only", Key: "read_only", Value: "true"}), Getenv: func(string) string { return "" }})
	}
	if _, err := h.Open(context.Background(), ui.Target{Kind: ui.TargetRun, Command: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("read-only: %v", err)
	}
}

func TestReplayReleasesNothing(t *testing.T) {
	f, err := testHost(t).Open(t.Context(), ui.Target{Kind: ui.TargetRecording})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Release(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "recording") {
		t.Errorf("released in a recording: %v", err)
	}
}

// Where somebody settles, a release is taken and stands in the audit file.
func TestReleaseWhereSomebodySettles(t *testing.T) {
	dir := t.TempDir()
	h := runHost(t, dir)
	h.station = func(settings *config.Config) (*station, error) {
		return openStation(settings, stationOptions{role: "serve", db: "serve.db", state: "sessions.json", sweeps: true, log: discard(), spawn: h.spawn})
	}
	f, err := h.Open(t.Context(), ui.Target{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	f.Ask(watchdog.Ask{})
	until(t, f, "it settles", func(w watchdog.Window) bool { return w.Ledger.Sweeping })
	if n, err := f.Release(t.Context(), "rack 7 is gone"); err != nil || n != 0 {
		t.Errorf("%d were released where nothing is held: %v", n, err)
	}
	if audit, _ := os.ReadFile(filepath.Join(dir, "audit.jsonl")); !bytes.Contains(audit, []byte(`"brake.released"`)) {
		t.Errorf("the release is not in the audit file: %s", audit)
	}
}
