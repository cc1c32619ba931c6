package watchdog

import (
	"math"
	"path"
	"sync"
	"time"
)

// Tracker is the engine as a value: it is told what happened and what time it
// is, and answers what to do. It has no goroutine, no clock and does no IO.
// Its methods may be called from one goroutine; Look may be called from
// others at the same time.
type Tracker struct {
	mu sync.RWMutex // guards all below against Look

	policy     Policy
	thresholds []Thresholds // by record.thresholds; distinct results of the overrides
	epoch      Instant
	now        Instant // Mono runs ahead to the newest beat; all three are of one reading only in ticked
	ticked     Instant // the last advance
	store      *store
	wheel      wheel

	sights  [sourceCount]sight
	sighted SourceSet
	blind   sightMasks
	blindOf func(SourceSet) *Blindness // into blind; made once
	parked  [1 << sourceCount][]uint32 // records whose deadline waits for sight
	unparks []uint32                   // to be looked at soon, some each tick
	// unproven are the records with a deadline that has passed and waits for a
	// proof that the source still tells us all.
	unproven []uint32
	proofs   bool // a source proved itself since they were looked at
	// suspects are the records that are neither running nor ended: a change of
	// sight may clear them at once.
	suspects map[uint32]struct{}
	// returned is when records came back to a verdict that had begun before they
	// left it, until what they became next is told.
	returned map[uint32]time.Duration

	brake    brake
	alerts   alerts
	sweeper  string
	books    books
	settles  settles
	actions  actions
	refusals refusals
	acts     Acts
	health   health

	live, trouble int
	lastTrouble   time.Duration
	beats         uint64
	drops         uint64
	coalesced     uint64
	shed          uint64
	late          uint64
	suspended     time.Duration
	sleep         sleep
	newIn         time.Duration // second in which newCount counts
	newCount      int

	effects  []Effect
	events   timeline
	payloads payloads
	without  guards        // taken out by the simulation, to prove that it would notice
	fresh    bool          // a beat came that can be seen by its age alone
	freshAt  time.Duration // when that was last told
	changes  uint64        // grows with all that a window must show soon, which is not ages and counts of beats
}

// NewTracker makes a tracker that begins to watch at start.
func NewTracker(p Policy, start Instant) *Tracker {
	t := &Tracker{policy: p.WithDefaults(), epoch: start, now: start, ticked: start, store: newStore(), alerts: newAlerts(),
		suspects: map[uint32]struct{}{}, returned: map[uint32]time.Duration{}, lastTrouble: never}
	t.blindOf = func(set SourceSet) *Blindness { return &t.blind[set] }
	for i := range t.sights {
		t.sights[i] = newSight()
	}
	t.settles.readyAt, t.settles.lastPass = never, never
	t.updateMasks(start.Mono)
	return t
}

// SetSweeper names who settles lost executions; empty means nobody does.
func (t *Tracker) SetSweeper(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweeper = name
}

// ApplyBeats takes in beats. Their bytes are not kept.
func (t *Tracker) ApplyBeats(batch []Beat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		t.payloads.beat(&batch[i])
		t.applyBeat(&batch[i])
	}
}

// Apply takes in any other event and gives the effects that are due.
func (t *Tracker) Apply(ev Event) []Effect {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, tick := ev.(Ticked); !tick {
		t.changes++
	}
	t.apply(ev)
	return t.takeEffects()
}

// Advance moves the clocks and gives the effects that are due.
func (t *Tracker) Advance(now Instant) []Effect {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now, 0)
	return t.takeEffects()
}

// Next is when Advance has something to do at the latest: one tick on.
func (t *Tracker) Next() Instant {
	n := t.now
	n.Mono += tickLength
	n.Boot += tickLength
	n.Wall += int64(tickLength)
	return n
}

func (t *Tracker) takeEffects() []Effect {
	out := t.effects
	t.effects = nil
	return out
}

// moment rounds a Mono up to tenths of a second since the epoch.
func (t *Tracker) moment(m time.Duration) moment {
	d := m - t.epoch.Mono
	if d > 0 {
		d += tickLength - 1
	}
	return moment(min(max(int64(d/tickLength), math.MinInt32+1), math.MaxInt32))
}

// mono gives a moment back as Mono.
func (t *Tracker) mono(m moment) time.Duration {
	if m == noMoment {
		return never
	}
	return t.epoch.Mono + time.Duration(m)*tickLength
}

// instantAt is a past Mono on all three clocks, as far as they ran alike.
func (t *Tracker) instantAt(m time.Duration) Instant {
	back := t.now.Mono - m
	return Instant{Mono: m, Boot: t.now.Boot - back, Wall: t.now.Wall - int64(back)}
}

// view is how well we see now.
func (t *Tracker) view() View {
	v := View{Sighted: t.sighted, Score: t.health.score, Sweeper: t.sweeper, Blindness: t.blindOf,
		LedgerReady: t.settles.ledger.Ready, LedgerReason: t.settles.ledger.Reason}
	if !t.guarded(guardSight) {
		v.Blindness = nil
	}
	for i := range t.sights {
		v.Heard[i] = t.sights[i].heard
		v.StoreAt[i] = t.sights[i].storeAt
		if v.StoreAt[i] < 0 {
			v.StoreAt[i] = never
		}
	}
	if !t.guarded(guardProof) {
		v.Heard = [sourceCount]time.Duration{forever, forever, forever, forever}
	}
	return v
}

// admit makes a record for an id that is not known, unless a limit says no.
func (t *Tracker) admit(b *Beat) (uint32, bool) {
	second := b.Received.Truncate(time.Second)
	if second != t.newIn {
		t.newIn, t.newCount = second, 0
	}
	if t.newCount >= t.policy.MaxNewPerSecond || t.store.count >= t.policy.MaxSessions && !t.forgetOne() {
		t.shed++
		return 0, false
	}
	t.newCount++
	n := t.store.add(b.ID)
	r := t.store.at(n)
	r.thresholds = t.thresholdIndex(b.ID)
	t.begin(r, b)
	t.wantNumber(n)
	return n, true
}

// begin sets a record to the start of a new execution.
func (t *Tracker) begin(r *record, b *Beat) {
	at := t.moment(b.Received)
	seen, before := r.firstSeen, span{t.mono(r.start), r.lastBeat}
	if r.flags&flagUptime == 0 {
		before = span{}
	}
	r.firstSeen, r.since, r.stateAt = at, at, at
	r.lastChange, r.taskAt = noMoment, noMoment
	r.lastBeat, r.lastWork = never, never
	r.lastBy = [2]moment{noMoment, noMoment}
	r.generation, r.carried = b.Generation, 0
	r.flags &= flagGrouped | flagAlerted | flagAnswered
	r.gapN, r.keyPolls, r.natsRunning = 0, 0, 0
	r.wait, r.uptime = WaitNone, 0
	r.burn, r.rate = float32(math.NaN()), float32(math.NaN())
	r.credits, r.spent, r.done, r.of = math.NaN(), 0, 0, 0
	r.creditAt, r.doneAt = noMoment, noMoment
	if sd := t.store.sideOf(r); sd != nil {
		old := *sd
		*sd = newSide()
		if sd.firstSeen = old.firstSeen; sd.firstSeen == noMoment {
			sd.firstSeen = seen
		}
		sd.oldBoots, sd.lateBeats = old.oldBoots, old.lateBeats
		sd.overtaken = [2]span{before, old.overtaken[0]}
		if old.boot != "" {
			copy(sd.oldBoots[1:], old.oldBoots[:])
			sd.oldBoots[0] = old.boot
		}
	}
}

// forgetOne makes room: it forgets a session that ended well long ago. Known
// sessions that have not ended are never forgotten.
func (t *Tracker) forgetOne() bool {
	const look = 64 // records to look at: a flood must not cost a scan each
	total := t.store.used
	for range min(look, total) {
		t.health.forgetAt = (t.health.forgetAt + 1) % uint32(total)
		n := t.health.forgetAt
		r := t.store.at(n)
		if r.birth == 0 || !r.verdict.Ended() || r.attention.Counted() {
			continue
		}
		if t.now.Mono-t.mono(r.since) > CompletedLinger {
			t.forget(n)
			return true
		}
	}
	return false
}

func (t *Tracker) forget(n uint32) {
	r := t.store.at(n)
	t.leftSilence(n, t.now.Mono)
	t.dropAlertsOf(n)
	t.count(r, -1)
	delete(t.suspects, n)
	delete(t.returned, n)
	if t.sweeping() {
		t.owe(n, false)
	}
	t.store.remove(n)
}

// thresholdIndex finds the thresholds that hold for an id: for each value the
// first override that matches and gives one.
func (t *Tracker) thresholdIndex(id []byte) uint16 {
	th := Thresholds{Policy: &t.policy, StallTimeout: t.policy.StallTimeout, StallFrom: fromPolicy,
		Interval: t.policy.HeartbeatInterval, IntervalFrom: fromPolicy, Quiet: t.policy.Quiet}
	if len(t.policy.Overrides) > 0 {
		name := string(id)
		quiet := false
		for _, o := range t.policy.Overrides {
			if ok, _ := path.Match(o.Match, name); !ok { // a bad pattern was refused by Validate
				continue
			}
			if o.StallTimeout > 0 && th.StallFrom == fromPolicy {
				th.StallTimeout, th.StallFrom = o.StallTimeout, fromOverride
			}
			if o.HeartbeatInterval > 0 && th.IntervalFrom == fromPolicy {
				th.Interval, th.IntervalFrom = o.HeartbeatInterval, fromOverride
			}
			if o.Quiet != "" && !quiet {
				th.Quiet, quiet = o.Quiet, true
			}
		}
	}
	for i := range t.thresholds {
		if t.thresholds[i] == th {
			return uint16(i)
		}
	}
	t.thresholds = append(t.thresholds, th)
	return uint16(len(t.thresholds) - 1)
}

// thresholdsOf are the thresholds of one session now: override over declared
// over learned over policy.
func (t *Tracker) thresholdsOf(r *record, sd *side) Thresholds {
	th := t.thresholds[r.thresholds]
	if th.StallFrom == fromPolicy && sd != nil && sd.stallTimeout > 0 {
		th.StallTimeout, th.StallFrom = sd.stallTimeout, fromDeclared
	}
	if th.IntervalFrom == fromPolicy {
		if sd != nil && sd.interval > 0 {
			th.Interval, th.IntervalFrom = sd.interval, fromDeclared
		} else if c := learnedCadence(&r.gaps, r.gapN); c > 0 {
			th.Interval, th.IntervalFrom = c, fromLearned
		}
	}
	return th
}

// facts gathers what Judge looks at.
func (t *Tracker) facts(n uint32, r *record, sd *side) Facts {
	f := Facts{
		Generation: r.generation, State: r.pub, StateSince: t.mono(r.stateAt), EndedAt: never,
		WedgedAt: never, LoopLag: -1,
		Carried: r.carried, LastBeat: r.lastBeat,
		LastBy:     [sourceCount]time.Duration{t.mono(r.lastBy[0]), t.mono(r.lastBy[1]), never, never},
		RedisAhead: r.flags&flagRedisAhead != 0,
		KeyHeld:    r.flags&flagKeyHeld != 0, KeyPolls: int(r.keyPolls), KeySeen: never, KeyGoneAt: never,
		NATSRunning: int(r.natsRunning),
		WorkKnown:   r.flags&flagWorkKnown != 0, LastWork: r.lastWork,
		Shown: r.flags&flagShown != 0, LastChange: t.mono(r.lastChange), FirstSeen: t.mono(r.firstSeen),
		Waiting: r.wait,
	}
	f.precise(r)
	f.SameBytes = t.sameBytes(r, sd)
	switch {
	case r.flags&flagAgeUnknown != 0:
		f.BeatKind = AgeUnknown
	case r.flags&flagAgeEstimated != 0:
		f.BeatKind = AgeEstimated
	}
	f.Unheard, f.LeaseHeld, f.LeaseGone = r.flags&flagUnheard != 0, never, never
	if sd != nil {
		f.fromSide(r, sd)
	}
	if len(t.books.byID) > 0 {
		if bk := t.books.of(t.store.idOf(r)); bk != nil {
			f.fromBook(r, bk)
		}
	}
	if r.flags&flagGrouped != 0 {
		f.Group, f.Held = t.heldWith(n)
	}
	return f
}

// fromBook takes what is known beside the beats.
func (f *Facts) fromBook(r *record, bk *book) {
	f.Trouble, f.NoticedAt = bk.settle.trouble, bk.noticed
	if r.generation != 0 && bk.head.Generation > r.generation {
		f.Overtaken = bk.head.Generation
	}
	if l := &bk.lease; (l.generation == 0 || l.generation == r.generation) && (l.boot == "" || f.BootID && l.boot == f.boot) {
		f.LeaseHeld, f.LeaseGone = l.held, l.gone
	}
}

// sameBytes reports whether the publisher may have sent the same bytes ever
// since Redis brought a beat: no sequence, no visible change, and an uptime that
// is missing or does not move.
func (t *Tracker) sameBytes(r *record, sd *side) bool {
	copied := r.lastBy[SourceRedis]
	if copied == noMoment || sd != nil && sd.seq >= 0 || r.lastChange > copied {
		return false
	}
	if r.flags&flagUptime == 0 {
		return true
	}
	behind := r.lastBeat - t.mono(r.start) - time.Duration(r.uptime)*time.Second
	return behind > max((r.lastBeat-t.mono(copied))/2, 2*time.Second)
}

// precise replaces the rounded moment of the source that brought the last beat.
func (f *Facts) precise(r *record) {
	for i := range r.lastBy {
		if d := f.LastBy[i] - r.lastBeat; f.LastBy[i] != never && d >= 0 && d < tickLength {
			f.LastBy[i] = r.lastBeat
		}
	}
}

func (f *Facts) fromSide(r *record, sd *side) {
	f.WedgedAt, f.LoopLag = sd.wedgedAt, sd.loopLag
	f.Terminal, f.Supervised, f.MaybeNew = sd.terminal, sd.supervised, sd.maybeNew
	f.KeySeen, f.KeyGoneAt, f.HTTPSilent = sd.keySeen, sd.keyGoneAt, sd.httpSilent
	f.WaitSince, f.WaitMax = sd.waitSince, sd.waitMax
	f.boot, f.BootID, f.Declared = sd.boot, sd.boot != "", sd.interval > 0
	if r.flags&flagEndedByBeat != 0 {
		f.EndedAt = sd.endedAt
	}
	if f.BeatKind == AgeEstimated {
		f.Missing = sd.estimatedAge
	}
}
