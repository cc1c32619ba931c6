package cli

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
)

// Several that start at once on fresh servers, some of which know one bus alone,
// choose the store that is named in the end: nobody is left with another.
func TestAllThatStartTogetherChooseTheSameStore(t *testing.T) {
	for range 3 {
		nats, redis := startNATS(t, true), startRedis(t).URL()
		names := make([]string, 4)
		var choosing sync.WaitGroup
		for i := range names {
			bus := nats
			if i == 1 {
				bus = "-"
			}
			settings, err := bareSettings("test", bus, redis)
			if err != nil {
				t.Fatal(err)
			}
			l, err := openLedgerStores(settings, wire.Seal{}, settlingOptions{Writer: "test", clock: clock.System(), log: discard(), spawn: plainly}, false)
			if err != nil {
				t.Fatal(err)
			}
			l.connect()
			t.Cleanup(l.close)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			t.Cleanup(cancel)
			if i == 1 {
				ctx, cancel = context.WithTimeout(t.Context(), time.Second) // where another bus decides it never can
				t.Cleanup(cancel)
			}
			choosing.Go(func() {
				if ledger := l.find(ctx, nil, func(string) {}); ledger != nil {
					names[i] = ledger.Authority().Name
				}
			})
		}
		choosing.Wait()
		for i, name := range names {
			if name != names[0] && !(i == 1 && name == "") || names[0] == "" {
				t.Errorf("%d of them chose %q, and the first one %q", i, name, names[0])
			}
		}
	}
}
