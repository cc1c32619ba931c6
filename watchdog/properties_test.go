package watchdog

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fate is a random history of a tracker.
type fate struct {
	tr   *Tracker
	now  Instant
	told told
}

func newFate(t *rapid.T) *fate {
	f := &fate{told: told{}, now: Instant{Mono: 3 * time.Second, Boot: time.Minute, Wall: 1_800_000_000e9}}
	f.tr = NewTracker(Policy{
		MaxSessions: rapid.SampledFrom([]int{3, 1000}).Draw(t, "sessions"), BrakeHold: time.Minute,
		Overrides: []Override{{Match: "s1*", HeartbeatInterval: 5 * time.Second, Quiet: QuietStalled}},
	}, f.now)
	return f
}

var (
	drawID     = rapid.Map(rapid.IntRange(0, 12), func(n int) string { return fmt.Sprint("s", n) })
	drawSource = rapid.Map(rapid.IntRange(0, int(sourceCount)-1), func(n int) Source { return Source(n) })
	drawText   = rapid.SampledFrom([]string{"", "step 1/9", "step 2/9", "step 9/9", "other", "99999999999/5", "0/0", "a/b/1/2"})
)

// drawBeat makes a beat that wire could let through.
func (f *fate) drawBeat(t *rapid.T) Beat {
	var b Beat
	b.Reset()
	b.Source, b.ID = drawSource.Draw(t, "source"), []byte(drawID.Draw(t, "id"))
	b.Received = max(f.now.Mono-time.Duration(rapid.IntRange(0, 50).Draw(t, "received"))*time.Millisecond, 0)
	b.StateText = []byte(rapid.SampledFrom([]string{"running", "running", "running", "stalled", "completed", "error", "thinking", "idle"}).Draw(t, "state"))
	b.State = StateOf(b.StateText)
	b.Uptime = rapid.SampledFrom([]int64{-1, 0, 1, 5, 60, 3600, int64(f.now.Mono / time.Second), math.MaxInt64}).Draw(t, "uptime")
	b.Credits = rapid.SampledFrom([]float64{math.NaN(), 0, -1, 1.5, 8, 1e300, -1e300}).Draw(t, "credits")
	b.Task = []byte(drawText.Draw(t, "task"))
	if rapid.Bool().Draw(t, "first sight") && b.Source == SourceRedis {
		b.AgeKind = AgeUnknown
		if rapid.Bool().Draw(t, "age") {
			b.AgeKind, b.Age = AgeEstimated, time.Duration(rapid.IntRange(0, 60).Draw(t, "secs"))*time.Second
		}
	}
	if rapid.Bool().Draw(t, "five fields") {
		return b
	}
	b.Generation = Generation(rapid.IntRange(0, 3).Draw(t, "generation"))
	if n := rapid.IntRange(0, 3).Draw(t, "boot"); n > 0 {
		b.BootID, b.Seq = fmt.Append(nil, "boot", n), int64(rapid.IntRange(-1, 9).Draw(t, "seq"))
	}
	long := rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Minute, 365 * 24 * time.Hour})
	b.Idle = rapid.SampledFrom([]time.Duration{-1, 0, time.Second, time.Hour, 100 * 365 * 24 * time.Hour}).Draw(t, "idle")
	b.Interval, b.StallTimeout = long.Draw(t, "interval"), long.Draw(t, "stall")
	b.WaitingFor = Wait(rapid.IntRange(0, 4).Draw(t, "wait"))
	b.WaitingMax, b.LoopLag = long.Draw(t, "max"), long.Draw(t, "lag")-1
	return b
}

func (f *fate) drawEvent(t *rapid.T) Event {
	src, at, id := drawSource.Draw(t, "source"), f.now.Mono, ID(drawID.Draw(t, "id"))
	g := Generation(rapid.IntRange(0, 3).Draw(t, "generation"))
	yes := rapid.Bool().Draw(t, "yes")
	switch rapid.IntRange(0, 14).Draw(t, "event") {
	case 0:
		return SourceAdded{Source: src, At: at}
	case 1:
		return Denied{Source: src, Reason: map[bool]string{true: "no"}[yes], At: at}
	case 2:
		return Dropped{Source: src, Count: 3, At: at}
	case 3:
		return KeyGone{Source: SourceRedis, ID: id, LastSeen: at - time.Second, Polls: rapid.IntRange(1, 2).Draw(t, "polls"), At: at}
	case 4:
		return KeyBack{Source: SourceRedis, ID: id, At: at}
	case 5:
		return StoreChanged{Source: SourceRedis, At: at}
	case 6:
		return TerminalSeen{ID: id, Generation: g, Outcome: Outcome(rapid.IntRange(0, 5).Draw(t, "outcome")), Foreign: yes, At: at}
	case 7:
		return Supervised{ID: id, Generation: g, Phase: SupervisorPhase(rapid.IntRange(0, 3).Draw(t, "phase")), At: at}
	case 8:
		return Wedged{ID: id, Generation: g, Wedged: yes, At: at}
	case 10:
		return f.drawNotes(t)
	case 11:
		return Trouble{Cause: rapid.SampledFrom([]AlertCause{CauseAction, CauseReapRate}).Draw(t, "cause"), ID: id, Generation: g,
			Text: "it failed.", Evidence: uint64(rapid.IntRange(0, 2).Draw(t, "evidence")), Over: yes, At: at}
	case 9:
		return LinkChanged{Source: src, Phase: LinkPhase(rapid.IntRange(0, 2).Draw(t, "phase")), At: at}
	}
	return RoundTrip{Source: src, Sent: at - time.Millisecond, At: at} // most often
}

// tick lets time pass, mostly in ticks of the engine.
func (f *fate) tick(t *rapid.T) {
	pass := tickLength
	late := time.Duration(0)
	switch rapid.IntRange(0, 9).Draw(t, "time") {
	case 0: // asleep
		f.now.Boot += time.Hour
	case 1: // late
		late = time.Duration(rapid.IntRange(1, 100).Draw(t, "late")) * 100 * time.Millisecond
		pass += late
	case 2:
		f.now.Wall = rapid.Int64().Draw(t, "wall")
	case 3, 4, 5: // a minute in quick ticks
		for range 60 * 10 {
			f.pass(tickLength)
			f.told.take(t, f.tr, f.tr.Advance(f.now))
		}
	}
	f.pass(pass)
	f.told.take(t, f.tr, f.tr.Apply(Ticked{Now: f.now, Late: late}))
}

func (f *fate) pass(d time.Duration) {
	f.now.Mono += d
	f.now.Boot += d
	f.now.Wall += int64(d)
}

func drawAsk(t *rapid.T) Ask {
	a := Ask{
		Invert: rapid.Bool().Draw(t, "invert"), OnlyAttention: rapid.IntRange(0, 3).Draw(t, "only") == 0,
		KeepEnded: rapid.Bool().Draw(t, "keep"), Offset: rapid.IntRange(-5, 20).Draw(t, "offset"),
		Height: rapid.SampledFrom([]int{-1, 0, 1, 3, 5, 1000, math.MaxInt, math.MinInt}).Draw(t, "height"),
		Anchor: ID(rapid.OneOf(drawID, rapid.Just(""), rapid.Just("nobody")).Draw(t, "anchor")),
		Focus:  ID(rapid.OneOf(drawID, rapid.Just(""), rapid.Just("nobody")).Draw(t, "focus")),
	}
	switch rapid.IntRange(0, 3).Draw(t, "match") {
	case 0:
		a.Match = func(c *Candidate) bool { return c.Verdict == Running }
	case 1:
		a.Match = func(c *Candidate) bool { return bytes.HasPrefix(c.ID, []byte("s1")) && c.BeatAge < time.Minute }
	}
	switch rapid.IntRange(0, 3).Draw(t, "sort") {
	case 0:
		a.Sort = func(c *Candidate) Key { return Key{Num: c.Credits} }
	case 1:
		a.Sort = func(c *Candidate) Key { return Key{Text: string(c.Task)} }
	}
	return a
}

// checkWindow holds a window against that of all rows for the same question.
func checkWindow(t *rapid.T, tr *Tracker, a Ask) {
	w := tr.Look(a)
	whole := a
	whole.Height, whole.Offset = -1, 0
	all := tr.Look(whole).Rows
	height := a.Height
	if height < 0 || height > len(all) {
		height = len(all)
	}
	if w.Matched != len(all) || len(w.Rows) != height || w.Offset < 0 || w.Offset+len(w.Rows) > w.Matched {
		t.Fatalf("%d rows at %d of %d, %d in all, asked for %d at %d", len(w.Rows), w.Offset, w.Matched, len(all), a.Height, a.Offset)
	}
	for i, row := range w.Rows {
		if row.ID != all[w.Offset+i].ID {
			t.Fatalf("row %d is %s, not %s", i, row.ID, all[w.Offset+i].ID)
		}
	}
	at := slices.IndexFunc(all, func(r Row) bool { return r.ID == a.Anchor })
	if w.Anchor != at {
		t.Fatalf("anchor at %d, not %d", w.Anchor, at)
	}
	if at >= 0 && height > 0 && (at < w.Offset || at >= w.Offset+height) {
		t.Fatalf("anchor %d is not in the window %d+%d", at, w.Offset, height)
	}
	if want := max(min(a.Offset, len(all)-height), 0); at < 0 && w.Offset != want {
		t.Fatalf("offset %d, not %d", w.Offset, want)
	}
	var next, previous ID
	anyOpen := slices.ContainsFunc(all, func(r Row) bool { return r.Attention < AttentionUnknown && r.Standing == AlertOpen })
	wants := func(r Row) bool { return r.Attention < AttentionUnknown && (r.Standing == AlertOpen || !anyOpen) }
	for k := range all {
		if r := all[(at+1+k)%len(all)]; next == "" && wants(r) {
			next = r.ID
		}
		if r := all[(max(at, 0)-1-k+2*len(all))%len(all)]; previous == "" && wants(r) {
			previous = r.ID
		}
	}
	if w.NextAttention != next || w.PrevAttention != previous {
		t.Fatalf("next %q, not %q; previous %q, not %q", w.NextAttention, next, w.PrevAttention, previous)
	}
	if w.Focus != nil && w.Focus.ID != a.Focus {
		t.Fatalf("focus is %q, not %q", w.Focus.ID, a.Focus)
	}
}

// checkFleet holds the counts against the rows.
func checkFleet(t *rapid.T, tr *Tracker) {
	w := tr.Look(Ask{Height: -1, KeepEnded: true})
	var by [VerdictCount]int
	live, need := 0, 0
	for _, r := range w.Rows {
		by[r.Verdict]++
		if !r.Verdict.Ended() {
			live++
		}
		if r.Attention.Counted() {
			need++
		}
		if r.For < 0 || r.BeatAge < -1 || r.WorkAge < -1 || r.Uptime < -1 || r.WaitMax < 0 {
			t.Fatalf("negative ages: %+v", r)
		}
		if p := r.Progress; p.Known && (p.Done > p.Of || p.ETA < -1 || p.PerMinute < 0) {
			t.Fatalf("progress %+v", p)
		}
	}
	f := w.Fleet
	if by != f.ByVerdict || live != f.Live || need != f.NeedYou+f.Answered || len(w.Rows) != w.Total || f.Assessed > f.Live {
		t.Fatalf("counted %+v of %d, rows say %v, %d live, %d need you", f, w.Total, by, live, need)
	}
	if tr.live != live && len(w.Rows) > 0 && f.ByVerdict[Unknown] == 0 {
		t.Fatalf("the tracker counts %d live, the rows %d", tr.live, live)
	}
	for _, g := range w.Groups {
		if g.N < 1 || g.N > live {
			t.Fatalf("a group of %d, %d live", g.N, live)
		}
	}
}

// TestAnyHistoryAndAnyQuestion: whatever comes in, nothing panics, the counts
// are those of the rows, and every window is a part of the whole.
func TestAnyHistoryAndAnyQuestion(t *testing.T) {
	sequential(t)
	rapid.Check(t, func(t *rapid.T) {
		f := newFate(t)
		t.Repeat(map[string]func(*rapid.T){
			"beats": func(t *rapid.T) {
				var batch []Beat
				for range rapid.IntRange(1, 8).Draw(t, "n") {
					batch = append(batch, f.drawBeat(t))
				}
				f.tr.ApplyBeats(batch)
			},
			"event": func(t *rapid.T) {
				f.told.take(t, f.tr, f.tr.Apply(f.drawEvent(t)))
				checkAlerts(t, f.tr)
			},
			"tick": func(t *rapid.T) {
				f.tick(t)
				checkFleet(t, f.tr)
				checkAlerts(t, f.tr)
			},
			"look": func(t *rapid.T) {
				// What became due since the last tick is counted with the next.
				f.pass(tickLength)
				f.tr.Advance(f.now)
				checkWindow(t, f.tr, drawAsk(t))
			},
		})
	})
}
