//go:build unix

package filestore

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// TestNothingSaidIsLostByAKill kills a process that settles, at any moment: all
// that it was told to be written stands, and stands in the outbox.
func TestNothingSaidIsLostByAKill(t *testing.T) {
	path := pathOf(t)
	highest := 0
	for round := range 10 {
		c := startChild(t, "settle", path)
		if got := c.Line(); got != "ready" {
			t.Fatalf("the child says %q", got)
		}
		time.AfterFunc(time.Duration(1+round*7)*time.Millisecond, func() { _ = c.Process.Kill() })
		for line := c.Line(); line != ""; line = c.Line() {
			g, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(line)
			}
			highest = max(highest, g)
		}
		c.Kill()
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
	fields := strings.Split(c.Line(), "\t")
	c.Kill()
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

// TestOneOfManyWins races goroutines for one end.
func TestOneOfManyWins(t *testing.T) {
	sourcetest.RaceOneEnd(t, recordOf("a", 1, ""), open(t, pathOf(t)).Ledger(wire.Seal{}, clock.System()))
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
