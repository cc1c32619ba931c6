package watchdog

import (
	"strings"
	"testing"
	"time"
)

// A runner that was stopped (SIGSTOP) answers nothing, and nobody settles it.
func TestWhatIsKnownOfACommandThatNobodyAnswersIsTold(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	up := int64(10)
	each := r.beating("a", &up, guarded(2, "boot", OpStop, OpDump))
	r.run(5*time.Second, each)
	expires := time.Unix(0, r.at.Wall).Add(CommandTTL)
	r.tr.Apply(Ordered{Command: Command{ID: "c1", Op: OpStop, Session: "a", Generation: 2, Expires: expires}, At: r.at.Mono})
	r.answer("c1", "a", 2, FateRequested, "it is kept for its receiver")
	r.run(takenWithin, nil)
	if a := r.wantFate("c1", FateRequested, "it is kept"); a.Next != "" {
		t.Errorf("after %v the next step is %q already", a.Age, a.Next)
	}
	r.run(2*tickLength, nil)
	r.tr.Apply(Answered{Answer: Answer{Command: "c1", Session: "a", Generation: 2, Fate: FateRequested, Detail: "it is kept there"}, Way: "redis", At: r.at.Mono})
	if a := r.wantFate("c1", FateRequested, "nobody answers: no receiver took it within 3s; last beat 08:00:", "Z; it waits until 08:10:"); a.Next != "" {
		t.Errorf("it may beat as ever, and after %v the next step is %q", a.Age, a.Next)
	}
	r.run(wordWithin, nil)
	a := r.wantFate("c1", FateRequested, "nobody answers: no receiver took it within 3s; no beat since ", "it waits until ")
	if a.Next != "expire" {
		t.Errorf("the next step is %q, want expire", a.Next)
	}
	r.run(3*time.Minute, nil)
	if n := len(r.waits); n != 1 {
		t.Errorf("it was told %d times, want once", n)
	}
	if n := len(r.tr.Look(Ask{Alerts: 10}).Alerts.List); n > 1 { // that it is silent
		t.Errorf("there are %d alerts of a command that may take effect yet", n)
	}
	r.run(10*time.Second, each) // it goes on, and beats before it answers
	r.wantFate("c1", FateRequested, "took it within 3s, and it still beats")
	r.answer("c1", "a", 2, FateDelivered, "")
	if a := r.wantFate("c1", FateDelivered); a.Next != "" || a.Detail != "" {
		t.Errorf("it was delivered, and is told as %q, next %q", a.Detail, a.Next)
	}
	r.run(wordWithin+2*time.Second, nil) // stopped again, with the command in its hands
	r.wantFate("c1", FateDelivered, "it was taken by run@a/1, which says nothing more; no beat since ")
	r.answer("c1", "a", 2, FateDelivered, "")
	if a := r.wantFate("c1", FateDelivered); a.Detail != "" {
		t.Errorf("it was heard again, and is told as %q", a.Detail)
	}
}

// A key that we find says when we found it, not when its producer beat.
func TestWhenAKeyThatWasFoundBeatIsToldAsWhatIsKnownOfIt(t *testing.T) {
	for words, found := range map[string]func(*Beat){
		"; last beat ~07:59:20Z": func(b *Beat) { b.AgeKind, b.Age = AgeEstimated, 40*time.Second },
		"; no beat since 08:00:": func(b *Beat) { b.AgeKind = AgeUnknown },
	} {
		r := newRig(t, Policy{}, SourceRedis).acts()
		r.send(beat("a", 10, guarded(2, "boot", OpStop), found, func(b *Beat) { b.Source = SourceRedis }))
		r.order("c1", OpStop, "a", 2, "boot")
		r.answer("c1", "a", 2, FateRequested, "kept")
		r.run(takenWithin+2*tickLength, nil)
		r.wantFate("c1", FateRequested, "nobody answers", words)
	}
}

// A restart of a runner that was killed waits for nobody; a stop does, and so does a
// restart of one that may be slow.
func TestRestartThatNobodyTakesIsRefused(t *testing.T) {
	all := []Op{OpStop, OpKill, OpRestart, OpDump}
	r := newRig(t, Policy{}, SourceNATS).acts()
	up := int64(10)
	each := r.beating("a", &up, guarded(2, "boot", all...), every(time.Second))
	r.run(5*time.Second, each)
	r.run(5*time.Second, nil) // it was killed
	for id, op := range map[string]Op{"c1": OpRestart, "c2": OpStop} {
		r.order(id, op, "a", 2, "boot")
		r.answer(id, "a", 2, FateRequested, "kept")
	}
	r.run(takenWithin+2*tickLength, nil)
	r.wantFate("c1", FateRequested, "nobody answers", "no beat since 08:00:05Z")
	r.run(hearWithin+concludeWithin+time.Second, nil)
	if a := r.wantFate("c1", FateRefused, "nobody supervises it: no receiver took it within 15s"); a.Next != "expire" {
		t.Errorf("the next step is %q, want expire", a.Next)
	}
	if a := r.wantFate("c2", FateRequested, "nobody answers"); a.Next != "expire" {
		t.Errorf("the next step of the stop is %q, want expire", a.Next)
	}
	r.order("c3", OpRestart, "a", 2, "boot")
	r.answer("c3", "a", 2, FateRequested, "kept")
	r.answer("c3", "a", 2, FateRefused, "it is being stopped")
	if a := r.wantFate("c3", FateRefused, "it is being stopped"); a.Next != "" {
		t.Errorf("its receiver refused the restart, and the next step is %q", a.Next)
	}

	r = newRig(t, Policy{}, SourceNATS).acts()
	each = r.beating("a", &up, guarded(2, "boot", all...), every(time.Second))
	r.run(5*time.Second, each)
	r.order("c1", OpRestart, "a", 2, "boot")
	r.run(30*time.Second, each)
	r.wantFate("c1", FateRequested, "not sent yet: no bus has taken it") // it waits for the bus
	r.answer("c1", "a", 2, FateRequested, "kept")
	r.run(wordWithin-time.Second, each)
	r.wantFate("c1", FateRequested)
	r.up[SourceNATS] = false
	r.run(time.Minute, nil)
	r.wantFate("c1", FateRequested, "cannot be seen now") // whether it was taken, neither
}

// Who has just begun to look knows of it by the ledger alone.
func TestWhatIsKnownOfACommandToOneThatWasNeverHeard(t *testing.T) {
	for _, carried := range []SourceSet{0, SourceNATS.Set()} {
		r := newRig(t, Policy{}, SourceNATS).acts()
		r.apply(HeadSeen{Head: Head{ID: "a", Generation: 2, Sources: carried, Executions: []Execution{{Generation: 2, BootID: "boot"}}}, At: r.at.Mono})
		r.run(time.Second, nil)
		r.order("c1", OpStop, "a", 2, "boot")
		r.answer("c1", "a", 2, FateRequested, "kept")
		r.run(takenWithin+2*tickLength, nil)
		if a := r.wantFate("c1", FateRequested, "took it within 3s; no beat of it was heard here"); a.Next != "expire" {
			t.Errorf("carried by %v: the next step is %q, want expire", carried, a.Next)
		}
	}
}

func TestNothingIsSaidOfAReceiverByTheBlind(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	r.send(beat("a", 10, guarded(2, "boot", OpStop)))
	r.order("c1", OpStop, "a", 2, "boot")
	r.answer("c1", "a", 2, FateRequested, "kept")
	r.up[SourceNATS] = false
	r.run(wordWithin+SightWindow, nil)
	if a := r.wantFate("c1", FateRequested, "cannot be seen now"); a.Next != "" || strings.Contains(a.Detail, "no beat") {
		t.Errorf("the blind offer %q: %s", a.Next, a.Detail)
	}
}

// A receiver that was away for a day finds that all is over, and nothing that was
// known changes.
func TestReceiverAwayForADay(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(*rig)
		fate      Fate
		word      string
	}{
		"it expires": {func(*rig) {}, FateTimedOut, "no result came within"},
		"its target ends": {func(r *rig) {
			r.tr.Apply(TerminalSeen{ID: "a", Generation: 1, Outcome: OutcomeLost, SettledBy: BySweeper, At: r.at.Mono})
		}, FateLostRace, "ended otherwise first: settled lost by sweeper"},
		"#2 runs meanwhile": {func(r *rig) { r.send(beat("a", 0, guarded(2, "boot2", OpStop))) }, FateLostRace, "#2 is current, and is not touched"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS).acts()
			r.send(beat("a", 10, guarded(1, "boot", OpStop)))
			r.order("c1", OpStop, "a", 1, "boot")
			r.answer("c1", "a", 1, FateRequested, "kept")
			r.run(2*time.Minute, nil)
			tt.meanwhile(r)
			r.run(concludeWithin+time.Second, nil)
			if tt.fate == FateLostRace {
				r.wantFate("c1", FateLostRace, tt.word) // as soon as that is known
			}
			r.run(24*time.Hour, nil)
			r.wantFate("c1", tt.fate, tt.word)
			for _, f := range []Fate{FateAcknowledged, FateTimedOut, FateEffective} { // it is back
				r.answer("c1", "a", 1, f, "late")
			}
			r.wantFate("c1", tt.fate, tt.word)
		})
	}
}
