package terminal

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// watcher is the goroutine that sees to signals and to the terminal's health
// while a program runs. It never waits for the program's loop.
type watcher struct {
	t         *Terminal
	p         *tea.Program
	translate func(Notice) tea.Msg

	signals chan os.Signal
	ending  lastSignal
	done    chan struct{} // the program has ended
	ended   chan struct{} // so has the watcher
	once    sync.Once
	force   *time.Timer
	stuck   bool
}

func (w *watcher) start(ctx context.Context) {
	w.signals = make(chan os.Signal, 8)
	signal.Notify(w.signals, unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH)
	if !signal.Ignored(unix.SIGHUP) { // as under nohup
		signal.Notify(w.signals, unix.SIGHUP)
	}
	w.t.Go(func() { w.loop(ctx.Done()) })
}

// finish ends the watcher after the program. A terminal that is gone is told of
// more than once, by the kernel and by whoever led its session: the next SIGHUP
// must not kill us before our caller has put everything away.
func (w *watcher) finish() {
	w.once.Do(func() { close(w.done) })
	<-w.ended
	if w.ending.get() == unix.SIGHUP {
		signal.Ignore(unix.SIGHUP)
	}
	signal.Stop(w.signals)
	if w.force != nil {
		w.force.Stop()
	}
}

func (w *watcher) signal() os.Signal { return w.ending.get() }

func (w *watcher) loop(cancelled <-chan struct{}) {
	defer close(w.ended)
	health := time.NewTicker(time.Second)
	defer health.Stop()
	hungUp := w.t.hungUp
	for {
		select {
		case <-w.done:
			return
		case <-cancelled:
			cancelled = nil
			go w.p.Quit()
		case s := <-w.signals:
			w.handle(s)
		case <-hungUp:
			hungUp = nil
			w.end(unix.SIGHUP)
		case <-w.t.restart:
			w.suspend(true)
		case <-w.t.drained:
			w.send(tea.ClearScreen())
		case <-w.t.resized:
			w.tellSize()
		case g := <-w.t.answers:
			w.tell(g)
		case <-health.C:
			w.checkHealth()
		}
	}
}

func (w *watcher) handle(s os.Signal) {
	lent := w.t.lent.Load()
	switch s {
	case unix.SIGTERM, unix.SIGHUP:
		w.end(s)
	case unix.SIGINT:
		if !lent { // ctrl+c in an editor is the editor's
			w.end(s)
		}
	case unix.SIGQUIT:
		if !lent { // the runtime then prints all stacks, as for any Go program
			w.t.Restore()
			signal.Reset(unix.SIGQUIT)
			_ = unix.Kill(unix.Getpid(), unix.SIGQUIT)
		}
	case unix.SIGTSTP:
		if lent { // the child has restored the terminal
			_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
			return
		}
		w.suspend(false)
	case unix.SIGWINCH:
		if !lent { // it will be asked for when the terminal is back
			w.tellSize()
		}
	case unix.SIGCONT:
		if !lent && w.ending.get() == nil { // after a SIGSTOP, which nobody sees coming
			w.comeBack()
		}
	}
}

// end asks the program to quit, and sees to it that the process ends even if
// its loop is wedged.
func (w *watcher) end(s os.Signal) {
	if !w.ending.set(s) {
		return
	}
	number, _ := s.(unix.Signal)
	w.force = time.AfterFunc(endGrace, func() {
		w.t.Restore()
		w.t.exit(exitSignal + int(number))
	})
	go w.p.Quit()
}

// tellSize tells the screen how large it is, and has it painted anew: the
// terminal may have moved what it shows.
func (w *watcher) tellSize() {
	width, height := w.t.size()
	w.send(tea.WindowSizeMsg{Width: width, Height: height})
}

// send hands a message to the program without waiting for it.
func (w *watcher) send(msg tea.Msg) {
	if msg != nil {
		go w.p.Send(msg)
	}
}

func (w *watcher) tell(n Notice) {
	if w.translate != nil {
		w.send(w.translate(n))
	}
}

// checkHealth tells once a second that the terminal takes nothing, and once
// that it does again.
func (w *watcher) checkHealth() {
	stuck := w.t.out.Stuck()
	switch {
	case stuck >= time.Second:
		w.stuck = true
		w.tell(Stalled{For: stuck})
	case stuck == 0 && w.stuck:
		w.stuck = false
		w.tell(Drained{Dropped: w.t.out.Dropped()})
	}
}
