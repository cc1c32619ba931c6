package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// alerts gives the queue.
func (r *rig) alerts() AlertsView { return r.tr.Look(Ask{Alerts: 100}).Alerts }

// one gives the only alert.
func (r *rig) one() Alert {
	r.t.Helper()
	v := r.alerts()
	if len(v.List) != 1 || v.Total != 1 {
		r.t.Fatalf("%d alerts: %+v", v.Total, v.List)
	}
	return v.List[0]
}

// tolds gives what was raised since the last call.
func (r *rig) tolds() []string {
	var out []string
	for _, e := range r.raised {
		text := e.Alert.Text
		if e.Again != "" {
			text += " (" + e.Again + ")"
		}
		out = append(out, text)
	}
	r.raised = nil
	return out
}

func (r *rig) wantTold(want ...string) {
	r.t.Helper()
	got := r.tolds()
	if len(got) != len(want) {
		r.t.Fatalf("raised %q, not %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			r.t.Errorf("raised %q, not %q", got[i], want[i])
		}
	}
}

// say puts a board with these notes before the tracker.
func (r *rig) say(notes ...AlertNote) {
	for i := range notes {
		if notes[i].At.IsZero() {
			notes[i].At = time.Unix(0, r.at.Wall)
		}
		if notes[i].Author == "" {
			notes[i].Author = "ops1"
		}
	}
	r.apply(Noted{Notes: notes, At: r.at.Mono})
}

func ackOf(a Alert) AlertNote {
	return AlertNote{Key: a.Key, Kind: NoteAck, Evidence: a.Evidence, Text: "vendor called"}
}

func working(idle func(n int64) time.Duration) func(*Beat, int64) {
	return func(b *Beat, n int64) { b.Interval, b.Idle, b.Generation = 10*time.Second, idle(n), 3 }
}

func TestAStallIsOneAlertThatIsToldOnce(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	var since int64
	busy := working(func(int64) time.Duration { return 0 })
	stuck := working(func(n int64) time.Duration { return time.Duration(n-since) * 10 * time.Second })
	r.worker("job", time.Minute, busy)
	if v := r.alerts(); v.Total != 0 {
		t.Fatalf("alerts of a healthy fleet: %+v", v.List)
	}
	since = 6
	r.worker("job", 6*time.Minute, stuck)
	a := r.one()
	if a.Text != "STALLED job #3: no work 5m50, limit 5m; beats go on." && a.Text != "STALLED job #3: no work 6m00, limit 5m; beats go on." {
		t.Errorf("it says %q", a.Text)
	}
	if a.Key != "job#3/stalled" || a.Standing != AlertOpen || a.Attention != AttentionAct {
		t.Errorf("alert %+v", a)
	}
	r.wantTold("STALLED job #3: no work 5m0")

	r.say(ackOf(a))
	if a = r.one(); a.Standing != AlertAcked || a.Note.Author != "ops1" || a.Note.Text != "vendor called" {
		t.Errorf("acknowledged: %+v", a)
	}
	w := r.tr.Look(Ask{Height: -1, Events: 1})
	if w.Fleet.NeedYou != 0 || w.Fleet.Answered != 1 || w.Rows[0].Standing != AlertAcked || w.Rows[0].AnsweredBy != "ops1" {
		t.Errorf("fleet %+v, row %+v", w.Fleet, w.Rows[0])
	}
	if len(w.Events) != 1 || w.Events[0].Kind != EventAlert || w.Events[0].Text != "stalled: ack by ops1: vendor called" {
		t.Errorf("events %+v", w.Events)
	}
	r.worker("job", time.Minute, stuck)
	r.wantTold()

	r.worker("job", time.Minute, busy)
	if v := r.alerts(); v.Total != 0 || len(r.over) != 1 || r.over[0].Note.Key != "job#3/stalled" {
		t.Errorf("after it worked: %+v, over %+v", v, r.over)
	}
	// Nobody cleared the note: it must not answer the next stall.
	since = (int64(r.at.Mono) - int64(r.tr.epoch.Mono)) / int64(10*time.Second)
	r.worker("job", 6*time.Minute, stuck)
	if a = r.one(); a.Standing != AlertOpen {
		t.Errorf("the second stall: %+v", a)
	}
	r.wantTold("STALLED job #3")
}

// TestWhatAnsweredOneEpisodeDoesNotAnswerTheNext: not even when the next one begins
// at once, and nobody who may clear the note off the board looks; nor does one that
// was written before the execution had a number, and answered by another since.
func TestWhatAnsweredOneEpisodeDoesNotAnswerTheNext(t *testing.T) {
	says := func(s State) func(*Beat, int64) {
		return func(b *Beat, _ int64) { b.State, b.StateText, b.Generation = s, []byte(s.String()), 3 }
	}
	for _, kind := range []NoteKind{NoteAck, NoteSnooze} {
		r := newRig(t, Policy{}, SourceNATS)
		r.worker("job", 20*time.Second, says(StateRunning))
		r.worker("job", 10*time.Second, says(StateStalled))
		answer := ackOf(r.one())
		answer.Kind, answer.At = kind, time.Unix(0, r.at.Wall)
		if kind == NoteSnooze {
			answer.Until = answer.At.Add(time.Hour)
		}
		early := ackOf(r.one())
		early.Key, early.At = sessionKey("job", 0, CauseStalled), answer.At.Add(-time.Second)
		r.say(early, answer)
		if a := r.one(); a.Standing == AlertOpen {
			t.Fatalf("%v: %+v", kind, a)
		}
		r.worker("job", 10*time.Second, says(StateRunning))
		if v := r.alerts(); v.Total != 0 {
			t.Fatalf("%v: it recovered: %+v", kind, v.List)
		}
		r.say(early, answer) // they stand there still
		r.wantTold("STALLED job")
		r.worker("job", 10*time.Second, says(StateStalled))
		if a := r.one(); a.Standing != AlertOpen {
			t.Errorf("%v: the next stall: %+v", kind, a)
		}
		r.wantTold("STALLED job")
		answer.At = time.Unix(0, r.at.Wall)
		r.say(answer)
		if a := r.one(); a.Standing == AlertOpen {
			t.Errorf("%v: answered again: %+v", kind, a)
		}
	}
}

// TestAnAnswerOutlivesItsObserver: one that begins anew, and learns of the execution
// from the ledger before it hears it, takes it for what was answered.
func TestAnAnswerOutlivesItsObserver(t *testing.T) {
	for _, head := range []bool{false, true} {
		r := newRig(t, Policy{}, SourceNATS)
		note := AlertNote{Key: "job#3/stalled", Kind: NoteAck, Evidence: uint64(r.at.Wall/int64(time.Second)) - 1800,
			At: time.Unix(0, r.at.Wall).Add(-29 * time.Minute), Text: "vendor called"}
		if head {
			r.apply(HeadSeen{Head: Head{ID: "job", Generation: 3, Executions: []Execution{{Generation: 3}}}, At: r.at.Mono})
		}
		r.say(note)
		r.run(5*time.Second, nil)
		r.worker("job", time.Minute, func(b *Beat, _ int64) {
			b.State, b.StateText, b.Generation, b.Interval = StateStalled, []byte("stalled"), 3, 10*time.Second
		})
		if a := r.one(); a.Standing != AlertAcked || a.Note.Text != "vendor called" {
			t.Errorf("with a head %v: %+v", head, a)
		}
		r.wantTold()
	}
}

func TestManySilentTogetherAreOneAlert(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.tr.SetSweeper("here")
	r.apply(LedgerChanged{Ready: true, At: r.at.Mono})
	dead, n := 0, int64(0)
	send := func() {
		n++
		for i := range 200 {
			if i < dead || int64(i)%10 != n%10 {
				continue
			}
			r.send(beat(fmt.Sprintf("s%03d", i), n, func(b *Beat) {
				b.Interval, b.Generation, b.Host = 10*time.Second, 1, fmt.Appendf(nil, "eu%d-01", 1+i/20)
			}))
		}
	}
	r.run(time.Minute, send)
	dead = 40
	r.run(time.Minute, send)
	a := r.one()
	if a.Text != "40 silent together: all on hosts eu*." && !strings.HasPrefix(a.Text, "40 silent together: all ") || a.N != 40 || len(a.Members) != 40 {
		t.Errorf("it says %q of %d", a.Text, a.N)
	}
	if len(a.Hosts) != 2 || a.Hosts[0] != (HostCount{"eu1-01", 20}) || a.HeldFor == 0 {
		t.Errorf("hosts %+v, held %v", a.Hosts, a.HeldFor)
	}
	if got := r.tolds(); len(got) != 1 || !strings.Contains(got[0], " silent together: all on hosts eu") {
		t.Errorf("raised %q", got)
	}

	r.say(ackOf(a))
	dead = 60 // more of them
	r.run(time.Minute, send)
	if a = r.one(); a.Standing != AlertOpen || a.N != 60 {
		t.Errorf("more members: %+v", a)
	}
	r.wantTold("4")
	r.say(ackOf(r.one()))
	f := r.tr.Look(Ask{}).Fleet
	if f.NeedYou != 0 || f.Answered != 60 {
		t.Errorf("fleet %+v", f)
	}

	for i := range dead { // the sweeper settles them after the hold
		r.apply(TerminalSeen{ID: ID(fmt.Sprintf("s%03d", i)), Generation: 1, Outcome: OutcomeLost, SettledBy: BySweeper, At: r.at.Mono})
	}
	r.run(time.Minute, send)
	if a = r.one(); a.N != 60 || !a.Gone || a.Standing != AlertAcked || !strings.HasPrefix(a.Text, "60 went silent together and were lost") {
		t.Errorf("after they were lost: %+v", a)
	}
	r.run(CompletedLinger, send)
	r.wantTold()
	w := r.tr.Look(Ask{Height: -1, Alerts: 10})
	if w.Alerts.Total != 0 || len(w.Rows) != 140 || w.Fleet.NeedYou+w.Fleet.Answered != 0 || w.Fleet.Past[Lost] != 60 {
		t.Errorf("%d alerts, %d rows, fleet %+v", w.Alerts.Total, len(w.Rows), w.Fleet)
	}
}

func TestSilenceOfOneIsToldOnceItStandsAlone(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	every := func(b *Beat, _ int64) { b.Interval, b.Generation = 10*time.Second, 2 }
	r.worker("a", time.Minute, every)
	r.run(25*time.Second, nil)
	if a := r.one(); !strings.HasPrefix(a.Text, "SILENT a #2: 2 beats missed; ") {
		t.Errorf("it says %q", a.Text)
	}
	r.wantTold()
	r.run(15*time.Second, nil)
	r.wantTold("SILENT a #2: 3 beats missed")
}

func TestCrashLoopIsLatchedUntilItIsStable(t *testing.T) {
	r := newRig(t, Policy{}, SourceLocal)
	says := func(p SupervisorPhase, g Generation, exits int) {
		r.apply(Supervised{ID: "etl", Generation: g, Phase: p, Detail: "3 exits in 52s; held until it is started again",
			Process: Process{Restarts: exits, ExitCode: 1, LastLine: "boom"}, At: r.at.Mono})
	}
	says(SupervisorRunning, 9, 2)
	r.run(5*time.Second, nil)
	says(SupervisorCrashLoop, 9, 3)
	r.run(5*time.Second, nil)
	a := r.one()
	if a.Text != "CRASH-LOOP etl #9: 3 exits in 52s, code 1; stderr: boom." || a.Key != "etl#0/crash-loop" {
		t.Errorf("it says %q, key %q", a.Text, a.Key)
	}
	r.wantTold("CRASH-LOOP etl #9")
	r.say(ackOf(a))

	says(SupervisorRunning, 10, 3)
	r.run(4*time.Minute, func() {
		r.send(beat("etl", int64(r.at.Mono/time.Second), func(b *Beat) { b.Source, b.Generation = SourceLocal, 10 }))
	})
	if a = r.one(); !a.Gone || a.Standing != AlertAcked || !strings.Contains(a.Text, "runs again, stable in") {
		t.Errorf("while it runs again: %+v", a)
	}
	says(SupervisorCrashLoop, 10, 4)
	r.run(time.Second, nil)
	if a = r.one(); a.Gone || a.Standing != AlertOpen || a.Generation != 10 {
		t.Errorf("after another exit: %+v", a)
	}
	r.wantTold("CRASH-LOOP etl #10")
	says(SupervisorRunning, 11, 4)
	r.run(6*time.Minute, func() {
		r.send(beat("etl", int64(r.at.Mono/time.Second), func(b *Beat) { b.Source, b.Generation = SourceLocal, 11 }))
	})
	if v := r.alerts(); v.Total != 0 {
		t.Errorf("after it was stable: %+v", v.List)
	}
	r.wantTold()
}

func TestAnAcknowledgedBadEndLeaves(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.worker("a", time.Minute, func(b *Beat, _ int64) { b.Generation, b.Interval = 1, 10*time.Second })
	r.apply(TerminalSeen{ID: "a", Generation: 1, Outcome: OutcomeLost, SettledBy: BySweeper, Settled: r.at.Wall, At: r.at.Mono})
	r.run(time.Hour, nil)
	a := r.one()
	if want := "LOST a #1: no beat 1h00; settled " + FormatMoment(r.at.Wall-int64(time.Hour), r.at.Wall) + " by sweeper."; a.Text != want {
		t.Errorf("it says %q, not %q", a.Text, want)
	}
	r.say(ackOf(a))
	r.run(9*time.Minute, nil)
	if w := r.tr.Look(Ask{Height: -1}); len(w.Rows) != 1 || w.Rows[0].Standing != AlertAcked || w.Fleet.Answered != 1 {
		t.Errorf("before it leaves: %+v", w.Rows)
	}
	r.run(2*time.Minute, nil)
	w := r.tr.Look(Ask{Height: -1, Alerts: 9})
	if len(w.Rows) != 0 || w.Alerts.Total != 0 || w.Fleet.Answered+w.Fleet.NeedYou != 0 {
		t.Errorf("it did not leave: %+v %+v", w.Rows, w.Fleet)
	}
	if w = r.tr.Look(Ask{Height: -1, KeepEnded: true}); len(w.Rows) != 1 || w.Rows[0].Attention != AttentionNone || w.Rows[0].Verdict != Lost {
		t.Errorf("where all are wanted: %+v", w.Rows)
	}
	// Somebody who comes later finds it answered.
	late := newRig(t, Policy{}, SourceNATS)
	late.at.Wall = r.at.Wall
	late.run(time.Second, nil)
	late.say(AlertNote{Key: "a#1/lost", Kind: NoteAck, At: time.Unix(0, r.at.Wall).Add(-11 * time.Minute)})
	late.apply(TerminalSeen{ID: "a", Generation: 1, Outcome: OutcomeLost, SettledBy: BySweeper, Settled: r.at.Wall - int64(time.Hour), At: late.at.Mono})
	late.run(2*time.Second, nil)
	if w := late.tr.Look(Ask{Height: -1}); len(w.Rows) != 0 || len(late.raised) != 0 {
		t.Errorf("later: %+v, raised %+v", w.Rows, late.raised)
	}
}

func TestSnoozeAndMuteEnd(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	stalled := func(b *Beat, _ int64) { b.StateText, b.Interval, b.Generation = []byte("stalled"), 10*time.Second, 1 }
	both := func(d time.Duration) {
		r.run(d, func() {
			for _, id := range []string{"etl-1", "web"} {
				b := beat(id, int64(r.at.Mono/time.Second), func(b *Beat) { stalled(b, 0) })
				b.State = StateStalled
				r.send(b)
			}
		})
	}
	until := func(d time.Duration) time.Time { return time.Unix(0, r.at.Wall).Add(d) }
	mute := AlertNote{Key: MatchKey("etl-*"), Kind: NoteMute, Until: until(20 * time.Minute), Text: "deploy"}
	r.say(mute)
	both(time.Minute)
	r.wantTold("STALLED web #1: publisher says stalled; beats go on.")
	v := r.alerts()
	if v.Open != 1 || v.Quiet != 1 || len(v.Mutes) != 1 || v.List[0].ID != "web" || v.List[1].Standing != AlertMuted {
		t.Fatalf("queue %+v", v)
	}
	r.say(mute, AlertNote{Key: v.List[0].Key, Kind: NoteSnooze, Evidence: v.List[0].Evidence, Until: until(10 * time.Minute)})
	both(9 * time.Minute)
	r.wantTold()
	both(2 * time.Minute)
	r.wantTold("STALLED web #1: publisher says stalled; beats go on. (its snooze is over)")
	both(10 * time.Minute)
	r.wantTold("STALLED etl-1 #1: publisher says stalled; beats go on. (its mute is over)")
	if v = r.alerts(); v.Open != 2 || len(v.Mutes) != 0 {
		t.Errorf("queue %+v", v)
	}
}

func TestHumanWaitThenOverdue(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	waits := func(b *Beat, _ int64) {
		b.Interval, b.WaitingFor, b.WaitingMax, b.Task, b.Generation = 10*time.Second, WaitHuman, time.Hour, []byte("approve refund"), 1
	}
	r.worker("a", 14*time.Minute, waits)
	if v := r.alerts(); v.Total != 0 {
		t.Fatalf("too early: %+v", v.List)
	}
	r.worker("a", 2*time.Minute, waits)
	a := r.one()
	r.wantTold("HUMAN a #1: 15m of 1h: approve refund.")
	r.say(ackOf(a))
	r.worker("a", 45*time.Minute, waits)
	if a = r.one(); a.Cause != CauseOverdue || a.Standing != AlertOpen {
		t.Errorf("past its maximum: %+v", a)
	}
	r.wantTold("OVERDUE a #1: 1h00, max was 1h for HUMAN: approve refund.")
}

func TestCreditsThatRunOut(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	left := 20.0
	spend := func(per float64) func(*Beat, int64) {
		return func(b *Beat, _ int64) {
			left -= per
			b.Interval, b.Credits, b.Generation = 10*time.Second, left, 1
		}
	}
	r.worker("a", 5*time.Minute, spend(0.01)) // 0.06 a minute
	if v := r.alerts(); v.Total != 0 {
		t.Fatalf("too early: %+v", v.List)
	}
	left = 2
	r.worker("a", 10*time.Minute, spend(0.02))
	a := r.one()
	if a.Cause != CauseCredits || a.Standing != AlertOpen || a.Key != "a#1/credits" {
		t.Fatalf("alert %+v", a)
	}
	r.wantTold("CREDITS a: 1.")
	left = 500
	r.worker("a", time.Minute, spend(0.02))
	if v := r.alerts(); v.Total != 0 {
		t.Errorf("after a top-up: %+v", v.List)
	}
	r.worker("b", 20*time.Second, func(b *Beat, n int64) {
		b.Interval, b.Credits, b.Message = 10*time.Second, 1.8, []byte("8.2 of 10 credits are spent")
	})
	if a := r.one(); !strings.HasSuffix(a.Text, " left; 8.2 of 10 credits are spent.") {
		t.Errorf("a warned budget: %q", a.Text)
	}
}

func TestUnacknowledgedFirstWithinEachRank(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	states := map[string]string{"a": "stalled", "b": "stalled", "c": "error", "d": "running"}
	r.run(30*time.Second, func() {
		for _, id := range []string{"a", "b", "c", "d"} {
			b := beat(id, int64(r.at.Mono/time.Second), func(b *Beat) { b.StateText, b.Interval = []byte(states[id]), 10*time.Second })
			r.send(b)
		}
	})
	order := func() string {
		text := ""
		for _, row := range r.tr.Look(Ask{Height: -1}).Rows {
			text += string(row.ID)
		}
		return text
	}
	if got := order(); got != "abcd" {
		t.Fatalf("order %s", got)
	}
	r.say(AlertNote{Key: "a#0/stalled", Kind: NoteAck, Evidence: uint64(r.at.Wall / 1e9)})
	if got := order(); got != "bacd" {
		t.Errorf("order %s after a was acknowledged", got)
	}
	if w := r.tr.Look(Ask{Height: -1, Anchor: "b"}); w.NextAttention != "c" {
		t.Errorf("next is %s", w.NextAttention)
	}
}

func TestTroubleFromOutside(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.worker("a", 20*time.Second, func(b *Beat, _ int64) {})
	failed := Trouble{Cause: CauseAction, ID: "a", Generation: 2, Text: "STOP NOT EFFECTIVE a #2: acknowledged 03:12Z, still beats. Next: X expire.", Evidence: 1, At: r.at.Mono}
	r.apply(failed)
	r.apply(failed)
	r.wantTold(failed.Text)
	r.say(ackOf(r.one()))
	failed.Evidence = 2
	r.apply(failed)
	r.wantTold(failed.Text + " (it happened again)")
	failed.Over = true
	r.apply(failed)
	if v := r.alerts(); v.Total != 0 {
		t.Errorf("still there: %+v", v.List)
	}
	for i := range maxTroubles + 10 {
		r.apply(Trouble{Cause: CauseAction, ID: ID(fmt.Sprint("x", i)), Text: "it failed.", At: r.at.Mono})
	}
	if v := r.alerts(); v.Total != maxTroubles || len(v.List) != 100 {
		t.Errorf("%d alerts, %d shown", v.Total, len(v.List))
	}
}
