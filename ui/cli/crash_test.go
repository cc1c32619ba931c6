//go:build !race

package cli_test

// The program as a user gets it: the race detector is not in it, and would see
// nothing of it from here.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// guardians lists the processes that look after the terminals of a program.
func guardians(t *testing.T, path string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Skip("processes cannot be listed here")
	}
	for _, file := range lines {
		text, _ := os.ReadFile(file)
		if bytes.Equal(text, []byte(path+"\x00--terminal-guardian\x00")) {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// However the built program ends, its terminal is as it was, and nothing of it
// is left.
func TestTheTerminalSurvivesTheProgram(t *testing.T) {
	path := asBuilt(t)
	for _, c := range []struct {
		name string
		do   func(p *terminaltest.PTY)
		code int
		says string
		kept string // in the crash file
	}{
		{"quit", func(p *terminaltest.PTY) { p.Type("q") }, 0, "", ""},
		{"SIGKILL", func(p *terminaltest.PTY) { p.Signal(syscall.SIGKILL) }, 137, "sessionwatch was killed; the terminal has been restored.", ""},
		{"SIGABRT", func(p *terminaltest.PTY) { p.Signal(syscall.SIGABRT) }, 2, "SIGABRT: abort", "SIGABRT: abort"},
		{"SIGSEGV", func(p *terminaltest.PTY) { p.Signal(syscall.SIGSEGV) }, 2, "SIGSEGV: segmentation violation", "SIGSEGV"},
		{"SIGQUIT", func(p *terminaltest.PTY) { p.Signal(syscall.SIGQUIT) }, 2, "", "SIGQUIT: quit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := t.TempDir()
			p := terminaltest.StartPTY(t, screenSize, &exec.Cmd{Path: path, Args: []string{path}, Env: alone(t, "XDG_STATE_HOME="+state)})
			p.Await("NO SERVER")
			p.Until("there is a guardian", func() bool { return len(guardians(t, path)) == 1 })
			c.do(p)
			if code, _ := p.Ended(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			p.Until("the terminal is as before", func() bool { return p.Settings() == p.SettingsBefore() })
			for name, mode := range map[string]ansi.Mode{
				"alternate screen": ansi.ModeAltScreenSaveCursor, "bracketed paste": ansi.ModeBracketedPaste,
				"mouse": ansi.ModeMouseButtonEvent, "mouse encoding": ansi.ModeMouseExtSgr,
			} {
				p.Until(name+" is off", func() bool { return !p.Mode(mode) })
			}
			p.Until("the cursor is shown", func() bool { return p.Mode(ansi.ModeTextCursorEnable) })
			p.Await(c.says)
			p.Until("the guardian is gone", func() bool { return len(guardians(t, path)) == 0 })
			text, _ := os.ReadFile(filepath.Join(state, "sessionwatch", "crash.txt"))
			if !strings.Contains(string(text), c.kept) || c.kept == "" && len(text) > 0 {
				t.Errorf("the crash file lacks %q or should be empty:\n%.400s", c.kept, text)
			}
		})
	}
}

// A shell takes over the settings that it finds when a program has exited.
func TestAShellSurvivesTheProgram(t *testing.T) {
	path := asBuilt(t)
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGABRT, syscall.SIGQUIT} {
		t.Run(s.String(), func(t *testing.T) {
			shell := terminaltest.Shell(t)
			shell.Env = append(shell.Env, alone(t, "XDG_STATE_HOME="+t.TempDir())...)
			shell.Env = append(shell.Env, "PS1=ready$ ")
			p := terminaltest.StartPTY(t, screenSize, shell)
			settings := func() string {
				file := filepath.Join(t.TempDir(), "stty")
				p.Type("clear; stty -g > " + file + "\r")
				var text []byte
				p.Until("stty has answered", func() bool {
					text, _ = os.ReadFile(file)
					return bytes.HasSuffix(text, []byte("\n"))
				})
				return string(text)
			}
			p.Await("ready$")
			before := settings()
			p.Type("clear; " + path + "\r")
			p.Await("NO SERVER")
			p.Until("there is a guardian", func() bool { return len(guardians(t, path)) == 1 })
			if err := exec.Command("kill", fmt.Sprintf("-%d", int(s)), wardOf(t, path)).Run(); err != nil {
				t.Fatal(err)
			}
			p.Until("the guardian is gone", func() bool { return len(guardians(t, path)) == 0 })
			p.Type("\r")
			p.Await("ready$")
			if after := settings(); after != before {
				t.Errorf("stty -g gives %s, it was %s", after, before)
			}
			if p.Mode(ansi.ModeAltScreenSaveCursor) {
				t.Error("the alternate screen is still on")
			}
		})
	}
}

// wardOf is the process whose terminal the only guardian looks after.
func wardOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + guardians(t, path)[0] + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[1]
}
