//go:build unix

package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/ui"
)

// A screen that only looks hears, over NATS, what a session writes that is
// supervised elsewhere; one that is read-only says why it does not.
func TestAScreenHearsTheOutputOfOthers(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n, err := embedded.StartNATS(embedded.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	dir := t.TempDir()
	withNATS := func(h *host, more ...config.Flag) *host {
		h.load = func(string, ...config.Flag) (*config.Config, error) {
			flags := append([]config.Flag{{Name: "t", Key: "nats.url", Value: n.ClientURL()}, {Name: "t", Key: "redis.url", Value: config.None}, {Name: "t", Key: "data_dir", Value: dir}}, more...)
			return config.Load(config.Options{Flags: flags, Getenv: func(string) string { return "" }, DeferSecrets: true})
		}
		return h
	}
	supervisor, err := withNATS(testHost(t)).Open(t.Context(), ui.Target{Kind: ui.TargetRun, Command: []string{"sh", "-c", "echo first; while :; do echo on; sleep 0.2; done"}})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	id := supervisor.About().Supervised
	for range 100 {
		if len(id) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
		id = supervisor.About().Supervised
	}
	if len(id) == 0 {
		t.Fatal("nothing is supervised")
	}
	screen, err := withNATS(testHost(t)).Open(t.Context(), ui.Target{})
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	output := screen.About().Output
	if output == nil {
		t.Fatalf("it cannot listen: %s", screen.About().NoOutput)
	}
	var lines []ui.LogLine
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline) && len(lines) < 3; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		lines, err = output.Logs(ctx, id[0], -1, 100)
		cancel()
	}
	if len(lines) < 3 || lines[0].Text != "first" || lines[1].Text != "on" || lines[0].Stream != "stdout" {
		t.Errorf("heard %+v, %v", lines, err)
	}
	blind, err := withNATS(testHost(t), config.Flag{Name: "t", Key: "read_only", Value: "true"}).Open(t.Context(), ui.Target{})
	if err != nil {
		t.Fatal(err)
	}
	defer blind.Close()
	if about := blind.About(); about.Output != nil || !strings.Contains(about.NoOutput, "READ-ONLY") {
		t.Errorf("read-only listens, or does not say why: %+v", about)
	}
}
