package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/ui"
)

// settings reads the configuration with the flags of c over it. It touches one
// file and no network. With deferSecrets the files of passwords stay unread
// until ReadSecrets: a screen draws before that.
func (a *app) settings(c *cobra.Command, f *flags, deferSecrets bool) (*config.Config, error) {
	settings, err := config.Load(a.options(c, f, deferSecrets))
	if err != nil {
		return nil, misconfigured(err)
	}
	return settings, nil
}

// screenKeys are the keys of the screen. What only the screen can judge of its
// part of the configuration is refused here: keys and columns.
func screenKeys(settings *config.Config) (ui.KeyMap, error) {
	keys, wrong := ui.DefaultKeyMap().Rebind(settings.UI.Keys)
	var faults []config.Fault
	for _, f := range wrong {
		faults = append(faults, config.Fault{Key: "ui.keys." + f.Action, Text: f.Text})
	}
	if err := ui.Columns(settings.UI.Columns); err != nil {
		faults = append(faults, config.Fault{Key: "ui.columns", Text: err.Error()})
	}
	if err := settings.Refuse(faults...); err != nil {
		return nil, misconfigured(err)
	}
	return keys, nil
}

// allSettings is settings of a command that looks for what is wrong with any of
// them.
func (a *app) allSettings(c *cobra.Command, f *flags) (*config.Config, error) {
	settings, err := a.settings(c, f, false)
	if err != nil {
		return nil, err
	}
	if _, err := screenKeys(settings); err != nil {
		return nil, err
	}
	if _, err := sealOf(settings); err != nil {
		return nil, misconfigured(err)
	}
	return settings, nil
}

func (a *app) options(c *cobra.Command, f *flags, deferSecrets bool) config.Options {
	o := config.Options{
		Path: f.config, Context: f.context,
		Getenv: a.env.getenv, DeferSecrets: deferSecrets,
	}
	for _, flag := range []struct{ name, key string }{
		{"nats", "nats.url"}, {"redis", "redis.url"}, {"read-only", "read_only"},
		{"log-file", "log_file"}, {"theme", "ui.theme"}, {"ascii", "ui.ascii"}, {"listen", "serve.listen"}, {"data-dir", "data_dir"},
		{"watchdog", "watchdog.enabled"}, {"watchdog-timeout", config.KeyWatchdogTimeout},
	} {
		// A flag that was not given must not override anything.
		if set := c.Flags().Lookup(flag.name); set != nil && set.Changed {
			o.Flags = append(o.Flags, config.Flag{Name: "--" + flag.name, Key: flag.key, Value: set.Value.String()})
		}
	}
	return o
}

// faultsOf lists the single faults of a configuration error; nil if it is none.
func faultsOf(err error) []config.Fault {
	if faults, ok := errors.AsType[*config.Faults](err); ok {
		return faults.List
	}
	return nil
}
