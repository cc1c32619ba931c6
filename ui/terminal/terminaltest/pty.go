package terminaltest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

const noctty = syscall.O_NOCTTY

// PTY is a program on a pseudo-terminal of its own, in a session of its own.
// Its methods may be called from any goroutine.
type PTY struct {
	t      testing.TB
	before string
	mute   bool
	late   time.Duration // after which it answers
	master *os.File
	slave  *os.File // kept open, so that its settings can be read to the end
	cmd    *exec.Cmd

	mu      sync.Mutex
	reading *sync.Cond
	paused  bool
	raw     bytes.Buffer
	screen  *vt.Emulator
	modes   map[ansi.Mode]bool
	title   string
	first   time.Time // of the first byte

	owed, answered atomic.Int64 // answers

	ended chan struct{} // the process has
	state *os.ProcessState
}

// StartPTY starts cmd on a new pseudo-terminal. Its environment is Environ with
// TERM=xterm-256color, unless cmd.Env is set. The process is killed at the end
// of the test.
func StartPTY(t testing.TB, size Size, cmd *exec.Cmd) *PTY {
	t.Helper()
	return startPTY(t, size, cmd, false, 0)
}

// StartMutePTY is StartPTY on a terminal that never answers a question.
func StartMutePTY(t testing.TB, size Size, cmd *exec.Cmd) *PTY {
	t.Helper()
	return startPTY(t, size, cmd, true, 0)
}

// StartLatePTY is StartPTY on a terminal that answers each question so long after
// it was asked, as one at the end of a slow connection does.
func StartLatePTY(t testing.TB, size Size, cmd *exec.Cmd, late time.Duration) *PTY {
	t.Helper()
	return startPTY(t, size, cmd, false, late)
}

func startPTY(t testing.TB, size Size, cmd *exec.Cmd, mute bool, late time.Duration) *PTY {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatalf("opening a pseudo-terminal: %v", err)
	}
	if master, err = pollable(master); err != nil {
		t.Fatalf("opening a pseudo-terminal: %v", err)
	}
	p := &PTY{
		t: t, master: master, slave: slave, cmd: cmd, mute: mute, late: late, ended: make(chan struct{}),
		screen: vt.NewEmulator(size.Columns, size.Rows), modes: map[ansi.Mode]bool{},
	}
	p.reading = sync.NewCond(&p.mu)
	p.screen.SetCallbacks(vt.Callbacks{
		Title:       func(s string) { p.title = s },
		EnableMode:  func(m ansi.Mode) { p.modes[m] = true },
		DisableMode: func(m ansi.Mode) { p.modes[m] = false },
	})
	if err := pty.Setsize(slave, &pty.Winsize{Cols: uint16(size.Columns), Rows: uint16(size.Rows)}); err != nil {
		t.Fatalf("setting the size: %v", err)
	}
	p.before = settings(t, slave.Name())
	if cmd.Env == nil {
		cmd.Env = Environ("TERM=xterm-256color")
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd, err)
	}
	var work sync.WaitGroup
	work.Go(p.read)
	work.Go(p.answer)
	work.Go(p.wait)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		p.ResumeReading()
		_ = slave.Close()
		_ = master.Close()
		// The emulator's own Close races with its Read.
		if pipe, ok := p.screen.InputPipe().(io.Closer); ok {
			_ = pipe.Close()
		}
		work.Wait()
	})
	return p
}

// pollable makes a file of which a read under way ends when it is closed. The
// library leaves it blocking.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func (p *PTY) wait() {
	_ = p.cmd.Wait()
	p.state = p.cmd.ProcessState
	close(p.ended)
}

// read is the terminal: it takes what the program writes.
func (p *PTY) read() {
	buf := make([]byte, 4096)
	for {
		p.mu.Lock()
		for p.paused {
			p.reading.Wait()
		}
		p.mu.Unlock()
		n, err := p.master.Read(buf)
		p.mu.Lock()
		if n > 0 && p.first.IsZero() {
			p.first = time.Now()
		}
		p.raw.Write(buf[:n])
		_, _ = p.screen.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// answer is what the terminal says by itself when it is asked.
func (p *PTY) answer() {
	type saying struct {
		text []byte
		due  time.Time
	}
	// The emulator waits for each of its answers to be read.
	sayings := make(chan saying, 1024)
	var mouth sync.WaitGroup
	defer mouth.Wait()
	defer close(sayings)
	mouth.Go(func() {
		for s := range sayings {
			time.Sleep(time.Until(s.due))
			_, _ = p.master.Write(s.text)
			p.answered.Add(1)
		}
	})
	buf := make([]byte, 4096)
	for {
		// Without the lock: the emulator writes its answers under it.
		n, err := p.screen.Read(buf)
		if n > 0 && !p.mute {
			p.owed.Add(1)
			sayings <- saying{bytes.Clone(buf[:n]), time.Now().Add(p.late)}
		}
		if err != nil {
			return
		}
	}
}

// AwaitAnswers waits until the terminal owes no answer.
func (p *PTY) AwaitAnswers() {
	p.t.Helper()
	p.Until("the terminal has answered", func() bool { return p.answered.Load() == p.owed.Load() })
}

// Type sends bytes as the keyboard would, all at once.
func (p *PTY) Type(keys string) {
	p.t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatalf("typing %q: %v", keys, err)
	}
}

// TypeApart sends pieces with a pause before each but the first.
func (p *PTY) TypeApart(pause time.Duration, pieces ...string) {
	p.t.Helper()
	for i, piece := range pieces {
		if i > 0 {
			time.Sleep(pause)
		}
		p.Type(piece)
	}
}

// Screen is the text on the screen now.
func (p *PTY) Screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String()
}

// Styled is the screen with its colours, as escape sequences.
func (p *PTY) Styled() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.Render()
}

// Raw is everything that was written to the terminal so far.
func (p *PTY) Raw() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.raw.Bytes())
}

// Title is the terminal's title as it was set last.
func (p *PTY) Title() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.title
}

// Mode reports whether a mode is set, such as ansi.ModeAltScreenSaveCursor.
func (p *PTY) Mode(m ansi.Mode) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.modes[m]
}

// FirstByte is when the program wrote its first byte; zero not yet.
func (p *PTY) FirstByte() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

// Await waits until the screen shows text.
func (p *PTY) Await(text string) {
	p.t.Helper()
	p.Until("the screen shows "+text, func() bool { return strings.Contains(p.Screen(), text) })
}

// AwaitGone waits until the screen no longer shows text.
func (p *PTY) AwaitGone(text string) {
	p.t.Helper()
	p.Until("the screen no longer shows "+text, func() bool { return !strings.Contains(p.Screen(), text) })
}

// Until waits for any condition.
func (p *PTY) Until(what string, condition func() bool) {
	p.t.Helper()
	Poll(p.t, condition, func() string { return "waited in vain until " + what + "\n" + quoted(p.Screen()) })
}

// StopReading lets the terminal take nothing more, as a stalled connection
// does. One read that is under way, of 4096 bytes, may still end.
func (p *PTY) StopReading() {
	p.mu.Lock()
	p.paused = true
	p.mu.Unlock()
}

// ResumeReading lets it take everything again.
func (p *PTY) ResumeReading() {
	p.mu.Lock()
	p.paused = false
	p.mu.Unlock()
	p.reading.Broadcast()
}

// Resize changes the size; the program gets SIGWINCH.
func (p *PTY) Resize(size Size) {
	p.t.Helper()
	p.mu.Lock()
	p.screen.Resize(size.Columns, size.Rows)
	p.mu.Unlock()
	if err := pty.Setsize(p.slave, &pty.Winsize{Cols: uint16(size.Columns), Rows: uint16(size.Rows)}); err != nil {
		p.t.Fatalf("resizing: %v", err)
	}
}

// Signal sends a signal to the process that was started, and to it alone.
func (p *PTY) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("sending %v: %v", s, err)
	}
}

// PID is the process that was started.
func (p *PTY) PID() int { return p.cmd.Process.Pid }

// Env is a variable of the process's environment.
func (p *PTY) Env(name string) string {
	value := ""
	for _, e := range p.cmd.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// Settings is the line discipline of the terminal, as stty -g says it.
func (p *PTY) Settings() string {
	p.t.Helper()
	return settings(p.t, p.slave.Name())
}

// SettingsBefore is the same, before the program was started.
func (p *PTY) SettingsBefore() string { return p.before }

// HangUp takes the terminal away, as a lost connection does.
func (p *PTY) HangUp() {
	_ = p.slave.Close()
	p.ResumeReading()
	_ = p.master.Close()
}

// Ended waits for the end of the process and tells its exit code (128 + n if a
// signal ended it) and how long it took from now.
func (p *PTY) Ended() (code int, after time.Duration) {
	p.t.Helper()
	start := time.Now()
	select {
	case <-p.ended:
	case <-time.After(Patience):
		p.t.Fatalf("the process does not end\n%s", quoted(p.Screen()))
	}
	if w, ok := p.state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), time.Since(start)
	}
	return p.state.ExitCode(), time.Since(start)
}
