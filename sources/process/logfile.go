package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a log file's queue. A file system that hangs never holds up the
// child: what does not fit is counted and dropped.
const (
	logQueue = 1 << 20 // bytes
	logCheck = time.Second
)

// logFile appends lines to a file on a goroutine of its own. It opens the file
// anew after a rotation.
type logFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	pending []byte
	dropped int
	closed  bool
	wake    chan struct{}
	done    chan struct{}
}

// openLogFile checks path and starts the writer.
func openLogFile(path string, log *slog.Logger) (*logFile, error) {
	f, err := openAppend(path)
	if err != nil {
		return nil, err
	}
	l := &logFile{path: path, log: log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run(f)
	return l, nil
}

// openAppend opens a regular file of our own, and nothing else: a planted link
// or pipe is refused.
func openAppend(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("log_file: %s is a symbolic link; name the file itself", path)
	}
	if err != nil {
		return nil, fmt.Errorf("log_file: %s cannot be opened: %w", path, bare(err))
	}
	info, err := f.Stat()
	if err == nil {
		err = checkOwn(path, info)
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func checkOwn(path string, info os.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("log_file: %s is no regular file; name one that is, or a new one", path)
	case ok && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("log_file: %s belongs to user %d and not to us; remove it or name another", path, st.Uid)
	}
	return nil
}

// write queues a line. It never blocks.
func (l *logFile) write(line string) {
	l.mu.Lock()
	if len(l.pending)+len(line) > logQueue || l.closed {
		l.dropped++
	} else {
		if l.dropped > 0 {
			l.pending = fmt.Appendf(l.pending, "[sessionwatch: %d lines were dropped here, the file could not take them]\n", l.dropped)
			l.dropped = 0
		}
		l.pending = append(append(l.pending, line...), '\n')
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close writes what is queued, for a second at most.
func (l *logFile) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case <-l.done:
	case <-time.After(time.Second):
	}
}

func (l *logFile) run(f *os.File) {
	defer close(l.done)
	var checked time.Time
	failed := false
	for range l.wake {
		l.mu.Lock()
		batch, closed := l.pending, l.closed
		l.pending = nil
		l.mu.Unlock()
		if now := time.Now(); now.Sub(checked) >= logCheck || closed {
			f, checked = l.current(f), now
		}
		if len(batch) > 0 && f != nil {
			_, err := f.Write(batch)
			if err != nil && !failed {
				l.log.Error("a session's log file cannot be written", "path", filepath.Clean(l.path), "error", bare(err))
			}
			failed = err != nil
		}
		if closed {
			break
		}
	}
	if f != nil {
		_ = f.Close()
	}
}

// current gives the file that stands at the path now: f, unless it was rotated.
func (l *logFile) current(f *os.File) *os.File {
	if f != nil {
		ours, err := f.Stat()
		there, statErr := os.Lstat(l.path)
		if err == nil && statErr == nil && os.SameFile(ours, there) {
			return f
		}
		_ = f.Close()
	}
	f, err := openAppend(l.path)
	if err != nil {
		l.log.Error("a session's log file cannot be opened again", "error", err)
		return nil
	}
	return f
}
