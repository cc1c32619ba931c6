//go:build unix

package sourcetest_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// memory is the store of a MemoryLedger.
type memory struct{ first *watchdog.MemoryLedger }

func (m memory) Open(testing.TB) (watchdog.Ledger, func()) {
	return m.first.Share(clock.System()), func() {}
}

func TestMemoryLedger(t *testing.T) {
	var stores atomic.Int64 // cases run at once
	sourcetest.RunLedger(t, sourcetest.LedgerHarness{InMemory: true, Serve: func(testing.TB) sourcetest.LedgerStore {
		return memory{watchdog.NewMemoryLedger(fmt.Sprintf("store %d", stores.Add(1)), nil)}
	}})
}
