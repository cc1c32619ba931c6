package cli

import (
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/ui"
)

// A theme has one name, in the configuration, in the flag and on the screen.
func TestThemesHaveOneName(t *testing.T) {
	for _, name := range []config.Theme{config.ThemeAuto, config.ThemeDark, config.ThemeLight, config.ThemeMono, config.ThemeContrast, config.ThemeNone} {
		theme, err := ui.ThemeOf(string(name))
		if err != nil || theme.String() != string(name) {
			t.Errorf("the screen calls %s %s: %v", name, theme, err)
		}
		settings, err := config.Load(config.Options{
			Path: config.None, Getenv: func(string) string { return "" },
			Flags: []config.Flag{{Name: "theme", Key: "ui.theme", Value: theme.String()}},
		})
		if err != nil || settings.UI.Theme != name {
			t.Errorf("the configuration does not take %s: %v", theme, err)
		}
	}
	if _, err := ui.ThemeOf("high-contrast"); err == nil || !strings.Contains(err.Error(), "contrast") {
		t.Errorf("an unknown theme: %v", err)
	}
}

// The look that a flag asks for is the setting of the file.
func TestASCIIIsASetting(t *testing.T) {
	a := &app{env: Env{Environ: []string{"HOME=/nonexistent"}}}
	c := a.demoCommand()
	if err := c.ParseFlags([]string{"--ascii", "--config", config.None}); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(a.options(c, &flags{config: config.None}, false))
	if err != nil || !settings.UI.ASCII {
		t.Errorf("--ascii gives %v, %v", settings.UI.ASCII, err)
	}
}
