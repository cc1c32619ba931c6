package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// table is on the screen where the table of sessions is.
const table = "^   VERDICT"

// on is the line of the cursor, with the text.
func on(text string) string { return `^>.*` + text }

// atTheEnd shows the end of the bundled night, where nothing moves.
func atTheEnd(t *testing.T, all *pressedKeys) *keyboard {
	k := startKeyboard(t, all, screenSize, "replay --speed 1000")
	k.see(" END ")
	k.see(on("indexer"))
	return k
}

// journeyThroughTheTable presses what moves, filters, sorts and shows its rows.
func journeyThroughTheTable(t *testing.T, all *pressedKeys) {
	k := atTheEnd(t, all)
	movesInTheTable(k)
	queriesOfTheTable(k)
	typingInAPrompt(k)
	menusOfTheTable(k)
	restOfTheTable(k)
	k.press("quit", "q", `^ready\$$`)
}

// journeyThroughTexts reads: why, events, help, alerts, a hand-over, a trial, the
// palette.
func journeyThroughTexts(t *testing.T, all *pressedKeys) {
	k := atTheEnd(t, all)
	viewsAndTexts(k)
	alertsAndHandover(k)
	trials(k)
	paletteOfActions(k)
	k.press("interrupt", "ctrl+c", `^ready\$$`)
}

func movesInTheTable(k *keyboard) {
	k.press("down", "j", on("etl-nightly"))
	k.press("down", "down", on("payments-sync"))
	k.press("up", "up", on("etl-nightly"))
	k.press("up", "k", on("indexer"))
	k.press("bottom", "G", on("worker-0212"))
	k.press("top", "g", on("indexer"))
	k.press("bottom", "end", on("worker-0212"))
	k.press("top", "home", on("indexer"))
	k.press("page-down", "pgdown", on("batch-job-0011"))
	k.press("page-up", "pgup", on("indexer"))
	k.press("half-down", "ctrl+d", on("batch-job-0003"))
	k.press("half-up", "ctrl+u", on("indexer"))
	k.press("next", "n", on("etl-nightly"))
	k.press("previous", "N", on("indexer"))
}

func queriesOfTheTable(k *keyboard) {
	k.press("attention", "!", "only what needs attention   6 of 48")
	k.press("all", "0", "!only what needs attention")
	k.press("filter", "/", "^ /$")
	k.enter("worker", "^ / worker$")
	k.press("accept", "enter", "!^ / worker")
	k.see("^ filter  worker +12 of 48")
	k.press("undo", "esc", "!filter  worker")
}

// typingInAPrompt: what an edit did is seen in what is typed after it.
func typingInAPrompt(k *keyboard) {
	k.press("filter", "/", "^ /$")
	k.enter("bd", "^ / bd$")
	k.press("left", "left", "^ / bcd", "c")
	k.press("line-start", "home", "^ / abcd", "a")
	k.press("right", "right", "^ / ab-cd", "-")
	k.press("line-end", "end", "^ / ab-cde", "e")
	k.press("line-start", "home", "^ / xab-cde", "x")
	k.press("line-end", "ctrl+e", "^ / xab-cdef", "f")
	k.press("delete-back", "backspace", "!xab-cdef")
	k.press("line-start", "home", "^ / yxab-cde", "y")
	k.press("delete", "delete", "!yxab-cde")
	k.press("line-end", "end", "^ / yab-cde two", " two")
	k.press("word-back", "ctrl+w", "!yab-cde two")
	k.press("clear-input", "ctrl+u", "!yab-cde")
	k.press("undo", "esc", "!^ /")
}

func menusOfTheTable(k *keyboard) {
	k.press("sort", "s", "^ SORT ")
	k.press("down", "j", on("verdict"))
	k.press("down", "down", on("for "))
	k.press("toggle", "space", on(`\[x\] for`))
	k.press("bottom", "G", on("task"))
	k.press("choose", "enter", "^ order  task")
	k.press("invert", "I", "order  task, inverted")
	k.press("sort", "s", "^ SORT ")
	k.press("top", "g", on("attention"))
	k.press("choose", "enter", "order  attention, inverted")
	k.press("invert", "I", "!order  attention")
	k.press("columns", "C", "^ COLUMNS ")
	k.press("down", "j", on("GEN"))
	k.press("toggle", "space", on(`\[x\] GEN`))
	k.press("leave", "esc", `VERDICT .* GEN `)
	k.press("columns", "C", "^ COLUMNS ")
	k.press("bottom", "end", on("by the width"))
	k.press("choose", "enter", `\[ \] GEN`)
	k.press("quit", "q", table)
}

func restOfTheTable(k *keyboard) {
	k.press("pane", "d", "!^── indexer")
	k.press("pane", "d", "^── indexer")
	k.press("freeze", "Z", "FROZEN since 03:40:00Z")
	k.press("freeze", "Z", "!FROZEN")
	k.press("copy", "c", "copied, if the terminal allows: indexer")
	k.Until("tmux has the id", func() bool { return k.Buffer() == "indexer" })
	k.press("retry", "ctrl+r", "asking all sources again")
	k.keep("a stray text", "STRAY", func() { scrawl(k.t, k.Tmux, "STRAY") })
	k.press("redraw", "ctrl+l", "!STRAY")
	k.Resize(terminaltest.Size{Columns: 200, Rows: 40}) // as wide as a pane needs, and lower than what it holds
	k.see("│")
	k.press("focus", "tab", "tab goes back")
	k.press("bottom", "G", "!> lines 1 to")
	k.press("focus", "tab", "!tab goes back")
	k.Resize(screenSize)
	k.see("^── indexer")
}

func viewsAndTexts(k *keyboard) {
	k.press("why", "i", "^ STALLED for 27m   indexer")
	k.press("next", "n", "^ ERROR for 22m   etl-nightly")
	k.press("previous", "N", "^ STALLED for 27m   indexer")
	k.press("copy", "c", "copied, if the terminal allows: indexer")
	k.press("leave", "esc", table)
	k.press("open", "enter", "^ STALLED for 27m   indexer")
	k.press("interrupt", "ctrl+c", table)
	k.press("session-events", "e", "^ EVENTS  of indexer")
	k.press("leave", "esc", table)
	eventsKeys(k)
	k.press("help", "?", "^ LOOK$")
	k.press("bottom", "G", "!more lines: j")
	k.press("top", "home", "more lines: j")
	k.press("page-down", "pgdown", "!^ LOOK$")
	k.press("page-up", "pgup", "^ LOOK$")
	k.press("search-help", "/", "^ search$")
	k.enter("freeze", "!next that needs attention")
	k.press("accept", "enter", "!^ search")
	k.press("close-help", "?", "^ RUNNING .*worker-0203")
	k.press("next-view", "]", "^ ALERTS ")
	k.press("previous-view", "[", table)
	k.press("commands", "4", "^ COMMANDS")
	k.press("sessions", "1", table)
	k.press("top", "g", on("indexer"))
}

func eventsKeys(k *keyboard) {
	k.press("events", "3", "^ EVENTS  of all sessions")
	k.press("down", "j", on("03:33:43Z"))
	k.press("follow", "F", "^ EVENTS .*following")
	k.press("times", "t", "!03:33:43Z")
	k.press("times", "t", "03:33:43Z")
	k.press("wrap", "w", "^ {40,}gone$")
	k.press("wrap", "w", "!^ {40,}gone$")
	k.press("search", "/", "^ /$")
	k.seek("worker-0203", on("worker-0203 .*silent > running"))
	k.press("accept", "enter", "!^ / worker-0203")
	k.press("next-match", "n", on("worker-0203 .*running > silent"))
	k.press("previous-match", "N", on("worker-0203 .*silent > running"))
	k.press("go-to", "enter", "^ RUNNING .*worker-0203")
}

func alertsAndHandover(k *keyboard) {
	k.press("alerts", "2", "^ ALERTS  5 open")
	k.press("down", "j", on(".*ERROR etl-nightly"))
	k.press("up", "k", on(".*STALLED indexer"))
	k.press("search", "/", "^ /$")
	k.seek("lost", on(".*LOST payments-sync"))
	k.press("accept", "enter", "!^ / lost")
	k.press("enter-alert", "enter", "^ LOST for 28m   payments-sync")
	k.press("leave", "esc", "^ ALERTS")
	k.press("quit", "q", table)
	k.press("top", "g", on("indexer"))
	k.press("handover", "H", on("HANDOVER bundled night"))
	k.press("wrap", "w", "~$")
	k.press("wrap", "w", "!~$")
	k.press("copy-handover", "c", "copied, if the terminal allows: .* lines")
	k.Until("tmux has the text", func() bool { return strings.HasPrefix(k.Buffer(), "HANDOVER bundled night") })
	k.press("save-handover", "E", "^ export to handover.*txt")
	k.press("accept", "enter", "lines written to .*handover")
	k.press("handover-since", "t", "^ since 8h$")
	k.press("clear-input", "ctrl+u", "^ since 10m$", "10m")
	k.press("accept", "enter", on("HANDOVER bundled night .*03:30Z-03:40Z"))
	k.press("search", "/", "^ /$")
	k.seek("stalled", on("stalled +indexer"))
	k.press("accept", "enter", "!^ / stalled")
	k.press("go-to-handed", "enter", "^ STALLED for 27m   indexer")
	k.press("interrupt", "ctrl+c", "HANDOVER bundled night")
	k.press("leave", "esc", table)
}

func trials(k *keyboard) {
	k.press("palette", ":", "^ :$")
	k.enter("trial stall_timeout=40m", "^> trial")
	k.press("accept", "enter", on("TRIAL  stall_timeout 5m > 40m"))
	k.press("bottom", "G", on("same .*crawler-0031"))
	k.press("search", "/", "^ /$")
	k.seek("etl-nightly", on(".*quiet +etl-nightly"))
	k.press("accept", "enter", "!^ / etl-nightly")
	k.press("go-to-tried", "enter", "^ ERROR for 22m   etl-nightly")
	k.press("leave", "esc", "^ .*quiet +etl-nightly|^>.*quiet +etl-nightly")
	k.press("save-trial", "E", "^ export to trial")
	k.press("undo", "esc", "!^ export to")
	k.press("try-again", "t", "^ try stall_timeout=40m")
	k.press("undo", "esc", "!^ try ")
	k.press("leave", "esc", table)
}

func paletteOfActions(k *keyboard) {
	k.press("palette", ":", "^> pause")
	k.press("choice-down", "down", on("step-back"))
	k.press("choice-down", "ctrl+n", on("step-on"))
	k.press("choice-down", "tab", on("faster"))
	k.press("choice-up", "shift+tab", on("step-on"))
	k.press("choice-up", "ctrl+p", on("step-back"))
	k.press("choice-up", "up", on("pause"))
	k.enter("sources", on("sources"))
	k.press("accept", "enter", "^ ourselves")
	k.press("leave", "esc", table)
}

// journeyThroughASilence steers the recording, about the mass silence of the
// night, which has a group of alerts.
func journeyThroughASilence(t *testing.T, all *pressedKeys) {
	k := startKeyboard(t, all, screenSize, "replay --speed 250")
	k.see("03:(2[3-9]|[34].):..Z$") // it comes at 03:22Z, and is over at 03:30Z
	if !matches(" END ", k.Screen()) {
		k.press("pause", "space", "PAUSED| END ")
	}
	for !matches("^ HELD", k.Screen()) {
		if now := clockOf(k.Screen()); now < "03:23" {
			k.press("step-on", ".", "!"+now+"$")
		} else {
			k.press("step-back", ",", "!"+now+"$")
		}
	}
	k.press("alerts", "2", "^ ALERTS")
	k.press("alert-hosts", "B", `all on host eu2-07 +open\n[^\n]*eu2-07`)
	k.press("leave", "esc", table)
	now := clockOf(k.Screen())
	k.press("step-back", ",", "!"+now+"$")
	k.press("step-on", ".", now+"$")
	k.press("slower", "-", "REPLAY x125 ")
	k.press("faster", "+", "REPLAY x250 ")
	k.press("pause", "space", "!PAUSED")
	k.press("interrupt", "ctrl+c", `^ready\$$`)
}

// clockOf is the time in the header.
func clockOf(screen string) string {
	return regexp.MustCompile(`\d\d:\d\d:\d\dZ`).FindString(screen)
}
