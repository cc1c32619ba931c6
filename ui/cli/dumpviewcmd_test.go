package cli

import (
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/stackdump"
)

// A folded stack reads as it does on the screen, where it stands and where it
// has no frames to stand in.
func TestAFoldedStackIsPrintedAsItIs(t *testing.T) {
	for _, summary := range []string{"agent.py:48 blocked_on_lock", "no frames shown"} {
		var out strings.Builder
		v := &stackdump.View{Title: "any", Sections: []stackdump.Section{{Title: "main", Summary: summary}}}
		if err := printDumpView(&out, v); err != nil {
			t.Fatal(err)
		}
		if want := "+ main   " + summary + "\n"; !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
}
