package terminal_test

import (
	"bytes"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// late is how long after a question the terminal of these tests answers.
const late = 300 * time.Millisecond

// answered is what an answer of a terminal leaves in the line of a shell.
var answered = regexp.MustCompile(`\d;\d|\$y|rgb:|\^\[|not found`)

// lateShell is a shell on a terminal that answers late.
func lateShell(t *testing.T) *terminaltest.PTY {
	t.Helper()
	p := terminaltest.StartLatePTY(t, terminaltest.Normal, terminaltest.Shell(t), late)
	p.Await("ready$")
	p.Type("clear; " + waitVariable + "=20s " + helperLine(t, "screen") + "\r")
	p.Await("SCREEN 80x24")
	return p
}

// checkLine checks that nothing but the shell's own is in its line.
func checkLine(t *testing.T, p *terminaltest.PTY) {
	t.Helper()
	p.AwaitAnswers()
	p.Type("echo go''es on\r")
	p.Await("goes on")
	if got := answered.FindString(p.Screen()); got != "" {
		t.Errorf("%q of an answer reached the shell:\n%s", got, p.Screen())
	}
}

// Whatever the terminal was asked and has not answered when the screen goes does
// not land in the shell.
func TestLateAnswersAreNotTypedIntoTheShell(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *terminaltest.PTY, pid int){
		"quit":    func(p *terminaltest.PTY, _ int) { p.Type("q") },
		"suspend": func(p *terminaltest.PTY, _ int) { p.Type("\x1a"); p.Await("Stopped") },
		"suspend after a resume": func(p *terminaltest.PTY, _ int) {
			for range 2 {
				p.Type("\x1a")
				p.Await("Stopped")
				p.Type("clear; fg\r")
				p.Await("SCREEN 80x24")
			}
			p.Type("\x1a")
			p.Await("Stopped")
		},
		"panic":   func(p *terminaltest.PTY, _ int) { p.Type("g") },
		"SIGTERM": func(_ *terminaltest.PTY, pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) },
		"SIGTSTP": func(p *terminaltest.PTY, pid int) { _ = syscall.Kill(pid, syscall.SIGTSTP); p.Await("Stopped") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := lateShell(t)
			end(p, foregroundChild(t, p.PID()))
			p.AwaitGone("SCREEN")
			p.Until("the shell asks for a line", func() bool {
				lines := strings.Split(strings.TrimSpace(p.Screen()), "\n")
				return strings.HasPrefix(lines[len(lines)-1], "ready$")
			})
			checkLine(t, p)
		})
	}
}

// Nor in the editor that gets the terminal meanwhile.
func TestLateAnswersAreNotTypedIntoAnEditor(t *testing.T) {
	t.Parallel()
	p := lateShell(t)
	p.Type("v")
	p.Await("lent: 0")
	p.AwaitAnswers()
	if got := answered.FindString(p.Screen()); got != "" {
		t.Errorf("%q of an answer reached the editor:\n%s", got, p.Screen())
	}
	p.Type("\r")
	p.Await("keys v")
}

// Whoever does not answer is asked once more at most.
func TestAMuteTerminalHoldsNobodyUp(t *testing.T) {
	p := terminaltest.StartMutePTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN")
	p.Type("q")
	_, after := p.Ended()
	t.Logf("ended after %v", after)
	if n := bytes.Count(p.Raw(), []byte("\x1b[c")); n > 1 {
		t.Errorf("asked %d times for what it is:\n%s", n, strings.ToValidUTF8(string(p.Raw()), "?"))
	}
	checkRestored(t, p, p.SettingsBefore())
}
