package terminal

import (
	"errors"
	"os"
	"os/signal"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// Orphaned is the reason for which suspending is refused.
const Orphaned = "no shell is waiting to continue it (its process group is orphaned)"

// endWindow is how long a stopped program that was continued in the background
// listens for a signal to end before it stops again: shells send both.
const endWindow = 50 * time.Millisecond

// suspend gives the terminal back, stops the process, and takes the terminal
// again when it is continued in the foreground. With group the rest of the
// process group is stopped too, as the terminal would have done for ctrl+z.
func (w *watcher) suspend(group bool) {
	if w.ending.get() != nil || w.t.lent.Load() {
		return
	}
	if orphaned() {
		w.tell(SuspendRefused{Reason: Orphaned})
		return
	}
	if !w.t.foreground() {
		w.comeBack()
		return
	}
	since := time.Now()
	if w.release() != nil {
		return
	}
	if group {
		// Ours must not come back to us as a second suspension.
		signal.Ignore(unix.SIGTSTP)
		_ = unix.Kill(0, unix.SIGTSTP)
		defer signal.Notify(w.signals, unix.SIGTSTP)
	}
	if w.stop() {
		w.regain(since)
	}
}

// comeBack sets the terminal right after a stop that we did not see coming.
func (w *watcher) comeBack() {
	since := time.Now()
	if !w.t.foreground() {
		w.t.out.sealed.Store(true) // the screen is someone else's
		if !w.stop() {
			return
		}
	}
	if w.release() == nil {
		w.regain(since)
	}
}

// release stops drawing and gives the terminal back.
func (w *watcher) release() error {
	if err := w.p.ReleaseTerminal(); err != nil {
		return err
	}
	w.t.out.Flush(flushLimit)
	w.t.Restore()
	return nil
}

// stop stops the process until it is continued in the foreground. It is false
// when it was continued in order to end.
func (w *watcher) stop() bool {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	for {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
		<-resumed
		if !w.drainSignals(w.t.foreground()) {
			return false
		}
		if w.t.foreground() {
			return true
		}
	}
}

// drainSignals takes what came while the process stood still. It is false when
// one of that asks for the end.
func (w *watcher) drainSignals(foreground bool) bool {
	window := time.NewTimer(endWindow)
	defer window.Stop()
	for {
		select {
		case s := <-w.signals:
			switch s {
			case unix.SIGTERM, unix.SIGHUP, unix.SIGINT:
				w.end(s)
				return false
			}
			if foreground && s == unix.SIGCONT {
				return true
			}
		case <-window.C:
			return true
		}
	}
}

// regain takes the terminal again and paints everything.
func (w *watcher) regain(since time.Time) {
	if errors.Join(w.t.take(), w.p.RestoreTerminal()) != nil {
		w.end(unix.SIGHUP) // there is no terminal any more
		return
	}
	w.tellSize()
	w.send(tea.ResumeMsg{})
	w.tell(Resumed{After: time.Since(since)})
}

// orphaned reports whether nobody could continue this process group once it is
// stopped: no ancestor outside of it is in our session.
func orphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	group, pid := unix.Getpgrp(), unix.Getppid()
	for range 64 {
		if s, err := unix.Getsid(pid); err != nil || s != session || pid == 0 {
			return true
		}
		if g, err := unix.Getpgid(pid); err != nil || g != group {
			return err != nil
		}
		if pid = parent(pid); pid == 0 {
			return true
		}
	}
	return true
}
