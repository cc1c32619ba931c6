//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// childVariable makes the test binary settle, at the Redis that it names.
const childVariable = "REDISSTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if address := os.Getenv(childVariable); address != "" {
		fmt.Println(settleForEver(address))
		os.Exit(1)
	}
	sourcetest.AtOnce(8)
	os.Exit(m.Run())
}

// settleForEver settles one generation after another, and says each before it
// begins ("2?") and when the ledger said that it is written ("2").
func settleForEver(address string) error {
	c, err := OpenConn(fast(address), clock.System(), nil)
	if err != nil {
		return err
	}
	l, ctx := c.Ledger(wire.Seal{}), context.Background()
	first := watchdog.Generation(1)
	for ; ; first++ {
		if _, found, err := l.Record(ctx, "a", first); err != nil || !found {
			break
		}
	}
	for g := first; ; g++ {
		fmt.Printf("%d?\n", g)
		r := endOf("a", g, watchdog.OutcomeLost)
		r.Nonce = strconv.Itoa(os.Getpid())
		if _, err := l.WriteOnce(ctx, r); err != nil {
			return err
		}
		fmt.Println(g)
		if err := l.Told(ctx, r); err != nil {
			return err
		}
	}
}

// TestASweeperKilledBetweenAnyTwoSteps kills a process that settles and tells,
// at any moment. What it was told to be written stands, once, and what it had
// not told is in the outbox.
func TestASweeperKilledBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	l, _ := openLedger(t, fast(s.Address()))
	ctx := t.Context()
	written, last := 0, 0
	for round := range 10 {
		c := sourcetest.StartChild(t, childVariable, s.Address())
		for text := c.Line(); text != ""; text = c.Line() {
			if g, err := strconv.Atoi(text); err == nil {
				written = max(written, g)
			} else if n, err := strconv.Atoi(text[:len(text)-1]); err == nil {
				if last = n; last == 1+round*7 {
					time.AfterFunc(time.Duration(round)*100*time.Microsecond, func() { _ = c.Process.Kill() })
				}
			} else {
				t.Fatal(text)
			}
			if last > 1+round*7+500 {
				_ = c.Process.Kill()
			}
		}
		c.Kill()
	}
	if written == 0 {
		t.Fatal("nothing was ever written")
	}
	untold := map[watchdog.Generation]bool{}
	left, err := l.Outbox(ctx, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range left {
		untold[r.Generation] = true
	}
	for g := 1; g <= last; g++ {
		r, found, err := l.Record(ctx, "a", watchdog.Generation(g))
		if err != nil || !found && g <= written {
			t.Fatalf("generation %d of %d was said to be written: %v %v", g, written, found, err)
		}
		if !found {
			continue
		}
		rival := endOf("a", watchdog.Generation(g), watchdog.OutcomeExpired)
		rival.Nonce = "rival"
		if got := mustSettle(t, l, rival); got.Nonce != r.Nonce || got.Outcome != watchdog.OutcomeLost {
			t.Fatalf("generation %d ended again as %+v", g, got)
		}
		waits := s.admin.SIsMember(ctx, wire.OutboxKey("a"), strconv.Itoa(g)).Val()
		if waits != untold[r.Generation] {
			t.Fatalf("generation %d waits to be told (%v), and the outbox says %v", g, waits, untold[r.Generation])
		}
	}
	t.Logf("%d generations, %d left untold by kills", written, len(untold))
}
