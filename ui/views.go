package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"
)

// viewID names a view. Sessions is always at the bottom; others lie on it.
type viewID uint8

const (
	viewSessions viewID = iota
	viewAlerts
	viewEvents
	viewCommands
	viewLogs
	viewDumps
	viewDump
	viewTrial
	viewHandover
	viewWhy
	viewRaw
	viewSources
	viewHelp
	viewMenu
	viewQuestion
	viewCount
)

// view is one way of filling the room between header and footer.
type view struct {
	id   viewID
	key  string // opens it from everywhere; empty: only actions open it
	name string
	help string
	foot string // word in the footer; empty: not there
	in   scene
	off  func(*Model) string  // why it cannot be opened; nil: it can
	open func(*Model) tea.Cmd // nil: it is only put on top
	draw func(*Model, *painter)
	// lines are what a view of lines shows.
	lines func(*Model) lines
}

// allViews is the registry.
func allViews() []view {
	return []view{
		{id: viewSessions, key: "1", name: "sessions", help: "the table of sessions", in: inSessions, off: needsSessions, draw: (*Model).drawSessions},
		{id: viewAlerts, key: "2", name: "alerts", help: "what needs somebody, and what was answered", foot: "alerts", in: inAlerts, off: needsFeed, open: (*Model).openAlerts, draw: (*Model).drawAlerts, lines: (*Model).alertLines},
		{id: viewEvents, key: "3", name: "events", help: "what happened in the fleet", in: inEvents, off: needsFeed, open: (*Model).openAllEvents, draw: (*Model).drawEvents, lines: (*Model).eventLines},
		{id: viewCommands, key: "4", name: "commands", help: "actions and their fate", in: inCommands, off: needsFeed, open: (*Model).openCommands, draw: (*Model).drawCommands, lines: (*Model).commandLines},
		{id: viewLogs, key: "5", name: "logs", help: "output of the session, if somebody supervises it", in: inLogs, off: needsOutput, open: (*Model).openLogs, draw: (*Model).drawLogs, lines: (*Model).logLines},
		{id: viewDumps, key: "6", name: "dumps", help: "stack dumps", in: inDumps, off: needsChildren, open: (*Model).openDumps, draw: (*Model).drawDumps, lines: (*Model).dumpsLines},
		{id: viewDump, name: "dump", help: "one stack dump", in: inDump, draw: (*Model).drawDump, lines: (*Model).dumpLines},
		{id: viewTrial, name: "trial", help: "what other thresholds would have raised", in: inTrial, draw: (*Model).drawTrial, lines: (*Model).trialPagerLines},
		{id: viewHandover, name: "handover", help: "what one who leaves tells the one who comes", in: inHandover, draw: (*Model).drawHandover, lines: (*Model).handoverPagerLines},
		{id: viewWhy, name: "why", help: "why a verdict was given", in: inWhy, draw: (*Model).drawWhy},
		{id: viewRaw, name: "raw", help: "messages as they came", in: inRaw, draw: (*Model).drawRaw, lines: (*Model).rawLines},
		{id: viewSources, name: "sources", help: "how well each source is seen", in: inSources, draw: (*Model).drawSourcesView},
		{id: viewHelp, name: "help", help: "keys and words", in: inHelp, draw: (*Model).drawHelp},
		{id: viewMenu, name: "menu", help: "a list to choose from", in: inMenu, draw: (*Model).drawMenu},
		{id: viewQuestion, name: "question", help: "asks before what cannot be undone", in: inQuestion, draw: (*Model).drawQuestion},
	}
}

// top is the view that is seen.
func (m *Model) top() viewID {
	if n := len(m.layers); n > 0 {
		return m.layers[n-1]
	}
	return viewSessions
}

// openView puts a view on top; opening the one that is there changes nothing,
// and opening sessions takes all others away.
func (m *Model) openView(id viewID) tea.Cmd {
	switch {
	case id == viewSessions:
		m.layers = m.layers[:0]
		return m.ask()
	case id != m.top():
		m.layers = append(slices.DeleteFunc(m.layers, func(below viewID) bool { return below == id }), id)
		m.text = scroller{}
	}
	return nil
}

// showView is what a view's key does.
func (m *Model) showView(id viewID) tea.Cmd {
	if open := m.views[id].open; open != nil {
		return open(m)
	}
	return m.openView(id)
}

// closeView takes the top view away and reports whether there was one.
func (m *Model) closeView() bool {
	if len(m.layers) == 0 || m.onlyDumps() && len(m.layers) == 1 {
		return false
	}
	closed := m.top()
	m.layers = m.layers[:len(m.layers)-1]
	m.text = scroller{}
	if closed == viewTrial {
		m.endTrial()
	}
	if closed == viewEvents {
		m.events = eventsSeen{version: m.events.version, seq: m.asking.seq + 1, late: lateSeen{shown: m.events.late.shown}} // the next ask is for the latest of all
	}
	return true
}

// oneView is the reason why views cannot be turned through: it holds as long
// as only one of those with a key can be opened.
func oneView(m *Model) string {
	if off := needsSessions(m); off != "" {
		return off
	}
	open := 0
	for i := range m.views {
		if v := &m.views[i]; v.key != "" && (v.off == nil || v.off(m) == "") {
			open++
		}
	}
	if open > 1 {
		return ""
	}
	return "there is only one view now: sessions"
}

// turnView goes to the next view with a key that can be opened.
func (m *Model) turnView(n int) tea.Cmd {
	var open []viewID
	at := 0
	for i := range m.views {
		v := &m.views[i]
		if v.key == "" || v.off != nil && v.off(m) != "" {
			continue
		}
		if v.id == m.top() {
			at = len(open)
		}
		open = append(open, v.id)
	}
	m.layers = m.layers[:0]
	return m.showView(open[((at+n)%len(open)+len(open))%len(open)])
}

// scene says where a key is pressed now.
func (m *Model) scene() scene {
	switch {
	case m.palette != nil:
		return inPalette
	case m.prompt != nil:
		return inPrompt
	}
	if in := m.views[m.top()].in; in != inSessions {
		return in
	}
	switch {
	case m.firstRunShown():
		return inFirstRun
	case m.about.Replay != nil:
		return inReplay
	}
	return inSessions
}
