package cli

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// originDefault is the origin of a setting that nobody made.
const originDefault = "default"

// none stands in a column whose value is not known or not given.
const none = "-"

// spell writes a duration for people: 31s, 5m31s, 6h02m, 3d04h. Negative is
// "not known".
func spell(d time.Duration) string {
	if d < 0 {
		return none
	}
	switch s := int64(d / time.Second); {
	case d < time.Second && d > 0:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	default:
		return fmt.Sprintf("%dd%02dh", s/86400, s%86400/3600)
	}
}

// age writes the age of something in whole seconds.
func age(d time.Duration) string {
	if d < 0 {
		return none
	}
	return spell(d.Truncate(time.Second))
}

// beatAge is the BEAT column: "~" stands before an estimate.
func beatAge(r watchdog.Row) string {
	if r.BeatAge < 0 || r.BeatKind == watchdog.AgeUnknown {
		return none
	}
	if r.BeatKind == watchdog.AgeEstimated {
		return "~" + age(r.BeatAge)
	}
	return age(r.BeatAge)
}

// workAge is the WORK column: "~" stands before the age of the last visible
// change, ">" before a lower bound.
func workAge(r watchdog.Row) string {
	switch {
	case r.WorkAge < 0:
		return none
	case r.WorkBound:
		return ">" + age(r.WorkAge)
	case !r.WorkKnown:
		return "~" + age(r.WorkAge)
	}
	return age(r.WorkAge)
}

func generation(g watchdog.Generation) string {
	if g == 0 {
		return "#?"
	}
	return "#" + strconv.FormatUint(uint64(g), 10)
}

func credits(c float64) string {
	if math.IsNaN(c) {
		return none
	}
	if math.Abs(c) >= 1e15 {
		return strconv.FormatFloat(c, 'g', 6, 64)
	}
	return strconv.FormatFloat(c, 'f', 2, 64)
}

// orNone keeps a column from being empty, so that scripts can split by space.
func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

// count writes a number with its noun.
func count(n int, noun string, plural ...string) string {
	if n == 1 {
		return "1 " + noun
	}
	if len(plural) > 0 {
		return watchdog.FormatCount(n) + " " + plural[0]
	}
	return watchdog.FormatCount(n) + " " + noun + "s"
}

// sourceNames joins the names of a set: nats,redis.
func sourceNames(set watchdog.SourceSet) string {
	var names []string
	for _, s := range set.Sources() {
		names = append(names, s.String())
	}
	return orNone(strings.Join(names, ","))
}

// blindness says in a few words why a source is not seen.
func blindness(l watchdog.Link) string {
	why := l.Reason
	switch {
	case l.Phase != watchdog.LinkUp && l.Detail != "":
		why = l.Detail // it says more than that there was no answer
	case why == "" && l.Sighted && l.Phase == watchdog.LinkUp:
		why = "no answer since"
	case why == "":
		why = l.Phase.String()
	}
	if l.Address == "" {
		return why
	}
	return fmt.Sprintf("%s (%s, from %s)", why, l.Address, orNone(l.Origin))
}

// lines yields the lines of a text without the line breaks.
func lines(text string) iter.Seq[string] {
	return strings.SplitSeq(strings.TrimRight(text, "\n"), "\n")
}
