package watchdog

import "time"

// Picked is a session that an action may be meant for, named in Ask.Picked: what
// tells its present execution from the next one, and what may be done to it.
type Picked struct {
	ID         ID
	Generation Generation    // 0 not known
	BootID     string        // empty not known
	FirstSeen  time.Duration // Mono of our first sight of this execution
	Verdict    Verdict
	Shown      bool // it is in the matched order of this window
	Processes  int  // in the tree of a supervised child; 0 unknown
	DumpPauses bool // taking a dump may stop it for a moment
	Can        Can
	Alert      *Alert // that tells of it, as Detail.Alert
}

// SameExecution reports whether p is of the execution that q is of. A number, or
// a boot id, that was learned meanwhile makes no other one.
func (p *Picked) SameExecution(q *Picked) bool {
	return p.ID == q.ID && p.FirstSeen == q.FirstSeen &&
		(p.Generation == q.Generation || p.Generation == 0 || q.Generation == 0) &&
		(p.BootID == q.BootID || p.BootID == "" || q.BootID == "")
}

// pickedMost is how many sessions an Ask may name.
const pickedMost = 10_000

// picked tells of those sessions that were named and are known, in their order.
// shown says whether the window shows a record.
func (t *Tracker) picked(ids []ID, shown func(n uint32) bool) []Picked {
	var out []Picked
	for _, id := range ids[:min(len(ids), pickedMost)] {
		n, known := t.store.find([]byte(id))
		if !known {
			continue
		}
		r := t.store.at(n)
		p := Picked{ID: id, Generation: r.generation, FirstSeen: t.mono(r.firstSeen), Shown: shown(n), Can: t.can(r),
			Alert: t.alertFor(n, r)}
		p.Verdict, _ = t.shown(r)
		if sd := t.store.sideOf(r); sd != nil {
			p.BootID, p.Processes = sd.boot, sd.supervised.Process.Processes
			if o := sd.supervised.Process.Outlook; o != nil {
				p.DumpPauses = o.DumpPauses
			}
		}
		out = append(out, p)
	}
	return out
}

// shows reports whether the order of this pass has a record.
func (l *lens) shows(n uint32) bool {
	return int(n) < len(l.rank) && l.rank[n] != notShown && l.t.store.at(n).birth == l.births[n]
}
