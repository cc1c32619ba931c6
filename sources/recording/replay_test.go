package recording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// night is a short story with a bit of everything: a stall, a silence, a wait,
// a dispute, an end, blindness and an observer that was held up.
func night() *recordingtest.Script {
	const end = 90 * time.Second
	s := recordingtest.New(watchdog.Policy{HeartbeatInterval: 5 * time.Second, RedisTTL: 12 * time.Second, StallTimeout: 15 * time.Second})
	s.Link(watchdog.SourceNATS, 0, end)
	s.Link(watchdog.SourceRedis, 0, 40*time.Second)
	s.Link(watchdog.SourceRedis, 70*time.Second, end)
	s.Beats(time.Second, end, 5*time.Second, watchdog.SourceNATS, "healthy", func(at time.Duration, b *watchdog.Beat) {
		b.Task = fmt.Appendf(nil, "chunk %d/100", at/time.Second)
		b.Idle = 100 * time.Millisecond
	})
	s.Beats(1100*time.Millisecond, end, 5*time.Second, watchdog.SourceNATS, "stalls", func(at time.Duration, b *watchdog.Beat) {
		b.Task = []byte("stuck")
		b.Idle = at
	})
	s.Beats(1230*time.Millisecond, 20*time.Second, 5*time.Second, watchdog.SourceNATS, "silent")
	s.Beats(1300*time.Millisecond, end, 5*time.Second, watchdog.SourceRedis, "hidden")
	s.Beats(1400*time.Millisecond, end, 5*time.Second, watchdog.SourceNATS, "waits", func(_ time.Duration, b *watchdog.Beat) {
		b.WaitingFor, b.WaitingMax = watchdog.WaitHuman, time.Hour
	})
	s.Beat(2*time.Second, watchdog.SourceRedis, "disputed")
	s.Beats(2*time.Second, end, 5*time.Second, watchdog.SourceNATS, "disputed")
	for i, at := range []time.Duration{14 * time.Second, 16 * time.Second} {
		s.Event(at, watchdog.KeyGone{Source: watchdog.SourceRedis, ID: "disputed", LastSeen: s.Mono(12 * time.Second), Polls: i + 1, At: s.Mono(at)})
	}
	s.Beat(30*time.Second, watchdog.SourceNATS, "healthy-2", func(b *watchdog.Beat) {
		b.State, b.StateText = watchdog.StateCompleted, []byte("completed")
	})
	s.Late(52*time.Second, 55*time.Second)
	s.Gap(60*time.Second, recording.Gap{Beats: 3})
	return s.Until(end)
}

func reader(t testing.TB, s *recordingtest.Script) *recording.Reader {
	t.Helper()
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func everything() watchdog.Ask {
	return watchdog.Ask{Height: -1, KeepEnded: true, Focus: "stalls"}
}

// text is a window to compare, without what counts the looks at it.
func text(t testing.TB, w watchdog.Window) string {
	t.Helper()
	w.AskSeq, w.Self.Queue = 0, 0
	w.Started.Boot = 0 // an engine and a recorder read it one after the other
	focus := w.Focus
	w.Focus = nil
	if focus == nil {
		focus = &watchdog.Detail{}
	}
	var alert watchdog.Alert // shown by what it says, not by where it is
	if focus.Alert != nil {
		alert = *focus.Alert
		bare := *focus
		bare.Alert = nil
		focus = &bare
	}
	// NaN has no JSON; this shows every field and is as exact as needed.
	return fmt.Sprintf("%+v\n%+v\n%+v", w, *focus, alert)
}

func verdicts(w watchdog.Window) map[string]string {
	out := map[string]string{}
	for _, r := range w.Rows {
		out[string(r.ID)] = r.Verdict.String()
	}
	return out
}

func replayed(t testing.TB, s *recordingtest.Script, until time.Duration) (watchdog.Window, recording.Result) {
	t.Helper()
	r := reader(t, s)
	tracker := r.Header().NewTracker()
	res, err := recording.Replay(r, tracker, recording.ReplayOptions{Until: until})
	if err != nil {
		t.Fatal(err)
	}
	return tracker.Look(everything()), res
}

func TestReplayTellsTheStory(t *testing.T) {
	w, res := replayed(t, night(), 0)
	want := map[string]string{"healthy": "running", "stalls": "stalled", "silent": "silent", "hidden": "running",
		"waits": "waiting", "disputed": "disputed", "healthy-2": "completed"}
	if diff := cmp.Diff(want, verdicts(w)); diff != "" {
		t.Error(diff)
	}
	if len(res.Gaps) != 1 || res.Gaps[0].Beats != 3 || res.Note != "" || res.At != w.Now {
		t.Errorf("result %+v, window of %+v", res, w.Now)
	}
	w, res = replayed(t, night(), 60*time.Second+50*time.Millisecond)
	if got := verdicts(w)["hidden"]; got != "unknown" {
		t.Errorf("while Redis is blind, hidden is %s", got)
	}
	if at := res.At.Mono - w.Started.Mono; at != 60*time.Second {
		t.Errorf("a replay until 60.05 s stands at %v", at)
	}
}

func TestReplayIsTheSameEveryTime(t *testing.T) {
	for _, until := range []time.Duration{0, 7 * time.Second, 33333 * time.Millisecond, 54 * time.Second} {
		first, _ := replayed(t, night(), until)
		second, _ := replayed(t, night(), until)
		if diff := cmp.Diff(text(t, first), text(t, second)); diff != "" {
			t.Errorf("until %v: %s", until, diff)
		}
	}
}

// listener is a tracker that writes down when it was told the time.
type listener struct{ ticks []watchdog.Ticked }

func (l *listener) ApplyBeats([]watchdog.Beat) {}
func (l *listener) Apply(ev watchdog.Event) []watchdog.Effect {
	if tick, ok := ev.(watchdog.Ticked); ok {
		l.ticks = append(l.ticks, tick)
	}
	return nil
}

func TestReplayTicksAsTheEngineDid(t *testing.T) {
	s := recordingtest.New(watchdog.Policy{}).Until(10*time.Second).Late(4*time.Second, 6500*time.Millisecond)
	var l listener
	if _, err := recording.Replay(reader(t, s), &l, recording.ReplayOptions{}); err != nil {
		t.Fatal(err)
	}
	last := s.Started()
	for i, tick := range l.ticks {
		step := tick.Now.Mono - last.Mono
		late := tick.Late > 0
		switch {
		case i == 0 && step == 0:
		case late && (step != 2500*time.Millisecond || tick.Late != 2400*time.Millisecond):
			t.Errorf("the late tick comes %v after the one before, late by %v", step, tick.Late)
		case !late && step != recording.Grid:
			t.Errorf("tick %d comes %v after the one before", i, step)
		}
		if boot := tick.Now.Boot - last.Boot; boot != step {
			t.Errorf("tick %d moves Boot by %v and Mono by %v", i, boot, step)
		}
		last = tick.Now
	}
	if want := 1 + 40 + 1 + 35; len(l.ticks) != want {
		t.Errorf("%d ticks, want %d", len(l.ticks), want)
	}
}

// live runs an engine on simulated time under a recorder, and gives what it
// showed at the end together with the recording.
func live(t *testing.T, path string) watchdog.Window {
	t.Helper()
	c := clock.System()
	policy := watchdog.Policy{HeartbeatInterval: 2 * time.Second, RedisTTL: 5 * time.Second, StallTimeout: 6 * time.Second}.WithDefaults()
	rec, err := recording.Record(path, recording.Options{Started: c.Now(), Policy: policy, Sweeper: "test"})
	if err != nil {
		t.Fatal(err)
	}
	e := watchdog.NewEngine(watchdog.EngineConfig{Policy: policy, Clock: c, Tap: rec, Sweeper: "test"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	e.Post(watchdog.SourceAdded{Source: watchdog.SourceNATS, At: c.Now().Mono})
	for i := range 1500 {
		time.Sleep(17 * time.Millisecond)
		now := c.Now().Mono
		if i%60 == 0 {
			e.Post(watchdog.RoundTrip{Source: watchdog.SourceNATS, Sent: now - time.Millisecond, At: now})
		}
		var b watchdog.Beat
		b.Reset()
		b.Received, b.StateText = now, []byte("running")
		b.ID = fmt.Appendf(nil, "agent-%02d", i%97)
		b.Uptime = int64(now / time.Second)
		b.Task = fmt.Appendf(nil, "chunk %d/2000", i)
		if n := i % 97; n < 40 && i > 600 {
			continue // these fall silent
		} else if n < 60 {
			b.Idle = time.Duration(i) * 3 * time.Millisecond
		}
		e.Beats([]watchdog.Beat{b})
	}
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
	w, err := e.Look(ctx, everything())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestReplayShowsWhatTheEngineShowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "live.swr.gz")
		want := live(t, path)
		r, err := recording.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		tracker := r.Header().NewTracker()
		if _, err := recording.Replay(r, tracker, recording.ReplayOptions{}); err != nil {
			t.Fatal(err)
		}
		got := tracker.Look(everything())
		if want.Fleet.ByVerdict[watchdog.Silent] == 0 || want.Fleet.ByVerdict[watchdog.Running] == 0 {
			t.Errorf("too little happened to compare: %v", want.Fleet.ByVerdict)
		}
		if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReplayOfManyIsInOrder(t *testing.T) {
	s := recordingtest.New(watchdog.Policy{})
	for i := range 1000 {
		s.Beat(time.Second, watchdog.SourceNATS, fmt.Sprintf("agent-%d", i))
	}
	r := reader(t, s)
	var order []string
	res, err := recording.Replay(r, tap(func(b watchdog.Beat) { order = append(order, string(b.ID)) }), recording.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]string, 1000)
	for i := range want {
		want[i] = fmt.Sprintf("agent-%d", i)
	}
	if !slices.Equal(order, want) || res.Entries != 1000+2 {
		t.Errorf("%d beats in another order; %d entries", len(order), res.Entries)
	}
}

type tap func(watchdog.Beat)

func (f tap) ApplyBeats(batch []watchdog.Beat) {
	for _, b := range batch {
		f(b)
	}
}
func (f tap) Apply(watchdog.Event) []watchdog.Effect { return nil }

func TestReplayNamesTheBadLine(t *testing.T) {
	data, err := night().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	lines[100] = []byte("{\"tick\":7}\n")
	r, err := recording.NewReader("night.swr", bytes.NewReader(bytes.Join(lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = recording.Replay(r, r.Header().NewTracker(), recording.ReplayOptions{})
	if err == nil || !strings.HasPrefix(err.Error(), "night.swr: line 101 ") {
		t.Errorf("got %v", err)
	}
}

func TestReplayGivesEffects(t *testing.T) {
	r := reader(t, night())
	n := 0
	_, err := recording.Replay(r, r.Header().NewTracker(), recording.ReplayOptions{
		Effects: func(effects []watchdog.Effect) { n += len(effects) }})
	if err != nil || n == 0 {
		t.Errorf("%d effects, %v", n, err)
	}
}

func TestScriptWritesTheSameBytes(t *testing.T) {
	one, err := night().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	two, err := night().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("two recordings of one script differ")
	}
	for i, line := range bytes.Split(bytes.TrimSpace(one), []byte("\n")) {
		if !json.Valid(line) {
			t.Errorf("line %d is not JSON: %s", i+1, line)
		}
	}
}

// BenchmarkReplay compares reading and telling a recording with the floor of
// reading its bytes as JSON.
func BenchmarkReplay(b *testing.B) {
	s := recordingtest.New(watchdog.Policy{})
	s.Beats(0, 20*time.Second, 10*time.Millisecond, watchdog.SourceNATS, "agent-1", func(at time.Duration, beat *watchdog.Beat) {
		beat.Task, beat.Host, beat.Idle = []byte("Processing chunk 47/200"), []byte("eu1-02"), time.Second
	})
	data, err := s.Bytes()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for range 20 {
		for dec := json.NewDecoder(bytes.NewReader(data)); ; {
			var raw json.RawMessage
			if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
				break
			}
		}
	}
	floor := float64(time.Since(began)) / 20
	n := 0
	for b.Loop() {
		r, err := recording.NewReader("x", bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		res, err := recording.Replay(r, r.Header().NewTracker(), recording.ReplayOptions{})
		if err != nil {
			b.Fatal(err)
		}
		n += res.Entries
	}
	b.ReportMetric(float64(b.Elapsed())/float64(n), "ns/entry")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/floor, "ratio")
}
