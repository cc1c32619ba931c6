package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// handover makes the summary of the last hours.
func (r *rig) handover(since time.Duration, more ...func(*HandoverInput)) Handover {
	in := HandoverInput{Since: time.Unix(0, r.at.Wall-int64(since)), Window: r.tr.Look(HandoverAsk())}
	for _, m := range more {
		m(&in)
	}
	return NewHandover(in)
}

// TestHandoverOfWhatHappened goes through the tracker, so that what it says and
// what is read of it are the same.
func TestHandoverOfWhatHappened(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.run(40*time.Minute, r.worked("a", func(sec int64) (time.Duration, bool) {
		if sec > 600 && sec < 1500 { // stalled for 10 minutes
			return time.Duration(sec-600) * time.Second, true
		}
		return time.Second, true
	}))
	h := r.handover(time.Hour)
	if h.Alerts != 1 || len(h.Happened) != 1 || h.Groups != 0 || h.OpenTotal != 0 {
		t.Fatalf("%+v", h)
	}
	one := h.Happened[0]
	if one.ID != "a" || one.Verdict != "stalled" || one.Until == nil || one.Became != "running" || one.Times != 1 {
		t.Errorf("%+v", one)
	}
	if d := one.Until.Sub(one.At); d < 9*time.Minute || d > 11*time.Minute {
		t.Errorf("it lasted %v", d)
	}
	if !h.Known.Equal(h.Looks) || !h.Seeing || h.Sessions != 1 {
		t.Errorf("known since %v, looks since %v, %+v", h.Known, h.Looks, h)
	}
	if late := r.handover(5 * time.Minute); len(late.Happened) != 0 {
		t.Errorf("what was over before: %+v", late.Happened)
	}
}

// TestHandoverOfAHumanWait: one that needed somebody and is over by now happened;
// one that did not is none, and one that goes on stands among the open ones.
func TestHandoverOfAHumanWait(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	waits := func(b *Beat, _ int64) {
		b.Interval, b.WaitingFor, b.WaitingMax, b.Generation, b.Idle = 10*time.Second, WaitHuman, time.Hour, 1, 0
	}
	works := func(b *Beat, _ int64) { b.Interval, b.Generation, b.Idle = 10*time.Second, 1, 0 }
	r.worker("a", time.Minute, works)
	r.worker("a", 10*time.Minute, waits)
	r.worker("a", time.Minute, works)
	if h := r.handover(8 * time.Hour); len(h.Happened) != 0 {
		t.Fatalf("a wait of ten minutes: %+v", h.Happened)
	}
	r.worker("a", 40*time.Minute, waits)
	if h := r.handover(8 * time.Hour); len(h.Happened) != 0 || h.OpenTotal != 1 || h.Open[0].Cause != CauseHuman.String() {
		t.Fatalf("it waits: %+v, open %+v", h.Happened, h.Open)
	}
	r.worker("a", time.Minute, works)
	h := r.handover(8 * time.Hour)
	if len(h.Happened) != 1 || h.Alerts != 1 || h.OpenTotal != 0 {
		t.Fatalf("it was answered: %+v, open %+v", h.Happened, h.Open)
	}
	one := h.Happened[0]
	if one.ID != "a" || one.Verdict != "waiting" || one.Text != "HUMAN, max 1h" || one.Became != "running" {
		t.Errorf("%+v", one)
	}
	if d := one.Until.Sub(one.At); d < 39*time.Minute || d > 41*time.Minute {
		t.Errorf("it lasted %v", d)
	}
	// What becomes a stall told of itself is two things, in the order of their begin.
	r.worker("a", 20*time.Minute, waits)
	r.worker("a", time.Minute, func(b *Beat, n int64) { works(b, n); b.State, b.StateText = StateStalled, []byte("stalled") })
	if h = r.handover(8 * time.Hour); len(h.Happened) != 3 || h.Happened[1].Became != "stalled" || h.Happened[2].Verdict != "stalled" {
		t.Errorf("%+v", h.Happened)
	}
}

// TestHandoverOfAGroup: many that fall silent together are one line, whatever
// becomes of them.
func TestHandoverOfAGroup(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	var beats []func()
	for i := range 100 {
		beats = append(beats, r.worked(fmt.Sprint("s", i), func(sec int64) (time.Duration, bool) { return time.Second, i >= 40 || sec < 300 || sec > 700 }))
	}
	r.run(15*time.Minute, func() {
		for _, b := range beats {
			b()
		}
	})
	h := r.handover(time.Hour)
	if h.Groups != 1 || h.Alerts != 0 || len(h.Happened) != 1 {
		t.Fatalf("%d groups, %d alerts: %+v", h.Groups, h.Alerts, h.Happened)
	}
	if g := h.Happened[0]; g.ID != "" || !strings.Contains(g.Text, "40 of 100 live went silent together") || g.Until == nil || g.Became != "all of them beat again" {
		t.Errorf("%+v", g)
	}
}

// TestHandoverReadsALargeGroup: also what was written before counts had commas.
func TestHandoverReadsALargeGroup(t *testing.T) {
	for _, said := range []string{"1,200 of 2,000", "1200 of 2,000"} {
		var h Handover
		h.incidents([]Transition{{Kind: EventGroup, From: Silent, To: Silent, At: Instant{Wall: 1}, Text: said + groupFormedText + "; settling them is held"}})
		if want := "1,200 of 2,000" + groupFormedText; len(h.Happened) != 1 || h.Happened[0].Text != want {
			t.Errorf("%s is told as %+v, not as %q", said, h.Happened, want)
		}
	}
}

func TestHandoverOfBlindness(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	work := r.worked("a", func(int64) (time.Duration, bool) { return time.Second, true })
	r.run(5*time.Minute, work)
	r.up[SourceNATS] = false
	r.run(41*time.Second, nil)
	r.up[SourceNATS] = true
	r.run(5*time.Minute, work)
	r.up[SourceNATS] = false
	r.run(time.Minute, nil)
	h := r.handover(time.Hour)
	if len(h.Blind) != 2 || h.Alerts != 0 || h.Seeing {
		t.Fatalf("%+v", h)
	}
	first, now := h.Blind[0], h.Blind[1]
	if first.Source != "NATS" || first.Until == nil || first.Reason == "" {
		t.Errorf("%+v", first)
	}
	if d := first.Until.Sub(first.From); d < 40*time.Second || d > 44*time.Second {
		t.Errorf("it was blind for %v", d)
	}
	if now.Until != nil {
		t.Errorf("it is blind now: %+v", now)
	}
}

// worked gives a beat each half minute.
func (r *rig) worked(id string, say func(sec int64) (idle time.Duration, alive bool)) func() {
	start, last := r.at.Mono, time.Duration(-1)
	return func() {
		d := r.at.Mono - start
		if last >= 0 && d-last < 30*time.Second {
			return
		}
		last = d
		sec := int64(d / time.Second)
		idle, alive := say(sec)
		if !alive {
			return
		}
		r.send(beat(id, sec+100, func(b *Beat) { b.Interval, b.Idle, b.Generation = 30*time.Second, idle, 1 }))
	}
}

// TestHandoverBeforeThisProcess: a history tells of what was before, once, and
// between two observers nobody looked.
func TestHandoverBeforeThisProcess(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.run(10*time.Minute, r.worked("a", func(int64) (time.Duration, bool) { return time.Second, true }))
	began := r.tr.Look(Ask{}).Started.Wall
	ago := func(d time.Duration) Instant { return Instant{Wall: began - int64(d)} }
	past := []Transition{
		{Kind: EventWatch, Text: WatchBegan, At: ago(6 * time.Hour)},
		{ID: "b", Generation: 3, From: Running, To: Stalled, At: ago(5 * time.Hour), Text: "no work for 5m"},
		{ID: "b", Generation: 3, From: Stalled, To: Running, At: ago(4 * time.Hour)},
		{ID: "c", Generation: 1, From: Running, To: CrashLoop, At: ago(3 * time.Hour)},
		{ID: "c", Generation: 1, From: CrashLoop, To: Running, At: ago(2*time.Hour + 50*time.Minute)},
		{ID: "c", Generation: 2, From: Running, To: CrashLoop, At: ago(2*time.Hour + 48*time.Minute)},
		{ID: "d", Generation: 1, From: Running, To: Silent, At: ago(2 * time.Hour)},
		{ID: "d", Generation: 1, From: Silent, To: Running, At: ago(2*time.Hour - 5*time.Second)},
		{Kind: EventWatch, Text: WatchEnded, At: ago(10 * time.Minute)},
		{Kind: EventWatch, Text: WatchBegan, At: ago(0)},
	}
	past = append(past, r.tr.Look(HandoverAsk()).Events...) // what it kept of this process
	h := r.handover(8*time.Hour, func(in *HandoverInput) { in.Past, in.PastFrom = past, time.Unix(0, began-int64(6*time.Hour)) })
	var got []string
	for _, one := range h.Happened {
		got = append(got, fmt.Sprint(one.ID, one.Generation, one.Verdict, one.Times, one.Became))
	}
	if fmt.Sprint(got) != "[b3stalled1running c2crash-loop2unknown]" {
		t.Error(got)
	}
	if h.Looks.Sub(h.Known) != 6*time.Hour {
		t.Errorf("known since %v, looks since %v", h.Known, h.Looks)
	}
	if len(h.Blind) != 1 || h.Blind[0].Source != "" || h.Blind[0].Vague || h.Blind[0].Until.Sub(h.Blind[0].From) != 10*time.Minute {
		t.Errorf("nobody looked: %+v", h.Blind)
	}
}

func TestHandoverOfActionsAndNotes(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	stuck := r.worked("a", func(sec int64) (time.Duration, bool) { return time.Duration(sec) * time.Second, true })
	other := r.worked("etl-1", func(sec int64) (time.Duration, bool) { return time.Duration(sec) * time.Second, true })
	r.run(8*time.Minute, func() { stuck(); other() })
	a := ackOf(*r.tr.Look(Ask{Focus: "a"}).Focus.Alert)
	end := time.Unix(0, r.at.Wall).Add(3 * time.Hour)
	r.say(a, AlertNote{Key: MatchKey("etl-*"), Kind: NoteMute, Until: end, Text: "deploy"})
	r.order("c1", OpExpire, "a", 1, "")
	kept := []HandoverAction{{Command: "c1", At: time.Unix(0, r.at.Wall), Op: "expire"}, // told by the window too
		{Command: "c0", At: time.Unix(0, r.at.Wall).Add(-time.Hour), By: "ops2", Op: "restart", ID: "a", Generation: 1, Fate: "effective", Final: true, Secs: 4},
		{Command: "old", At: time.Unix(0, r.at.Wall).Add(-9 * time.Hour), Op: "stop"}}
	h := r.handover(8*time.Hour, func(in *HandoverInput) {
		in.Actions = kept
		in.Past = []Transition{{ID: "a", Generation: 2, To: Running, New: true, At: Instant{Wall: r.at.Wall - int64(59*time.Minute)}}}
	})
	if h.OpenTotal != 1 || h.Acked != 1 || len(h.Open) != 1 || h.Open[0].Author != "ops1" || h.Open[0].Note != "vendor called" || h.Open[0].ID != "a" {
		t.Errorf("open: %+v", h.Open)
	}
	if len(h.Quiet) != 1 || h.Quiet[0].What != "etl-*" || h.Quiet[0].Until == nil || !h.Quiet[0].Until.Equal(end) || h.Quiet[0].Note != "deploy" {
		t.Errorf("quiet: %+v", h.Quiet)
	}
	if len(h.Actions) != 2 || h.Actions[0].Command != "c0" || h.Actions[0].Next != 2 || h.Actions[1].Command != "c1" || h.Actions[1].Fate == "" {
		t.Errorf("actions: %+v", h.Actions)
	}
}

// TestHandoverIsBounded, and counts what it leaves out.
func TestHandoverIsBounded(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	var past []Transition
	for i := range 1000 {
		past = append(past, Transition{ID: ID(fmt.Sprint("s", i)), To: Lost, At: Instant{Wall: r.at.Wall - int64(i)*int64(time.Second)}})
	}
	h := r.handover(time.Hour, func(in *HandoverInput) { in.Past = past })
	if len(h.Happened) != handoverListed || h.Alerts != 1000 || h.Unlisted != 1000-handoverListed || h.Happened[len(h.Happened)-1].ID != "s0" {
		t.Errorf("%d listed of %d, %d not", len(h.Happened), h.Alerts, h.Unlisted)
	}
}
