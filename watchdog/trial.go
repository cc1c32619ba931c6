package watchdog

import (
	"cmp"
	"slices"
	"time"
)

// Trial judges one stream of inputs by two policies at once: the one in force
// and another, and keeps what each would have told a person. It is told what a
// Tracker is told, and answers nothing: nothing of a trial is ever published,
// settled or shown as an alert.
//
// Each side settles what it finds due in a ledger of its own, as a sweeper
// would, so that an end that the policy in force led to does not hide what the
// other would have said. Ends that somebody decided, and those that a publisher
// told, hold for both.
//
// A Trial is used from one goroutine.
type Trial struct {
	now, would *trialSide
	start      Instant
	last       Instant
	ended      map[generationKey]bool // by somebody, not by a policy
}

// NewTrial begins to judge at start. Both policies must be valid.
func NewTrial(now, would Policy, start Instant) *Trial {
	return &Trial{now: newTrialSide(now, start), would: newTrialSide(would, start), start: start, last: start,
		ended: map[generationKey]bool{}}
}

// ApplyBeats takes in beats. Their bytes are not kept.
func (t *Trial) ApplyBeats(batch []Beat) {
	t.now.tracker.ApplyBeats(batch)
	t.would.tracker.ApplyBeats(batch)
}

// Apply takes in any other event. It never gives effects.
func (t *Trial) Apply(ev Event) []Effect {
	switch e := ev.(type) {
	case LedgerChanged, Swept, SettleFailed:
		return nil // each side has a ledger of its own
	case HeadSeen:
		ended := t.ended[generationKey{e.Head.ID, e.Head.Generation}]
		t.now.knowHead(e.Head, ended)
		t.would.knowHead(e.Head, ended)
		return nil
	case Claimed:
		t.now.knowClaim(e)
		t.would.knowClaim(e)
		return nil
	case TerminalSeen:
		if madeByPolicy(&e) {
			return nil
		}
		t.ended[generationKey{e.ID, e.Generation}] = true
	case Ticked:
		t.last = e.Now
	}
	t.now.apply(ev)
	t.would.apply(ev)
	return nil
}

// madeByPolicy reports whether an end followed from thresholds alone: another
// policy might not have led to it.
func madeByPolicy(e *TerminalSeen) bool {
	return e.Outcome == OutcomeLost && !e.Foreign && (e.SettledBy == BySweeper || e.SettledBy == ByReaper || e.SettledBy == "")
}

// TrialEnd says what became of a raise.
type TrialEnd uint8

// The ends of a raise.
const (
	TrialOpen      TrialEnd = iota // it stood at the end of what was seen
	TrialRecovered                 // by itself: the execution went on or ended well; a lost one beat again
	TrialWorse                     // another verdict that needs a person took its place
	TrialActed                     // somebody acted: stopped, expired, restarted, or began a newer execution
)

var trialEndNames = [...]string{"open", "recovered", "went on", "acted on"}

// String is the word for people and JSON.
func (e TrialEnd) String() string { return trialEndNames[e] }

// TrialRaise is one time at which a policy says of an execution what needs a person.
type TrialRaise struct {
	At, Until Instant // Until is the end of what was seen, if it stood then
	End       TrialEnd
	Next      Verdict // that came after it, unless it is open
	Text      string  // why, as far as it was put into words
}

// Lasted is how long it stood, or stands.
func (r *TrialRaise) Lasted() time.Duration { return max(r.Until.Mono-r.At.Mono, 0) }

// Tried is what two policies say of the same execution at the same time.
type Tried struct {
	ID         ID
	Generation Generation // 0 not known
	Verdict    Verdict
	Now, Would *TrialRaise // nil: that policy does not raise it
}

// First is when the earlier of the two is raised.
func (t *Tried) First() Instant {
	switch {
	case t.Now == nil:
		return t.Would.At
	case t.Would == nil || t.Now.At.Mono <= t.Would.At.Mono:
		return t.Now.At
	}
	return t.Would.At
}

// sameMoment is within what two raises are the same: a tick and a second's
// rounding.
const sameMoment = time.Second

// Same reports whether both raise it, at the same time and with the same end.
func (t *Tried) Same() bool {
	return t.Now != nil && t.Would != nil && t.Now.End == t.Would.End &&
		(t.Now.At.Mono-t.Would.At.Mono).Abs() <= sameMoment && (t.Now.Until.Mono-t.Would.Until.Mono).Abs() <= sameMoment
}

// TrialCount counts raises of one policy.
type TrialCount struct{ Raised, Recovered int }

// TrialVerdict counts what was raised under one verdict.
type TrialVerdict struct {
	Verdict    Verdict
	Now, Would TrialCount
	New, Gone  int // raised by one of the policies alone
}

// TrialOwn says for how many sessions a threshold that is tried does not count,
// because something of their own comes first.
type TrialOwn struct {
	Name     string
	From     string // declared, learned, override
	Sessions int
}

// TrialResult is what came of a trial.
type TrialResult struct {
	From, To   Instant // what was judged
	Now, Would Policy
	Changes    []string // in what they differ
	Sessions   int      // that beat in that time
	Beats      uint64

	Verdicts               []TrialVerdict // of those that were raised, most urgent first
	Raised                 []Tried        // oldest first
	GroupsNow, GroupsWould int            // correlated silences that were one alert each and held
	Own                    []TrialOwn
	Unlisted               int // raises beyond those that are kept; counted all the same
}

// Differences counts what is not the same under both policies.
func (r *TrialResult) Differences() int {
	n := 0
	for i := range r.Raised {
		if !r.Raised[i].Same() {
			n++
		}
	}
	return n
}

// Total sums the counts of all verdicts.
func (r *TrialResult) Total() TrialVerdict {
	var sum TrialVerdict
	for _, v := range r.Verdicts {
		sum.Now.Raised += v.Now.Raised
		sum.Now.Recovered += v.Now.Recovered
		sum.Would.Raised += v.Would.Raised
		sum.Would.Recovered += v.Would.Recovered
		sum.New += v.New
		sum.Gone += v.Gone
	}
	return sum
}

// Result is what came of it so far.
func (t *Trial) Result() TrialResult {
	t.now.drain()
	t.would.drain()
	r := TrialResult{From: t.start, To: t.last, Now: t.now.policy, Would: t.would.policy,
		Sessions: t.would.tracker.store.count, Beats: t.would.tracker.beats,
		GroupsNow: t.now.groups, GroupsWould: t.would.groups, Unlisted: t.now.unlisted + t.would.unlisted}
	r.Changes = TrialChanges(&r.Now, &r.Would)
	r.Raised = pair(t.now.finished(t.last), t.would.finished(t.last))
	for v := range VerdictCount {
		row := TrialVerdict{Verdict: v, Now: t.now.counts[v], Would: t.would.counts[v]}
		for i := range r.Raised {
			switch k := &r.Raised[i]; {
			case k.Verdict != v:
			case k.Now == nil:
				row.New++
			case k.Would == nil:
				row.Gone++
			}
		}
		if row.Now.Raised+row.Would.Raised > 0 {
			r.Verdicts = append(r.Verdicts, row)
		}
	}
	slices.SortStableFunc(r.Verdicts, func(a, b TrialVerdict) int {
		return cmp.Compare(verdicts[a.Verdict].attention, verdicts[b.Verdict].attention)
	})
	r.Own = t.would.own(&r.Now, &r.Would)
	return r
}

// pair puts together what both sides raised of an execution under one verdict
// while the times touch.
func pair(now, would []sideRaise) []Tried {
	type key struct {
		id      ID
		began   moment
		verdict Verdict
	}
	waiting := map[key][]*sideRaise{}
	for i := range now {
		k := key{now[i].id, now[i].began, now[i].verdict}
		waiting[k] = append(waiting[k], &now[i])
	}
	var out []Tried
	add := func(r *sideRaise, a, b *TrialRaise) {
		out = append(out, Tried{ID: r.id, Generation: r.generation, Verdict: r.verdict, Now: a, Would: b})
	}
	for i := range would {
		w := &would[i]
		k := key{w.id, w.began, w.verdict}
		list := waiting[k]
		at := slices.IndexFunc(list, func(n *sideRaise) bool {
			return n.At.Mono <= w.Until.Mono && w.At.Mono <= n.Until.Mono
		})
		if at < 0 {
			add(w, nil, &w.TrialRaise)
			continue
		}
		add(w, &list[at].TrialRaise, &w.TrialRaise)
		waiting[k] = slices.Delete(list, at, at+1)
	}
	for _, list := range waiting {
		for _, n := range list {
			add(n, &n.TrialRaise, nil)
		}
	}
	slices.SortFunc(out, func(a, b Tried) int {
		return cmp.Or(cmp.Compare(a.First().Mono, b.First().Mono), compareIDs(a.ID, b.ID), cmp.Compare(a.Verdict, b.Verdict),
			cmp.Compare(a.Generation, b.Generation))
	})
	return out
}
