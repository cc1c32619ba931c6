package watchdog

import (
	"fmt"
	"time"
)

// Alerts follow from what happens to the verdicts, and from nothing else: one
// for each (session, generation, cause), one for a group that went silent
// together, one for a crash loop until the session has been stable for a while.
//
//	cause --> open --------> acked, snoozed, muted --> cause gone, or an acked bad end after CompletedLinger
//	            ^ \                     |
//	            |  `--> cause gone      |
//	            `-- new evidence, end --'
//
// An alert leaves with its cause. A bad end has no end of its own: its alert
// stays until somebody acknowledges it, or a newer execution runs; CompletedLinger
// after it was acknowledged it leaves, and the session leaves the list of what
// needs attention. The members of a group raise nothing of their own, neither
// while they are silent nor when they are lost after that.

const (
	// loopStable is how long a session must run after a crash loop for its alert
	// to leave.
	loopStable = 5 * time.Minute
	// tellSilentAfter is how long a silence waits before it is told: the others
	// of a group fall silent within one interval, and a group is told once.
	tellSilentAfter = 15 * time.Second
	// tellGroupAfter is how long a group waits, so that most of it is counted.
	tellGroupAfter = 10 * time.Second
	// maxTroubles bounds the alerts of no verdict; the oldest go first.
	maxTroubles = 1000
)

// alert is one that stands.
type alert struct {
	cause      AlertCause
	id         ID
	generation Generation
	rec        uint32              // of the session; valid with birth
	birth      uint32              // 0: of no session that is known
	group      *group              // while a member is silent
	lost       map[uint32]struct{} // members of the group that were lost
	groupKey   AlertKey

	began    time.Duration // Mono
	seq      uint64
	index    int  // in alerts.all; -1: it has left
	found    bool // it stood already when we first looked
	gone     bool // latched: its cause is over
	evidence uint64
	text     string // of a trouble; of a crash loop whose end is past

	standing Standing
	note     *AlertNote
	own      bool // the note is of this alert, not of a pattern
	raised   bool
	again    string // why it is told again

	tellAt, leaveAt, checkAt time.Duration // 0: not
}

// alerts are all that stand.
type alerts struct {
	all     []*alert
	of      map[uint32]*alert // by record: the one of its verdict
	loops   map[uint32]*alert // by record: its crash loop, latched
	credits map[uint32]*alert
	named   map[AlertKey]*alert // troubles
	groups  map[*group]*alert
	covered map[uint32]*alert // lost members of a group
	counts  [len(standingNames)]int
	beside  int // open ones that no verdict tells of
	timers  alertTimers
	seq     uint64

	notes   map[AlertKey]*AlertNote
	over    map[AlertKey]time.Time // notes, by when they were given, whose alert is gone
	mutes   []*AlertNote           // of patterns, by key
	nextEnd int64                  // wall clock, Unix nanoseconds, of the next end of a snooze or mute; 0 none
	noted   bool                   // a board told its notes
}

func newAlerts() alerts {
	return alerts{of: map[uint32]*alert{}, loops: map[uint32]*alert{}, credits: map[uint32]*alert{}, named: map[AlertKey]*alert{},
		groups: map[*group]*alert{}, covered: map[uint32]*alert{}}
}

// causeOf is what a verdict gives cause to.
func causeOf(v Verdict, rule ruleID, attention Attention) AlertCause {
	if !attention.Counted() {
		return CauseNone
	}
	switch v {
	case Stalled:
		return CauseStalled
	case Wedge:
		return CauseWedged
	case CrashLoop:
		return CauseCrashLoop
	case Lost:
		return CauseLost
	case Failed:
		return CauseError
	case Silent:
		return CauseSilent
	case Disputed:
		if rule == ruleForeignTerminal {
			return CauseForeign
		}
		return CauseDisputed
	case Waiting:
		if rule == ruleOverdue {
			return CauseOverdue
		}
		return CauseHuman
	case Running, Quiet, Unknown, Restarting, Completed, Stopped, Expired, VerdictCount:
	}
	return CauseNone
}

// alertVerdict opens and closes what the verdict of a record gives cause to.
func (t *Tracker) alertVerdict(n uint32, r *record, first bool) {
	as := &t.alerts
	c := causeOf(r.verdict, r.rule, r.attention)
	if c == CauseNone && r.flags&(flagAlerted|flagAnswered) == 0 && len(as.covered) == 0 {
		return // a healthy one
	}
	if g := as.covered[n]; g != nil && c != CauseLost {
		t.uncover(n, g)
	}
	if loop := as.loops[n]; loop != nil || c == CauseCrashLoop {
		c = t.alertLoop(n, r, loop, c, first)
	}
	if c == CauseSilent && r.flags&flagGrouped != 0 || c == CauseLost && as.covered[n] != nil {
		c = CauseNone
	}
	old, began := as.of[n], t.mono(r.since)
	if old != nil && old.cause == c && old.began == began && (old.generation == r.generation || old.generation == 0) {
		old.generation = r.generation
		return
	}
	if old != nil {
		t.closeAlert(old)
	}
	if c == CauseNone {
		t.markAnswered(n, r)
		return
	}
	a := t.newAlert(c, n, r, began)
	a.found = first
	as.of[n] = a
	r.flags |= flagAlerted
	t.openAlert(a)
	t.markAnswered(n, r)
}

// alertStill looks whether a record whose verdict did not change is still the
// execution that its alert is about, and has no more to tell.
func (t *Tracker) alertStill(n uint32, r *record) {
	if a := t.alerts.of[n]; a != nil && (a.generation != r.generation || a.began != t.mono(r.since)) {
		t.alertVerdict(n, r, false)
	}
	if a := t.alerts.loops[n]; a != nil && r.verdict == CrashLoop {
		t.alertLoop(n, r, a, CauseCrashLoop, false)
	}
}

// alertLoop follows a crash loop, and gives what cause is left for an alert
// beside it. Each exit until it is stable belongs to the same loop.
func (t *Tracker) alertLoop(n uint32, r *record, a *alert, c AlertCause, first bool) AlertCause {
	switch {
	case c == CauseCrashLoop && a == nil:
		a = t.newAlert(c, n, r, t.mono(r.since))
		a.found, a.evidence, a.text = first, t.exitsOf(r), t.loopText(r)
		t.alerts.loops[n] = a
		r.flags |= flagAlerted
		t.openAlert(a)
		return CauseNone
	case c == CauseCrashLoop || c == CauseError:
		a.gone, a.leaveAt, a.generation = false, 0, r.generation
		if c == CauseCrashLoop {
			a.text = t.loopText(r)
		}
		if e := t.exitsOf(r); e != a.evidence {
			a.evidence = e
			t.stand(a, "another exit")
		}
		t.markAnswered(n, r)
		return CauseNone
	case r.verdict.Ended() && c == CauseNone: // somebody stopped it, or it ended well
		t.closeAlert(a)
	case !a.gone:
		a.gone = true
		t.leaveAfter(a, loopStable)
	}
	return c
}

// exitsOf changes with each exit of a supervised child.
func (t *Tracker) exitsOf(r *record) uint64 {
	e := uint64(r.generation) << 32
	if sd := t.store.sideOf(r); sd != nil {
		e |= uint64(uint32(sd.supervised.Process.Restarts))
	}
	return e
}

// newAlert makes one of a session.
func (t *Tracker) newAlert(c AlertCause, n uint32, r *record, began time.Duration) *alert {
	a := &alert{cause: c, id: ID(t.store.idOf(r)), generation: r.generation, rec: n, birth: r.birth, began: began}
	a.evidence = uint64(max(t.instantAt(began).Wall, 0)) / uint64(time.Second)
	return a
}

// key is the alert's name. It changes when its execution gets a number.
func (a *alert) key() AlertKey {
	switch {
	case a.cause == CauseGroup:
		return a.groupKey
	case a.id == "":
		return AlertKey(keyFleet + a.cause.String())
	case a.cause == CauseCrashLoop: // goes on over its executions
		return sessionKey(a.id, 0, a.cause)
	}
	return sessionKey(a.id, a.generation, a.cause)
}

// openAlert puts an alert among those that stand.
func (t *Tracker) openAlert(a *alert) {
	as := &t.alerts
	as.seq++
	a.seq, a.index = as.seq, len(as.all)
	as.all = append(as.all, a)
	as.tally(a, +1)
	t.changes++
	if t.stand(a, ""); a.standing == AlertOpen {
		t.tell(a, "")
	}
}

// tally counts an alert as it stands.
func (as *alerts) tally(a *alert, by int) {
	as.counts[a.standing] += by
	switch a.cause {
	case CauseCredits, CauseAction, CauseReapRate:
		if a.standing == AlertOpen {
			as.beside += by
		}
	}
}

// closeAlert takes away an alert whose cause is gone. What answered it must not
// answer the next one.
func (t *Tracker) closeAlert(a *alert) {
	// Of an execution there are two if one was written before it had a number.
	for n := t.noteOn(a); n != nil && n.Kind != NoteMute; n = t.noteOn(a) {
		t.endNote(n)
		if a.cause == CauseGroup {
			break // the next is of another silence
		}
	}
	t.dropAlert(a)
}

// dropAlert takes an alert away.
func (t *Tracker) dropAlert(a *alert) {
	as := &t.alerts
	if a.index < 0 {
		return
	}
	last := as.all[len(as.all)-1]
	as.all[a.index], last.index = last, a.index
	as.all[len(as.all)-1] = nil
	as.all = as.all[:len(as.all)-1]
	a.index = -1
	as.tally(a, -1)
	t.changes++
	switch a.cause {
	case CauseGroup:
		for n := range a.lost {
			delete(as.covered, n)
			t.markAnswered(n, t.store.at(n))
		}
		if as.groups[a.group] == a {
			delete(as.groups, a.group)
		}
		return
	case CauseAction, CauseReapRate:
		delete(as.named, a.key())
		return
	case CauseCredits:
		delete(as.credits, a.rec)
		return
	case CauseCrashLoop:
		delete(as.loops, a.rec)
	default:
		delete(as.of, a.rec)
	}
	r := t.store.at(a.rec)
	if as.of[a.rec] == nil && as.loops[a.rec] == nil {
		r.flags &^= flagAlerted
	}
	t.markAnswered(a.rec, r)
}

// dropAlertsOf forgets the alerts of a record that is forgotten.
func (t *Tracker) dropAlertsOf(n uint32) {
	as := &t.alerts
	for _, a := range [...]*alert{as.of[n], as.loops[n], as.credits[n]} {
		if a != nil {
			t.dropAlert(a)
		}
	}
	if g := as.covered[n]; g != nil {
		t.uncover(n, g)
	}
}

// markAnswered notes on a record whether somebody answered what it needs: such
// ones come after the others in the list.
func (t *Tracker) markAnswered(n uint32, r *record) {
	r.flags &^= flagAnswered
	if a := t.alertOf(n, r); a != nil && a.standing != AlertOpen {
		r.flags |= flagAnswered
	}
}

// alertOf is the alert that tells of the verdict of a record; nil: none does.
func (t *Tracker) alertOf(n uint32, r *record) *alert {
	as := &t.alerts
	switch {
	case r.flags&flagGrouped != 0 && r.verdict == Silent:
		return as.groups[t.brake.byRec[n]]
	case as.covered[n] != nil:
		return as.covered[n]
	case as.of[n] != nil:
		return as.of[n]
	case r.verdict == CrashLoop || r.verdict == Failed:
		return as.loops[n]
	}
	return nil
}

// trouble opens and closes an alert that no verdict tells of.
func (t *Tracker) outsideTrouble(e Trouble) {
	as := &t.alerts
	a := &alert{cause: e.Cause, id: e.ID, generation: e.Generation, began: max(t.now.Mono, e.At), evidence: e.Evidence, text: e.Text}
	if n, ok := t.store.find([]byte(e.ID)); ok && e.ID != "" {
		a.rec, a.birth = n, t.store.at(n).birth
	}
	old := as.named[a.key()]
	switch {
	case e.Over && old != nil:
		t.closeAlert(old)
	case e.Over:
	case old != nil:
		old.text = e.Text
		if old.evidence != e.Evidence {
			old.evidence = e.Evidence
			t.stand(old, "it happened again")
		}
	default:
		if len(as.named) >= maxTroubles {
			t.dropAlert(t.oldestTrouble())
		}
		as.named[a.key()] = a
		t.openAlert(a)
	}
}

func (t *Tracker) oldestTrouble() *alert {
	var oldest *alert
	for _, a := range t.alerts.named {
		if oldest == nil || a.seq < oldest.seq {
			oldest = a
		}
	}
	return oldest
}

// groupFormed opens the alert of a correlated silence.
func (t *Tracker) groupFormed(g *group) {
	began := t.instantAt(g.began).Wall / int64(time.Second)
	a := &alert{cause: CauseGroup, group: g, began: g.began, lost: map[uint32]struct{}{}, evidence: uint64(len(g.members)),
		groupKey: AlertKey(fmt.Sprint(keyGroup, began))}
	t.alerts.groups[g] = a
	t.openAlert(a)
	t.markGroup(a)
}

// groupJoined takes a session into the alert of its group.
func (t *Tracker) groupJoined(g *group, n uint32) {
	as := &t.alerts
	if own := as.of[n]; own != nil {
		t.closeAlert(own)
	}
	a := as.groups[g]
	if a == nil {
		return // it forms just now
	}
	if size := uint64(a.size()); size > a.evidence {
		more := size - a.evidence
		a.evidence = size
		if a.standing == AlertMuted && !a.own && !t.matchesOne(a.note, n) || a.note != nil && !t.covers(a.note, a) {
			t.stand(a, FormatCount(more)+" more")
		}
	}
	t.markAnswered(n, t.store.at(n))
}

// size is how many sessions an alert is about.
func (a *alert) size() int {
	switch {
	case a.cause == CauseGroup && a.group != nil:
		return len(a.group.members) + len(a.lost)
	case a.cause == CauseGroup:
		return len(a.lost)
	case a.id == "":
		return 0
	}
	return 1
}

// groupLeft follows a session that is no longer silent. One that was lost stays
// with its group; the last that is silent ends the group.
func (t *Tracker) groupLeft(g *group, n uint32, over bool) {
	as := &t.alerts
	a := as.groups[g]
	if a == nil {
		return
	}
	if t.store.at(n).verdict == Lost {
		a.lost[n] = struct{}{}
		as.covered[n] = a
	}
	if !over {
		return
	}
	delete(as.groups, g)
	a.group = nil
	if len(a.lost) == 0 {
		t.closeAlert(a)
		return
	}
	a.gone = true
	t.leaveIfAcked(a)
}

// uncover takes a lost session out of the alert of its group: a newer execution
// runs, or it is forgotten.
func (t *Tracker) uncover(n uint32, a *alert) {
	delete(t.alerts.covered, n)
	delete(a.lost, n)
	if a.group == nil && len(a.lost) == 0 {
		t.closeAlert(a)
	}
}

// markGroup notes on all members whether their alert is answered.
func (t *Tracker) markGroup(a *alert) {
	if a.group != nil {
		for n := range a.group.members {
			t.markAnswered(n, t.store.at(n))
		}
	}
	for n := range a.lost {
		t.markAnswered(n, t.store.at(n))
	}
}
