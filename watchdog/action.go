package watchdog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ordered says that an operator asks for something. Whatever becomes of it is
// kept and shown; the tracker answers with a Deliver, or refuses at once.
type Ordered struct {
	Command Command
	At      time.Duration // Mono
}

// Answered says what became of a command: a word on the way, or its one result.
type Answered struct {
	Answer Answer
	Way    string        // by which it went: "here", "nats", "redis"
	At     time.Duration // Mono
	// Unverified: a receiver alone says that it ended the execution, which is yet
	// to be seen.
	Unverified bool
}

func (Ordered) event()  {}
func (Answered) event() {}

// Deliver asks to carry a command to its receiver, or an expire out.
type Deliver struct{ Command Command }

// Conclude asks to make an answer the one result of its command, unless there is
// one, and to tell which stands.
type Conclude struct{ Answer Answer }

// Fated tells that the fate of a command changed.
type Fated struct{ Action }

func (Deliver) effect()  {}
func (Conclude) effect() {}
func (Fated) effect()    {}

// Action is a command and what has become of it so far.
type Action struct {
	Command
	Fate   Fate
	Detail string // a sentence
	By     string // who says so; empty: we do
	Way    string // by which it went; empty: by none yet
	Next   string // what can be done now; empty: nothing
	// Age is the time since it was asked for, Since that since its fate.
	Age, Since time.Duration
}

// EventAction is the Kind of a Transition that tells the fate of a command.
const EventAction = "action"

// Limits of the fates. Clocks are the sender's own, monotonic.
const (
	// hearWithin is how long a kept command waits for a first word of a target
	// that beats and has never said that it takes commands.
	hearWithin = 15 * time.Second
	// effectWithin is how long a receiver may say nothing after it has begun.
	effectWithin = 60 * time.Second
	// concludeWithin bounds how long a result may take to be written before what
	// we saw counts.
	concludeWithin = 15 * time.Second

	actionsKept  = 1000
	actionsShown = 200
)

// action is one in the tracker's book.
type action struct {
	Action
	asked, said time.Duration // Mono
	seen        moment        // the first sight of its target's execution
	afterEnd    bool          // its target had a record when it was asked for: what is left to stop is its restart
	proposed    *Answer       // what we saw, until its result stands
	proposedAt  time.Duration
	told        *toldEnd // what its receiver says of its end, until that was verified
	waits       waitingFor
	held        bool // it waits until the ledger was read
	unread      bool // it set out before
}

// actions are the commands that were asked for here, oldest first.
type actions struct {
	list []*action
	byID map[string]*action // a repeat leads to the one that it joins
	open int
	// failed counts what alerts were raised for: each is new evidence.
	failed uint64
}

// ordered takes in a wish.
func (t *Tracker) ordered(e Ordered) {
	c, now := e.Command, max(t.now.Mono, e.At)
	if t.actions.byID == nil {
		t.actions.byID = map[string]*action{}
	}
	if t.actions.byID[c.ID] != nil {
		return
	}
	if same := t.actions.same(&c); same != nil {
		t.actions.byID[c.ID] = same
		return
	}
	a := &action{Action: Action{Command: c, Fate: FateRequested}, asked: now, said: now, seen: noMoment}
	t.actions.add(a)
	if n, known := t.store.find([]byte(c.Session)); known {
		a.seen = t.store.at(n).firstSeen
	}
	t.setOut(a, now)
}

// setOut refuses an action, holds it, or has it carried out.
func (t *Tracker) setOut(a *action, now time.Duration) {
	why, fate, ended := t.refusal(&a.Command)
	a.afterEnd = ended
	switch {
	case why != "":
		t.fate(a, fate, why, "", now)
	case t.reads(&a.Command) && now-a.asked < readWithin:
		t.hold(a)
	default:
		t.told(a)
		t.effects = append(t.effects, Deliver{a.Command})
	}
}

// same finds an open action that asks for the same thing.
func (b *actions) same(c *Command) *action {
	for _, a := range b.list {
		if !a.Fate.Final() && a.Op == c.Op && a.Session == c.Session && a.Generation == c.Generation && a.BootID == c.BootID {
			return a
		}
	}
	return nil
}

func (b *actions) add(a *action) {
	if len(b.list) >= actionsKept {
		old := slices.IndexFunc(b.list, func(a *action) bool { return a.Fate.Final() })
		if old < 0 {
			old = 0
			b.open--
		}
		gone := b.list[old]
		b.list = slices.Delete(b.list, old, old+1)
		for id, a := range b.byID {
			if a == gone {
				delete(b.byID, id)
			}
		}
	}
	b.list = append(b.list, a)
	b.byID[a.ID] = a
	b.open++
}

// refusal says why a command is not carried out; empty: it is. ended tells that
// its target has a record already: a supervisor may still reach its process.
func (t *Tracker) refusal(c *Command) (why string, fate Fate, ended bool) {
	n, known := t.store.find([]byte(c.Session))
	if !known {
		return "no such session is known here", FateRefused, false
	}
	r := t.store.at(n)
	bk := t.books.of([]byte(c.Session))
	if now, moved := t.movedOn(c, r, bk); moved {
		return now, FateLostRace, false
	}
	can := t.can(r)
	why = can.Not(c.Op)
	end := t.endOf(c, r, bk)
	switch {
	case end != nil && why != "":
		return "it has ended already: " + endText(end), FateLostRace, true
	case why != "":
		return why, FateRefused, false
	}
	return "", FateNone, end != nil
}

// movedOn reports whether another execution than the one meant is current.
func (t *Tracker) movedOn(c *Command, r *record, bk *book) (string, bool) {
	newest := r.generation
	if bk != nil {
		newest = max(newest, bk.newest())
	}
	if c.Generation != 0 {
		if newest > c.Generation {
			return fmt.Sprintf("#%d is over: #%d is current, and is not touched", c.Generation, newest), true
		}
		return "", false
	}
	if sd := t.store.sideOf(r); c.BootID != "" && sd != nil && sd.boot != "" && sd.boot != c.BootID {
		return "another run of it is current, and is not touched", true
	}
	return "", false
}

// endOf gives the record that stands for the execution that is meant; nil: none.
func (t *Tracker) endOf(c *Command, r *record, bk *book) *TerminalSeen {
	g := c.Generation
	if g == 0 {
		g = r.generation
	}
	if end := bk.end(g); end != nil && end.ends() {
		return end
	}
	if sd := t.store.sideOf(r); sd != nil && sd.terminal.ends() && (g == 0 || sd.terminal.Generation == g) {
		return &sd.terminal
	}
	return nil
}

func (t *Tracker) supervisedHere(r *record) bool {
	sd := t.store.sideOf(r)
	return sd != nil && sd.supervised.Phase != SupervisorNone
}

// can says what is possible on a session now.
func (t *Tracker) can(r *record) Can {
	c := t.could(r)
	c.Would = c.May
	switch {
	case t.acts.ReadOnly:
		c.Deny("read-only", Ops()...)
	case !t.acts.Able:
		c.Deny("nothing here can act on a session", Ops()...)
	}
	return c
}

// could says what is possible for somebody who may act. Where nobody may, it is
// not known whether anybody else has a bus and a ledger: it is taken for granted.
func (t *Tracker) could(r *record) (c Can) {
	running := []Op{OpStop, OpKill, OpRestart, OpDump}
	c.Allow(Ops()...)
	sd := t.store.sideOf(r)
	here, granted := t.supervisedHere(r), t.acts.ReadOnly
	switch {
	case here:
		if p := sd.supervised.Process; p.PID == 0 {
			c.Deny("it does not run", OpDump, OpKill)
			if sd.supervised.Phase != SupervisorRestarting {
				c.Deny("it does not run", OpStop)
			}
		}
	case r.verdict.Ended() && !((t.acts.Bus || granted) && starts(sd)):
		c.Deny("it has ended", running...)
	case r.verdict == Completed || r.verdict == Stopped:
		c.Deny("it has ended", OpStop, OpKill, OpDump)
	case r.verdict == Failed: // its process is gone, and its supervisor may be about to start it again
		c.Deny("it has ended", OpKill, OpDump)
	case !t.acts.Bus && !granted:
		c.Deny("no bus carries commands to it", running...)
	case sd != nil && sd.takesSaid:
		for _, op := range running {
			if !sd.takes.Has(op) {
				c.Deny(notTaken(op), op)
			}
		}
	case r.flags&flagUnheard != 0: // the ledger alone told of it; who listens is not known
	case sd == nil || sd.boot == "":
		c.Deny("nobody supervises it: its publisher sends the five fields alone and takes no commands", running...)
	}
	switch l := &t.settles.ledger; {
	case r.verdict.Ended():
		c.Deny("it has ended", OpExpire)
	case !t.acts.Settles && !granted:
		c.Deny("no ledger is open here to write its end to", OpExpire)
	case l.Reason != "" && !l.Ready && t.sweeping(): // who only looks finds the ledger when it is needed
		c.Deny(l.Reason, OpExpire)
	}
	return c
}

// starts reports whether the publisher of an execution said that it can start it
// again: a supervisor, which may outlive the execution and its record.
func starts(sd *side) bool { return sd != nil && sd.takesSaid && sd.takes.Has(OpRestart) }

func notTaken(op Op) string {
	if op == OpRestart {
		return "nobody supervises it: its publisher cannot start it again"
	}
	return "its publisher does not take this command"
}

// answered takes in what became of a command.
func (t *Tracker) answered(e Answered) {
	a := t.actions.byID[e.Answer.Command]
	if a == nil || a.Session != e.Answer.Session || a.Fate.Final() {
		return
	}
	if e.Answer.Fate < a.Fate || e.Answer.Fate == FateRequested && a.Way != "" { // another way keeps it too
		return
	}
	now := max(t.now.Mono, e.At)
	a.Way = cmp.Or(e.Way, a.Way)
	if (a.proposed != nil || a.told != nil) && !e.Answer.Fate.Final() {
		return
	}
	if e.Unverified && e.Answer.Fate == FateEffective && a.proposed == nil && !a.afterEnd {
		t.believe(a, e.Answer, now)
		return
	}
	t.fate(a, e.Answer.Fate, e.Answer.Detail, e.Answer.By, now)
}

// fate moves an action on.
func (t *Tracker) fate(a *action, f Fate, detail, by string, now time.Duration) {
	changed := a.Fate != f || a.waits != waitsYet || a.Detail != detail && detail != ""
	heard := a.said
	a.Fate, a.By, a.said, a.waits, a.Next = f, by, now, waitsYet, ""
	if detail != "" || changed {
		a.Detail = detail
	}
	if f.Final() {
		a.proposed, a.told = nil, nil
		a.Next = t.nextStep(a)
		t.actions.open--
		t.raiseFailed(a, heard)
	}
	if changed {
		t.told(a)
	}
}

// raiseFailed opens an alert for an action that should have had an effect and had
// none, and closes that of its target once one had. heard is when the last word on
// it came.
func (t *Tracker) raiseFailed(a *action, heard time.Duration) {
	e := Trouble{Cause: CauseAction, ID: a.Session, Generation: a.Generation, At: a.said}
	what := fmt.Sprintf("%s %s", a.Session, numbered(a.Generation))
	switch a.Fate {
	case FateIneffective:
		e.Text = fmt.Sprintf("%s NOT EFFECTIVE %s: last word %s, %s.", strings.ToUpper(string(a.Op)), what,
			FormatMoment(t.instantAt(heard).Wall, t.now.Wall), a.Detail)
	case FateUndeliverable, FateTimedOut:
		e.Text = fmt.Sprintf("%s %s %s: %s.", strings.ToUpper(string(a.Op)), strings.ToUpper(a.Fate.Sentence()), what, a.Detail)
	case FateEffective, FateLostRace:
		e.Over = a.Op.Ends()
	}
	if e.Text == "" && !e.Over {
		return
	}
	if key := actionKey(a.Next); key != "" {
		e.Text += " Next: " + key + " " + a.Next + "."
	}
	t.actions.failed++
	e.Evidence = t.actions.failed
	t.outsideTrouble(e)
}

// actionKey is the key of an op on the screen, as the sentences of alerts name it.
func actionKey(op string) string {
	switch Op(op) {
	case OpExpire:
		return "X"
	case OpKill, OpStop:
		return "S"
	case OpRestart:
		return "R"
	}
	return ""
}

func numbered(g Generation) string {
	if g == 0 {
		return "#?"
	}
	return "#" + formatNumber(g)
}

// nextStep is what an operator can do after an action that did not work.
func (t *Tracker) nextStep(a *action) string {
	n, known := t.store.find([]byte(a.Session))
	if !known {
		return ""
	}
	can := t.can(t.store.at(n))
	offer := func(op Op) string {
		if can.Not(op) == "" {
			return string(op)
		}
		return ""
	}
	switch {
	case a.Fate == FateIneffective, a.Fate == FateUndeliverable, a.Fate == FateTimedOut:
	case a.Fate == FateRefused && a.Op == OpRestart && strings.HasPrefix(a.Detail, noSupervisor): // whoever took it knows better
	default:
		return ""
	}
	switch a.Op {
	case OpStop:
		if a.Fate == FateIneffective {
			return cmp.Or(offer(OpKill), offer(OpExpire))
		}
		return offer(OpExpire)
	case OpKill, OpRestart:
		return offer(OpExpire)
	}
	return ""
}

// told notes a change of a fate for people and for the audit.
func (t *Tracker) told(a *action) { t.toldAt(a, a.said) }

func (t *Tracker) toldAt(a *action, at time.Duration) {
	t.changes++
	text := string(a.Op) + " by " + cmp.Or(a.IssuedBy, "somebody") + ": " + a.Fate.Sentence()
	if a.Detail != "" {
		text += ": " + a.Detail
	}
	t.note(Transition{Kind: EventAction, ID: a.Session, Generation: a.Generation, At: t.instantAt(at), Text: text})
	t.effects = append(t.effects, Fated{a.shown(t.now.Mono)})
}

func (a *action) shown(now time.Duration) Action {
	out := a.Action
	out.Age, out.Since = max(now-a.asked, 0), max(now-a.said, 0)
	return out
}

// watchActions looks what the facts say of every open action.
func (t *Tracker) watchActions(now time.Duration) {
	if t.actions.open == 0 {
		return
	}
	for _, a := range slices.Clone(t.actions.list) {
		switch {
		case a.Fate.Final():
		case a.held:
			t.letGo(a, now)
		case a.told != nil:
			t.verify(a, now)
		case a.proposed == nil:
			f, why := t.seenOf(a, now)
			if f == FateNone {
				t.tellWait(a, now)
				continue
			}
			p := Answer{Command: a.ID, Session: a.Session, Generation: a.Generation, Fate: f, Detail: why}
			a.proposed, a.proposedAt = &p, now
			t.effects = append(t.effects, Conclude{p})
		case now-a.proposedAt > concludeWithin:
			t.fate(a, a.proposed.Fate, a.proposed.Detail, "", now)
		}
	}
}

// seenOf is what we saw become of an action that nobody has told the result of;
// FateNone: nothing yet.
func (t *Tracker) seenOf(a *action, now time.Duration) (Fate, string) {
	n, known := t.store.find([]byte(a.Session))
	if !known {
		if now-a.asked > CommandTTL {
			return FateTimedOut, "nothing was heard of it, nor of the session"
		}
		return FateNone, ""
	}
	r := t.store.at(n)
	bk := t.books.of([]byte(a.Session))
	if a.Op != OpExpire {
		if f, why := t.endSeen(a, r, bk, now); f != FateNone {
			return f, why
		}
	}
	beats := t.beatsSince(a, r, now)
	begun := a.Fate >= FateDelivered
	switch {
	case begun && now-a.said > effectWithin && beats && a.Op.Ends():
		return FateIneffective, "it was taken by " + cmp.Or(a.By, "its receiver") + ", and the session still beats"
	case begun && now-a.said > effectWithin && a.Op == OpDump:
		return FateIneffective, "it was taken by " + cmp.Or(a.By, "its receiver") + ", and no dump came"
	case t.unsupervised(a, r, now):
		return FateRefused, noSupervisor + ": no receiver took it within " + FormatLimit((now - a.said).Truncate(time.Second))
	case a.Fate == FateRequested && a.afterEnd && now-a.said > hearWithin:
		return FateUndeliverable, "no receiver answered within " + FormatLimit(hearWithin) + ", and the session has ended"
	case a.Fate == FateRequested && a.Op != OpExpire && a.Way != "" && beats && now-a.said > hearWithin && !t.listens(r):
		return FateUndeliverable, "no receiver answered within " + FormatLimit(hearWithin) + ", and the session beats"
	case now-a.asked <= CommandTTL:
		return FateNone, ""
	case !begun && beats:
		return FateUndeliverable, "no receiver took it within " + FormatLimit(CommandTTL) + ", and the session still beats"
	}
	return FateTimedOut, "no result came within " + FormatLimit(CommandTTL)
}

// endSeen tells an action by what became of its target.
func (t *Tracker) endSeen(a *action, r *record, bk *book, now time.Duration) (Fate, string) {
	end := t.endOf(&a.Command, r, bk)
	current, moved := t.movedOn(&a.Command, r, bk)
	if a.afterEnd && !moved {
		return FateNone, "" // its receiver alone can tell
	}
	if end == nil && !moved && a.seen != noMoment && r.firstSeen != a.seen {
		current, moved = "another run of it is current, and was not touched", true
	}
	if f, why := t.endUnread(a, end); f != FateNone {
		return f, why
	}
	switch {
	case end == nil && !moved:
		return FateNone, ""
	case a.Op == OpRestart && now-a.said <= effectWithin && a.Fate >= FateDelivered:
		return FateNone, "" // its receiver is at it
	case a.Op == OpRestart && moved && end != nil && end.Outcome == OutcomeStopped:
		return FateEffective, current
	case end == nil:
		return FateLostRace, current
	case (a.Op == OpStop || a.Op == OpKill) && end.Outcome == OutcomeStopped:
		return FateEffective, endText(end)
	case a.Op == OpRestart && end.Outcome == OutcomeStopped:
		return FateIneffective, "it was stopped, and nothing was started"
	}
	return FateLostRace, "it ended otherwise first: " + endText(end)
}

// beatsSince reports whether the execution that is meant has beaten since the
// last word on an action, and is not overdue.
func (t *Tracker) beatsSince(a *action, r *record, now time.Duration) bool {
	return r.lastBeat > a.said && r.verdict != Silent && r.verdict != Unknown && !r.verdict.Ended()
}

// listens reports whether a publisher said that it takes commands, or a
// supervisor of this process runs it.
func (t *Tracker) listens(r *record) bool {
	sd := t.store.sideOf(r)
	return sd != nil && (sd.takesSaid && sd.takes != 0 || sd.supervised.Phase != SupervisorNone)
}

// actionsShown lists the latest actions, newest first.
func (t *Tracker) latestActions(most int, now time.Duration) []Action {
	if most == 0 {
		most = actionsShown
	}
	out := make([]Action, 0, min(len(t.actions.list), most))
	for i := len(t.actions.list) - 1; i >= 0 && len(out) < most; i-- {
		out = append(out, t.actions.list[i].shown(now))
	}
	return out
}

// Acts says how far a process can act on sessions.
type Acts struct {
	ReadOnly bool
	Able     bool // somebody carries out Deliver and Conclude
	Bus      bool // a bus carries commands
	Settles  bool // an operator's expire can be written from here
	Ends     bool `json:",omitempty"` // a ledger is looked for, and tells what has ended
}

// SetActs says how far we can act. It is called before the engine runs.
func (t *Tracker) SetActs(a Acts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acts = a
}

// actionOf gives an action by the id of its command, or of one that joined it.
func (t *Tracker) actionOf(id string) (Action, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	a := t.actions.byID[id]
	if a == nil {
		return Action{}, false
	}
	return a.shown(t.now.Mono), true
}

// fleetIdentity names the fleet that commands are for: by its authority.
func (t *Tracker) fleetIdentity() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.settles.ledger.Authority.Identity
}

// claimNow is the claim of a session's present execution.
func (t *Tracker) claimNow(id ID) (Claim, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, known := t.store.find([]byte(id))
	if !known {
		return Claim{}, false
	}
	bk := t.books.of([]byte(id))
	if bk == nil {
		bk = &book{}
	}
	return t.claimOf(t.store.at(n), id, bk), true
}
