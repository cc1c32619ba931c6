package watchdog

import "time"

// Confirm asks to write the end of an execution that was stopped, as its receiver
// says and we saw, and to tell the result.
type Confirm struct {
	Command Command
	Answer  Answer // what its receiver says
	Way     string // by which it said so
}

func (Confirm) effect() {}

// How the word of a receiver that an execution has ended is verified: a beat that
// was on its way counts for nothing, and who beats seldom is waited for no longer
// than endedMost. Clocks are ours, monotonic.
const (
	endedGrace = time.Second
	endedLeast = 3 * time.Second
	endedMost  = 90 * time.Second
)

// toldEnd is what a receiver says of an end, until it is verified and written.
type toldEnd struct {
	answer      Answer
	at          time.Duration // Mono; when it came
	quietFrom   time.Duration // Mono; since when a beat would have been heard
	proven      time.Duration // Mono; up to when
	confirmedAt time.Duration // Mono; never: the end was not seen yet
}

// believe takes in that a receiver says that it has ended an execution.
func (t *Tracker) believe(a *action, said Answer, now time.Duration) {
	if a.told != nil {
		return
	}
	a.told = &toldEnd{answer: said, at: now, quietFrom: now, proven: now, confirmedAt: never}
	t.fate(a, FateAcknowledged, "its receiver says that it ended, which is being verified", said.By, now)
}

// verify compares what a receiver says of an end with what we see.
func (t *Tracker) verify(a *action, now time.Duration) {
	e := a.told
	if e.confirmedAt != never {
		if now-e.confirmedAt > effectWithin {
			t.fate(a, FateEffective, e.answer.Detail+"; whether its end is written is not known", e.answer.By, now)
		}
		return
	}
	switch t.seenOfEnd(a, now) {
	case FateEffective:
		e.confirmedAt = now
		t.effects = append(t.effects, Confirm{Command: a.Command, Answer: e.answer, Way: a.Way})
	case FateIneffective:
		t.fate(a, FateIneffective, "its receiver says that it ended ("+e.answer.Detail+"), and it still beats", e.answer.By, now)
	case FateTimedOut:
		t.fate(a, FateTimedOut, "its receiver says that it ended ("+e.answer.Detail+"), and nothing that would show it is seen", e.answer.By, now)
	}
}

// seenOfEnd tells whether an execution of which its receiver says so has ended:
// its record stands, its last beat said so, another one is current, or it beats no
// more. FateNone: that cannot be told yet.
func (t *Tracker) seenOfEnd(a *action, now time.Duration) Fate {
	n, known := t.store.find([]byte(a.Session))
	if !known {
		return FateEffective // all is forgotten of it
	}
	r, e := t.store.at(n), a.told
	bk := t.books.of([]byte(a.Session))
	_, moved := t.movedOn(&a.Command, r, bk)
	overtaken := a.seen != noMoment && r.firstSeen != a.seen
	switch {
	case moved, overtaken, t.endOf(&a.Command, r, bk) != nil, r.verdict.Ended(), r.flags&flagEndedByBeat != 0, t.saysStopped(r):
		return FateEffective
	case r.lastBeat > e.at+endedGrace:
		return FateIneffective
	case now-e.at > CommandTTL:
		return FateTimedOut
	}
	// Silence counts as far as it is proven that a beat would have been heard.
	proven := t.provenUntil(r.carried)
	if proven-e.proven > SightWindow/2 || r.verdict == Unknown {
		e.quietFrom = max(e.quietFrom, proven)
	}
	e.proven = max(e.proven, proven)
	wait := endedLeast
	if th := t.thresholdsOf(r, t.store.sideOf(r)); th.CadenceKnown() {
		wait = max(wait, 2*th.Interval+endedGrace)
	}
	if e.proven-e.quietFrom > min(wait, endedMost) {
		return FateEffective
	}
	return FateNone
}

// saysStopped reports whether the newest beat has the word of supervisors for a run
// that was stopped. To who has only that word it is a state like another; where a
// receiver says the same, it is the last beat and no sign of life, however late it
// is read.
func (t *Tracker) saysStopped(r *record) bool {
	return r.pub == StateOther && string(t.store.text.get(r.state)) == OutcomeStopped.String()
}

// provenUntil is up to when it is proven that one of some sources told us all.
func (t *Tracker) provenUntil(carried SourceSet) time.Duration {
	if carried == 0 { // it was never heard
		return t.now.Mono
	}
	until := never
	for _, src := range carried.Sources() {
		until = max(until, t.sights[src].heard)
	}
	return until
}
