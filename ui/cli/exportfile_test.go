package cli

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/ownfile"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func exportOf(path string, cells ...string) ui.Export {
	row := watchdog.Row{ID: "a,b", Generation: 2, Verdict: watchdog.Stalled, Credits: math.NaN(), Task: `say "hi"`, BeatAge: -1, WorkAge: -1, Uptime: -1}
	return ui.Export{Path: path, Sessions: &watchdog.Window{Rows: []watchdog.Row{row}}, Heading: []string{"x"}, Cells: func(int) []string { return slices.Clone(cells) }}
}

// No cell that an agent wrote is a formula to a spreadsheet, and every reader of
// RFC 4180 gets the text back.
func TestExportedCSVIsInert(t *testing.T) {
	hostile := []string{"=cmd|'/c calc'!A1", "+1", "-1", "@SUM(A1)", "\t=1", "＝1", "plain", `quoted "text", and more`, "line\nbreak", "é漢"}
	path := filepath.Join(t.TempDir(), "x.csv")
	if _, err := writeExport(exportOf(path, hostile...)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "x\r\n") {
		t.Errorf("lines do not end as RFC 4180 says: %q", text)
	}
	r := csv.NewReader(strings.NewReader(string(text)))
	r.FieldsPerRecord = -1
	all, err := r.ReadAll()
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, cell := range all[1] {
		want := hostile[i]
		if i < 6 {
			want = "'" + want
		}
		if cell != want {
			t.Errorf("%q came out as %q", hostile[i], cell)
		}
	}
}

// The file is its owner's alone, and nothing that is there is touched.
func TestExportTouchesNothingThatIsThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sessions.json")
	got, err := writeExport(exportOf(path))
	if err != nil || got != path {
		t.Fatalf("%q, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || ownfile.PermissionsMatter && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	var list []map[string]any
	text, _ := os.ReadFile(path)
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 1 || list[0]["session_id"] != "a,b" || list[0]["verdict"] != "stalled" {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := writeExport(exportOf(path)); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("over a file that is there: %v", err)
	}
	target, link := filepath.Join(dir, "target.json"), filepath.Join(dir, "link.json")
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no links here")
	}
	if _, err := writeExport(exportOf(link)); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("what a link points to was made")
	}
	if _, err := writeExport(exportOf(filepath.Join(dir, "no", "such", "place.csv"))); err == nil {
		t.Error("a directory that is not there was written to")
	}
}

func TestExportedEventsAreOneArray(t *testing.T) {
	for n := range 3 {
		path := filepath.Join(t.TempDir(), "events.json")
		list := []watchdog.Transition{{ID: "a", Generation: 1, To: watchdog.Running, New: true}, {Kind: watchdog.EventSight, Text: "NATS is blind"}}[:n]
		if _, err := writeExport(ui.Export{Path: path, Events: list}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		var got []map[string]any
		if err != nil || json.Unmarshal(text, &got) != nil || len(got) != n {
			t.Errorf("%d events became %s", n, text)
		}
	}
}
