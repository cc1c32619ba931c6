package terminal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// guardianOf waits for the guardian of a program and gives its pid.
func guardianOf(t *testing.T, pid int) int {
	t.Helper()
	guardian := 0
	terminaltest.Poll(t, func() bool {
		for _, child := range childrenOf(t, pid) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if bytes.Contains(line, []byte("\x00--terminal-guardian\x00")) && ignoresTerm(child) {
				guardian = child
			}
		}
		return guardian != 0
	}, func() string { return "there is no guardian" })
	return guardian
}

// childrenOf lists the children that any thread of a process has started.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		t.Skipf("children of a process cannot be listed here: %v", err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// ignoresTerm reports whether a process has come as far as to ignore SIGTERM.
func ignoresTerm(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "SigIgn:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	return err == nil && mask&(1<<(syscall.SIGTERM-1)) != 0
}

// awaitGone waits until a process has ended and somebody has seen to it.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	terminaltest.Poll(t, func() bool { return syscall.Kill(pid, 0) != nil },
		func() string { return "the guardian is still there" })
}

// what nobody guarded, and what must be true after each of it.
var crashes = []struct {
	name string
	do   func(p *terminaltest.PTY)
	code int
	says string // in a line of its own
	kept string // in the crash file
}{
	{"panic in a goroutine of a library", func(p *terminaltest.PTY) { p.Type("u") }, 2, "panic: out of bounds", "helper_test.go"},
	{"panic with a hostile text", func(p *terminaltest.PTY) { p.Type("h") }, 2, "panic: bad", "helper_test.go"},
	{"concurrent map writes", func(p *terminaltest.PTY) { p.Type("m") }, 2, "fatal error: concurrent map", "helper_test.go"},
	{"stack overflow", func(p *terminaltest.PTY) { p.Type("o") }, 2, "fatal error: stack overflow", "helper_test.go"},
	{"SIGABRT", func(p *terminaltest.PTY) { p.Signal(syscall.SIGABRT) }, 2, "SIGABRT: abort", "goroutine"},
	{"SIGSEGV", func(p *terminaltest.PTY) { p.Signal(syscall.SIGSEGV) }, 2, "SIGSEGV: segmentation violation", "goroutine"},
	{"SIGKILL", func(p *terminaltest.PTY) { p.Signal(syscall.SIGKILL) }, 137, "sessionwatch was killed; the terminal has been restored.", ""},
}

func TestTheGuardianRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range crashes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each on a terminal of its own
			if racing && c.name == "concurrent map writes" {
				t.Skip("the race detector reports them first, more than is held back of standard error")
			}
			crash := filepath.Join(t.TempDir(), "crash", "self.txt")
			p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen", "SESSIONWATCH_TERMINAL_CRASH="+crash))
			before := p.SettingsBefore()
			p.Await("wide:false")
			guardian := guardianOf(t, p.PID())
			c.do(p)
			code, _ := p.Ended()
			if c.kept != "" && p.Settings() != before {
				t.Error("the program ended before its terminal was right")
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			checkRestored(t, p, before)
			p.Until("it says "+c.says, func() bool { return strings.Contains(p.Screen(), "\n"+c.says) || strings.HasPrefix(p.Screen(), c.says) })
			awaitGone(t, guardian)
			if bytes.Contains(p.Raw(), []byte("goroutine ")) {
				t.Errorf("the stack is seen:\n%s", p.Screen())
			}
			if bytes.Contains(p.Raw(), []byte("]52;c;aGk")) {
				t.Error("a control sequence of the panic's value reached the terminal")
			}
			if c.kept == "" {
				return
			}
			p.Await("The stack is kept in")
			text, err := os.ReadFile(crash)
			if err != nil || !strings.Contains(string(text), c.says) || !strings.Contains(string(text), c.kept) {
				t.Errorf("crash file: %v\n%s", err, text)
			}
			if info, err := os.Stat(crash); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("crash file: %v, %v", info, err)
			}
		})
	}
}

func TestACrashFileThatIsALinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target, crash := filepath.Join(dir, "precious"), filepath.Join(dir, "crash.txt")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, crash); err != nil {
		t.Fatal(err)
	}
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen", "SESSIONWATCH_TERMINAL_CRASH="+crash))
	p.Await("SCREEN")
	guardianOf(t, p.PID())
	p.Type("u")
	p.Ended()
	p.Await("The stack could not be kept")
	if text, _ := os.ReadFile(target); string(text) != "precious" {
		t.Errorf("the file behind the link: %q", text)
	}
}

// After every orderly end, and after every end that the program sees to by
// itself, the guardian goes without a word.
func TestTheGuardianGoesWithItsWard(t *testing.T) {
	t.Parallel()
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen",
				reportVariable+"="+filepath.Join(dir, "report"), "SESSIONWATCH_TERMINAL_CRASH="+filepath.Join(dir, "crash")))
			p.Await("SCREEN")
			guardian := guardianOf(t, p.PID())
			e.do(p)
			if code, _ := p.Ended(); code != e.code {
				t.Errorf("exit code %d, want %d", code, e.code)
			}
			awaitGone(t, guardian)
			checkRestored(t, p, p.SettingsBefore())
			if strings.Contains(p.Screen(), "was killed") || strings.Contains(p.Screen(), "The stack is kept") {
				t.Errorf("the guardian said something:\n%s", p.Screen())
			}
			if n := bytes.Count(p.Raw(), []byte("\x1b[?1049l")); n != 1 {
				t.Errorf("the alternate screen was left %d times", n)
			}
		})
	}
}

func TestSignalsForTheWardDoNotEndTheGuardian(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN")
	guardian := guardianOf(t, p.PID())
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGQUIT, syscall.SIGTTOU} {
		if err := syscall.Kill(guardian, s); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
	}
	p.Type("j")
	p.Await("keys j")
	p.Signal(syscall.SIGKILL)
	p.Ended()
	checkRestored(t, p, p.SettingsBefore())
}

// A screen whose guardian was killed is a screen without one.
func TestWithoutAGuardian(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN")
	guardian := guardianOf(t, p.PID())
	if err := syscall.Kill(guardian, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, guardian) // no zombie
	p.Type("jg")
	if code, _ := p.Ended(); code != 75 {
		t.Errorf("exit code %d", code)
	}
	checkRestored(t, p, p.SettingsBefore())
	p.Until("the panic is seen", func() bool { return bytes.Contains(p.Raw(), []byte("panic: in a goroutine")) })
}

// What a library prints to standard error is not drawn over the screen, and
// not lost.
func TestStandardErrorIsShownAfterTheScreen(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN")
	guardianOf(t, p.PID())
	p.Type("ej")
	p.Await("keys e j")
	if strings.Contains(p.Screen(), "complaint") {
		t.Errorf("on the screen:\n%s", p.Screen())
	}
	p.Type("q")
	p.Ended()
	p.Await("a complaint")
	if bytes.Contains(p.Raw(), []byte("]52;c;aGk")) {
		t.Error("a control sequence reached the terminal")
	}
}

func TestAGuardianHoldsNothing(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen", "SECRET_TOKEN=hunter2"))
	p.Await("SCREEN")
	guardian := guardianOf(t, p.PID())
	proc := fmt.Sprintf("/proc/%d/", guardian)
	if env, err := os.ReadFile(proc + "environ"); err != nil || bytes.Contains(env, []byte("hunter2")) {
		t.Errorf("its environment: %v, %q", err, env)
	}
	// It ignores signals before it closes what it was passed.
	var others []string
	terminaltest.Poll(t, func() bool { others = otherFiles(t, proc+"fd/"); return len(others) == 0 },
		func() string { return fmt.Sprintf("its other descriptors: %q", others) })
	if group, err := syscall.Getpgid(guardian); err != nil || group != guardian {
		t.Errorf("its process group is %d: %v", group, err)
	}
}

// otherFiles are the descriptors in a directory of them beside the six of a
// guardian and what Go opens for itself.
func otherFiles(t *testing.T, dir string) (others []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		at, err := os.Readlink(dir + f.Name())
		if n, _ := strconv.Atoi(f.Name()); err == nil && n > 5 && !strings.HasPrefix(at, "anon_inode:") && !strings.HasPrefix(at, "/sys/fs/cgroup") {
			others = append(others, f.Name()+" "+at)
		}
	}
	return others
}

// Keys, job control and the shell see nothing of a guardian, and it is there
// after the screen has come back.
func TestSuspendWithAGuardian(t *testing.T) {
	t.Parallel()
	p, pid, before := inShell(t)
	guardian := guardianOf(t, pid)
	for range 2 {
		p.Type("\x1a")
		p.Await("Stopped")
		checkShell(t, p, before)
		p.Type("fg\r")
		p.Await("resumed")
	}
	p.Type("k")
	p.Await("ctrl+z k")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, guardian)
	p.Type("\r")
	checkShell(t, p, before)
}

// A program that is killed while it is stopped has no screen to be undone.
func TestKilledWhileSuspended(t *testing.T) {
	t.Parallel()
	p, pid, before := inShell(t)
	guardian := guardianOf(t, pid)
	p.Type("\x1a")
	p.Await("Stopped")
	checkShell(t, p, before)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, guardian)
	if n := bytes.Count(p.Raw(), []byte("\x1b[?1049l")); n != 1 {
		t.Errorf("the alternate screen was left %d times", n)
	}
	checkShell(t, p, before)
}

// A crash under an interactive shell: the shell takes over the settings that it
// finds when a program has exited, so they must be right by then.
func TestCrashUnderAShell(t *testing.T) {
	t.Parallel()
	p, pid, before := inShell(t)
	guardian := guardianOf(t, pid)
	p.Type("u")
	p.Await("panic: out of bounds")
	awaitGone(t, guardian)
	p.Await("ready$")
	checkShell(t, p, before)
}

func TestKilledInTmux(t *testing.T) {
	t.Parallel()
	m := terminaltest.StartTmux(t, terminaltest.Normal)
	m.Await("ready$")
	before, title := m.Settings(), m.Format("#{pane_title}")
	m.Type("clear; "+helperLine(t, "screen"), "Enter")
	m.Await("SCREEN 80x24")
	pid := foregroundChild(t, m.PID())
	guardian := guardianOf(t, pid)
	m.Signal(pid, syscall.SIGKILL)
	m.Until("the alternate screen is off", func() bool { return m.Format("#{alternate_on}#{mouse_any_flag}#{cursor_flag}") == "001" })
	awaitGone(t, guardian)
	m.Until("the shell has its terminal", func() bool { return m.Settings() == before })
	m.Until("the title is back", func() bool { return m.Format("#{pane_title}") == title })
	m.Type("echo go''es on", "Enter")
	m.Await("goes on")
}
