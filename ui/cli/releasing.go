package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/httpregistry"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// release runs the hook that gives back what an expired session held, and says
// how it ended. A hook of another process is not known here, and is not run.
func (a *acting) release(ctx context.Context, r watchdog.Record) string {
	agent := ""
	if d := a.look(ctx, r.ID); d != nil {
		agent = d.Agent
	}
	did := a.o.hook.Run(ctx, r, agent)
	switch {
	case !did.Ran:
		return "no release hook is configured here (registry.release): nothing was given back"
	case did.OK:
		return "release hook done in " + spell(did.Took.Round(10*time.Millisecond))
	}
	return fmt.Sprintf("the release hook FAILED with exit code %d%s", did.ExitCode, behind(": ", did.Output))
}

// canceler delivers the stops that are asked for over HTTP.
type canceler struct{ acting *acting }

// Cancel asks for a stop and gives its command.
func (c canceler) Cancel(ctx context.Context, id watchdog.ID, g watchdog.Generation, reason string) (string, error) {
	a, err := c.acting.do(ctx, watchdog.Command{Op: watchdog.OpStop, Session: id, Generation: g, Reason: reason, IssuedBy: "HTTP"})
	switch {
	case err != nil:
		return "", err
	case a.Fate == watchdog.FateLostRace:
		return "", httpregistry.ErrNothingToStop
	case a.Fate == watchdog.FateRefused:
		return "", fmt.Errorf("it was refused: %s", a.Detail)
	}
	return a.ID, nil
}
