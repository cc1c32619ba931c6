package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// namesTold is how many sessions a question names.
const namesTold = 6

// actingFacts say what must be known before an action is confirmed. What matters
// least stands last.
func (m *Model) actingFacts(a *acting) []fact {
	var out []fact
	if len(a.on) == 1 {
		out = m.oneFacts(a)
		out = slices.Insert(out, 1, leftFacts(a)...)
	} else {
		out = m.manyFacts(a)
	}
	if a.reason != "" {
		out = append(out, fact{label: "reason", text: a.reason})
	}
	return out
}

// lastLine says what pins the action, and who will have done it.
func (a *acting) lastLine(width int) string {
	g := generation(a.on[0].Generation)
	switch {
	case len(a.on) > 1:
		return "Whatever is no longer current is not touched. " + a.audited()
	case a.on[0].Generation == 0:
		return "If this run of it is no longer current, nothing happens. " + a.audited()
	case width < 60 && a.by != "":
		return "Only while " + g + " is current; audited: " + a.by
	}
	return "If " + g + " is no longer current, nothing happens. " + a.audited()
}

func (a *acting) audited() string {
	if a.by == "" {
		return "Audited."
	}
	return "Audited as " + a.by + "."
}

func (m *Model) oneFacts(a *acting) []fact {
	if why := a.moved(0); why != "" {
		return []fact{{"moved", why + ": y does nothing any more", meansAct}}
	}
	d := a.known
	if d == nil {
		return []fact{{"now", "what is known of it is not here yet", meansWait}}
	}
	out := []fact{m.nowFact(d)}
	if f, ok := riskFact(a.op, d); ok {
		out = append(out, f)
	}
	switch a.op {
	case watchdog.OpExpire:
		return append(out,
			fact{label: "kills", text: "nothing: the process is not signalled" + pidText(d)},
			fact{label: "loses", text: "its place: what it still sends is quarantined, and it is told 410 where it asks"},
			fact{label: "then", text: "settled expired; its key and its hash end; " + m.hooksText()})
	case watchdog.OpDump:
		return append(out, fact{label: "pauses", text: pausesText(d)}, fact{label: "then", text: "it goes on; 6 lists the dump"})
	}
	rests := d.Verdict.Ended() || d.Process != nil && d.Process.PID == 0
	if rests && a.op == watchdog.OpRestart {
		return append(out, fact{label: "kills", text: "nothing: none of it is known to run"}, fact{label: "then", text: startsText(d)})
	}
	out = append(out, fact{label: "kills", text: killsText(a.op, d)}, fact{label: "loses", text: losesText(d)})
	if a.op == watchdog.OpRestart {
		return append(out, fact{label: "then", text: startsText(d)}, fact{label: "first", text: m.dumpFirstText(d)})
	}
	return append(out, fact{label: "then", text: "settled stopped once its end was verified; nothing starts it again"})
}

// nowFact is the verdict with its evidence.
func (m *Model) nowFact(d *watchdog.Detail) fact {
	_, means := m.glyphs.verdict(d.Verdict)
	text := d.Verdict.String() + " " + age(stepped(&d.Row, d.For))
	if why := firstOf(d.Why, d.Evidence.Text); why != "" {
		text += ": " + why
	}
	if arriving(d) && !strings.Contains(text, "beat") {
		text += "; last beat " + m.agoText(d) + " ago"
	}
	if p := d.Process; p != nil && p.PID > 0 {
		text += fmt.Sprintf("; child %d is alive", p.PID)
	}
	return fact{"now", text, means}
}

// riskFact warns of what the operator may not have seen.
func riskFact(op watchdog.Op, d *watchdog.Detail) (fact, bool) {
	switch op {
	case watchdog.OpRestart:
		if safe, why := restartRisk(d); !safe && d.Verdict != watchdog.Running {
			return fact{"risk", why, meansSuspect}, true
		}
	case watchdog.OpExpire:
		switch {
		case d.Verdict.Ended():
		case arriving(d):
			return fact{"risk", "it lives: it is cut off, and may work on unseen", meansSuspect}, true
		default:
			return fact{"risk", "it may still be working: nobody will see it", meansSuspect}, true
		}
	case watchdog.OpKill:
		return fact{"risk", "no grace: it cannot save anything", meansSuspect}, true
	}
	return fact{}, false
}

// killsText is the blast radius: "3 processes: python3 4711, git 4802, rg 4803
// (TERM, then KILL in 10s)".
func killsText(op watchdog.Op, d *watchdog.Detail) string {
	p := d.Process
	if p == nil || p.PID == 0 && d.Supervisor == watchdog.SupervisorNone {
		text := "its work, as its publisher ends it" + pidText(d)
		return text + "; what else runs there is not known here"
	}
	if p.PID == 0 {
		return "nothing: none of it runs now"
	}
	var names []string
	how := "TERM, then KILL"
	if o := p.Outlook; o != nil {
		for _, member := range o.Members {
			names = append(names, strings.TrimSpace(fmt.Sprintf("%s %d", member.Name, member.PID)))
		}
		if o.Grace > 0 {
			how += " in " + age(o.Grace)
		} else {
			how = "KILL at once"
		}
	}
	if op == watchdog.OpKill {
		how = "KILL at once"
	}
	n := max(p.Processes, len(names), 1)
	if len(names) == 0 {
		names = []string{fmt.Sprintf("pid %d", p.PID)}
	}
	text := processesText(n) + ": " + strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		text += " and " + count(more) + " more"
	}
	return text + " (" + how + ")"
}

// pidText is " (pid 4711 on eu2-07)", or nothing.
func pidText(d *watchdog.Detail) string {
	switch {
	case d.PID > 0 && d.Host != "":
		return fmt.Sprintf(" (pid %d on %s)", d.PID, d.Host)
	case d.PID > 0:
		return fmt.Sprintf(" (pid %d)", d.PID)
	case d.Host != "":
		return " (on " + d.Host + ")"
	}
	return ""
}

// losesText is what a new run would have to do again.
func losesText(d *watchdog.Detail) string {
	text := "work since its last checkpoint: it publishes no task"
	if d.Task != "" {
		text = "what came after \"" + d.Task + "\""
	}
	switch ago := age(stepped(&d.Row, d.WorkAge)); {
	case d.WorkAge < 0:
	case d.WorkKnown:
		text += " (last work " + ago + " ago)"
	case d.WorkBound:
		text += " (no change seen for " + ago + ")"
	default:
		text += " (last change " + ago + " ago)"
	}
	if d.Waiting != watchdog.WaitNone {
		text += "; it waits for " + d.Waiting.String() + ": an answer is refused afterwards"
	}
	return text
}

// startsText is what comes after a restart: "#3 starts; held after 2 more
// failures within 1m00; brake clear".
func startsText(d *watchdog.Detail) string {
	next := "the next generation"
	if d.Generation > 0 {
		next = generation(d.Generation + 1)
	}
	if d.Process == nil || d.Process.Outlook == nil {
		return "whoever supervises it starts " + next + ", once the end was verified"
	}
	o := d.Process.Outlook
	text := next + " starts, once the end was verified"
	if o.Burst > 0 {
		text = fmt.Sprintf("%s starts; held after %s within %s", next, counted(max(o.Left, 1), "more failure"), watchdog.FormatLimit(o.Window))
	}
	if o.Brake != "" {
		return text + "; BRAKE: " + o.Brake
	}
	return text + "; brake clear"
}

// dumpFirstText says whether it is known afterwards what it hung on.
func (m *Model) dumpFirstText(d *watchdog.Detail) string {
	key := m.keys.firstKey("dump")
	if p := d.Process; p != nil && p.Outlook != nil {
		switch o := p.Outlook; {
		case o.DumpFirst && o.Dump != "":
			return "takes a dump (" + o.Dump + ")"
		case o.Dump != "":
			return "takes no dump; " + key + " takes one (" + o.Dump + ")"
		}
		return "takes no dump: none is configured"
	}
	if d.Can.Not(watchdog.OpDump) == "" {
		return "takes no dump that we know of; " + key + " asks for one"
	}
	return "takes no dump"
}

func pausesText(d *watchdog.Detail) string {
	text := "it may stop for a moment while the dump is taken"
	if p := d.Process; p != nil && p.Outlook != nil && p.Outlook.Dump != "" {
		text += " (" + p.Outlook.Dump + ")"
	}
	return text
}

func (m *Model) hooksText() string {
	if len(m.about.Hooks) == 0 {
		return "no release hook is set here"
	}
	return "release hook: " + strings.Join(m.about.Hooks, " ")
}

// manyFacts are those of an action on several.
func (m *Model) manyFacts(a *acting) []fact {
	var verdicts [watchdog.VerdictCount]int
	var names, moved []string
	processes, unknown := 0, 0
	for i := range a.on {
		if why := a.moved(i); why != "" {
			moved = append(moved, string(a.on[i].ID)+" ("+why+")")
			continue
		}
		p := a.newest(i)
		if p.Verdict < watchdog.VerdictCount {
			verdicts[p.Verdict]++
		}
		if processes += p.Processes; p.Processes == 0 {
			unknown++
		}
		names = append(names, string(p.ID))
	}
	var now []string
	for v := range watchdog.VerdictCount {
		worse := watchdog.VerdictCount - 1 - v // the worst stand first
		if n := verdicts[worse]; n > 0 {
			now = append(now, count(n)+" "+worse.String())
		}
	}
	out := []fact{{label: "now", text: strings.Join(now, ", ")}, {label: "of", text: someOf(names)}}
	out = append(out, leftFacts(a)...)
	if len(moved) > 0 {
		out = append(out, fact{"moved", counted(len(moved), "session") + " left out: " + someOf(moved), meansSuspect})
	}
	if n := verdicts[watchdog.Silent] + verdicts[watchdog.Unknown] + verdicts[watchdog.Disputed]; n > 0 && a.op == watchdog.OpRestart {
		out = append(out, fact{"risk", count(n) + " of them may still be working unseen; two copies could run", meansSuspect})
	}
	switch a.op {
	case watchdog.OpExpire:
		out = append(out, fact{label: "kills", text: "nothing: no process is signalled"}, fact{label: "then", text: "settled expired; " + m.hooksText()})
	case watchdog.OpDump:
		out = append(out, fact{label: "then", text: "all go on, some of them may stop for a moment; 6 lists the dumps"})
	default:
		out = append(out, fact{label: "kills", text: manyKills(processes, unknown)},
			fact{label: "loses", text: "of each what came after its last change"})
		then := "settled stopped once the end was verified; nothing starts them again"
		if a.op == watchdog.OpRestart {
			then = "each is started again by whoever supervises it, once its end was verified"
		}
		out = append(out, fact{label: "then", text: then})
	}
	return append(out, fact{label: "each", text: "a command of its own, in turn; " + m.keys.firstKey("commands") + " shows what becomes of it"})
}

func manyKills(processes, unknown int) string {
	text := processesText(processes)
	if processes == 0 {
		return "their work, as their publishers end it; their processes are not known here"
	}
	if unknown > 0 {
		text += ", and the work of " + count(unknown) + " whose processes are not known here"
	}
	return text
}

func processesText(n int) string {
	if n == 1 {
		return "1 process"
	}
	return count(n) + " processes"
}

// leftFacts name those that do not get the action, by reason.
func leftFacts(a *acting) []fact {
	var hidden, cannot []string
	for _, l := range a.left {
		if l.why == filterHides {
			hidden = append(hidden, string(l.id))
			continue
		}
		cannot = append(cannot, string(l.id)+" ("+l.why+")")
	}
	var out []fact
	if len(hidden) > 0 {
		out = append(out, fact{"hidden", count(len(hidden)) + " marked, hidden by the filter and left out: " + someOf(hidden), meansSuspect})
	}
	if len(cannot) > 0 {
		out = append(out, fact{"cannot", count(len(cannot)) + " left out: " + someOf(cannot), meansSuspect})
	}
	return out
}

// someOf names the first of many.
func someOf(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	text := strings.Join(names[:min(len(names), namesTold)], ", ")
	if more := len(names) - namesTold; more > 0 {
		text += " and " + count(more) + " more"
	}
	return text
}
