package watchdog

import (
	"bytes"
	"math"
	"time"
)

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
		return t.placeFirstSight(r, sd, b)
	}
	if sd != nil && sd.terminal.ends() && !t.guarded(guardTombstone) {
		sd.terminal = TerminalSeen{}
	}
	switch t.executionOf(r, sd, b) {
	case placeNew:
		return placeNew
	case placeLate:
		if t.guarded(guardExecution) {
			return placeLate
		}
	case placeCurrent, placeRepeat, placeLeftover:
	}
	if ended(r, sd) && t.guarded(guardReopen) && !t.reopens(r, sd, b) {
		if b.Uptime < 0 && b.Generation == 0 {
			sd.maybeNew = true // nothing tells
		}
		return placeLate
	}
	if t.guarded(guardOrder) && (t.repeats(r, sd, b) && !t.steppedBack(r, b) || t.leftByStall(r, b)) {
		return placeRepeat
	}
	return placeCurrent
}

// placeFirstSight places a key whose age is not exact, for a session that is
// known by fresh beats already. Unless it is plainly of a newer execution it
// never outranks them: it is a copy of the head's, or a leftover.
//
// A copy that says itself that it is newer, and was written after the newest, is
// a beat: the store kept what the bus did not bring.
func (t *Tracker) placeFirstSight(r *record, sd *side, b *Beat) placement {
	own := placeRepeat
	if b.AgeKind == AgeEstimated && b.Received-b.Age > r.lastBeat && outruns(r, sd, b) {
		own = placeCurrent
	}
	if b.Generation != 0 && r.generation != 0 {
		switch {
		case b.Generation == r.generation:
			return own
		case b.Generation > r.generation:
			return placeNew
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
	if b.AgeKind == AgeEstimated && start > r.lastBeat+startTolerance {
		return placeNew // the key went, and came with a new execution
	}
	if d := start - t.mono(r.start); d < -startTolerance || d > startTolerance+slack {
		return placeLeftover
	}
	return own
}

// outruns reports whether a beat is newer than what we have of an execution that
// goes on.
func outruns(r *record, sd *side, b *Beat) bool {
	switch {
	case ended(r, sd):
		return false
	case b.Seq >= 0 && sd != nil && sd.seq >= 0 && sd.boot != "" && sd.boot == string(b.BootID):
		return b.Seq > sd.seq
	}
	return b.Uptime >= 0 && r.flags&flagUptime != 0 && uint64(b.Uptime) > uint64(r.uptime)
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
	if len(b.BootID) > 0 && r.generation != 0 && len(t.books.byID) > 0 {
		// The ledger knows boot ids that we may have taken for another's.
		if bk := t.books.of(b.ID); bk != nil {
			switch e := bk.head.byBoot(string(b.BootID)); {
			case e == nil:
			case e.Generation > r.generation:
				return placeNew
			case e.Generation < r.generation:
				return placeLate
			}
		}
	}
	otherBoot := false
	if len(b.BootID) > 0 && sd != nil && sd.boot != "" {
		if sd.boot == string(b.BootID) {
			return placeCurrent
		}
		for _, old := range sd.oldBoots {
			if old != "" && old == string(b.BootID) {
				return placeLate
			}
		}
		otherBoot = true
	}
	if b.Uptime < 0 || r.lastBeat == never {
		return placeCurrent
	}
	return t.executionByStart(r, sd, b, otherBoot)
}

// executionByStart tells the execution of a beat by the start estimate alone.
// otherBoot says that it names a boot id that is not the head's.
func (t *Tracker) executionByStart(r *record, sd *side, b *Beat, otherBoot bool) placement {
	if r.flags&(flagAgeEstimated|flagAgeUnknown) != 0 && b.AgeKind == AgeExact && r.flags&flagUptime != 0 &&
		b.Uptime < int64(r.uptime) {
		return placeNew // what we had was a key of unknown age, left by an older execution
	}
	start := b.started()
	if !ended(r, sd) || sd != nil && sd.terminal.involuntary() {
		start -= t.overslept(b) // who goes on is no new run because we read of it late
	}
	if b.AgeKind == AgeUnknown {
		start -= t.policy.RedisTTL // it may be that much older than it looks
	}
	if start >= t.lastOf(r, sd) { // it may start the moment that a beat of the one before comes in late
		if !otherBoot && t.ofHead(r, sd, b, start) {
			return placeCurrent
		}
		return placeNew
	}
	if r.flags&flagUptime == 0 {
		return placeCurrent
	}
	after := start - t.mono(r.start)
	switch {
	case after >= -startTolerance && start-t.latestStart(r) <= startTolerance:
		return placeCurrent
	case sd != nil && (sd.overtaken[0].sent(b, start, t.mono(r.start)) || sd.overtaken[1].sent(b, start, t.mono(r.start))):
		return placeLate
	case otherBoot && after < 0:
		return placeLate // a process that is older than the head's, and that we never saw
	case otherBoot:
		return placeNew // a younger process, started while the head's still beat
	}
	return placeCurrent
}

// lastOf is the moment that the start of a newer execution lies after: the last
// beat, or, if that was an end, when it was sent, for it may have come late.
func (t *Tracker) lastOf(r *record, sd *side) time.Duration {
	if !ended(r, sd) || r.flags&flagUptime == 0 {
		return r.lastBeat
	}
	return min(r.lastBeat, t.latestStart(r)+time.Duration(r.uptime)*time.Second+startTolerance)
}

// latestStart is the latest at which a record's execution, whose uptime is known,
// can have begun.
func (t *Tracker) latestStart(r *record) time.Duration {
	start := t.mono(r.start)
	if r.flags&flagStartGuessed != 0 {
		start = max(start, r.lastBeat-min(time.Duration(r.uptime)*time.Second, maxUptime))
	}
	return start
}

// surelyStarted is the moment after which the execution of a beat began, as far as
// its age can be known; ok says that it can.
func (t *Tracker) surelyStarted(b *Beat) (start time.Duration, ok bool) {
	switch {
	case b.Uptime < 0 || b.AgeKind == AgeUnknown:
		return 0, false
	case b.AgeKind == AgeEstimated:
		return b.started() - t.policy.RedisTTL, true // of a producer that asks for twice as much
	}
	return b.started(), true
}

// overslept is by how much a beat may be older than it looks because it waited for
// us: what came while we were stopped is read at once after that, as if it had been
// sent then.
func (t *Tracker) overslept(b *Beat) time.Duration {
	switch since := b.Received - t.ticked.Mono; {
	case b.AgeKind != AgeExact, b.Generation != 0, len(b.BootID) > 0:
		return 0
	case since > stopTick+tickLength:
		return since // read before the tick that will say so
	case b.Received < t.sleep.until:
		return max(b.Received-t.sleep.from, t.sleep.least)
	}
	return 0
}

// ofHead reports whether a beat whose start seems to lie after the last beat
// belongs to the head all the same: a copy that a poll found late, or one
// within the tolerance of the head's start. Once the head has ended, only what
// could be one of its own older beats is kept with it.
func (t *Tracker) ofHead(r *record, sd *side, b *Beat, start time.Duration) bool {
	if r.flags&flagUptime == 0 {
		return false
	}
	newest := time.Duration(r.uptime) * time.Second
	uptime := time.Duration(min(b.Uptime, math.MaxUint32)) * time.Second
	if b.Source == SourceRedis && uptime == newest && r.carried.Has(SourceNATS) && b.State == r.pub &&
		b.Received-r.lastBeat <= t.policy.RedisTTL && bytes.Equal(b.Task, t.store.text.get(r.task)) {
		return true
	}
	after := start - t.latestStart(r)
	switch {
	case after > startTolerance:
		return false
	case !ended(r, sd), uptime <= newest:
		return true
	}
	// Who was cut off goes on beating, and its start wanders by what is floored.
	return sd != nil && sd.terminal.involuntary() && after < startWanders
}

// startWanders is by less than which two estimates of one start differ: uptimes are
// whole seconds, and beats are some time on their way.
const startWanders = 2 * time.Second

// ended reports whether the head is over: by its own word, or by a terminal
// record. A foreign one is no end.
func ended(r *record, sd *side) bool {
	return r.flags&flagEndedByBeat != 0 || sd != nil && sd.terminal.ends()
}

// lateness is the longest delay with which a beat of an overtaken execution is
// still recognised by its start.
const lateness = 10 * time.Minute

// span is when an overtaken execution started, by estimate, and when it beat
// last. Zero: none is known.
type span struct {
	start, last time.Duration
}

// sent reports whether a beat is one that the overtaken execution sent before
// the head started. Its start estimate is the overtaken's, made later by the
// delay of the beat, and nearer to it than to the head's. An overtaken execution
// that beats on was not overtaken: a beat of its first seconds was delayed, and
// looked like a new one's.
func (s span) sent(b *Beat, start, head time.Duration) bool {
	return s != span{} && start >= s.start-startTolerance && start <= min(s.last, s.start+lateness) &&
		start-s.start < head-start && s.start+time.Duration(b.Uptime)*time.Second <= head+startTolerance
}

// reopens reports whether a beat of an ended execution still counts: another
// end beat does, and a contrary one takes the end back for a moment if it is
// newer. Nothing takes back a terminal record.
func (t *Tracker) reopens(r *record, sd *side, b *Beat) bool {
	switch {
	case sd == nil || sd.terminal.ends():
		return false
	case b.State == StateCompleted || b.State == StateError:
		return true
	case b.Received-sd.endedAt > max(minReopen, t.thresholdsOf(r, sd).Interval):
		return false
	case b.Seq >= 0 && sd.seq >= 0 && sd.boot != "" && sd.boot == string(b.BootID):
		return b.Seq > sd.seq
	case b.Uptime < 0 || r.flags&flagUptime == 0 || uint64(b.Uptime) <= uint64(r.uptime):
		return false
	}
	after := b.started() - t.mono(r.start)
	return after >= -startTolerance && after <= startTolerance
}

// repeats reports whether a beat is not newer than what we have of its
// execution: by (boot id, seq) if given, else by its uptime.
func (t *Tracker) repeats(r *record, sd *side, b *Beat) bool {
	if b.Seq >= 0 && sd != nil && sd.seq >= 0 && sd.boot != "" && sd.boot == string(b.BootID) {
		return b.Seq <= sd.seq
	}
	return b.Uptime >= 0 && r.flags&flagUptime != 0 && uint64(b.Uptime) < uint64(r.uptime)
}

// leftByStall reports whether a beat is the copy that Redis keeps from the same
// second in which the publisher said by NATS that it stalled: it does not
// refresh its key then.
func (t *Tracker) leftByStall(r *record, b *Beat) bool {
	return b.Source == SourceRedis && r.pub == StateStalled && b.State == StateRunning && b.Seq < 0 &&
		b.Uptime >= 0 && r.flags&flagUptime != 0 && uint64(b.Uptime) == uint64(r.uptime) &&
		t.mono(r.lastBy[SourceNATS]) >= r.lastBeat && b.Received-r.lastBeat < SightWindow
}

// behind is a run of beats whose uptimes lie below the newest, but go on in
// pace with our clock.
type behind struct {
	source Source
	n      int
	since  time.Duration // Mono of the first
	at     time.Duration // Mono of the last
	uptime int64         // of the last
}

// What it takes to believe that an uptime stepped back, and how far the pace
// may be off.
const (
	steppedBeats = 3
	steppedFor   = 45 * time.Second
	steppedSlack = 2 * time.Second
)

// steppedBack reports whether beats with lower uptimes are the publisher's own
// after its clock was set back, or after those of a forgotten twin had been
// taken for its own: they keep coming, in pace with our clock, and none comes
// that is newer. A beat that was delayed comes among newer ones; a queue that
// is flushed comes at once.
func (t *Tracker) steppedBack(r *record, b *Beat) bool {
	if b.AgeKind != AgeExact || b.Uptime < 0 || b.Seq >= 0 {
		return false
	}
	k := &t.store.needSide(r).behind
	fresh := k.n > 0 && k.at > r.lastBeat
	if fresh && (b.Source != k.source || b.Uptime == k.uptime) {
		return false // another copy
	}
	gap := b.Received - k.at
	off := time.Duration(b.Uptime-k.uptime)*time.Second - gap
	if !fresh || gap < time.Second || off < -steppedSlack || off > steppedSlack {
		*k = behind{b.Source, 1, b.Received, b.Received, b.Uptime}
		return false
	}
	k.n, k.at, k.uptime = k.n+1, b.Received, b.Uptime
	if k.n < steppedBeats || b.Received-k.since < steppedFor {
		return false
	}
	r.start = t.moment(b.started())
	return true
}
