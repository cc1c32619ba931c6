package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// defaultWatch is how long check looks: long enough for the answers to a ping
// and two polls of Redis, short enough for a script.
const defaultWatch = 5 * time.Second

// defaultFailOn are the verdicts that are bad news unless somebody says otherwise.
func defaultFailOn() []watchdog.Verdict {
	return []watchdog.Verdict{watchdog.Stalled, watchdog.Wedge, watchdog.Lost, watchdog.CrashLoop, watchdog.Failed}
}

func (a *app) checkCommand() *cobra.Command {
	q := asking{whole: true}
	var failOn, expect []string
	var atLeast int
	c := &cobra.Command{
		Use:   "check",
		Short: "Say with an exit code whether the fleet is well",
		Long: `Watch for a while, then say whether the fleet is well:

  0  healthy: nothing that was seen is bad news
  1  bad news: a session has one of the --fail-on verdicts, or fewer than --min live
  2  could not tell: nothing was seen, an expected session was never seen, only
     unknown ones were, the brake holds a mass silence, or a server that was
     named is not seen, or one no longer answers at the end

Judged is what stands at the end of the watch; bad news outweighs what could not
be seen. A lost or failed session that somebody has acknowledged is no news, if a
serve is asked: only there the notes are known. A short watch cannot show everything: whether a producer of the five
plain fields works is known only after a whole stall timeout, and one that does
not answer a ping shows only when it beats. The answer says so each time. Give
--watch 6m to see a stall of the default timeout from scratch.`,
		Example: `  sessionwatch check --expect indexer,billing --watch 40s
  sessionwatch check --fail-on stalled,silent --min 20 --json`,
		Args:    cobra.NoArgs,
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, _ []string) error {
			verdicts, err := readVerdicts(failOn)
			if err != nil {
				return &usageError{err}
			}
			if atLeast < 0 {
				return &usageError{fmt.Errorf("--min %d is below 0", atLeast)}
			}
			began := time.Now()
			w, err := a.window(c, &q, everything())
			if err != nil {
				return err
			}
			rules := checkRules{failOn: verdicts, min: atLeast, looked: time.Since(began), asked: q.asked}
			if q.from != "" {
				rules.looked = w.Now.Mono - w.Started.Mono
			}
			for _, id := range expect {
				rules.expect = append(rules.expect, watchdog.ID(id))
			}
			return a.tellCheck(judgeCheck(w, rules), w, rules, q.json)
		},
	}
	a.addAsking(c, &q)
	set := c.Flags()
	set.DurationVar(&q.wait, "watch", defaultWatch, "how long to watch before judging")
	set.StringSliceVar(&failOn, "fail-on", words(defaultFailOn()), "`VERDICTS` that are bad news")
	set.StringSliceVar(&expect, "expect", nil, "`IDS` that must be seen")
	set.IntVar(&atLeast, "min", 0, "how many sessions must live at least")
	completeWith(c, "fail-on", verdictWords)
	return c
}

// tellCheck prints the answer and gives its exit code.
func (a *app) tellCheck(r checkResult, w watchdog.Window, rules checkRules, json bool) error {
	var err error
	if json {
		err = wire.EncodeCheck(a.env.Stdout, wire.Check{Result: r.code, Failed: r.failed, Sight: r.sight, Unknown: r.unknown})
	} else {
		err = r.print(a.env.Stdout, w, rules)
	}
	if err != nil {
		return a.say(err)
	}
	if json {
		for _, text := range append(r.bad, r.untold...) {
			a.note("%s", text)
		}
	}
	return exitWith(r.code)
}

func (r checkResult) print(out io.Writer, w watchdog.Window, rules checkRules) error {
	p := &printer{w: out}
	p.printf("%s  %s; looked for %s\n", r.headline, summary(w), spell(rules.looked.Round(time.Second)))
	for _, text := range r.bad {
		p.printf("  bad news: %s\n", clean(text))
	}
	if p.err == nil && len(r.failed) > 0 {
		p.err = failedTable(r.failed).print(out, "    ")
	}
	if len(r.acked) > 0 {
		p.printf("  acknowledged, so no news: %s\n", tally(r.acked))
	}
	for _, text := range r.untold {
		p.printf("  cannot tell: %s\n", clean(text))
	}
	for _, text := range r.limits {
		p.printf("  not shown by this look: %s\n", clean(text))
	}
	return p.err
}

// failedShown is how many failed sessions are listed for people; --json has all.
const failedShown = 20

func failedTable(rows []watchdog.Row) *table {
	t := newTable(1)
	for _, row := range rows[:min(len(rows), failedShown)] {
		t.add(row.Verdict.String(), age(row.For), string(row.ID), generation(row.Generation), orNone(row.Why))
	}
	if more := len(rows) - failedShown; more > 0 {
		t.add("...", "", fmt.Sprintf("and %d more", more))
	}
	return t
}

// readVerdicts reads the words of --fail-on.
func readVerdicts(texts []string) ([]watchdog.Verdict, error) {
	var out []watchdog.Verdict
	for _, word := range texts {
		v, ok := watchdog.VerdictOf(strings.TrimSpace(word))
		if !ok {
			return nil, fmt.Errorf("--fail-on: %q is not a verdict; use %s", clean(word), strings.Join(verdictWords(), ", "))
		}
		out = append(out, v)
	}
	return out, nil
}

func words(verdicts []watchdog.Verdict) []string {
	out := make([]string, len(verdicts))
	for i, v := range verdicts {
		out[i] = v.String()
	}
	return out
}

// verdictWords lists every verdict.
func verdictWords() []string {
	var out []string
	for v := range watchdog.VerdictCount {
		out = append(out, v.String())
	}
	return out
}
