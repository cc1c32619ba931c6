package watchdog

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// What an operator reads must be true right after each change, not only in the
// long run.

// worker beats every 10 s for d; say changes each beat.
func (r *rig) worker(id string, d time.Duration, say func(b *Beat, n int64)) {
	r.t.Helper()
	r.run(d, func() {
		if n := int64((r.at.Mono - r.tr.epoch.Mono) / time.Second); n%10 == 0 {
			r.send(beat(id, n, func(b *Beat) { say(b, n/10) }))
		}
	})
}

func near(got, want time.Duration) bool {
	return got >= want-200*time.Millisecond && got <= want+200*time.Millisecond
}

func TestSinceBeginsWithTheVerdict(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	declare := func(b *Beat, _ int64) { b.Interval, b.Idle = 10*time.Second, 0 }
	r.worker("a", time.Minute, declare)
	r.run(24*time.Second+100*time.Millisecond, nil)
	if d := r.want("a", Silent); !near(d.For, 100*time.Millisecond) {
		t.Errorf("silent for %v at once", d.For)
	}
	r.run(30*time.Second, nil)
	if d := r.want("a", Silent); !near(d.For, 30*time.Second) {
		t.Errorf("silent for %v after 30 s", d.For)
	}
	// Blindness covers the silence, and the silence goes on when it is over.
	r.up[SourceNATS] = false
	r.run(20*time.Second, nil)
	if d := r.want("a", Unknown); !near(d.For, 20*time.Second) {
		t.Errorf("unknown for %v after 20 s", d.For)
	}
	r.up[SourceNATS] = true
	r.run(time.Second, nil)
	if d := r.want("a", Silent); !near(d.For, 51*time.Second) {
		t.Errorf("silent for %v after the blindness, want it to go on", d.For)
	}
	r.worker("a", 10*time.Second, declare)
	if d := r.want("a", Running); d.For > 10*time.Second {
		t.Errorf("running for %v", d.For)
	}
	if w := r.tr.Look(Ask{}); !near(r.at.Mono-w.Fleet.LastTrouble, r.detail("a").For) {
		t.Errorf("last trouble %v ago, running for %v", r.at.Mono-w.Fleet.LastTrouble, r.detail("a").For)
	}
}

func TestWorkIsALowerBoundUntilAChangeIsSeen(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	task := "one"
	say := func(b *Beat, _ int64) { b.Task = []byte(task) }
	r.worker("a", time.Minute, say)
	if d := r.detail("a"); d.WorkKnown || !d.WorkBound || d.TaskSince != -1 {
		t.Errorf("known %v, bound %v, task since %v", d.WorkKnown, d.WorkBound, d.TaskSince)
	}
	if w := r.tr.Look(Ask{}); w.Fleet.Assessed != 0 {
		t.Errorf("%d assessed after a minute", w.Fleet.Assessed)
	}
	task = "two"
	r.worker("a", 10*time.Second, say)
	if d := r.detail("a"); d.WorkBound || d.WorkAge > 200*time.Millisecond || d.TaskSince != d.WorkAge {
		t.Errorf("bound %v, work %v, task since %v", d.WorkBound, d.WorkAge, d.TaskSince)
	}
	if w := r.tr.Look(Ask{}); w.Fleet.Assessed != 1 {
		t.Errorf("%d assessed after a change", w.Fleet.Assessed)
	}
	// Credits move, the task does not.
	credits := 9.0
	r.worker("a", time.Minute, func(b *Beat, _ int64) { say(b, 0); credits--; b.Credits = credits })
	if d := r.detail("a"); d.WorkAge > 200*time.Millisecond || !near(d.TaskSince, time.Minute) {
		t.Errorf("work %v, task since %v", d.WorkAge, d.TaskSince)
	}
}

func TestFreeTextThatChangesIsAVisibleChange(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.worker("a", time.Minute, func(b *Beat, n int64) { b.StateText = fmt.Append(nil, "phase ", n/3) })
	if d := r.want("a", Running); d.WorkBound || d.WorkAge > 31*time.Second {
		t.Errorf("work %v, bound %v, state %s", d.WorkAge, d.WorkBound, d.State)
	}
}

func TestProgressRateAndETA(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.worker("a", 10*time.Minute, func(b *Beat, n int64) { b.Task = fmt.Appendf(nil, "chunk %d/200", n/3) })
	d := r.detail("a")
	if p := d.Progress; math.Abs(p.PerMinute-2) > 0.1 || p.Done != 20 || !near(p.ETA.Round(time.Minute), 90*time.Minute) {
		t.Errorf("%+v, want 2 a minute and 90 min left", p)
	}
	r.worker("a", 3*time.Minute, func(b *Beat, _ int64) { b.Task = []byte("chunk 20/200") })
	if p := r.detail("a").Progress; p.PerMinute != 0 || math.Abs(p.WasPerMin-2) > 0.1 || p.ETA != -1 {
		t.Errorf("stalled: %+v, want 0 a minute and no end", p)
	}
	r.worker("a", time.Minute, func(b *Beat, n int64) { b.Task = fmt.Appendf(nil, "chunk %d/300", n) })
	if p := r.detail("a").Progress; p.Of != 300 || p.PerMinute < 5 {
		t.Errorf("another count: %+v", p)
	}
}

// A fast count that beats seldom does not stop between two beats.
func TestRateDoesNotStopBetweenBeats(t *testing.T) {
	r := newRig(t, Policy{Overrides: []Override{{Match: "*", HeartbeatInterval: 2 * time.Minute}}}, SourceNATS)
	for n := range int64(5) {
		r.send(beat("a", 120*n, func(b *Beat) { b.Task = fmt.Appendf(nil, "row %d/9000", 100*n); b.Credits = 50 - float64(n) }))
		r.run(119*time.Second, nil)
		if d := r.detail("a"); n > 0 && (d.Progress.PerMinute == 0 || d.BurnPerMin == 0) {
			t.Fatalf("after %d beats: %v a minute, burn %v", n+1, d.Progress.PerMinute, d.BurnPerMin)
		}
		r.run(time.Second, nil)
	}
}

func TestBurnTopUpAndTheEndOfCredits(t *testing.T) {
	for _, balance := range []float64{20, 20_000_000} {
		r := newRig(t, Policy{}, SourceNATS)
		left := balance
		spend := func(b *Beat, _ int64) { left -= 0.1; b.Credits = left }
		r.worker("a", 5*time.Minute, spend)
		d := r.detail("a")
		if math.Abs(d.BurnPerMin-0.6) > 0.05 {
			t.Errorf("of %v: burn %v, want 0.6", balance, d.BurnPerMin)
		}
		if want := time.Duration(left / 0.6 * float64(time.Minute)); balance < 100 && math.Abs(float64(d.CreditsLeft-want)) > float64(want)/10 {
			t.Errorf("out in %v, want %v", d.CreditsLeft, want)
		}
		left += 30
		r.worker("a", 10*time.Second, spend)
		if d := r.detail("a"); math.Abs(d.BurnPerMin-0.6) > 0.05 {
			t.Errorf("of %v: burn %v after a top-up", balance, d.BurnPerMin)
		}
		r.worker("a", 5*time.Minute, func(b *Beat, _ int64) { b.Credits = left })
		if d := r.detail("a"); d.BurnPerMin != 0 || math.Abs(d.WasBurnPerMin-0.6) > 0.05 || d.CreditsLeft != -1 {
			t.Errorf("of %v: nothing is spent, but burn %v, was %v, out in %v", balance, d.BurnPerMin, d.WasBurnPerMin, d.CreditsLeft)
		}
	}
	r := newRig(t, Policy{}, SourceNATS)
	r.worker("a", 30*time.Second, func(b *Beat, n int64) { b.Credits = float64(3 - n) })
	if d := r.detail("a"); d.CreditsLeft != 0 {
		t.Errorf("no credits are left, but they are out in %v", d.CreditsLeft)
	}
}

// The copy that Redis keeps from the second of a stall does not take it back.
func TestStallIsNotTakenBackByTheKeptCopy(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	r.worker("a", time.Minute, func(*Beat, int64) {})
	r.send(beat("a", 60, func(b *Beat) { b.StateText = []byte("stalled") }))
	r.run(time.Second, nil)
	r.send(beat("a", 60, func(b *Beat) { b.Source = SourceRedis }))
	r.want("a", Stalled)
	r.send(beat("a", 62))
	r.want("a", Running)
}

// A key that went and comes back with a newer execution is that execution.
func TestKeyThatComesBackWithANewExecution(t *testing.T) {
	r := newRig(t, Policy{}, SourceRedis)
	byRedis := func(b *Beat) { b.Source = SourceRedis }
	r.send(beat("a", 500, byRedis))
	r.run(30*time.Second, nil)
	r.send(beat("a", 530, byRedis))
	r.run(5*time.Minute, nil)
	r.want("a", Silent)
	fresh := func(age time.Duration, uptime int64) {
		r.send(beat("a", uptime, byRedis, func(b *Beat) { b.AgeKind, b.Age = AgeEstimated, age }))
	}
	fresh(30*time.Second, 530)
	if d := r.detail("a"); d.Watched < 5*time.Minute {
		t.Fatalf("an old key is a new execution: watched for %v", d.Watched)
	}
	fresh(2*time.Second, 3)
	if d := r.want("a", Running); d.Watched != 0 || d.BeatAge != 2*time.Second {
		t.Errorf("watched for %v, last beat %v ago", d.Watched, d.BeatAge)
	}
}

// What waited for us while we were stopped comes at once, as if it had been sent
// now: who goes on is no new execution because of that, whether it is read before
// the tick that tells of our lateness or after it.
func TestBeatsThatWaitedForUsAreNoNewExecution(t *testing.T) {
	for _, tickFirst := range []bool{false, true} {
		r := newRig(t, Policy{}, SourceNATS)
		up := int64(0)
		each := func() { up++; r.send(beat("a", up)) }
		r.run(20*time.Second, each)
		const stopped = 70 * time.Second
		r.at.Mono, r.at.Boot, r.at.Wall = r.at.Mono+stopped, r.at.Boot+stopped, r.at.Wall+int64(stopped)
		tick := func() { r.tr.Apply(Ticked{Now: r.at, Late: stopped - tickLength}) }
		if tickFirst {
			tick()
		}
		for range stopped / time.Second {
			each()
		}
		if !tickFirst {
			tick()
		}
		r.run(10*time.Second, each)
		if d := r.want("a", Running); d.Watched < 90*time.Second {
			t.Errorf("tick first %v: a new execution, watched for %v", tickFirst, d.Watched)
		}
		r.run(5*time.Second, nil)
		up = 0
		r.run(5*time.Second, each)
		if d := r.want("a", Running); d.Watched > 10*time.Second {
			t.Errorf("tick first %v: its next run is taken for the one before, watched for %v", tickFirst, d.Watched)
		}
	}
}

// Beats that come while a tick is late are no suspend of the machine.
func TestLateTickIsNoSuspend(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.run(time.Second, nil)
	for range 10 {
		r.at.Mono += 1900 * time.Millisecond
		r.at.Boot += 1900 * time.Millisecond
		r.send(beat("a", 10))
		r.tr.Apply(Ticked{Now: r.at, Late: 1800 * time.Millisecond})
	}
	if w := r.tr.Look(Ask{}); w.Self.Suspended != 0 {
		t.Errorf("asleep for %v", w.Self.Suspended)
	}
}
