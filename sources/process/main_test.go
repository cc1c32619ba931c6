//go:build unix

package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// The test binary is also a supervisor of its own, for tests that kill one.
const (
	helperSessions = "PROCESS_TEST_SESSIONS" // JSON
	helperState    = "PROCESS_TEST_STATE"
	helperSockets  = "PROCESS_TEST_SOCKETS" // empty: among the temporary files
)

func TestMain(m *testing.M) {
	if sessions := os.Getenv(helperSessions); sessions != "" {
		if err := beSupervisor(sessions); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	sourcetest.AtOnce(3)
	goleak.VerifyTestMain(tests{m})
}

// tests are run, and then what they compiled is removed.
type tests struct{ *testing.M }

func (t tests) Run() int {
	dir, err := compiledDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return t.M.Run()
}

func beSupervisor(sessions string) error {
	o := Options{Guard: quick(), Clock: clock.System()}
	if err := json.Unmarshal([]byte(sessions), &o.Sessions); err != nil {
		return err
	}
	store, err := OpenFileStore(os.Getenv(helperState))
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	o.Store, o.RuntimeDir = store, os.Getenv(helperSockets)
	for i := range o.Sessions {
		o.Sessions[i].Dump.Mode.Kind = config.DumpNone
	}
	s, err := New(o)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return s.Run(ctx)
}
