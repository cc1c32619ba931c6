package watchdog

import (
	"cmp"
	"time"
)

// How long nothing may be heard of an action before the operator is told what is
// known of that: a kept command waits for its receiver for as long as CommandTTL.
const (
	takenWithin = 3 * time.Second  // who listens takes it at once
	wordWithin  = 60 * time.Second // who has it may be at it
)

// waitingFor is why nothing is heard of an open action.
type waitingFor uint8

const (
	waitsYet    waitingFor = iota // it is too early to say anything
	waitsTaker                    // nobody took it
	waitsSilent                   // nor does its target beat any more
	waitsDeaf                     // its target beats
	waitsBlind                    // its target cannot be seen
)

// tellWait tells once, and again when that changes, what is known of an action of
// whose receiver nothing is heard. Nothing is claimed by it: its fate stays.
func (t *Tracker) tellWait(a *action, now time.Duration) {
	n, known := t.store.find([]byte(a.Session))
	quiet := now - a.said
	if !known || a.Op == OpExpire || quiet <= takenWithin || quiet <= wordWithin && a.Fate != FateRequested {
		return
	}
	r := t.store.at(n)
	waits := waitsTaker
	switch verdict, _ := t.shown(r); {
	case r.flags&flagUnheard != 0 && cmp.Or(r.carried, t.sighted)&t.sighted != 0:
		waits = waitsSilent
	case verdict == Unknown:
		waits = waitsBlind
	case verdict == Silent, quiet > wordWithin && r.lastBeat <= a.said:
		waits = waitsSilent
	case quiet > wordWithin:
		waits = waitsDeaf
	}
	if a.waits == waits {
		return
	}
	a.waits = waits
	a.Detail = t.waitText(a, r)
	a.Next = ""
	if can := t.can(r); a.Op.Ends() && (waits == waitsSilent || waits == waitsDeaf) && can.Not(OpExpire) == "" {
		a.Next = string(OpExpire)
	}
	t.toldAt(a, now)
}

func (t *Tracker) waitText(a *action, r *record) string {
	text := "nobody answers: no receiver took it within " + FormatLimit(takenWithin)
	switch {
	case a.Fate >= FateDelivered:
		text = "it was taken by " + cmp.Or(a.By, "its receiver") + ", which says nothing more"
	case a.Way == "":
		text = "not sent yet: no bus has taken it"
	}
	switch {
	case a.waits == waitsDeaf:
		text += ", and it still beats"
	case a.waits == waitsBlind:
		text += ", and what carried its beats cannot be seen now"
	case r.flags&flagUnheard != 0:
		text += "; no beat of it was heard here"
	case r.lastBeat == never:
	case a.waits == waitsSilent, r.flags&flagAgeUnknown != 0:
		text += "; no beat since " + second(t.instantAt(r.lastBeat).Wall)
	case r.flags&flagAgeEstimated != 0: // not the moment at which we found its key
		text += "; last beat ~" + second(t.instantAt(r.lastBeat-t.store.sideOf(r).estimatedAge).Wall)
	default:
		text += "; last beat " + second(t.instantAt(r.lastBeat).Wall)
	}
	if !a.Expires.IsZero() {
		text += "; it waits until " + second(a.Expires.UnixNano())
	}
	return text
}

// noSupervisor begins what is said of a restart that nobody took.
const noSupervisor = "nobody supervises it"

// second is a moment of the wall clock, in UTC, to be compared with one's watch.
func second(at int64) string { return time.Unix(0, at).UTC().Format("15:04:05Z") }

// unsupervised reports whether a restart that is kept has waited for long enough
// for anybody who would start its target again.
func (t *Tracker) unsupervised(a *action, r *record, now time.Duration) bool {
	if a.Op != OpRestart || a.Fate != FateRequested || a.Way == "" {
		return false
	}
	limit := hearWithin
	if t.listens(r) && r.verdict != Silent { // it said that it takes commands, and may be slow
		limit = wordWithin
	}
	return min(now, t.provenUntil(r.carried))-a.said > limit
}
