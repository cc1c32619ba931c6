package watchdog

import "time"

// placement says to which execution of its session a beat belongs.
type placement uint8

const (
	placeCurrent  placement = iota // the head's own, and newer than what we have
	placeRepeat                    // the head's own, but not newer: proves its source alone
	placeNew                       // a new execution
	placeLate                      // of an execution that ended or was overtaken
	placeLeftover                  // a key at first sight that is not of the head
)

// startTolerance is how far two estimates of one start may lie apart.
const startTolerance = 5 * time.Second

// minReopen is the least time within which a contrary beat of the same
// execution takes an end beat back.
const minReopen = 5 * time.Second

// place decides the execution of a beat, by the rules "Which generation" and
// "Order across sources" of the wire format.
func (t *Tracker) place(r *record, sd *side, b *Beat) placement {
	if b.AgeKind != AgeExact && r.lastBeat != never && r.flags&(flagAgeEstimated|flagAgeUnknown) == 0 {
		return t.placeFirstSight(r, b)
	}
	ended := r.flags&flagEndedByBeat != 0 || sd != nil && sd.terminal.Outcome != OutcomeNone
	switch t.executionOf(r, sd, b) {
	case placeNew:
		return placeNew
	case placeLate:
		if t.guarded(guardExecution) {
			return placeLate
		}
	case placeCurrent, placeRepeat, placeLeftover:
	}
	if ended && t.guarded(guardReopen) && !t.reopens(r, sd, b) {
		return placeLate
	}
	if t.guarded(guardOrder) && repeats(r, sd, b) {
		return placeRepeat
	}
	return placeCurrent
}

// placeFirstSight places a key that was there before we looked, for a session
// that is known by fresh beats already. It never outranks them: it is a copy of
// the head's, or a leftover.
func (t *Tracker) placeFirstSight(r *record, b *Beat) placement {
	if b.Generation != 0 && r.generation != 0 {
		if b.Generation == r.generation {
			return placeRepeat
		}
		return placeLeftover
	}
	if b.Uptime < 0 || r.flags&flagUptime == 0 {
		return placeRepeat
	}
	slack := time.Duration(0)
	if b.AgeKind == AgeUnknown {
		slack = t.policy.RedisTTL // it may be that much older than it looks
	}
	start := b.started()
	if d := start - t.mono(r.start); d < -startTolerance || d > startTolerance+slack {
		return placeLeftover
	}
	return placeRepeat
}

// executionOf answers new, late or current by generation, else boot id, else
// start estimate.
func (t *Tracker) executionOf(r *record, sd *side, b *Beat) placement {
	if b.Generation != 0 && r.generation != 0 {
		switch {
		case b.Generation > r.generation:
			return placeNew
		case b.Generation < r.generation:
			return placeLate
		}
		return placeCurrent
	}
	if len(b.BootID) > 0 && sd != nil && sd.boot != "" {
		if sd.boot == string(b.BootID) {
			return placeCurrent
		}
		for _, old := range sd.oldBoots {
			if old != "" && old == string(b.BootID) {
				return placeLate
			}
		}
	}
	if b.Uptime < 0 || r.lastBeat == never {
		return placeCurrent
	}
	if r.flags&(flagAgeEstimated|flagAgeUnknown) != 0 && b.AgeKind == AgeExact && r.flags&flagUptime != 0 &&
		b.Uptime < int64(r.uptime) {
		return placeNew // what we had was a key of unknown age, left by an older execution
	}
	start := b.started()
	if start > r.lastBeat {
		return placeNew
	}
	return placeCurrent
}

// reopens reports whether a beat of an ended execution still counts: another
// end beat does, and a contrary one takes the end back for a moment if it is
// newer. Nothing takes back a terminal record.
func (t *Tracker) reopens(r *record, sd *side, b *Beat) bool {
	switch {
	case sd == nil || sd.terminal.Outcome != OutcomeNone:
		return false
	case b.State == StateCompleted || b.State == StateError:
		return true
	case b.Received-sd.endedAt > max(minReopen, t.thresholdsOf(r, sd).Interval):
		return false
	case b.Seq >= 0 && sd.seq >= 0 && sd.boot != "" && sd.boot == string(b.BootID):
		return b.Seq > sd.seq
	}
	return b.Uptime >= 0 && r.flags&flagUptime != 0 && uint64(b.Uptime) > uint64(r.uptime)
}

// repeats reports whether a beat is not newer than what we have of its
// execution: by (boot id, seq) if given, else by its uptime.
func repeats(r *record, sd *side, b *Beat) bool {
	if b.Seq >= 0 && sd != nil && sd.seq >= 0 && sd.boot != "" && sd.boot == string(b.BootID) {
		return b.Seq <= sd.seq
	}
	return b.Uptime >= 0 && r.flags&flagUptime != 0 && uint64(b.Uptime) < uint64(r.uptime)
}
