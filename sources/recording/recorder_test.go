package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tickAt(after time.Duration) watchdog.Ticked {
	now := started()
	now.Mono, now.Boot, now.Wall = now.Mono+after, now.Boot+after, now.Wall+int64(after)
	return watchdog.Ticked{Now: now}
}

func record(t *testing.T, out io.Writer, o Options) *Recorder {
	t.Helper()
	w, err := NewWriter(out, false, Header{Started: started(), Policy: watchdog.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	return recordTo(w, o)
}

func entriesOf(t *testing.T, data []byte) []Entry {
	t.Helper()
	r, err := NewReader("x", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := readAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// shape writes entries in short: T seconds for a tick, B, E, G, and @ for a
// clock that is told.
func shape(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		switch tick, isTick := e.Event.(watchdog.Ticked); {
		case isTick:
			fmt.Fprintf(&b, "T%g", (tick.Now.Mono - started().Mono).Seconds())
		case e.Kind == KindBeat:
			b.WriteString("B" + string(e.Beat.ID))
		case e.Kind == KindEvent:
			b.WriteString("E")
		case e.Kind == KindGap:
			fmt.Fprintf(&b, "G%d,%d", e.Gap.Beats, e.Gap.Events)
		}
		if e.Clock >= 0 {
			fmt.Fprintf(&b, "@%g", (e.Clock - started().Mono).Seconds())
		}
	}
	return b.String()
}

func TestRecorderKeepsOrderAndThinsTicks(t *testing.T) {
	var out bytes.Buffer
	rec := record(t, &out, Options{})
	ms := func(n int) { rec.Event(tickAt(time.Duration(n) * time.Millisecond)) }
	beat := func(id string) {
		b := bareBeat()
		b.ID = []byte(id)
		rec.Beats([]watchdog.Beat{b})
		b.ID[0] = '!' // the recorder must have its own copy
	}
	for n := 0; n <= 1200; n += 100 {
		ms(n)
		switch n {
		case 0:
			beat("a")
		case 300:
			beat("b")
			beat("c")
			rec.Event(watchdog.RoundTrip{Source: watchdog.SourceNATS})
		case 700:
			beat("d")
		case 1000:
			beat("e")
		}
	}
	rec.Event(watchdog.Ticked{Now: tickAt(2200 * time.Millisecond).Now, Late: 900 * time.Millisecond})
	ms(2300)
	slept := tickAt(2400 * time.Millisecond)
	slept.Now.Boot += time.Hour
	slept.Now.Wall += int64(time.Hour)
	rec.Event(slept)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	want := "T0 Ba Bb@0.3 Bc E Bd@0.7 T1 Be T1.2 T2.2 T2.3 T2.4"
	if got := shape(entriesOf(t, out.Bytes())); got != want {
		t.Errorf("recorded %s\nwant     %s", got, want)
	}
	if s := rec.Stats(); s.Beats != 5 || s.DroppedBeats != 0 || s.Bytes != int64(out.Len()) {
		t.Errorf("stats %+v, file %d", s, out.Len())
	}
}

// stuck is a file that takes nothing until it is let go.
type stuck struct {
	open chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.open
	return s.Buffer.Write(p)
}

func TestRecorderNeverBlocksAndSaysWhatItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &stuck{open: make(chan struct{}, 1)}
		file.open <- struct{}{} // the header passes
		w, err := NewWriter(file, false, Header{Started: started(), Policy: watchdog.DefaultPolicy()})
		if err != nil {
			t.Fatal(err)
		}
		rec := recordTo(w, Options{Buffer: 8 << 10})
		b := bareBeat()
		b.Task = bytes.Repeat([]byte("x"), 900)
		lost := 0
		// The file takes nothing: its own buffer fills, then the recorder's.
		for i := range 300 {
			rec.Event(tickAt(time.Duration(i) * 100 * time.Millisecond))
			rec.Beats([]watchdog.Beat{b})
			synctest.Wait()
			lost = int(rec.Stats().DroppedBeats)
		}
		if lost == 0 {
			t.Fatal("nothing was lost, so this tests nothing")
		}
		close(file.open)
		synctest.Wait()
		rec.Event(tickAt(40 * time.Second))
		rec.Beats([]watchdog.Beat{b})
		err = rec.Close()
		s := rec.Stats()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d beats and %d events were dropped", s.DroppedBeats, s.DroppedEvents)) {
			t.Errorf("Close says %v; stats %+v", err, s)
		}
		var told Gap
		entries := entriesOf(t, file.Bytes())
		for i, e := range entries {
			if e.Kind != KindGap {
				continue
			}
			told.Beats += e.Gap.Beats
			told.Events += e.Gap.Events
			for _, side := range []int{i - 1, i + 1} {
				if _, ok := entries[side].Event.(watchdog.Ticked); !ok && entries[side].Kind != KindBeat {
					t.Errorf("beside the gap of line %d stands %+v", e.Line, entries[side])
				}
			}
		}
		if told.Beats != s.DroppedBeats || told.Events != s.DroppedEvents {
			t.Errorf("the file tells of %d and %d, dropped were %d and %d", told.Beats, told.Events, s.DroppedBeats, s.DroppedEvents)
		}
	})
}

type broken struct{ n int }

func (b *broken) Write(p []byte) (int, error) {
	if b.n -= len(p); b.n < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

func TestRecorderStopsWhenTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := record(t, &broken{n: 4 << 10}, Options{})
		for i := range 100 {
			b := bareBeat()
			b.Task = bytes.Repeat([]byte("x"), 900)
			rec.Beats([]watchdog.Beat{b})
			rec.Event(tickAt(time.Duration(i) * time.Second))
			time.Sleep(time.Second)
		}
		if err := rec.Stats().Err; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Stats says %v", err)
		}
		if err := rec.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close says %v", err)
		}
		if err := rec.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a second Close says %v", err)
		}
	})
}

func TestRecorderStopsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		rec := record(t, &out, Options{MaxBytes: 8 << 10})
		for i := range 1000 {
			rec.Event(tickAt(time.Duration(i) * time.Second))
			time.Sleep(100 * time.Millisecond)
		}
		if err := rec.Close(); err == nil || !strings.Contains(err.Error(), "limit of 8192 bytes") {
			t.Errorf("Close says %v", err)
		}
		if out.Len() > 10<<10 {
			t.Errorf("wrote %d bytes", out.Len())
		}
		if len(entriesOf(t, out.Bytes())) == 0 {
			t.Error("what was written cannot be read")
		}
	})
}

// unknownEvent is one that the table does not have.
type unknownEvent struct{ watchdog.RoundTrip }

func TestRecorderSkipsWhatHasNoForm(t *testing.T) {
	var out bytes.Buffer
	rec := record(t, &out, Options{})
	rec.Event(tickAt(0))
	rec.Event(unknownEvent{})
	rec.Event(watchdog.RoundTrip{})
	err := rec.Close()
	if err == nil || !strings.Contains(err.Error(), "unknownEvent is not in the table") {
		t.Errorf("Close says %v", err)
	}
	if got := shape(entriesOf(t, out.Bytes())); got != "T0 G0,1 E" {
		t.Errorf("recorded %s", got)
	}
}

func TestRecordMakesAPrivateFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.swr", "a.swr.gz"} {
		path := filepath.Join(dir, name)
		rec, err := Record(path, Options{Program: "test", Started: started()})
		if err != nil {
			t.Fatal(err)
		}
		rec.Event(tickAt(0))
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if entries, err := readAll(r); err != nil || len(entries) != 1 || r.Header().Program != "test" || r.Note() != "" {
			t.Errorf("%s: %d entries, %v, %+v", name, len(entries), err, r.Header())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.swr")
	if err := os.WriteFile(old, []byte(strings.Repeat("precious", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	link, pipe := filepath.Join(dir, "link.swr"), filepath.Join(dir, "pipe.swr")
	if err := os.Symlink(old, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path      string
		overwrite bool
		want      string
	}{
		{old, false, "exists already"},
		{link, false, "not a regular file"},
		{link, true, "not a regular file"},
		{pipe, true, "not a regular file"},
		{dir, true, "not a regular file"},
		{filepath.Join(dir, "no", "a.swr"), false, "no such file"},
	} {
		if w, err := Create(tt.path, tt.overwrite, Header{Started: started()}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Create(%s, %v) = %v, %v; want %q", tt.path, tt.overwrite, w, err, tt.want)
		}
	}
	if _, err := Open(pipe); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("Open of a pipe: %v", err)
	}

	w, err := Create(old, true, Header{Started: started()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(old)
	if err != nil || info.Mode() != 0o600 || info.Size() > 4000 {
		t.Errorf("after overwriting: %v, %v", info, err)
	}
}

// BenchmarkTap compares what a beat costs the engine's goroutine with the floor
// of copying its struct.
func BenchmarkTap(b *testing.B) {
	batch := make([]watchdog.Beat, 256)
	for i := range batch {
		batch[i] = fullBeat()
	}
	began := time.Now()
	var sink []watchdog.Beat
	for range 2000 {
		sink = append([]watchdog.Beat(nil), batch...)
	}
	floor := float64(time.Since(began)) / 2000 / float64(len(sink))

	w, err := NewWriter(io.Discard, false, Header{Started: started()})
	if err != nil {
		b.Fatal(err)
	}
	rec := recordTo(w, Options{Buffer: 1 << 30})
	n := 0
	for b.Loop() {
		rec.Beats(batch)
		n += len(batch)
	}
	b.StopTimer()
	perBeat := float64(b.Elapsed()) / float64(n)
	b.ReportMetric(perBeat, "ns/beat")
	b.ReportMetric(perBeat/floor, "ratio")
	if err := rec.Close(); err != nil {
		b.Log(err)
	}
}

func TestPrimeTellsTheSourcesThatAreKnownAlready(t *testing.T) {
	before := watchdog.NewTracker(watchdog.DefaultPolicy(), started())
	at := started().Mono
	for _, ev := range []watchdog.Event{
		watchdog.SourceAdded{Source: watchdog.SourceNATS, At: at},
		watchdog.LinkChanged{Source: watchdog.SourceNATS, Phase: watchdog.LinkUp, Address: "nats://a:4222", Origin: "flag", At: at},
		watchdog.RoundTrip{Source: watchdog.SourceNATS, Sent: at + time.Second, At: at + 1002*time.Millisecond},
		watchdog.SourceAdded{Source: watchdog.SourceRedis, At: at},
		watchdog.LinkChanged{Source: watchdog.SourceRedis, Phase: watchdog.LinkDown, Address: "redis://b", Detail: "refused",
			Attempt: 3, NextTry: at + 5*time.Second, At: at},
		tickAt(2 * time.Second),
	} {
		before.Apply(ev)
	}
	w := before.Look(watchdog.Ask{})

	var out bytes.Buffer
	rec := record(t, &out, Options{})
	rec.Prime(w.Now, w.Links)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader("x", &out)
	if err != nil {
		t.Fatal(err)
	}
	after := r.Header().NewTracker()
	if _, err := Replay(r, after, ReplayOptions{}); err != nil {
		t.Fatal(err)
	}
	links := after.Look(watchdog.Ask{}).Links
	if len(links) != 2 {
		t.Fatalf("%d links, want 2: %+v", len(links), links)
	}
	for i, want := range w.Links {
		got := links[i]
		if got.Source != want.Source || got.Phase != want.Phase || got.Address != want.Address || got.Origin != want.Origin ||
			got.Detail != want.Detail || got.Attempt != want.Attempt || got.NextTry != want.NextTry ||
			got.LastTrip != want.LastTrip || got.RTT != want.RTT || got.Sighted != want.Sighted {
			t.Errorf("told %+v\nwas  %+v", got, want)
		}
	}
}
