//go:build unix

package embedded_test

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/embedded"
)

func TestNATSLeavesSignalsAlone(t *testing.T) {
	startNATS(t, embedded.NATSOptions{})
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGTERM)
	defer signal.Stop(got)
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got: // a handler of the server would have ended this process
	case <-time.After(time.Minute):
		t.Fatal("no signal came")
	}
}
