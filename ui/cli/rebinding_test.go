package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// A key of the configuration takes the place of the old one: footer and help show
// it, it works, and the old one does not.
func TestReboundKeyOnTheScreen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("ui: {keys: {why: W, stop: Y}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := terminaltest.StartPTY(t, screenSize, program(t, alone(t), "replay", "--speed", "1000", "--config", path))
	p.Await(" END ")
	p.Await("W why")
	p.Type("i")
	p.Await("i does nothing here")
	p.Type("Y")
	p.Await("stopping: off, this is a recording")
	p.Type("S")
	p.Await("S does nothing here")
	p.Type("W")
	p.Await("STALLED for 27m")
	p.Type("?")
	p.Await("  W              why:")
	p.Type("q") // help
	p.Await("STALLED for 27m")
	p.Type("q") // why
	p.Await("W why")
	p.Type("q")
	if code, _ := p.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
