package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
)

// flags holds the values of the flags that several commands share. A command
// offers those that make sense for it. What is a setting too reaches it through
// config.Load, so that precedence and refusals are decided in one place.
type flags struct {
	config  string
	context string
	serve   string // address of a serve; "-" none
	json    bool
}

// addConfig offers the flags of every command that reads the configuration.
func (a *app) addConfig(c *cobra.Command, f *flags) {
	set := c.Flags()
	set.StringVar(&f.config, "config", "", "configuration `FILE`, - for none (default $SESSIONWATCH_CONFIG, else config.yaml in the configuration directory)")
	set.StringVar(&f.context, "context", "", "use the cluster that the configuration calls `NAME`")
	mustRegister(c, "context", a.completeContexts(f))
	set.String("data-dir", "", "keep ledger, history, audit file and dumps in `DIR`; a serve's socket is there too")
	set.String("log-file", "", "append the program's own log to `FILE`, made with mode 0600; JSON if it ends in .json")
}

// addSources offers the flags that say what is watched.
func (a *app) addSources(c *cobra.Command, f *flags) {
	a.addConfig(c, f)
	set := c.Flags()
	set.String("nats", "", "NATS server `URL`, - for none; without a password")
	set.String("redis", "", "Redis server `URL`, - for none; without a password")
	set.Bool("read-only", false, "publish and write nothing on any bus, not even a ping")
}

// addServe offers to look through a serve.
func (a *app) addServe(c *cobra.Command, f *flags) {
	c.Flags().StringVar(&f.serve, "serve", "", "look through the serve at `ADDR`: its socket, http://host:port or https://host:port; - for none (default the one of this machine, if it answers)")
}

// addJSON offers machine-readable output.
func (f *flags) addJSON(c *cobra.Command) {
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
}

// addTheme offers the look of the screen.
func (f *flags) addTheme(c *cobra.Command) {
	c.Flags().String("theme", "", "`NAME` of the colours: "+strings.Join(themes(), ", "))
	completeWith(c, "theme", themes)
	c.Flags().Bool("ascii", false, "draw ASCII alone: for a font or a terminal without the symbols")
}

// themes lists the values of ui.theme.
func themes() []string {
	var names []string
	for _, t := range []config.Theme{config.ThemeAuto, config.ThemeDark, config.ThemeLight, config.ThemeMono, config.ThemeContrast, config.ThemeNone} {
		names = append(names, string(t))
	}
	return names
}
