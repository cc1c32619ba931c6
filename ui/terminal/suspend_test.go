package terminal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// inShell starts the screen from an interactive shell and gives its pid and
// the settings before.
func inShell(t *testing.T) (p *terminaltest.PTY, pid int, before string) {
	t.Helper()
	p = terminaltest.StartPTY(t, terminaltest.Normal, terminaltest.Shell(t))
	p.Await("ready$")
	before = shellSettings(t, p)
	p.Type("clear; " + helperLine(t, "screen") + "\r")
	p.Await("SCREEN 80x24")
	return p, foregroundChild(t, p.PID()), before
}

// foregroundChild is the only child of a shell.
func foregroundChild(t *testing.T, shell int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", shell, shell))
	if err != nil {
		t.Skipf("children of a process cannot be listed here: %v", err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// stopped reports whether a process stands still.
func stopped(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "T")
}

// checkShell checks that the shell has its terminal back, and that programs
// started from it would get it as before.
func checkShell(t *testing.T, p *terminaltest.PTY, before string) {
	t.Helper()
	checkModes(p)
	if after := shellSettings(t, p); after != before {
		t.Errorf("stty -g gives\n%s, was\n%s", after, before)
	}
}

func checkModes(p *terminaltest.PTY) {
	p.Until("the alternate screen is off", func() bool { return !p.Mode(ansi.ModeAltScreenSaveCursor) })
	p.Until("the mouse is off", func() bool { return !p.Mode(ansi.ModeMouseButtonEvent) })
}

// shellSettings is what programs get from the shell: while it reads a line it
// has settings of its own.
func shellSettings(t *testing.T, p *terminaltest.PTY) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stty")
	// A program that ends throws away what was typed ahead, so ask again.
	var asked time.Time
	var text []byte
	p.Until("stty has answered", func() bool {
		if time.Since(asked) > 2*time.Second {
			p.Type("clear; stty -g > " + file + "\r")
			asked = time.Now()
		}
		text, _ = os.ReadFile(file)
		return len(text) > 0 && text[len(text)-1] == '\n'
	})
	return strings.TrimSpace(string(text))
}

// fault 41
func TestSuspendAndContinue(t *testing.T) {
	t.Parallel()
	for name, suspend := range map[string]func(p *terminaltest.PTY, pid int){
		"ctrl+z":           func(p *terminaltest.PTY, _ int) { p.Type("\x1a") },
		"external SIGTSTP": func(_ *terminaltest.PTY, pid int) { _ = syscall.Kill(pid, syscall.SIGTSTP) },
	} {
		t.Run(name, func(t *testing.T) {
			p, pid, before := inShell(t)
			p.Type("j")
			p.Await("keys j")
			for range 2 {
				suspend(p, pid)
				p.Await("Stopped")
				checkShell(t, p, before)
				p.Type("fg\r")
				p.Await("keys j")
				p.Await("resumed")
				p.Until("the alternate screen is on", func() bool { return p.Mode(ansi.ModeAltScreenSaveCursor) })
			}
			p.Type("k")
			p.Await(" k")
			p.Type("q")
			p.AwaitGone("SCREEN")
			checkShell(t, p, before)
		})
	}
}

// A SIGSTOP is seen by nobody before it happens; what it left is set right
// when the process goes on.
func TestContinueAfterSIGSTOP(t *testing.T) {
	p, pid, before := inShell(t)
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	p.Await("Stopped")
	p.Type("echo scribble over it\r")
	p.Type("fg\r")
	p.Await("resumed")
	p.AwaitGone("scribble")
	p.Await("SCREEN 80x24")
	p.Type("j")
	p.Await("keys j")
	p.Type("q")
	p.AwaitGone("SCREEN")
	checkShell(t, p, before)
}

// In the background the screen stops again instead of fighting for the
// terminal, and a kill ends it there without touching the shell's terminal.
func TestBackground(t *testing.T) {
	t.Parallel()
	p, pid, _ := inShell(t)
	p.Type("\x1a")
	p.Await("Stopped")
	p.Type("clear; bg; echo go''es on\r")
	p.Await("goes on") // a shell says that a job has stopped when it is asked for the next line, not before
	p.Until("it stops again", func() bool { return stopped(pid) })
	p.Type("clear; kill %1\r")
	p.Type("wait; clear; jobs; echo no''ne\r")
	p.Await("none")
	if strings.Contains(p.Screen(), "SCREEN") {
		t.Errorf("still there:\n%s", p.Screen())
	}
	// Not the line discipline: bash may take that of its own line editor for
	// the shell's when a job ends while it edits.
	checkModes(p)
}

func TestSuspendIsRefusedWithoutAShell(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN")
	p.Type("\x1a")
	p.Await("refused")
	p.Signal(syscall.SIGTSTP)
	p.Until("it is refused again", func() bool { return strings.Count(p.Screen(), "refused") == 2 })
	p.Type("j")
	p.Await("j")
}

func TestLend(t *testing.T) {
	p, _, before := inShell(t)
	p.Type("v")
	p.Await("lent: 0") // stty finds no "-icanon": the child gets a cooked terminal
	p.Type("jq\r")
	p.Await("keys v")
	p.Type("k")
	p.Await("keys v k")
	p.Type("q")
	p.AwaitGone("SCREEN")
	checkShell(t, p, before)
}

func TestInTmux(t *testing.T) {
	t.Parallel()
	m := terminaltest.StartTmux(t, terminaltest.Normal)
	m.Await("ready$")
	before := m.Settings()
	title := m.Format("#{pane_title}")
	m.Type("clear; "+helperLine(t, "screen"), "Enter")
	m.Await("SCREEN 80x24")
	m.Keys("j", "Up", "F1")
	m.Await("keys j up f1")
	m.Keys("Escape")
	m.Await("f1 esc")
	if got := m.Format("#{pane_title}"); got != "9! prod sessionwatch" {
		t.Errorf("title %q", got)
	}
	m.Keys("y")
	m.Until("tmux has the copy", func() bool { return m.Buffer() == "copied text" })
	m.Keys("C-z")
	m.Await("Stopped")
	m.Until("the alternate screen is off", func() bool { return m.Format("#{alternate_on}") == "0" })
	m.Until("the shell has its terminal", func() bool { return m.Settings() == before })
	m.Type("fg", "Enter")
	m.Await("resumed")
	m.Resize(terminaltest.Small)
	m.Await("SCREEN 40x10")
	m.Keys("q")
	m.AwaitGone("SCREEN")
	m.Until("the shell has its terminal", func() bool { return m.Settings() == before })
	if got := m.Format("#{pane_title}"); got != title {
		t.Errorf("title %q, was %q", got, title)
	}
	if mouse := m.Format("#{mouse_any_flag}#{alternate_on}"); mouse != "00" {
		t.Errorf("mouse and alternate screen: %s", mouse)
	}
}

// A pane whose command is the screen itself has no shell behind it.
func TestTmuxPaneEnds(t *testing.T) {
	cmd := helperCommand(t, "screen")
	m := terminaltest.StartTmux(t, terminaltest.Normal, "env", helperVariable+"=screen", cmd.Path)
	m.Await("SCREEN 80x24")
	m.Keys("C-z")
	m.Await("refused")
	m.Keys("q")
	if code := m.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
