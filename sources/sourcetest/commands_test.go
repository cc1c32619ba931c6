//go:build unix

package sourcetest_test

import (
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// process is the way of commands inside one.
type process struct{ way *watchdog.LocalCommands }

func (p *process) Open(t testing.TB, r orders.Rules) (sourcetest.Commands, func()) {
	if p.way == nil {
		p.way = watchdog.NewLocalCommands(watchdog.LocalCommandOptions{Lease: r.Lease, Clock: clock.System()})
	}
	l := p.way.As(r.Name)
	t.Cleanup(l.Close)
	return l, l.Close
}

func localHarness() sourcetest.CommandHarness {
	return sourcetest.CommandHarness{Local: true, Serve: func(testing.TB) sourcetest.CommandBus { return &process{} }}
}

func TestLocalCommands(t *testing.T) { sourcetest.RunCommands(t, localHarness()) }

func TestLocalCommandsLeaveNothingBehind(t *testing.T) {
	sourcetest.RunCommandsLeaveNothing(t, localHarness())
}
