package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// action is one thing that can be done. Dispatcher, help, footer and palette
// all come from the one table of them.
type action struct {
	name  string // in the palette and in ui.keys
	keys  string // default keys, separated by spaces
	in    scene
	group string // heading in help
	help  string
	foot  string              // word in the footer; empty: not there
	now   func(*Model) string // the word in its place; empty: not now; nil: foot always
	spare scene               // scenes whose footer has no room for it
	move  bool                // only looks elsewhere: passes in a burst of keys
	touch bool                // touches an agent
	fixed bool                // cannot be rebound
	// off says why it cannot work now; nil or "": it can.
	off func(*Model) string
	do  func(*Model) tea.Cmd
	// with does it with the word that was typed behind the name in the
	// palette; nil: it takes none.
	with func(*Model, string) tea.Cmd
}

// allActions is the table. The order is that of help and footer.
func allActions() []action {
	var all []action
	all = append(all, replayActions()...) // first in the footer of a recording
	all = append(all, lookActions()...)
	all = append(all, agentActions()...)
	all = append(all, viewActions()...)
	all = append(all, firstRunActions()...)
	all = append(all, moveActions()...)
	all = append(all, inputActions()...)
	return append(all, screenActions()...)
}

func lookActions() []action {
	return []action{
		{name: "next", keys: "n", in: inLists | inWhy, group: "look", foot: "next", move: true, help: "next that needs attention", do: func(m *Model) tea.Cmd { return m.nextAttention(1) }},
		{name: "previous", keys: "N", in: inLists | inWhy, group: "look", move: true, help: "previous that needs attention", do: func(m *Model) tea.Cmd { return m.nextAttention(-1) }},
		{name: "why", keys: "i", in: inLists, group: "look", foot: "why", help: "why: evidence, what comes next, if restarted", off: needsSession, do: func(m *Model) tea.Cmd { return m.openView(viewWhy) }},
		{name: "open", keys: "enter", in: inLists, group: "look", help: "drill in: everything known of the session", off: needsSession, do: func(m *Model) tea.Cmd { return m.openView(viewWhy) }},
		{name: "filter", keys: "/", in: inLists, group: "look", foot: "filter", help: "filter: words, /regex/, !not, verdict:stalled work>5m credits<2 task:~chunk host:eu2-*", do: (*Model).openFilter},
		{name: "attention", keys: "!", in: inLists, group: "look", foot: "need", help: "only what needs attention", do: func(m *Model) tea.Cmd { return m.setOnlyAttention(true) }},
		{name: "all", keys: "0", in: inLists, group: "look", help: "all again, whatever the filter", do: (*Model).showAll},
		{name: "sort", keys: "s", in: inLists, group: "look", foot: "sort", help: "sort menu", do: (*Model).openSortMenu},
		{name: "invert", keys: "I", in: inLists, group: "look", help: "invert the order", do: (*Model).invert},
		{name: "columns", keys: "C", in: inLists, group: "look", help: "columns menu", do: (*Model).openColumnsMenu},
		{name: "pane", keys: "d", in: inLists, group: "look", help: "detail pane on and off", do: (*Model).togglePane},
		{name: "freeze", keys: "Z", in: inLists, group: "look", help: "freeze the table; the header goes on", do: (*Model).toggleFreeze},
		{name: "copy", keys: "c", in: inLists | inWhy, group: "look", foot: "copy id", help: "copy the session id; it is shown as well", off: needsSession, do: (*Model).copyID},
		{name: "sources", in: inViews &^ inSources, group: "look", help: "how well each source is seen: addresses, sight, what was refused and dropped", off: needsFeed, do: func(m *Model) tea.Cmd { return m.openView(viewSources) }},
		{name: "search-help", keys: "/", in: inHelp, group: "look", foot: "search", help: "search this help", do: (*Model).openHelpSearch},
	}
}

func moveActions() []action {
	by := func(n int) func(*Model) tea.Cmd { return func(m *Model) tea.Cmd { return m.moveBy(n) } }
	pages := func(num, den int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { return m.moveBy(num * max(m.pageRows()/den, 1)) }
	}
	return []action{
		{name: "down", keys: "j down", in: inViews, group: "move", move: true, help: "down", do: by(1)},
		{name: "up", keys: "k up", in: inViews, group: "move", move: true, help: "up", do: by(-1)},
		{name: "top", keys: "g home", in: inViews, group: "move", move: true, help: "first", do: (*Model).moveTop},
		{name: "bottom", keys: "G end", in: inViews, group: "move", move: true, help: "last", do: (*Model).moveBottom},
		{name: "page-down", keys: "pgdown", in: inViews, group: "move", move: true, help: "a page down", do: pages(1, 1)},
		{name: "page-up", keys: "pgup", in: inViews, group: "move", move: true, help: "a page up", do: pages(-1, 1)},
		{name: "half-down", keys: "ctrl+d", in: inViews, group: "move", move: true, help: "half a page down", do: pages(1, 2)},
		{name: "half-up", keys: "ctrl+u", in: inViews, group: "move", move: true, help: "half a page up", do: pages(-1, 2)},
		{name: "choose", keys: "enter", in: inMenu | inFirstRun, group: "move", foot: "choose", help: "choose what the cursor is on", do: (*Model).choose},
		{name: "toggle", keys: "space", in: inMenu, group: "move", help: "choose, and stay in the menu", do: (*Model).toggleChoice},
	}
}

func viewActions() []action {
	var all []action
	for _, v := range allViews() {
		if v.key == "" {
			continue
		}
		all = append(all, action{name: v.name, keys: v.key, in: inLists | inText, group: "views", foot: v.foot, spare: inText, help: v.help, off: v.off, do: func(m *Model) tea.Cmd { return m.showView(v.id) }})
	}
	turn := func(n int) func(*Model) tea.Cmd { return func(m *Model) tea.Cmd { return m.turnView(n) } }
	return append(all,
		action{name: "next-view", keys: "]", in: inLists | inText, group: "views", help: "next view", off: oneView, do: turn(1)},
		action{name: "previous-view", keys: "[", in: inLists | inText, group: "views", help: "previous view", off: oneView, do: turn(-1)},
		action{name: "focus", keys: "tab", in: inLists, group: "views", help: "to the side pane, where the moves scroll, and back", off: needsPane, do: (*Model).toggleFocus},
		action{name: "raw", keys: "p", in: inLists | inWhy, group: "views", foot: "raw", help: "raw payload: the newest messages of the session as they came", off: needsPayload, do: (*Model).openRaw},
		action{name: "as-came", keys: "v", in: inRaw, group: "views", foot: "as it came", help: "the text as it came, or laid out", do: (*Model).toggleAsCame},
		action{name: "copy-payload", keys: "c", in: inRaw, group: "views", foot: "copy", help: "copy the message under the cursor", off: here(inRaw, needsMessage), do: (*Model).copyPayload},
		action{name: "session-logs", keys: "l", in: inLists | inWhy, group: "views", foot: "logs", help: "output of the session", off: needsOutput, do: (*Model).openLogs},
		action{name: "session-events", keys: "e", in: inLists | inWhy, group: "views", foot: "events", help: "events of the session alone", off: needsSession, do: (*Model).openSessionEvents},
		action{name: "go-to", keys: "enter", in: inEvents, group: "views", foot: "why", help: "the session of the event under the cursor", do: (*Model).goToEvent},
		action{name: "to-session", keys: "enter", in: inCommands, group: "views", foot: "session", help: "the session of the action under the cursor", off: here(inCommands, needsCommand), do: (*Model).goToCommand},
		action{name: "open-dump", keys: "enter", in: inDumps, group: "views", foot: "open", help: "the dump under the cursor", off: here(inDumps, needsDump), do: (*Model).openDump},
		action{name: "fold", keys: "enter", in: inDump, group: "views", foot: "fold", help: "fold and unfold", off: here(inDump, needsSections), do: (*Model).foldDump},
		action{name: "search", keys: "/", in: inLines, group: "views", foot: "search", now: overLines("search"), help: "look for text", do: (*Model).openSearch},
		action{name: "next-match", keys: "n", in: inLines, group: "views", foot: "match", help: "next match", off: here(inLines, needsSearch), do: func(m *Model) tea.Cmd { return m.nextMatch(1) }},
		action{name: "previous-match", keys: "N", in: inLines, group: "views", help: "previous match", off: here(inLines, needsSearch), do: func(m *Model) tea.Cmd { return m.nextMatch(-1) }},
		action{name: "follow", keys: "F", in: inEvents | inCommands | inLogs, group: "views", foot: "follow", now: overLines("follow"), help: "follow what is added", do: (*Model).toggleFollow},
		action{name: "wrap", keys: "w", in: inEvents | inLogs | inDump | inTrial | inHandover | inRaw, group: "views", help: "wrap long lines", do: (*Model).toggleWrap},
		action{name: "times", keys: "t", in: inEvents | inLogs, group: "views", foot: "times", help: "time stamps", do: (*Model).toggleTimes},
		action{name: "late", keys: "L", in: inEvents | inLogs, group: "views", foot: "late", help: "show and hide what came after an end: quarantined beats and output", off: needsLateHere, do: (*Model).lateHere},
		action{name: "copy-line", keys: "c", in: inLogs, group: "views", help: "copy the line under the cursor", do: (*Model).copyLine},
		action{name: "copy-place", keys: "c", in: inDump, group: "views", foot: "copy", help: "copy path:line", off: here(inDump, needsPlace), do: (*Model).copyPlace},
		action{name: "edit", keys: "o", in: inDump, group: "views", foot: "editor", help: "open in $EDITOR", off: here(inDump, needsEditor), do: (*Model).openEditor},
		action{name: "raw-dump", keys: "v", in: inDump, group: "views", foot: "raw", help: "the text as it was taken", off: here(inDump, needsDumpText), do: (*Model).toggleRaw},
		action{name: "compare", keys: "D", in: inDump, group: "views", foot: "compare", help: "compare with the next older dump of the session, and back", off: here(inDump, needsOlder), do: (*Model).compareDump},
		action{name: "group", keys: "B", in: inDump, group: "views", foot: "group", help: "group stacks by suspicion, place, size", off: here(inDump, needsSections), do: (*Model).groupDump},
		action{name: "try-again", keys: "t", in: inTrial, group: "views", foot: "other thresholds", help: "try other thresholds", do: (*Model).tryAgain},
		action{name: "go-to-tried", keys: "enter", in: inTrial, group: "views", foot: "why", help: "the session of the line under the cursor", off: here(inTrial, needsTried), do: (*Model).goToTried},
		action{name: "save-trial", keys: "E", in: inTrial, group: "views", foot: "export", help: "export the result as text or JSON", off: here(inTrial, needsTrialResult), do: (*Model).saveTrial},
		action{name: "export", keys: "E", in: inLists | inEvents | inAlerts, group: "views", help: "export all that the view shows to a file, as JSON or CSV", off: needsExport, do: (*Model).openExport},
		action{name: "handover", keys: "H", in: inLists | inAlerts, group: "views", help: "hand-over: what is open, what happened, what was done; handover 12h looks back that far", off: needsShift, do: (*Model).openHandover, with: (*Model).openHandoverWith},
		action{name: "handover-since", keys: "t", in: inHandover, group: "views", foot: "since", help: "look back to another time, and make it anew", do: (*Model).askShift},
		action{name: "go-to-handed", keys: "enter", in: inHandover, group: "views", foot: "why", help: "the session of the line under the cursor", off: here(inHandover, needsHandoverLine), do: (*Model).goToHandedOver},
		action{name: "copy-handover", keys: "c", in: inHandover, group: "views", foot: "copy", help: "copy all of it as text", off: here(inHandover, needsHandover), do: (*Model).copyHandover},
		action{name: "save-handover", keys: "E", in: inHandover, group: "views", foot: "export", help: "export it as text or JSON", off: here(inHandover, needsHandover), do: (*Model).saveHandover},
	)
}

func agentActions() []action {
	return []action{
		{name: "enter-alert", keys: "enter", in: inAlerts, group: "alerts", foot: "open", help: "the members of a group, or the session of the alert under the cursor", off: here(inAlerts, needsAlertLine), do: (*Model).enterAlert},
		{name: "ack", keys: "a", in: inLists | inAlerts, group: "alerts", foot: "ack", help: "acknowledge, with a note if you like; what is new about it opens it again", off: needsAlert("acknowledging"), do: (*Model).openAck},
		{name: "snooze", keys: "z", in: inLists | inAlerts, group: "alerts", foot: "snooze", spare: inLists, help: "snooze: 10m, 1h, or until a time", off: needsAlert("snoozing"), do: (*Model).openSnooze},
		{name: "mute", keys: "M", in: inLists | inAlerts, group: "alerts", foot: "mute", spare: inLists, help: "mute a session or a pattern such as etl-*, with an end and a note", off: needsMutable, do: (*Model).openMute, with: (*Model).openMuteWith},
		{name: "alert-hosts", keys: "B", in: inAlerts, group: "alerts", foot: "hosts", help: "group the members of a group by their hosts", off: here(inAlerts, needsGroupLine), do: (*Model).groupAlert},
		{name: "release", in: inLists | inAlerts, group: "alerts", help: "release the brake: settle a held group", off: needsHeld, do: (*Model).openRelease, with: (*Model).openReleaseWith},
		{name: "mark", keys: "space", in: inSessions, group: "agents", help: "mark, for an action on several", off: needsSession, do: (*Model).toggleMark},
		{name: "mark-range", keys: "V", in: inSessions, group: "agents", help: "mark a range: from the last mark to the cursor", off: needsMarks, do: (*Model).markRange},
		{name: "unmark", keys: "U", in: inSessions, group: "agents", help: "clear the marks", off: needsMarks, do: (*Model).clearMarks},
		{name: "restart", keys: "R", in: inLists | inWhy, group: "agents", touch: true, help: "restart: always asks", off: offAgent(watchdog.OpRestart), do: actOn(watchdog.OpRestart), with: actWith(watchdog.OpRestart)},
		{name: "expire", keys: "X", in: inLists | inWhy, group: "agents", touch: true, help: "expire: always asks", off: offAgent(watchdog.OpExpire), do: actOn(watchdog.OpExpire), with: actWith(watchdog.OpExpire)},
		{name: "stop", keys: "S", in: inLists | inWhy, group: "agents", touch: true, help: "stop, or kill inside its question: always asks", off: offAgent(watchdog.OpStop), do: actOn(watchdog.OpStop), with: actWith(watchdog.OpStop)},
		{name: "dump", keys: "T", in: inLists, group: "agents", touch: true, help: "stack dump", off: offAgent(watchdog.OpDump), do: actOn(watchdog.OpDump), with: actWith(watchdog.OpDump)},
		{name: "trial", in: inLists, group: "alerts", help: "what would other thresholds have raised? trial stall_timeout=10m quiet=stalled tries them on what was seen", off: needsTrier, do: (*Model).openTrial, with: (*Model).openTrialWith},
		{name: "record", in: inLists, group: "alerts", help: "record every input to a file, record FILE; again: end it", off: needsRecorder, do: (*Model).record, with: (*Model).recordTo},
	}
}

func replayActions() []action {
	speed := func(f float64) func(*Model) tea.Cmd { return func(m *Model) tea.Cmd { return m.replaySpeed(f) } }
	step := func(n int) func(*Model) tea.Cmd { return func(m *Model) tea.Cmd { return m.replayStep(n) } }
	return []action{
		{name: "pause", keys: "space", in: inRecorded, group: "replay", foot: "pause", now: replayWord, help: "pause and go on; at the end: once more from the start", off: needsReplay, do: (*Model).replayPause},
		{name: "step-back", keys: ",", in: inRecorded, group: "replay", foot: "step", help: "a step back", off: needsReplay, do: step(-1)},
		{name: "step-on", keys: ".", in: inRecorded, group: "replay", help: "a step on", off: needsReplay, do: step(1)},
		{name: "faster", keys: "+", in: inRecorded, group: "replay", foot: "faster", help: "twice as fast", off: needsReplay, do: speed(2)},
		{name: "slower", keys: "-", in: inRecorded, group: "replay", help: "half as fast", off: needsReplay, do: speed(0.5)},
	}
}

func firstRunActions() []action {
	return []action{
		{name: "demo", keys: "d", in: inFirstRun, group: "start", help: "demo: simulated agents, every verdict within 20 s, nothing kept", off: needsHost, do: (*Model).openDemo},
		{name: "bus", keys: "b", in: inFirstRun, group: "start", help: "start a bus on 127.0.0.1 that local agents can join", off: needsHost, do: (*Model).openBus},
		{name: "supervise", keys: "s", in: inFirstRun, group: "start", help: "supervise a command: run it as a session that ends with this screen", off: needsHost, do: (*Model).openSupervise},
		{name: "connect", keys: "c", in: inFirstRun, group: "start", help: "connect elsewhere: address or context", off: needsHost, do: (*Model).openConnect},
		{name: "recording", keys: "o", in: inFirstRun, group: "start", help: "open a recording; a bundled night needs no server", off: needsHost, do: (*Model).openRecording},
		{name: "ctx", in: inViews, group: "start", help: "contexts: named clusters of the configuration; ctx NAME watches one", off: needsContexts, do: (*Model).openContexts, with: (*Model).openContext},
	}
}

func inputActions() []action {
	return []action{
		{name: "accept", keys: "enter", in: inInput, group: "input", fixed: true, foot: "do it", help: "take what was typed", do: (*Model).acceptInput},
		{name: "clear-input", keys: "ctrl+u", in: inInput, group: "input", fixed: true, help: "clear the line", do: func(m *Model) tea.Cmd { return m.editInput((*input).clear) }},
		{name: "word-back", keys: "ctrl+w", in: inInput, group: "input", fixed: true, help: "delete a word", do: func(m *Model) tea.Cmd { return m.editInput((*input).deleteWord) }},
		{name: "delete-back", keys: "backspace", in: inInput, group: "input", fixed: true, help: "delete a character", do: func(m *Model) tea.Cmd { return m.editInput((*input).backspace) }},
		{name: "delete", keys: "delete", in: inInput, group: "input", fixed: true, help: "delete the next character", do: func(m *Model) tea.Cmd { return m.editInput((*input).delete) }},
		{name: "left", keys: "left", in: inInput, group: "input", fixed: true, help: "left", do: func(m *Model) tea.Cmd { return m.editInput((*input).left) }},
		{name: "right", keys: "right", in: inInput, group: "input", fixed: true, help: "right", do: func(m *Model) tea.Cmd { return m.editInput((*input).right) }},
		{name: "line-start", keys: "home", in: inInput, group: "input", fixed: true, help: "start of the line", do: func(m *Model) tea.Cmd { return m.editInput((*input).home) }},
		{name: "line-end", keys: "end ctrl+e", in: inInput, group: "input", fixed: true, help: "end of the line", do: func(m *Model) tea.Cmd { return m.editInput((*input).end) }},
		{name: "choice-down", keys: "down ctrl+n tab", in: inPalette, group: "input", fixed: true, help: "next choice", do: func(m *Model) tea.Cmd { return m.palette.move(1) }},
		{name: "choice-up", keys: "up ctrl+p shift+tab", in: inPalette, group: "input", fixed: true, help: "previous choice", do: func(m *Model) tea.Cmd { return m.palette.move(-1) }},
	}
}

func screenActions() []action {
	return []action{
		{name: "palette", keys: ":", in: inViews, group: "screen", foot: "actions", help: "palette: every action by name with its key", do: (*Model).openPalette},
		{name: "help", keys: "?", in: inViews &^ inHelp, group: "screen", foot: "help", help: "help: generated, searchable; what is off has its reason", do: func(m *Model) tea.Cmd { return m.openView(viewHelp) }},
		{name: "close-help", keys: "?", in: inHelp, group: "screen", help: "back from help", do: func(m *Model) tea.Cmd { m.closeView(); return nil }},
		{name: "leave", keys: "esc", in: inText | inMenu, group: "screen", fixed: true, foot: "back", help: "back to the view below", do: (*Model).undoLayer},
		{name: "undo", keys: "esc", in: inLists | inFirstRun | inInput, group: "screen", fixed: true, help: "undo one layer: prompt, view, filter; never quits; alt with a key counts as esc", do: (*Model).undoLayer},
		{name: "quit", keys: "q", in: inViews, group: "screen", foot: "quit", spare: inAlerts, help: "back, then quit", do: (*Model).back},
		{name: "yes", keys: "y", in: inQuestion, group: "input", help: "do it", fixed: true, do: (*Model).answerYes},
		{name: "kill", keys: "K", in: inQuestion, group: "agents", touch: true, help: "about a stop: kill instead; wants the word typed", off: here(inQuestion, needsKill), do: (*Model).killInstead},
		{name: "reason", keys: "r", in: inQuestion, group: "agents", help: "say why, for the audit", off: here(inQuestion, needsAction), do: (*Model).openReason},
		{name: "no", keys: "n enter esc q", in: inQuestion, group: "input", help: "no, which is the default", fixed: true, do: (*Model).answerNo},
		{name: "interrupt", keys: "ctrl+c", in: inViews | inInput | inQuestion, group: "screen", fixed: true, help: "back, then quit; twice within 1 s leaves from anywhere", do: (*Model).interrupt},
		{name: "retry", keys: "ctrl+r", in: inViews, group: "screen", help: "ask all sources again now", off: needsFeed, do: (*Model).retry},
		{name: "redraw", keys: "ctrl+l", in: inViews | inInput | inQuestion, group: "screen", help: "draw the screen anew", do: func(*Model) tea.Cmd { return tea.ClearScreen }},
		{name: "ascii", in: inViews, group: "screen", help: "draw ASCII alone, or symbols again: for a font without them; --ascii and ui.ascii: true begin with it", do: (*Model).toggleASCII},
		{name: "suspend", keys: "ctrl+z", in: inViews | inInput | inQuestion, group: "screen", help: "suspend", do: func(*Model) tea.Cmd { return tea.Suspend }},
	}
}
