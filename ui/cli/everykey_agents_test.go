package cli_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// journeyThroughTheDemo acts on simulated agents: marks, questions, dumps, alerts,
// payloads.
func journeyThroughTheDemo(t *testing.T, all *pressedKeys) {
	k := startKeyboard(t, all, screenSize, "demo --agents 30 --speed 0.25")
	k.see(on("approver-"))
	// Their order is that of ids from now on, whatever happens to them.
	k.press("sort", "s", "^ SORT ")
	k.press("down", "j", on("verdict"))
	k.press("down", "j", on("for "))
	k.press("down", "j", on(`\] id `))
	k.press("choose", "enter", "^ order  id")
	k.reach("etl-nightly")
	k.atRest()
	k.see("^── etl-nightly #1 ") // an action is told with the number of its execution
	k.press("dump", "T", "dump #1 effective")
	k.press("dump", "T", `effective in \d+s \+1`)
	dumpsAndOneDump(k)
	payloads(k)
	marksAndQuestions(k)
	alertsAnswered(k)
	exports(k)
	k.press("quit", "q", `^ready\$$`)
}

// reach moves down to a session.
func (k *keyboard) reach(id string) {
	k.t.Helper()
	for !matches(on(id), k.Screen()) {
		at := cursorLine.FindString(k.Screen())
		k.Keys("j")
		k.Until("the cursor moves on to "+id, func() bool { return cursorLine.FindString(k.Screen()) != at })
	}
}

// atRest waits until an action takes the session under the cursor. Agents that came
// may have moved it before its first key; for a second after that none does.
func (k *keyboard) atRest() {
	time.Sleep(1100 * time.Millisecond)
}

func dumpsAndOneDump(k *keyboard) {
	k.press("dumps", "6", "^ DUMPS .* 2, newest first")
	k.press("down", "j", `^ \d\d:.*etl-nightly.*\n>`)
	k.press("up", "k", `^>.*etl-nightly.*\n \d\d:`)
	k.press("open-dump", "enter", "^ DUMP  etl-nightly #1 ")
	k.press("fold", "enter", `^>\+ LOOP`)
	k.press("fold", "enter", `^>- LOOP`)
	k.press("down", "j", on("Agent.java:39"))
	k.press("copy-place", "c", "copied, if the terminal allows: Agent.java:39")
	if err := os.WriteFile(filepath.Join(k.home, "Agent.java"), []byte("class Agent {}\n"), 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.press("edit", "o", `^EDITS \+39 .*/Agent.java`)
	k.keep("enter in the editor", "^ DUMP  etl-nightly", func() { k.Keys("Enter") })
	k.press("group", "B", "by place")
	k.press("raw-dump", "v", "_java_thread_list")
	k.press("raw-dump", "v", "!_java_thread_list")
	k.press("search", "/", "^ /$")
	k.seek("tool-pool", on("tool-pool"))
	k.press("accept", "enter", "!^ / tool-pool")
	k.press("compare", "D", "compared")
	k.press("leave", "esc", "^ DUMPS ")
	k.press("quit", "q", table)
}

func payloads(k *keyboard) {
	k.press("raw", "p", "^ RAW  of etl-nightly")
	k.press("as-came", "v", `\{"session_id":"etl-nightly"`)
	k.press("copy-payload", "c", "copied, if the terminal allows: .*etl-nightly")
	k.press("leave", "esc", table)
}

func marksAndQuestions(k *keyboard) {
	k.reach("research-88")
	k.press("mark", "space", "1 session marked")
	k.press("down", "j", on("research-89"))
	k.press("mark-range", "V", "2 sessions marked")
	k.press("stop", "S", "^ STOP 2 sessions")
	k.answer("no", "n", "was not confirmed")
	k.press("unmark", "U", "!sessions marked")
	k.press("stop", "S", "^ STOP research-89")
	k.answer("reason", "r", "^ reason$")
	k.enter("too late", "reason .*too late")
	k.press("accept", "enter", "^ reason   too late")
	k.answer("no", "enter", "was not confirmed")
	k.press("restart", "R", "^ RESTART research-89")
	k.answer("no", "esc", "was not confirmed")
	k.press("restart", "R", "^ RESTART research-89")
	k.answer("no", "q", "was not confirmed")
	k.press("stop", "S", "^ STOP research-89")
	k.answer("kill", "K", "^ Type  kill :")
	k.press("undo", "esc", "was not confirmed")
	k.press("restart", "R", "^ RESTART research-89")
	k.answer("yes", "y", "restart #1")
	k.press("expire", "X", "^ EXPIRE research-89")
	k.answer("no", "n", "was not confirmed")
	k.press("commands", "4", "^ COMMANDS")
	k.press("follow", "F", "!following")
	k.press("to-session", "enter", "^ IF RESTARTED|^ means ")
	k.press("sessions", "1", table)
}

// answer presses a key of a question once no key has come for a while: it is deaf
// before, and says so.
func (k *keyboard) answer(action, key, want string) {
	k.t.Helper()
	k.settled()
	k.press(action, key, want)
}

func alertsAnswered(k *keyboard) {
	k.see("[1-9] alert|NEED")
	k.press("alerts", "2", "^ ALERTS")
	k.press("ack", "a", "ACKNOWLEDGE")
	k.press("accept", "enter", "acknowledged:")
	k.press("snooze", "z", "SNOOZE")
	k.enter("10m", "^ for.*10m")
	k.press("accept", "enter", "snoozed until")
	k.press("mute", "M", "MUTE")
	k.press("undo", "esc", "!MUTE")
	k.press("sessions", "1", table)
}

func exports(k *keyboard) {
	k.press("export", "E", "^ export to sessions")
	k.press("accept", "enter", "sessions.* written to|written")
}
