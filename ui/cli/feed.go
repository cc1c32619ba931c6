package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// engineFeed is a screen's feed of an observer that runs.
type engineFeed struct {
	watching *started
	about    ui.About
	children ui.Children // nil: nothing is supervised here
	behind   []func()    // ends what the observer watches: a demo, a bus, a log
	once     sync.Once
}

// Ask replaces the wanted window.
func (f *engineFeed) Ask(a watchdog.Ask) { f.watching.engine.Ask(a) }

// Windows gives the newest answer.
func (f *engineFeed) Windows() <-chan watchdog.Window { return f.watching.engine.Windows() }

// Retry asks every source again now.
func (f *engineFeed) Retry() { f.watching.retry() }

// About says what is watched.
func (f *engineFeed) About() ui.About {
	about := f.watching.taping.offer(f.about)
	s := shift{look: f.watching.look}
	if f.watching.acting != nil && !about.Demo {
		s.audit = auditIn(f.watching.acting.settings.DataDir)
	}
	about.Shift = s
	return about
}

// Children reads what is supervised here, and the dumps of sessions elsewhere that
// were asked for from here.
func (f *engineFeed) Children() ui.Children {
	settings := f.watching.settings
	switch {
	case f.children != nil:
		return f.children
	case settings.DataDir == "":
		return nil
	}
	read := localChildren{dumps: process.NewDumpStore(settings.DataDir), heard: f.about.Output}
	if f.watching.acting != nil {
		read.gather = f.watching.acting.gather
	}
	return read
}

// Do asks for an action.
func (f *engineFeed) Do(ctx context.Context, c watchdog.Command) (watchdog.Action, error) {
	if f.about.ReadOnly || f.watching.acting == nil {
		return watchdog.Action{}, watchdog.ErrReadOnly
	}
	return f.watching.acting.do(ctx, c)
}

// Note writes what an operator says of an alert where colleagues see it.
func (f *engineFeed) Note(ctx context.Context, n watchdog.AlertNote) error {
	if f.about.ReadOnly || f.watching.alerting == nil {
		return watchdog.ErrReadOnly
	}
	return f.watching.alerting.put(ctx, n)
}

// Release lets what is held be settled, if somebody settles here.
func (f *engineFeed) Release(ctx context.Context, reason string) (int, error) {
	if f.about.ReadOnly {
		return 0, errors.New("this view is read-only; leave --read-only (read_only in the configuration) out to allow it")
	}
	w, err := f.watching.look(ctx, watchdog.Ask{})
	if err != nil {
		return 0, err
	}
	if !w.Ledger.Sweeping {
		return 0, errors.New("nobody here settles, so nothing that is held here would be; release it where a serve runs: sessionwatch release --reason TEXT")
	}
	held := heldIn(w.Groups)
	f.watching.engine.Post(watchdog.BrakeReleased{By: operatorName(), Reason: reason, At: w.Now.Mono})
	f.watching.log.Warn("the brake was released", "by", operatorName(), "reason", reason, "held", held)
	return held, nil
}

// heldIn counts sessions that are held from being settled.
func heldIn(groups []watchdog.Group) int {
	n := 0
	for i := range groups {
		if groups[i].HeldFor != 0 {
			n += groups[i].N
		}
	}
	return n
}

// Close ends the observer, then what it watched.
func (f *engineFeed) Close() {
	f.once.Do(func() {
		_ = f.watching.stop() // a fault was told when it happened
		for _, end := range f.behind {
			end()
		}
	})
}
