package terminal_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// The first thing that is drawn is a whole frame of the right size, once: nothing
// flashes before it, and nothing is drawn over it.
func TestTheFirstFrameIsWhole(t *testing.T) {
	for name, env := range map[string][]string{"usual": nil, "without colours": {"NO_COLOR=1"}, "dumb": {"TERM=dumb"}} {
		for _, size := range []terminaltest.Size{terminaltest.Small, terminaltest.Normal, terminaltest.Huge} {
			t.Run(fmt.Sprintf("%s %dx%d", name, size.Columns, size.Rows), func(t *testing.T) {
				t.Parallel()
				cmd := helperCommand(t, "screen")
				cmd.Env = append(cmd.Env, env...)
				p := terminaltest.StartMutePTY(t, size, cmd)
				p.Await(fmt.Sprintf("SCREEN %dx%d", size.Columns, size.Rows))
				p.Type("j")
				p.Await("keys j")
				raw := p.Raw()
				for what, times := range map[string]int{"SCREEN ": 1, "\x1b[?1049h": 1, "\x1b[?25l": 1, "SCREEN 0x0": 0} {
					if n := bytes.Count(raw, []byte(what)); n != times {
						t.Errorf("%q was written %d times, want %d:\n%q", what, n, times, raw)
					}
				}
			})
		}
	}
}
