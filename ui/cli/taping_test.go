package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// TestFeedRecordsAndTries: what comes in behind a screen can be recorded from any
// moment on, and tried by other thresholds; closing the screen completes the file.
func TestFeedRecordsAndTries(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n, err := embedded.StartNATS(embedded.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(config, []byte("redis: {url: \"-\"}\nread_only: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := testHost(t, "SESSIONWATCH_CONFIG="+config, "NATS_URL="+n.ClientURL()).Open(t.Context(), ui.Target{})
	if err != nil {
		t.Fatal(err)
	}
	about := f.About()
	if about.Recorder == nil || about.Trial == nil {
		t.Fatalf("nothing can be recorded or tried: %+v", about)
	}
	f.Ask(everything())
	until(t, f, "NATS is seen", func(w watchdog.Window) bool { return len(w.Links) == 1 && w.Links[0].Sighted })
	path := filepath.Join(dir, "from-here.jsonl.gz")
	if err := about.Recorder.Record(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if tape, ok := about.Recorder.Tape(); !ok || tape.Path != path || tape.Err != nil {
		t.Errorf("tape %+v, %v", tape, ok)
	}
	if code, _ := command(t, "beat", "hello", "--task", "it works", "--nats", n.ClientURL(), "--redis", "-"); code != exitDone {
		t.Fatalf("beat: exit code %d", code)
	}
	until(t, f, "the beat is there", func(w watchdog.Window) bool { return w.Total == 1 })

	reach, err := about.Trial.Reach(t.Context())
	if err != nil || !strings.HasPrefix(reach.Text, "what came in from ") {
		t.Errorf("%q, %v", reach.Text, err)
	}
	result, err := about.Trial.Try(t.Context(), "stall_timeout=10m")
	if err != nil || result.Sessions != 1 || result.Would.StallTimeout != 10*time.Minute || result.Now.StallTimeout != reach.Policy.StallTimeout {
		t.Errorf("%+v, %v", result, err)
	}
	closedAfter(t, f)
	if code, out := command(t, "get", "hello", "--from", path); code != exitDone || !strings.Contains(out, "it works") {
		t.Errorf("the recording does not tell of the beat: %d\n%s", code, out)
	}
	if code, out := command(t, "ls", "--from", path, "--json"); code != exitDone || !strings.Contains(out, "NATS") && !strings.Contains(out, "nats") {
		t.Errorf("the recording does not tell of the link: %d\n%s", code, out)
	}
}

func TestReplayFeedTries(t *testing.T) {
	f, err := openReplay("", 1, func(f func()) { go f() })
	if err != nil {
		t.Fatal(err)
	}
	defer closedAfter(t, f)
	f.player.Pause()
	about := f.About()
	if about.Recorder != nil {
		t.Error("a recording can be recorded")
	}
	reach, err := about.Trial.Reach(t.Context())
	if err != nil || !strings.Contains(reach.Text, "the whole recording") {
		t.Errorf("%+v, %v", reach, err)
	}
	result, err := about.Trial.Try(t.Context(), "*:stall_timeout=1h")
	if err != nil || result.Total().Gone == 0 {
		t.Errorf("%+v, %v", result.Total(), err)
	}
	f.Ask(everything())
	until(t, f, "its length is known", func(watchdog.Window) bool { f.askAgain(); return f.About().Length == nightEnd })
}
