package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/query"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (a *app) lsCommand() *cobra.Command {
	var q asking
	var filter string
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the sessions that are seen now",
		Long: `List the sessions that are seen now, those that need somebody first.

Redis is read at once. On NATS a ping asks guards to beat, unless --read-only;
a producer that does not answer it is seen only if it beats within --wait.
What could not be seen is said on standard error.`,
		Example: `  sessionwatch ls --filter 'verdict:stalled work>5m'
  sessionwatch ls --json --redis - | jq '.[].session_id'`,
		Args:    cobra.NoArgs,
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, _ []string) error {
			ask := everything()
			if err := applyFilter(&ask, filter); err != nil {
				return err
			}
			w, err := a.window(c, &q, ask)
			if err != nil {
				return err
			}
			return a.list(w, q.json)
		},
	}
	a.addAsking(c, &q)
	q.addWait(c)
	c.Flags().StringVar(&filter, "filter", "", "show what matches `QUERY` only, as / does on the screen")
	completeWith(c, "filter", filterWords)
	return c
}

// applyFilter compiles the filter language into ask.
func applyFilter(ask *watchdog.Ask, filter string) error {
	q, err := query.Compile(filter)
	if err != nil {
		return &usageError{fmt.Errorf("--filter: %w", err)}
	}
	ask.Match, ask.Query = q.Match(), q.String()
	return nil
}

// list prints a window as ls does, and says what it could not see. That no
// session was seen is an answer if a source was seen, else nothing was told.
func (a *app) list(w watchdog.Window, json bool) error {
	var err error
	if json {
		err = wire.EncodeList(a.env.Stdout, w)
	} else if len(w.Rows) > 0 {
		err = printRows(a.env.Stdout, w.Rows)
	}
	if err != nil {
		return a.say(err)
	}
	a.caution(w)
	switch {
	case w.Total == 0 && !anySighted(w.Links):
		a.note("nothing could be seen")
		return exitWith(exitUntold)
	case w.Total == 0:
		a.note("no session was seen")
	case len(w.Rows) == 0:
		a.note("no session matches the filter; %s", summary(w))
	default:
		a.note("%s", summary(w))
	}
	return nil
}

func anySighted(links []watchdog.Link) bool {
	for _, l := range links {
		if l.Sighted {
			return true
		}
	}
	return false
}
