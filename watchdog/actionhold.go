package watchdog

import "time"

// readWithin is how long a command waits for the ledger to tell what has ended: an
// end that is read later would look like the command's work.
const readWithin = 5 * time.Second

// reads reports whether the ledger may yet tell that the execution that a command
// means has ended. Who supervises it here knows by himself, and an expire of a
// generation that is named is decided by the ledger.
func (t *Tracker) reads(c *Command) bool {
	s := &t.settles
	if !t.acts.Ends || s.followed || s.known && s.ledger.Unnamed || c.Op == OpExpire && c.Generation != 0 {
		return false
	}
	n, known := t.store.find([]byte(c.Session))
	return known && !t.supervisedHere(t.store.at(n))
}

// hold keeps an action until the ledger was read.
func (t *Tracker) hold(a *action) {
	a.held, a.Detail = true, "it waits until the ledger has told what has ended"
	t.told(a)
}

// letGo sets out with an action that was held, once nothing keeps it any more.
func (t *Tracker) letGo(a *action, now time.Duration) {
	a.unread = t.reads(&a.Command)
	if a.unread && now-a.asked < readWithin {
		return
	}
	a.held, a.Detail, a.said = false, "", now
	t.setOut(a, now)
}

// endUnread tells an action that set out before the ledger was read by an end that
// is told now: nobody had taken it, so that the end is older, or another's.
func (t *Tracker) endUnread(a *action, end *TerminalSeen) (Fate, string) {
	if !a.unread || a.Fate >= FateDelivered || end == nil {
		a.unread = a.unread && !t.settles.followed
		return FateNone, ""
	}
	return FateLostRace, "it had ended before anybody took this: " + endText(end)
}
