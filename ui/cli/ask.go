package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// defaultWait is how long a one-shot command listens: guards answer a ping
// within one second.
const defaultWait = 2 * time.Second

// asking is what the one-shot commands share: where to look, and how long.
type asking struct {
	flags
	wait time.Duration
	from string

	whole bool          // watch for the whole wait, and ask the sources again at its end
	asked time.Duration // then: how long before the window they were asked
}

// addAsking offers the flags. The command names its own flag for the wait.
func (a *app) addAsking(c *cobra.Command, q *asking) {
	a.addSources(c, &q.flags)
	q.addJSON(c)
	c.Flags().StringVar(&q.from, "from", "", "look at the end of a recording `FILE` instead of the servers")
	a.addServe(c, &q.flags)
	c.MarkFlagsMutuallyExclusive("from", "serve")
	for _, other := range []string{"nats", "redis", "context", "read-only"} {
		c.MarkFlagsMutuallyExclusive("from", other)
	}
}

// addWait offers --wait.
func (q *asking) addWait(c *cobra.Command) {
	c.Flags().DurationVar(&q.wait, "wait", defaultWait, "how long to listen for beats; Redis is read at once")
}

// window gives one window of what is asked: of a recording's end, or of the
// servers after the wait.
func (a *app) window(c *cobra.Command, q *asking, ask watchdog.Ask) (watchdog.Window, error) {
	if q.wait < 0 {
		return watchdog.Window{}, &usageError{fmt.Errorf("%v is no time to wait; give a duration such as 2s", q.wait)}
	}
	if q.from != "" {
		return a.recorded(q.from, ask)
	}
	settings, err := a.settings(c, &q.flags, false)
	if err != nil {
		return watchdog.Window{}, err
	}
	log, closeLog, err := openLog(settings.LogFile)
	if err != nil {
		return watchdog.Window{}, misconfigured(err)
	}
	defer closeLog.Close()
	a.warn(settings.Warnings)
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	client, err := a.serveOf(ctx, c, settings, &q.flags)
	if err != nil {
		return watchdog.Window{}, err
	}
	if client != nil {
		defer client.Close()
		return a.throughServe(ctx, client, q, ask)
	}
	o := observerOptions{clock: clock.System(), log: log, ping: true}
	if o.settling, err = newSettling(settings, settlingOptions{clock: o.clock, log: log, spawn: plainly}); err != nil {
		return watchdog.Window{}, misconfigured(err)
	}
	watching, err := newObserver(settings, o).start()
	if err != nil {
		return watchdog.Window{}, err
	}
	var w watchdog.Window
	if q.whole {
		w, q.asked, err = watching.collectWhole(ctx, q.wait, ask)
	} else {
		w, err = watching.collect(ctx, q.wait, ask)
	}
	if stopErr := watching.stop(); err == nil && stopErr != nil {
		err = stopErr
	}
	if l := &w.Ledger; err == nil && w.Total > 0 && !l.Read && !l.Unnamed {
		a.note("the ledger was not read: who has ended may be said to live")
	}
	return w, err
}

// warn tells what the configuration allows but hardly means.
func (a *app) warn(warnings []string) {
	for _, text := range warnings {
		a.note("warning: %s", text)
	}
}

// recorded tells a recording to a tracker and gives the window at its end.
func (a *app) recorded(path string, ask watchdog.Ask) (watchdog.Window, error) {
	r, err := openRecording(path)
	if err != nil {
		return watchdog.Window{}, untold(err)
	}
	defer r.Close()
	tracker := r.Header().NewTracker()
	result, err := recording.Replay(r, tracker, recording.ReplayOptions{})
	if err != nil {
		return watchdog.Window{}, untold(err)
	}
	for _, gap := range result.Gaps {
		a.note("the recorder lost something: %s", gap)
	}
	if result.Note != "" {
		a.note("%s: %s", path, result.Note)
	}
	return tracker.Look(ask), nil
}

// everything asks for every session, the good ends of long ago too.
func everything() watchdog.Ask { return watchdog.Ask{Height: -1, KeepEnded: true} }

// caution says on standard error what the answer could not see.
func (a *app) caution(w watchdog.Window) {
	for _, text := range caveats(w) {
		a.note("%s", text)
	}
}

// missing is the answer for an id that was not seen, with those that look like it.
func missing(w watchdog.Window, id string) error {
	text := fmt.Sprintf("session %q was not seen", clean(id))
	if near := nearest(id, w.Rows); len(near) > 0 {
		text += "; did you mean " + joinOr(near) + "?"
	} else if w.Total == 0 {
		text += ", and no other either"
	}
	return untold(errors.New(text))
}
