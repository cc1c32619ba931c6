package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// checkRules is what the caller of check wants to be true.
type checkRules struct {
	failOn []watchdog.Verdict
	expect []watchdog.ID
	min    int           // sessions that must live; 0 does not matter
	looked time.Duration // how long it watched
	asked  time.Duration // how long before the window the sources were asked again; 0 they were not
}

// checkResult is the answer of check.
type checkResult struct {
	code     int
	headline string
	failed   []watchdog.Row // worst first
	acked    []watchdog.Row // bad ends that somebody has acknowledged: news no more
	unknown  int
	sight    time.Duration // for how long every source that answered was seen
	bad      []string      // why the code is exitBadNews
	untold   []string      // why it cannot be exitDone
	limits   []string      // what this look could not show
}

// judgeCheck decides what a window with every row in it means to a script. Bad
// news that was seen outweighs what was not: it stays bad whatever else there
// is. Healthy is said only if nothing speaks against it and everything that
// was asked for could be seen.
func judgeCheck(w watchdog.Window, rules checkRules) checkResult {
	r := checkResult{unknown: w.Fleet.ByVerdict[watchdog.Unknown], sight: sightOf(w.Links)}
	for _, row := range w.Rows {
		switch {
		case !slices.Contains(rules.failOn, row.Verdict) || row.Held:
		case row.Verdict.Ended() && row.Standing == watchdog.AlertAcked:
			r.acked = append(r.acked, row)
		default:
			r.failed = append(r.failed, row)
		}
	}
	if n := len(r.failed); n > 0 {
		r.bad = append(r.bad, fmt.Sprintf("%s: %s", count(n, "session"), tally(r.failed)))
	}
	r.judgeNumbers(w, rules)
	r.judgeSight(w, rules.asked)
	r.limits = limitsOf(w, rules.looked)
	switch {
	case len(r.bad) > 0:
		r.code, r.headline = exitBadNews, "BAD NEWS"
	case len(r.untold) > 0:
		r.code, r.headline = exitUntold, "CANNOT TELL"
	default:
		r.code, r.headline = exitDone, "HEALTHY"
	}
	return r
}

// judgeNumbers compares who was seen with who was wanted.
func (r *checkResult) judgeNumbers(w watchdog.Window, rules checkRules) {
	seen := make(map[watchdog.ID]bool, len(w.Rows))
	for _, row := range w.Rows {
		seen[row.ID] = true
	}
	for _, id := range rules.expect {
		if !seen[id] {
			r.untold = append(r.untold, fmt.Sprintf("expected %s was never seen", id))
		}
	}
	switch {
	case w.Total == 0:
		r.untold = append(r.untold, "no session was seen")
	case w.Total < rules.min:
		r.untold = append(r.untold, fmt.Sprintf("%s seen, at least %d are wanted", count(w.Total, "session"), rules.min))
	case w.Fleet.Live < rules.min:
		r.bad = append(r.bad, fmt.Sprintf("%s of %d seen live, at least %d must", count(w.Fleet.Live, "session"), w.Total, rules.min))
	}
}

// judgeSight says what stands between us and a healthy answer.
func (r *checkResult) judgeSight(w watchdog.Window, asked time.Duration) {
	if w.Fleet.Live > 0 && r.unknown == w.Fleet.Live {
		r.untold = append(r.untold, "every live session is unknown: the sources that carried them are not seen")
	}
	for _, g := range w.Groups {
		if !holds(g) {
			continue
		}
		text := "the brake holds: " + watchdog.FormatCount(g.N) + " of " + watchdog.FormatCount(g.Of) + " fell silent together"
		if g.Shared != "" {
			text += ", " + g.Shared
		}
		r.untold = append(r.untold, text)
	}
	for _, l := range w.Links {
		// Nobody may have meant a default address; a named one was meant.
		if !l.Sighted && l.Origin != originDefault {
			r.untold = append(r.untold, fmt.Sprintf("%s cannot be seen: %s", l.Source.Title(), blindness(l)))
		}
		if l.Sighted && (l.Phase == watchdog.LinkDown || asked > 0 && l.LastTrip >= asked) {
			r.untold = append(r.untold, fmt.Sprintf("%s answered last %s ago: %s", l.Source.Title(), spell(l.LastTrip), blindness(l)))
		}
	}
}

// limitsOf says what a look of that length cannot show.
func limitsOf(w watchdog.Window, looked time.Duration) []string {
	var out []string
	if n := w.Fleet.Live - w.Fleet.Assessed - w.Fleet.ByVerdict[watchdog.Unknown]; n > 0 {
		out = append(out, fmt.Sprintf("whether %s of %d live works: it publishes no age of its work, which shows only after a whole stall timeout of watching", count(n, "session"), w.Fleet.Live))
	}
	for _, l := range w.Links {
		switch {
		case !l.Sighted:
			out = append(out, fmt.Sprintf("what %s carries: %s", l.Source.Title(), blindness(l)))
		case l.Source == watchdog.SourceNATS:
			out = append(out, fmt.Sprintf("sessions on NATS that did not beat within %s", spell(looked)))
		}
		if l.Dropped > 0 {
			out = append(out, fmt.Sprintf("%s of %s that were lost on our side", count(int(l.Dropped), "message"), l.Source.Title()))
		}
	}
	if w.Self.Shed > 0 {
		out = append(out, fmt.Sprintf("%s beyond limits.sessions or limits.new_per_second", count(int(w.Self.Shed), "beat of an unknown id", "beats of unknown ids")))
	}
	return out
}

// holds reports whether a correlated silence stops the settling now.
func holds(g watchdog.Group) bool { return g.HeldFor != 0 }

// sightOf is the shortest present sight among the sources that are seen.
func sightOf(links []watchdog.Link) time.Duration {
	shortest := time.Duration(-1)
	for _, l := range links {
		if l.Sighted && (shortest < 0 || l.Since < shortest) {
			shortest = l.Since
		}
	}
	return max(shortest, 0)
}

// tally counts rows by verdict, most urgent first: "2 stalled, 1 lost".
func tally(rows []watchdog.Row) string {
	var byVerdict [watchdog.VerdictCount]int
	var order []watchdog.Verdict
	for _, row := range rows {
		if byVerdict[row.Verdict] == 0 {
			order = append(order, row.Verdict)
		}
		byVerdict[row.Verdict]++
	}
	parts := make([]string, len(order))
	for i, v := range order {
		parts[i] = fmt.Sprintf("%d %s", byVerdict[v], v)
	}
	return strings.Join(parts, ", ")
}
