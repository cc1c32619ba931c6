package terminal

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of the output queue. What a slow terminal has not taken is old news;
// a short queue keeps the screen near the present.
const (
	maxQueued = 64 << 10 // bytes behind the frame that is being written
	maxKept   = 32 << 10 // bytes of lasting sequences out of dropped frames
	// drainCheck is how often a blocked writer looks whether it is to stop.
	drainCheck = 50 * time.Millisecond
)

// Output is the screen side of a terminal, to be given to Bubble Tea as its
// output. It is the terminal's own file to everyone who asks for its size, but
// Write only queues: a terminal that stops reading never stops the program.
//
// One Write is one frame. When the queue is full frames are dropped whole, and
// so is each one after it, since it draws upon what was dropped, until one
// that paints the whole screen. Sequences with a lasting effect (modes, title,
// clipboard) are kept out of the dropped frames and go before that one.
type Output struct {
	file    *os.File
	fd      int // a description of our own of the same terminal, non-blocking; -1 none
	repaint func()
	ward    *ward
	asked   *questions

	mu      sync.Mutex
	queue   [][]byte
	queued  int
	prelude []byte
	lost    bool // the screen no longer shows what the program believes
	kept    []kept
	waiters []chan struct{}
	busy    bool
	closed  bool

	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	writing sync.Mutex // held while bytes go out; never for long, if fd >= 0
	modes   modes      // guarded by writing
	sealed  atomic.Bool
	gone    atomic.Bool

	epoch   time.Time
	stuck   atomic.Int64 // nanoseconds after epoch + 1 since when no byte went out; 0 none
	dropped atomic.Uint64
	written atomic.Uint64
}

type kept struct {
	key string
	seq []byte
}

// newOutput starts the writer of a terminal. repaint is called, on the
// writer's goroutine, when the terminal drains again after frames were lost;
// it must not block and should cause a frame that paints everything.
func newOutput(file *os.File, repaint func()) *Output {
	o := &Output{
		file: file, fd: reopen(file, unix.O_WRONLY), repaint: repaint, asked: new(questions), epoch: time.Now(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go o.run()
	return o
}

// reopen opens the terminal once more, to read or to write, for a description
// whose non-blocking flag is not shared with the shell. It is -1 if the system
// does not let us.
func reopen(file *os.File, access int) int {
	flags := access | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	paths := []string{"/proc/self/fd/" + strconv.Itoa(int(file.Fd())), file.Name()}
	if _, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP); err == nil {
		paths = append(paths, "/dev/tty")
	}
	for _, path := range paths {
		fd, err := unix.Open(path, flags, 0)
		if err != nil {
			continue
		}
		if sameTerminal(fd, int(file.Fd())) || path == "/dev/tty" {
			return fd
		}
		_ = unix.Close(fd)
	}
	return -1
}

func sameTerminal(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Rdev == y.Rdev && x.Mode&unix.S_IFMT == unix.S_IFCHR
}

// Write queues one frame. It never blocks and never fails: what cannot be
// shown is counted by Dropped.
func (o *Output) Write(frame []byte) (int, error) {
	if len(frame) == 0 || o.sealed.Load() || o.gone.Load() {
		return len(frame), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	length := len(frame)
	if o.prelude != nil && !o.lost {
		frame = o.insertPrelude(frame)
	}
	switch {
	case o.closed:
	case o.lost && len(o.queue) == 0 && !o.busy && repaints(frame):
		o.lost = false
		for _, k := range o.kept {
			o.push(k.seq)
		}
		o.kept = nil
		o.push(frame)
	case o.lost || len(o.queue) > 0 && o.queued+len(frame) > maxQueued:
		o.lost = true
		o.dropped.Add(1)
		o.keep(frame)
	default:
		o.push(frame)
	}
	return length, nil
}

// setPrelude puts bytes behind the next switch to the alternate screen, within
// the same frame: what they draw is never seen.
func (o *Output) setPrelude(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prelude = p
}

func (o *Output) insertPrelude(frame []byte) []byte {
	at := bytes.Index(frame, []byte(enterScreen))
	if at < 0 {
		return frame
	}
	at += len(enterScreen)
	out := slices.Concat(frame[:at], o.prelude, frame[at:])
	o.prelude = nil
	return out
}

func (o *Output) push(frame []byte) {
	o.queue = append(o.queue, slices.Clone(frame))
	o.queued += len(frame)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// keep holds the lasting sequences of a frame that is dropped.
func (o *Output) keep(frame []byte) {
	size := 0
	for _, k := range o.kept {
		size += len(k.seq)
	}
	sequences(frame, func(seq []byte) {
		key, keep := lasting(seq)
		if !keep || size+len(seq) > maxKept {
			return
		}
		if key != "" {
			o.kept = slices.DeleteFunc(o.kept, func(k kept) bool { return k.key == key })
		}
		o.kept = append(o.kept, kept{key, slices.Clone(seq)})
		size += len(seq)
	})
}

// run writes the queue out, frame by frame.
func (o *Output) run() {
	defer close(o.done)
	for {
		frame := o.next()
		if frame == nil {
			select {
			case <-o.wake:
				continue
			case <-o.stop:
				return
			}
		}
		if !o.send(frame) {
			return
		}
	}
}

// next takes the oldest frame. Without one it tells everyone who waits for
// that, and asks for a repaint if frames were lost on the way.
func (o *Output) next() []byte {
	o.mu.Lock()
	if len(o.queue) > 0 {
		frame := o.queue[0]
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.queued -= len(frame)
		o.busy = true
		o.mu.Unlock()
		return frame
	}
	wasBusy := o.busy
	o.busy = false
	for _, w := range o.waiters {
		close(w)
	}
	o.waiters = nil
	ask := o.lost && wasBusy && o.repaint != nil
	o.mu.Unlock()
	if ask {
		o.repaint()
	}
	return nil
}

// send writes one frame. It is false when the writer is to end.
func (o *Output) send(frame []byte) bool {
	o.pose(frame)
	for rest := frame; len(rest) > 0; {
		n, err := o.some(rest, frame)
		if n > 0 {
			o.stuck.Store(0)
			o.written.Add(uint64(n))
			rest = rest[n:]
		}
		switch {
		case o.sealed.Load():
			return true
		case err == nil || errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if !o.await() {
				return false
			}
		default: // hung up
			o.gone.Store(true)
			o.stuck.Store(0)
			return true
		}
	}
	return true
}

// pose notes what a frame asks, before it can be answered.
func (o *Output) pose(frame []byte) {
	sequences(frame, func(seq []byte) {
		if what := asks(seq); what != noQuestion {
			o.asked.ask(what, time.Now())
		}
	})
}

// learn notes the modes that a frame changes. The caller holds writing, and has
// held it since the first byte went out: a terminal that is restored in between
// would keep the modes that nobody had noted.
func (o *Output) learn(frame []byte) {
	sequences(frame, o.modes.note)
	if o.ward != nil {
		o.ward.drawn(frame, o.modes.bytes())
	}
}

// some writes what the terminal takes now of the rest of a frame.
func (o *Output) some(rest, frame []byte) (int, error) {
	first := len(rest) == len(frame)
	if o.fd < 0 { // this blocks; nothing else is left
		if first {
			o.writing.Lock()
			o.learn(frame)
			o.writing.Unlock()
		}
		o.markStuck()
		return o.file.Write(rest)
	}
	o.writing.Lock()
	defer o.writing.Unlock()
	if o.sealed.Load() {
		return 0, nil
	}
	n, err := unix.Write(o.fd, rest)
	if first && n > 0 {
		o.learn(frame)
	}
	return max(n, 0), err
}

// await waits until the terminal takes bytes again. It is false when the
// writer is to end first.
func (o *Output) await() bool {
	o.markStuck()
	for !o.sealed.Load() {
		select {
		case <-o.stop:
			return false
		default:
		}
		if pollFor(o.fd, unix.POLLOUT, drainCheck) {
			return true
		}
	}
	return true
}

func (o *Output) markStuck() {
	o.stuck.CompareAndSwap(0, int64(time.Since(o.epoch))+1)
}

// Stuck is for how long the terminal has taken nothing although there was
// something to write; 0 when it drains. It may be called from anywhere.
func (o *Output) Stuck() time.Duration {
	since := o.stuck.Load()
	if since == 0 {
		return 0
	}
	return max(1, time.Since(o.epoch)-time.Duration(since-1))
}

// Dropped is how many frames were dropped because the terminal did not drain.
func (o *Output) Dropped() uint64 { return o.dropped.Load() }

// Written is how many bytes the terminal has taken.
func (o *Output) Written() uint64 { return o.written.Load() }

// Flush waits until everything queued is out, at most d. It reports whether it
// is.
func (o *Output) Flush(d time.Duration) bool {
	o.mu.Lock()
	if len(o.queue) == 0 && !o.busy || o.closed || o.gone.Load() {
		o.mu.Unlock()
		return true
	}
	w := make(chan struct{})
	o.waiters = append(o.waiters, w)
	o.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w:
		return true
	case <-o.done:
	case <-timer.C:
	}
	return false
}

// seal stops all output but the bytes that undo it, which it writes without
// ever blocking for more than limit. Frames that are queued or come later are
// thrown away until unseal. It reports whether the terminal owes answers, and has
// asked it the last question then, behind those bytes.
func (o *Output) seal(limit time.Duration) (owed bool) {
	o.sealed.Store(true)
	if o.fd < 0 {
		o.sealBlocking(limit)
		return false
	}
	o.writing.Lock()
	defer o.writing.Unlock()
	undo := o.modes.undo()
	switch {
	case o.Stuck() > 0:
		// Throw away what it has not shown: whoever writes next, in all
		// innocence, must find room too.
		_ = discard(o.fd, discardOutput)
		o.asked.forget() // what it may not have read it will not answer
	case o.asked.waiting(time.Now()):
		owed = true
		o.asked.ask(askAttribute, time.Now())
		undo = append(undo, fence...)
	}
	writeWithin(o.fd, undo, limit)
	return owed
}

// writeWithin writes all of p to a non-blocking terminal, for as long as the
// limit allows.
func writeWithin(fd int, p []byte, limit time.Duration) {
	until := time.Now().Add(limit)
	flushed := false
	for rest := p; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if n > 0 {
			rest = rest[n:]
			continue
		}
		switch {
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN), time.Now().After(until):
			return
		case !flushed: // throw away what it has not shown, to make room
			flushed = true
			_ = discard(fd, discardOutput)
		default:
			pollFor(fd, unix.POLLOUT, time.Until(until))
		}
	}
}

// sealBlocking does the same where only a blocking descriptor is left.
func (o *Output) sealBlocking(limit time.Duration) {
	out := make(chan struct{})
	go func() {
		defer close(out)
		o.writing.Lock()
		defer o.writing.Unlock()
		_, _ = o.file.Write(o.modes.undo())
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-out:
	case <-timer.C:
	}
}

// unseal lets frames through again.
func (o *Output) unseal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue, o.queued, o.kept, o.lost = nil, 0, nil, false
	o.sealed.Store(false)
}

// shut ends the writer's goroutine, at the latest after the terminal has
// blocked it for another drainCheck.
func (o *Output) shut() {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	o.mu.Unlock()
	close(o.stop)
	if o.fd < 0 && o.Stuck() > 0 {
		return // it may hang in a write for ever; the file is not ours to close
	}
	<-o.done
	if o.fd >= 0 {
		_ = unix.Close(o.fd)
	}
}

// Fd is the terminal's own descriptor.
func (o *Output) Fd() uintptr { return o.file.Fd() }

// Read reads from the terminal directly. It is here because a terminal file
// can be read; nothing of this package does.
func (o *Output) Read(p []byte) (int, error) { return o.file.Read(p) }

// Close does nothing: the file belongs to whoever opened it.
func (o *Output) Close() error { return nil }
