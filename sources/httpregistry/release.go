package httpregistry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Release is what became of a release hook.
type Release struct {
	ID       watchdog.ID   `json:"session_id"`
	Ran      bool          `json:"-"`
	OK       bool          `json:"ok"`
	ExitCode int           `json:"exit_code"` // -1: it did not end by itself
	Output   string        `json:"output"`    // the end of what it said, cleaned
	Took     time.Duration `json:"-"`
	At       time.Time     `json:"-"`
}

func (r Release) orNil() *Release {
	if !r.Ran {
		return nil
	}
	return &r
}

const (
	releasesKept  = 100
	releaseOutput = 2 << 10 // bytes of its output that are kept
)

// Releaser runs the release hook: a command that gives back what an ended
// session held. It may be run again for the same end after a crash.
type Releaser struct {
	argv    []string
	timeout time.Duration
	log     *slog.Logger
	now     func() time.Time

	mu   sync.Mutex
	last []Release // newest first
}

// NewReleaser makes a releaser; without a command it runs nothing. A nil log
// drops what would be logged.
func NewReleaser(argv []string, timeout time.Duration, clock watchdog.Clock, log *slog.Logger) *Releaser {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Releaser{argv: argv, timeout: timeout, log: log, now: func() time.Time { return wall(clock) }}
}

// Run runs the hook with what it must know in its environment, and waits for it.
func (h *Releaser) Run(ctx context.Context, rec watchdog.Record, agent string) Release {
	if len(h.argv) == 0 {
		return Release{}
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.argv[0], h.argv[1:]...)
	cmd.Env = append(os.Environ(),
		"SESSIONWATCH_SESSION_ID="+string(rec.ID),
		"SESSIONWATCH_GENERATION="+strconv.FormatUint(uint64(rec.Generation), 10),
		"SESSIONWATCH_AGENT_ID="+agent,
		"SESSIONWATCH_OUTCOME="+rec.Outcome.String(),
		"SESSIONWATCH_REASON="+rec.Reason)
	out := &tail{limit: releaseOutput}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild may hold the pipe
	ownGroup(cmd)
	began := time.Now()
	err := cmd.Run()
	r := Release{ID: rec.ID, Ran: true, OK: err == nil, ExitCode: -1, Took: time.Since(began), At: h.now()}
	if cmd.ProcessState != nil {
		r.ExitCode = cmd.ProcessState.ExitCode()
	}
	r.Output = string(termtext.Clean(out.bytes()))
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.Output += " (ended after " + h.timeout.String() + ")"
	case err != nil && r.Output == "":
		r.Output = err.Error()
	}
	if err != nil {
		h.log.Warn("the release hook failed", "session", rec.ID, "exit", r.ExitCode, "output", r.Output)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = append([]Release{r}, h.last[:min(len(h.last), releasesKept-1)]...)
	return r
}

// Releases gives the latest results of the release hook, newest first.
func (r *Registry) Releases() []Release {
	r.hook.mu.Lock()
	defer r.hook.mu.Unlock()
	return append([]Release(nil), r.hook.last...)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   bytes.Buffer
}

// Write keeps the last limit bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > t.limit {
		p = p[len(p)-t.limit:]
	}
	t.buf.Write(p)
	if over := t.buf.Len() - t.limit; over > 0 {
		t.buf.Next(over)
	}
	return n, nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf.Bytes())
}
