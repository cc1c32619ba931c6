package ui

import (
	"fmt"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const whyLabels = 13

// drawWhy answers why the session under the cursor has its verdict: the rule,
// each input with source and age, the threshold, what comes next, how well we
// see, and what a restart would mean.
func (m *Model) drawWhy(p *painter) {
	d, full := m.detail()
	if d == nil {
		m.drawText(p, m.bodyLines(), func(p *painter) {
			p.text(Style{}, " "+string(m.table.cursor)+" is not known any more; esc goes back")
			p.line()
		})
		return
	}
	m.drawText(p, m.bodyLines(), func(p *painter) {
		m.drawWhyTitle(p, d)
		for _, f := range m.whyFacts(d, full) {
			m.drawFact(p, &f, whyLabels, 4)
		}
	})
}

// drawWhyTitle is "SILENT for 1m19   worker-0217 #1   one of 400 together, HELD".
func (m *Model) drawWhyTitle(p *painter, d *watchdog.Detail) {
	_, means := m.glyphs.verdict(d.Verdict)
	st := m.styles.of(means)
	if means == meansNothing {
		st = m.styles.Title
	}
	word := strings.ToUpper(d.Verdict.String())
	if d.Overdue {
		word += ", OVERDUE"
	}
	p.pad(1)
	p.text(st, word)
	p.text(Style{}, " for "+age(stepped(&d.Row, d.For)))
	p.pad(p.x + 3)
	room := p.edge - p.x - 8
	p.text(m.styles.Title, fitMiddle(string(d.ID), room)+" "+generation(d.Generation))
	if d.Evidence.Group > 0 {
		p.pad(p.x + 3)
		p.text(m.styles.Suspect, "one of "+count(d.Evidence.Group)+" together")
	}
	if d.Evidence.Held != "" {
		p.text(m.styles.Suspect, ", HELD")
	}
	p.line()
}

func (m *Model) whyFacts(d *watchdog.Detail, full bool) []fact {
	e := &d.Evidence
	_, means := m.glyphs.verdict(d.Verdict)
	out := []fact{{"means", d.Verdict.Meaning(), meansNothing}}
	if e.Text != "" || d.Why != "" {
		out = append(out, fact{"because", firstOf(e.Text, d.Why), means})
	}
	if !full {
		return append(out, fact{"evidence", "not here yet: the source has not answered", meansWait})
	}
	if e.Rule != "" {
		rule := e.Rule
		if e.Threshold > 0 {
			rule += ", threshold " + age(e.Threshold)
		}
		out = append(out, fact{"rule", rule, meansNothing})
	}
	for i := range e.Inputs {
		out = append(out, fact{inputLabel(&e.Inputs[i]), m.inputText(d, &e.Inputs[i]), meansNothing})
	}
	out = append(out, m.clockFacts(d)...)
	if e.Held != "" {
		out = append(out, fact{"held", e.Held, meansSuspect})
	}
	out = append(out, fact{"our eyes", m.eyesText(e), meansNothing})
	out = append(out, fact{"changes", forecastText(e.Next), meansNothing})
	out = append(out, m.canFact(d, full))
	out = append(out, m.restartFact(d))
	return append(out, m.sessionFacts(d, full)...)
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func inputLabel(in *watchdog.Input) string { return strings.ReplaceAll(in.Name, "_", " ") }

// inputText is "5m31 ago, limit ..., from publisher".
func (m *Model) inputText(d *watchdog.Detail, in *watchdog.Input) string {
	var b strings.Builder
	b.WriteString(orDash(in.Value))
	if in.Unit != "" && in.Value != "" {
		b.WriteString(" " + in.Unit)
	}
	if in.Source != "" {
		b.WriteString("   by " + in.Source)
	}
	if in.Age >= 0 {
		mark := ""
		if in.Estimated {
			mark = "about "
		}
		b.WriteString("   " + mark + age(stepped(&d.Row, in.Age)) + " ago")
	} else if in.Estimated {
		b.WriteString("   estimated")
	}
	return b.String()
}

// clockFacts are the two clocks and their thresholds, never mixed.
func (m *Model) clockFacts(d *watchdog.Detail) []fact {
	beat := "never"
	if d.BeatAge >= 0 {
		beat = strings.TrimSpace(string(appendBeatAge(nil, &d.Row))) + " ago"
	}
	if d.Cadence > 0 {
		beat += "   every " + age(d.Cadence) + " (" + d.CadenceFrom + ")"
	} else {
		beat += "   cadence unknown: never beyond silent"
	}
	beat += "   carried by " + sourceWords(d.Sources) + ", seen now by " + sourceWords(d.Seeing)
	work := "not known: five-field producer, its own watchdog speaks through the state"
	switch {
	case d.WorkKnown && d.WorkAge >= 0:
		work = string(appendWorkAge(nil, &d.Row)) + " ago"
	case d.WorkBound:
		work = "not published; no visible change since we watch, " + age(d.WorkAge)
	case d.WorkAge >= 0:
		work = "not published; last visible change about " + age(stepped(&d.Row, d.WorkAge)) + " ago"
	}
	if d.StallTimeout > 0 {
		work += "   limit " + age(d.StallTimeout) + " (" + d.StallFrom + ")"
	}
	return []fact{{"BEAT", beat, meansNothing}, {"WORK", work, meansNothing}}
}

func sourceWords(set watchdog.SourceSet) string {
	var names []string
	for _, s := range set.Sources() {
		names = append(names, linkName(s))
	}
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, " and ")
}

func (m *Model) eyesText(e *watchdog.Evidence) string {
	var parts []string
	for _, s := range e.Sight {
		word := "blind"
		if s.Up {
			word = "seeing"
		}
		text := linkName(s.Source) + " " + word + " for " + age(coarse(s.Since))
		if s.Reason != "" {
			text += " (" + s.Reason + ")"
		}
		parts = append(parts, text)
	}
	self := &m.window.Self
	if self.Score > 0 {
		parts = append(parts, fmt.Sprintf("we are late by %s: deadlines x%d", age(self.Lag), self.Score+1))
	} else {
		parts = append(parts, "our own loop on time")
	}
	return strings.Join(parts, "; ")
}

// sessionFacts is what else is known of the session.
func (m *Model) sessionFacts(d *watchdog.Detail, full bool) []fact {
	now := m.window.Now.Wall
	out := []fact{m.stateFact(d), m.creditFact(d)}
	out = append(out, m.beatsFact(d, full), m.workFact(d, full))
	where := "agent " + orDash(d.Agent) + "   host " + orDash(d.Host)
	if d.PID > 0 {
		where += fmt.Sprintf("   pid %d", d.PID)
	}
	out = append(out, fact{label: "where", text: where})
	run := "generation " + generation(d.Generation)
	if d.BootID != "" {
		run += "   boot " + d.BootID
	}
	if d.Seq >= 0 {
		run += fmt.Sprintf("   beat %d of it", d.Seq)
	}
	run += "   first seen " + wall(now-int64(d.FirstSeen), now)
	out = append(out, fact{label: "run", text: run})
	if d.LoopLag >= 0 {
		out = append(out, fact{label: "loop lag", text: d.LoopLag.String()})
	}
	if d.LateBeats > 0 {
		out = append(out, fact{"late beats", count(d.LateBeats) + " of an ended or overtaken execution: kept apart, no sign of life", meansSuspect})
	}
	if d.Message != "" {
		out = append(out, fact{label: "message", text: d.Message})
	}
	return out
}

// restartFact answers "if restarted" from what is known, whether or not
// anybody here could restart.
func (m *Model) restartFact(d *watchdog.Detail) fact {
	safe, text := ifRestarted(d)
	means := meansSuspect
	word := "unsafe: "
	if safe {
		means, word = meansNothing, "safe: "
	}
	return fact{"IF RESTARTED", word + text, means}
}

// ifRestarted says whether a restart could do harm, and what would be lost.
func ifRestarted(d *watchdog.Detail) (safe bool, text string) {
	lost := ""
	if d.Task != "" {
		lost = fmt.Sprintf("; what came after \"%s\" is lost", d.Task)
	}
	switch d.Verdict {
	case watchdog.Completed, watchdog.Stopped, watchdog.Failed:
		return true, "this generation has ended; the next one starts alone"
	case watchdog.Lost, watchdog.Expired:
		return true, "its end is settled, and late beats are kept apart; but a partitioned runner may still run"
	case watchdog.CrashLoop:
		return false, "it failed too often in a row; the next one likely fails too"
	case watchdog.Restarting:
		return false, "a restart is on its way already"
	case watchdog.Silent, watchdog.Unknown, watchdog.Disputed:
		return false, "it may still be working; two copies could run" + lost
	case watchdog.Stalled, watchdog.Wedge:
		if d.Attention == watchdog.AttentionAct && d.BeatAge >= 0 && d.Cadence > 0 && d.BeatAge > 3*d.Cadence {
			return false, "it may still be working; two copies could run" + lost
		}
		return true, "once its stop is verified; it lives but does no work" + lost
	case watchdog.Waiting:
		return false, "it waits as it said; the answer that it waits for would be refused" + lost
	case watchdog.Quiet:
		return false, "it may be working: its work is not published" + lost
	}
	return false, "it works" + lost
}
