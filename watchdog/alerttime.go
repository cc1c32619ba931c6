package watchdog

import (
	"container/heap"
	"time"
)

// alertTimer is a moment at which an alert is to be looked at.
type alertTimer struct {
	at time.Duration // Mono
	a  *alert
}

// alertTimers are the pending ones, the next first. One whose alert has another
// moment by then is passed over.
type alertTimers []alertTimer

func (h alertTimers) Len() int { return len(h) }
func (h alertTimers) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].a.seq < h[j].a.seq
}
func (h alertTimers) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is heap's.
func (h *alertTimers) Push(x any) { *h = append(*h, x.(alertTimer)) }

// Pop is heap's.
func (h *alertTimers) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = alertTimer{}
	*h = old[:len(old)-1]
	return last
}

// alertsDue does what is due at now; nothing, mostly.
func (t *Tracker) alertsDue() {
	as := &t.alerts
	now := t.now.Mono
	for len(as.timers) > 0 && as.timers[0].at <= now {
		a := heap.Pop(&as.timers).(alertTimer).a
		if a.index < 0 {
			continue
		}
		if a.tellAt != 0 && a.tellAt <= now {
			t.raise(a)
		}
		if a.checkAt != 0 && a.checkAt <= now {
			t.checkCredits(a)
		}
		if a.leaveAt != 0 && a.leaveAt <= now {
			t.leaves(a)
		}
	}
	if as.nextEnd != 0 && t.now.Wall >= as.nextEnd {
		t.standAll()
	}
}

func (t *Tracker) at(a *alert, at time.Duration) {
	heap.Push(&t.alerts.timers, alertTimer{at, a})
}

// tell raises an alert, at once or as soon as it is clear that it stands alone.
func (t *Tracker) tell(a *alert, again string) {
	a.again = again
	wait := time.Duration(0)
	switch {
	case again != "":
	case a.cause == CauseSilent:
		wait = tellSilentAfter
	case a.cause == CauseGroup:
		wait = tellGroupAfter
	}
	if wait == 0 {
		t.raise(a)
		return
	}
	a.tellAt = t.now.Mono + wait
	t.at(a, a.tellAt)
}

// raise tells of an alert that is open.
func (t *Tracker) raise(a *alert) {
	a.tellAt = 0
	if a.standing != AlertOpen {
		return
	}
	shown := t.alertShown(a, len(t.effects) < wordsAtOnce)
	t.effects = append(t.effects, Raise{Alert: shown, Again: a.again, Found: a.found && !a.raised, At: t.instantAt(t.now.Mono)})
	a.raised = true
}

// leaveAfter lets an alert leave some time from now, unless that is taken back.
func (t *Tracker) leaveAfter(a *alert, wait time.Duration) {
	a.leaveAt = t.now.Mono + max(wait, 1)
	t.at(a, a.leaveAt)
}

// leaveIfAcked begins or ends the time after which a bad end that was
// acknowledged leaves.
func (t *Tracker) leaveIfAcked(a *alert) {
	if a.cause != CauseLost && a.cause != CauseError && !(a.cause == CauseGroup && a.gone) {
		return
	}
	if a.standing != AlertAcked {
		a.leaveAt = 0
		return
	}
	ago := time.Duration(t.now.Wall - a.note.At.UnixNano())
	t.leaveAfter(a, CompletedLinger-min(max(ago, 0), CompletedLinger))
}

// leaves takes away an alert whose time is over: a crash loop that is stable,
// or a bad end that was acknowledged long enough ago.
func (t *Tracker) leaves(a *alert) {
	switch a.cause {
	case CauseCrashLoop:
		t.closeAlert(a)
		return
	case CauseGroup:
		for n := range a.lost {
			t.dismiss(t.store.at(n))
		}
	default:
		t.dismiss(t.store.at(a.rec))
	}
	t.dropAlert(a)
}

// dismiss takes a bad end from the list of what needs attention.
func (t *Tracker) dismiss(r *record) {
	t.count(r, -1)
	r.flags |= flagDismissed
	r.attention = AttentionNone
	t.count(r, +1)
}
