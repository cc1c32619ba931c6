package sourcetest

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// Child is the test binary as another process, which a test may kill at any
// moment.
type Child struct {
	*exec.Cmd
	out *bufio.Scanner
}

// StartChild starts the test binary, whose TestMain looks for the variable and
// does other work then. It is killed when the test ends.
func StartChild(t testing.TB, variable, work string) *Child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+work)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &Child{cmd, bufio.NewScanner(out)}
	t.Cleanup(c.Kill)
	return c
}

// Line is the next line that it prints; empty at the end.
func (c *Child) Line() string {
	if !c.out.Scan() {
		return ""
	}
	return c.out.Text()
}

// Kill kills it, unless it has ended, and waits for it.
func (c *Child) Kill() {
	if c.ProcessState == nil {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}
