package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// TestHandoverReadsWhatIsKept: a history and an audit file tell of before this
// process; what is torn in them spoils nothing.
func TestHandoverReadsWhatIsKept(t *testing.T) {
	ctx, dir, now := t.Context(), t.TempDir(), time.Now()
	file, err := filestore.Open(filepath.Join(dir, "serve.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	history := file.History(0, 0)
	old := watchdog.Transition{ID: "indexer", Generation: 1, From: watchdog.Running, To: watchdog.Stalled, At: watchdog.Instant{Wall: now.Add(-3 * time.Hour).UnixNano()}, Text: "no work for 5m"}
	well := watchdog.Transition{ID: "indexer", Generation: 2, From: watchdog.Stalled, To: watchdog.Running, At: watchdog.Instant{Wall: now.Add(-170 * time.Minute).UnixNano()}}
	if err := history.Append(ctx, filestore.Moment{At: now.Add(-7 * time.Hour), Kind: watchdog.EventWatch, Text: watchdog.WatchBegan}, momentOf(&old), momentOf(&well)); err != nil {
		t.Fatal(err)
	}
	audit := auditIn(dir)
	a, err := filestore.OpenAudit(audit)
	if err != nil {
		t.Fatal(err)
	}
	at := func(ago time.Duration) float64 { return unixSeconds(now.Add(-ago)) }
	for _, e := range []actionEntry{
		{Event: "action.asked", Timestamp: at(175 * time.Minute), Op: "restart", SessionID: "indexer", Generation: 1, IssuedBy: "ops1", Reason: "stuck"},
		{Event: "action.fate", Timestamp: at(175 * time.Minute), Command: "c1", Op: "restart", SessionID: "indexer", Generation: 1, IssuedBy: "ops1", Fate: "requested"},
		{Event: "action.fate", Timestamp: at(175*time.Minute - 4*time.Second), Command: "c1", Op: "restart", SessionID: "indexer", Generation: 1, IssuedBy: "ops1", Fate: "effective"},
		{Event: "action.asked", Timestamp: at(time.Minute), Op: "stop", SessionID: "x", IssuedBy: "ops2"},
	} {
		if err := a.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	_ = a.Close()
	f, _ := os.OpenFile(audit, os.O_APPEND|os.O_WRONLY, 0)
	_, _ = f.WriteString("no json\n{\"event\":\"action.fate\",\"comm")
	_ = f.Close()
	tracker := watchdog.NewTracker(watchdog.Policy{}, watchdog.Instant{Wall: now.Add(-time.Hour).UnixNano()})
	s := shift{look: func(_ context.Context, ask watchdog.Ask) (watchdog.Window, error) {
		w := tracker.Look(ask)
		w.Now.Wall = now.UnixNano()
		return w, nil
	}, audit: audit, history: history}
	h, err := s.Handover(ctx, 8*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(ui.HandoverText(&h, "prod", "ops2"), "\n")
	for _, want := range []string{"a history is kept since ", "indexer #1: no work for 5m; 10m, then running", `indexer #1 > #2  by ops1 "stuck": effective in 4s`,
		"x #?  by ops2: what became of it is not known", "HAPPENED  1 alert"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var out bytes.Buffer
	var back watchdog.Handover
	if err := encodeHandover(&out, &h); err != nil || json.Unmarshal(out.Bytes(), &back) != nil || len(back.Actions) != 2 || back.Alerts != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}
