package ui

import (
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// typedFrom is from how many sessions on a question wants its words typed.
const typedFrom = 11

// opIng names an op that goes on.
func opIng(op watchdog.Op) string {
	switch op {
	case watchdog.OpStop:
		return "stopping"
	case watchdog.OpExpire:
		return "expiring"
	case watchdog.OpDump:
		return "dumping"
	}
	return string(op) + "ing"
}

// offAgent says why an agent cannot be touched now, before any question.
func offAgent(op watchdog.Op) func(*Model) string {
	what := opIng(op)
	return func(m *Model) string {
		switch {
		case m.about.Replay != nil:
			return what + ": off, this is a recording"
		case m.about.ReadOnly:
			return what + ": off, " + m.contextName() + " is READ-ONLY"
		case m.feed == nil:
			return what + ": off, nothing is watched yet"
		case m.ended:
			return what + ": off, the feed has closed"
		}
		return m.aimless(op)
	}
}

// aimless says why no session can take op; empty: one can.
func (m *Model) aimless(op watchdog.Op) string {
	what, a := opIng(op), m.targets()
	first := ""
	op = a.takes(op)
	for i := range a.on {
		why := a.on[i].Can.Not(op)
		if why == "" {
			return ""
		}
		if first == "" {
			first = what + " " + string(a.on[i].ID) + ": " + why
		}
	}
	switch {
	case len(a.on) == 1:
		return first
	case len(a.on) > 1:
		return what + ": none of the " + count(len(a.on)) + " marked can take it; " + first
	case len(a.hidden) > 0:
		return what + ": the filter hides all marked sessions; esc clears it"
	case len(a.unknown) > 0:
		return what + ": what is known of " + string(a.unknown[0]) + " is not here yet; press it again"
	}
	return what + ": there is no session under the cursor"
}

// takes is the op that is asked about for one that was wanted: what cannot be
// stopped may still be killed.
func (a *aim) takes(op watchdog.Op) watchdog.Op {
	if op == watchdog.OpStop && len(a.on) == 1 && a.on[0].Can.Not(op) != "" && a.on[0].Can.Not(watchdog.OpKill) == "" {
		return watchdog.OpKill
	}
	return op
}

// act asks whether op is to be done to what is aimed at, or refuses. It is bound
// to what is current now.
func (m *Model) act(op watchdog.Op, reason string) tea.Cmd {
	if off := offAgent(op)(m); off != "" {
		return m.refuse(off)
	}
	a := m.targets()
	if len(a.on) == 1 && m.opt.Now()-m.shifted < ownMove {
		then := ""
		if m.shiftedTo != a.on[0].ID { // it was moved on since, from where nobody had put it
			then = ", before it was moved to " + string(a.on[0].ID)
		}
		return m.refuse("the cursor went to " + string(m.shiftedTo) + " by itself just now" + then + ": look, then press it again")
	}
	act := newActing(op, &a, m)
	act.reason = reason
	if op == watchdog.OpDump && len(act.on) == 1 && len(act.left) == 0 && !act.on[0].DumpPauses {
		return m.order(act)
	}
	return m.askAction(act)
}

// actWith is act with the reason that was typed behind its name.
func actWith(op watchdog.Op) func(*Model, string) tea.Cmd {
	return func(m *Model, reason string) tea.Cmd { return m.act(op, reason) }
}

func actOn(op watchdog.Op) func(*Model) tea.Cmd {
	return func(m *Model) tea.Cmd { return m.act(op, "") }
}

// askAction asks the question of an action.
func (m *Model) askAction(act *acting) tea.Cmd {
	q := question{title: strings.ToUpper(string(act.op)) + " " + act.whom() + " ?", yes: string(act.op), no: "cancel", act: act, do: func(m *Model) tea.Cmd { return m.order(act) }}
	if len(act.on) >= typedFrom || act.op == watchdog.OpKill {
		q.words = string(act.op)
		if len(act.on) > 1 {
			q.words += " " + strconv.Itoa(len(act.on))
		}
		q.yes = "type  " + q.words
	}
	opened := m.askFirst(q)
	asked := m.ask() // from now on of those that it is about
	act.seq = m.asking.seq
	return tea.Batch(opened, asked)
}

// killInstead turns the question about a stop into that about a kill, which
// wants its word typed. It stays bound to what it was bound to.
func (m *Model) killInstead() tea.Cmd {
	act := m.question.act.killing()
	opened := m.askAction(act)
	return tea.Batch(opened, m.openTyped())
}

func needsKill(m *Model) string {
	if act := m.question.act; act == nil || !act.canKill(m) {
		return "this question is not about a stop that could be a kill"
	}
	return ""
}

// asksAbout is the action that the question on the screen is about; nil none.
func (m *Model) asksAbout() *acting {
	if m.top() != viewQuestion {
		return nil
	}
	return m.question.act
}
