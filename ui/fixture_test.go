package ui

import (
	"fmt"
	"math"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// at is 03:12:44Z of a night.
var at = time.Date(2026, 11, 30, 3, 12, 44, 0, time.UTC)

const watched = 3 * time.Hour

func baseWindow() watchdog.Window {
	return watchdog.Window{
		Now:     watchdog.Instant{Mono: watched, Boot: watched, Wall: at.UnixNano()},
		Started: watchdog.Instant{Wall: at.Add(-watched).UnixNano()},
		Fleet:   watchdog.Fleet{LastTrouble: -1},
		Anchor:  -1,
		Links:   []watchdog.Link{upLink(watchdog.SourceNATS), upLink(watchdog.SourceRedis)},
	}
}

func upLink(s watchdog.Source) watchdog.Link {
	l := watchdog.Link{Source: s, Phase: watchdog.LinkUp, Sighted: true, Since: watched, LastTrip: time.Second, RTT: 2 * time.Millisecond, Beats: 120_000}
	switch s {
	case watchdog.SourceNATS:
		l.Address, l.Origin, l.Detail = "nats://localhost:4222", "default", "agent.liveness.>"
	case watchdog.SourceRedis:
		l.Address, l.Origin, l.Keys = "redis://redis.lan:6379", "REDIS_URL", 2000
	}
	return l
}

func downLink(s watchdog.Source, since time.Duration) watchdog.Link {
	l := upLink(s)
	l.Phase, l.Sighted, l.Since, l.LastTrip = watchdog.LinkDown, false, since, since
	l.Attempt, l.NextTry, l.Detail, l.Reason = 7, 4*time.Second, "refused", "no round trip for 10 s"
	return l
}

const (
	sec  = time.Second
	mins = time.Minute
)

func row(v watchdog.Verdict, a watchdog.Attention, id string, since, beat, work time.Duration, why string) watchdog.Row {
	return watchdog.Row{
		ID: watchdog.ID(id), Generation: 1, Verdict: v, Attention: a, For: since, State: "running",
		BeatAge: beat, WorkAge: work, WorkKnown: true, Uptime: 3*time.Hour + 10*mins, Credits: math.NaN(),
		Host: "eu2-07", Agent: "worker-7", Sources: 3, Seeing: 3, Why: why,
	}
}

// sickRows are those of the draft of the first view.
func sickRows() []watchdog.Row {
	rows := []watchdog.Row{
		row(watchdog.Stalled, watchdog.AttentionAct, "indexer", 31*sec, 2*sec, 5*mins+31*sec, "no work for 5m31 (limit 5m00)"),
		row(watchdog.CrashLoop, watchdog.AttentionAct, "etl-nightly", 100*sec, 4*sec, 4*sec, "3 exits in 52s, code 1; held"),
		row(watchdog.Stalled, watchdog.AttentionAct, "user:42:chat:research-eu-1f9c", 131*sec, 11*sec, 7*mins+11*sec, "publisher says: tool web.fetch"),
		row(watchdog.Lost, watchdog.AttentionBadEnd, "batch-job-9", 38*mins, 39*mins, 39*mins, "3 beats missed; settled 02:34Z"),
		row(watchdog.Lost, watchdog.AttentionBadEnd, "batch-job-7", 41*mins, 44*mins, 44*mins, "3 beats missed; settled 02:31Z"),
		row(watchdog.Silent, watchdog.AttentionSuspect, "team.a.job-1", 12*sec, 84*sec, 84*sec, "2 beats missed; lost in 6s"),
		row(watchdog.Disputed, watchdog.AttentionSuspect, "crawler-0031", 185*sec, 8*sec, 9*sec, "NATS running, Redis key gone"),
		row(watchdog.Waiting, watchdog.AttentionWait, "approver-billing", 6*time.Hour+2*mins, 9*sec, 6*time.Hour+2*mins, "HUMAN, max 8h: approve refund"),
		row(watchdog.Waiting, watchdog.AttentionNone, "research-88", 160*sec, 20*sec, 160*sec, "tool, max 30m: pytest"),
		row(watchdog.Quiet, watchdog.AttentionQuiet, "batch-job-def456", 12*mins, 6*sec, 17*mins, "no visible change; 47/200"),
	}
	rows[0].Generation, rows[0].Task, rows[0].Credits = 2, "embedding batch 9", math.NaN()
	rows[1].Generation, rows[1].Credits = 9, 12_400
	rows[2].Generation, rows[2].State, rows[2].Credits = 3, "stalled", 8.43
	rows[6].Seeing = 1
	rows[9].WorkKnown = false
	return rows
}

func runningRow(i int) watchdog.Row {
	r := row(watchdog.Running, watchdog.AttentionNone, fmt.Sprintf("batch-job-%04d", i), 2*time.Hour, time.Duration(i*5%30)*sec, 400*time.Millisecond, "")
	r.Task = fmt.Sprintf("chunk %d/200", 112-i)
	r.Progress = watchdog.Progress{Known: true, Done: int64(112 - i), Of: 200, PerMinute: 1, WasPerMin: math.NaN(), ETA: 90*mins + time.Duration(i)*mins}
	r.Credits = 4.2 + float64(i)
	return r
}

func evidence() watchdog.Evidence {
	return watchdog.Evidence{
		Rule: "work over stall timeout", Text: "no work for 5m31 (limit 5m00)", Threshold: 5 * mins,
		Inputs: []watchdog.Input{
			{Name: "work", Value: "331", Unit: "s", Source: "publisher", Age: 2 * sec},
			{Name: "beat", Value: "2", Unit: "s", Source: "nats", Age: 2 * sec},
			{Name: "state", Value: "running", Source: "publisher", Age: 2 * sec},
		},
		Next: []watchdog.Forecast{{Verdict: watchdog.Silent, In: 70 * sec, If: "nothing arrives"}, {Verdict: watchdog.Running, In: -1, If: "work is seen"}},
		Sight: []watchdog.Sight{
			{Source: watchdog.SourceNATS, Up: true, Since: time.Hour + 2*mins}, {Source: watchdog.SourceRedis, Up: true, Since: time.Hour + 2*mins},
		},
	}
}

func detailOf(r watchdog.Row) *watchdog.Detail {
	d := &watchdog.Detail{
		Row: r, Evidence: evidence(), BootID: "k3x9", Seq: 17, PID: 4711, Cadence: 30 * sec, CadenceFrom: "declared",
		StallTimeout: 5 * mins, StallFrom: "policy", Interval: 30 * sec, LoopLag: 2 * time.Millisecond,
		FirstSeen: watched, Watched: watched, TaskSince: 5*mins + 31*sec, BurnPerMin: math.NaN(), WasBurnPerMin: math.NaN(), CreditsLeft: -1,
		HistorySince: 10 * mins, Can: canNothing("nobody listens to its commands"),
	}
	for i := range d.Beats {
		if i%3 == 0 {
			d.Beats[i] = 1
		}
		if i%3 == 0 && i < 27 {
			d.Work[i] = 2
		}
	}
	return d
}

// sickWindow is the first view of ux: nine need you, two thousand live.
func sickWindow() watchdog.Window {
	w := baseWindow()
	w.Rows = sickRows()
	for i := range 300 {
		w.Rows = append(w.Rows, runningRow(i+1))
	}
	w.Total, w.Matched = 2002, 2002
	w.Ledger = goodLedger()
	f := &w.Fleet
	f.Live, f.NeedYou, f.Human, f.Assessed, f.LastTrouble = 2000, 9, 1, 2000, watched
	for v, n := range map[watchdog.Verdict]int{
		watchdog.Stalled: 3, watchdog.CrashLoop: 1, watchdog.Lost: 2, watchdog.Silent: 1, watchdog.Disputed: 1,
		watchdog.Waiting: 12, watchdog.Quiet: 1, watchdog.Running: 1981,
	} {
		f.ByVerdict[v] = n
	}
	w.NextAttention, w.PrevAttention = w.Rows[1].ID, w.Rows[9].ID
	w.Focus = detailOf(w.Rows[0])
	w.Events = []watchdog.Transition{
		{ID: "indexer", Generation: 2, From: watchdog.Running, To: watchdog.Stalled, At: watchdog.Instant{Wall: at.Add(-31 * sec).UnixNano()}, Text: "no work for 5m00"},
		{ID: "team.a.job-1", Generation: 1, From: watchdog.Running, To: watchdog.Silent, At: watchdog.Instant{Wall: at.Add(-12 * sec).UnixNano()}},
		{ID: "etl-nightly", Generation: 9, From: watchdog.Restarting, To: watchdog.CrashLoop, At: watchdog.Instant{Wall: at.Add(-100 * sec).UnixNano()}, Text: "3 exits in 52s"},
		{ID: "batch-job-0001", Generation: 1, To: watchdog.Running, New: true, At: watchdog.Instant{Wall: at.Add(-2 * time.Hour).UnixNano()}},
	}
	return w
}

// quietWindow is a fleet in which nothing is wrong.
func quietWindow() watchdog.Window {
	w := baseWindow()
	for i := range 300 {
		w.Rows = append(w.Rows, runningRow(i+1))
	}
	w.Total, w.Matched = 2000, 2000
	w.Fleet.Live, w.Fleet.Assessed, w.Fleet.LastTrouble = 2000, 2000, watched-130*mins
	w.Fleet.ByVerdict[watchdog.Running] = 2000
	w.Focus = detailOf(w.Rows[0])
	w.Focus.Evidence = watchdog.Evidence{
		Rule: "fresh", Text: "", Threshold: 5 * mins, Sight: evidence().Sight,
		Next: []watchdog.Forecast{{Verdict: watchdog.Stalled, In: 5 * mins, If: "no work is seen"}},
	}
	for i := range w.Focus.Work {
		w.Focus.Work[i] = 1
	}
	return w
}

// blindWindow is what is left when the only link went down.
func blindWindow() watchdog.Window {
	w := sickWindow()
	w.Links = []watchdog.Link{downLink(watchdog.SourceNATS, 52*sec)}
	for i := range w.Rows {
		if w.Rows[i].Verdict.Ended() {
			continue
		}
		w.Rows[i].Verdict, w.Rows[i].Attention, w.Rows[i].Why, w.Rows[i].Seeing = watchdog.Unknown, watchdog.AttentionUnknown, "NATS is blind", 0
	}
	f := &w.Fleet
	f.ByVerdict = [watchdog.VerdictCount]int{watchdog.Unknown: 2000, watchdog.Lost: 2}
	f.NeedYou, f.Human = 2, 0
	w.Focus = nil
	return w
}

// learningWindow is just after attaching.
func learningWindow() watchdog.Window {
	w := quietWindow()
	w.Fleet.Assessed, w.Fleet.LastTrouble = 212, -1
	for i := range w.Rows {
		w.Rows[i].WorkKnown, w.Rows[i].WorkBound, w.Rows[i].WorkAge = false, true, 40*sec
	}
	return w
}

// emptyWindow has nothing to show; the links say why.
func emptyWindow(links ...watchdog.Link) watchdog.Window {
	w := baseWindow()
	w.Links = links
	return w
}

func refusedLinks() []watchdog.Link {
	n, r := downLink(watchdog.SourceNATS, 9*sec), downLink(watchdog.SourceRedis, 9*sec)
	n.LastTrip, r.LastTrip = -1, -1
	n.Attempt, r.Attempt, r.NextTry, r.Detail = 3, 2, 2*sec, "no such host"
	return []watchdog.Link{n, r}
}

// massWindow is a fifth of the fleet that went silent together.
func massWindow() watchdog.Window {
	w := quietWindow()
	var members []watchdog.ID
	for i := range 100 {
		r := &w.Rows[i]
		r.ID = watchdog.ID(fmt.Sprintf("worker-%04d", 217+i))
		r.Verdict, r.Attention, r.For, r.BeatAge, r.WorkAge = watchdog.Silent, watchdog.AttentionSuspect, 79*sec, 151*sec, 151*sec
		r.Why, r.Sources, r.Seeing = "5 beats missed, 1 of 400, HELD", 1, 1
		members = append(members, r.ID)
	}
	f := &w.Fleet
	f.NeedYou, f.ByVerdict[watchdog.Silent], f.ByVerdict[watchdog.Running] = 400, 400, 1600
	w.Groups = []watchdog.Group{{N: 400, Of: 2000, Began: watched - 116*sec, HeldFor: 521 * sec, Shared: "all on hosts eu2-*", Members: members}}
	w.Focus = detailOf(w.Rows[0])
	w.Focus.CadenceFrom = "learned"
	w.Focus.Evidence = watchdog.Evidence{
		Rule: "5 beats missed", Text: w.Rows[0].Why, Threshold: 72 * sec, Group: 400, Held: "400 of 2,000 went silent within 60 s",
		Inputs: []watchdog.Input{
			{Name: "state", Value: "running", Source: "publisher", Age: 10 * mins}, {Name: "beat", Value: "151", Unit: "s", Source: "nats", Age: 151 * sec},
			{Name: "interval", Value: "30", Unit: "s", Source: "learned", Age: -1},
		},
		Next:  []watchdog.Forecast{{Verdict: watchdog.Lost, In: -1, If: "not while held: 400 of 2,000 went silent within 60 s"}, {Verdict: watchdog.Running, In: -1, If: "a beat arrives"}},
		Sight: []watchdog.Sight{{Source: watchdog.SourceNATS, Up: true, Since: time.Hour + 2*mins}},
	}
	for i := range w.Focus.Beats {
		if i > 45 {
			w.Focus.Beats[i], w.Focus.Work[i] = 0, 0
		}
	}
	return w
}

// sourcesWindow has something to say about each source.
func sourcesWindow() watchdog.Window {
	w := sickWindow()
	w.Links[0].Refused[watchdog.RefusedID], w.Links[0].Refused[watchdog.RefusedJSON] = 3, 1
	w.Links[0].LastRefusal, w.Links[0].LastRefusalID, w.Links[0].Fields, w.Links[0].Dropped = watchdog.RefusedJSON, "agent.liveness.x", 7, 12
	w.Links[0].RTT, w.Links[0].Warning = 80*time.Millisecond, "no TLS"
	w.Links[1] = downLink(watchdog.SourceRedis, 41*sec)
	w.Self = watchdog.Self{Beats: 240_000, Coalesced: 12, Drops: 12, Shed: 5, Lag: 3 * sec, Score: 2, Suspended: 8 * time.Hour}
	w.Fleet.LateBeats = 4
	return w
}

// canNothing denies every op for one reason.
func canNothing(why string) (c watchdog.Can) {
	c.Deny(why, watchdog.Ops()...)
	return c
}
