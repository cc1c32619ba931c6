package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Whoever floods us with commands that are not obeyed neither blocks who reads
// the bus nor fills the disk, and each of them is counted.
func TestRefusedCommandsAreAuditedAndCounted(t *testing.T) {
	const flood = 3 * refusalsBurst
	path := filepath.Join(t.TempDir(), "data", "audit.jsonl")
	audit, err := filestore.OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer audit.Close()
	synctest.Test(t, func(t *testing.T) {
		a := &acting{o: actingOptions{clock: clock.System(), log: slog.New(slog.NewTextHandler(io.Discard, nil))}, audit: audit, by: "run@here/1", refusals: newRefusals()}
		for range flood { // nobody takes them yet
			a.refusals.take(watchdog.RefusedCommand{Fault: watchdog.CommandUnsigned, Session: "indexer", Why: "not signed", Way: "nats",
				Command: watchdog.Command{ID: "c1", Op: watchdog.OpStop, Generation: 2, IssuedBy: "mallory", Reason: "fun"}})
		}
		quit := make(chan struct{})
		close(quit)
		var counted uint64
		a.refusals.run(quit, func(c watchdog.RefusedCommand, counts watchdog.RefusedCommands, line bool) {
			counted += counts.Of(watchdog.CommandUnsigned)
			a.refused(c, counts, line)
		})
		if counted != flood {
			t.Errorf("%d of %d were counted", counted, flood)
		}
	})
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for scan := bufio.NewScanner(file); scan.Scan(); lines++ {
		var e refusedEntry
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			t.Fatalf("line %d: %v", lines+1, err)
		}
		if e.Event != "action.refused" || e.Fault != "unsigned" || e.SessionID != "indexer" || e.Generation != 2 || e.IssuedBy != "mallory" ||
			e.Reason != "fun" || e.Op != "stop" || e.Fate != "refused" || e.Detail != "not signed" || e.By != "run@here/1" || e.Way != "nats" || e.Timestamp == 0 {
			t.Errorf("line %d is %s", lines+1, scan.Text())
		}
	}
	if lines != refusalsBurst {
		t.Errorf("%d lines were written, want %d", lines, refusalsBurst)
	}
}
