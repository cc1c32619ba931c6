package terminal

import (
	"bytes"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

const stderrNumber = 2

// heldStderr keeps standard error off the screen that is on the same terminal:
// what a library prints there would be drawn over it. It goes into a pipe that
// takes as much as the system gives it (64 kB) and then nothing.
type heldStderr struct {
	read, write *os.File
	own         int // the real one, while it is held; -1
}

func newHeldStderr() (*heldStderr, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &heldStderr{read, write, -1}, nil
}

// hold begins to keep what is printed.
func (h *heldStderr) hold() error {
	if h.own >= 0 {
		return nil
	}
	syscall.ForkLock.RLock()
	own, err := unix.Dup(stderrNumber)
	if err == nil {
		unix.CloseOnExec(own)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return err
	}
	fd := int(h.write.Fd())
	if err = unix.SetNonblock(fd, true); err == nil {
		err = unix.Dup2(fd, stderrNumber)
	}
	if err != nil {
		_ = unix.Close(own)
		return err
	}
	h.own = own
	return nil
}

// release puts the real one back and gives what was printed, safe to be shown.
func (h *heldStderr) release() []byte {
	if h.own < 0 {
		return nil
	}
	_ = unix.Dup2(h.own, stderrNumber)
	_ = unix.Close(h.own)
	h.own = -1
	var out bytes.Buffer
	for line := range strings.Lines(string(readReady(int(h.read.Fd())))) {
		out.WriteString(termtext.CleanLong(strings.TrimSuffix(line, "\n")))
		out.WriteString("\r\n")
	}
	return out.Bytes()
}

func (h *heldStderr) close() {
	_ = h.read.Close()
	_ = h.write.Close()
}

// readReady reads what there is without waiting for more.
func readReady(fd int) (text []byte) {
	for pollFor(fd, unix.POLLIN, 0) {
		more := readSome(fd)
		if len(more) == 0 {
			break
		}
		text = append(text, more...)
	}
	return text
}
