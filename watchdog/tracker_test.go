package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rig drives a tracker by simulated clocks, like the engine would.
type rig struct {
	t  *testing.T
	tr *Tracker
	at Instant
	// sources answer a round trip every tick while true.
	up [sourceCount]bool

	raised   []Raise
	over     []NoteOver
	confirms []Confirm
	waits    []Fated // that tell what is known of an action whose fate did not change
}

func newRig(t *testing.T, p Policy, sources ...Source) *rig {
	t.Helper()
	start := Instant{Mono: 5 * time.Second, Boot: 90 * time.Second, Wall: 1_800_000_000e9}
	r := &rig{t: t, tr: NewTracker(p, start), at: start}
	for _, s := range sources {
		r.up[s] = true
		r.tr.Apply(SourceAdded{Source: s, At: start.Mono})
		r.trip(s)
	}
	return r
}

func (r *rig) trip(s Source) {
	r.apply(RoundTrip{Source: s, Sent: r.at.Mono, At: r.at.Mono})
}

// apply tells the tracker an event, and keeps what alerts come of it.
func (r *rig) apply(ev Event) { r.keep(r.tr.Apply(ev)) }

func (r *rig) keep(effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Raise:
			r.raised = append(r.raised, e)
		case NoteOver:
			r.over = append(r.over, e)
		case Confirm:
			r.confirms = append(r.confirms, e)
		case Fated:
			if !e.Fate.Final() && e.Since > wordWithin {
				r.waits = append(r.waits, e)
			}
		}
	}
}

// run lets time pass in ticks; every is called each second, before the tick.
func (r *rig) run(d time.Duration, every func()) {
	r.t.Helper()
	for end := r.at.Mono + d; r.at.Mono < end; {
		r.at.Mono += tickLength
		r.at.Boot += tickLength
		r.at.Wall += int64(tickLength)
		for s := range r.up {
			if r.up[s] {
				r.trip(Source(s))
			}
		}
		if every != nil && r.at.Mono%time.Second == 0 {
			every()
		}
		r.keep(r.tr.Advance(r.at))
	}
}

// beat makes a five-field beat.
func beat(id string, uptime int64, change ...func(*Beat)) Beat {
	var b Beat
	b.Reset()
	b.ID, b.StateText, b.Uptime = []byte(id), []byte("running"), uptime
	b.Task = []byte("Processing chunk 1/200")
	for _, c := range change {
		c(&b)
	}
	b.State = StateOf(b.StateText)
	return b
}

func (r *rig) send(b Beat) {
	b.Received = r.at.Mono
	r.tr.ApplyBeats([]Beat{b})
}

func (r *rig) detail(id string) Detail {
	r.t.Helper()
	w := r.tr.Look(Ask{Focus: ID(id), Height: -1, KeepEnded: true})
	if w.Focus == nil {
		r.t.Fatalf("session %q is not known", id)
	}
	for _, row := range w.Rows {
		if row.ID == ID(id) && row.Verdict != w.Focus.Verdict {
			r.t.Fatalf("%s: the row says %v, the detail %v", id, row.Verdict, w.Focus.Verdict)
		}
	}
	return *w.Focus
}

func (r *rig) want(id string, v Verdict) Detail {
	r.t.Helper()
	d := r.detail(id)
	if d.Verdict != v {
		r.t.Fatalf("at +%v %s is %v (%s), want %v", r.at.Mono, id, d.Verdict, d.Why, v)
	}
	return d
}

// An event tells why a session's own verdict is what it is, whether we see or not.
func TestWhatIsFoundWhileBlindIsToldByItsOwnReason(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Beat)
		want   Verdict
	}{
		"stalled": {func(b *Beat) { b.StateText = []byte("stalled") }, Stalled},
		"wedged":  {func(b *Beat) { b.LoopLag = time.Minute }, Wedge},
		"waiting": {func(b *Beat) { b.WaitingFor, b.WaitingMax = WaitHuman, 8*time.Hour }, Waiting},
		"error":   {func(b *Beat) { b.StateText = []byte("error") }, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{})
			r.apply(SourceAdded{Source: SourceRedis, At: r.at.Mono}) // it has not answered yet
			r.send(beat("a", 10, func(b *Beat) { b.Source = SourceRedis }, c.change))
			events := r.tr.Look(Ask{Events: -1, EventsOf: "a"}).Events
			if len(events) != 1 || events[0].To != c.want || events[0].Text == "" || strings.Contains(events[0].Text, "blind") {
				t.Errorf("told %+v, want one of %v with its reason", events, c.want)
			}
		})
	}
}

func TestFiveFieldProducerThatStopsIsSilentAndNothingMore(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("a", 10))
	r.run(71*time.Second+900*time.Millisecond, nil)
	r.want("a", Running)
	r.run(200*time.Millisecond, nil)
	d := r.want("a", Silent)
	if d.Cadence != 0 || d.CadenceFrom != "unknown" {
		t.Errorf("cadence %v from %s, want unknown", d.Cadence, d.CadenceFrom)
	}
	r.run(2*time.Hour, nil)
	r.want("a", Silent)
}

// fault 1
func TestWorkClockStallsAtExactlyTheTimeout(t *testing.T) {
	r := newRig(t, Policy{StallTimeout: 60 * time.Second}, SourceNATS)
	n := int64(0)
	send := func() {
		if n++; n%10 == 0 {
			r.send(beat("w", n, func(b *Beat) {
				b.Idle = time.Duration(n) * time.Second
				b.Interval = 10 * time.Second
			}))
		}
	}
	r.run(59*time.Second+900*time.Millisecond, send)
	r.want("w", Running)
	r.run(200*time.Millisecond, send)
	d := r.want("w", Stalled)
	if d.Evidence.Rule != "work over stall timeout" || d.For > 200*time.Millisecond {
		t.Errorf("rule %q for %v", d.Evidence.Rule, d.For)
	}
}

func TestQuietIsANoticeNeverStalled(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	n := int64(0)
	send := func() {
		if n++; n%10 == 0 {
			r.send(beat("q", n))
		}
	}
	r.run(309*time.Second, send)
	r.want("q", Running)
	r.run(2*time.Second, send)
	d := r.want("q", Quiet)
	if d.Attention.Counted() {
		t.Error("a notice is counted as needing you")
	}
	r.send(beat("q", n+1, func(b *Beat) { b.Task = []byte("Processing chunk 2/200") }))
	r.want("q", Running)
}

// fault 7
func TestBothServersAwayAccuseNobody(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	n := int64(0)
	send := func() {
		if n++; n%5 == 0 && r.up[SourceNATS] {
			for i := range 50 {
				r.send(beat(fmt.Sprintf("s%02d", i), n))
			}
		}
	}
	r.run(60*time.Second, send)
	r.up = [sourceCount]bool{}
	r.run(20*time.Second, send)
	r.want("s07", Unknown)
	r.run(5*time.Minute, send)
	w := r.tr.Look(Ask{Height: -1})
	if w.Fleet.ByVerdict[Unknown] != 50 || w.Fleet.NeedYou != 0 {
		t.Fatalf("%+v", w.Fleet)
	}
	r.up[SourceNATS], r.up[SourceRedis] = true, true
	r.run(10*time.Second, send)
	w = r.tr.Look(Ask{Height: -1})
	if w.Fleet.ByVerdict[Running] != 50 {
		t.Fatalf("%+v", w.Fleet)
	}
	for _, tr := range w.Events {
		if tr.To == Silent || tr.To == Stalled {
			t.Errorf("%s was accused: %+v", tr.ID, tr)
		}
	}
}

func TestFlappingLinkDoesNotRenewGraceForEver(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("a", 10))
	for range 40 {
		r.up[SourceNATS] = true
		r.run(15*time.Second, nil)
		r.up[SourceNATS] = false
		r.run(15*time.Second, nil)
	}
	r.up[SourceNATS] = true
	r.run(2*time.Second, nil)
	r.want("a", Silent)
}

func TestLinkThatBreaksAfterEachCadenceHidesNobodyForEver(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("dead", 10))
	up := int64(0)
	for range 8 {
		r.up[SourceNATS] = true
		r.run(31*time.Second, nil)
		up++
		r.send(beat("alive", 10+up*45))
		r.want("alive", Running)
		r.up[SourceNATS] = false
		r.run(14*time.Second, nil)
	}
	r.up[SourceNATS] = true
	r.run(2*time.Second, nil)
	r.want("dead", Silent)
	r.want("alive", Running)
}

// fault 5
func TestSuspendGivesOneFreshGrace(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("a", 10))
	r.run(60*time.Second, nil)
	r.at.Boot += 8 * time.Hour
	r.at.Wall += int64(8 * time.Hour)
	r.run(40*time.Second, nil)
	r.want("a", Running)
	r.run(3*time.Second, nil)
	r.want("a", Silent)
}

// fault 4
func TestWallClockDecidesNothing(t *testing.T) {
	for _, jump := range []time.Duration{2 * 365 * 24 * time.Hour, -2 * 365 * 24 * time.Hour} {
		r := newRig(t, Policy{}, SourceNATS)
		r.send(beat("a", 10))
		r.run(30*time.Second, nil)
		r.at.Wall += int64(jump)
		r.run(30*time.Second, nil)
		r.want("a", Running)
		r.run(13*time.Second, nil)
		r.want("a", Silent)
	}
}

func TestKeyThatGoesWhileNATSSaysRunningIsDisputed(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	r.send(beat("d", 10))
	r.send(beat("d", 10, func(b *Beat) { b.Source = SourceRedis }))
	r.send(beat("never", 10))
	r.run(40*time.Second, nil)
	gone := r.at.Mono
	r.send(beat("d", 50))
	r.tr.Apply(KeyGone{Source: SourceRedis, ID: "d", LastSeen: gone - time.Second, Polls: 1, At: r.at.Mono})
	r.run(2*time.Second, nil)
	r.want("d", Running)
	r.tr.Apply(KeyGone{Source: SourceRedis, ID: "d", LastSeen: gone - time.Second, Polls: 2, At: r.at.Mono})
	r.want("d", Running)
	r.run(10*time.Second, nil)
	r.send(beat("d", 62))
	r.want("d", Disputed)
	r.send(beat("never", 62))
	r.want("never", Running)
	r.tr.Apply(KeyBack{Source: SourceRedis, ID: "d", At: r.at.Mono})
	r.want("d", Running)
}

// beatsOf sends a beat that declares 5 s, every 5 s, on the sources that on gives.
func (r *rig) beatsOf(id string, d time.Duration, state string, on ...Source) {
	r.t.Helper()
	r.run(d, func() {
		if r.at.Mono%(5*time.Second) != 0 {
			return
		}
		for _, src := range on {
			r.send(beat(id, int64(r.at.Mono/time.Second), func(b *Beat) {
				b.Source, b.Interval, b.StateText = src, 5*time.Second, []byte(state)
			}))
		}
	})
}

func TestDisputeStandsWhileAStaleKeyExpires(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	r.beatsOf("d", 20*time.Second, "running", SourceNATS, SourceRedis)
	last := r.at.Mono
	r.beatsOf("d", 20*time.Second, "running", SourceNATS)
	r.want("d", Disputed)
	for polls := 1; polls <= 3; polls++ {
		r.tr.Apply(KeyGone{Source: SourceRedis, ID: "d", LastSeen: last, Polls: polls, At: r.at.Mono})
		r.want("d", Disputed)
		r.beatsOf("d", 2*time.Second, "running", SourceNATS)
		r.want("d", Disputed)
	}
	if d := r.detail("d"); d.For < 13*time.Second {
		t.Errorf("disputed for %v: it began anew when the key went", d.For)
	}
}

func TestRecoveryFromStallIsNoDisputeWithTheKeyThatWasNotRefreshed(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	r.beatsOf("d", 20*time.Second, "running", SourceNATS, SourceRedis)
	r.beatsOf("d", 30*time.Second, "stalled", SourceNATS)
	r.want("d", Stalled)
	r.beatsOf("d", 10*time.Second, "running", SourceNATS) // Redis is polled only now and then
	r.want("d", Running)
	r.beatsOf("d", 10*time.Second, "running", SourceNATS)
	r.want("d", Disputed)
	r.beatsOf("d", 5*time.Second, "running", SourceNATS, SourceRedis)
	r.want("d", Running)
}

// fault 2
func TestWaitThenOverdueThenStalled(t *testing.T) {
	r := newRig(t, Policy{StallTimeout: time.Minute}, SourceNATS)
	n := int64(0)
	send := func() {
		if n++; n%10 == 0 {
			r.send(beat("h", n, func(b *Beat) {
				b.WaitingFor, b.WaitingMax, b.Idle = WaitHuman, 20*time.Minute, 0
			}))
		}
	}
	r.run(10*time.Minute, send)
	if d := r.want("h", Waiting); d.Attention != AttentionNone {
		t.Errorf("attention %v before 15 min", d.Attention)
	}
	r.run(5*time.Minute+11*time.Second, send)
	if d := r.want("h", Waiting); d.Attention != AttentionWait {
		t.Errorf("attention %v after 15 min", d.Attention)
	}
	r.run(5*time.Minute, send)
	if d := r.want("h", Waiting); !d.Overdue {
		t.Error("not overdue past its maximum")
	}
	r.run(time.Minute, send)
	r.want("h", Stalled)
}

// fault 16
func TestEndsAndLateBeats(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	end := func(b *Beat) { b.StateText = []byte("completed") }
	r.send(beat("e", 10))
	r.run(30*time.Second, nil)
	r.send(beat("e", 40, end))
	r.want("e", Completed)
	r.run(time.Minute, nil)
	r.send(beat("e", 101))
	if d := r.want("e", Completed); d.LateBeats != 1 {
		t.Errorf("late beats %d, want 1", d.LateBeats)
	}
	r.run(10*time.Second, nil)
	r.send(beat("e", 1))
	r.want("e", Running)
}

// fault 7
func TestCorrelatedSilenceIsOneGroupAndHeld(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	n := int64(0)
	dead := false
	send := func() {
		if n++; n%10 != 0 {
			return
		}
		for i := range 200 {
			if dead && i < 40 {
				continue
			}
			r.send(beat(fmt.Sprintf("s%03d", i), n, func(b *Beat) {
				b.Interval = 10 * time.Second
				b.Host = fmt.Appendf(nil, "eu%d-01", 1+i/40)
			}))
		}
	}
	r.run(time.Minute, send)
	dead = true
	r.run(30*time.Second, send)
	w := r.tr.Look(Ask{Height: 10, Focus: "s003"})
	if len(w.Groups) != 1 || w.Groups[0].N != 40 || w.Groups[0].Shared != "all on host eu1-01" {
		t.Fatalf("groups %+v", w.Groups)
	}
	if w.Groups[0].HeldFor <= 0 || w.Focus.Evidence.Group != 40 || w.Focus.Evidence.Held == "" {
		t.Errorf("not held: %+v %+v", w.Groups[0], w.Focus.Evidence)
	}
	dead = false
	r.run(12*time.Second, send)
	if w := r.tr.Look(Ask{}); len(w.Groups) != 0 || w.Fleet.ByVerdict[Running] != 200 {
		t.Errorf("groups %+v, fleet %+v", w.Groups, w.Fleet)
	}
}

func TestCadenceIsLearnedFromEightGaps(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	n := int64(0)
	send := func() {
		if n++; n%4 == 0 {
			r.send(beat("l", n))
		}
	}
	r.run(32*time.Second, send)
	if d := r.detail("l"); d.CadenceFrom != "unknown" {
		t.Errorf("after 7 gaps: %v %s", d.Cadence, d.CadenceFrom)
	}
	r.run(5*time.Second, send)
	if d := r.detail("l"); d.Cadence != 6*time.Second || d.CadenceFrom != "learned" {
		t.Errorf("after 8 gaps: %v %s", d.Cadence, d.CadenceFrom)
	}
}

func TestWindowOrderAndNeighbours(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	for i := range 2000 {
		r.send(beat(fmt.Sprintf("s%04d", i), 10))
	}
	r.run(time.Second, nil)
	r.send(beat("s1500", 12, func(b *Beat) { b.StateText = []byte("stalled") }))
	r.run(time.Second, nil)
	r.send(beat("s0700", 13, func(b *Beat) { b.StateText = []byte("stalled") }))
	r.send(beat("s0001", 13, func(b *Beat) { b.StateText = []byte("error") }))
	w := r.tr.Look(Ask{Height: 5})
	var ids []ID
	for _, row := range w.Rows {
		ids = append(ids, row.ID)
	}
	if got, want := fmt.Sprint(ids), "[s0700 s1500 s0001 s0000 s0002]"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	w = r.tr.Look(Ask{Height: 10, Anchor: "s1000", Offset: 0})
	if w.Anchor != 1002-1 || w.Offset != w.Anchor-9 || w.Rows[9].ID != "s1000" {
		t.Errorf("anchor %d offset %d", w.Anchor, w.Offset)
	}
	if w.NextAttention != "s0700" || w.PrevAttention != "s0001" {
		t.Errorf("next %s prev %s", w.NextAttention, w.PrevAttention)
	}
	if w.Fleet.NeedYou != 3 || w.Total != 2000 || w.Matched != 2000 {
		t.Errorf("%+v", w.Fleet)
	}
}

// fault 50
func TestFloodOfUnknownIdsIsShedKnownOnesNever(t *testing.T) {
	r := newRig(t, Policy{MaxSessions: 100, MaxNewPerSecond: 1000}, SourceNATS)
	for i := range 100 {
		r.send(beat(fmt.Sprintf("known%d", i), 10))
	}
	for i := range 5000 {
		r.send(beat(fmt.Sprintf("flood%d", i), 10))
	}
	r.run(time.Second, nil)
	for i := range 100 {
		r.send(beat(fmt.Sprintf("known%d", i), 11))
	}
	w := r.tr.Look(Ask{})
	if w.Total != 100 || w.Self.Shed != 5000 {
		t.Errorf("total %d shed %d", w.Total, w.Self.Shed)
	}
}

func TestUptimeGoesOnAndIsKeptAsItWasSaid(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("a", 142))
	r.run(3*time.Second, nil)
	if d := r.detail("a"); d.UptimeSaid != 142*time.Second || d.Uptime != 145*time.Second {
		t.Errorf("uptime %v, said %v; want 145 s and 142 s", d.Uptime, d.UptimeSaid)
	}
}

// An execution that ended gets no older, whatever is said of its session by then.
func TestUptimeStandsStillAfterTheEnd(t *testing.T) {
	for _, end := range []string{"by its beat", "by its record"} {
		for _, p := range []SupervisorPhase{SupervisorNone, SupervisorRestarting, SupervisorCrashLoop, SupervisorHeld} {
			r := newRig(t, Policy{}, SourceNATS)
			first := func(b *Beat) { b.Generation = 1 }
			r.send(beat("a", 2, first))
			if end == "by its beat" {
				r.send(beat("a", 2, first, func(b *Beat) { b.State, b.StateText = StateError, []byte("error") }))
			} else {
				r.apply(TerminalSeen{ID: "a", Generation: 1, Outcome: OutcomeError, SettledBy: BySupervisor, At: r.at.Mono})
			}
			r.apply(Supervised{ID: "a", Generation: 1, Phase: p, At: r.at.Mono})
			r.run(10*time.Second, nil)
			if d := r.detail("a"); d.Uptime != 2*time.Second {
				t.Errorf("ended %s, supervisor phase %d, %s: up %v, want 2s", end, p, d.Verdict, d.Uptime)
			}
		}
	}
}
