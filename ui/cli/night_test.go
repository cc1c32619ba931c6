package cli

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

var update = flag.Bool("update", false, "write the bundled night anew")

// The hours of the night, as offsets from 03:00:00Z.
const (
	nightWait    = 5 * time.Minute // a person is asked and does not answer
	nightStall   = 8 * time.Minute // the indexer does its last work
	nightLoss    = 10 * time.Minute
	nightDispute = 15 * time.Minute
	nightError   = 18 * time.Minute
	nightSilence = 22 * time.Minute // twelve of one host stop together
	nightReturn  = 30 * time.Minute
	nightBlind   = 33 * time.Minute // our own link to NATS is gone
	nightSight   = nightBlind + 41*time.Second
	nightEnd     = 40 * time.Minute
)

// night writes the story down.
func night() *recordingtest.Script {
	nats, redis := watchdog.SourceNATS, watchdog.SourceRedis
	s := recordingtest.New(watchdog.Policy{})
	s.Link(nats, 0, nightBlind).Link(nats, nightSight, nightEnd).Link(redis, 0, nightEnd)
	s.Event(nightBlind+time.Second, watchdog.LinkChanged{
		Source: nats, Phase: watchdog.LinkDown, Address: "nats://nats.example:4222", Origin: "file:1",
		Detail: "connection reset", Attempt: 1, At: s.Mono(nightBlind + time.Second),
	})
	for i := range 30 {
		nightWorker(s, fmt.Sprintf("batch-job-%04d", i+1), fmt.Sprintf("eu1-%02d", i%5+1), i, 0, nightEnd)
	}
	for i := range 12 {
		id, host := fmt.Sprintf("worker-%04d", 201+i), "eu2-07"
		nightWorker(s, id, host, i, 0, nightSilence+time.Duration(i)*600*time.Millisecond)
		nightWorker(s, id, host, i, nightReturn+time.Duration(i)*time.Second, nightEnd)
	}
	nightSick(s)
	return s.Until(nightEnd)
}

// nightBeats beats over NATS every 30 s, but never while we were blind.
func nightBeats(s *recordingtest.Script, id string, from, to time.Duration, say func(at time.Duration, b *watchdog.Beat)) {
	s.Beats(from, min(to, nightBlind), 30*time.Second, watchdog.SourceNATS, id, say)
	after := from
	for after < nightSight {
		after += 30 * time.Second
	}
	s.Beats(after, to, 30*time.Second, watchdog.SourceNATS, id, say)
}

// nightWorker works through its chunks.
func nightWorker(s *recordingtest.Script, id, host string, i int, from, to time.Duration) {
	of := 120 + 37*(i%9)
	nightBeats(s, id, from+time.Duration(i)*900*time.Millisecond, to, func(at time.Duration, b *watchdog.Beat) {
		done := int(at/(20*time.Second)) + i%40
		b.Task = fmt.Appendf(nil, "Processing chunk %d/%d", done%of+1, of)
		b.Credits = 40 - float64(i%7) - at.Minutes()/10
		b.Idle, b.Interval, b.StallTimeout = time.Duration(i%4)*time.Second, 30*time.Second, 5*time.Minute
		b.Host, b.Agent, b.PID = []byte(host), fmt.Appendf(nil, "agent-%d", i%6), int64(4000+i)
	})
}

// nightSick are those that the night is about.
func nightSick(s *recordingtest.Script) {
	nats, redis := watchdog.SourceNATS, watchdog.SourceRedis
	guarded := func(b *watchdog.Beat, host, task string) {
		b.Interval, b.Host, b.Task = 30*time.Second, []byte(host), []byte(task)
	}
	nightBeats(s, "indexer", 0, nightEnd, func(at time.Duration, b *watchdog.Beat) {
		guarded(b, "eu1-02", "embedding batch 9")
		b.Idle, b.StallTimeout, b.Credits = max(0, at-nightStall), 5*time.Minute, 12.5
	})
	nightBeats(s, "payments-sync", 0, nightLoss, func(_ time.Duration, b *watchdog.Beat) {
		guarded(b, "eu1-04", "reconciling ledger 118")
	})
	s.Event(nightLoss+91*time.Second, watchdog.TerminalSeen{
		ID: "payments-sync", Generation: 1, Outcome: watchdog.OutcomeLost, SettledBy: "sweeper",
		Reason: "3 beats missed", At: s.Mono(nightLoss + 91*time.Second),
	})
	nightBeats(s, "approver-billing", 0, nightEnd, func(at time.Duration, b *watchdog.Beat) {
		guarded(b, "eu1-01", "approve refund 4471")
		if b.Idle = 0; at >= nightWait {
			b.Idle, b.WaitingFor, b.WaitingMax = at-nightWait, watchdog.WaitHuman, 8*time.Hour
		}
	})
	crawl := func(at time.Duration, b *watchdog.Beat) {
		guarded(b, "us1-03", fmt.Sprintf("deduplicating %d pages", 900+int(at/time.Minute)))
	}
	nightBeats(s, "crawler-0031", time.Second, nightEnd, crawl)
	s.Beats(2*time.Second, nightDispute, 30*time.Second, redis, "crawler-0031", crawl)
	for polls := 1; polls <= 2; polls++ {
		at := nightDispute + time.Minute + time.Duration(polls)*2*time.Second
		s.Event(at, watchdog.KeyGone{Source: redis, ID: "crawler-0031", LastSeen: s.Mono(nightDispute + time.Minute), Polls: polls, At: s.Mono(at)})
	}
	nightBeats(s, "etl-nightly", 3*time.Second, nightError, func(_ time.Duration, b *watchdog.Beat) {
		guarded(b, "eu1-02", "loading orders.parquet")
	})
	s.Beat(nightError, nats, "etl-nightly", func(b *watchdog.Beat) {
		guarded(b, "eu1-02", "loading orders.parquet")
		b.State, b.StateText, b.Uptime = watchdog.StateError, []byte("error"), int64(nightError/time.Second)
		b.Message = []byte("exit status 1: schema mismatch in orders.parquet")
	})
	nightBeats(s, "batch-job-def456", 4*time.Second, nightEnd, func(_ time.Duration, b *watchdog.Beat) {
		b.Task, b.Credits = []byte("Processing chunk 47/200"), 8.43
	})
}

func TestBundledNightIsWhatTheStorySays(t *testing.T) {
	want, err := night().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := night().WriteFile("night.jsonl.gz"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod("night.jsonl.gz", 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	unzip, err := gzip.NewReader(bytes.NewReader(bundledNight))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Error("night.jsonl.gz is not what the story says; run this test with -update")
	}
}

// TestBundledNightShowsItsStory looks at the hours that the night is about.
func TestBundledNightShowsItsStory(t *testing.T) {
	type look struct {
		at   time.Duration
		id   watchdog.ID
		want watchdog.Verdict
	}
	looks := []look{
		{4 * time.Minute, "indexer", watchdog.Running},
		{nightStall + 6*time.Minute, "indexer", watchdog.Stalled},
		{nightWait + time.Minute, "approver-billing", watchdog.Waiting},
		{nightLoss + 80*time.Second, "payments-sync", watchdog.Silent},
		{nightLoss + 2*time.Minute, "payments-sync", watchdog.Lost},
		{nightDispute + 3*time.Minute, "crawler-0031", watchdog.Disputed},
		{nightError + time.Minute, "etl-nightly", watchdog.Failed},
		{nightSilence + 2*time.Minute, "worker-0201", watchdog.Silent},
		{nightReturn + time.Minute, "worker-0201", watchdog.Running},
		{nightSight - 5*time.Second, "batch-job-0001", watchdog.Unknown},
		{nightEnd, "batch-job-0001", watchdog.Running},
		{nightEnd, "batch-job-def456", watchdog.Quiet},
	}
	at := []time.Duration{nightBlind}
	for _, l := range looks {
		at = append(at, l.at)
	}
	seen := nightAt(t, at...)
	for _, l := range looks {
		got := map[watchdog.ID]watchdog.Verdict{}
		for _, row := range seen[l.at].Rows {
			got[row.ID] = row.Verdict
		}
		if got[l.id] != l.want {
			t.Errorf("after %v %s is %v, want %v", l.at, l.id, got[l.id], l.want)
		}
	}
	groups := seen[nightSilence+2*time.Minute].Groups
	if len(groups) != 1 || groups[0].N != 12 || groups[0].HeldFor == 0 {
		t.Errorf("the mass silence: %+v, want one group of 12 that is held", groups)
	}
	if groups := seen[nightSight-5*time.Second].Groups; len(groups) > 0 && groups[0].Began > seen[nightBlind].Now.Mono {
		t.Errorf("somebody was accused while we were blind: %+v", groups)
	}
	if diff := cmp.Diff("", nightNote(t)); diff != "" {
		t.Error(diff)
	}
}

// nightAt replays the night and looks at it at some moments.
func nightAt(t *testing.T, at ...time.Duration) map[time.Duration]watchdog.Window {
	t.Helper()
	r, err := night().Reader()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(at)
	g := glances{watchdog.NewTracker(r.Header().Policy, r.Header().Started), r.Header().Started.Mono, at, map[time.Duration]watchdog.Window{}}
	if _, err := recording.Replay(r, &g, recording.ReplayOptions{}); err != nil {
		t.Fatal(err)
	}
	g.until(math.MaxInt64)
	return g.seen
}

// glances is a tracker that is looked at before the clock passes a moment.
type glances struct {
	*watchdog.Tracker
	began time.Duration
	at    []time.Duration // still to come
	seen  map[time.Duration]watchdog.Window
}

func (g *glances) Apply(ev watchdog.Event) []watchdog.Effect {
	if tick, ok := ev.(watchdog.Ticked); ok {
		g.until(tick.Now.Mono - g.began)
	}
	return g.Tracker.Apply(ev)
}

func (g *glances) until(now time.Duration) {
	for ; len(g.at) > 0 && g.at[0] < now; g.at = g.at[1:] {
		g.seen[g.at[0]] = g.Look(everything())
	}
}

// nightNote replays the bundled file itself.
func nightNote(t *testing.T) string {
	t.Helper()
	r, err := openRecording("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tracker := watchdog.NewTracker(r.Header().Policy, r.Header().Started)
	result, err := recording.Replay(r, tracker, recording.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return result.Note
}
