package recording_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fleetScript is a fleet of n that beats, of which one is numbered and
// supervised, and stops five minutes before the end.
func fleetScript(n int, length time.Duration) *recordingtest.Script {
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, length)
	for i := range n {
		end := length
		if i == 0 {
			end -= 5 * time.Minute
		}
		s.Beats(0, end, 30*time.Second, watchdog.SourceNATS, fmt.Sprintf("job-%03d", i), func(at time.Duration, b *watchdog.Beat) {
			b.Interval, b.Idle, b.BootID = 30*time.Second, time.Second, []byte("boot")
			b.Task = fmt.Appendf(nil, "chunk %d/900 of %x", at/time.Second, uint64(at)*uint64(i+1)*0x9E3779B97F4A7C15)
		})
	}
	s.Event(time.Second, watchdog.HeadSeen{Head: watchdog.Head{ID: "job-000", Generation: 7,
		Executions: []watchdog.Execution{{Generation: 7, BootID: "boot"}}}, At: s.Mono(time.Second)})
	return s.Until(length)
}

// tell plays a script to a tap.
func tell(t *testing.T, s *recordingtest.Script, tap watchdog.Tap, each func(at time.Duration)) {
	t.Helper()
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		case e.Kind == recording.KindBeat:
			tap.Beats([]watchdog.Beat{e.Beat})
		default:
			tap.Event(e.Event)
			if tick, ok := e.Event.(watchdog.Ticked); ok && each != nil {
				each(tick.Now.Mono - s.Started().Mono)
			}
		}
	}
}

func verdictsOf(w watchdog.Window) map[watchdog.ID]string {
	out := map[watchdog.ID]string{}
	for _, row := range w.Rows {
		out[row.ID] = fmt.Sprintf("%v #%d", row.Verdict, row.Generation)
	}
	return out
}

func windowOf(t *testing.T, r *recording.Reader) watchdog.Window {
	t.Helper()
	tracker := r.Header().NewTracker()
	if _, err := recording.Replay(r, tracker, recording.ReplayOptions{}); err != nil {
		t.Fatal(err)
	}
	return tracker.Look(watchdog.Ask{Height: -1, KeepEnded: true})
}

func options(s *recordingtest.Script) recording.MemoryOptions {
	return recording.MemoryOptions{Program: "test", Name: "fleet", Started: s.Started(), Policy: watchdog.DefaultPolicy()}
}

// TestMemoryKeepsTheNewest: within its bytes, readable whenever it is asked, and
// with the verdicts of the whole.
func TestMemoryKeepsTheNewest(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const length = 40 * time.Minute
	s := fleetScript(60, length)
	whole, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	want := verdictsOf(windowOf(t, whole))

	o := options(s)
	o.MaxBytes = 64 << 10
	m := recording.NewMemory(o)
	defer m.Close()
	reads := 0
	tell(t, s, m, func(at time.Duration) {
		if at != 5*time.Minute && at != 25*time.Minute {
			return
		}
		reads++
		if r, err := m.Reader(t.Context()); err != nil {
			t.Errorf("after %v: %v", at, err)
		} else if w := windowOf(t, r); w.Total != 60 && at > 10*time.Minute {
			t.Errorf("after %v what is kept shows %d sessions", at, w.Total)
		}
	})
	if reads == 0 {
		t.Fatal("nothing was read on the way")
	}
	r, err := m.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := windowOf(t, r)
	if diff := cmp.Diff(want, verdictsOf(w)); diff != "" {
		t.Errorf("(-whole +kept):\n%s", diff)
	}
	if r.Note() != "" {
		t.Error(r.Note())
	}
	if len(w.Links) != 1 || !w.Links[0].Sighted || w.Links[0].Address == "" {
		t.Errorf("the links are not known: %+v", w.Links)
	}
	from, to := m.Reach()
	if reach := to.Mono - from.Mono; from == s.Started() || reach < 6*time.Minute || to.Mono != s.Mono(length) {
		t.Errorf("it reaches back %v, from %v", reach, from.Mono-s.Started().Mono)
	}
}

// TestMemoryForgetsWhatHasAHole: more than is kept is not kept at all for a
// while, and what is kept after that has no hole.
func TestMemoryForgetsWhatHasAHole(t *testing.T) {
	s := fleetScript(20, 20*time.Minute)
	m := recording.NewMemory(options(s))
	defer m.Close()
	flood := make([]watchdog.Beat, 11_000)
	for i := range flood {
		flood[i].Reset()
		flood[i].ID, flood[i].StateText = fmt.Appendf(nil, "flood-%d", i), []byte("running")
	}
	tell(t, s, m, func(at time.Duration) {
		switch at {
		case 5 * time.Minute:
			for i := range flood {
				flood[i].Received = s.Mono(at)
			}
			m.Beats(flood)
			if !m.Overrun() {
				t.Error("it does not say that it is overrun")
			}
		case 6 * time.Minute:
			if m.Overrun() {
				t.Error("it is overrun for ever")
			}
		}
	})
	r, err := m.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if began := r.Header().Started.Mono - s.Started().Mono; began < 5*time.Minute || began > 6*time.Minute {
		t.Errorf("what is kept begins at %v", began)
	}
	result, err := recording.Replay(r, r.Header().NewTracker(), recording.ReplayOptions{})
	if err != nil || len(result.Gaps) > 0 {
		t.Errorf("%v, gaps %v", err, result.Gaps)
	}
}

func TestMemoryWithNothingInIt(t *testing.T) {
	s := fleetScript(1, time.Minute)
	m := recording.NewMemory(options(s))
	r, err := m.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w := windowOf(t, r); w.Total != 0 {
		t.Errorf("%d sessions in nothing", w.Total)
	}
	m.Close()
	m.Beats(make([]watchdog.Beat, 1)) // after its end: nothing happens
	if _, err := m.Reader(t.Context()); err == nil {
		t.Error("what was forgotten can be read")
	}
}

// TestDeckRecordsFromTheMiddle: a file that begins while the engine lives tells
// what is known, and then all that comes.
func TestDeckRecordsFromTheMiddle(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	path := filepath.Join(dir, "night.jsonl.gz")
	s := fleetScript(20, 30*time.Minute)
	d := recording.NewDeck(options(s))
	tell(t, s, d, func(at time.Duration) {
		if at != 10*time.Minute {
			return
		}
		if _, ok := d.Tape(); ok {
			t.Error("it records before it was told to")
		}
		if err := d.Record(path); err != nil {
			t.Fatal(err)
		}
		if err := d.Record(filepath.Join(dir, "other")); err == nil || !strings.Contains(err.Error(), "already recording to "+path) {
			t.Errorf("a second recording: %v", err)
		}
		if tape, ok := d.Tape(); !ok || tape.Path != path {
			t.Errorf("tape %+v, %v", tape, ok)
		}
	})
	tape, err := d.Stop()
	if err != nil || tape.Stats.Beats < 700 {
		t.Errorf("%v, %+v", err, tape.Stats)
	}
	if _, err := d.Stop(); err == nil {
		t.Error("it stopped twice")
	}
	if err := d.Record(path); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a file that is there: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	whole, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	w := windowOf(t, r)
	if diff := cmp.Diff(verdictsOf(windowOf(t, whole)), verdictsOf(w)); diff != "" {
		t.Errorf("(-whole +file):\n%s", diff)
	}
	if began := r.Header().Started.Mono - s.Started().Mono; began < 9*time.Minute {
		t.Errorf("the file begins at %v", began)
	}
}

func TestDeckClosesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	s := fleetScript(3, time.Minute)
	d := recording.NewDeck(options(s))
	if err := d.Record(path); err != nil {
		t.Fatal(err)
	}
	tell(t, s, d, nil)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if w := windowOf(t, r); w.Total != 3 || r.Note() != "" {
		t.Errorf("%d sessions, %s", w.Total, r.Note())
	}
}

func TestReplayIsGivenUp(t *testing.T) {
	s := fleetScript(5, 10*time.Minute)
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = recording.Replay(r, r.Header().NewTracker(), recording.ReplayOptions{Stop: ctx.Done()})
	if !errors.Is(err, recording.ErrStopped) {
		t.Errorf("%v, want ErrStopped", err)
	}
}

// BenchmarkMemory is the cost of keeping beats beside that of applying them.
func BenchmarkMemory(b *testing.B) {
	s := fleetScript(1000, time.Minute)
	o := options(s)
	batch := make([]watchdog.Beat, 256)
	for i := range batch {
		batch[i].Reset()
		batch[i].ID, batch[i].StateText = fmt.Appendf(nil, "job-%03d", i), []byte("running")
		batch[i].Task, batch[i].BootID, batch[i].Idle = fmt.Appendf(nil, "Processing chunk %d/900", i), []byte("boot"), time.Second
	}
	m := recording.NewMemory(o)
	defer m.Close()
	now := o.Started
	for b.Loop() {
		now.Mono += time.Second
		m.Event(watchdog.Ticked{Now: now})
		for range 4 {
			m.Beats(batch)
		}
		if err := m.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/beat")
}
