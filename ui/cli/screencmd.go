package cli

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/demo"
	"github.com/sessionwatch/sessionwatch/ui"
)

// demoStory is how long a demo plays before it is listed where there is no
// terminal: every verdict was there by then.
const demoStory = 20 * time.Second

func (a *app) screenCommand() *cobra.Command {
	c := a.watchCommand(func(h *host) { h.supervises = true })
	c.Use = "sessionwatch"
	c.Short = "Watch long-running AI agents: which work, which stopped silently, and why"
	c.Long = `sessionwatch watches long-running AI agents over NATS and Redis: which of them
work, which have silently stopped, since when and why.

Without a command it opens the screen on the servers that configuration and
environment name; without a terminal it lists the sessions, as ls does.

Exit codes: 0 done or healthy, 1 bad news or the action failed, 2 could not tell
or wrong usage, 75 a fault of its own, 78 the configuration is wrong.`
	c.Example = `  sessionwatch demo                 simulated agents, nothing to set up
  sessionwatch bus                  servers on this machine for local agents
  sessionwatch attach --nats nats://nats.lan:4222 --redis redis://redis.lan:6379`
	return c
}

func (a *app) attachCommand() *cobra.Command {
	var sweep bool
	c := a.watchCommand(func(h *host) {
		if sweep {
			h.station = h.openSweeping
		}
	})
	c.Flags().BoolVar(&sweep, "sweep", false, "settle lost executions from here, as a serve does")
	c.MarkFlagsMutuallyExclusive("sweep", "read-only")
	c.MarkFlagsMutuallyExclusive("sweep", "serve")
	c.Use = "attach"
	c.Short = "Open the screen on NATS and Redis servers"
	c.Long = `Open the screen on the servers that flags, environment and configuration name.
It observes: it creates nothing on a bus, and publishes agent.ping alone, which
asks guards to beat; with --read-only not even that. With --sweep it settles lost
executions too, as a serve does.`
	c.GroupID = groupWatch
	return c
}

// watchCommand shows the configured servers, by a host that change makes another.
func (a *app) watchCommand(change func(*host)) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.plain(f.json) {
				w, err := a.window(c, &asking{flags: f, wait: defaultWait}, everything())
				if err != nil {
					return err
				}
				return a.list(w, f.json)
			}
			return a.screenWith(c, &f, &ui.Target{Kind: ui.TargetConfigured, Context: f.context}, change)
		},
	}
	a.addSources(c, &f)
	a.addServe(c, &f)
	a.addGuard(c)
	f.addTheme(c)
	f.addJSON(c)
	return c
}

func (a *app) demoCommand() *cobra.Command {
	var f flags
	t := ui.Target{Kind: ui.TargetDemo}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch simulated agents: every verdict within 20 s",
		Long: `Start NATS and Redis in this process, on random ports of 127.0.0.1, let simulated
agents work, stall, wedge, fall silent and fail, and watch them. Nothing is kept.
Without a terminal it plays 20 s of its story and lists what is seen then.`,
		Args:    cobra.NoArgs,
		GroupID: groupTry,
		RunE: func(c *cobra.Command, _ []string) error {
			if t.Agents < 1 || t.Agents > demo.MaxAgents {
				return &usageError{fmt.Errorf("--agents %d is not within 1 to %d", t.Agents, demo.MaxAgents)}
			}
			if math.IsNaN(t.Speed) || t.Speed < demo.MinSpeed || t.Speed > demo.MaxSpeed {
				return &usageError{fmt.Errorf("--speed %v is not within %v to %v", t.Speed, demo.MinSpeed, demo.MaxSpeed)}
			}
			if a.plain(f.json) {
				return a.listDemo(t, f.json)
			}
			return a.screen(c, &f, &t)
		},
	}
	a.addConfig(c, &f)
	a.addGuard(c)
	f.addTheme(c)
	f.addJSON(c)
	set := c.Flags()
	set.Uint64Var(&t.Seed, "seed", 1, "the same `N` is the same story")
	set.IntVar(&t.Agents, "agents", demo.DefaultAgents, "how many agents")
	set.Float64Var(&t.Speed, "speed", 1, "seconds of story in a real one")
	return c
}

// listDemo plays without a screen what the screen's demo plays: who is lost is
// settled here too.
func (a *app) listDemo(t ui.Target, json bool) error {
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	h := &host{log: discard(), spawn: plainly}
	feed, err := h.openDemo(t)
	if err != nil {
		return badNews(err)
	}
	defer feed.Close()
	fleet := feed.(*engineFeed)
	wait := time.Duration(float64(demoStory) / t.Speed)
	a.note("DEMO: simulated agents; listing them after %s", spell(wait))
	w, err := fleet.watching.collect(ctx, wait, everything())
	if err != nil {
		return err
	}
	return a.list(w, json)
}

// plain reports whether the answer is text: there is nobody to look at a
// screen, or JSON is wanted.
func (a *app) plain(json bool) bool { return json || !a.env.StdoutTTY }
