package watchdog

import (
	"bytes"
	"math"
	"time"
)

// applyBeat takes in one beat.
func (t *Tracker) applyBeat(b *Beat) {
	t.now.Mono = max(t.now.Mono, b.Received)
	s := t.configure(b.Source)
	if b.AgeKind == AgeExact && b.Received > s.heard {
		s.heard, t.proofs = b.Received, true
	}
	n, known, ok := t.recordOf(b)
	if !ok {
		return
	}
	t.beats++
	s.link.Beats++
	r := t.store.at(n)
	recheck, told := !known, !known
	if known {
		switch t.take(n, r, b) {
		case placeLate:
			t.changes++
			return
		case placeLeftover:
			return
		case placeRepeat:
			if t.carry(r, b) || r.verdict != Running || r.flags&flagExtended != 0 {
				t.look(n, r, b.Received, false)
			}
			return
		case placeNew:
			recheck, told = true, true
		case placeCurrent:
			t.fresh = t.fresh || b.Received-r.lastBeat >= freshGrain
		}
	}
	start, boot := r.start, t.bootOf(r)
	recheck = t.learn(r, b) || recheck
	told = t.published(r, b) || told
	told = t.optional(r, b) || told
	recheck = recheck || told
	if t.visible(r, b, known) || told {
		t.changes++
		t.watchCredits(n, r)
	}
	recheck = t.beatAt(r, b) || recheck
	if boot != "" && len(b.BootID) > 0 && boot != string(b.BootID) {
		t.anotherBoot(n, r, b)
	}
	if recheck || (t.mono(start)-t.mono(r.start)).Abs() > startMoved {
		t.wantNumber(n)
	}
	if recheck || r.verdict != Running || r.parked != 0 || r.flags&flagExtended != 0 {
		t.look(n, r, b.Received, !known)
	}
}

// anotherBoot: a second boot id for what starts alike may be the child's beside
// its supervisor's, or another process. The ledger tells.
func (t *Tracker) anotherBoot(n uint32, r *record, b *Beat) {
	if !t.sweeping() || b.Generation != 0 {
		return
	}
	bk := t.needBook(ID(b.ID))
	r.generation = bk.head.number(string(b.BootID), time.Time{}, 0)
	bk.claimed, bk.claim = 0, Claim{}
	t.wantNumber(n)
}

// recordOf finds the record of a beat, or makes one. What the ledger told of a
// session that is not shown, its tombstones above all, is there first.
func (t *Tracker) recordOf(b *Beat) (n uint32, known, ok bool) {
	if n, known = t.store.find(b.ID); known {
		return n, true, true
	}
	if bk := t.books.of(b.ID); bk != nil && bk.newest() != 0 {
		n, ok = t.admitKnown(ID(b.ID), bk.newest(), &bk.head, b.Received)
		return n, true, ok
	}
	n, ok = t.admit(b)
	return n, false, ok
}

// take places a beat of a session that is known, and begins a new execution if it
// is of one.
func (t *Tracker) take(n uint32, r *record, b *Beat) placement {
	if r.flags&flagUnheard != 0 {
		where, g := t.placeUnheard(r, b)
		if where == placeLate {
			t.tooLate(r, b, g)
			return placeLate
		}
		t.hear(n, r, b, g)
		return placeNew
	}
	where := t.place(r, t.store.sideOf(r), b)
	switch where {
	case placeLate:
		t.tooLate(r, b, 0)
	case placeNew:
		t.overtake(r, b.Received, b.Generation != 0 || len(b.BootID) > 0)
		t.store.needSide(r) // remembers the execution that was overtaken
		t.begin(r, b)
		if bk := t.books.of(t.store.idOf(r)); bk != nil && r.generation != 0 {
			t.knownEnd(n, r, bk)
		}
	case placeCurrent, placeRepeat, placeLeftover:
	}
	return where
}

// tooLate takes in one beat of an execution that ended or was overtaken; g is its
// number, if that was found already. After an involuntary end it goes into
// quarantine.
func (t *Tracker) tooLate(r *record, b *Beat, g Generation) {
	t.late++
	sd := t.store.needSide(r)
	sd.lateBeats++
	if !t.sweeping() || t.policy.RejectLate {
		return
	}
	bk := t.books.of(t.store.idOf(r))
	if g == 0 {
		g = t.lateNumber(r, b, bk)
	}
	end := bk.end(g)
	if end == nil && g == r.generation {
		end = &sd.terminal
	}
	if end == nil || !end.involuntary() {
		return // trailing output after an honest end is ordinary
	}
	t.settles.kept++
	t.effects = append(t.effects, QuarantineLate{Late{ID: ID(t.store.idOf(r)), Generation: g, Raw: bytes.Clone(b.Raw), Source: b.Source,
		At: time.Unix(0, t.instantAt(b.Received).Wall).UTC(), LateBy: max(b.Received-end.At, 0), MaybeNew: sd.maybeNew}})
}

// lateNumber finds the generation of a late beat; 0 unknown.
func (t *Tracker) lateNumber(r *record, b *Beat, bk *book) Generation {
	sd := t.store.sideOf(r)
	switch {
	case b.Generation != 0:
		return b.Generation
	case len(b.BootID) > 0 && sd.boot == string(b.BootID):
		return r.generation
	}
	if bk != nil {
		start := time.Time{}
		if b.Uptime >= 0 {
			start = t.wallAt(b.started())
		}
		if g := bk.head.number(string(b.BootID), start, 0); g != 0 {
			return g
		}
	}
	if sd.terminal.ends() && (len(b.BootID) == 0 || sd.boot == "") {
		return r.generation
	}
	return 0
}

// carry notes that a source carries the session, now. One more source is one
// more reason not to be blind, so deadlines may come earlier by it.
func (t *Tracker) carry(r *record, b *Beat) (more bool) {
	more = !r.carried.Has(b.Source)
	r.carried |= b.Source.Set()
	if b.Source <= SourceRedis {
		r.lastBy[b.Source] = max(r.lastBy[b.Source], t.moment(b.Received))
	}
	if b.Source == SourceHTTP {
		if sd := t.store.sideOf(r); sd != nil && sd.httpSilent != 0 {
			sd.httpSilent, more = 0, true
		}
	}
	if b.Source != SourceRedis {
		return more
	}
	r.keyPolls, r.natsRunning = 0, 0
	r.flags |= flagKeyHeld
	if len(b.BootID) > 0 {
		t.store.needSide(r)
	}
	if sd := t.store.sideOf(r); sd != nil {
		sd.keySeen, sd.keyGoneAt = b.Received, never
		if sd.keyBoot != string(b.BootID) {
			sd.keyBoot = string(b.BootID)
		}
	}
	return more
}

// beatAt moves the BEAT clock.
func (t *Tracker) beatAt(r *record, b *Beat) (recheck bool) {
	recheck = t.carry(r, b)
	switch polled := t.sights[SourceRedis].lastTrip; {
	case b.Source == SourceNATS:
		r.flags &^= flagRedisAhead
	case b.Source == SourceRedis && polled > t.mono(r.lastBy[SourceNATS]) && r.flags&flagRedisAhead == 0:
		r.flags |= flagRedisAhead
		recheck = true
	}
	r.lastBeat = max(r.lastBeat, b.Received)
	step := stepOf(b.Received - t.epoch.Mono)
	r.ring.roll(step)
	bump(&r.ring.beats, step)
	r.flags &^= flagAgeEstimated | flagAgeUnknown
	switch b.AgeKind {
	case AgeEstimated:
		r.flags |= flagAgeEstimated
		t.store.needSide(r).estimatedAge = b.Age
	case AgeUnknown:
		r.flags |= flagAgeUnknown
	case AgeExact:
	}
	return recheck
}

// learn takes the gap to the beat before, of the first source that carries the
// session, so that two copies of one beat are not taken for two beats.
func (t *Tracker) learn(r *record, b *Beat) (changed bool) {
	first := b.Source
	for _, src := range AllSources() {
		if r.carried.Has(src) {
			first = min(first, src)
			break
		}
	}
	if b.Source != first || b.AgeKind != AgeExact || r.lastBeat == never {
		return false
	}
	last := r.lastBeat
	if b.Source <= SourceRedis {
		by := t.mono(r.lastBy[b.Source])
		if by == never {
			return false
		}
		if by < last || by-last >= tickLength {
			last = by // the last beat came by another source
		}
	}
	if r.flags&(flagAgeEstimated|flagAgeUnknown) != 0 || b.Received <= last {
		return false
	}
	if t.blind[b.Source.Set()].Touches(last) {
		return false // what we could not see teaches nothing of the publisher
	}
	if by := b.Uptime - int64(r.uptime); b.Uptime >= 0 && r.flags&flagUptime != 0 &&
		min(time.Duration(by), maxUptime/time.Second)*time.Second > b.Received-last+startTolerance {
		return false // it came late, with others at once
	}
	before := learnedCadence(&r.gaps, r.gapN)
	copy(r.gaps[1:], r.gaps[:gapCount-1])
	r.gaps[0] = packGap(b.Received - last)
	r.gapN = min(r.gapN+1, gapCount)
	return learnedCadence(&r.gaps, r.gapN) != before
}

// published takes what every producer sends, except what can be seen to change.
func (t *Tracker) published(r *record, b *Beat) (recheck bool) {
	if b.Uptime >= 0 {
		start, firm := t.moment(b.started()), b.AgeKind == AgeExact
		first, guessed := r.flags&flagUptime == 0, r.flags&flagStartGuessed != 0
		switch {
		case first || guessed && firm:
			r.start = start
			if r.flags |= flagStartGuessed; firm {
				r.flags &^= flagStartGuessed
			}
		case r.start > start && (firm || guessed):
			r.start = start // the earliest estimate is the nearest: uptime is floored
		}
		r.uptime = uint32(min(b.Uptime, math.MaxUint32))
		r.flags |= flagUptime
	}
	if b.Generation != 0 && r.generation == 0 {
		r.generation = b.Generation
	}
	if b.State != r.pub || r.lastBeat == never {
		r.pub = b.State
		r.stateAt = t.moment(b.Received)
		recheck = true
	}
	if b.State == StateOther {
		if !bytes.Equal(t.store.text.get(r.state), b.StateText) {
			r.stateAt = t.moment(b.Received)
		}
		r.state = t.store.text.put(r.state, b.StateText)
	} else if r.state != 0 {
		r.state = t.store.text.put(r.state, nil)
	}
	ended := b.State == StateCompleted || b.State == StateError
	if was := r.flags&flagEndedByBeat != 0; ended != was {
		recheck = true
		r.flags ^= flagEndedByBeat
		if ended {
			t.store.needSide(r).endedAt = b.Received - b.Age
		}
	}
	if b.Source == SourceNATS && b.State == StateRunning && r.keyPolls > 0 {
		r.natsRunning = min(r.natsRunning+1, 2)
		recheck = true
	}
	return recheck
}

// optional takes the fields that a guard adds.
func (t *Tracker) optional(r *record, b *Beat) (recheck bool) {
	if b.Idle >= 0 {
		recheck = t.work(r, b)
	}
	if r.side == 0 && !b.hasOptional() {
		return recheck
	}
	sd := t.store.needSide(r)
	set := func(have *string, now []byte) {
		if len(now) > 0 && *have != string(now) {
			*have = string(now)
		}
	}
	if len(b.BootID) > 0 && sd.boot != string(b.BootID) {
		sd.boot, sd.seq = string(b.BootID), -1
	}
	recheck = t.takenOver(r, sd, b) || recheck
	if b.Idle < 0 && r.flags&flagWorkKnown != 0 && len(b.BootID) > 0 {
		r.flags, recheck = r.flags&^flagWorkKnown, true // who told the age of its work does not know it any more
	}
	set(&sd.host, b.Host)
	set(&sd.agent, b.Agent)
	if sd.message != string(b.Message) {
		sd.message = string(b.Message)
	}
	if b.Seq >= 0 {
		sd.seq = b.Seq
	}
	if b.PID > 0 {
		sd.pid = b.PID
	}
	if b.Interval > 0 && b.Interval != sd.interval {
		sd.interval, recheck = b.Interval, true
	}
	if b.StallTimeout > 0 && b.StallTimeout != sd.stallTimeout {
		sd.stallTimeout, recheck = b.StallTimeout, true
	}
	if b.TakesSaid && (!sd.takesSaid || sd.takes != b.Takes) {
		sd.takes, sd.takesSaid = b.Takes, true
		t.changes++
	}
	if b.LoopLag != sd.loopLag {
		recheck = recheck || max(b.LoopLag, sd.loopLag) > t.policy.LoopLagLimit
		sd.loopLag = b.LoopLag
	}
	return t.waits(r, sd, b) || recheck
}

// takenOver notices that another publisher speaks on one bus than did on the
// other, such as a child that beats for itself after its supervisor did. That the
// one before is silent there, or that its key goes, says nothing about it.
func (t *Tracker) takenOver(r *record, sd *side, b *Beat) (recheck bool) {
	switch {
	case b.Source == SourceNATS:
		if sd.natsBoot != string(b.BootID) {
			sd.natsBoot = string(b.BootID)
		}
		if r.flags&flagKeyHeld == 0 || sd.keyBoot == string(b.BootID) {
			return false
		}
		r.flags &^= flagKeyHeld
		r.carried &^= SourceRedis.Set()
		r.lastBy[SourceRedis] = noMoment
		r.keyPolls, r.natsRunning = 0, 0
		sd.keyGoneAt = never
		return true
	case b.Source == SourceRedis && b.AgeKind == AgeExact && r.carried&SourceNATS.Set() != 0 && sd.natsBoot != string(b.BootID):
		r.carried &^= SourceNATS.Set()
		r.lastBy[SourceNATS] = noMoment
		r.natsRunning = 0
		return true
	}
	return false
}

func (b *Beat) hasOptional() bool {
	return len(b.BootID) > 0 || len(b.Host) > 0 || len(b.Agent) > 0 || len(b.Message) > 0 || b.Seq >= 0 || b.PID > 0 ||
		b.Interval > 0 || b.StallTimeout > 0 || b.LoopLag >= 0 || b.WaitingFor != WaitNone || b.TakesSaid
}

// waits follows a declared wait. Its end counts as activity: nobody works
// while waiting.
func (t *Tracker) waits(r *record, sd *side, b *Beat) (recheck bool) {
	if b.WaitingFor == WaitNone {
		if r.wait != WaitNone {
			r.wait, recheck = WaitNone, true
			r.lastWork = max(r.lastWork, b.Received)
			r.lastChange = t.moment(b.Received)
		}
		return recheck
	}
	if r.wait != b.WaitingFor {
		sd.waitSince, recheck = b.Received, true
	}
	if sd.waitMax != b.WaitingMax {
		sd.waitMax, recheck = b.WaitingMax, true
	}
	r.wait = b.WaitingFor
	return recheck
}

// activityGrain is how much newer an activity must be to count as another:
// less is the jitter of one that was reported twice.
const activityGrain = 250 * time.Millisecond

// work moves the WORK clock: the publisher told the age of its last activity. The
// age of a key is a guess from its time to live, and a guess accuses nobody.
func (t *Tracker) work(r *record, b *Beat) (recheck bool) {
	at := b.Received - b.Idle
	if r.flags&flagWorkKnown == 0 {
		r.flags |= flagWorkKnown
		r.lastWork = max(r.lastWork, at)
		return true
	}
	if at <= r.lastWork {
		return false
	}
	if at-r.lastWork > activityGrain {
		step := stepOf(at - t.epoch.Mono)
		now := stepOf(b.Received - t.epoch.Mono)
		r.ring.roll(now)
		if now-step < HistoryPoints {
			bump(&r.ring.work, step)
		}
	}
	r.lastWork = at
	return false
}

// visible notes what anybody can see change: task, credits and state, and
// reports whether something did. For a five-field producer it is all that tells
// of work.
func (t *Tracker) visible(r *record, b *Beat, known bool) (changed bool) {
	first := r.lastBeat == never
	changed = !first && r.stateAt == t.moment(b.Received)
	if old := t.store.text.get(r.task); !bytes.Equal(old, b.Task) {
		changed = true
		t.progress(r, b)
		r.task = t.store.text.put(r.task, b.Task)
		if !first {
			r.taskAt = t.moment(b.Received)
		}
	}
	if b.HasCredits() && b.Credits != r.credits {
		changed = true
		t.spend(r, b)
	} else if !b.HasCredits() && !math.IsNaN(r.credits) {
		changed = true
		r.credits, r.creditAt, r.burn = math.NaN(), noMoment, float32(math.NaN())
	}
	if len(b.Task) > 0 || b.HasCredits() {
		r.flags |= flagShown
	}
	if first || !changed || !known {
		return changed
	}
	r.flags |= flagChanged
	r.lastChange = t.moment(b.Received)
	if r.flags&flagWorkKnown == 0 {
		step := stepOf(b.Received - t.epoch.Mono)
		r.ring.roll(step)
		bump(&r.ring.work, step)
	}
	return true
}

// progress follows tasks like "chunk 47/200".
func (t *Tracker) progress(r *record, b *Beat) {
	done, of, ok := progressOf(b.Task)
	at := t.moment(b.Received - b.Age)
	switch {
	case !ok:
		return // keeps the rate for the next counted task
	case of != r.of || done < r.done:
		r.rate, r.doneAt = float32(math.NaN()), at
		if r.lastBeat == never {
			r.doneAt = noMoment // it came so far before we looked
		}
	case done == r.done:
		return
	case r.doneAt == noMoment:
		r.doneAt = at
	default:
		r.rate = blend(r.rate, float64(done-r.done), t.mono(at)-t.mono(r.doneAt))
		r.doneAt = at
	}
	r.done, r.of = done, of
}

// spend follows the credits: a smaller balance is burn, a larger a top-up.
func (t *Tracker) spend(r *record, b *Beat) {
	at := t.moment(b.Received - b.Age)
	if r.creditAt != noMoment && b.Credits < r.credits {
		r.burn = blend(r.burn, r.credits-b.Credits, t.mono(at)-t.mono(r.creditAt))
		r.spent = float32(r.credits - b.Credits)
	}
	r.credits, r.creditAt = b.Credits, at
}
