package watchdog

import (
	"slices"
	"time"
)

// book is what is known of a session beside its beats: what the ledger holds of
// it and, where this process settles, what is owed. Only sessions of a ledger
// that is followed have one.
type book struct {
	head Head           // Generation 0: none was told
	told time.Duration  // Mono at which its number was told
	ends []TerminalSeen // of its generations, newest first

	// Of a sweeper.
	claimed Generation    // number of the present execution that the ledger is known to hold; 0 none
	asked   time.Duration // Mono at which that number was asked for; never
	claim   Claim         // as it was asked for last
	after   Generation    // the newest that was seen to be over before the present execution
	unclear bool          // the ledger could not tell the number
	settle  attempt       // of the present generation
	noticed time.Duration // Mono at which its silence was noticed; 0 not
	past    []past        // overtaken executions that have no end yet, oldest first

	lease lease
}

// attempt is a settlement that was asked for.
type attempt struct {
	at      time.Duration // Mono; 0 none is under way
	trouble string        // why the last one failed
}

// past is an execution that was overtaken without a terminal record.
type past struct {
	generation Generation // 0: its number was asked for and is not known yet
	bootID     string
	start      time.Time
	outcome    Outcome // by its own word; else lost
	reason     string
	since      time.Duration // Mono from which it may be settled
	certain    bool          // it does not only seem so
	claim      Claim         // by which its number was asked for
	settle     attempt
}

// lease is what was seen of the lease that our own publishers renew.
type lease struct {
	boot       string
	generation Generation
	held, gone time.Duration // Mono of the last sight, and of its going; never
}

// Bounds of a book.
const (
	maxEnds = 16
	maxPast = 64
	// maxStrayBooks is how many books without a record are kept, so that what
	// comes late still finds its tombstone.
	maxStrayBooks = 50_000
)

// books are all of them. The zero value is empty.
type books struct {
	byID  map[ID]*book
	order []ID // in the order of their making, to forget the oldest
}

// of gives the book of an id; nil: there is none.
func (b *books) of(id []byte) *book { return b.byID[ID(id)] }

func (t *Tracker) needBook(id ID) *book {
	b := &t.books
	if bk := b.byID[id]; bk != nil {
		return bk
	}
	if b.byID == nil {
		b.byID = map[ID]*book{}
	}
	t.forgetBooks()
	bk := &book{asked: never, lease: lease{held: never, gone: never}}
	b.byID[id] = bk
	b.order = append(b.order, id)
	return bk
}

// forgetBooks makes room: books whose session is not known and that owe nothing
// go, the oldest first, some at a time.
func (t *Tracker) forgetBooks() {
	b := &t.books
	for range 8 {
		if len(b.byID) < t.store.count+maxStrayBooks || len(b.order) == 0 {
			return
		}
		id := b.order[0]
		b.order = b.order[1:]
		if _, known := t.store.find([]byte(id)); known || len(b.byID[id].past) > 0 {
			b.order = append(b.order, id)
			continue
		}
		delete(b.byID, id)
	}
}

// end gives the record of a generation; nil: none was told.
func (bk *book) end(g Generation) *TerminalSeen {
	if bk == nil || g == 0 {
		return nil
	}
	for i := range bk.ends {
		if bk.ends[i].Generation == g {
			return &bk.ends[i]
		}
	}
	return nil
}

// newest is the highest number that is known of.
func (bk *book) newest() Generation {
	g := bk.head.Generation
	if len(bk.ends) > 0 {
		g = max(g, bk.ends[0].Generation)
	}
	return g
}

// addEnd notes a record, and reports whether it is news. The first that was told
// stays: there is no second one, and a foreign one is none.
func (bk *book) addEnd(e TerminalSeen) bool {
	if have := bk.end(e.Generation); have != nil {
		if !have.Foreign || e.Foreign {
			return false
		}
		*have = e
		return true
	}
	at := 0
	for at < len(bk.ends) && bk.ends[at].Generation > e.Generation {
		at++
	}
	if at == maxEnds {
		return false
	}
	bk.ends = slices.Insert(bk.ends, at, e)
	bk.ends = bk.ends[:min(len(bk.ends), maxEnds)]
	if !e.Foreign {
		bk.past = slices.DeleteFunc(bk.past, func(p past) bool { return p.generation == e.Generation })
	}
	return true
}

// involuntary reports whether an end was not the agent's own: what comes after
// it is late, and never life.
func (e *TerminalSeen) involuntary() bool {
	return e.ends() && (e.Outcome == OutcomeLost || e.Outcome == OutcomeStopped || e.Outcome == OutcomeExpired)
}

// wallAt is a Mono on a wall clock that never jumps: the one that stood when we
// began to watch, moved on by the boot clock. So estimates of one start agree,
// whatever becomes of our clock meanwhile.
func (t *Tracker) wallAt(m time.Duration) time.Time {
	gone := t.ticked.Boot - t.epoch.Boot - (t.ticked.Mono - m)
	return time.Unix(0, t.epoch.Wall+int64(gone)).UTC()
}

// startOf is the estimated start of a record's execution; zero unknown.
func (t *Tracker) startOf(r *record) time.Time {
	if r.flags&flagUptime == 0 {
		return time.Time{}
	}
	return t.wallAt(t.mono(r.start))
}

// number finds what the head says of an execution that was seen to begin after a
// generation; 0: nothing.
func (h *Head) number(boot string, start time.Time, after Generation) Generation {
	if e := h.byBoot(boot); e != nil {
		return e.Generation
	}
	return h.match(boot, start, after)
}

// headSeen takes in what the ledger holds of a session.
func (t *Tracker) headSeen(e HeadSeen) {
	id := e.Head.ID
	bk := t.needBook(id)
	if have := &bk.head; e.Head.Generation < have.Generation || e.Head.Generation == have.Generation && have.Ended && !e.Head.Ended {
		return // told again, from before
	}
	now := max(t.now.Mono, e.At)
	if e.Head.Generation != bk.head.Generation {
		bk.told = now
	}
	bk.head = e.Head.clone()
	t.overruled(bk, now)
	for i := len(bk.past) - 1; i >= 0; i-- {
		if p := &bk.past[i]; p.generation == 0 {
			if g := bk.head.number(p.bootID, p.start, 0); g != 0 {
				t.numberPast(bk, i, g)
			}
		}
	}
	if t.settles.followed {
		t.owePast(id, bk, now)
	}
	n, known := t.store.find([]byte(id))
	if !known {
		if bk.head.open() && bk.end(bk.head.Generation) == nil {
			t.admitKnown(id, bk.head.Generation, &bk.head, now)
		}
		return
	}
	r := t.store.at(n)
	switch {
	case r.flags&flagUnheard != 0 && bk.head.Generation > r.generation:
		t.moveOn(n, r, bk.head.Generation, &bk.head, now)
	case r.generation == 0:
		t.findNumber(n, r, bk)
		t.giveWay(n, r, bk, now)
	case bk.head.Generation > r.generation:
		t.look(n, r, now, false) // overtaken, as it seems
	}
}

// overruled ends the generations that operators expired over foreign records.
func (t *Tracker) overruled(bk *book, now time.Duration) {
	for i := range bk.head.Overruled {
		o := &bk.head.Overruled[i]
		if have := bk.end(o.Generation); have != nil && !have.Foreign {
			continue
		}
		r := o.record(bk.head.ID)
		e := r.Seen(now)
		e.Overrules = true
		t.terminalSeen(e)
	}
}

// giveWay turns from an execution that is silent and never got a number, because
// its successor has one, to that successor; and from a key at first sight, which
// is all that was heard, to the end that the ledger knows.
func (t *Tracker) giveWay(n uint32, r *record, bk *book, now time.Duration) {
	if t.leftBehind(r, bk) {
		t.moveOn(n, r, bk.head.Generation, &bk.head, now)
		return
	}
	if r.generation != 0 || t.bootOf(r) == "" || r.verdict != Silent || r.lastBeat >= bk.told || !before(t.startOf(r), bk.head.newestStart()) {
		return
	}
	t.moveOn(n, r, bk.head.Generation, &bk.head, now)
}

// leftBehind reports whether a record rests on a key alone that may be what an
// execution left which has ended. Its next beat tells.
func (t *Tracker) leftBehind(r *record, bk *book) bool {
	if r.generation != 0 || r.flags&flagUnheard != 0 || r.flags&(flagAgeEstimated|flagAgeUnknown) == 0 || bk.asked != never || t.bootOf(r) != "" {
		return false
	}
	e := bk.end(bk.head.Generation)
	surely := time.Time{}
	if r.flags&flagAgeEstimated != 0 && r.flags&flagUptime != 0 {
		surely = t.startOf(r).Add(-t.policy.RedisTTL)
	}
	return e != nil && e.ends() && t.guarded(guardTombstone) && !beganAfter(bk, e, surely)
}

// findNumber looks a record's execution up in the head.
func (t *Tracker) findNumber(n uint32, r *record, bk *book) {
	g := bk.head.number(t.bootOf(r), t.startOf(r), bk.after)
	if g == 0 && bk.unclear {
		g = t.adopted(r, bk)
	}
	if g != 0 {
		t.setNumber(n, r, bk, g)
	}
}

// adopted is the open head's number for an execution that the ledger cannot
// place by its start, but that beats on: whoever claimed the head was told of it
// by a beat that came late.
func (t *Tracker) adopted(r *record, bk *book) Generation {
	if bk.head.open() && bk.head.Generation > bk.after && t.bootOf(r) == "" && before(bk.head.newestStart(), t.wallAt(r.lastBeat)) {
		return bk.head.Generation
	}
	return 0
}

func (t *Tracker) bootOf(r *record) string {
	if sd := t.store.sideOf(r); sd != nil {
		return sd.boot
	}
	return ""
}

// setNumber gives a record's execution its number, and with it what is known of
// that generation.
func (t *Tracker) setNumber(n uint32, r *record, bk *book, g Generation) {
	r.generation = g
	bk.claimed = g
	// It may only have seemed to be another execution.
	bk.past = slices.DeleteFunc(bk.past, func(p past) bool { return p.generation == g })
	t.note(Transition{Kind: EventNumbered, ID: ID(t.store.idOf(r)), Generation: g, At: t.now,
		Text: "the ledger gave its execution number " + formatNumber(g)})
	t.knownEnd(n, r, bk)
	t.look(n, r, t.now.Mono, false)
	if t.settles.followed {
		t.owePast(ID(t.store.idOf(r)), bk, t.now.Mono)
	}
}

// knownEnd applies a record that was told before its generation was known.
func (t *Tracker) knownEnd(n uint32, r *record, bk *book) {
	if e := bk.end(r.generation); e != nil {
		t.store.needSide(r).terminal = *e
	}
}

// admitKnown makes a record for a session that was told of and not heard.
func (t *Tracker) admitKnown(id ID, g Generation, h *Head, now time.Duration) (uint32, bool) {
	if t.store.count >= t.policy.MaxSessions && !t.forgetOne() {
		t.shed++
		return 0, false
	}
	n := t.store.add([]byte(id))
	r := t.store.at(n)
	r.thresholds = t.thresholdIndex([]byte(id))
	t.untold(n, r, g, h, now)
	if bk := t.books.of([]byte(id)); bk != nil {
		t.knownEnd(n, r, bk)
	}
	t.look(n, r, now, true)
	return n, true
}

// moveOn sets a record to a newer execution that was told of and not heard.
func (t *Tracker) moveOn(n uint32, r *record, g Generation, h *Head, now time.Duration) {
	t.overtake(r, now, true)
	t.store.needSide(r)
	t.untold(n, r, g, h, now)
	if bk := t.books.of(t.store.idOf(r)); bk != nil {
		t.knownEnd(n, r, bk)
	}
	t.look(n, r, now, false)
}

// untold begins an execution of which no beat was heard. h is the head that
// tells of it; nil: something else did.
func (t *Tracker) untold(n uint32, r *record, g Generation, h *Head, now time.Duration) {
	var b Beat
	b.Reset()
	b.ID, b.Received, b.Generation = t.store.idOf(r), now, g
	t.begin(r, &b)
	r.flags |= flagUnheard | flagAgeUnknown
	r.lastBeat, r.pub, r.state = now, StateRunning, t.store.text.put(r.state, nil)
	r.task = t.store.text.put(r.task, nil)
	if h == nil {
		return
	}
	// What only one process can hear says nothing here, unless the ledger is ours
	// alone.
	r.carried = h.Sources & SourceNATS.Set()
	if t.settles.exclusive() {
		r.carried = h.Sources &^ SourceRedis.Set()
	}
	t.rememberCadence(r, h)
}

// rememberCadence takes over what was learned of a publisher before we looked.
func (t *Tracker) rememberCadence(r *record, h *Head) {
	if h.Cadence <= 0 || r.gapN > 0 {
		return
	}
	for i := range r.gaps {
		r.gaps[i] = packGap(h.Cadence * gapSlackDen / gapSlackNum)
	}
	r.gapN = gapCount
}

// placeUnheard says to which execution the first beat of a session belongs that
// was only told of, and which number that has; 0 not known.
func (t *Tracker) placeUnheard(r *record, b *Beat) (placement, Generation) {
	bk := t.books.of(t.store.idOf(r))
	g := b.Generation
	start := time.Time{}
	if b.Uptime >= 0 {
		start = t.wallAt(b.started())
	}
	if g == 0 && bk != nil {
		g = bk.head.number(string(b.BootID), start, 0)
	}
	if sd := t.store.sideOf(r); g == 0 && len(b.BootID) == 0 && sd != nil && sd.supervised.Phase == SupervisorRunning {
		g = r.generation
	}
	if !t.guarded(guardTombstone) {
		return placeNew, g
	}
	sd := t.store.sideOf(r)
	over := sd != nil && sd.terminal.ends()
	switch {
	case g != 0 && (g < r.generation || g == r.generation && over):
		return placeLate, g
	case g == 0 && over && len(b.BootID) == 0 && !beganAfter(bk, &sd.terminal, t.surely(b)):
		return placeLate, r.generation
	case g == 0 && len(b.BootID) == 0 && !over && bk != nil && before(start, bk.head.newestStart()):
		return placeCurrent, 0 // the ledger is asked
	}
	return placeNew, g
}

// surely is surelyStarted on the wall clock; zero: it cannot be known.
func (t *Tracker) surely(b *Beat) time.Time {
	start, ok := t.surelyStarted(b)
	if !ok {
		return time.Time{}
	}
	return t.wallAt(start)
}

// beganAfter reports whether a start lies after that of an execution that ended,
// or, if that is not known, after its end: a runner that is lost may have been
// followed before anybody said so.
func beganAfter(bk *book, e *TerminalSeen, start time.Time) bool {
	if bk != nil && bk.head.Generation == e.Generation {
		if newest := bk.head.newestStart(); !newest.IsZero() {
			return before(newest, start)
		}
	}
	return startedAfter(e, start)
}

// startedAfter reports whether an execution began after an end was written.
func startedAfter(e *TerminalSeen, start time.Time) bool {
	return !start.IsZero() && e.Settled != 0 && start.After(time.Unix(0, e.Settled))
}

// hear turns a session that was only told of into one that is heard.
func (t *Tracker) hear(n uint32, r *record, b *Beat, g Generation) {
	bk := t.books.of(t.store.idOf(r))
	if r.generation != 0 && g > r.generation {
		t.overtake(r, b.Received, true)
	}
	sd := t.store.sideOf(r)
	var supervised Supervised
	if sd != nil && g == r.generation {
		supervised = sd.supervised
	}
	was := r.generation
	t.begin(r, b)
	if r.generation = g; bk != nil {
		if bk.settle = (attempt{}); g != was {
			bk.claimed, bk.claim, bk.unclear = 0, Claim{}, false
		}
		if g != 0 && g == bk.head.Generation {
			bk.claimed = g
			t.rememberCadence(r, &bk.head)
		}
		t.knownEnd(n, r, bk)
	}
	if supervised.Phase != SupervisorNone {
		t.store.needSide(r).supervised = supervised
	}
}
