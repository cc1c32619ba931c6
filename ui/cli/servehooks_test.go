package cli

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/config"
)

// Who looks through a serve reads in the question of an expire what that serve
// runs, not what the screen's own configuration says.
func TestReleaseHookOfAServeIsKnownToItsScreens(t *testing.T) {
	settings, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	settings.NATS.Address, settings.Redis.Address = config.None, config.None
	settings.DataDir, settings.Serve.Listen = t.TempDir(), "127.0.0.1:0"
	settings.Registry.Release = []string{"/usr/local/bin/free", "--lock\x1b]52;c;x\a"}
	s, err := openServing(settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx, stop := context.WithCancel(t.Context())
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- s.run(ctx, func(string) { close(ready) }) }()
	defer func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case err := <-over:
		over <- err
		t.Fatalf("the serve ended: %v", err)
	}
	client, err := serveClient(settings, filepath.Join(settings.DataDir, "serve.sock"), "")
	if err != nil {
		t.Fatal(err)
	}
	about, err := client.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := testHost(t).openServe(&config.Config{}, client, about)
	defer closedAfter(t, f)
	if hooks := f.About().Hooks; len(hooks) != 2 || hooks[0] != "/usr/local/bin/free" || hooks[1] != clean(settings.Registry.Release[1]) || slices.Contains(hooks, settings.Registry.Release[1]) {
		t.Errorf("the screen knows of the hook %q", hooks)
	}
}
