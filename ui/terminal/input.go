package terminal

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Input is the keyboard side of a terminal, to be given to Bubble Tea as its
// input. It is the terminal's own file to everyone who asks (descriptor, name),
// so that raw mode, polling and cancelling work on the real thing, but what is
// read from it has passed a Filter.
//
// It has no goroutine: whoever polls the descriptor calls Read when bytes are
// there, and Read itself waits only for what may follow a lone ESC. What is
// unfinished stays inside; Read then returns 0 bytes and no error.
type Input struct {
	file *os.File
	fd   int // a description of our own of the same terminal, non-blocking; -1 none
	gone func()

	sealed atomic.Bool // the terminal has been given back

	mu     sync.Mutex
	filter Filter
	asked  *questions
	answer chan<- Glyphs
	rest   []byte // complete, but did not fit into the caller's buffer
	raw    [512]byte
}

// sealedPause is how long a reader is held up that asks although the terminal is
// not ours: what is there stays there, so asking again would keep it busy.
const sealedPause = 10 * time.Millisecond

// newInput reads from the terminal file. gone is called, possibly more than
// once, when the terminal has hung up.
func newInput(file *os.File, gone func()) *Input {
	return &Input{file: file, fd: reopen(file, unix.O_RDONLY), gone: gone, asked: new(questions)}
}

// shut lets go of what newInput opened. Nobody reads any more.
func (in *Input) shut() {
	if in.fd < 0 {
		return // a read that hangs may hold mu
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	_ = unix.Close(in.fd)
	in.fd = -1
}

// Read gives the next whole keys and sequences. With a buffer of 4096 bytes or
// more nothing that is complete ever stays behind.
func (in *Input) Read(p []byte) (int, error) {
	if in.sealed.Load() { // after a fault Bubble Tea reads on: no key acts any more
		time.Sleep(sealedPause)
		return 0, nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.rest) > 0 {
		return in.hand(p, nil), nil
	}
	room := (len(p) - 2*maxSequence) / maxExpansion
	out, err := in.take(nil, max(1, min(room, len(in.raw))))
	if err != nil {
		return 0, err
	}
	for len(out) < len(p)-2*maxSequence {
		due, waiting := in.filter.Due()
		if !waiting {
			break
		}
		if in.ready(time.Until(due)) {
			if out, err = in.take(out, 8); err != nil {
				break // the next Read meets it again
			}
			continue
		}
		out = in.filter.Expire(out, time.Now())
	}
	return in.hand(p, out), nil
}

// take reads what has arrived, at most n bytes of it, through the filter.
func (in *Input) take(out []byte, n int) ([]byte, error) {
	got, err := in.receive(in.raw[:n])
	if got > 0 {
		out = in.filter.Feed(out, in.raw[:got], time.Now())
		for _, what := range in.filter.answers() {
			in.asked.answered(what)
		}
		if column := in.filter.Column(); column > 0 {
			select {
			case in.answer <- Glyphs{Wide: column > glyphColumn}:
			default:
			}
		}
		return out, nil
	}
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
		return out, nil
	}
	if in.gone != nil {
		in.gone()
	}
	return out, io.EOF
}

// receive takes what is there. What a poll has seen may be gone by now: a shell
// that had the terminal meanwhile has read it. Waiting for the next key then
// would hold up whoever wants the terminal.
func (in *Input) receive(p []byte) (int, error) {
	if in.fd < 0 {
		return in.file.Read(p)
	}
	n, err := unix.Read(in.fd, p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

func (in *Input) hand(p, out []byte) int {
	in.rest = append(in.rest, out...)
	n := copy(p, in.rest)
	in.rest = append(in.rest[:0], in.rest[n:]...)
	return n
}

// ready reports whether bytes arrive within d.
func (in *Input) ready(d time.Duration) bool {
	return pollFor(int(in.file.Fd()), unix.POLLIN, d)
}

// pollFor waits up to d for one of the events on a descriptor.
func pollFor(fd int, events int16, d time.Duration) bool {
	until := time.Now().Add(d)
	for {
		// A millisecond more than is left, so that the wait is never short.
		left := max(0, int(time.Until(until).Milliseconds())+1)
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds, left)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) || !time.Now().Before(until) {
			return false
		}
	}
}

// awaitColumn expects the answer to a question for the cursor's column.
func (in *Input) awaitColumn(row int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.filter.AwaitColumn(row)
}

// reset forgets unfinished input, and lets keys through again.
func (in *Input) reset() {
	defer in.sealed.Store(false)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.filter.Reset()
	in.rest = in.rest[:0]
}

// Counts tells what was not passed on so far.
func (in *Input) Counts() Counts {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.filter.Counts()
}

// Fd is the terminal's own descriptor.
func (in *Input) Fd() uintptr { return in.file.Fd() }

// Name is the terminal's own name.
func (in *Input) Name() string { return in.file.Name() }

// Write writes to the terminal directly. It is here because a terminal file
// can be written to; nothing of this package does.
func (in *Input) Write(p []byte) (int, error) { return in.file.Write(p) }

// Close does nothing: the file belongs to whoever opened it.
func (in *Input) Close() error { return nil }
