package cli

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// servingOn runs a serve on a bus, with a port, and gives the path of its socket
// and the address of its port.
func servingOn(t *testing.T, nats string) (s *serving, settings *config.Config, socket, port string) {
	t.Helper()
	settings = noting(t, nats, config.None, "serve: {listen: \"127.0.0.1:0\"}\n")
	dir, err := os.MkdirTemp("", "sessionwatch-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	settings.DataDir = dir
	if s, err = openServing(settings, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	said, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.run(ctx, func(text string) { said <- text }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.close()
	})
	select {
	case text := <-said:
		_, port, _ = strings.Cut(text, " and ")
		port, _, _ = strings.Cut(port, ";")
	case <-time.After(20 * time.Second):
		t.Fatal("the serve does not begin")
	}
	return s, settings, socketPath(dir), port
}

// TestTrialThroughAServe: a screen, and a command, that look through a serve show
// what a screen with an engine of its own would.
func TestTrialThroughAServe(t *testing.T) {
	n, err := embedded.StartNATS(embedded.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	s, settings, socket, port := servingOn(t, n.ClientURL())
	seen := func(what string, ok func(watchdog.Window) bool) {
		eventually(t, what, func() bool {
			w, err := s.watching.engine.Look(t.Context(), watchdog.Ask{})
			return err == nil && ok(w)
		})
	}
	seen("the serve sees the bus", func(w watchdog.Window) bool {
		return slices.ContainsFunc(w.Links, func(l watchdog.Link) bool { return l.Source == watchdog.SourceNATS && l.Sighted })
	})
	if code, _ := command(t, "beat", "hello", "--task", "it works", "--nats", n.ClientURL(), "--redis", "-"); code != exitDone {
		t.Fatalf("beat: exit code %d", code)
	}
	seen("the serve has the beat", func(w watchdog.Window) bool { return w.Total == 1 })
	own, err := s.watching.taping.Try(t.Context(), "stall_timeout=10m *:quiet=ignore")
	if err != nil {
		t.Fatal(err)
	}
	own.To = watchdog.Instant{} // the others are asked later
	for _, address := range []string{socket, port} {
		client, err := serveClient(settings, address, "")
		if err != nil {
			t.Fatal(err)
		}
		about, err := client.About(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := testHost(t).openServe(settings, client, about)
		trial := f.About().Trial
		if trial == nil {
			t.Fatalf("a screen through %s cannot try", address)
		}
		reach, err := trial.Reach(t.Context())
		if err != nil || !strings.HasPrefix(reach.Text, "what came in from ") || reach.Policy.StallTimeout != settings.Policy.StallTimeout {
			t.Errorf("%s: %+v, %v", address, reach, err)
		}
		through, err := trial.Try(t.Context(), "stall_timeout=10m *:quiet=ignore")
		through.To = watchdog.Instant{}
		if err != nil || !reflect.DeepEqual(through, own) || through.Sessions != 1 || through.Beats != 1 {
			t.Errorf("%s: %v\n%+v through it,\n%+v there", address, err, through, own)
		}
		closedAfter(t, f)
	}

	code, out := command(t, "trial", "stall_timeout=10m", "*:quiet=ignore", "--serve", socket)
	if code != exitDone || !strings.Contains(out, "TRIAL  stall_timeout 5m > 10m, *: quiet ignore") || !strings.Contains(out, "of 1 session and 1 beat") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	code, out = command(t, "trial", "stall_timeout=10m", "--json", "--data-dir", settings.DataDir)
	var doc trialDocument
	if err := json.Unmarshal([]byte(out), &doc); code != exitDone || err != nil || doc.Sessions != 1 {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	if code, _ = command(t, "trial", "max_sessions=9", "--serve", socket); code != exitUntold {
		t.Errorf("what is no threshold: exit code %d", code)
	}
	if code, _ = command(t, "trial", "stall_timeout=10m", "--data-dir", t.TempDir()); code != exitUntold {
		t.Errorf("without a serve: exit code %d", code)
	}
}

// TestTrialThroughAnOldServe: what it cannot do is not offered.
func TestTrialThroughAnOldServe(t *testing.T) {
	client, err := serveview.NewClient(serveview.ClientOptions{Address: filepath.Join(t.TempDir(), "none.sock")})
	if err != nil {
		t.Fatal(err)
	}
	f := testHost(t).openServe(&config.Config{}, client, serveview.About{Name: "old"})
	defer closedAfter(t, f)
	if f.About().Trial != nil {
		t.Error("an old serve is asked for trials")
	}
}
