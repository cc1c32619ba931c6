package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (a *app) getCommand() *cobra.Command {
	c := a.aboutOne(wire.EncodeDetail, printSession)
	c.Use = "get ID"
	c.Short = "Show everything that is known of one session"
	c.Example = `  sessionwatch get indexer
  sessionwatch get batch-job-abc123 --json | jq .current_task`
	return c
}

func (a *app) whyCommand() *cobra.Command {
	c := a.aboutOne(wire.EncodeWhy, printWhy)
	c.Use = "why ID"
	c.Short = "Show the evidence behind a session's verdict"
	c.Long = `Show why a session has its verdict: the rule, each input with its source and
age, the threshold, how well the sources are seen, and what comes next.`
	return c
}

// aboutOne is a command that looks at one session. An id that was not seen is
// no answer: exit code 2.
func (a *app) aboutOne(encode func(io.Writer, watchdog.Window) error, print func(io.Writer, *watchdog.Detail) error) *cobra.Command {
	var q asking
	c := &cobra.Command{
		Args:    cobra.ExactArgs(1),
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, args []string) error {
			ask := everything()
			ask.Focus = watchdog.ID(args[0])
			w, err := a.window(c, &q, ask)
			if err != nil {
				return err
			}
			if w.Focus == nil {
				a.caution(w)
				return missing(w, args[0])
			}
			if q.json {
				return a.say(encode(a.env.Stdout, w))
			}
			if err := print(a.env.Stdout, w.Focus); err != nil {
				return a.say(err)
			}
			a.caution(w)
			return nil
		},
	}
	a.addAsking(c, &q)
	q.addWait(c)
	return c
}
