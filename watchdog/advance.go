package watchdog

import "time"

// lateTick is a tick that came so late that we must doubt ourselves; stopTick
// one so late that we saw nothing meanwhile (SIGSTOP, a starved process).
const (
	lateTick = 500 * time.Millisecond
	stopTick = 2 * time.Second
	// healthStep is how long ticks must be on time before the score falls by one.
	healthStep = 10 * time.Second
	// suspendGap is by how much the boot clock must run ahead in one step to be a suspend.
	suspendGap = time.Second
	// drainWithin is how long after we were stopped what waited for us may come in.
	drainWithin = 2 * time.Second
)

// sleep is when we were stopped last.
type sleep struct {
	from  time.Duration // Mono
	least time.Duration // what of it the monotonic clock did not count
	until time.Duration // Mono; what came meanwhile has been read by then
}

// A beat that tells nothing but its age is worth a look only if that age is seen
// to change: healthy ages are shown in steps of freshGrain. A fleet that beats
// all the time is not looked at more often than every freshPause for it.
const (
	freshGrain = 5 * time.Second
	freshPause = 3 * tickLength / 2
)

// health scores how far we may trust ourselves, after memberlist's awareness.
type health struct {
	score    int
	lag      time.Duration
	lastLate time.Duration // Mono of the last late tick, or of the last step down
	forgetAt uint32        // where forgetOne goes on
}

// apply takes in one event.
func (t *Tracker) apply(ev Event) {
	switch e := ev.(type) {
	case Ticked:
		t.advance(e.Now, e.Late)
	case SourceAdded:
		t.configure(e.Source)
	case LinkChanged:
		t.linkChanged(e)
	case RoundTrip:
		s := t.configure(e.Source)
		if e.At > s.lastTrip {
			s.lastTrip = e.At
			s.link.RTT, s.link.Keys = e.At-e.Sent, e.Keys
		}
		if e.Sent > s.heard {
			s.heard, t.proofs = e.Sent, true
		}
		t.updateSight(max(t.now.Mono, e.At))
	case Denied:
		s := t.configure(e.Source)
		s.denied, s.deniedAt = e.Reason, e.At
		t.updateSight(max(t.now.Mono, e.At))
	case Dropped:
		s := t.configure(e.Source)
		s.link.Dropped += e.Count
		t.drops += e.Count
		s.dropAt, s.dropUntil = e.At, e.At+t.policy.HeartbeatInterval
		t.updateSight(max(t.now.Mono, e.At))
	case Refused:
		t.refused(e)
	case StoreChanged:
		t.storeChanged(e)
	case KeyGone:
		t.keyGone(e)
	case KeyBack:
		t.keyBack(e)
	case TerminalSeen:
		t.terminalSeen(e)
	case Supervised:
		t.supervisedBy(e)
	case HTTPSilent:
		since := max(t.now.Mono, e.At) - max(e.Age, 0)
		t.onSide(e.ID, e.Generation, func(sd *side) { sd.httpSilent = max(since, 1) }, e.At)
	case HeadSeen, FollowedUp, Claimed, SettleFailed, LedgerChanged, Swept, LeaseSeen, BrakeReleased:
		t.applyLedger(ev)
	case Ordered:
		t.ordered(e)
	case Answered:
		t.answered(e)
	case Disobeyed:
		t.disobeyed(e)
	case Noted:
		t.takeNotes(e.Notes)
	case Trouble:
		t.outsideTrouble(e)
	case Wedged:
		t.onSide(e.ID, e.Generation, func(sd *side) {
			sd.wedgedAt = never
			if e.Wedged {
				sd.wedgedAt = e.At
			}
		}, e.At)
	}
}

// configure marks a source as configured.
func (t *Tracker) configure(src Source) *sight {
	s := &t.sights[src]
	if !s.configured {
		s.configured = true
		s.changed = t.now.Mono
		s.link.Source = src
		t.updateMasks(t.now.Mono)
	}
	return s
}

func (t *Tracker) linkChanged(e LinkChanged) {
	l := &t.configure(e.Source).link
	l.Phase, l.Detail, l.Attempt, l.Warning = e.Phase, e.Detail, e.Attempt, e.Warning
	if e.Address != "" {
		l.Address, l.Origin = e.Address, e.Origin
	}
	t.sights[e.Source].nextTry = e.NextTry
}

func (t *Tracker) refused(e Refused) {
	l := &t.configure(e.Source).link
	for i, c := range e.Counts {
		l.Refused[i] += c
		if c > 0 {
			l.LastRefusal, l.LastRefusalID = e.Last, e.LastID
		}
	}
	l.Fields += e.Fields
}

func (t *Tracker) keyGone(e KeyGone) {
	n, ok := t.store.find([]byte(e.ID))
	if !ok {
		return
	}
	r := t.store.at(n)
	if r.flags&flagKeyHeld == 0 {
		return
	}
	sd := t.store.needSide(r)
	if r.keyPolls == 0 {
		sd.keyGoneAt, r.natsRunning = e.At, 0
		// A beat that came after the last sight of the key counts already.
		if t.mono(r.lastBy[SourceNATS]) > e.LastSeen && r.pub == StateRunning {
			r.natsRunning = 1
		}
	}
	sd.keySeen = e.LastSeen
	r.keyPolls = uint8(min(max(e.Polls, int(r.keyPolls), 1), 2))
	t.look(n, r, max(t.now.Mono, e.At), false)
}

func (t *Tracker) keyBack(e KeyBack) {
	n, ok := t.store.find([]byte(e.ID))
	if !ok {
		return
	}
	r := t.store.at(n)
	r.keyPolls, r.natsRunning = 0, 0
	sd := t.store.needSide(r)
	sd.keySeen, sd.keyGoneAt = e.At, never
	t.look(n, r, max(t.now.Mono, e.At), false)
}

// onSide changes the side record of a known generation and looks at it again.
// What concerns an older or a newer generation is not this record's.
func (t *Tracker) onSide(id ID, g Generation, change func(*side), at time.Duration) {
	n, ok := t.store.find([]byte(id))
	if !ok {
		return
	}
	r := t.store.at(n)
	if g != 0 && r.generation != 0 && g != r.generation {
		return
	}
	change(t.store.needSide(r))
	t.look(n, r, max(t.now.Mono, at), false)
}

// advance moves the clocks to now and does what became due.
func (t *Tracker) advance(now Instant, late time.Duration) {
	now.Mono = max(now.Mono, t.ticked.Mono)
	slept := (now.Boot - t.ticked.Boot) - (now.Mono - t.ticked.Mono)
	t.ticked = now
	now.Mono = max(now.Mono, t.now.Mono)
	t.now = now
	if slept > suspendGap {
		t.suspended += slept
		t.sleep = sleep{now.Mono, slept, now.Mono + drainWithin}
		t.ownBlindness(now.Mono, now.Mono)
		t.changes++
	}
	if late > stopTick {
		t.ownBlindness(now.Mono-late, now.Mono)
		t.sleep = sleep{now.Mono - late, 0, now.Mono + drainWithin}
	}
	t.updateHealth(now.Mono, late)
	if t.updateSight(now.Mono) {
		t.changes++
	}
	if t.fresh && now.Mono-t.freshAt >= freshPause {
		t.fresh, t.freshAt = false, now.Mono
		t.changes++
	}
	t.wheel.advance(uint32(max(now.Mono-t.epoch.Mono, 0)/tickLength), t.fire)
	if t.proofs {
		t.proofs = false
		t.unparks = append(t.unparks, t.unproven...)
		t.unproven = t.unproven[:0]
	}
	t.takeUnparked()
	t.alertsDue()
	if t.sweeping() {
		t.sweepTick(now.Mono)
	}
	t.watchActions(now.Mono)
}

// updateHealth raises the score with each late tick and lowers it when ticks
// have been on time for a while.
func (t *Tracker) updateHealth(now, late time.Duration) {
	h := &t.health
	h.lag = late
	switch {
	case late > lateTick:
		h.score = min(h.score+1, MaxHealthScore)
		h.lastLate = now
		t.lookAtSuspects()
		t.changes++
	case h.score > 0 && now-h.lastLate >= healthStep:
		h.score--
		h.lastLate = now
		t.changes++
	}
}

// fire looks at a record whose wheel entry is due.
func (t *Tracker) fire(n, tick uint32) {
	r := t.store.at(n)
	if r.birth == 0 || r.sched != tick {
		return // an older entry: the record is entered elsewhere
	}
	r.sched = 0
	t.look(n, r, t.now.Mono, false)
}

// unpark puts the sessions that wait for the sight of set back on the list of
// those to look at.
func (t *Tracker) unpark(set SourceSet) {
	t.unparks = append(t.unparks, t.parked[set]...)
	t.parked[set] = nil
}

func (t *Tracker) takeUnparked() {
	n := min(len(t.unparks), maxFires)
	for _, rec := range t.unparks[:n] {
		r := t.store.at(rec)
		if r.birth != 0 {
			r.parked = 0
			t.look(rec, r, t.now.Mono, false)
		}
	}
	t.unparks = t.unparks[n:]
	if len(t.unparks) == 0 {
		t.unparks = nil
	}
}

// look judges a record and enters its next deadline.
func (t *Tracker) look(n uint32, r *record, now time.Duration, first bool) {
	sd := t.store.sideOf(r)
	f := t.facts(n, r, sd)
	th := t.thresholdsOf(r, sd)
	v := t.view()
	d := decide(&f, &th, &v, now)
	blind := d.rule == ruleBlind
	if blind {
		// The lens shows it, from the blindness itself. The session's own verdict
		// goes on underneath: no deadline comes while blind, and those that came
		// before stand.
		d = decideSighted(&f, &th, &v, now)
		d.blind = r.carried
	}
	t.park(n, r, d.blind)
	t.setVerdict(n, r, d, now, first)
	if blind {
		return
	}
	if r.flags &^= flagExtended; t.extended(&f) {
		r.flags |= flagExtended
	}
	if t.sweeping() && r.verdict.settles() {
		t.lookAtEnd(n, r, &f, &th, &v, &d, now)
	} else if t.sweeping() {
		t.owe(n, false)
	}
	if d.unproven {
		t.unproven = append(t.unproven, n)
	}
	if t.health.score > 0 {
		// A better score brings it forward, for all at once: who fell together is
		// noticed together.
		d.next = min(d.next, max(t.health.lastLate+healthStep, now+tickLength))
	}
	if d.next == forever {
		return
	}
	tick := tickAfter(d.next, t.epoch.Mono)
	if r.sched != 0 && r.sched <= tick {
		return
	}
	r.sched = t.wheel.put(n, tick)
}

// park notes that a record waits for the sight of set.
func (t *Tracker) park(n uint32, r *record, set SourceSet) {
	if set != 0 && r.parked != set {
		t.parked[set] = append(t.parked[set], n)
	}
	r.parked = set
}

// lookAtEnd notes when a record is to be settled, or that it is due.
func (t *Tracker) lookAtEnd(n uint32, r *record, f *Facts, th *Thresholds, v *View, d *decision, now time.Duration) {
	// The verdict itself may have made it one of many, just now.
	f.Group, f.Held = t.heldWith(n)
	if bk := t.books.of(t.store.idOf(r)); bk != nil {
		f.NoticedAt = bk.noticed
	}
	d.next = min(d.next, t.heldUntil(n))
	e := decideSettle(f, th, v, now)
	t.owe(n, e.over && !neverByItself(e.waits))
	if e.due { // what it waited for may be over just now
		t.settles.again = append(t.settles.again, t.refOf(n))
	}
	d.next = min(d.next, e.next)
	d.unproven = d.unproven || e.unproven
	if d.blind == 0 && e.blind != 0 {
		t.park(n, r, e.blind)
	}
}

// extended reports whether blindness has moved a deadline of f: the next beat
// counts anew, without it, and may so be due earlier.
func (t *Tracker) extended(f *Facts) bool {
	for _, src := range [...]Source{SourceNATS, SourceRedis} {
		if f.Carried.Has(src) && t.blind[src.Set()].Touches(f.LastBy[src]) {
			return true
		}
	}
	return t.blind[f.Carried].Touches(f.LastBeat)
}

// setVerdict stores a verdict and tells what changed.
func (t *Tracker) setVerdict(n uint32, r *record, d decision, now time.Duration, first bool) {
	since := d.since
	if since == never || since > now {
		since = now
	}
	waited := time.Duration(0)
	if d.verdict == Waiting {
		waited = now - since
	}
	attention := attentionOf(d.verdict, d.rule, r.wait, waited)
	from := r.verdict
	if r.flags&flagDismissed != 0 && d.verdict == from {
		attention = AttentionNone
	}
	if !first && from == d.verdict && r.rule == d.rule && r.attention == attention {
		if r.flags&flagAlerted != 0 {
			t.alertStill(n, r)
		}
		return
	}
	if !first {
		t.count(r, -1)
	}
	at := since
	if first || from != d.verdict {
		if !first {
			at = t.cameAt(n, r, since, now)
		}
		r.since = t.moment(since)
	}
	found := first || r.rule == ruleUnheard // we hear it for the first time
	r.verdict, r.rule, r.attention = d.verdict, d.rule, attention
	if d.verdict == Running || d.verdict.Ended() {
		delete(t.suspects, n)
	} else {
		t.suspects[n] = struct{}{}
	}
	t.count(r, +1)
	t.changes++
	if first || from != d.verdict {
		r.flags &^= flagDismissed
		if !first && from == Silent {
			t.leftSilence(n, now)
		}
		if d.verdict == Silent {
			t.wentSilent(n, since)
			if t.sweeping() {
				t.needBook(ID(t.store.idOf(r))).noticed = now
			}
		}
		t.changed(n, r, from, at, first)
	}
	t.alertVerdict(n, r, found)
}

// cameAt is when a change is said to have come about: when its verdict began, or
// now if the session stood otherwise since then and comes back.
func (t *Tracker) cameAt(n uint32, r *record, since, now time.Duration) time.Duration {
	last, ok := t.returned[n]
	if !ok {
		last = t.mono(r.since)
	}
	delete(t.returned, n)
	if since >= last || !t.guarded(guardTold) {
		return since
	}
	t.returned[n] = now
	return now
}

// count keeps the totals that are not worth a scan.
func (t *Tracker) count(r *record, by int) {
	if !r.verdict.Ended() {
		t.live += by
	}
	if r.attention.Counted() {
		t.trouble += by
		t.lastTrouble = t.now.Mono
	}
}

func (t *Tracker) changed(n uint32, r *record, from Verdict, at time.Duration, first bool) {
	if first && r.verdict == Running {
		return // a fleet that is seen for the first time is no news
	}
	tr := Transition{ID: ID(t.store.idOf(r)), Generation: r.generation, From: from, To: r.verdict, New: first, At: t.instantAt(at)}
	if len(t.effects) < wordsAtOnce { // words for those that can be shown; thousands at once cannot
		sd := t.store.sideOf(r)
		f := t.facts(n, r, sd)
		th := t.thresholdsOf(r, sd)
		v := t.view()
		d := decide(&f, &th, &v, t.now.Mono)
		if d.rule == ruleBlind { // what changed is its own verdict, below the blindness
			d = decideSighted(&f, &th, &v, t.now.Mono)
		}
		tr.Text = sentence(&d, &f, &th, &v, t.now.Mono)
	}
	t.note(tr)
	t.effects = append(t.effects, Changed{tr})
}

// wordsAtOnce is how many transitions between two ticks are put into words.
const wordsAtOnce = 256
