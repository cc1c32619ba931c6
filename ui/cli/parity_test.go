package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const parityLength = 10 * time.Minute

// parityScript is a night with one session of every kind that observation tells.
func parityScript() *recordingtest.Script {
	const end = parityLength
	nats, redis := watchdog.SourceNATS, watchdog.SourceRedis
	task := func(text string) func(time.Duration, *watchdog.Beat) {
		return func(_ time.Duration, b *watchdog.Beat) { b.Task = []byte(text) }
	}
	declared := func(_ time.Duration, b *watchdog.Beat) { b.Interval = 10 * time.Second }
	s := recordingtest.New(watchdog.Policy{}).Link(nats, 0, end).Link(redis, 0, end)
	s.Beats(0, end, 10*time.Second, nats, "busy", declared, func(_ time.Duration, b *watchdog.Beat) { b.Idle = time.Second })
	s.Beats(0, end, 10*time.Second, nats, "stuck", declared, func(at time.Duration, b *watchdog.Beat) { b.Idle = at })
	s.Beats(0, end, 10*time.Second, nats, "looped", declared, func(at time.Duration, b *watchdog.Beat) { b.LoopLag = at / 2 })
	s.Beats(0, end, 10*time.Second, nats, "same-old", task("chunk 1/9"))
	s.Beats(0, end, 10*time.Second, nats, "approver", declared, func(at time.Duration, b *watchdog.Beat) {
		b.Idle, b.WaitingFor, b.WaitingMax = at, watchdog.WaitHuman, 8*time.Hour
	})
	s.Beats(0, end-40*time.Second, 10*time.Second, nats, "gone-quiet", declared)
	s.Beats(0, 5*time.Minute, 10*time.Second, nats, "finished", declared)
	s.Beat(5*time.Minute, nats, "finished", func(b *watchdog.Beat) {
		b.State, b.StateText, b.Uptime = watchdog.StateCompleted, []byte("completed"), 300
	})
	s.Beat(end-30*time.Second, nats, "failed", func(b *watchdog.Beat) {
		b.State, b.StateText, b.Uptime = watchdog.StateError, []byte("error"), 9
	})
	s.Beats(end-20*time.Second, end, 5*time.Second, redis, "says-stalled", func(_ time.Duration, b *watchdog.Beat) {
		b.State, b.StateText = watchdog.StateStalled, []byte("stalled")
	})
	return s.Until(end)
}

// command runs one command without a terminal.
func command(t *testing.T, args ...string) (code int, stdout string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := System()
	env.Stdin, env.Stdout, env.Stderr, env.StdoutTTY = strings.NewReader(""), &out, &errs, false
	env.Environ = []string{"HOME=" + t.TempDir()}
	code = Main(args, env)
	t.Logf("sessionwatch %s: %d\n%s", strings.Join(args, " "), code, errs.String())
	return code, out.String()
}

// TestOneRecordingOneVerdict proves that ls, get, why, check and the screen say
// the same of the same facts.
func TestOneRecordingOneVerdict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "night.jsonl.gz")
	if err := parityScript().WriteFile(path); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"busy": "running", "stuck": "stalled", "looped": "wedged", "same-old": "quiet", "approver": "waiting",
		"gone-quiet": "silent", "finished": "completed", "failed": "error", "says-stalled": "stalled",
	}

	type session struct {
		ID      string `json:"session_id"`
		Verdict string
	}
	code, out := command(t, "ls", "--from", path, "--json")
	var listed []session
	if err := json.Unmarshal([]byte(out), &listed); err != nil || code != exitDone {
		t.Fatalf("ls: %d, %v: %s", code, err, out)
	}
	got := map[string]string{}
	for _, s := range listed {
		got[s.ID] = s.Verdict
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ls (-want +got):\n%s", diff)
	}

	for id, verdict := range want {
		for _, name := range []string{"get", "why"} {
			_, out := command(t, name, id, "--from", path, "--json")
			var one session
			if err := json.Unmarshal([]byte(out), &one); err != nil || one.Verdict != verdict {
				t.Errorf("%s %s says %q (%v), want %q", name, id, one.Verdict, err, verdict)
			}
		}
	}

	code, out = command(t, "check", "--from", path, "--json")
	var checked struct {
		Result string
		Failed []session
	}
	if err := json.Unmarshal([]byte(out), &checked); err != nil || code != exitBadNews || checked.Result != "bad_news" {
		t.Errorf("check: %d, %v: %s", code, err, out)
	}
	var failed []string
	for _, s := range checked.Failed {
		failed = append(failed, s.ID)
	}
	if diff := cmp.Diff([]string{"failed", "looped", "says-stalled", "stuck"}, failed); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}

	_, out = command(t, "ls", "--from", path)
	if diff := cmp.Diff(want, verdictsIn(out, want)); diff != "" {
		t.Errorf("ls as text (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, verdictsIn(lastFrame(t, path, want), want)); diff != "" {
		t.Errorf("the screen (-want +got):\n%s", diff)
	}
}

// verdictsIn reads verdicts and ids off the lines of a text.
func verdictsIn(text string, ids map[string]string) map[string]string {
	escapes := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	got := map[string]string{}
	for line := range strings.SplitSeq(escapes.ReplaceAllString(text, ""), "\n") {
		words := strings.Fields(line)
		for i, word := range words {
			if _, known := watchdog.VerdictOf(word); !known {
				continue
			}
			for _, after := range words[i+1 : min(len(words), i+3)] {
				if _, wanted := ids[after]; wanted {
					got[after] = word
				}
			}
			break
		}
	}
	return got
}

// lastFrame plays the recording to its end on the screen that replay shows, and
// gives the frame once every id stands in it.
func lastFrame(t *testing.T, path string, ids map[string]string) string {
	t.Helper()
	feed, err := openReplay(path, 1, func(f func()) { go f() })
	if err != nil {
		t.Fatal(err)
	}
	feed.player.Seek(parityLength)
	m := ui.New(ui.Options{Feed: feed, ASCII: true})
	defer m.Close()
	msgs := make(chan tea.Msg)
	stop := make(chan struct{})
	defer close(stop)
	run := func(cmd tea.Cmd) {
		if cmd == nil {
			return
		}
		go func() {
			select {
			case msgs <- cmd():
			case <-stop:
			}
		}()
	}
	var screen tea.Model = m
	run(m.Init())
	screen, cmd := screen.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	run(cmd)
	deadline := time.After(20 * time.Second)
	for {
		frame := screen.View().Content
		if feed.player.Progress().Offset >= parityLength && slices.Equal(
			slices.Sorted(maps.Keys(ids)), slices.Sorted(maps.Keys(verdictsIn(frame, ids)))) &&
			strings.Contains(frame, "silent") {
			return frame
		}
		select {
		case <-deadline:
			t.Fatalf("the screen never showed everything:\n%s", frame)
		case msg := <-msgs:
			if batch, ok := msg.(tea.BatchMsg); ok {
				for _, cmd := range batch {
					run(cmd)
				}
				continue
			}
			screen, cmd = screen.Update(msg)
			run(cmd)
		}
	}
}
