package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/alarm"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// heldMost is how many alerts wait until it is known what was answered.
	heldMost = 1000
	// overMost is how many notes wait to be cleared.
	overMost = 1000
)

// ringer is what a screen can do to be noticed.
type ringer struct {
	bell    func()
	desktop func(title, text string)
}

// alertingOptions say what stands behind the alerts of a process.
type alertingOptions struct {
	demo   bool   // notes are kept in memory, and nobody is alarmed
	ringer ringer // of a screen; without one nothing rings
	// clears says that this process takes notes off the board whose alert is over,
	// whoever wrote them.
	clears bool
	writer string // who we are, as in records

	clock watchdog.Clock
	log   *slog.Logger
	spawn func(func())
}

// alerting is what stands behind the alerts of an engine: the boards on which they
// are answered, and the ways in which people hear of them.
type alerting struct {
	o        alertingOptions
	boards   *noteBoards
	alarm    *alarm.Alarm
	engine   *watchdog.Engine
	over     chan watchdog.AlertNote // to be cleared
	raised   *raisedRing
	readOnly bool

	mu      sync.Mutex
	settled bool             // it is known what was answered
	held    []watchdog.Raise // until then
	failing map[string]string
	outages uint64
}

// newAlerting opens the boards and checks the ways; it waits for no server.
func newAlerting(settings *config.Config, o alertingOptions) (*alerting, error) {
	boards, err := newNoteBoards(settings, o.demo, o.clock, o.log)
	if err != nil {
		return nil, err
	}
	a := &alerting{o: o, boards: boards, over: make(chan watchdog.AlertNote, overMost), raised: newRaisedRing(), readOnly: settings.ReadOnly, failing: map[string]string{}}
	if a.alarm, err = alarm.New(a.ways(settings)); err != nil {
		boards.shut()
		return nil, err
	}
	return a, nil
}

// ways are how people hear of alerts. A demo wakes nobody.
func (a *alerting) ways(settings *config.Config) alarm.Options {
	w := alarm.Options{Timeout: settings.Alerts.Timeout, Cluster: nameOf(settings), Writer: a.o.writer, Logger: a.o.log, Failed: a.failed}
	if a.o.demo {
		return w
	}
	w.Webhook, w.Command = settings.Alerts.Webhook, settings.Alerts.Command
	if settings.Alerts.Bell {
		w.Bell = a.o.ringer.bell
	}
	if settings.Alerts.Desktop {
		w.Desktop = a.o.ringer.desktop
	}
	return w
}

// watch tells which engine is behind it; before it runs.
func (a *alerting) watch(engine *watchdog.Engine) { a.engine = engine }

// effects carries out what the engine decides. It never blocks.
func (a *alerting) effects(effects []watchdog.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case watchdog.Raise:
			a.raise(e)
		case watchdog.NoteOver:
			select {
			case a.over <- e.Note:
			default: // it lapses by itself
			}
		}
	}
}

// raise tells of an alert, once it is known what colleagues have answered.
func (a *alerting) raise(r watchdog.Raise) {
	a.mu.Lock()
	settled := a.settled
	if !settled && len(a.held) < heldMost {
		a.held = append(a.held, r)
	}
	a.mu.Unlock()
	if settled {
		a.tell(r)
	}
}

func (a *alerting) tell(r watchdog.Raise) {
	a.raised.add(r)
	a.alarm.Raise(r)
}

// noted tells the engine what stands on the boards.
func (a *alerting) noted(notes []watchdog.AlertNote, whole bool) {
	if !whole {
		return
	}
	a.engine.Post(watchdog.Noted{Notes: notes, At: a.o.clock.Now().Mono})
	a.mu.Lock()
	held := a.held
	a.held, a.settled = nil, true
	a.mu.Unlock()
	now := time.Unix(0, a.o.clock.Now().Wall)
	for _, r := range held {
		if !answered(&r.Alert, notes, now) {
			a.tell(r)
		}
	}
}

// answered reports whether an alert was answered before it was raised here.
func answered(al *watchdog.Alert, notes []watchdog.AlertNote, now time.Time) bool {
	return slices.ContainsFunc(notes, func(n watchdog.AlertNote) bool {
		switch {
		case n.Lapsed(now):
			return false
		case n.Key == al.Key:
			return n.Kind != watchdog.NoteAck || n.Evidence >= al.Evidence
		}
		return al.ID != "" && n.Matches(al.ID)
	})
}

// put writes what an operator says of an alert.
func (a *alerting) put(ctx context.Context, n watchdog.AlertNote) error {
	if a.readOnly {
		return watchdog.ErrReadOnly
	}
	n.Author = cmp.Or(n.Author, operatorName())
	if n.At.IsZero() {
		n.At = time.Unix(0, a.o.clock.Now().Wall)
	}
	return a.boards.Put(ctx, n)
}

// run watches the boards and tells of alerts, until ctx ends.
func (a *alerting) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range []func(){
		func() { a.alarm.Run(ctx) },
		func() { a.boards.run(ctx, a.o.spawn, a.noted) },
		func() { a.clear(ctx) },
	} {
		running.Add(1)
		a.o.spawn(func() {
			defer running.Done()
			f()
		})
	}
	running.Wait()
}

// clear takes off the board what answers nothing any more.
func (a *alerting) clear(ctx context.Context) {
	for {
		var n watchdog.AlertNote
		select {
		case <-ctx.Done():
			return
		case n = <-a.over:
		}
		if a.readOnly || !a.o.clears && n.Author != operatorName() {
			continue
		}
		if stands, ok := a.boards.stands(n.Key); !ok || stands != n.OnBoard() {
			continue // somebody was faster, or has written since
		}
		gone := watchdog.AlertNote{Key: n.Key, Kind: watchdog.NoteClear, Author: n.Author, Text: "over", At: n.At.Add(time.Millisecond), Evidence: n.Evidence}
		var here *watchdog.KeptHere
		if err := a.boards.Put(ctx, gone); err != nil && !errors.As(err, &here) && ctx.Err() == nil {
			a.o.log.Info("a note whose alert is over was not cleared", "alert", n.Key, "error", err)
		}
	}
}

// failed raises an alert while people cannot be told of alerts.
func (a *alerting) failed(outlet, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if text == "" {
		delete(a.failing, outlet)
	} else {
		a.failing[outlet] = text
		a.outages++
	}
	t := watchdog.Trouble{Cause: watchdog.CauseAction, Evidence: a.outages, Over: len(a.failing) == 0, At: a.o.clock.Now().Mono}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(a.failing)) {
		all = append(all, "alerts are not told by "+name+": "+a.failing[name]+".")
	}
	t.Text = "ALARM NOT EFFECTIVE: " + strings.Join(all, " ")
	if t.Over {
		t.Text = "Alerts are told again."
	}
	a.engine.Post(t)
}
