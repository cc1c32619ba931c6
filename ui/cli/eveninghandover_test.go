package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The hours of the shift, as offsets from 03:00:00Z.
const (
	shiftStuck   = 2 * time.Minute // the indexer does its last work
	shiftRestart = 9 * time.Minute
	shiftBlind   = 12 * time.Minute // our own link is gone
	shiftSight   = shiftBlind + 40*time.Second
	shiftAsked   = 15 * time.Minute // a person is asked and does not answer
	shiftMute    = 20 * time.Minute
	shiftStall   = 25 * time.Minute // the batch job does its last work
	shiftAck     = 38 * time.Minute
	shiftSilence = 44 * time.Minute // forty of one host stop together
	shiftEnd     = 50*time.Minute + 30*time.Second
)

// shiftBeats beats every 30 s, but never while we were blind.
func shiftBeats(s *recordingtest.Script, id string, from, to time.Duration, say func(at time.Duration, b *watchdog.Beat)) {
	full := func(at time.Duration, b *watchdog.Beat) {
		b.Interval, b.Idle, b.BootID = 30*time.Second, time.Second, []byte("k3x9")
		say(at, b)
	}
	s.Beats(from, min(to, shiftBlind), 30*time.Second, watchdog.SourceNATS, id, full)
	for from < shiftSight {
		from += 30 * time.Second
	}
	s.Beats(from, to, 30*time.Second, watchdog.SourceNATS, id, full)
}

// shiftOver is what one who leaves has to tell.
func shiftOver() *recordingtest.Script {
	nats := watchdog.SourceNATS
	s := recordingtest.New(watchdog.Policy{}).May(watchdog.Acts{Able: true, Bus: true, Settles: true})
	s.Link(nats, 0, shiftBlind).Link(nats, shiftSight, shiftEnd)
	s.Event(shiftBlind+time.Second, watchdog.LinkChanged{Source: nats, Phase: watchdog.LinkDown, Address: "nats://script", Origin: "script",
		Detail: "connection reset", Attempt: 1, At: s.Mono(shiftBlind + time.Second)})
	for host, silent := range map[string]time.Duration{"eu1": shiftEnd, "eu2": shiftSilence} {
		for i := range 40 {
			shiftBeats(s, fmt.Sprintf("%s-worker-%04d", host, i+1), time.Duration(i%30)*time.Second, silent,
				func(_ time.Duration, b *watchdog.Beat) { b.Host = []byte(host) })
		}
	}
	shiftBeats(s, "batch-job-abc123", time.Second, shiftEnd, func(at time.Duration, b *watchdog.Beat) {
		b.Generation, b.Idle, b.Task = 3, max(time.Second, at-shiftStall), []byte("Processing chunk 47/200")
	})
	shiftBeats(s, "approver-billing", 2*time.Second, shiftEnd, func(at time.Duration, b *watchdog.Beat) {
		if b.Generation = 1; at >= shiftAsked {
			b.Idle, b.WaitingFor, b.WaitingMax = at-shiftAsked, watchdog.WaitHuman, 8*time.Hour
		}
	})
	shiftRestarted(s)
	shiftSaid(s)
	return s.Until(shiftEnd)
}

// shiftRestarted is a stuck session that was restarted, which took effect.
func shiftRestarted(s *recordingtest.Script) {
	const over = shiftRestart + 4*time.Second
	run := func(g watchdog.Generation, boot string, began, stuck time.Duration) func(time.Duration, *watchdog.Beat) {
		return func(at time.Duration, b *watchdog.Beat) {
			b.Generation, b.BootID, b.TakesSaid, b.Takes = g, []byte(boot), true, watchdog.OpSetOf(watchdog.Ops()...)
			b.Uptime, b.Idle = int64((at-began)/time.Second), max(time.Second, at-stuck)
		}
	}
	shiftBeats(s, "indexer", 3*time.Second, shiftRestart, run(1, "k3x9", 0, shiftStuck))
	shiftBeats(s, "indexer", over+time.Second, shiftEnd, run(2, "m7p1", over, shiftEnd))
	c := watchdog.Command{ID: "c1", Op: watchdog.OpRestart, Session: "indexer", Generation: 1, BootID: "k3x9", IssuedBy: "ops1",
		At: time.Unix(0, s.Started().Wall+int64(shiftRestart)).UTC()}
	c.Expires = c.At.Add(watchdog.CommandTTL)
	s.Event(shiftRestart, watchdog.Ordered{Command: c, At: s.Mono(shiftRestart)})
	answer := watchdog.Answer{Command: c.ID, Session: c.Session, Generation: 1, Fate: watchdog.FateAcknowledged, By: "serve@eu1-01"}
	s.Event(shiftRestart+time.Second, watchdog.Answered{Answer: answer, Way: "nats", At: s.Mono(shiftRestart + time.Second)})
	s.Event(over, watchdog.TerminalSeen{ID: c.Session, Generation: 1, Outcome: watchdog.OutcomeStopped, SettledBy: watchdog.BySupervisor,
		Reason: "restart", Writer: "serve@eu1-01/812", At: s.Mono(over)})
	answer.Fate = watchdog.FateEffective
	s.Event(over, watchdog.Answered{Answer: answer, Way: "nats", At: s.Mono(over)})
}

// shiftSaid is what the operator said of alerts.
func shiftSaid(s *recordingtest.Script) {
	wall := func(at time.Duration) time.Time { return time.Unix(0, s.Started().Wall+int64(at)).UTC() }
	mute := watchdog.AlertNote{Key: watchdog.MatchKey("etl-*"), Kind: watchdog.NoteMute, Author: "ops1", Text: "deploy", At: wall(shiftMute), Until: wall(3 * time.Hour)}
	ack := watchdog.AlertNote{Key: "batch-job-abc123#3/stalled", Kind: watchdog.NoteAck, Author: "ops1", Text: "vendor called, 04:00Z", At: wall(shiftAck),
		Evidence: uint64(wall(shiftStall + 5*time.Minute).Unix())}
	s.Event(0, watchdog.Noted{At: s.Mono(0)})
	s.Event(shiftMute, watchdog.Noted{Notes: []watchdog.AlertNote{mute}, At: s.Mono(shiftMute)})
	s.Event(shiftAck, watchdog.Noted{Notes: []watchdog.AlertNote{mute, ack}, At: s.Mono(shiftAck)})
}

// TestEveningHandover: who comes next reads on one page what is open, what
// happened, what was done, what is quiet and when nobody saw; and a command
// prints the same.
func TestEveningHandover(t *testing.T) {
	s := shiftOver()
	path := filepath.Join(t.TempDir(), "shift.jsonl.gz")
	if err := s.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	var page []string
	spend(t, s, stage{width: 120, height: 40}, func(e *evening) {
		e.until(shiftEnd - 2*time.Second)
		e.shows(`NEED YOU`, `HELD for \S+ +40 silent together`)
		e.press("H")
		e.shows(`HANDOVER prod +19:50Z-03:50Z +ops1`,
			`^.OPEN +3 alerts, 1 of them acknowledged`,
			`group +40 silent together.*since 03:4\dZ +still HELD +nobody has answered`,
			`stalled +batch-job-abc123 #3 +since 03:3\dZ +ack ops1 "vendor called, 04:00Z"`,
			`human +approver-billing #1 +since 03:15Z +nobody has answered`,
			`^.HAPPENED +2 alerts, 1 group`,
			`stalled +03:0\dZ +indexer #1: .*, then stopped`,
			`group +03:44Z +40 of 83 live went silent together; still`,
			`^.ACTIONS +1 action`,
			`restart +03:09Z +indexer #1 > #2 +by ops1: effective in 4s`,
			`^.QUIET +1 note`,
			`muted +etl-\* +to 06:00Z +by ops1 "deploy"`,
			`^.BLIND +1 time`,
			`NATS +03:1[12]:\d\dZ-03:12:4\dZ +4\ds: no answer`)
		e.hides("ALL WELL")
		page = strings.Split(e.frame(), "\n")
	})
	code, out := command(t, "handover", "--from", path, "--since", "8h")
	if code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	facts := strings.Split(strings.TrimRight(out, "\n"), "\n")
	for _, fact := range facts[1:] { // the first line names who reads it where
		if !slices.ContainsFunc(page, func(line string) bool {
			return strings.TrimSpace(strings.TrimPrefix(line, ">")) == strings.TrimSpace(fact)
		}) {
			t.Errorf("the command says %q and the page does not:\n%s", fact, strings.Join(page, "\n"))
		}
	}
	if len(facts) < 12 {
		t.Errorf("the command says too little:\n%s", out)
	}
}
