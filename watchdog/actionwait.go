package watchdog

import (
	"cmp"
	"time"
)

// wordWithin is how long a receiver may say nothing before the operator is told
// what is known of that: a kept command waits for it for as long as CommandTTL.
const wordWithin = 60 * time.Second

// waitingFor is why nothing is heard of an open action.
type waitingFor uint8

const (
	waitsYet    waitingFor = iota // it is too early to say anything
	waitsSilent                   // its target beats no more
	waitsDeaf                     // its target beats
	waitsBlind                    // its target cannot be seen
)

// tellWait tells once, and again when that changes, what is known of an action of
// whose receiver nothing is heard. Nothing is claimed by it: its fate stays.
func (t *Tracker) tellWait(a *action, now time.Duration) {
	n, known := t.store.find([]byte(a.Session))
	if !known || a.Op == OpExpire || now-a.said <= wordWithin {
		return
	}
	r := t.store.at(n)
	waits := waitsSilent
	switch verdict, _ := t.shown(r); {
	case verdict == Unknown:
		waits = waitsBlind
	case r.lastBeat > a.said && verdict != Silent:
		waits = waitsDeaf
	}
	if a.waits == waits {
		return
	}
	a.waits = waits
	a.Detail = t.waitText(a, r)
	a.Next = ""
	if can := t.can(r); a.Op.Ends() && waits != waitsBlind && can.Not(OpExpire) == "" {
		a.Next = string(OpExpire)
	}
	t.toldAt(a, now)
}

func (t *Tracker) waitText(a *action, r *record) string {
	text := "not delivered: its receiver does not answer"
	if a.Fate >= FateDelivered {
		text = "it was taken by " + cmp.Or(a.By, "its receiver") + ", which says nothing more"
	}
	switch a.waits {
	case waitsDeaf:
		text += ", and it still beats"
	case waitsBlind:
		text += ", and what carried its beats cannot be seen now"
	default:
		if r.lastBeat != never {
			text += "; no beat since " + FormatMoment(t.instantAt(r.lastBeat).Wall, t.now.Wall)
		}
	}
	if !a.Expires.IsZero() {
		text += "; it is tried until " + FormatMoment(a.Expires.UnixNano(), t.now.Wall)
	}
	return text
}
