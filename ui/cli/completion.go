package cli

import (
	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
)

// completeWith offers fixed words for a flag. The last word of a comma list is
// what the shell completes.
func completeWith(c *cobra.Command, flag string, list func() []string) {
	mustRegister(c, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return list(), cobra.ShellCompDirectiveNoFileComp
	})
}

// mustRegister registers a completion. It fails only for a flag that the
// command does not have, which is a mistake of ours that every test sees.
func mustRegister(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// completeContexts offers the names of the contexts in the configuration. A
// configuration that cannot be read offers none: completion must not complain.
func (a *app) completeContexts(f *flags) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		settings, err := config.Load(config.Options{Path: f.config, Getenv: a.env.getenv, DeferSecrets: true})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return settings.ContextNames(), cobra.ShellCompDirectiveNoFileComp
	}
}

// filterWords starts a filter: a shell completes one word.
func filterWords() []string {
	var out []string
	for _, v := range verdictWords() {
		out = append(out, "verdict:"+v)
	}
	return out
}
