package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (a *app) eventsCommand() *cobra.Command {
	var q asking
	var follow, late bool
	c := &cobra.Command{
		Use:   "events [ID]",
		Short: "Tell what happened, to one session or to all",
		Long: `Tell what happened, oldest first: changes of verdict, settlements, numbers of
generations, groups, blindness. A serve tells all that it remembers; without one
the servers are watched for --wait, and only what happens then can be told.`,
		Example: `  sessionwatch events indexer
  sessionwatch events --follow --json | jq 'select(.to=="lost")'`,
		Args:    cobra.MaximumNArgs(1),
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, args []string) error {
			id := watchdog.ID("")
			if len(args) == 1 {
				id = watchdog.ID(args[0])
			}
			if late {
				return a.late(c, &q, id)
			}
			return a.events(c, &q, id, follow)
		},
	}
	a.addAsking(c, &q)
	q.addWait(c)
	c.Flags().BoolVar(&late, "late", false, "list the quarantine instead: beats and output that came after the end of ID, as JSON lines; asks a serve")
	c.Flags().BoolVar(&follow, "follow", false, "go on with what happens, until interrupted")
	c.MarkFlagsMutuallyExclusive("late", "follow")
	c.MarkFlagsMutuallyExclusive("late", "from")
	return c
}

// late lists what came after the end of a session: a serve keeps it.
func (a *app) late(c *cobra.Command, q *asking, id watchdog.ID) error {
	if id == "" {
		return &usageError{errors.New("name the session whose quarantine is to be listed: sessionwatch events ID --late")}
	}
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	settings, err := a.settings(c, &q.flags, false)
	if err != nil {
		return err
	}
	client, err := a.serveOf(ctx, c, settings, &q.flags)
	if err != nil {
		return err
	}
	if client == nil {
		return untold(errors.New("the quarantine is kept by a serve, and none answers here; name one with --serve"))
	}
	defer client.Close()
	if err := client.Late(ctx, a.env.Stdout, id); err != nil {
		return untold(err)
	}
	return nil
}

func (a *app) events(c *cobra.Command, q *asking, id watchdog.ID, follow bool) error {
	ask := watchdog.Ask{Events: allEvents, EventsOf: id}
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	if q.from != "" {
		if follow {
			return &usageError{errors.New("a recording has an end; leave --follow out")}
		}
		w, err := a.recorded(q.from, ask)
		if err != nil {
			return err
		}
		_, err = a.printEvents(w, serveview.Mark{}, q.json)
		return err
	}
	look, done, err := a.looker(ctx, c, q)
	if err != nil {
		return err
	}
	defer done()
	var after serveview.Mark
	for {
		w, err := look(ctx, ask)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if after, err = a.printEvents(w, after, q.json); err != nil {
			return a.say(err)
		}
		if !follow {
			a.caution(w)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(eventPause):
		}
	}
}

// eventPause is how often --follow looks.
const eventPause = 300 * time.Millisecond

// printEvents prints what came after the mark.
func (a *app) printEvents(w watchdog.Window, after serveview.Mark, json bool) (serveview.Mark, error) {
	news, after := after.After(w.Events)
	for _, t := range news {
		if json {
			if err := wire.EncodeEvent(a.env.Stdout, t); err != nil {
				return after, err
			}
			continue
		}
		if err := printEvent(a.env.Stdout, t); err != nil {
			return after, err
		}
	}
	return after, nil
}

// looker gives a way to look again and again: through the serve that is there,
// or at the servers, which are watched for the wait first.
func (a *app) looker(ctx context.Context, c *cobra.Command, q *asking) (look func(context.Context, watchdog.Ask) (watchdog.Window, error), done func(), err error) {
	settings, err := a.settings(c, &q.flags, false)
	if err != nil {
		return nil, nil, err
	}
	client, err := a.serveOf(ctx, c, settings, &q.flags)
	if err != nil {
		return nil, nil, err
	}
	if client != nil {
		return func(ctx context.Context, ask watchdog.Ask) (watchdog.Window, error) {
			return lookThrough(ctx, client, ask)
		}, client.Close, nil
	}
	a.warn(settings.Warnings)
	log, closeLog, err := openLog(settings.LogFile)
	if err != nil {
		return nil, nil, misconfigured(err)
	}
	watching, err := newObserver(settings, observerOptions{clock: clock.System(), log: log, ping: true}).start()
	if err != nil {
		_ = closeLog.Close() // nothing was logged
		return nil, nil, err
	}
	done = func() {
		_ = watching.stop() // what ended it was told
		_ = closeLog.Close()
	}
	first := true
	return func(ctx context.Context, ask watchdog.Ask) (watchdog.Window, error) {
		if first {
			first = false
			return watching.collect(ctx, q.wait, ask)
		}
		return watching.look(ctx, ask)
	}, done, nil
}

// printEvent prints one event for people.
func printEvent(to io.Writer, t watchdog.Transition) error {
	who := string(t.ID)
	if who != "" {
		who += " " + generation(t.Generation)
	}
	what := t.Kind
	if t.Kind == "" {
		what = t.To.String()
		if !t.New {
			what = t.From.String() + " > " + what
		}
	}
	at := time.Unix(0, t.At.Wall).UTC().Format("2006-01-02 15:04:05Z")
	_, err := fmt.Fprintf(to, "%s  %-24s  %-20s  %s\n", at, clean(who), what, clean(t.Text))
	return err
}
