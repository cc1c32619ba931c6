package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// hostCells bounds the column of hosts: one that lies must not push the rest of
// every row out of sight. get tells the whole of it.
const hostCells = 24

// printRows writes the table of ls: the verdict and the two clocks first, the
// reason when a session is sick, its task when it is well.
func printRows(w io.Writer, rows []watchdog.Row) error {
	t := newTable(1, 4, 5, 6, 7)
	t.add("VERDICT", "FOR", "SESSION", "GEN", "BEAT", "WORK", "UP", "CREDIT", "HOST", "SOURCES", "WHY / TASK")
	for _, r := range rows {
		t.add(r.Verdict.String(), age(r.For), string(r.ID), generation(r.Generation),
			beatAge(r), workAge(r), age(r.Uptime), credits(r.Credits), termtext.TruncateMiddle(orNone(r.Host), hostCells, "~"),
			sourceNames(r.Sources), orNone(whyOrTask(r)))
	}
	return t.print(w, "")
}

// whyOrTask is the reason of a session that needs somebody, else its task.
func whyOrTask(r watchdog.Row) string {
	if r.Attention == watchdog.AttentionNone && r.Task != "" && r.Verdict != watchdog.Waiting {
		return r.Task
	}
	return r.Why
}

// summary is the fleet in one sentence.
func summary(w watchdog.Window) string {
	f := w.Fleet
	text := count(w.Total, "session") + ", " + watchdog.FormatCount(f.Live) + " live"
	if f.NeedYou > 0 {
		text += ", " + watchdog.FormatCount(f.NeedYou) + " need you"
	}
	if f.Answered > 0 {
		text += ", " + watchdog.FormatCount(f.Answered) + " answered"
	}
	for v := range watchdog.VerdictCount {
		if n := f.ByVerdict[v]; n > 0 {
			text += ", " + watchdog.FormatCount(n) + " " + v.String()
		}
	}
	return text
}

// caveats says what a window cannot show: sources that are not seen and why,
// what was refused or lost on the way, and who is held together.
func caveats(w watchdog.Window) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, l := range w.Links {
		name := l.Source.Title()
		if !l.Sighted {
			add("%s is not seen: %s", name, blindness(l))
		}
		if l.Warning != "" {
			add("%s: %s", name, l.Warning)
		}
		if n := l.RefusedTotal(); n > 0 {
			add("%s: %s refused, last kind %s%s", name, count(int(n), "message"), l.LastRefusal.String(), behind(" on ", l.LastRefusalID))
		}
		if l.Dropped > 0 {
			add("%s: %s lost on our side", name, count(int(l.Dropped), "message"))
		}
	}
	for _, g := range w.Groups {
		if holds(g) {
			add("%s fell silent together%s; settling is held", count(g.N, "session"), behind(", ", g.Shared))
		}
	}
	if w.Self.Shed > 0 {
		add("%s shed: more unknown ids than limits.sessions and limits.new_per_second allow", count(int(w.Self.Shed), "beat"))
	}
	if w.Self.Score > 0 {
		add("this observer is starved itself; its deadlines are stretched %d times", 1+w.Self.Score)
	}
	return out
}

// behind puts a separator before a text that may be empty.
func behind(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// printSession writes everything that is known of one session, a line a fact.
func printSession(w io.Writer, d *watchdog.Detail) error {
	p := &printer{w: w}
	p.printf("%s\n", headline(d))
	t := newTable()
	t.add("why", orNone(d.Evidence.Text))
	t.add("state", orNone(d.State))
	t.add("task", orNone(d.Task)+since(d.TaskSince))
	if d.Progress.Known {
		t.add("progress", progress(d.Progress))
	}
	t.add("beat", beatSentence(d))
	t.add("work", workSentence(d.Row))
	if d.Waiting != watchdog.WaitNone {
		t.add("waiting", waitSentence(d.Row))
	}
	t.add("stall", fmt.Sprintf("after %s (%s)", unknownOr(d.StallTimeout), orNone(d.StallFrom)))
	t.add("up", age(d.Uptime))
	t.add("credits", credits(d.Credits))
	if d.LoopLag >= 0 {
		t.add("loop lag", spell(d.LoopLag))
	}
	t.add("process", processSentence(d))
	if d.Message != "" {
		t.add("message", d.Message)
	}
	t.add("sources", fmt.Sprintf("%s carried it; %s see it now", sourceNames(d.Sources), sourceNames(d.Seeing)))
	t.add("watched", fmt.Sprintf("%s; first seen %s ago", age(d.Watched), age(d.FirstSeen)))
	if d.LateBeats > 0 {
		t.add("late", count(int(d.LateBeats), "beat")+" of an ended or overtaken execution")
	}
	if p.err == nil {
		p.err = t.print(w, "  ")
	}
	return p.err
}

// headline names a session and its verdict.
func headline(d *watchdog.Detail) string {
	text := fmt.Sprintf("%s %s  %s", clean(string(d.ID)), generation(d.Generation), d.Verdict)
	if d.For >= 0 && d.Verdict != watchdog.Running { // since when we see it run tells nothing of it
		text += " for " + age(d.For)
	}
	return text
}

func since(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return ", since " + age(d)
}

func unknownOr(d time.Duration) string {
	if d <= 0 {
		return "unknown"
	}
	return spell(d)
}

func progress(p watchdog.Progress) string {
	text := fmt.Sprintf("%d of %d", p.Done, p.Of)
	if p.PerMinute == p.PerMinute { // not NaN
		text += fmt.Sprintf(", %.1f a minute", p.PerMinute)
	}
	if p.ETA >= 0 {
		text += ", done in " + age(p.ETA)
	}
	return text
}

func beatSentence(d *watchdog.Detail) string {
	text := "age unknown"
	if at := beatAge(d.Row); at != none {
		text = at + " ago"
	}
	if d.Cadence <= 0 {
		return text + "; its cadence is not known"
	}
	return fmt.Sprintf("%s; every %s (%s)", text, spell(d.Cadence), orNone(d.CadenceFrom))
}

func workSentence(r watchdog.Row) string {
	switch {
	case r.WorkAge < 0:
		return "unknown: it publishes no age of its work"
	case r.WorkBound:
		return fmt.Sprintf("no visible change for at least %s, as long as we watch", age(r.WorkAge))
	case !r.WorkKnown:
		return fmt.Sprintf("last visible change %s ago", age(r.WorkAge))
	}
	return age(r.WorkAge) + " ago"
}

func waitSentence(r watchdog.Row) string {
	text := "for " + r.Waiting.String()
	if r.WaitMax > 0 {
		text += ", at most " + spell(r.WaitMax)
	}
	if r.Overdue {
		text += ", OVERDUE"
	}
	return text
}

func processSentence(d *watchdog.Detail) string {
	text := fmt.Sprintf("agent %s, host %s", orNone(d.Agent), orNone(d.Host))
	if d.PID > 0 {
		text += fmt.Sprintf(", pid %d", d.PID)
	}
	if d.BootID != "" {
		text += ", boot " + d.BootID
	}
	return text
}

// printWhy writes the evidence of one session: the rule, what it looked at,
// how well we see, and what comes next.
func printWhy(w io.Writer, d *watchdog.Detail) error {
	p := &printer{w: w}
	e := d.Evidence
	p.printf("%s\n", headline(d))
	facts := newTable()
	facts.add("why", orNone(e.Text))
	facts.add("rule", orNone(e.Rule)+limit(e.Threshold))
	if e.Held != "" {
		facts.add("held", e.Held)
	}
	for _, s := range e.Sight {
		facts.add("sight", sightSentence(s))
	}
	for _, n := range e.Next {
		facts.add("next", nextSentence(n))
	}
	facts.add("can", canSentence(&d.Can))
	if p.err == nil {
		p.err = facts.print(w, "  ")
	}
	if len(e.Inputs) == 0 {
		return p.err
	}
	inputs := newTable(3)
	inputs.add("INPUT", "VALUE", "SOURCE", "AGE")
	for _, in := range e.Inputs {
		at := age(in.Age)
		if in.Estimated && in.Age >= 0 {
			at = "~" + at
		}
		inputs.add(in.Name, orNone(in.Value)+behind(" ", in.Unit), orNone(in.Source), at)
	}
	if p.err == nil {
		p.err = inputs.print(w, "  ")
	}
	return p.err
}

func limit(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return ", limit " + spell(d)
}

func sightSentence(s watchdog.Sight) string {
	state := "seen"
	if !s.Up {
		state = "NOT seen"
	}
	return fmt.Sprintf("%s %s for %s%s", s.Source.Title(), state, age(s.Since), behind(": ", s.Reason))
}

func nextSentence(f watchdog.Forecast) string {
	text := f.Verdict.String()
	if f.In >= 0 {
		text += " in " + age(f.In)
	}
	return text + behind(" if ", f.If)
}

func canSentence(c *watchdog.Can) string {
	var words []string
	for _, op := range c.May.Ops() {
		words = append(words, string(op))
	}
	if len(words) == 0 {
		return "nothing: " + c.WhyNot()
	}
	return strings.Join(words, ", ") + behind("; not ", c.WhyNot())
}
