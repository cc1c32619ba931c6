package sourcetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// RaceOneEnd lets a thousand goroutines settle one end at once, by turns in each of
// the ledgers: one of them wins, and all are told the same winner.
func RaceOneEnd(t *testing.T, r watchdog.Record, ledgers ...watchdog.Ledger) {
	t.Helper()
	var won atomic.Int64
	var winners sync.Map
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			mine := r
			mine.Nonce = strconv.Itoa(i)
			var got watchdog.Record
			var err error
			if !Eventually(time.Minute, func() bool { // as a settler does, for a busy server answers late
				got, err = ledgers[i%len(ledgers)].WriteOnce(context.Background(), mine)
				return !errors.Is(err, watchdog.ErrUnknown) && !errors.Is(err, watchdog.ErrAuthorityAway)
			}) || err != nil {
				t.Error(err)
				return
			}
			if got.Nonce == mine.Nonce {
				won.Add(1)
			}
			winners.Store(got.Nonce, true)
		})
	}
	all.Wait()
	told := 0
	winners.Range(func(any, any) bool { told++; return true })
	if won.Load() != 1 || told != 1 {
		t.Errorf("%d think that they won, and %d winners were told", won.Load(), told)
	}
}
