package terminaltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Tmux is a tmux server of the test's own, without anyone's settings, with one
// window.
type Tmux struct {
	t      testing.TB
	tmux   string
	dir    string
	device string
}

// StartTmux starts a server whose only window runs the command, or an
// interactive shell with the prompt "ready$ " if there is none. The window
// stays when the command ends, so that what it left can be seen. The server is
// stopped by its own socket at the end of the test.
func StartTmux(t testing.TB, size Size, command ...string) *Tmux {
	t.Helper()
	m := &Tmux{t: t, tmux: Need(t, "tmux")}
	// The path of a socket is limited to about 100 bytes; t.TempDir is longer.
	dir, err := os.MkdirTemp("", "tmux")
	if err != nil {
		t.Fatal(err)
	}
	m.dir = dir
	t.Cleanup(func() {
		_ = m.command("kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	if len(command) == 0 {
		command = []string{"env", "PS1=ready$ ", "HISTFILE=", Need(t, "bash"), "--norc", "--noprofile", "-i"}
	}
	conf := filepath.Join(dir, "conf")
	lines := "set -g default-terminal screen-256color\nset -g status off\nset -g remain-on-exit on\n"
	if err := os.WriteFile(conf, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-f", conf, "new-session", "-d", "-x", strconv.Itoa(size.Columns), "-y", strconv.Itoa(size.Rows)}
	m.run(append(args, command...)...)
	m.device = strings.TrimSpace(m.run("display-message", "-p", "#{pane_tty}"))
	return m
}

func (m *Tmux) command(args ...string) *exec.Cmd {
	cmd := exec.Command(m.tmux, append([]string{"-u", "-S", filepath.Join(m.dir, "socket")}, args...)...)
	cmd.Env = Environ("TERM=xterm-256color")
	return cmd
}

func (m *Tmux) run(args ...string) string {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Keys sends keys by tmux's names: Up, Escape, C-c, F1, or single characters.
func (m *Tmux) Keys(keys ...string) {
	m.t.Helper()
	m.run(append([]string{"send-keys", "--"}, keys...)...)
}

// Type sends text as it is, then the keys given by name.
func (m *Tmux) Type(text string, keys ...string) {
	m.t.Helper()
	m.run("send-keys", "-l", "--", text)
	if len(keys) > 0 {
		m.Keys(keys...)
	}
}

// Screen is the text on the screen now.
func (m *Tmux) Screen() string {
	m.t.Helper()
	return m.run("capture-pane", "-p")
}

// Styled is the screen with its colours, as escape sequences.
func (m *Tmux) Styled() string {
	m.t.Helper()
	return m.run("capture-pane", "-p", "-e")
}

// Format expands one of tmux's formats, such as "#{alternate_on}".
func (m *Tmux) Format(format string) string {
	m.t.Helper()
	return strings.TrimSpace(m.run("display-message", "-p", format))
}

// Buffer is the newest of tmux's paste buffers.
func (m *Tmux) Buffer() string {
	m.t.Helper()
	out, _ := m.command("show-buffer").Output()
	return string(out)
}

// Await waits until the screen shows text.
func (m *Tmux) Await(text string) {
	m.t.Helper()
	m.Until("the screen shows "+text, func() bool { return strings.Contains(m.Screen(), text) })
}

// AwaitGone waits until the screen no longer shows text.
func (m *Tmux) AwaitGone(text string) {
	m.t.Helper()
	m.Until("the screen no longer shows "+text, func() bool { return !strings.Contains(m.Screen(), text) })
}

// Until waits for any condition.
func (m *Tmux) Until(what string, condition func() bool) {
	m.t.Helper()
	Poll(m.t, condition, func() string { return "waited in vain until " + what + "\n" + quoted(m.Screen()) })
}

// Resize changes the size of the window.
func (m *Tmux) Resize(size Size) {
	m.t.Helper()
	m.run("resize-window", "-x", strconv.Itoa(size.Columns), "-y", strconv.Itoa(size.Rows))
}

// Settings is the line discipline of the window's terminal, as stty -g says it.
func (m *Tmux) Settings() string {
	m.t.Helper()
	return settings(m.t, m.device)
}

// PID is the process that tmux started in the window.
func (m *Tmux) PID() int {
	m.t.Helper()
	pid, err := strconv.Atoi(m.Format("#{pane_pid}"))
	if err != nil {
		m.t.Fatalf("pid of the pane: %v", err)
	}
	return pid
}

// Signal sends a signal to a process, such as PID().
func (m *Tmux) Signal(pid int, s syscall.Signal) {
	m.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		m.t.Fatal(fmt.Errorf("sending %v to %d: %w", s, pid, err))
	}
}

// Ended waits until the window's process has ended and tells its exit code.
func (m *Tmux) Ended() int {
	m.t.Helper()
	// tmux calls a pane dead once its terminal is closed, which may be before it
	// has the process's status. It also misses the end of a child now and then,
	// until another one ends: so end one.
	m.Until("the window's process ends", func() bool {
		if m.Format("#{pane_dead}") == "1" && m.Format("#{pane_dead_status}#{pane_dead_signal}") != "" {
			return true
		}
		m.run("run-shell", "-b", "true")
		return false
	})
	code, err := strconv.Atoi(m.Format("#{pane_dead_status}"))
	if err != nil {
		code = -1
	}
	return code
}
