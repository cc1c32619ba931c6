package ui

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
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
			rule += ", threshold " + watchdog.FormatLimit(e.Threshold)
		}
		out = append(out, fact{"rule", rule, meansNothing})
	}
	out = append(out, m.inputFacts(d)...)
	out = append(out, m.endFacts(d)...)
	out = append(out, m.childFacts(d)...)
	if g := m.groupOf(d); g != nil {
		out = append(out, fact{"others", m.groupText(g), meansNothing})
	}
	if e.Held != "" {
		out = append(out, fact{"held", e.Held, meansSuspect})
	}
	out = append(out, fact{"our eyes", m.eyesText(e), meansNothing})
	out = append(out, m.settlingFacts(d)...)
	out = append(out, fact{"changes", forecastText(e.Next), meansNothing})
	out = append(out, m.canFact(d, full))
	out = append(out, m.restartFact(d), fact{})
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

// inputFacts are what the verdict rests on, one a line, with source and age.
func (m *Model) inputFacts(d *watchdog.Detail) []fact {
	out := make([]fact, 0, len(d.Evidence.Inputs)+1)
	for i := range d.Evidence.Inputs {
		in := &d.Evidence.Inputs[i]
		out = append(out, fact{label: strings.ReplaceAll(in.Name, "_", " "), text: inputText(d, in)})
	}
	carried := "carried by " + sourceWords(d.Sources) + ", in sight now: " + sourceWords(d.Seeing)
	if d.Cadence <= 0 {
		carried += "; cadence unknown, so never beyond silent"
	}
	return append(out, fact{label: "sources", text: carried})
}

// inputText is "running, by publisher, 5m31 ago"; an age stands only once.
func inputText(d *watchdog.Detail, in *watchdog.Input) string {
	about := ""
	if in.Estimated {
		about = "about "
	}
	value := orDash(in.Value)
	secs, err := strconv.ParseFloat(in.Value, 64)
	isAge := in.Unit == "s" && err == nil && secs >= 0 && secs < math.MaxInt32
	switch {
	case isAge && in.Age < 0 && secs == math.Trunc(secs):
		value = watchdog.FormatLimit(time.Duration(secs) * time.Second)
	case isAge:
		value = age(stepped(&d.Row, time.Duration(secs*float64(time.Second))))
	case in.Unit != "" && in.Value != "":
		if n, err := strconv.ParseInt(in.Value, 10, 64); err == nil {
			value = count(n)
		}
		value += " " + in.Unit
	}
	text := about + value
	said := age(stepped(&d.Row, in.Age))
	if isAge && in.Age >= 0 && value == said {
		text += " ago"
	}
	if in.Source != "" {
		text = termtext.PadRight(text, 12) + " " + in.Source
	}
	if in.Age >= 0 && value != said {
		text += ", " + said + " ago"
	}
	return text
}

// groupOf is the correlated silence that a session is part of; nil none.
func (m *Model) groupOf(d *watchdog.Detail) *watchdog.Group {
	if d.Evidence.Group == 0 {
		return nil
	}
	for i := range m.window.Groups {
		g := &m.window.Groups[i]
		if slices.Contains(g.Members, d.ID) || g.N > len(g.Members) && g.N == d.Evidence.Group {
			return g
		}
	}
	return nil
}

// groupText is "400 of 2,000 stopped together since 03:12:09Z, all on hosts
// eu2-*; 1,600 beat on".
func (m *Model) groupText(g *watchdog.Group) string {
	text := count(g.N) + " of " + count(g.Of) + " stopped together since " + m.wallAt(g.Began)
	if g.Shared != "" {
		text += ", " + g.Shared
	}
	if on := g.Of - g.N; on > 0 {
		text += "; " + count(on) + " beat on: likely what they share, not our link"
	}
	return text
}

func sourceWords(set watchdog.SourceSet) string {
	var names []string
	for _, s := range set.Sources() {
		names = append(names, s.Title())
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " and ")
}

func (m *Model) eyesText(e *watchdog.Evidence) string {
	var parts []string
	for _, s := range e.Sight {
		word := " blind since "
		if s.Up {
			word = " seen since "
		}
		text := s.Source.Title() + word + m.wallAt(m.window.Now.Mono-max(s.Since, 0))
		if s.Reason != "" {
			text += " (" + s.Reason + ")"
		}
		parts = append(parts, text)
	}
	self := &m.window.Self
	if self.Score > 0 {
		parts = append(parts, lateText(self))
	} else {
		parts = append(parts, "our own loop on time")
	}
	return strings.Join(parts, "; ")
}

// sessionFacts is what else is known of the session.
func (m *Model) sessionFacts(d *watchdog.Detail, full bool) []fact {
	now := m.window.Now.Wall
	out := []fact{m.taskFact(d), m.creditFact(d)}
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
	told := slices.ContainsFunc(d.Evidence.Inputs, func(in watchdog.Input) bool { return in.Name == "loop_lag" })
	if d.LoopLag >= 0 && !told { // else it stands above, with who says so
		out = append(out, fact{label: "loop lag", text: d.LoopLag.String()})
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
	means := meansNothing
	word := "unsafe: "
	switch {
	case safe:
		word = "safe: "
	case !healthy(&d.Row):
		means = meansSuspect
	}
	return fact{"IF RESTARTED", word + text, means}
}

// ifRestarted says whether a restart could do harm, and what would be lost, from
// what is known alone: whoever may not act reads it too.
func ifRestarted(d *watchdog.Detail) (safe bool, text string) {
	safe, text = restartRisk(d)
	switch d.Verdict {
	case watchdog.CrashLoop, watchdog.Restarting:
	default:
		if !d.Verdict.Ended() {
			text += lostText(d)
		}
	}
	return safe, text
}

// restartRisk is the harm that a restart could do.
func restartRisk(d *watchdog.Detail) (safe bool, text string) {
	const copies = "it may still be working; two copies could run"
	if d.Terminal != nil && d.Terminal.Foreign {
		return false, "a foreign terminal record says that it ended; " + copies
	}
	switch d.Verdict {
	case watchdog.Completed, watchdog.Stopped, watchdog.Failed:
		return true, "this generation has ended; the next one starts alone"
	case watchdog.Lost, watchdog.Expired:
		return ifSettled(d)
	case watchdog.CrashLoop:
		return false, "it failed too often in a row; the next one likely fails too"
	case watchdog.Restarting:
		return false, "a restart is on its way already"
	case watchdog.Silent, watchdog.Unknown, watchdog.Disputed:
		return false, copies
	case watchdog.Stalled, watchdog.Wedge:
		if d.Attention == watchdog.AttentionAct && d.BeatAge >= 0 && d.Cadence > 0 && d.BeatAge > 3*d.Cadence {
			return false, copies
		}
		return true, "once its stop is verified; it lives but does no work"
	case watchdog.Waiting:
		return false, "it waits as it said; the answer that it waits for would be refused"
	case watchdog.Quiet:
		return false, "it may be working: its work is not published"
	}
	return false, "it works"
}

// ifSettled is for an end that nobody has seen: it was settled.
func ifSettled(d *watchdog.Detail) (safe bool, text string) {
	switch {
	case d.LateBeats > 0:
		return false, "its end is settled, but it beat afterwards (" + quarantineText(d.LateBeats) + "): it may still run beside the next one"
	case d.Verdict == watchdog.Expired:
		return true, "its end is settled, and late beats are quarantined; but its process was not signalled, and may still run unseen"
	}
	return true, "its end is settled, and late beats are quarantined; but a runner that only lost its network may still run"
}

// lostText is what a restart would lose.
func lostText(d *watchdog.Detail) string {
	since := ""
	if d.WorkKnown && d.WorkAge >= 0 && !healthy(&d.Row) {
		since = ", last work " + age(d.WorkAge) + " ago,"
	}
	switch {
	case d.Task != "":
		return fmt.Sprintf("; what came after \"%s\"%s is lost", d.Task, since)
	case since != "":
		return "; what came after its" + since[1:len(since)-1] + " is lost"
	}
	return "; work since its last checkpoint is lost"
}
