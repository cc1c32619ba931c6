package watchdog

import (
	"math"
	"time"
)

// row copies one session for people. Judge is asked again, so that every word
// on the screen comes from the same facts.
func (t *Tracker) row(n uint32, r *record, v *View) (Row, Facts, Thresholds) {
	now := t.now.Mono
	sd := t.store.sideOf(r)
	f := t.facts(n, r, sd)
	f.StateText = string(t.stateText(r))
	if sd != nil {
		f.Message = sd.message
	}
	th := t.thresholdsOf(r, sd)
	d := decide(&f, &th, v, now)
	since := t.mono(r.since)
	if d.verdict != r.verdict {
		since = d.since
		if since == never {
			since = now
		}
	}
	row := Row{
		ID: ID(t.store.idOf(r)), Generation: r.generation, Verdict: d.verdict,
		Attention: attentionOf(d.verdict, d.rule, r.wait, now-f.WaitSince),
		For:       max(now-since, 0), State: f.StateText,
		BeatAge: t.beatAge(r, now), BeatKind: f.BeatKind, WorkKnown: f.WorkKnown,
		Uptime: -1, UptimeSaid: -1, Credits: r.credits, Task: string(t.store.text.get(r.task)),
		Waiting: r.wait, Overdue: d.rule == ruleOverdue, Sources: r.carried, Seeing: r.carried & t.sighted,
		Why: sentence(&d, &f, &th, v, now), Held: f.Held != "",
	}
	if r.flags&flagDismissed != 0 {
		row.Attention, row.Standing = AttentionNone, AlertAcked
	}
	if r.flags&flagAnswered != 0 {
		if a := t.alertOf(n, r); a != nil && a.note != nil {
			row.Standing, row.AnsweredBy = a.standing, a.note.Author
		}
	}
	row.WorkAge, row.WorkBound = t.workAge(r, now)
	if r.flags&flagUptime != 0 {
		row.Uptime, row.UptimeSaid = t.uptime(r, now), time.Duration(r.uptime)*time.Second
	}
	if r.wait != WaitNone {
		row.WaitMax = waitLimit(&f, &th)
	}
	if sd != nil {
		row.Agent, row.Host = sd.agent, sd.host
	}
	if f.Unheard {
		row.State = ""
	}
	row.Progress = t.progressShown(r, now, th.Interval)
	return row, f, th
}

// progressShown gives the rate of a counted task and when it will be done.
func (t *Tracker) progressShown(r *record, now, interval time.Duration) Progress {
	done, of, ok := progressOf(t.store.text.get(r.task))
	p := Progress{Known: ok, Done: int64(done), Of: int64(of), PerMinute: float64(r.rate), WasPerMin: math.NaN(), ETA: -1}
	if !ok || math.IsNaN(p.PerMinute) {
		p.PerMinute = math.NaN()
		return p
	}
	if stopped(p.PerMinute, 1, now-t.mono(r.doneAt), interval) {
		p.PerMinute, p.WasPerMin = 0, p.PerMinute
		return p
	}
	if p.PerMinute > 0 {
		p.ETA = time.Duration(float64(of-done) / p.PerMinute * float64(time.Minute))
	}
	return p
}

// detail is everything about one session.
func (t *Tracker) detail(n uint32) Detail {
	r := t.store.at(n)
	v := t.view()
	now := t.now.Mono
	row, f, th := t.row(n, r, &v)
	d := Detail{
		Row: row, Seq: -1, LoopLag: -1, Cadence: th.Interval, CadenceFrom: th.IntervalFrom,
		StallTimeout: th.StallTimeout, StallFrom: th.StallFrom,
		FirstSeen: now - t.mono(r.firstSeen), Watched: now - t.mono(r.firstSeen),
		TaskSince: -1, BurnPerMin: math.NaN(), WasBurnPerMin: math.NaN(), CreditsLeft: -1,
		HistorySince: min(now-t.epoch.Mono, HistoryPoints*HistoryStep),
	}
	_, d.Evidence = Judge(&f, &th, &v, now)
	for _, src := range r.carried.Sources() {
		s := &t.sights[src]
		d.Evidence.Sight = append(d.Evidence.Sight, Sight{Source: src, Up: s.up, Since: max(now-s.changed, 0), Reason: s.reason})
	}
	if !th.CadenceKnown() {
		d.Cadence, d.CadenceFrom = 0, "unknown"
	}
	if r.taskAt != noMoment {
		d.TaskSince = max(now-t.mono(r.taskAt), 0)
	}
	if sd := t.store.sideOf(r); sd != nil {
		d.BootID, d.Seq, d.PID, d.Message = sd.boot, sd.seq, sd.pid, sd.message
		d.Interval, d.LoopLag, d.LateBeats = sd.interval, sd.loopLag, sd.lateBeats
		d.Terminal = sd.terminal.shown()
		t.supervisionShown(&sd.supervised, &d)
		if sd.firstSeen != noMoment {
			d.FirstSeen = now - t.mono(sd.firstSeen)
		}
	}
	t.burnShown(r, &d, now, th.Interval)
	d.Beats, d.Work = r.ring.unroll(stepOf(now - t.epoch.Mono))
	d.Can = t.can(r)
	d.Alert = t.alertFor(n, r)
	return d
}

// shown is a record as people see it; nil: there is none.
func (e *TerminalSeen) shown() *TerminalView {
	if e.Outcome == OutcomeNone && !e.Foreign {
		return nil
	}
	return &TerminalView{Outcome: e.Outcome, SettledBy: e.SettledBy, Writer: e.Writer, Reason: e.Reason, Settled: e.Settled, Foreign: e.Foreign, Overrules: e.Overrules}
}

// supervisionShown tells what its supervisor does with a session.
func (t *Tracker) supervisionShown(s *Supervised, d *Detail) {
	if s.Phase == SupervisorNone {
		return
	}
	p := s.Process
	if p.NextRestart > 0 {
		p.NextRestart = max(p.NextRestart-t.now.Mono, 0)
	}
	d.Supervisor, d.SuperDetail, d.Process = s.Phase, s.Detail, &p
}

// burnShown tells how fast credits go and when they are gone.
func (t *Tracker) burnShown(r *record, d *Detail, now, interval time.Duration) {
	rate := float64(r.burn)
	if math.IsNaN(r.credits) || math.IsNaN(rate) {
		return
	}
	if stopped(rate, float64(r.spent), now-t.mono(r.creditAt), interval) {
		d.BurnPerMin, d.WasBurnPerMin = 0, rate
		return
	}
	d.BurnPerMin = rate
	if left := max(r.credits, 0) / rate; rate > 0 && left < 365*24*60 {
		d.CreditsLeft = time.Duration(left * float64(time.Minute))
	}
}
