package watchdog

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// What a sweeper asks for in one tick, at most, and how long it waits for an
// answer before it asks again.
const (
	numbersPerTick  = 128
	settlesPerTick  = 64
	numbersAsked    = 4096 // without an answer yet
	answerWithin    = 30 * time.Second
	settledWithin   = 2 * time.Minute
	followWithin    = 30 * time.Second
	overtakenGrace  = 5 * time.Second // for the record of an overtaken generation to be told
	passOverdue     = 10 * time.Second
	startMoved      = 2 * time.Second
	cadenceMoved    = 4 // a cadence is told to the ledger again once it is off by a quarter
	endsRemembered  = 24 * time.Hour
	secondsPerSweep = time.Second
)

// ref is a record that may be forgotten meanwhile.
type ref struct{ n, birth uint32 }

// settles is what only a process that follows a ledger keeps, and mostly only
// one that settles.
type settles struct {
	known    bool // a ledger was told of at all
	ledger   LedgerChanged
	followed bool
	readyAt  time.Duration // Mono since which it is ready; never
	lastPass time.Duration // Mono of the last good pass; never
	passWhy  string        // why the last pass was not good
	nextPass time.Duration // Mono; 0 at once
	settled  uint64
	kept     uint64 // late beats given to quarantine

	unnumbered []ref // to be asked for, oldest first
	postponed  []ref // cannot be asked for yet
	asked      []ref // in the order of asking, at book.asked
	nextSecond time.Duration

	owing   []ref        // due and not settled; the cursor goes round
	isOwing map[ref]bool // of what is in owing: it is still owed
	owed    int
	cursor  int
	fresh   []ref // became due: first
	again   []ref // a pass judges them again: after that
	pasts   []ID  // sessions with overtaken executions that have no end
}

// exclusive reports whether nobody else can settle here.
func (s *settles) exclusive() bool {
	return s.ledger.Authority.Name == AuthorityFile || s.ledger.Authority.Name == AuthorityMemory
}

func (t *Tracker) refOf(n uint32) ref { return ref{n, t.store.at(n).birth} }

// still gives the record of r, or nil if it was forgotten.
func (t *Tracker) still(r ref) *record {
	if rec := t.store.at(r.n); rec.birth == r.birth && r.birth != 0 {
		return rec
	}
	return nil
}

// sweeping reports whether this process settles.
func (t *Tracker) sweeping() bool { return t.sweeper != "" }

// sweepTick does what a sweeper does in each tick. All of it is bounded.
func (t *Tracker) sweepTick(now time.Duration) {
	s := &t.settles
	if now >= s.nextSecond {
		s.nextSecond = now + secondsPerSweep
		s.unnumbered = append(s.unnumbered, s.postponed...)
		s.postponed = nil
		t.askAgain(now)
		t.settlePasts(now)
	}
	if s.ledger.Ready {
		t.askNumbers(now)
		t.settleSome(now)
	}
	if s.known && now >= s.nextPass {
		t.pass(now)
	}
}

// pass asks for a check and repair, and judges some of what is owed again. The
// cursor goes round, so that what cannot be settled hides nobody; what becomes
// due meanwhile does not wait for a pass.
func (t *Tracker) pass(now time.Duration) {
	s := &t.settles
	s.nextPass = now + t.policy.SweepInterval
	t.effects = append(t.effects, Sweep{At: t.now})
	for range min(t.policy.SweepBatch, len(s.owing)) {
		s.cursor %= len(s.owing)
		r := s.owing[s.cursor]
		if !s.isOwing[r] || t.still(r) == nil {
			if s.isOwing[r] {
				s.owed--
			}
			delete(s.isOwing, r)
			last := len(s.owing) - 1
			s.owing[s.cursor] = s.owing[last]
			if s.owing = s.owing[:last]; last == 0 {
				break
			}
			continue
		}
		s.cursor++
		s.again = append(s.again, r)
	}
}

// owe notes that a record is due, or that it no longer is. What is in the list
// leaves it when the cursor comes by.
func (t *Tracker) owe(n uint32, due bool) {
	s, r := &t.settles, t.refOf(n)
	owed, listed := s.isOwing[r]
	if owed == due {
		return
	}
	if !due {
		s.isOwing[r] = false
		s.owed--
		return
	}
	if s.isOwing == nil {
		s.isOwing = map[ref]bool{}
	}
	if !listed {
		s.owing = append(s.owing, r)
	}
	s.isOwing[r] = true
	s.owed++
	s.fresh = append(s.fresh, r)
}

// settleSome emits what is due, the newest first.
func (t *Tracker) settleSome(now time.Duration) {
	s := &t.settles
	for range settlesPerTick {
		var r ref
		switch {
		case len(s.fresh) > 0:
			r, s.fresh = s.fresh[0], s.fresh[1:]
		case len(s.again) > 0:
			r, s.again = s.again[0], s.again[1:]
		default:
			s.fresh, s.again = nil, nil
			return
		}
		if rec := t.still(r); rec != nil && s.isOwing[r] {
			t.settleOne(r.n, rec, now)
		}
	}
}

// settleOne judges a record once more and asks for its end.
func (t *Tracker) settleOne(n uint32, r *record, now time.Duration) {
	f, th, v, e := t.judgeSettle(n, r, now)
	if !e.over {
		t.owe(n, false)
		return
	}
	bk := t.needBook(ID(t.store.idOf(r)))
	if !e.due || bk.settle.at != 0 && now-bk.settle.at < settledWithin {
		return
	}
	bk.settle.at = now
	f.StateText = string(t.stateText(r))
	verdict, evidence := Judge(&f, &th, &v, now)
	t.effects = append(t.effects, Settle{ID: ID(t.store.idOf(r)), Generation: r.generation, Outcome: e.outcome, By: e.by,
		Reason: e.reason, Verdict: verdict, Evidence: evidence, Heard: r.lastBeat})
}

// judgeSettle gathers what decideSettle looks at.
func (t *Tracker) judgeSettle(n uint32, r *record, now time.Duration) (Facts, Thresholds, View, settling) {
	sd := t.store.sideOf(r)
	f := t.facts(n, r, sd)
	if sd != nil {
		f.Message = sd.message
	}
	th := t.thresholdsOf(r, sd)
	v := t.view()
	return f, th, v, decideSettle(&f, &th, &v, now)
}

// StillDue reports whether a settlement that was asked for a moment ago still
// holds: it is asked right before the write. It may be called from any
// goroutine.
func (t *Tracker) StillDue(e Settle) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, known := t.store.find([]byte(e.ID))
	bk := t.books.of([]byte(e.ID))
	if bk != nil && bk.end(e.Generation) != nil {
		return false // it stands already
	}
	if known && t.store.at(n).generation == e.Generation {
		r := t.store.at(n)
		_, _, _, now := t.judgeSettle(n, r, t.now.Mono)
		return now.due && now.outcome == e.Outcome && r.lastBeat == e.Heard
	}
	if bk == nil || !t.settles.ledger.Ready || t.health.score > 0 {
		return false
	}
	return slices.ContainsFunc(bk.past, func(p past) bool { return p.generation == e.Generation && p.outcome == e.Outcome })
}

// overtake notes that the present execution of a record seems to be over,
// without a record of its end as yet. certain says that it does not only seem so
// by a start estimate, which a beat that came late spoils: then the number of the
// next one is higher.
func (t *Tracker) overtake(r *record, now time.Duration, certain bool) {
	if !t.sweeping() {
		return
	}
	id := ID(t.store.idOf(r))
	bk := t.needBook(id)
	sd := t.store.sideOf(r)
	p := past{generation: r.generation, bootID: t.bootOf(r), start: t.startOf(r), outcome: OutcomeLost,
		reason: reasonSuperseded, since: now, certain: certain || ended(r, sd), claim: bk.claim}
	if r.flags&flagEndedByBeat != 0 {
		p.outcome, p.reason = OutcomeCompleted, sd.message
		if r.pub == StateError {
			p.outcome = OutcomeError
		}
	}
	numbered := r.generation != 0 || bk.asked != never
	over := sd != nil && (sd.terminal.ends() || sd.terminal.Foreign) || bk.end(r.generation) != nil
	bk.claimed, bk.claim, bk.settle, bk.unclear = 0, Claim{}, attempt{}, false
	if certain || ended(r, sd) {
		bk.after = max(bk.after, r.generation)
	}
	if n, ok := t.store.find([]byte(id)); ok {
		t.owe(n, false)
	}
	// An execution that was never given a number is none that could end.
	if numbered && !over {
		t.addPast(id, bk, p)
	}
}

func (t *Tracker) addPast(id ID, bk *book, p past) {
	if len(bk.past) == maxPast {
		return
	}
	if len(bk.past) == 0 {
		t.settles.pasts = append(t.settles.pasts, id)
	}
	bk.past = append(bk.past, p)
}

// owePast notes the executions of a head that were overtaken and have no record.
func (t *Tracker) owePast(id ID, bk *book, now time.Duration) {
	if !t.sweeping() {
		return
	}
	var present Generation // judged by its own record
	if n, known := t.store.find([]byte(id)); known {
		present = t.store.at(n).generation
	}
	for _, e := range bk.head.Executions {
		if e.Generation >= bk.head.Generation || e.Generation == present || bk.end(e.Generation) != nil ||
			slices.ContainsFunc(bk.past, func(p past) bool { return p.generation == e.Generation }) {
			continue
		}
		t.addPast(id, bk, past{generation: e.Generation, bootID: e.BootID, start: e.Start, outcome: OutcomeLost,
			reason: reasonSuperseded, since: now + overtakenGrace})
	}
}

// settlePasts asks for the ends of overtaken executions.
func (t *Tracker) settlePasts(now time.Duration) {
	s := &t.settles
	budget := t.policy.SweepBatch
	keep := s.pasts[:0]
	for i, id := range s.pasts {
		bk := t.books.byID[id]
		if bk == nil || len(bk.past) == 0 {
			continue
		}
		keep = append(keep, id)
		bk.past = slices.DeleteFunc(bk.past, func(p past) bool { return p.generation == 0 && now-p.since > 2*answerWithin })
		if !s.ledger.Ready || t.health.score > 0 {
			continue
		}
		for k := range bk.past {
			p := &bk.past[k]
			// What seems to be overtaken is so once the ledger has a newer one: rather
			// left open than a living one ended.
			if p.generation == 0 || p.outcome == OutcomeLost && p.generation >= bk.newest() || now < p.since || p.settle.at != 0 && now-p.settle.at < settledWithin {
				continue
			}
			p.settle.at = now
			by := BySweeper
			if p.outcome != OutcomeLost {
				by = ByAgent
			}
			t.effects = append(t.effects, Settle{ID: id, Generation: p.generation, Outcome: p.outcome, By: by, Reason: p.reason,
				Verdict: verdictOfOutcome(p.outcome), Evidence: Evidence{Rule: reasonSuperseded, Text: "overtaken by generation " + formatNumber(bk.newest())}})
			budget--
		}
		if budget <= 0 {
			keep = append(keep, s.pasts[i+1:]...)
			break
		}
	}
	s.pasts = keep
}

// wantNumber notes that the ledger is to be asked for the number of a record's
// execution, or told more of it.
func (t *Tracker) wantNumber(n uint32) {
	if t.sweeping() {
		t.settles.unnumbered = append(t.settles.unnumbered, t.refOf(n))
	}
}

// askNumbers asks for some numbers, oldest first, once the ledger has told what
// it knows.
func (t *Tracker) askNumbers(now time.Duration) {
	s := &t.settles
	if !s.followed && now-s.readyAt < followWithin {
		return
	}
	for range min(numbersPerTick, len(s.unnumbered)) {
		if len(s.asked) >= numbersAsked {
			return
		}
		r := s.unnumbered[0]
		s.unnumbered = s.unnumbered[1:]
		if rec := t.still(r); rec != nil {
			t.askNumber(r, rec, now)
		}
	}
	if len(s.unnumbered) == 0 {
		s.unnumbered = nil
	}
}

func (t *Tracker) askNumber(r ref, rec *record, now time.Duration) {
	s := &t.settles
	id := ID(t.store.idOf(rec))
	bk := t.needBook(id)
	if rec.flags&flagUnheard != 0 {
		return
	}
	if rec.generation == 0 && bk.head.Generation != 0 {
		t.findNumber(r.n, rec, bk)
		if t.giveWay(r.n, rec, bk, now); rec.flags&flagUnheard != 0 {
			return
		}
	}
	c := t.claimOf(rec, id, bk)
	switch {
	case bk.claimed != 0 && !news(&c, &bk.head):
		return // the ledger knows all of it
	case ended(rec, t.store.sideOf(rec)) && rec.flags&flagEndedByBeat == 0:
		return // it is settled
	case bk.asked != never || t.mayBeLate(rec, bk) || bk.unclear && c.BootID != "" && c.Knew == bk.claim.Knew && c.same(&bk.claim):
		s.postponed = append(s.postponed, r)
		return
	}
	bk.asked, bk.claim = now, c
	s.asked = append(s.asked, r)
	t.effects = append(t.effects, Number{c})
}

// claimOf is what is asked of the ledger, or told to it.
func (t *Tracker) claimOf(r *record, id ID, bk *book) Claim {
	sd := t.store.sideOf(r)
	c := Claim{ID: id, BootID: t.bootOf(r), Start: t.startOf(r), Generation: r.generation, Sources: r.carried}
	if th := t.thresholdsOf(r, sd); th.CadenceKnown() {
		c.Cadence = th.Interval
	}
	if r.generation == 0 {
		c.After = bk.after
	}
	if r.flags&flagStartGuessed != 0 && (r.generation != 0 || bk.head.Generation == 0) {
		c.Start = time.Time{} // the next beat tells
	}
	if r.lastBeat >= bk.told {
		c.Knew = bk.head.Generation
	}
	c.First = bk.head.Generation == 0 && (sd == nil || sd.overtaken[0] == span{})
	return c
}

// news reports whether a claim tells the ledger's head something that it does
// not know.
func news(c *Claim, h *Head) bool {
	if c.Generation != h.Generation {
		return false // what was overtaken needs no better knowledge
	}
	for i := range h.Executions {
		e := &h.Executions[i]
		if e.Generation == c.Generation && e.BootID == c.BootID && !c.Start.IsZero() && (e.Start.IsZero() || e.Start.Sub(c.Start) > startMoved) {
			return true // it was told of by a beat that came late, or by a key of unknown age
		}
	}
	off := (c.Cadence - h.Cadence).Abs()
	return c.Cadence > 0 && off*cadenceMoved > h.Cadence || c.Sources&^h.Sources != 0
}

// mayBeLate reports whether an execution that has no boot id, and that seems to
// have overtaken one that goes on, rests on one beat alone. It may have come
// late; the next one, or silence, tells.
func (t *Tracker) mayBeLate(r *record, bk *book) bool {
	switch {
	case r.flags&flagStartGuessed != 0 && r.generation == 0 && bk.head.Generation != 0 && (r.verdict != Silent || t.bootOf(r) == ""):
		return true // a key tells too little of its start to be given a number beside others
	case r.verdict == Silent || r.generation != 0 || t.bootOf(r) != "":
		return false
	case r.verdict.Ended():
		return t.now.Mono-r.lastBeat < minReopen
	case !bk.head.open() || bk.end(bk.head.Generation) != nil:
		return false
	}
	for _, p := range bk.past {
		if p.generation == bk.head.Generation && p.outcome != OutcomeLost {
			return false // the one before has ended by its own word
		}
	}
	return r.lastBeat <= t.mono(r.firstSeen)
}

// askAgain takes up what got no answer.
func (t *Tracker) askAgain(now time.Duration) {
	s := &t.settles
	for len(s.asked) > 0 {
		r := s.asked[0]
		rec := t.still(r)
		var bk *book
		if rec != nil {
			bk = t.books.of(t.store.idOf(rec))
		}
		if bk != nil && bk.asked != never {
			if now-bk.asked < answerWithin {
				return
			}
			bk.asked = never
			s.unnumbered = append(s.unnumbered, r)
		}
		s.asked = s.asked[1:]
	}
	s.asked = nil
}

// claimedSeen takes in the answer of the ledger.
func (t *Tracker) claimedSeen(e Claimed) {
	id := e.Claim.ID
	bk := t.books.of([]byte(id))
	n, known := t.store.find([]byte(id))
	if bk == nil {
		if !known || e.Generation == 0 {
			return
		}
		bk = t.needBook(id)
	}
	for i := range bk.past {
		p := &bk.past[i]
		if p.generation == 0 && p.claim.same(&e.Claim) {
			t.numberPast(bk, i, e.Generation)
			bk.asked = never
			return
		}
	}
	answers := bk.claim.same(&e.Claim)
	if answers {
		bk.asked = never
	}
	if !known {
		return
	}
	r := t.store.at(n)
	switch {
	case r.flags&flagUnheard != 0:
	case e.Generation == 0:
		if answers {
			t.unclearNumber(n, r, bk)
		}
	case r.generation == e.Generation:
		bk.claimed = e.Generation
	case r.generation == 0 && (answers || e.Claim.BootID != "" && e.Claim.BootID == t.bootOf(r)):
		t.setNumber(n, r, bk, e.Generation)
	}
}

// numberPast gives an overtaken execution the number that was asked for before it
// was overtaken. 0: it never got one, and owes nothing.
func (t *Tracker) numberPast(bk *book, i int, g Generation) {
	p := &bk.past[i]
	p.generation = g
	if p.certain {
		bk.after = max(bk.after, g)
	}
	if g == 0 || bk.end(g) != nil {
		bk.past = slices.Delete(bk.past, i, i+1)
	}
}

// same reports whether a claim is one that was asked, as far as clocks read
// twice may differ.
func (c *Claim) same(o *Claim) bool {
	return c.ID == o.ID && c.BootID == o.BootID && c.Generation == o.Generation && c.Start.Sub(o.Start).Abs() <= time.Second
}

// unclearNumber: the ledger cannot place the execution by its start.
func (t *Tracker) unclearNumber(n uint32, r *record, bk *book) {
	bk.unclear = true
	if r.generation == 0 {
		t.findNumber(n, r, bk)
	}
	t.giveWay(n, r, bk, t.now.Mono)
	if r.generation == 0 {
		t.settles.postponed = append(t.settles.postponed, t.refOf(n))
	}
}

// terminalSeen takes in the end of a generation. It changes that generation
// alone, whenever its number becomes known.
func (t *Tracker) terminalSeen(e TerminalSeen) {
	if e.At == 0 {
		e.At = t.now.Mono
	}
	now := max(t.now.Mono, e.At)
	n, known := t.store.find([]byte(e.ID))
	var bk *book
	if e.Generation != 0 {
		bk = t.needBook(e.ID)
		if bk.addEnd(e) && (t.settles.followed || !t.settles.known) {
			t.noteEnd(&e)
		}
		e = *cmp.Or(bk.end(e.Generation), &e)
	}
	if !known {
		t.recall(e, bk, now)
		return
	}
	r := t.store.at(n)
	switch {
	case e.Generation == 0 || e.Generation == r.generation || !t.guarded(guardGeneration):
		t.applyEnd(n, r, e, now)
	case r.generation == 0 && bk.head.Generation != 0:
		t.findNumber(n, r, bk)
	case r.generation == 0 && !t.sweeping() && !t.overtookAny(r) && !startedAfter(&e, t.startOf(r)):
		// An observer may have no ledger that tells it heads.
		r.generation = e.Generation
		t.applyEnd(n, r, e, now)
	case e.Generation > r.generation && r.generation != 0 && (r.flags&flagUnheard != 0 || r.verdict.Ended() || r.verdict == Silent):
		t.moveOn(n, r, e.Generation, nil, now)
	}
}

// overtookAny reports whether a record has seen an execution before its present
// one.
func (t *Tracker) overtookAny(r *record) bool {
	sd := t.store.sideOf(r)
	return sd != nil && (sd.firstSeen != noMoment || sd.overtaken[0] != span{})
}

// applyEnd ends a record's execution. The first end stands.
func (t *Tracker) applyEnd(n uint32, r *record, e TerminalSeen, now time.Duration) {
	sd := t.store.needSide(r)
	if r.flags&flagUnheard != 0 {
		e.At = now - t.ageOf(&e) // it may have ended long before anybody told us of it
	}
	if !sd.terminal.ends() {
		sd.terminal = e
	}
	if bk := t.books.of(t.store.idOf(r)); bk != nil {
		bk.settle = attempt{}
	}
	if t.sweeping() {
		t.owe(n, false)
	}
	t.look(n, r, now, false)
}

// recall shows an end of a session that is not known, if it is recent enough for
// anybody to want to see it.
func (t *Tracker) recall(e TerminalSeen, bk *book, now time.Duration) {
	if bk == nil || e.Generation < bk.newest() {
		return
	}
	age := t.ageOf(&e)
	linger := CompletedLinger
	if e.Foreign || verdicts[verdictOfOutcome(e.Outcome)].attention.Counted() {
		linger = endsRemembered
	}
	if age > linger {
		return
	}
	bk.end(e.Generation).At = now - age
	t.admitKnown(e.ID, e.Generation, nil, now)
}

// ageOf is how long ago an end was written, by the clocks of two machines: for
// people alone.
func (t *Tracker) ageOf(e *TerminalSeen) time.Duration {
	if e.Settled == 0 {
		return 0
	}
	return max(time.Duration(t.now.Wall-e.Settled), 0)
}

func formatNumber(g Generation) string { return strconv.FormatUint(uint64(g), 10) }
