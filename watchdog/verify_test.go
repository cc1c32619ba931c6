package watchdog

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// claimed is a rig whose session's receiver has just said that it obeyed a stop.
func claimed(t *testing.T, change ...func(*Beat)) (r *rig, beats func()) {
	t.Helper()
	r = newRig(t, Policy{}, SourceNATS).acts()
	up := int64(10)
	each := r.beating("a", &up, append(change, guarded(2, "boot", OpStop, OpKill))...)
	r.run(5*time.Second, each)
	r.order("c1", OpStop, "a", 2, "boot")
	r.apply(Answered{Answer: Answer{Command: "c1", Session: "a", Generation: 2, Fate: FateEffective, Detail: "I swear", By: "liar"}, Way: "nats", At: r.at.Mono, Unverified: true})
	r.wantFate("c1", FateAcknowledged, "being verified")
	return r, each
}

func every(d time.Duration) func(*Beat) { return func(b *Beat) { b.Interval = d } }

func TestReceiverThatLiesOfAStopIsNotBelieved(t *testing.T) {
	r, beats := claimed(t)
	r.run(endedGrace+2*time.Second, beats)
	if a := r.wantFate("c1", FateIneffective, "I swear", "still beats"); a.Next != "kill" || a.By != "liar" {
		t.Errorf("the next step is %q, said by %q; want kill, by liar", a.Next, a.By)
	}
	if len(r.confirms) != 0 {
		t.Errorf("the end of one that beats is to be written: %v", r.confirms)
	}
	if list := r.tr.Look(Ask{Alerts: 10}).Alerts.List; len(list) != 1 || !strings.HasPrefix(list[0].Text, "STOP NOT EFFECTIVE a #2") {
		t.Errorf("alerts are %+v, want one of the stop", list)
	}
	r.answer("c1", "a", 2, FateEffective, "really")
	r.wantFate("c1", FateIneffective) // a fate is final
}

// An end that is seen is written once, and then it is effective.
func TestEndThatAReceiverTellsOfIsSeen(t *testing.T) {
	for name, tt := range map[string]struct {
		interval time.Duration
		then     func(r *rig)
		within   time.Duration
		early    time.Duration // by then nothing is said; 0: at once
	}{
		"its last beat": {time.Second, func(r *rig) {
			r.send(beat("a", 99, guarded(2, "boot"), func(b *Beat) { b.StateText, b.Seq = []byte("error"), 99 }))
		}, tickLength, 0},
		"its record": {time.Second, func(r *rig) {
			r.apply(TerminalSeen{ID: "a", Generation: 2, Outcome: OutcomeStopped, SettledBy: BySupervisor, At: r.at.Mono})
		}, tickLength, 0},
		"another run":               {time.Second, func(r *rig) { r.send(beat("a", 1, guarded(3, "boot2"))) }, tickLength, 0},
		"no beat for two intervals": {5 * time.Second, func(*rig) {}, 12 * time.Second, 10 * time.Second},
		"no beat for three seconds": {time.Second, func(*rig) {}, 4 * time.Second, 2 * time.Second},
		"a beat that was on its way": {time.Second, func(r *rig) {
			r.run(endedGrace/2, nil)
			r.send(beat("a", 99, guarded(2, "boot"), func(b *Beat) { b.Seq = 99 }))
		}, 4 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := claimed(t, every(tt.interval))
			tt.then(r)
			if tt.early > 0 {
				r.run(tt.early, nil)
				r.wantFate("c1", FateAcknowledged)
				if len(r.confirms) != 0 {
					t.Fatal("it was believed too early")
				}
			}
			r.run(tt.within-tt.early, nil)
			if len(r.confirms) != 1 || r.confirms[0].Answer.By != "liar" || r.confirms[0].Way != "nats" || r.confirms[0].Command.Generation != 2 {
				t.Fatalf("to be written: %+v, want its end once", r.confirms)
			}
			r.wantFate("c1", FateAcknowledged) // until its end is written
			r.answer("c1", "a", 2, FateAcknowledged, "a late word")
			r.wantFate("c1", FateAcknowledged, "being verified")
			r.answer("c1", "a", 2, FateEffective, "exit status 0")
			r.wantFate("c1", FateEffective, "exit status 0")
		})
	}
}

// Silence proves nothing to who is blind.
func TestEndIsNotSeenByTheBlind(t *testing.T) {
	r, beats := claimed(t, every(time.Second))
	r.up[SourceNATS] = false
	r.run(time.Minute, nil)
	r.wantFate("c1", FateAcknowledged)
	r.up[SourceNATS] = true
	r.run(time.Second, nil)
	if len(r.confirms) != 0 {
		t.Fatal("the end of one that nobody could see is to be written")
	}
	r.run(3*time.Second, beats)
	r.wantFate("c1", FateIneffective, "still beats")

	r, _ = claimed(t)
	r.up[SourceNATS] = false
	r.run(CommandTTL+5*time.Second, nil)
	r.wantFate("c1", FateTimedOut, "I swear")
}

func TestEndThatNobodyWritesIsToldAllTheSame(t *testing.T) {
	r, _ := claimed(t)
	r.run(effectWithin, nil)
	r.wantFate("c1", FateAcknowledged)
	r.run(endedLeast+2*time.Second, nil)
	r.wantFate("c1", FateEffective, "I swear", "not known")
}

// The error of a way is no refusal once a receiver has the command: what is seen
// of its target decides.
func TestResultThatCannotBeReadIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, _ := operated(t, OperatorConfig{Ways: []CommandWay{way{carry: func(_ context.Context, c Command, heard func(Answer)) (Answer, error) {
			heard(Answer{Command: c.ID, Session: c.Session, Fate: FateDelivered, By: "run@b/2"})
			return Answer{}, ErrForeignRecord
		}}}})
		a, err := engine.Do(t.Context(), Command{Op: OpStop, Session: "a", Generation: 2})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := fateOf(t, engine, a.ID); got.Fate != FateAcknowledged || !strings.Contains(got.Detail, "cannot be read") {
			t.Errorf("%v: %s", got.Fate, got.Detail)
		}
		time.Sleep(CommandTTL + effectWithin)
		synctest.Wait()
		if got := fateOf(t, engine, a.ID); !got.Fate.Final() || got.Fate == FateRefused {
			t.Errorf("in the end: %v: %s", got.Fate, got.Detail)
		}
	})
}

// The last beat of a run that a supervisor stopped may be read long after its word,
// from a store that is polled, and its ledger may be away: it tells the end.
func TestLastBeatOfAStoppedRunIsNoSignOfLife(t *testing.T) {
	for _, late := range []time.Duration{0, endedGrace / 2, endedGrace + 500*time.Millisecond, 2 * time.Second} {
		r, _ := claimed(t, every(30*time.Second))
		r.run(late, nil)
		up := int64(20)
		r.beating("a", &up, every(30*time.Second), guarded(2, "boot", OpStop, OpKill), func(b *Beat) {
			b.StateText = []byte("stopped")
			b.State = StateOf(b.StateText)
		})()
		r.run(time.Second, nil)
		if len(r.confirms) != 1 {
			t.Errorf("read %v after the word of its supervisor: %d ends to be written, want 1", late, len(r.confirms))
		}
	}
	r, beats := claimed(t, every(time.Second), func(b *Beat) { b.StateText = []byte("paused"); b.State = StateOf(b.StateText) })
	r.run(endedGrace+2*time.Second, beats)
	r.wantFate("c1", FateIneffective, "still beats")
}
