package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// partingLimit is how long an orderly end waits for the guardian's.
const partingLimit = 500 * time.Millisecond

// ward is this program's side of its guardian: it starts it once the first
// frame is out, and tells it at each change what it would have to do. A nil
// ward has no guardian and wants none. Its methods wait for nothing but end.
type ward struct {
	in, out, stderr *os.File
	log             *slog.Logger

	mu      sync.Mutex
	now     charge
	told    []byte
	begun   bool // the guardian has been started, or never will be
	over    bool
	started chan struct{} // or it failed to
	ended   chan struct{}
	process *os.Process
	charges *os.File    // nil: there is no guardian
	tellTo  int         // the descriptor of charges, which does not block
	held    *heldStderr // nil like charges
}

func newWard(in, out, stderr *os.File, crash string, log *slog.Logger) *ward {
	if abs, err := filepath.Abs(crash); err == nil && crash != "" {
		crash = abs
	}
	groups := []int{unix.Getpgrp()}
	if g := shellGroup(); g > 0 {
		groups = append(groups, g)
	}
	return &ward{
		in: in, out: out, stderr: stderr, log: log,
		now:     charge{Groups: groups, Crash: crash},
		started: make(chan struct{}), ended: make(chan struct{}),
	}
}

// take says that the terminal, whose line discipline is saved, is ours.
func (w *ward) take(saved *term.State) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var none modes
	w.now.Up, w.now.Saved, w.now.Ours, w.now.Undo = true, saved, nil, none.bytes()
	w.tell()
	w.hold()
}

// give says that the terminal has been given back. What was printed to
// standard error meanwhile is returned.
func (w *ward) give() []byte {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Up = false
	w.tell()
	return w.release()
}

// drawn says that a frame went out, and what would undo the modes that are on
// since. The first one that is on the screen starts the guardian.
func (w *ward) drawn(frame, undo []byte) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.Up && (w.now.Ours == nil || !bytes.Equal(w.now.Undo, undo)) {
		w.now.Undo = undo
		w.now.Ours, _ = term.GetState(w.in.Fd())
		w.tell()
	}
	if !w.begun && bytes.Contains(frame, []byte(enterScreen)) {
		w.begun = true
		go w.start()
	}
}

// tell hands over the charge. A guardian that does not listen would act on an
// old one, which is worse than none.
func (w *ward) tell() {
	if w.charges == nil {
		return
	}
	c := w.now
	// A frame may have been cut off while the terminal held back its display.
	c.Undo = slices.Concat([]byte("\x1b\\\x1b[?2026l"), c.Undo)
	line, err := json.Marshal(c)
	if err != nil || bytes.Equal(line, w.told) {
		return
	}
	w.told = line
	line = append(line, '\n')
	if n, err := unix.Write(w.tellTo, line); n != len(line) {
		w.log.Warn("the guardian of the terminal does not listen; going on without", "error", err)
		if w.process != nil {
			_ = w.process.Kill()
		}
		w.forget()
	}
}

// start starts the guardian. Without one everything else works.
func (w *ward) start() {
	defer close(w.started)
	began := time.Now()
	if err := w.launch(); err != nil {
		w.log.Warn("the terminal has no guardian; after a crash it may have to be reset by hand", "error", err)
		return
	}
	w.log.Debug("the terminal has a guardian", "after", time.Since(began))
}

func (w *ward) launch() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("a pipe to it: %w", err)
	}
	defer theirs.Close()
	crash, text, err := socketPair()
	if err != nil {
		_ = ours.Close()
		return fmt.Errorf("a socket to it: %w", err)
	}
	defer crash.Close()
	defer text.Close() // the runtime has its own
	tellTo := int(ours.Fd())
	held, err := newHeldStderr()
	if err == nil {
		err = unix.SetNonblock(tellTo, true)
	}
	if err != nil {
		_ = ours.Close()
		return err
	}
	// What it is to do lies ready for it before it is there.
	w.mu.Lock()
	w.charges, w.tellTo, w.held = ours, tellTo, held
	w.tell()
	w.mu.Unlock()
	process, err := os.StartProcess(path, []string{os.Args[0], guardianArgument}, &os.ProcAttr{
		Dir: "/",
		Env: []string{guardianVariable + "=1", "GOMAXPROCS=1", "GOGC=20"},
		Files: []*os.File{
			fdCharges: theirs, fdScreen: w.out, fdReport: w.stderr, fdKeyboard: w.in, fdCrash: crash, fdPrinted: held.read,
		},
		// In a group of its own no key reaches it, and no job control.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.forget()
		return err
	}
	go w.attend(process)
	w.process = process
	if w.charges == nil { // it could not be told
		return nil
	}
	if err := debug.SetCrashOutput(text, debug.CrashOptions{}); err != nil {
		w.log.Warn("the guardian of the terminal will not see the text of a crash", "error", err)
	} else if w.now.Up {
		w.hold()
	}
	return nil
}

// attend waits for the guardian's end, which is to come after ours.
func (w *ward) attend(process *os.Process) {
	state, err := process.Wait()
	<-w.started
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.log.Warn("the guardian of the terminal ended; going on without", "state", fmt.Sprint(state), "error", err)
	}
	w.forget()
	close(w.ended)
}

// forget goes on without a guardian.
func (w *ward) forget() {
	if w.charges == nil {
		return
	}
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	_ = w.charges.Close()
	w.charges = nil
	_ = w.held.release()
	w.held.close()
	w.held = nil
}

// end parts from the guardian, after give, and waits until it is gone.
func (w *ward) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.over = true
	begun := w.begun
	w.begun = true
	w.mu.Unlock()
	if !begun {
		return
	}
	<-w.started
	w.mu.Lock()
	process := w.process
	w.forget()
	w.mu.Unlock()
	if process == nil {
		return
	}
	select {
	case <-w.ended:
	case <-time.After(partingLimit):
		_ = process.Kill()
		<-w.ended
	}
}

// hold keeps what is printed to standard error off the screen, if there is a
// guardian to have the text of a crash.
func (w *ward) hold() {
	if w.held == nil || w.process == nil || !sameTerminal(stderrNumber, int(w.out.Fd())) {
		return
	}
	if err := w.held.hold(); err != nil {
		w.log.Warn("what is printed to standard error may be seen on the screen", "error", err)
	}
}

func (w *ward) release() []byte {
	if w.held == nil {
		return nil
	}
	return w.held.release()
}

// socketPair makes a connection of which the second end, to be written to, has
// as small a buffer as there is.
func socketPair() (read, write *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	_ = unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUF, 1)
	return os.NewFile(uintptr(fds[0]), "crash"), os.NewFile(uintptr(fds[1]), "crash"), nil
}

// shellGroup is the process group of whoever started ours: of the shell, which
// gets the terminal when we end. It is 0 if that is not on this terminal.
func shellGroup() int {
	session, err := unix.Getsid(0)
	if err != nil {
		return 0
	}
	pid := unix.Getppid()
	for range 64 {
		if s, err := unix.Getsid(pid); err != nil || s != session || pid == 0 {
			return 0
		}
		g, err := unix.Getpgid(pid)
		if err != nil || g != unix.Getpgrp() {
			return g
		}
		pid = parent(pid)
	}
	return 0
}
