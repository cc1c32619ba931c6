package ui

import (
	"context"
	"errors"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// asker hands over the newest ask, one at a time and off the screen's
// goroutine: a feed that blocks costs the screen nothing.
type asker struct {
	seq     uint64 // of the newest ask
	pending *watchdog.Ask
	busy    bool
}

// errands are calls that may block, run one after another.
type errands struct {
	queue []func() any
	busy  bool
}

// errandLimit is how many calls may wait for one that hangs.
const errandLimit = 8

// runErrand queues a call; its result comes back as a message.
func (m *Model) runErrand(f func() any) tea.Cmd {
	if len(m.errands.queue) >= errandLimit {
		return m.refuse("the source does not answer; the key was dropped")
	}
	m.errands.queue = append(m.errands.queue, f)
	return m.nextErrand()
}

func (m *Model) nextErrand() tea.Cmd {
	if m.errands.busy || len(m.errands.queue) == 0 {
		return nil
	}
	f := m.errands.queue[0]
	m.errands.queue = m.errands.queue[1:]
	m.errands.busy = true
	gen := m.gen
	return func() tea.Msg { return errandFinished{gen: gen, result: f()} }
}

// attach makes a feed the one that is shown; the one before is closed.
func (m *Model) attach(f Feed, about About) tea.Cmd {
	var cmds []tea.Cmd
	if m.feed != nil {
		cmds = append(cmds, m.detach())
	}
	m.lastGen++
	m.gen = m.lastGen
	m.feed, m.about, m.gone = f, about, make(chan struct{})
	m.window, m.have, m.ended = watchdog.Window{}, false, false
	m.replay, m.tape, m.children = replayState{}, tapeState{}, nil
	m.endTrial()
	m.trial = trialSeen{version: m.trial.version + 1}
	m.handover = handoverSeen{version: m.handover.version + 1}
	m.asking = asker{seq: m.asking.seq}
	m.errands = errands{}
	m.marks, m.picked, m.orders, m.commands = marks{}, nil, orders{}, commandsSeen{}
	m.exporting = exporting{}
	m.table.reset()
	m.query.reset()
	m.layers = m.layers[:0]
	cmds = append(cmds, m.waitWindow(), m.ask(), m.watchEngine())
	return tea.Batch(cmds...)
}

// detach lets the present feed go; closing it happens off the screen.
func (m *Model) detach() tea.Cmd {
	old, stop := m.feed, m.stop
	close(m.gone)
	m.feed, m.stop = nil, nil
	return func() tea.Msg {
		old.Close()
		if stop != nil {
			stop()
		}
		return nil
	}
}

// waitWindow reads the next window. It is what drives the screen.
func (m *Model) waitWindow() tea.Cmd {
	feed, gen, gone := m.feed, m.gen, m.gone
	return func() tea.Msg {
		select {
		case <-gone:
			return nil
		case w, ok := <-feed.Windows():
			about := feed.About()
			return windowArrived{gen: gen, window: w, about: about, replay: stateOf(about.Replay), tape: tapeOf(about.Recorder), children: feed.Children(), closed: !ok}
		}
	}
}

// ask wants the window that the screen shows now.
func (m *Model) ask() tea.Cmd {
	if m.feed == nil {
		return nil
	}
	m.asking.seq++
	a := m.table.ask(m.asking.seq, m.bodyRows())
	m.query.fill(&a)
	m.fillEvents(&a)
	m.fillAlerts(&a)
	m.fillPicked(&a)
	m.fillLogs(&a)
	m.fillRaw(&a)
	m.fillExport(&a)
	m.asking.pending = &a
	return m.deliverAsk()
}

func (m *Model) deliverAsk() tea.Cmd {
	if m.asking.busy || m.asking.pending == nil || m.feed == nil {
		return nil
	}
	a, feed, gen := *m.asking.pending, m.feed, m.gen
	m.asking.pending, m.asking.busy = nil, true
	return func() tea.Msg {
		feed.Ask(a)
		return askDelivered{gen: gen}
	}
}

// openTarget opens a feed off the screen's goroutine. One that is still being
// opened is given up: its answer is dropped.
func (m *Model) openTarget(t Target) tea.Cmd {
	if m.opening.cancel != nil {
		m.opening.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.lastGen++
	gen := m.lastGen
	m.opening = opening{gen: gen, target: t, cancel: cancel}
	m.first.err = ""
	host := m.opt.Host
	return func() tea.Msg {
		feed, err := host.Open(ctx, t)
		if err == nil && feed == nil {
			err = errors.New("nothing was opened")
		}
		if err != nil {
			return feedOpened{gen: gen, err: err}
		}
		return feedOpened{gen: gen, feed: feed, about: feed.About()}
	}
}

// opened takes the answer of an opening, unless a newer one was begun.
func (m *Model) opened(msg feedOpened) tea.Cmd {
	if msg.gen != m.opening.gen {
		if msg.feed == nil {
			return nil
		}
		return func() tea.Msg { msg.feed.Close(); return nil }
	}
	target, cancel := m.opening.target, m.opening.cancel
	m.opening = opening{}
	if msg.err != nil {
		cancel()
		m.first.err = fmt.Sprintf("%s: %v", target.what(), msg.err)
		return m.refuse(m.first.err)
	}
	cmd := m.attach(msg.feed, msg.about)
	m.stop = cancel // the context may be that of everything behind the feed
	return cmd
}

// what names a target in a sentence.
func (t Target) what() string {
	switch {
	case t.Kind == TargetDemo:
		return "the demo"
	case t.Kind == TargetBus:
		return "the bus"
	case t.Kind == TargetRun:
		return "the command " + strings.Join(t.Command, " ")
	case t.Kind == TargetRecording && t.File == "":
		return "the bundled night"
	case t.Kind == TargetRecording:
		return "the recording " + t.File
	case t.Context != "":
		return "context " + t.Context
	case t.NATS != "" && t.NATS != "-" && t.Redis != "" && t.Redis != "-":
		return t.NATS + " and " + t.Redis
	case t.NATS != "" && t.NATS != "-":
		return t.NATS
	case t.Redis != "" && t.Redis != "-":
		return t.Redis
	}
	return "the configured servers"
}

func needsHost(m *Model) string {
	if m.opt.Host == nil {
		return "this screen can open nothing else"
	}
	return ""
}

func needsFeed(m *Model) string {
	if off := needsSessions(m); off != "" {
		return off
	}
	if m.feed == nil {
		return "nothing is watched yet"
	}
	return ""
}

// retry asks every source again.
func (m *Model) retry() tea.Cmd {
	feed := m.feed
	m.say("asking all sources again")
	return m.runErrand(func() any { feed.Retry(); return nil })
}
