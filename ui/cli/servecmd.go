package cli

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Settle, register and supervise without a screen",
		Long: `Watch the servers that flags, environment and configuration name, settle the
executions that were lost, keep the registry (POST /heartbeat) and its reaper,
and supervise the sessions of the configuration. Screens and one-shot commands
on this machine look through it by themselves; others with --serve.

Several serves at once are safe: every end is written once, by whoever is first.`,
		Example: `  sessionwatch serve --nats nats://nats.lan:4222 --redis redis://redis.lan:6379
  curl -H "Authorization: Bearer $(cat ~/.local/state/sessionwatch/token)" \
       -H 'Content-Type: application/json' -d '{"session_id":"abc-1234"}' http://127.0.0.1:7077/heartbeat`,
		Args:    cobra.NoArgs,
		GroupID: groupWatch,
		RunE:    func(c *cobra.Command, _ []string) error { return a.serve(c, &f) },
	}
	a.addSources(c, &f)
	a.addGuard(c)
	c.Flags().String("listen", "", "`HOST:PORT` of registry, health, metrics and view; - for none (default 127.0.0.1:7077)")
	return c
}

func (a *app) serve(c *cobra.Command, f *flags) error {
	settings, err := a.settings(c, f, false)
	if err != nil {
		return err
	}
	log, closeLog, err := a.daemonLog(settings.LogFile)
	if err != nil {
		return misconfigured(err)
	}
	defer closeLog.Close()
	a.warn(settings.Warnings)
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	s, err := openServing(settings, log)
	if err != nil {
		return err
	}
	defer s.close()
	return s.run(ctx, func(text string) { a.note("%s", text) })
}

// daemonLog logs to the file that is set, else to standard error: nobody else
// writes there.
func (a *app) daemonLog(path string) (*slog.Logger, io.Closer, error) {
	if path != "" {
		return openLog(path)
	}
	return slog.New(slog.NewTextHandler(a.env.Stderr, nil)), io.NopCloser(nil), nil
}
