package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// trialLine is one line of what came of a trial.
type trialLine struct {
	text    string // all of it, but for the verdict's glyph and word
	heading bool
	dim     bool
	verdict watchdog.Verdict
	shows   bool            // the verdict stands in front
	before  string          // of the verdict
	tried   *watchdog.Tried // of which the line is; nil: of none
}

func (l *trialLine) plain() string {
	if !l.shows {
		return l.text
	}
	return l.before + fmt.Sprintf("%-11s", l.verdict) + l.text
}

// TrialText is what came of a trial as text without escape codes, a line each.
func TrialText(r *watchdog.TrialResult) []string {
	lines := trialLines(r, 100)
	out := make([]string, len(lines))
	for i := range lines {
		out[i] = strings.TrimRight(lines[i].plain(), " ")
	}
	return out
}

// trialLines writes a result down for so many cells.
func trialLines(r *watchdog.TrialResult, width int) []trialLine {
	var out []trialLine
	head := func(format string, args ...any) {
		out = append(out, trialLine{heading: true, text: fmt.Sprintf(format, args...)})
	}
	say := func(format string, args ...any) {
		out = append(out, trialLine{text: " " + fmt.Sprintf(format, args...)})
	}
	end := r.To.Wall
	head("TRIAL  %s", strings.Join(r.Changes, ", "))
	if len(r.Changes) == 0 {
		out[0].text = "TRIAL  of the policy that is in force: nothing differs"
	}
	say("judged %s to %s, %s, of %s and %s", wall(r.From.Wall, end), wall(end, end), age(r.To.Mono-r.From.Mono),
		counted(r.Sessions, "session"), countedBeats(r.Beats))
	out = append(out, trialLine{dim: true, text: " nothing is published or settled by a trial"})
	for _, o := range r.Own {
		have, go1 := "sessions have", "go"
		if o.Sessions == 1 {
			have, go1 = "session has", "goes"
		}
		say("%s of %s %s %s of their own (%s) and %s by that;", count(o.Sessions), count(r.Sessions), have, o.Name, o.From, go1)
		say("  *:%s=%s tries it on them too", o.Name, trialValue(o.Name, &r.Would))
	}
	out = append(out, trialLine{})
	out = append(out, trialTable(r, width)...)
	if r.GroupsNow+r.GroupsWould > 0 {
		say("silent together, one alert each: %s now, %s would be", counted(r.GroupsNow, "group"), count(r.GroupsWould))
	}
	out = append(out, trialLine{})
	different := r.Differences()
	switch {
	case len(r.Raised) == 0:
		say("neither policy raises anything in that time")
	case different == 0:
		head("NO DIFFERENCE: both raise the same")
	default:
		head("DIFFERENT: %s of %s", count(different), count(len(r.Raised)))
	}
	for _, same := range []bool{false, true} {
		if same && different > 0 && different < len(r.Raised) {
			out = append(out, trialLine{}, trialLine{heading: true, text: "THE SAME: " + count(len(r.Raised)-different)})
		}
		for i := range r.Raised {
			if t := &r.Raised[i]; t.Same() == same {
				out = append(out, trialRow(t, end, width))
			}
		}
	}
	if r.Unlisted > 0 {
		say("%s more are counted and not listed", count(r.Unlisted))
	}
	return out
}

func countedBeats(n uint64) string {
	if n == 1 {
		return "1 beat"
	}
	return count(n) + " beats"
}

func trialValue(name string, p *watchdog.Policy) string {
	for _, t := range watchdog.TrialThresholds() {
		if t.Name == name {
			return t.Value(p)
		}
	}
	return ""
}

// trialTable counts by verdict: what is raised, and what of it recovered by
// itself.
func trialTable(r *watchdog.TrialResult, width int) []trialLine {
	format, titles := "%6s %6s  %6s %6s", []any{"NOW", "recov.", "WOULD", "recov."}
	if width >= 60 {
		format, titles = "%6s %10s  %8s %10s", []any{"NOW", "recovered", "WOULD", "recovered"}
	}
	change := func(v *watchdog.TrialVerdict) string {
		var parts []string
		if v.Gone > 0 {
			parts = append(parts, count(v.Gone)+" gone")
		}
		if v.New > 0 {
			parts = append(parts, count(v.New)+" new")
		}
		if len(parts) == 0 || width < 60 {
			return ""
		}
		return "   " + strings.Join(parts, ", ")
	}
	row := func(v *watchdog.TrialVerdict) string {
		return fmt.Sprintf(format, count(v.Now.Raised), count(v.Now.Recovered), count(v.Would.Raised), count(v.Would.Recovered)) + change(v)
	}
	out := []trialLine{{dim: true, text: strings.Repeat(" ", 12) + fmt.Sprintf(format, titles...)}}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		out = append(out, trialLine{shows: true, before: " ", verdict: v.Verdict, text: row(v)})
	}
	total := r.Total()
	return append(out, trialLine{text: " " + fmt.Sprintf("%-11s", "all") + row(&total)})
}

// trialRow is one raise, and what differs.
func trialRow(t *watchdog.Tried, end int64, width int) trialLine {
	word, text := "same", ""
	switch {
	case t.Now == nil:
		word, text = "new", became(t.Verdict, t.Would)
	case t.Would == nil:
		word, text = "gone", became(t.Verdict, t.Now)
	case t.Same():
		text = became(t.Verdict, t.Now)
	default:
		word, text = "moved", movedBy(t)
	}
	at := wall(t.First().Wall, end)
	room := longName
	if width < 100 {
		room = shortName
	}
	l := trialLine{shows: true, verdict: t.Verdict, tried: t}
	if width < 60 {
		l.before, room = fmt.Sprintf(" %-6s", word), 14
		l.text = sessionName(t.ID, t.Generation, room)
		return l
	}
	l.before = fmt.Sprintf(" %-6s%s ", word, at)
	name := sessionName(t.ID, t.Generation, room)
	l.text = name + strings.Repeat(" ", max(room-cells(name), 0)) + " " + text
	return l
}

// movedBy says how a raise moved: "2m00 later; ...".
func movedBy(t *watchdog.Tried) string {
	var parts []string
	switch d := t.Would.At.Mono - t.Now.At.Mono; {
	case d >= time.Second:
		parts = append(parts, age(d)+" later")
	case d <= -time.Second:
		parts = append(parts, age(-d)+" earlier")
	}
	was, is := became(t.Verdict, t.Now), became(t.Verdict, t.Would)
	if was == is || t.Now.End == t.Would.End && t.Now.Next == t.Would.Next {
		parts = append(parts, is)
	} else {
		parts = append(parts, is+"; now "+was)
	}
	return strings.Join(parts, ", ")
}

// became says what became of a raise.
func became(v watchdog.Verdict, r *watchdog.TrialRaise) string {
	after := " after " + age(r.Lasted())
	switch {
	case r.End == watchdog.TrialRecovered && v == watchdog.Lost:
		return "beat again" + after + ": it was not lost"
	case r.End == watchdog.TrialRecovered && r.Next == watchdog.Completed:
		return "ended well" + after
	case r.End == watchdog.TrialRecovered:
		return "recovered" + after
	case r.End == watchdog.TrialWorse:
		return "then " + r.Next.String() + after
	case r.End == watchdog.TrialActed && !r.Next.Ended() && r.Next != watchdog.Restarting:
		return "a newer execution" + after
	case r.End == watchdog.TrialActed:
		return r.Next.String() + after
	case v.Ended():
		return "stands"
	}
	return "open, for " + age(r.Lasted()) + " so far"
}
