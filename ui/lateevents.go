package ui

import (
	"cmp"
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Late lists what came after the involuntary end of a session, the newest
// first; of all sessions if id is empty. It may take long.
type Late interface {
	Late(ctx context.Context, id watchdog.ID, most int) ([]watchdog.Late, error)
}

// How the quarantine is read while it is looked at.
const (
	latePause = 2 * time.Second
	lateLimit = 10 * time.Second // of one reading
	lateMost  = 1000
)

// eventLate is the Kind of a quarantined beat or output among the events.
const eventLate = "late"

// lateSeen is the quarantine as far as it is shown among the events.
type lateSeen struct {
	shown   bool
	list    []watchdog.Transition
	trouble string
	opened  uint64
}

// lateListed is a reading of the quarantine.
type lateListed struct {
	gen, opened uint64
	list        []watchdog.Transition
	err         error
}

func needsLate(m *Model) string {
	switch {
	case m.about.Replay != nil:
		return "late beats: a recording keeps none"
	case m.about.Late == nil:
		return "late beats: nobody keeps them here; a serve does, and a screen that supervises"
	}
	return ""
}

// toggleLate shows and hides among the events what came after an end.
func (m *Model) toggleLate() tea.Cmd {
	m.lastOpened++
	l := &m.events.late
	*l = lateSeen{shown: !l.shown, opened: m.lastOpened}
	m.events.merge()
	if !l.shown {
		return m.say("late beats and output are hidden")
	}
	m.say("quarantined beats and output are shown")
	return m.readLate(0)
}

// readLate reads the quarantine after a pause, off the screen's goroutine.
func (m *Model) readLate(pause time.Duration) tea.Cmd {
	late, gone, gen, opened, of := m.about.Late, m.gone, m.gen, m.events.late.opened, m.events.of
	if late == nil {
		return nil
	}
	read := func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), lateLimit)
		defer cancel()
		list, err := late.Late(ctx, of, lateMost)
		out := lateListed{gen: gen, opened: opened, err: err}
		for i := range list {
			out.list = append(out.list, lateEvent(&list[i]))
		}
		return out
	}
	return readAgain(pause, gone, read)
}

// lateEvent is an entry of the quarantine as an event.
func lateEvent(l *watchdog.Late) watchdog.Transition {
	text := "QUARANTINED, late by " + age(l.LateBy) + ", " + l.Source.Title()
	if l.MaybeNew {
		text += ", could be a new run"
	}
	return watchdog.Transition{ID: l.ID, Generation: l.Generation, Kind: eventLate, At: watchdog.Instant{Wall: l.At.UnixNano()},
		Text: text + ": " + termtext.Escape(string(l.Raw))}
}

func (m *Model) lateCame(msg *lateListed) tea.Cmd {
	l := &m.events.late
	if msg.gen != m.gen || msg.opened != l.opened || !l.shown || !slices.Contains(m.layers, viewEvents) {
		return nil
	}
	l.trouble = ""
	if msg.err != nil {
		l.trouble = msg.err.Error()
	} else if !slices.Equal(l.list, msg.list) {
		l.list = msg.list
		m.mergeEvents()
	}
	return m.readLate(latePause)
}

// merge makes the list that is shown out of the events and what came late.
func (e *eventsSeen) merge() {
	e.version++
	e.list = newestFirst(e.fleet, e.late.list)
}

// newestFirst orders events by when they began: they are told when they are noticed,
// which may be later, and a list whose times go back and forth is not believed. Those
// of one second stay as they were told: what is first heard of a session and what its
// beat says have begins of their own, the second often a moment before the first.
func newestFirst(lists ...[]watchdog.Transition) []watchdog.Transition {
	out := slices.Concat(lists...)
	slices.SortStableFunc(out, func(a, b watchdog.Transition) int {
		return cmp.Compare(b.At.Wall/int64(time.Second), a.At.Wall/int64(time.Second))
	})
	return out
}

// mergeEvents merges anew; the cursor stays on its event while newer ones come in
// above.
func (m *Model) mergeEvents() {
	e, g := &m.events, &m.pagers[viewEvents]
	var at watchdog.Transition
	held := e.have && !g.follow && g.cur < len(e.list)
	if held {
		at = e.list[g.cur]
	}
	e.merge()
	if held {
		if n := slices.Index(e.list, at); n >= 0 {
			g.shift(n - g.cur)
		}
	}
}
