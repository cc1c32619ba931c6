package cli

import (
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestAHostThatLiesLeavesTheRowsReadable(t *testing.T) {
	var out strings.Builder
	err := printRows(&out, []watchdog.Row{
		{ID: "a", Host: strings.Repeat("％", 300), Task: "work"}, {ID: "b", Host: "eu1-02", Task: "work"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range lines(out.String()) {
		if w := termtext.Width(line); w > 130 {
			t.Errorf("a row is %d cells wide: %s", w, line)
		}
	}
	if !strings.Contains(out.String(), "eu1-02") {
		t.Errorf("an honest host is cut:\n%s", out.String())
	}
}
