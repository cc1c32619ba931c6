package watchdog

import (
	"fmt"
	"testing"
	"time"
)

// A five-field producer is expired in its first seconds and beats on: nothing but
// its uptime, in whole seconds, tells its beats from those of a new run, and it is
// taken for none. A run that is started later is one.
func TestWhoIsExpiredInItsFirstSecondIsNoNewRun(t *testing.T) {
	for first := time.Duration(0); first < time.Second; first += tickLength { // after its start
		for expired := tickLength; expired < 2*time.Second; expired += 3 * tickLength { // after its first beat
			for _, pace := range []time.Duration{2 * tickLength, 5 * tickLength, 10 * tickLength} {
				t.Run(fmt.Sprintf("%v %v %v", first, expired, pace), func(t *testing.T) {
					r := newRig(t, Policy{}, SourceNATS).acts()
					for age := first; age < 15*time.Second; age += tickLength {
						if (age-first)%pace == 0 {
							r.send(beat("five", int64(age/time.Second)))
						}
						if age-first == expired {
							r.apply(TerminalSeen{ID: "five", Outcome: OutcomeExpired, SettledBy: ByOperator, Settled: r.at.Wall, At: r.at.Mono})
						}
						r.run(tickLength, nil)
					}
					r.want("five", Expired)
					r.run(2*time.Second, nil)
					r.send(beat("five", 1))
					if d := r.detail("five"); d.Terminal != nil {
						t.Errorf("a new run is %v", d.Verdict)
					}
				})
			}
		}
	}
}

// first is a rig that has just begun to watch: a beat was heard, and the ledger was
// not read yet.
func first(t *testing.T, change ...func(*Beat)) *rig {
	r := newRig(t, Policy{}, SourceNATS)
	r.tr.SetActs(Acts{Able: true, Bus: true, Settles: true, Ends: true})
	r.send(beat("a", 10, change...))
	return r
}

func (r *rig) ended(outcome Outcome) {
	r.apply(TerminalSeen{ID: "a", Generation: 2, Outcome: outcome, SettledBy: ByOperator, Settled: r.at.Wall - int64(time.Hour), At: r.at.Mono})
}

// sends is how often the command of an action left while d passed.
func (r *rig) sends(d time.Duration) (n int) {
	for end := r.at.Mono + d; r.at.Mono < end; {
		r.at.Mono += tickLength
		r.at.Boot += tickLength
		r.at.Wall += int64(tickLength)
		r.trip(SourceNATS)
		n += deliversOf(r.tr.Advance(r.at))
	}
	return n
}

// A stop in the first second of a screen: the session was stopped long ago, which
// the ledger tells a moment later, and that is no work of this stop.
func TestNothingIsActedOnBeforeTheLedgerWasRead(t *testing.T) {
	full := guarded(2, "boot", OpStop, OpKill, OpRestart)
	for _, op := range []Op{OpStop, OpKill} {
		r := first(t, full)
		if n := deliversOf(r.order("c1", op, "a", 2, "boot")); n != 0 {
			t.Fatalf("a %s was sent before anybody knew what has ended", op)
		}
		r.wantFate("c1", FateRequested, "until the ledger")
		r.ended(OutcomeStopped)
		r.apply(FollowedUp{At: r.at.Mono})
		if n := r.sends(time.Second); n != 0 {
			t.Errorf("a %s of what has ended was sent %d times", op, n)
		}
		r.wantFate("c1", FateLostRace, "it has ended already")
	}
	r := first(t, full)
	r.order("c1", OpStop, "a", 2, "boot")
	r.apply(FollowedUp{At: r.at.Mono})
	if n := r.sends(time.Second); n != 1 {
		t.Errorf("the ledger was read, nothing has ended, and it was sent %d times", n)
	}
	if n := deliversOf(r.order("c2", OpKill, "a", 2, "boot")); n != 1 {
		t.Errorf("once it was read, a command is sent %d times at once, want once", n)
	}
	r.ended(OutcomeStopped)
	r.sends(concludeWithin + time.Second)
	r.wantFate("c1", FateEffective)
}

// Where the ledger cannot be read it is acted all the same; but an end that it
// tells later is the work of nobody who had not been taken yet.
func TestLedgerThatCannotBeReadHoldsNothingForLong(t *testing.T) {
	for taken, fate := range map[Fate]Fate{FateRequested: FateLostRace, FateDelivered: FateEffective} {
		r := first(t, guarded(2, "boot", OpStop))
		r.order("c1", OpStop, "a", 2, "boot")
		if n := r.sends(readWithin + 2*tickLength); n != 1 {
			t.Fatalf("it was sent %d times", n)
		}
		r.answer("c1", "a", 2, taken, "")
		r.ended(OutcomeStopped)
		r.apply(FollowedUp{At: r.at.Mono})
		r.sends(concludeWithin + time.Second)
		r.wantFate("c1", fate, "settled stopped")
	}
	for name, known := range map[string]func(*rig){
		"nobody ever settled": func(r *rig) {
			r.apply(LedgerChanged{Unnamed: true, Reason: "no authority is named yet", At: r.at.Mono})
		},
		"its child": func(r *rig) {
			r.apply(Supervised{ID: "a", Generation: 2, Phase: SupervisorRunning, Process: Process{PID: 7}, At: r.at.Mono})
		},
	} {
		r := first(t, guarded(2, "boot", OpStop))
		known(r)
		if n := deliversOf(r.order("c1", OpStop, "a", 2, "boot")); n != 1 {
			t.Errorf("%s: it was sent %d times at once, want once", name, n)
		}
	}
}

// An expire that names no generation would give what was expired a second ago the
// number of a new run.
func TestExpireWithoutANumberWaitsForTheLedger(t *testing.T) {
	r := first(t)
	if n := deliversOf(r.order("c1", OpExpire, "a", 0, "")); n != 0 {
		t.Fatal("it was carried out before its number could be known")
	}
	r.apply(HeadSeen{Head: Head{ID: "a", Generation: 2, Ended: true, Executions: []Execution{{Generation: 2, Start: r.tr.wallAt(r.at.Mono - 10*time.Second)}}}, At: r.at.Mono})
	r.ended(OutcomeExpired)
	r.apply(FollowedUp{At: r.at.Mono})
	if n := r.sends(time.Second); n != 0 {
		t.Errorf("it was carried out %d times", n)
	}
	r.wantFate("c1", FateLostRace, "it has ended already: settled expired")
	r = first(t, guarded(2, "boot"))
	if n := deliversOf(r.order("c1", OpExpire, "a", 2, "boot")); n != 1 {
		t.Errorf("the ledger decides of a generation that is named, and it was carried out %d times", n)
	}
}
