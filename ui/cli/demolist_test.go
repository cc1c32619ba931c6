package cli

import (
	"encoding/json"
	"testing"
)

// TestDemoWithoutATerminal lists what a screen would show: somebody settles, so
// that executions have numbers.
func TestDemoWithoutATerminal(t *testing.T) {
	t.Parallel()
	code, out := command(t, "demo", "--speed", "4", "--json")
	var list []struct {
		Generation *int `json:"generation"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitDone || len(list) < 20 {
		t.Fatalf("exit code %d, %v, %d sessions", code, err, len(list))
	}
	numbered := 0
	for _, s := range list {
		if s.Generation != nil {
			numbered++
		}
	}
	if numbered < len(list)/2 {
		t.Errorf("%d of %d sessions have a number: nobody settles", numbered, len(list))
	}
}
