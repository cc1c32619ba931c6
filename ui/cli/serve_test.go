package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/config"
)

// A serve says at its start where each token stands, and the message of a 401
// sends people there.
func TestServeSaysWhereItsTokensStand(t *testing.T) {
	const secret = "a-token-that-is-long-enough"
	file := filepath.Join(t.TempDir(), "fleet-token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		registry, view string
		want           func(dir string) []string
	}{
		"neither is set": {want: func(dir string) []string { return []string{"; token: " + filepath.Join(dir, "token") + ";"} }},
		"both are one":   {registry: file, view: file, want: func(string) []string { return []string{"; token: " + file + ";"} }},
		"one is set": {registry: file, want: func(dir string) []string {
			return []string{"; token: " + file, "view under /v1/: " + filepath.Join(dir, "token")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := config.Load(config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			settings.NATS.Address, settings.Redis.Address = config.None, config.None
			settings.DataDir, settings.Serve.Listen = t.TempDir(), "127.0.0.1:0"
			settings.Registry.TokenFile, settings.Serve.TokenFile = c.registry, c.view
			s, err := openServing(settings, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			said := ""
			if err := s.run(ctx, func(text string) { said = text; stop() }); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want(settings.DataDir) {
				if !strings.Contains(said, want) {
					t.Errorf("%q lacks %q", said, want)
				}
			}
			if strings.Contains(said, secret) {
				t.Errorf("the token itself is said: %q", said)
			}
		})
	}
}
