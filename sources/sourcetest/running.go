package sourcetest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
)

// Log keeps what a source logs.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all that was logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger writes to the log, whatever the level.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Part is what runs until it is closed.
type Part interface {
	Run(ctx context.Context) error
	Close()
}

// Run runs a part until the test ends or stop is called, which waits. Its log is
// shown when the test has failed; nil: it has none.
func Run(t testing.TB, p Part, log *Log) (stop func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	stop = sync.OnceFunc(func() {
		p.Close()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if log != nil && t.Failed() {
			t.Logf("the log:\n%s", log)
		}
	})
	t.Cleanup(stop)
	return stop
}
