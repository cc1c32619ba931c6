package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// orderLimit is how long the source has to take one command.
const orderLimit = 15 * time.Second

// order is what one confirmed question asked for: a command for each session.
type order struct {
	op   watchdog.Op
	list []*sent
	next int // of list: the first that was not sent yet
}

// sent is one command of an order, and what is known of it.
type sent struct {
	action watchdog.Action
	asked  time.Duration // Mono of the feed
	failed string        // why it was not asked for; empty: it was, or will be
	unsure bool          // failed, but it may have been asked for
	gone   bool          // the source was asked
}

// orders are what this screen asked for and nobody has looked at since, the
// newest last.
type orders struct{ list []*order }

// actionTaken is the answer of the source to one command.
type actionTaken struct {
	gen    uint64
	of     *order
	which  int
	action watchdog.Action
	err    error
}

// order asks for what was confirmed: for those that have not moved on, one after
// another.
func (m *Model) order(a *acting) tea.Cmd {
	if why := a.refusal(m); why != "" {
		return m.refuse(why)
	}
	o := &order{op: a.op}
	for i := range a.on {
		if a.moved(i) != "" {
			continue
		}
		p := &a.on[i]
		o.list = append(o.list, &sent{asked: m.window.Now.Mono, action: watchdog.Action{Command: watchdog.Command{
			ID: rand.Text(), Op: a.op, Session: p.ID, Generation: p.Generation, BootID: p.BootID, Reason: a.reason, IssuedBy: a.by}}})
	}
	m.orders.list = append(m.orders.list, o)
	m.say("asking to " + a.what())
	m.listActions(&m.window)
	return m.sendNext(o)
}

// sendNext hands the next command of an order over, off the screen's goroutine.
func (m *Model) sendNext(o *order) tea.Cmd {
	if o.next >= len(o.list) {
		return nil
	}
	feed, gen, which := m.feed, m.gen, o.next
	c := o.list[which].action.Command
	o.next++
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), orderLimit)
		defer cancel()
		a, err := feed.Do(ctx, c)
		return actionTaken{gen: gen, of: o, which: which, action: a, err: err}
	}
}

// taken notes what the source answered, and sends the next.
func (m *Model) taken(msg *actionTaken) tea.Cmd {
	if msg.gen != m.gen {
		return nil // it is left behind, with what was not sent yet
	}
	s := msg.of.list[msg.which]
	s.gone = true
	switch {
	case errors.Is(msg.err, context.DeadlineExceeded):
		s.failed, s.unsure = "whether it was asked for is not known", true
	case msg.err != nil:
		s.failed = msg.err.Error()
	case msg.action.ID != "" && msg.action.Fate >= s.action.Fate:
		s.action = msg.action
	}
	m.listActions(&m.window)
	if msg.of.next >= len(msg.of.list) {
		text, means := msg.of.text(m)
		if means == meansAct || means == meansSuspect {
			m.refuse(text)
		} else {
			m.say("asked for; " + m.keys.firstKey("commands") + " shows what becomes of it")
		}
	}
	return m.sendNext(msg.of)
}

// takeActions uses what a window tells of actions.
func (m *Model) takeActions(w *watchdog.Window) {
	if len(m.orders.list) > 0 {
		told := make(map[string]*watchdog.Action, len(w.Actions))
		for i := range w.Actions {
			told[w.Actions[i].ID] = &w.Actions[i]
		}
		for _, o := range m.orders.list {
			for _, s := range o.list {
				if a := told[s.action.ID]; a != nil {
					s.action, s.failed, s.gone = *a, "", true
				}
			}
		}
	}
	m.listActions(w)
	if m.top() == viewCommands {
		m.seenFates()
	}
}

// over reports whether nothing more comes of a command.
func (s *sent) over() bool { return s.failed != "" || s.action.Fate.Final() }

// bad reports whether it did not do what was asked for.
func (s *sent) bad() bool {
	return s.failed != "" || s.action.Fate.Final() && s.action.Fate != watchdog.FateEffective
}

func (o *order) over() bool {
	return !slices.ContainsFunc(o.list, func(s *sent) bool { return !s.over() })
}

// seenFates puts away what has ended and was looked at. It reports whether there
// was anything.
func (m *Model) seenFates() bool {
	before := len(m.orders.list)
	m.orders.list = slices.DeleteFunc(m.orders.list, func(o *order) bool {
		if o.over() {
			m.commands.keep(o)
		}
		return o.over()
	})
	return len(m.orders.list) < before
}

// dismissFates is esc: what has ended needs no second look.
func (m *Model) dismissFates() bool {
	if !m.seenFates() {
		return false
	}
	m.say("put away; " + m.keys.firstKey("commands") + " shows every action and its fate")
	return true
}

// fateMeans is the colour of a fate.
func fateMeans(f watchdog.Fate) meaning {
	switch f {
	case watchdog.FateEffective:
		return meansDone
	case watchdog.FateRefused, watchdog.FateLostRace:
		return meansSuspect
	case watchdog.FateIneffective, watchdog.FateUndeliverable, watchdog.FateTimedOut:
		return meansAct
	}
	return meansWait
}

// fateGlyph stands beside the word of a fate.
func (g *Glyphs) fateGlyph(f watchdog.Fate) string {
	v := watchdog.Waiting
	switch fateMeans(f) {
	case meansDone:
		v = watchdog.Completed
	case meansAct:
		v = watchdog.Stalled
	case meansSuspect:
		v = watchdog.Failed
	}
	glyph, _ := g.verdict(v)
	return glyph
}

// fateWord is "acknowledged", or "sending" before anybody has it.
func (s *sent) fateWord() string {
	switch {
	case s.unsure && s.failed != "":
		return "no answer"
	case s.failed != "":
		return "not asked"
	case s.action.Fate == watchdog.FateNone && !s.gone:
		return "sending"
	}
	return s.action.Fate.Sentence()
}

func (s *sent) means() meaning {
	if s.failed != "" {
		return meansAct
	}
	return fateMeans(s.action.Fate)
}

// fateAge is "4s" while it is under way, "in 4s" once it is over.
func (s *sent) fateAge() string {
	switch a := &s.action; {
	case s.failed != "" || !s.gone:
		return ""
	case a.Fate.Final():
		return " in " + age(max(a.Age-a.Since, 0))
	default:
		return " " + age(a.Age)
	}
}

// text is one line about an order: "STOP indexer #2 acknowledged 4s", "STOP 38:
// 30 effective, 5 requested, 3 refused".
func (o *order) text(m *Model) (string, meaning) {
	title := strings.ToUpper(string(o.op)) + " "
	if len(o.list) == 1 {
		s := o.list[0]
		text := title + sessionName(s.action.Session, s.action.Generation, shortName) + " " + s.fateWord() + s.fateAge()
		if s.failed != "" {
			text += ": " + s.failed
		}
		if next := m.nextStep(s.action.Next); next != "" {
			text += "; next: " + next
		}
		return text, s.means()
	}
	var words []string
	counts := map[string]int{}
	worst := meansDone
	for _, s := range o.list {
		word := s.fateWord()
		if counts[word] == 0 {
			words = append(words, word)
		}
		counts[word]++
		if means := s.means(); means == meansAct || worst != meansAct && means != meansDone {
			worst = means
		}
	}
	for i, word := range words {
		words[i] = count(counts[word]) + " " + word
	}
	return title + count(len(o.list)) + ": " + strings.Join(words, ", "), worst
}

// nextStep names the key of what can be done now: "X expire".
func (m *Model) nextStep(next string) string {
	switch op := watchdog.Op(next); op {
	case "":
		return ""
	case watchdog.OpKill:
		return m.keys.firstKey("stop") + " then " + m.keys.firstKey("kill") + " kill"
	case watchdog.OpStop, watchdog.OpExpire, watchdog.OpRestart, watchdog.OpDump:
		return m.keys.firstKey(next) + " " + next
	}
	return next
}

// fateSegment is the header's piece about an order that nobody has looked at:
// the newest of the worst.
func (m *Model) fateSegment() (string, meaning) {
	weight := map[meaning]int{meansAct: 3, meansSuspect: 2, meansWait: 1}
	n := len(m.orders.list)
	if n == 0 {
		return "", meansNothing
	}
	var of *order
	text, means := "", meansNothing
	for _, o := range slices.Backward(m.orders.list) {
		if t, its := o.text(m); of == nil || weight[its] > weight[means] {
			of, text, means = o, t, its
		}
	}
	if len(of.list) == 1 && of.list[0].failed != "" { // the reason stands elsewhere
		text, _, _ = strings.Cut(text, ": ")
	}
	if n > 1 {
		text += " +" + count(n-1)
	}
	return text, means
}

// actFact is the strip's line about what was asked for on a session: what this
// screen asked and nobody has looked at, or what anybody asked that is open.
func (m *Model) actFact(id watchdog.ID) (fact, bool) {
	for i := len(m.orders.list) - 1; i >= 0; i-- {
		for _, s := range m.orders.list[i].list {
			if s.action.Session == id {
				return m.sentFact(s), true
			}
		}
	}
	for i := range m.window.Actions {
		if a := &m.window.Actions[i]; a.Session == id && !a.Fate.Final() {
			return m.sentFact(&sent{action: *a, gone: true}), true
		}
	}
	return fact{}, false
}

func (m *Model) sentFact(s *sent) fact {
	a := &s.action
	text := string(a.Op) + " " + generation(a.Generation) + " " + s.fateWord() + s.fateAge()
	if next := m.nextStep(a.Next); next != "" {
		text += ". Next: " + next
	}
	if why := firstOf(s.failed, a.Detail); why != "" {
		text += ": " + why
	}
	return fact{"act", text, s.means()}
}
