package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/ownfile"
)

// TestHintsAreRemembered by all screens of a user, as long as there is a place.
func TestHintsAreRemembered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	settings := hintSettings(dir, true)
	one, other := hintsOf(settings), hintsOf(settings)
	if got := one.Recall(); len(got) != 0 {
		t.Errorf("before anything was kept: %v", got)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking made the data directory")
	}
	one.Keep(map[string]int{"why": 5})
	other.Keep(map[string]int{"why": 1, "next": 2})
	if diff := cmp.Diff(map[string]int{"why": 5, "next": 2}, one.Recall()); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "hints.json")); err != nil || ownfile.PermissionsMatter && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for _, torn := range []string{"", "{", "null", "[1]", `{"why":"much"}`} {
		if err := os.WriteFile(filepath.Join(dir, "hints.json"), []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := one.Recall(); len(got) != 0 {
			t.Errorf("%q: %v", torn, got)
		}
		one.Keep(map[string]int{"next": 1})
		if got := one.Recall(); got["next"] != 1 {
			t.Errorf("after %q: %v", torn, got)
		}
	}
}

// TestHintsAreForgottenWithoutAPlace, and nobody is told.
func TestHintsAreForgottenWithoutAPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		h := hintsOf(hintSettings(dir, true))
		h.Keep(map[string]int{"why": 1})
		if got := h.Recall(); len(got) != 0 {
			t.Errorf("%q: %v", dir, got)
		}
	}
	if hintsOf(hintSettings("", false)) != nil {
		t.Error("hints: false has a memory")
	}
}

func hintSettings(dir string, on bool) *config.Config {
	c := &config.Config{}
	c.DataDir, c.UI.Hints = dir, on
	return c
}
