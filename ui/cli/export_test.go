package cli

import (
	"bytes"
	"context"
	"os"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Wrap puts something between the terminal and the screen.
func (e *Env) Wrap(f func(tea.Model) tea.Model) { e.wrap = f }

// MainWithWedgingEngine serves nothing but an engine under the watchdog that the
// arguments configure. A beat of "wedge" blocks the engine for ever; the process
// ends at SIGTERM.
func MainWithWedgingEngine(args []string, env Env) int {
	a := &app{env: env}
	c := a.serveCommand()
	if err := c.ParseFlags(args); err != nil {
		return exitUntold
	}
	settings, err := a.settings(c, &flags{config: "-"}, false)
	if err != nil {
		return exitMisconfig
	}
	ctx, stop := env.Interrupts(context.Background())
	defer stop()
	log, _, _ := a.daemonLog("")
	s, err := newObserver(settings, observerOptions{clock: clock.System(), log: log, tap: wedgingTap{}, guard: newSelfGuard(settings, nil, log)}).start()
	if err != nil {
		return exitMisconfig
	}
	wedge := make([]byte, 1)
	go func() {
		if n, _ := os.Stdin.Read(wedge); n == 1 {
			s.engine.Beats([]watchdog.Beat{{ID: []byte("wedge")}})
		}
	}()
	<-ctx.Done()
	if s.stop() != nil {
		return exitFault
	}
	return exitDone
}

// wedgingTap blocks the engine's goroutine.
type wedgingTap struct{}

func (wedgingTap) Beats(batch []watchdog.Beat) {
	for i := range batch {
		if bytes.Equal([]byte(batch[i].ID), []byte("wedge")) {
			select {}
		}
	}
}

func (wedgingTap) Event(watchdog.Event) {}
