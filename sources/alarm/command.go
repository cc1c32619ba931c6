package alarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
)

const (
	// outputKept is how much of what a command says is kept: the end of it.
	outputKept = 2 << 10
	// textVariable tells a command that does not read its input what is up.
	textVariable = "SESSIONWATCH_ALERT"
	// pipeGrace is how long the pipes of a command are waited for that left its
	// process group.
	pipeGrace = 500 * time.Millisecond
)

// command runs a program for each alarm.
type command struct {
	argv    []string
	timeout time.Duration
	environ []string
	log     *slog.Logger
}

func newCommand(o *Options) *command {
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	return &command{argv: o.Command, timeout: o.Timeout, environ: environment(environ), log: o.Logger}
}

// environment leaves out what is meant for us: addresses of buses, which may
// hold passwords, and everything of our own.
func environment(ours []string) []string {
	env := []string{}
	for _, v := range ours {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case name == "NATS_URL", name == "REDIS_URL", name == "NOTIFY_SOCKET", name == "WATCHDOG_PID", name == "WATCHDOG_USEC", name == "WATCHDOG_STALL_TIMEOUT",
			name == "LISTEN_PID", name == "LISTEN_FDS", name == "LISTEN_FDNAMES", name == "CREDENTIALS_DIRECTORY",
			strings.HasPrefix(name, "SESSIONWATCH_"):
		default:
			env = append(env, v)
		}
	}
	return env
}

// send runs the command, and waits for it for as long as it may take.
func (c *command) send(ctx context.Context, m wire.Alarm) error {
	body, err := wire.EncodeAlarm(m)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, c.argv[0], c.argv[1:]...)
	out := &tail{limit: outputKept}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(body, '\n')), out, out
	cmd.Env = append(c.environ[:len(c.environ):len(c.environ)], textVariable+"="+m.Text())
	cmd.Dir = "/"
	cmd.WaitDelay = pipeGrace
	ownGroup(cmd)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the command %s cannot be run: %w; look at alerts.command", filepath.Base(c.argv[0]), plain(err))
	}
	endGroup(cmd)
	_ = cmd.Wait() // the state says it all
	output := strings.TrimSpace(termtext.CleanLong(string(out.bytes())))
	c.log.Info("the alert command ran", "exit", cmd.ProcessState.ExitCode(), "took", time.Since(began).Round(time.Millisecond), "output", output)
	switch name := filepath.Base(c.argv[0]); {
	case errors.Is(limited.Err(), context.DeadlineExceeded) && !cmd.ProcessState.Success():
		return fmt.Errorf("the command %s did not end within %v and was killed%s", name, c.timeout, said(output))
	case cmd.ProcessState.Success(): // somebody who left the group may still hold a pipe
		return nil
	default:
		return fmt.Errorf("the command %s ended with %v%s", name, cmd.ProcessState, said(output))
	}
}

func said(output string) string {
	if output == "" {
		return ""
	}
	return ": " + termtext.Clean(output[:min(len(output), 200)])
}

// plain strips the path, which the sentence around it says already.
func plain(err error) error {
	var path *os.PathError
	var missing *exec.Error
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &missing):
		return missing.Err
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   []byte
}

// Write keeps the last limit bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-t.limit):]...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf)
}
