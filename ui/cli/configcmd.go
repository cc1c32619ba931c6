package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Make, check or show the configuration",
		Args:    cobra.NoArgs,
		GroupID: groupSetup,
		RunE: func(c *cobra.Command, _ []string) error {
			return &usageError{errors.New("say what to do: config init, config check or config show")}
		},
	}
	c.AddCommand(a.configInitCommand(), a.configCheckCommand(), a.configShowCommand())
	return c
}

func (a *app) configInitCommand() *cobra.Command {
	var f flags
	var toStdout, force bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration file in which every setting is explained",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if toStdout {
				_, err := io.WriteString(a.env.Stdout, config.Example())
				return a.say(err)
			}
			path, _ := config.Locate(config.Options{Path: f.config, Getenv: a.env.getenv})
			if path == config.None || path == "" {
				return misconfigured(errors.New("no home directory is known; name the file with --config"))
			}
			if err := writeExample(path, force); err != nil {
				return badNews(err)
			}
			_, err := fmt.Fprintf(a.env.Stdout, "wrote %s; every setting in it is commented out and shows its default\n", clean(path))
			return a.say(err)
		},
	}
	c.Flags().StringVar(&f.config, "config", "", "write `FILE` (default as for all commands)")
	c.Flags().BoolVar(&toStdout, "stdout", false, "print it instead")
	c.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return c
}

// writeExample makes the file and its directory for the user alone. What is
// there already is replaced only with force, and only as a whole.
func writeExample(path string, force bool) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return fmt.Errorf("%q is there already; give --force to replace it, or --stdout to look", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot look at %q: %w", path, reason(err))
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make %q: %w", dir, reason(err))
	}
	file, err := os.CreateTemp(dir, ".config-*.yaml") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot write into %q: %w", dir, reason(err))
	}
	_, err = file.WriteString(config.Example())
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // what is left of a failed try
		return fmt.Errorf("cannot write %q: %w", path, reason(err))
	}
	return nil
}

func (a *app) configCheckCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "check",
		Short: "List everything that is wrong with the configuration",
		Long: `Read the configuration file, the environment, the flags and the files that they
name, and list everything that is wrong at once, with line numbers. It connects
to nothing. Exit code 78 if anything is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := a.allSettings(c, &f)
			if f.json {
				return a.checkedJSON(settings, err)
			}
			if err != nil {
				return err
			}
			a.warn(settings.Warnings)
			from := "no file; the defaults"
			if settings.Path != "" {
				from = settings.Path
			}
			_, err = fmt.Fprintf(a.env.Stdout, "ok: %s\n", clean(from))
			return a.say(err)
		},
	}
	a.addSources(c, &f)
	f.addJSON(c)
	return c
}

// checkedJSON prints the outcome of config check for machines.
func (a *app) checkedJSON(settings *config.Config, err error) error {
	type fault struct {
		Place string `json:"place"`
		Line  *int   `json:"line"`
		Key   string `json:"key"`
		Text  string `json:"text"`
	}
	out := struct {
		OK       bool     `json:"ok"`
		Path     string   `json:"path"`
		Faults   []fault  `json:"faults"`
		Warnings []string `json:"warnings"`
	}{OK: err == nil, Faults: []fault{}, Warnings: []string{}}
	if settings != nil {
		out.Path = settings.Path
		out.Warnings = append(out.Warnings, settings.Warnings...)
	}
	for _, one := range faultsOf(err) {
		f := fault{Place: one.Place, Key: one.Key, Text: one.Text}
		if one.Line > 0 {
			f.Line = &one.Line
		}
		out.Faults = append(out.Faults, f)
	}
	if sayErr := json.NewEncoder(a.env.Stdout).Encode(out); sayErr != nil {
		return a.say(sayErr)
	}
	if err != nil {
		return exitWith(exitMisconfig)
	}
	return nil
}

func (a *app) configShowCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every setting with where it comes from",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := a.settings(c, &f, false)
			if err != nil {
				return err
			}
			a.warn(settings.Warnings)
			values := settings.Values()
			if f.json {
				encoder := json.NewEncoder(a.env.Stdout)
				encoder.SetEscapeHTML(false)
				return a.say(encoder.Encode(values))
			}
			t := newTable()
			t.add("KEY", "VALUE", "ORIGIN")
			for _, v := range values {
				t.add(v.Key, v.Value, v.Origin)
			}
			return a.say(t.print(a.env.Stdout, ""))
		},
	}
	a.addSources(c, &f)
	f.addTheme(c)
	f.addJSON(c)
	return c
}
