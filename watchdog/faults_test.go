package watchdog

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// The engine's share of the faults that such systems had: each test fails if
// its fault comes back. CONTRIBUTING.md has the whole table.

// fault 2: an open tool for an hour, and a wait that declares more than it may.
func TestLongToolWaitIsNoStall(t *testing.T) {
	r := newRig(t, Policy{StallTimeout: time.Minute, MaxWait: 2 * time.Hour}, SourceNATS)
	n := int64(0)
	send := func() {
		if n++; n%10 != 0 {
			return
		}
		r.send(beat("tool", n, func(b *Beat) { b.WaitingFor, b.WaitingMax, b.Idle = WaitTool, 90*time.Minute, 0 }))
		r.send(beat("greedy", n, func(b *Beat) { b.WaitingFor, b.WaitingMax, b.Idle = WaitTool, 1000*time.Hour, 0 }))
	}
	r.run(time.Hour, send)
	if d := r.want("tool", Waiting); d.Overdue || d.Attention != AttentionNone {
		t.Errorf("after an hour of 90 minutes: overdue %v, attention %v", d.Overdue, d.Attention)
	}
	r.run(31*time.Minute+10*time.Second, send)
	r.want("tool", Stalled)
	r.run(28*time.Minute, send)
	r.want("greedy", Waiting)
	r.run(3*time.Minute, send)
	r.want("greedy", Stalled)
}

// fault 3: what a payload says of time decides nothing about silence.
func TestAgentsClockDecidesNoSilence(t *testing.T) {
	const year = 365 * 24 * 3600
	for _, skew := range []int64{0, year, 30 * year} {
		r := newRig(t, Policy{}, SourceNATS)
		n := int64(0)
		send := func() {
			if n++; n%10 == 0 {
				r.send(beat("skewed", n+skew, func(b *Beat) { b.Interval, b.BootID = 10*time.Second, []byte("k") }))
			}
		}
		r.run(2*time.Minute, send)
		r.want("skewed", Running)
		r.run(23*time.Second, nil)
		r.want("skewed", Running)
		r.run(2*time.Second, nil)
		r.want("skewed", Silent)
	}
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("max", math.MaxInt64))
	r.run(time.Minute, nil)
	r.want("max", Running)
}

// fault 7, 14: the links break for a few seconds, so short that nobody becomes
// unknown. Who beats once a second was not silent, nor does it say so on one
// bus only.
func TestShortOutageAccusesNobody(t *testing.T) {
	for name, broken := range map[string][]Source{
		"NATS": {SourceNATS}, "Redis": {SourceRedis}, "both": {SourceNATS, SourceRedis},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS, SourceRedis)
			link := func(s Source, phase LinkPhase) { r.tr.Apply(LinkChanged{Source: s, Phase: phase, At: r.at.Mono}) }
			link(SourceNATS, LinkUp)
			link(SourceRedis, LinkUp)
			n := int64(0)
			hears := [sourceCount]bool{SourceNATS: true, SourceRedis: true}
			send := func() {
				n++
				for i := range 20 {
					for _, s := range []Source{SourceNATS, SourceRedis} {
						if hears[s] {
							r.send(beat(fmt.Sprintf("s%02d", i), n, func(b *Beat) { b.Source, b.Interval = s, time.Second }))
						}
					}
				}
				if f := r.tr.Look(Ask{}).Fleet; n > 1 && f.ByVerdict[Running] != 20 {
					t.Fatalf("at +%v not all are running: %v", r.at.Mono, f.ByVerdict)
				}
			}
			r.run(10*time.Second, send)
			for range 3 {
				for _, s := range broken {
					hears[s], r.up[s] = false, false
				}
				r.run(200*time.Millisecond, send)
				for _, s := range broken {
					link(s, LinkDown)
				}
				r.run(5*time.Second, send)
				for _, s := range broken { // we are back first, then those who beat
					link(s, LinkUp)
					r.up[s] = true
				}
				r.run(1500*time.Millisecond, send)
				for _, s := range broken {
					hears[s] = true
				}
				r.run(15*time.Second, send)
			}
			hears = [sourceCount]bool{}
			r.run(3*time.Second, nil)
			if f := r.tr.Look(Ask{}).Fleet; f.ByVerdict[Silent] != 20 {
				t.Errorf("who stops for good is still found out: %v", f.ByVerdict)
			}
		})
	}
}

// fault 14: NATS goes and the store restarts at once, so that its keys are new to
// us. What they say after the last beat of the bus counts.
// A link that stands for as long as we take between two questions is answered
// once each time: what else came over it was seen all the same.
func TestLinkThatBreaksBetweenTwoQuestionsHidesNobodyForEver(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.up[SourceNATS] = false // questions are asked below
	every := func(id string, up int64) {
		r.send(beat(id, up, func(b *Beat) { b.Interval = 2 * time.Second }))
	}
	every("dead", 10)
	for round := range 20 {
		r.tr.Apply(LinkChanged{Source: SourceNATS, Phase: LinkUp, At: r.at.Mono})
		r.trip(SourceNATS)
		r.run(1900*time.Millisecond, nil)
		every("alive", 10+int64(round)*3)
		r.tr.Apply(LinkChanged{Source: SourceNATS, Phase: LinkDown, At: r.at.Mono})
		r.run(1100*time.Millisecond, nil)
	}
	r.tr.Apply(LinkChanged{Source: SourceNATS, Phase: LinkUp, At: r.at.Mono})
	r.trip(SourceNATS)
	every("alive", 100)
	r.run(tickLength, nil)
	r.want("dead", Silent)
	r.want("alive", Running)
}

func TestKeysOfARestartedStoreAreLife(t *testing.T) {
	for name, identity := range map[string]func(*Beat){
		"five fields": func(*Beat) {},
		"boot id":     func(b *Beat) { b.BootID, b.Seq = []byte("k"), b.Uptime },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS, SourceRedis)
			say := func(uptime int64, source Source, age time.Duration) {
				r.send(beat("s", uptime, func(b *Beat) {
					b.Interval, b.Source, b.Age = time.Second, source, age
					if age > 0 {
						b.AgeKind = AgeEstimated
					}
				}, identity))
			}
			for up := range int64(10) {
				say(up, SourceNATS, 0)
				r.run(time.Second, nil)
			}
			r.tr.Apply(LinkChanged{Source: SourceNATS, Phase: LinkDown, At: r.at.Mono})
			r.up[SourceNATS] = false
			r.run(time.Second, nil)
			say(9, SourceRedis, 1900*time.Millisecond) // the newest, kept by the store
			if d := r.want("s", Running); d.BeatAge < 2*time.Second {
				t.Errorf("a copy of the newest beat renewed it: %v", d.BeatAge)
			}
			say(10, SourceRedis, 300*time.Millisecond)
			r.run(2*time.Second, nil)
			r.want("s", Running)
			r.run(time.Second, nil)
			r.want("s", Silent)
		})
	}
}

// fault 7: the store was restarted between two polls, and came back empty: that
// a key is not there yet means nothing.
func TestEmptyStoreAccusesNobody(t *testing.T) {
	r := newRig(t, Policy{}, SourceRedis)
	r.up[SourceRedis] = false // asked every two seconds alone
	for up := range int64(5) {
		r.send(beat("s", 2*up, func(b *Beat) { b.Interval, b.Source = time.Second, SourceRedis }))
		r.trip(SourceRedis)
		r.run(2*time.Second, nil)
	}
	r.tr.Apply(StoreChanged{Source: SourceRedis, Reason: "restarted", At: r.at.Mono})
	for range 3 {
		r.trip(SourceRedis)
		r.run(time.Second, nil)
		r.want("s", Running)
	}
	r.trip(SourceRedis)
	r.run(time.Second, nil)
	r.trip(SourceRedis)
	r.run(time.Second, nil)
	r.want("s", Silent)
}

// fault 16: three minutes out, and then a buffer delivers the beats of long ago.
func TestAncientBeatsReviveNobody(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	at := func(id string, seq int64, state string) Beat {
		return beat(id, seq, func(b *Beat) {
			b.StateText, b.BootID, b.Seq, b.Interval = []byte(state), []byte("boot-"+id), seq, 10*time.Second
		})
	}
	r.send(at("ended", 100, "completed"))
	r.send(at("gone", 100, "running"))
	r.send(at("live", 100, "running"))
	r.run(2*time.Second, nil)
	r.up[SourceNATS] = false
	r.run(3*time.Minute, nil)
	r.want("gone", Unknown)
	r.up[SourceNATS] = true
	r.run(time.Second, nil)
	r.send(at("live", 283, "running"))
	before := r.detail("live").BeatAge
	for seq := int64(1); seq < 100; seq++ {
		for _, id := range []string{"ended", "gone", "live"} {
			r.send(at(id, seq, "running"))
		}
	}
	r.run(time.Second, nil)
	r.want("ended", Completed)
	if d := r.want("live", Running); d.Seq != 283 || d.BeatAge != before+time.Second {
		t.Errorf("live stands at seq %d with a beat of %v ago", d.Seq, d.BeatAge)
	}
	if d := r.detail("gone"); d.BeatAge < 3*time.Minute {
		t.Errorf("an ancient beat counts as one of %v ago", d.BeatAge)
	}
	r.run(time.Minute, nil)
	r.want("gone", Silent)
}

// fault 14: between two polls of the store, the bus breaks and is back. It answers
// before anybody has beaten by it: that proves nothing of what it did not bring.
func TestBusThatIsBackProvesNothing(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	r.up[SourceRedis] = false // asked every two seconds alone
	say := func(uptime int64, source Source) {
		r.send(beat("s", uptime, func(b *Beat) { b.Interval, b.Source = time.Second, source }))
	}
	for up := range int64(10) {
		say(up, SourceNATS)
		if up%2 == 0 {
			say(up, SourceRedis)
			r.trip(SourceRedis)
		}
		r.run(time.Second, nil)
	}
	r.run(100*time.Millisecond, nil)
	r.tr.Apply(LinkChanged{Source: SourceNATS, Phase: LinkDown, At: r.at.Mono})
	r.up[SourceNATS] = false
	r.run(1300*time.Millisecond, nil)
	r.tr.Apply(LinkChanged{Source: SourceNATS, Phase: LinkUp, At: r.at.Mono})
	r.up[SourceNATS] = true
	for range 6 { // the poll is late
		r.run(100*time.Millisecond, nil)
		r.want("s", Running)
	}
	r.trip(SourceRedis)
	r.run(100*time.Millisecond, nil)
	r.want("s", Silent)
}

// A deadline that has passed stands: what could not be seen later does not make
// a silent session run again.
func TestSilenceOutlivesALaterOutage(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("s", 10))
	r.run(80*time.Second, nil)
	since := r.at.Mono - r.want("s", Silent).For
	r.up[SourceNATS] = false
	r.run(20*time.Second, nil)
	r.want("s", Unknown)
	r.up[SourceNATS] = true
	r.run(time.Second, nil)
	if d := r.want("s", Silent); r.at.Mono-d.For != since {
		t.Errorf("silent since %v, was since %v", r.at.Mono-d.For, since)
	}
}

// A producer on both buses that dies is silent, and not disputed before: the copy
// that a poll brings is as old as the poll before it allows.
func TestACopyFromAPollContradictsNobody(t *testing.T) {
	for _, shift := range []time.Duration{0, 300 * time.Millisecond, 1500 * time.Millisecond} {
		r := newRig(t, Policy{}, SourceNATS, SourceRedis)
		r.up[SourceRedis] = false // asked every two seconds alone
		r.run(shift, nil)
		seen := map[Verdict]bool{}
		polled := int64(-1)
		for step := range int64(160) { // of 100 ms; it beats each second and dies after 80
			uptime := min(step, 80) / 10
			say := func(source Source) {
				r.send(beat("s", uptime, func(b *Beat) { b.Interval, b.Source = time.Second, source }))
			}
			if step%10 == 0 && step <= 80 {
				say(SourceNATS)
			}
			if (step+int64(shift/(100*time.Millisecond)))%20 == 0 {
				if uptime != polled {
					say(SourceRedis)
					polled = uptime
				}
				r.trip(SourceRedis)
			}
			r.run(100*time.Millisecond, nil)

			seen[r.detail("s").Verdict] = true
		}
		if seen[Disputed] || !seen[Silent] {
			t.Errorf("shift %v: %v", shift, seen)
		}
	}
}
