package cli

import (
	"context"
	"os"
	"path/filepath"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/ui/terminal"
)

// screen shows a target until somebody leaves. Before the first frame it reads
// flags and one configuration file: servers, secrets and recordings are opened
// off the screen's goroutine.
func (a *app) screen(c *cobra.Command, f *flags, target *ui.Target) error {
	return a.screenWith(c, f, target, func(*host) {})
}

// screenWith is screen with a host that change makes another.
func (a *app) screenWith(c *cobra.Command, f *flags, target *ui.Target, change func(*host)) error {
	return a.show(c, f, fileOf(a.env.Stdin), change, func(o *ui.Options) { o.Open = target })
}

// show runs a screen until somebody leaves. Keys come from a terminal; nil: from
// that of the process. What is shown is for shown to say.
func (a *app) show(c *cobra.Command, f *flags, keysFrom *os.File, change func(*host), shown func(*ui.Options)) error {
	settings, err := a.settings(c, f, true)
	if err != nil {
		return err
	}
	keys, err := screenKeys(settings)
	if err != nil {
		return err
	}
	theme, err := ui.ThemeOf(string(settings.UI.Theme))
	if err != nil {
		return misconfigured(err)
	}
	log, closeLog, err := openLog(settings.LogFile)
	if err != nil {
		return misconfigured(err)
	}
	defer closeLog.Close()
	for _, text := range settings.Warnings {
		log.Warn("configuration", "text", text)
	}
	tty, err := terminal.Open(terminal.Config{
		In: keysFrom, Out: fileOf(a.env.Stdout),
		Env: a.env.Environ, Stderr: a.env.Stderr, CrashFile: crashFile(settings),
		Guardian: true, Log: log,
	})
	if err != nil {
		return untold(err)
	}
	defer tty.Close()
	capabilities := terminal.Probe(a.env.Environ)
	opens := &host{load: a.loader(c, f), contexts: settings.ContextNames(), first: f.context, log: log, spawn: tty.Go, rings: ringer{bell: tty.Ring, desktop: tty.Notify},
		serve: func(ctx context.Context, settings *config.Config) (*serveview.Client, error) {
			return a.serveOf(ctx, c, settings, f)
		}}
	opens.guard = newSelfGuard(settings, tty.Restore, log)
	change(opens)
	watch, err := opens.guard.over("the screen", tty.Post)
	if err != nil {
		return err
	}
	defer watch.disarm()
	options := ui.Options{
		Host: opens, Theme: theme, ASCII: settings.UI.ASCII || capabilities.ASCII,
		Light: capabilities.Light, Mouse: settings.UI.Mouse, KeyMap: keys, Columns: settings.UI.Columns, Copy: tty.Copy, Lag: watch.lag, Memory: memoryHeld,
		Edit: a.lendEditor(tty), Export: writeExport, Hints: hintsOf(settings),
	}
	shown(&options)
	model := ui.New(options)
	defer model.Close()
	result, err := tty.Run(context.Background(), a.env.onScreen(model), terminal.Options{
		Capabilities: capabilities, Translate: translate,
		// The first that passes the loop is after the first frame.
		Started: func(func(tea.Msg)) { tty.Go(func() { tty.Post(watch.arm) }) },
	})
	watch.disarm()
	if err != nil {
		log.Error("the screen ended", "error", err)
		return fault(err)
	}
	if result.Signal != nil {
		log.Info("the screen ended by a signal", "signal", result.Signal.String())
		return signalled(result.Signal)
	}
	return nil
}

// loader reads the configuration as this command line means it, with another
// context or other addresses over it.
func (a *app) loader(c *cobra.Command, f *flags) func(string, ...config.Flag) (*config.Config, error) {
	return func(name string, over ...config.Flag) (*config.Config, error) {
		o := a.options(c, f, true)
		if name != "" && name != o.Context {
			// A context replaces the addresses that the command line named.
			o.Context = name
			o.Flags = withoutAddresses(o.Flags)
		}
		if len(over) > 0 {
			o.Context = ""
			o.Flags = append(withoutAddresses(o.Flags), over...)
		}
		return config.Load(o)
	}
}

func withoutAddresses(flags []config.Flag) []config.Flag {
	var out []config.Flag
	for _, f := range flags {
		if f.Key != "nats.url" && f.Key != "redis.url" {
			out = append(out, f)
		}
	}
	return out
}

// crashFile is where a panic is kept; empty: there is no place.
func crashFile(settings *config.Config) string {
	if settings.DataDir == "" {
		return ""
	}
	return filepath.Join(settings.DataDir, "crash.txt")
}

// fileOf is the file behind a stream; nil if there is none.
func fileOf(stream any) *os.File {
	file, _ := stream.(*os.File)
	return file
}
