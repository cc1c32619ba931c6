package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (a *app) trialCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "trial WORD...",
		Short: "What would other thresholds have raised, of what a serve saw?",
		Long: `Judge once more what came into a serve of late (16 MiB of it are kept), by the
policy in force and by other thresholds, and say what either raises and what of it
recovered by itself. Nothing is published or settled, and the serve goes on: it
judges one trial at a time, with half of a core at most. On a recording:
sessionwatch replay FILE --trial WORDS. Exit code 2: no serve could tell.`,
		Example: `  sessionwatch trial stall_timeout=10m quiet=stalled
  sessionwatch trial "batch-*:stall_timeout=20m" --json | jq '.verdicts'`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(trialWords(), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace),
		GroupID:           groupAsk,
		RunE:              func(c *cobra.Command, args []string) error { return a.trial(c, &f, strings.Join(args, " ")) },
	}
	a.addConfig(c, &f)
	a.addServe(c, &f)
	f.addJSON(c)
	return c
}

// trialWords are the beginnings of what can be tried.
func trialWords() []string {
	var out []string
	for _, t := range watchdog.TrialThresholds() {
		out = append(out, t.Name+"=")
	}
	return out
}

func (a *app) trial(c *cobra.Command, f *flags, words string) error {
	settings, err := a.settings(c, f, false)
	if err != nil {
		return err
	}
	// What is no threshold needs no serve to be refused.
	if _, err := watchdog.ParseTrial(settings.Policy, words); err != nil {
		return &usageError{fmt.Errorf("trial: %w", err)}
	}
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	client, err := a.serveOf(ctx, c, settings, f)
	switch {
	case err != nil:
		return err
	case client == nil:
		return untold(errors.New("no serve answers here, and it alone keeps what came in; name one with --serve, or try on a recording: sessionwatch replay FILE --trial WORDS"))
	}
	defer client.Close()
	result, err := client.Try(ctx, words)
	if err != nil {
		return untold(err)
	}
	return a.printTrial(&result, f.json)
}
