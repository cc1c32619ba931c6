package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// asBuilt is the path of the program as a user gets it: the test binary, which
// can be the program too, carries more.
func asBuilt(t testing.TB) string {
	t.Helper()
	terminaltest.Need(t, "go")
	path, err := sessionwatch()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// sessionwatch compiles the program, once for all tests.
var sessionwatch = sync.OnceValues(func() (string, error) {
	dir, err := builtDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sessionwatch")
	return path, build(path, "github.com/sessionwatch/sessionwatch")
})

var builtDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "sessionwatch-built-") })

func build(path, pkg string) error {
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// tests are run, and then what they compiled is removed.
type tests struct{ *testing.M }

func (t tests) Run() int {
	dir, err := builtDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	sourcetest.AtOnce(4)
	return t.M.Run()
}
