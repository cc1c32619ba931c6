package watchdog

import "time"

// applyLedger takes in what the ledger, and whoever carries settlements out,
// tell.
func (t *Tracker) applyLedger(ev Event) {
	s := &t.settles
	switch e := ev.(type) {
	case HeadSeen:
		t.headSeen(e)
	case FollowedUp:
		t.followedUp(max(t.now.Mono, e.At))
	case Claimed:
		t.claimedSeen(e)
	case SettleFailed:
		t.settleFailed(e)
	case LedgerChanged:
		t.ledgerChanged(e)
	case Swept:
		s.known = true
		s.settled += uint64(max(e.Settled, 0))
		if s.passWhy = e.Reason; e.Reason == "" {
			s.lastPass = max(t.now.Mono, e.At)
		}
	case LeaseSeen:
		t.leaseSeen(e)
	case BrakeReleased:
		t.release(e)
	}
}

// followedUp: the ledger has told all that stood in it, so that what it did not
// tell is not there.
func (t *Tracker) followedUp(now time.Duration) {
	t.settles.followed = true
	if !t.sweeping() {
		return
	}
	for _, id := range t.books.order {
		if bk := t.books.byID[id]; bk != nil {
			t.owePast(id, bk, now)
		}
	}
}

// ledgerChanged: once the authority is there, what waits for it is judged at
// once.
func (t *Tracker) ledgerChanged(e LedgerChanged) {
	s := &t.settles
	was := s.ledger
	s.known, s.ledger = true, e
	if s.ledger.Ready == was.Ready && (e.Ready || e.Reason == was.Reason) {
		return
	}
	now := max(t.now.Mono, e.At)
	tr := Transition{Kind: EventLedger, At: t.instantAt(now), Text: "ends can be settled, by " + e.Authority.String()}
	if e.Ready {
		s.readyAt, s.nextPass = now, now
		s.again = append(s.again, s.owing...)
	} else if e.Unnamed {
		tr.Text = e.Reason
	} else {
		tr.Text = "nothing can be settled: " + e.Reason
	}
	t.note(tr)
}

// settleFailed: the next pass judges it again.
func (t *Tracker) settleFailed(e SettleFailed) {
	bk := t.books.of([]byte(e.ID))
	if bk == nil {
		return
	}
	for i := range bk.past {
		if p := &bk.past[i]; p.generation == e.Generation {
			// Passes settle what was overtaken too; until the next one it rests.
			p.since, p.settle = max(t.now.Mono, e.At)+t.policy.SweepInterval, attempt{trouble: e.Reason}
		}
	}
	n, known := t.store.find([]byte(e.ID))
	if !known || t.store.at(n).generation != e.Generation {
		return
	}
	told := bk.settle.trouble
	bk.settle = attempt{}
	r := t.store.at(n)
	if _, _, _, now := t.judgeSettle(n, r, max(t.now.Mono, e.At)); !now.due {
		t.look(n, r, max(t.now.Mono, e.At), false)
		return // a beat came, or the ledger is away
	}
	bk.settle.trouble = e.Reason
	if told != e.Reason {
		t.note(Transition{Kind: EventLedger, ID: e.ID, Generation: e.Generation, From: r.verdict, To: r.verdict,
			At: t.instantAt(max(t.now.Mono, e.At)), Text: "not settled, the next pass tries again: " + e.Reason})
	}
}

// leaseSeen follows the lease that our own publishers renew with every beat.
func (t *Tracker) leaseSeen(e LeaseSeen) {
	n, known := t.store.find([]byte(e.ID))
	if !known {
		return
	}
	at := max(t.now.Mono, e.At)
	l := &t.needBook(e.ID).lease
	if l.boot != e.BootID || l.generation != e.Generation {
		*l = lease{boot: e.BootID, generation: e.Generation, held: never, gone: never}
	}
	switch {
	case e.Held:
		l.held, l.gone = at, never
	case l.held != never && l.gone == never:
		l.gone = at
	default:
		return
	}
	t.look(n, t.store.at(n), at, false)
}

// supervisedBy takes in what a supervisor does. What it says of a newer
// generation begins that; what it says of an older one is past. One that keeps
// its session down says so once, maybe before anybody else told of it.
func (t *Tracker) supervisedBy(e Supervised) {
	now := max(t.now.Mono, e.At)
	starts := e.Phase == SupervisorRunning && e.Generation != 0
	n, known := t.store.find([]byte(e.ID))
	if !known {
		if e.Phase == SupervisorNone || e.Generation == 0 {
			return
		}
		var ok bool
		if n, ok = t.admitKnown(e.ID, e.Generation, nil, now); !ok {
			return
		}
	}
	r := t.store.at(n)
	if starts && r.generation != 0 && e.Generation > r.generation {
		t.moveOn(n, r, e.Generation, nil, now)
	}
	if e.Generation != 0 && r.generation != 0 && e.Generation != r.generation {
		return
	}
	if bk := t.books.of([]byte(e.ID)); bk != nil && r.generation == 0 && e.Generation != 0 && !bk.passed(e.Generation) {
		t.setNumber(n, r, bk, e.Generation)
	}
	if r.flags&flagUnheard != 0 && t.sights[SourceLocal].configured {
		r.carried |= SourceLocal.Set()
	}
	sd := t.store.needSide(r)
	if was := sd.supervised; was.Phase != e.Phase && e.Detail != "" {
		t.note(Transition{Kind: EventSupervisor, ID: e.ID, Generation: r.generation, From: r.verdict, To: r.verdict,
			At: t.instantAt(now), Text: e.Detail})
	}
	sd.supervised = e
	t.look(n, r, now, false)
}

// passed reports whether a generation is known to have been overtaken or ended.
func (bk *book) passed(g Generation) bool { return g < bk.newest() || bk.end(g) != nil }

// ledgerShown is how well ends can be settled, for people.
func (t *Tracker) ledgerShown(now time.Duration) LedgerView {
	s := &t.settles
	v := LedgerView{Known: s.known, Authority: s.ledger.Authority, Ready: s.ledger.Ready, Read: s.followed, Unnamed: s.ledger.Unnamed, Reason: s.ledger.Reason,
		Warning: s.ledger.Warning, Sweeping: t.sweeping(), LastPass: -1, PassWhy: s.passWhy, Settled: s.settled,
		Waiting: s.owed, Late: s.kept}
	for _, id := range s.pasts {
		if bk := t.books.byID[id]; bk != nil {
			v.Waiting += len(bk.past)
		}
	}
	limit := 2*t.policy.SweepInterval + passOverdue
	since := now - t.epoch.Mono
	if s.lastPass != never {
		v.LastPass = max(now-s.lastPass, 0)
		since = v.LastPass
	}
	v.Overdue = v.Sweeping && since > limit
	return v
}
