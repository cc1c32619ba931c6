package watchdog

import "time"

// ruleID names the row of the verdict table that matched.
type ruleID uint8

const (
	ruleRunning ruleID = iota
	ruleTerminal
	ruleEndBeat
	ruleSupervisor
	ruleBlind
	ruleLoopWatchdog
	ruleLoopLag
	rulePublisherStalled
	ruleBeatsMissed
	ruleKeyGone
	ruleWaiting
	ruleOverdue
	ruleWaitOver
	ruleWorkStalled
	ruleForeignTerminal
	ruleKeyDisputed
	ruleBusDisputed
	ruleQuiet
	ruleQuietStalled
	ruleUnheard
	ruleHTTPDisputed
	ruleCount
)

var ruleNames = [ruleCount]string{
	ruleRunning:          "nothing speaks against it",
	ruleTerminal:         "terminal record",
	ruleEndBeat:          "publisher ended",
	ruleSupervisor:       "supervisor",
	ruleBlind:            "every source that carried it is blind",
	ruleLoopWatchdog:     "loop watchdog",
	ruleLoopLag:          "loop lag over limit",
	rulePublisherStalled: "publisher says stalled",
	ruleBeatsMissed:      "beats missed",
	ruleKeyGone:          "key gone, no other source",
	ruleWaiting:          "declared wait",
	ruleOverdue:          "declared wait overdue",
	ruleWaitOver:         "wait over, no work since",
	ruleWorkStalled:      "work over stall timeout",
	ruleForeignTerminal:  "foreign terminal record",
	ruleKeyDisputed:      "bus says running, key gone",
	ruleBusDisputed:      "fresh on one source, silent on another",
	ruleQuiet:            "no visible change",
	ruleQuietStalled:     "no visible change, policy says stalled",
	ruleHTTPDisputed:     "HTTP heartbeats stopped, beats elsewhere",
	ruleUnheard:          "known from the ledger, not heard",
}

// forever is a deadline that never comes.
const forever = time.Duration(1<<63 - 1)

// decision is a verdict before it is put into words.
type decision struct {
	verdict   Verdict
	rule      ruleID
	since     time.Duration // Mono at which the verdict began; never: when it was noticed
	next      time.Duration // Mono at which it must be looked at again if nothing arrives; forever
	threshold time.Duration
	unproven  bool      // a deadline has passed, and waits for a source to prove that it still tells us all
	blind     SourceSet // a deadline waits for the sight of these; 0 none
}

// Judge gives the verdict on a session and the evidence for it, from facts and
// thresholds alone. It is the only place that decides; the rows are those of
// spec S6, the first that matches wins.
func Judge(f *Facts, th *Thresholds, v *View, now time.Duration) (Verdict, Evidence) {
	d := decide(f, th, v, now)
	return d.verdict, explain(&d, f, th, v, now)
}

// decide is Judge without words and without allocation.
func decide(f *Facts, th *Thresholds, v *View, now time.Duration) decision {
	if d, ok := decideEnded(f); ok {
		return d
	}
	blind := v.blindness(f.Carried)
	if f.Carried != 0 && f.Carried&v.Sighted == 0 && blind.Open() {
		return decision{verdict: Unknown, rule: ruleBlind, since: blind.Since(), next: forever}
	}
	return decideSighted(f, th, v, now)
}

// decideEnded covers the rows that hold whether we see or not.
func decideEnded(f *Facts) (decision, bool) {
	// A supervisor that starts it again, or holds it, goes on from the end of the
	// generation that failed, however late that end is told.
	switch f.Supervised.Phase {
	case SupervisorCrashLoop:
		return decision{verdict: CrashLoop, rule: ruleSupervisor, since: f.Supervised.At, next: forever}, true
	case SupervisorRestarting:
		return decision{verdict: Restarting, rule: ruleSupervisor, since: f.Supervised.At, next: forever}, true
	case SupervisorNone, SupervisorRunning, SupervisorStopping, SupervisorHeld:
	}
	if f.Terminal.ends() {
		return decision{verdict: verdictOfOutcome(f.Terminal.Outcome), rule: ruleTerminal, since: f.Terminal.At, next: forever}, true
	}
	if f.EndedAt != never {
		verdict := Completed
		if f.State == StateError {
			verdict = Failed
		}
		return decision{verdict: verdict, rule: ruleEndBeat, since: f.EndedAt, next: forever}, true
	}
	return decision{}, false
}

func verdictOfOutcome(o Outcome) Verdict {
	switch o {
	case OutcomeError:
		return Failed
	case OutcomeStopped:
		return Stopped
	case OutcomeLost:
		return Lost
	case OutcomeExpired:
		return Expired
	case OutcomeCompleted, OutcomeNone:
	}
	return Completed
}

// decideSighted covers the rows below unknown. next is the earliest deadline
// of any row that has not matched yet.
func decideSighted(f *Facts, th *Thresholds, v *View, now time.Duration) decision {
	if f.WedgedAt != never {
		return decision{verdict: Wedge, rule: ruleLoopWatchdog, since: f.WedgedAt, next: forever}
	}
	if f.LoopLag > th.LoopLagLimit {
		return decision{verdict: Wedge, rule: ruleLoopLag, since: f.LastBeat, next: forever, threshold: th.LoopLagLimit}
	}
	if f.State == StateStalled {
		return decision{verdict: Stalled, rule: rulePublisherStalled, since: f.StateSince, next: forever}
	}
	p := pending{next: forever}
	d := decideDue(f, th, v, now, func(set SourceSet, at time.Duration) bool { return p.due(f, th, v, set, at, now) })
	d.next, d.unproven, d.blind = p.next, p.unproven, p.blind
	return d
}

// pending gathers what a decision waits for.
type pending struct {
	next     time.Duration
	unproven bool
	blind    SourceSet
}

// due reports whether the deadline at, which rests on the sight of set, has
// passed; if not it notes what it waits for. An empty set rests on none.
func (p *pending) due(f *Facts, th *Thresholds, v *View, set SourceSet, at, now time.Duration) bool {
	b := v.blindness(set)
	switch {
	case b.Clock(now) >= at:
		if !v.proven(set, at, f.LastBeat, th.Interval) {
			p.unproven = true
			return false
		}
		return true
	case b.Open():
		p.blind = set
	default:
		p.next = min(p.next, at)
	}
	return false
}

// decideDue covers the rows that rest on deadlines. due reports whether one has
// passed, and is told of every one that has not.
func decideDue(f *Facts, th *Thresholds, v *View, now time.Duration, due func(SourceSet, time.Duration) bool) decision {
	if f.Unheard {
		return decideUnheard(f, th, v, due)
	}
	if silent := silentAt(f, th, v); due(f.Carried, silent) {
		return decision{verdict: Silent, rule: ruleBeatsMissed, since: silent, next: forever, threshold: silent - f.LastBeat}
	}
	if f.Carried == SourceRedis.Set() && f.KeyPolls >= 2 && due(f.Carried, absenceCounts(v, th)) {
		return decision{verdict: Silent, rule: ruleKeyGone, since: f.KeyGoneAt, next: forever}
	}
	if d, ok := decideWait(f, th, v, now, due); ok {
		return d
	}
	if f.WorkKnown {
		if at := workDeadline(f, th, v); due(f.Carried, at) {
			return decision{verdict: Stalled, rule: ruleWorkStalled, since: at, next: forever, threshold: th.StallTimeout}
		}
	}
	if d, ok := decideDispute(f, th, v, now, due); ok {
		return d
	}
	if d, ok := decideQuiet(f, th, v, now, due); ok {
		return d
	}
	return decision{verdict: Running, rule: ruleRunning, since: never, next: forever}
}

// decideUnheard is the share of sessions that only the ledger, or a supervisor,
// has told us of. Who told us does not say that they live; their silence counts
// from then, where it would tell us anything at all.
func decideUnheard(f *Facts, th *Thresholds, v *View, due func(SourceSet, time.Duration) bool) decision {
	started := f.Supervised.Phase == SupervisorRunning
	if f.Carried != 0 && (th.CadenceKnown() || started) {
		if silent := silentAt(f, th, v); due(f.Carried, silent) {
			return decision{verdict: Silent, rule: ruleBeatsMissed, since: silent, next: forever, threshold: silent - f.LastBeat}
		}
	}
	switch {
	case f.Terminal.Foreign:
		return decision{verdict: Disputed, rule: ruleForeignTerminal, since: f.Terminal.At, next: forever}
	case started:
		return decision{verdict: Running, rule: ruleRunning, since: never, next: forever}
	}
	return decision{verdict: Unknown, rule: ruleUnheard, since: f.LastBeat, next: forever}
}

// silentAt is the Mono at which a session becomes silent if nothing arrives.
func silentAt(f *Facts, th *Thresholds, v *View) time.Duration {
	after := v.stretch(silentAfter(th.Interval, th.SilentAfterMissed))
	return v.moved(f.Carried, f.LastBeat, f.LastBeat+after, th.Interval)
}

// absenceCounts is when the absence of a key means something again: one
// cadence after the store reconnected, restarted or changed its topology.
func absenceCounts(v *View, th *Thresholds) time.Duration {
	changed := v.StoreAt[SourceRedis]
	if changed == never {
		return never
	}
	return changed + th.Interval
}

// waitLimit is the declared maximum under the policy's cap.
func waitLimit(f *Facts, th *Thresholds) time.Duration {
	if f.WaitMax <= 0 {
		return th.MaxWait
	}
	return min(f.WaitMax, th.MaxWait)
}

// decideWait: inside its maximum, overdue past it, and stalled once the stall
// clock, which starts at the maximum's end, has run.
func decideWait(f *Facts, th *Thresholds, v *View, now time.Duration, due func(SourceSet, time.Duration) bool) (decision, bool) {
	if f.Waiting == WaitNone {
		return decision{}, false
	}
	limit := waitLimit(f, th)
	end := v.moved(f.Carried, f.WaitSince, f.WaitSince+limit, th.Interval)
	stalled := end + v.stretch(th.StallTimeout)
	if f.Waiting == WaitHuman {
		due(0, f.WaitSince+HumanWaitAttention) // its rank changes then
	}
	if !due(f.Carried, end) {
		return decision{verdict: Waiting, rule: ruleWaiting, since: f.WaitSince, next: forever, threshold: limit}, true
	}
	if !due(f.Carried, stalled) {
		return decision{verdict: Waiting, rule: ruleOverdue, since: f.WaitSince, next: forever, threshold: limit}, true
	}
	return decision{verdict: Stalled, rule: ruleWaitOver, since: stalled, next: forever, threshold: th.StallTimeout}, true
}

// workDeadline is when the stall clock runs out. The beat itself said how old
// the work was, so only blindness after the beat moves it.
func workDeadline(f *Facts, th *Thresholds, v *View) time.Duration {
	return untold(f, th, v, v.moved(f.Carried, f.LastBeat, f.LastWork+v.stretch(th.StallTimeout), th.Interval))
}

// coarseBelow is how many intervals a limit must have to be told between two beats.
const coarseBelow = 4

// untold gives a clock that beats alone can stop until the next one is due, if
// they are rare beside its limit: who was fine when it beat last, long before it,
// may have worked since, and nobody could know.
func untold(f *Facts, th *Thresholds, v *View, at time.Duration) time.Duration {
	if f.LastBeat >= at || th.StallTimeout >= coarseBelow*th.Interval {
		return at
	}
	after := v.stretch(silentAfter(th.Interval, 1))
	return max(at, v.moved(f.Carried, f.LastBeat, f.LastBeat+after, th.Interval))
}

// decideDispute compares what the sources say of the same generation.
func decideDispute(f *Facts, th *Thresholds, v *View, now time.Duration, due func(SourceSet, time.Duration) bool) (decision, bool) {
	if f.Terminal.Foreign {
		return decision{verdict: Disputed, rule: ruleForeignTerminal, since: f.Terminal.At, next: forever}, true
	}
	if f.HTTPSilent != 0 {
		return decision{verdict: Disputed, rule: ruleHTTPDisputed, since: f.HTTPSilent, next: forever}, true
	}
	both := SourceNATS.Set() | SourceRedis.Set()
	if f.Carried&both == both && f.KeyHeld && f.KeyPolls >= 2 && f.NATSRunning >= 2 {
		at := absenceCounts(v, th)
		if v.Sighted&both != both {
			at = max(at, now+th.Interval) // cannot tell now
		}
		if due(0, at) {
			return decision{verdict: Disputed, rule: ruleKeyDisputed, since: f.KeyGoneAt, next: forever}, true
		}
	}
	for _, src := range [...]Source{SourceNATS, SourceRedis} {
		if !f.Carried.Has(src) || f.LastBy[src] == never || f.LastBy[src] == f.LastBeat {
			continue
		}
		if src == SourceRedis && f.SameBytes {
			continue // an unchanged copy may be as it should
		}
		if src == SourceNATS && f.LastBy[SourceRedis] == f.LastBeat && !f.RedisAhead {
			continue // the copy may be of that same moment, and was only polled later
		}
		after := v.stretch(silentAfter(th.Interval, th.SilentAfterMissed))
		at := v.moved(src.Set(), f.LastBy[src], f.LastBy[src]+after, th.Interval)
		if src == SourceRedis {
			// Who says stalled refreshes no key: it is due again with the new state.
			at = max(at, f.StateSince+after)
			if f.KeyPolls > 0 {
				at = max(at, absenceCounts(v, th))
			}
		}
		if due(src.Set(), at) {
			return decision{verdict: Disputed, rule: ruleBusDisputed, since: at, next: forever, threshold: after}, true
		}
	}
	return decision{}, false
}

// quietAt is when a session becomes quiet if nothing visible changes.
func quietAt(f *Facts, th *Thresholds, v *View) time.Duration {
	from := max(f.LastChange, f.FirstSeen)
	return untold(f, th, v, v.moved(f.Carried, from, from+v.stretch(th.StallTimeout), th.Interval))
}

// decideQuiet: a publisher without a WORK clock says running, and nothing that
// can be seen changed. Free-text states are judged by their beats alone.
func decideQuiet(f *Facts, th *Thresholds, v *View, now time.Duration, due func(SourceSet, time.Duration) bool) (decision, bool) {
	if f.WorkKnown || !f.Shown || f.State != StateRunning || th.Quiet == QuietIgnore {
		return decision{}, false
	}
	at := quietAt(f, th, v)
	if !due(f.Carried, at) {
		return decision{}, false
	}
	d := decision{verdict: Quiet, rule: ruleQuiet, since: at, next: forever, threshold: th.StallTimeout}
	if th.Quiet == QuietStalled {
		d.verdict, d.rule = Stalled, ruleQuietStalled
	}
	return d, true
}

// attentionOf ranks a verdict; a wait needs attention by who it waits for and
// how long.
func attentionOf(verdict Verdict, rule ruleID, wait Wait, waited time.Duration) Attention {
	if verdict == Waiting && (rule == ruleOverdue || wait == WaitHuman && waited >= HumanWaitAttention) {
		return AttentionWait
	}
	return verdicts[verdict].attention
}
