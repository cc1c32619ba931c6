package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// aServe is a serve in a process of its own, in a directory whose path is short
// enough for a socket.
func aServe(t *testing.T, args ...string) (start func() *exec.Cmd, dir, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sessionwatch-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "serve.sock")
	environ := alone(t)
	return func() *exec.Cmd {
		t.Helper()
		cmd := program(t, environ, append([]string{"serve", "--listen", "-", "--data-dir", dir}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		})
		if !sourcetest.Eventually(30*time.Second, func() bool {
			ls := program(t, environ, "ls", "--serve", socket)
			return ls.Run() == nil
		}) {
			t.Fatal("the serve does not answer")
		}
		return cmd
	}, dir, socket
}

// TestServeAwayAccusesNobody: a serve that is stopped, killed and there again
// under a screen makes the screen blind within seconds, and says so: its own engine
// is not what hangs, and nobody who beats on is accused.
func TestServeAwayAccusesNobody(t *testing.T) {
	waits(t)
	servers, n := newServers(t), 20
	startProducers(t, "on", n, strings.TrimPrefix(servers.nats, "nats://"), "")
	start, _, socket := aServe(t, "--nats", servers.nats, "--redis", "-")
	serve := start()
	screen := watch(t, "--serve", socket)
	right := func() bool { return screen.right(n) }
	blind := func() bool {
		s := screen.Screen()
		if strings.Contains(s, "ENGINE BLOCKED") {
			t.Errorf("our own engine is blamed:\n%s", s)
		}
		return strings.Contains(s, "CANNOT SEE") && strings.Contains(s, "unknown") && !strings.Contains(s, "● running")
	}
	await(t, 30*time.Second, "the fleet is seen", screen, right)
	for _, way := range []struct {
		name       string
		take, give func()
	}{
		{"stopped", func() { _ = serve.Process.Signal(syscall.SIGSTOP) }, func() { _ = serve.Process.Signal(syscall.SIGCONT) }},
		{"killed", func() { _ = serve.Process.Kill(); _ = serve.Wait() }, func() { serve = start() }},
	} {
		way.take()
		began := time.Now()
		await(t, 10*time.Second*slack, "it is blind to a serve that was "+way.name, screen, blind)
		t.Logf("%s: blind after %v", way.name, time.Since(began).Round(time.Millisecond))
		for range 20 {
			blind()
			time.Sleep(100 * time.Millisecond)
		}
		way.give()
		await(t, 30*time.Second, "it sees again through a serve that was "+way.name, screen, right)
	}
	screen.innocent(t)
}
