package watchdog

import (
	"cmp"
	"slices"
)

// maxRaises is how many raises of one side are kept; the rest is counted.
const maxRaises = 50_000

// trialWriter names the sweeper of a trial. Its records never leave it.
const trialWriter = "trial"

// trialSide is one policy of a trial: a tracker that sweeps, and what it raised.
type trialSide struct {
	policy  Policy
	tracker *Tracker
	heads   map[ID]Head // its ledger

	raises   []sideRaise
	open     map[ID]int // of raises: the present one of a session
	counts   [VerdictCount]TrialCount
	groups   int
	unlisted int
}

// sideRaise is a TrialRaise and of what execution it is.
type sideRaise struct {
	TrialRaise
	id         ID
	generation Generation
	began      moment // first sight of the execution: the same on both sides
	verdict    Verdict
}

func newTrialSide(p Policy, start Instant) *trialSide {
	p = p.WithDefaults()
	kept := p
	kept.RejectLate = false // what beats after it was lost is what a trial wants to know
	s := &trialSide{policy: p, tracker: NewTracker(kept, start), heads: map[ID]Head{}, open: map[ID]int{}}
	s.tracker.SetSweeper(trialWriter)
	s.apply(LedgerChanged{Authority: Authority{Name: AuthorityMemory, Identity: trialWriter}, Ready: true, At: start.Mono})
	return s
}

// apply tells the tracker, and carries out at once what it wants done.
func (s *trialSide) apply(ev Event) { s.carryOut(s.tracker.Apply(ev)) }

// drain takes what beats led to since the last event.
func (s *trialSide) drain() {
	s.tracker.mu.Lock()
	effects := s.tracker.takeEffects()
	s.tracker.mu.Unlock()
	s.carryOut(effects)
}

func (s *trialSide) carryOut(effects []Effect) {
	for len(effects) > 0 {
		var more []Effect
		for _, e := range effects {
			for _, answer := range s.answer(e) {
				more = append(more, s.tracker.Apply(answer)...)
			}
		}
		effects = more
	}
}

// answer notes one effect and gives what came of it.
func (s *trialSide) answer(e Effect) []Event {
	at := s.tracker.now.Mono
	switch e := e.(type) {
	case Changed:
		s.changed(&e.Transition)
	case Grouped:
		s.groups++
	case QuarantineLate:
		s.beatAgain(&e.Late)
	case Sweep:
		return []Event{Swept{At: at}}
	case Number:
		next, g, _ := s.heads[e.ID].Claim(e.Claim)
		if g != 0 {
			s.heads[e.ID] = next
			return []Event{HeadSeen{Head: next.clone(), At: at}, Claimed{Claim: e.Claim, Generation: g, At: at}}
		}
		return []Event{Claimed{Claim: e.Claim, At: at}}
	case Settle:
		if !s.tracker.StillDue(e) {
			return []Event{SettleFailed{ID: e.ID, Generation: e.Generation, Reason: errNotDue.Error(), At: at}}
		}
		r := Record{ID: e.ID, Generation: e.Generation, Outcome: e.Outcome, SettledBy: e.By, Writer: trialWriter, Reason: e.Reason}
		out := []Event{r.Seen(at)}
		if next, changed := s.heads[e.ID].End(r); changed {
			s.heads[e.ID] = next
			out = append(out, HeadSeen{Head: next.clone(), At: at})
		}
		return out
	}
	return nil
}

// knowHead takes over what the real ledger gave out as numbers, but not an end
// that the policy in force led to.
func (s *trialSide) knowHead(h Head, ended bool) {
	have := s.heads[h.ID]
	if h.Generation < have.Generation {
		return
	}
	next := h.clone()
	next.Ended = ended || h.Generation == have.Generation && have.Ended
	s.heads[h.ID] = next
}

func (s *trialSide) knowClaim(e Claimed) {
	if e.Generation == 0 {
		return
	}
	c := e.Claim
	c.Generation, c.New = e.Generation, false
	next, _, _ := s.heads[c.ID].Claim(c)
	s.heads[c.ID] = next
}

// raised reports whether a verdict is one that a person is told of. A wait is
// told by its length, which is no change of the verdict.
func raised(v Verdict) bool {
	return v != Waiting && verdicts[v].attention < AttentionUnknown
}

// changed follows a session from verdict to verdict.
func (s *trialSide) changed(tr *Transition) {
	began := noMoment
	if n, known := s.tracker.store.find([]byte(tr.ID)); known {
		began = s.tracker.store.at(n).firstSeen
	}
	if i, ok := s.open[tr.ID]; ok {
		delete(s.open, tr.ID)
		s.close(&s.raises[i], tr, began)
	}
	if !raised(tr.To) {
		return
	}
	s.counts[tr.To].Raised++
	if len(s.raises) >= maxRaises {
		s.unlisted++
		return
	}
	s.open[tr.ID] = len(s.raises)
	s.raises = append(s.raises, sideRaise{TrialRaise: TrialRaise{At: tr.At, Text: tr.Text}, id: tr.ID, generation: tr.Generation, began: began, verdict: tr.To})
}

// close says what became of a raise whose session changes now.
func (s *trialSide) close(r *sideRaise, tr *Transition, began moment) {
	if r.End == TrialRecovered {
		return // lost, and beat again
	}
	r.Until, r.Next = tr.At, tr.To
	if r.Until.Mono < r.At.Mono { // what it is now began before: it only shows again
		r.Until = s.tracker.now
	}
	if r.generation == 0 && r.began == began {
		r.generation = tr.Generation
	}
	switch {
	case r.began != began:
		r.End = TrialActed
	case r.verdict == Quiet && raised(tr.To):
		r.End = TrialWorse
	case tr.To == Running || tr.To == Waiting || tr.To == Quiet || tr.To == Completed:
		r.End = TrialRecovered
		s.counts[r.verdict].Recovered++
	case raised(tr.To):
		r.End = TrialWorse
	default:
		r.End = TrialActed
	}
}

// beatAgain notes that an execution beats after it was called lost: that was
// wrong.
func (s *trialSide) beatAgain(l *Late) {
	i, ok := s.open[l.ID]
	if !ok {
		return
	}
	r := &s.raises[i]
	if r.verdict != Lost || r.End != TrialOpen || r.generation != 0 && r.generation != l.Generation {
		return
	}
	r.End, r.Next, r.Until = TrialRecovered, Lost, s.tracker.now
	s.counts[Lost].Recovered++
}

// finished gives all raises; those that stand end with what was seen.
func (s *trialSide) finished(last Instant) []sideRaise {
	out := slices.Clone(s.raises)
	for i := range out {
		r := &out[i]
		if n, known := s.tracker.store.find([]byte(r.id)); known && r.generation == 0 {
			if rec := s.tracker.store.at(n); rec.firstSeen == r.began {
				r.generation = rec.generation
			}
		}
		if r.End == TrialOpen {
			r.Until, r.Next = last, r.verdict
			r.Until.Mono = max(last.Mono, r.At.Mono)
		}
	}
	return out
}

// own counts the sessions that do not go by the thresholds of the policy that
// are tried.
func (s *trialSide) own(now, would *Policy) []TrialOwn {
	counts := map[[2]string]int{}
	t := s.tracker
	for n := range uint32(t.store.used) {
		r := t.store.at(n)
		if r.birth == 0 {
			continue
		}
		th := t.thresholdsOf(r, t.store.sideOf(r))
		if now.StallTimeout != would.StallTimeout && th.StallFrom != fromPolicy {
			counts[[2]string{"stall_timeout", th.StallFrom}]++
		}
		if now.HeartbeatInterval != would.HeartbeatInterval && th.IntervalFrom != fromPolicy {
			counts[[2]string{"heartbeat_interval", th.IntervalFrom}]++
		}
	}
	var out []TrialOwn
	for k, n := range counts {
		out = append(out, TrialOwn{Name: k[0], From: k[1], Sessions: n})
	}
	slices.SortFunc(out, func(a, b TrialOwn) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.From, b.From)) })
	return out
}
