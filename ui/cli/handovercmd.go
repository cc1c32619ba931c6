package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (a *app) handoverCommand() *cobra.Command {
	var q asking
	var since string
	c := &cobra.Command{
		Use:   "handover",
		Short: "Sum up for who comes next: what is open, what happened, what was done",
		Long: `Sum up what one who leaves tells the one who comes: alerts that are open, with who
answered them; what happened; actions and what came of them; what is muted; and
when nobody saw. A serve knows it, from its history for before its own start too.
Without one the servers are watched for --wait: then only what is open now, and
what the audit file of this machine says, can be told. Exit code 2: nothing could.`,
		Example: `  sessionwatch handover --since 12h
  sessionwatch handover --json | jq '.open[] | .text'`,
		Args:    cobra.NoArgs,
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, _ []string) error {
			back, err := ui.ParseShift(since)
			if err != nil {
				return &usageError{errors.New("--since: " + err.Error())}
			}
			return a.handover(c, &q, back)
		},
	}
	a.addAsking(c, &q)
	q.addWait(c)
	c.Flags().StringVar(&since, "since", "8h", "how far to look back: `8h`, 90m, 2d")
	return c
}

func (a *app) handover(c *cobra.Command, q *asking, back time.Duration) error {
	if q.from != "" {
		h, err := shift{look: func(_ context.Context, ask watchdog.Ask) (watchdog.Window, error) { return a.recorded(q.from, ask) }}.Handover(c.Context(), back)
		if err != nil {
			return err
		}
		return a.printHandover(&h, "", q.json)
	}
	settings, err := a.settings(c, &q.flags, false)
	if err != nil {
		return err
	}
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	client, err := a.serveOf(ctx, c, settings, &q.flags)
	if err != nil {
		return err
	}
	if client != nil {
		defer client.Close()
		h, err := client.Handover(ctx, back)
		if err != nil {
			return untold(err)
		}
		about, err := client.About(ctx)
		if err != nil {
			return untold(err)
		}
		return a.printHandover(&h, about.Name, q.json)
	}
	look := func(_ context.Context, ask watchdog.Ask) (watchdog.Window, error) {
		w, err := a.window(c, q, ask)
		if err == nil {
			a.caution(w)
		}
		return w, err
	}
	h, err := shift{look: look, audit: auditIn(settings.DataDir)}.Handover(ctx, back)
	if err != nil {
		return err
	}
	a.note("no serve answers here: told is what the servers show now; what happened before is kept by a serve alone")
	if err := a.printHandover(&h, nameOf(settings), q.json); err != nil {
		return err
	}
	if !h.Seeing || h.Sessions == 0 && len(h.Actions) == 0 {
		return untold(errors.New("nothing could be told: no session was seen; start a serve, or name one with --serve"))
	}
	return nil
}

func (a *app) printHandover(h *watchdog.Handover, name string, asJSON bool) error {
	if asJSON {
		return a.say(encodeHandover(a.env.Stdout, h))
	}
	p := &printer{w: a.env.Stdout}
	for _, line := range ui.HandoverText(h, name, operatorName()) {
		p.printf("%s\n", clean(line))
	}
	return a.say(p.err)
}
