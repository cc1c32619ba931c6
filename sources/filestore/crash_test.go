//go:build unix

package filestore

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// TestNothingSaidIsLostByAKill kills a process that settles, at any moment: all
// that it was told to be written stands, and stands in the outbox.
func TestNothingSaidIsLostByAKill(t *testing.T) {
	path := pathOf(t)
	highest := 0
	for round := range 10 {
		c := startChild(t, "settle", path)
		if got := c.line(); got != "ready" {
			t.Fatalf("the child says %q", got)
		}
		time.AfterFunc(time.Duration(1+round*7)*time.Millisecond, func() { _ = c.Process.Kill() })
		for line := c.line(); line != ""; line = c.line() {
			g, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(line)
			}
			highest = max(highest, g)
		}
		c.kill()
		f := open(t, path)
		l := f.Ledger(wire.Seal{}, clock.System())
		for g := 1; g <= highest; g++ {
			if _, found, err := l.Record(t.Context(), "a", watchdog.Generation(g)); err != nil || !found {
				t.Fatalf("generation %d of %d was said to be written: %v %v", g, highest, found, err)
			}
		}
		if untold, err := l.Outbox(t.Context(), 1<<20); err != nil || len(untold) < highest {
			t.Fatalf("%d of %d are in the outbox: %v", len(untold), highest, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if highest == 0 {
		t.Error("nothing was ever written")
	}
}

func TestAFullDiskIsAnErrorThatChangesNothing(t *testing.T) {
	c := startChild(t, "full", pathOf(t))
	fields := strings.Split(c.line(), "\t")
	c.kill()
	if len(fields) != 6 || fields[0] != "full" {
		t.Fatalf("the child says %q", fields)
	}
	if !strings.Contains(fields[2], "full") || !strings.Contains(fields[2], "free some space") {
		t.Errorf("the error %q does not say what to do", fields[2])
	}
	if fields[3] != "false" || fields[4] != "<nil>" || fields[5] != "true" {
		t.Errorf("after the error: found %s (%s), the one before found %s", fields[3], fields[4], fields[5])
	}
}

// TestOneOfManyWins races goroutines for each end.
func TestOneOfManyWins(t *testing.T) {
	f := open(t, pathOf(t))
	l := f.Ledger(wire.Seal{}, clock.System())
	const racers = 1000
	var won atomic.Int64
	var winner sync.Map
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			nonce := strconv.Itoa(i)
			got, err := l.WriteOnce(context.Background(), recordOf("a", 1, nonce))
			if err != nil {
				t.Error(err)
				return
			}
			if got.Nonce == nonce {
				won.Add(1)
			}
			winner.Store(got.Nonce, true)
		})
	}
	all.Wait()
	winners := 0
	winner.Range(func(any, any) bool { winners++; return true })
	if won.Load() != 1 || winners != 1 {
		t.Errorf("%d think that they won, and %d winners were told", won.Load(), winners)
	}
}

func TestAFileTakenAwaySettlesNothing(t *testing.T) {
	path := pathOf(t)
	l := open(t, path).Ledger(wire.Seal{}, clock.System())
	if err := l.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := l.Check(t.Context()); !errors.Is(err, watchdog.ErrAuthorityAway) || !strings.Contains(err.Error(), "removed or replaced") {
		t.Errorf("a removed file: %v", err)
	}
	open(t, path) // a new one in its place
	if err := l.Check(t.Context()); !errors.Is(err, watchdog.ErrAuthorityAway) {
		t.Errorf("a replaced file: %v", err)
	}
}
