package watchdog

import (
	"time"
)

// settling is how a generation will end by itself, and when.
type settling struct {
	outcome Outcome
	by      SettledBy
	reason  string
	at      time.Duration // Mono from which it may be written if nothing arrives; forever: not by time
	over    bool          // that moment has passed, and was seen to pass
	due     bool          // nothing stands in the way any more
	waits   string        // what else stands in the way, for people; empty nothing

	next     time.Duration // Mono at which it must be looked at again; forever
	unproven bool          // it waits for a source to prove that it told us all
	blind    SourceSet     // it waits for the sight of these
}

// What keeps a generation from being lost by itself, whatever time passes.
const (
	waitsCadence     = "cadence unknown, never lost by itself"
	waitsRedisAlone  = "seen by Redis alone, never lost by itself"
	waitsNobodyTells = "nothing that we see would tell of it, never lost by itself"
	waitsStalled     = "it said stalled and has no lease, never lost by itself"
	waitsForeign     = "a foreign terminal record stands in the way"
	waitsSupervisor  = "its supervisor settles it"
)

// neverByItself reports whether what a settlement waits for is not a matter of
// time, of the ledger, or of an operator.
func neverByItself(waits string) bool {
	switch waits {
	case waitsCadence, waitsRedisAlone, waitsNobodyTells, waitsStalled, waitsForeign, waitsSupervisor:
		return true
	}
	return false
}

// reasonSuperseded is the reason of a generation that was overtaken without an
// end.
const reasonSuperseded = "superseded"

// reaperHead is how much longer than the registry's TTL a sweeper gives a
// session that only HTTP carries: settling it is the reaper's office, and who
// sweeps stands in for one that died.
const reaperHead = 30 * time.Second

// decideSettle says how the generation of f is settled without anybody's order:
// the agent's own end once it is confirmed, and the loss of its runner. It is
// Judge's share in settling: pure, and asked again right before the write.
func decideSettle(f *Facts, th *Thresholds, v *View, now time.Duration) settling {
	s := settling{at: forever, next: forever}
	switch {
	case f.Terminal.ends():
		return s
	case f.Terminal.Foreign:
		s.waits = waitsForeign
		return s
	case f.EndedAt != never:
		s.ownEnd(f, th, v, now)
	case f.Supervised.Phase > SupervisorRunning:
		s.waits = waitsSupervisor
		return s
	case f.Overtaken != 0:
		s.superseded(f, th, v, now)
	default:
		s.lost(f, th, v, now)
	}
	if s.waits == "" {
		s.waits = obstacle(f, v)
	}
	s.due = s.over && s.waits == ""
	return s
}

// ownEnd is confirmed when no contrary beat came for one cadence, or 5 s.
func (s *settling) ownEnd(f *Facts, th *Thresholds, v *View, now time.Duration) {
	s.outcome, s.by, s.reason = OutcomeCompleted, ByAgent, f.Message
	if f.State == StateError {
		s.outcome = OutcomeError
	}
	confirm := minReopen
	if th.CadenceKnown() {
		confirm = max(confirm, th.Interval)
	}
	s.at = v.moved(f.Carried, f.EndedAt, f.EndedAt+confirm, th.Interval)
	s.await(f, th, v, f.Carried, f.EndedAt, now)
}

// superseded is a generation behind which the ledger knows a newer one: it is
// over once it is silent.
func (s *settling) superseded(f *Facts, th *Thresholds, v *View, now time.Duration) {
	s.outcome, s.by, s.reason = OutcomeLost, BySweeper, reasonSuperseded
	s.at = silentAt(f, th, v)
	s.await(f, th, v, f.Carried, f.LastBeat, now)
	s.onlySighted(v, f.Carried)
}

// lost is the loss of a runner: no beat for max(lost_after, lost_after_missed x
// cadence), seen by every source that would have told of one.
func (s *settling) lost(f *Facts, th *Thresholds, v *View, now time.Duration) {
	s.outcome, s.by = OutcomeLost, BySweeper
	set := telling(f)
	byTTL := set == SourceHTTP.Set()
	switch {
	case set == 0 && f.Carried.Has(SourceRedis):
		s.waits = waitsRedisAlone
		return
	case set == 0:
		s.waits = waitsNobodyTells
		return
	case !byTTL && !th.CadenceKnown():
		s.waits = waitsCadence
		return
	case f.State == StateStalled && !(f.BootID && f.Declared):
		s.waits = waitsStalled
		return
	}
	last, after := max(f.LastBeat, f.LeaseHeld), lostAfter(th.Policy, th.Interval)
	if byTTL {
		after = th.RegistryTTL + reaperHead
	}
	grace := max(th.Interval, th.RedisTTL)
	s.at = silentAt(f, th, v)
	for _, src := range set.Sources() {
		s.at = max(s.at, v.moved(src.Set(), last, last+v.stretch(after), grace))
	}
	if v.Score > 0 {
		s.waits = "we were starved ourselves, settling pauses"
	}
	s.reason = lostReason(f, th, now)
	s.over = true
	for _, src := range set.Sources() {
		one := settling{at: v.moved(src.Set(), last, last+v.stretch(after), grace), next: forever}
		one.awaitGrace(v, src.Set(), last, grace, now)
		s.over = s.over && one.over
		s.next = min(s.next, one.next)
		s.unproven = s.unproven || one.unproven
		s.blind |= one.blind
		s.onlySighted(v, src.Set())
	}
	if noticed := f.NoticedAt + noticeGrace; f.NoticedAt != 0 && now < noticed {
		s.over, s.next = false, min(s.next, noticed)
	}
}

// noticeGrace is how long a silence must be known before it is settled, however
// long ago it began: when many are noticed late, one after the other, the first
// must not be gone before the last shows that they fell together.
const noticeGrace = 2 * time.Second

// onlySighted: who is blind now settles nothing, whatever was seen before.
func (s *settling) onlySighted(v *View, set SourceSet) {
	if v.blindness(set).Open() {
		s.over, s.blind = false, s.blind|set
	}
}

// telling are the sources whose silence says that the runner is gone. That a key
// of Redis goes says nothing, unless the lease beside it, which our own
// publishers renew with every beat, went too.
func telling(f *Facts) SourceSet {
	set := f.Carried & (SourceNATS.Set() | SourceHTTP.Set() | SourceLocal.Set())
	if set == 0 && f.Carried.Has(SourceRedis) && f.LeaseGone != never {
		set = SourceRedis.Set()
	}
	return set
}

func lostReason(f *Facts, th *Thresholds, now time.Duration) string {
	if f.Unheard {
		return "not heard for " + FormatAge(now-f.LastBeat) + " after a sweeper started"
	}
	return FormatCount(missedBeats(now-f.LastBeat, th.Interval)) + " beats missed"
}

// await holds the deadline against what set saw.
func (s *settling) await(f *Facts, th *Thresholds, v *View, set SourceSet, since, now time.Duration) {
	s.awaitGrace(v, set, since, th.Interval, now)
	if v.Score > 0 && s.waits == "" {
		s.waits = "we were starved ourselves, settling pauses"
	}
}

func (s *settling) awaitGrace(v *View, set SourceSet, since, grace, now time.Duration) {
	b := v.blindness(set)
	switch {
	case b.Clock(now) < s.at && b.Open():
		s.blind = set
	case b.Clock(now) < s.at:
		s.next = s.at
	case !v.proven(set, s.at, since, grace):
		s.unproven = true
	default:
		s.over = true
	}
}

// obstacle is what keeps any settlement from being written now.
func obstacle(f *Facts, v *View) string {
	switch {
	case f.Held != "":
		return "held: " + f.Held
	case v.Sweeper == "":
		return "nobody here sweeps"
	case !v.LedgerReady && v.LedgerReason == "":
		return "no ledger is open yet"
	case !v.LedgerReady:
		return "the authority is away: " + v.LedgerReason
	case f.Generation == 0:
		return "its number is not known yet"
	}
	return ""
}

// inShort is what stands in the way, for a line of a table.
func (s *settling) inShort(f *Facts, v *View) string {
	switch {
	case f.Held != "" && !neverByItself(s.waits):
		return "HELD"
	case s.waits == "" || v.Sweeper == "":
		return s.waits
	case v.LedgerReason != "" && !v.LedgerReady:
		return "settling waits: authority away"
	}
	return s.waits
}
