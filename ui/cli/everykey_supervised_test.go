package cli_test

import "testing"

// journeyFromTheFirstPage goes from the page that stands there without servers to
// a supervised command and its output.
func journeyFromTheFirstPage(t *testing.T, all *pressedKeys) {
	k := startKeyboard(t, all, screenSize, "")
	k.see("NO SERVER")
	k.press("down", "j", "^ > b")
	k.press("up", "k", "^ > d")
	k.press("suspend", "ctrl+z", "Stopped")
	k.keep("fg", "NO SERVER", func() { k.Type("clear; fg", "Enter") })
	k.press("connect", "c", "^ connect$")
	k.press("undo", "esc", "!^ connect")
	k.press("recording", "o", "^ recording$")
	k.press("undo", "esc", "!^ recording")
	for _, port := range []int{4222, 6379} { // no test starts a server where others look for one
		occupy(t, port)
	}
	k.press("bus", "b", "(?s)the bus: .*in use")
	k.press("supervise", "s", "^ run$")
	k.enter(`sh -c 'i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo line $i of needle number $((i%7)); done; sleep 1000'`, "sleep 1000")
	k.press("accept", "enter", on("running .* sh"))
	k.press("session-logs", "l", "^ LOGS  sh")
	k.see(on(".*line 40"))
	k.press("up", "k", "!^ LOGS .*following")
	k.press("follow", "F", "^ LOGS .*following")
	k.press("times", "t", `^> *line 40`)
	k.press("times", "t", `^>\d\d:`)
	k.press("copy-line", "c", "copied, if the terminal allows: line 40")
	k.press("search", "/", "^ /$")
	k.seek("number 3", `\d of \d have`)
	k.press("accept", "enter", "!^ / number 3")
	k.press("previous-match", "N", on("line 31 "))
	k.press("next-match", "n", on("line 38 "))
	k.press("top", "g", on("line 1 "))
	k.press("late", "L", "nothing came after an involuntary end")
	k.press("leave", "esc", table)
	k.press("logs", "5", "^ LOGS  sh")
	k.press("interrupt", "ctrl+c", table)
	k.press("quit", "q", `^ LEAVE \?`)
	k.answer("yes", "y", `^ready\$$`)
	k.keep("starting it again", "NO SERVER", func() { k.Type("clear; "+k.command, "Enter") })
	k.press("demo", "d", on("approver-"))
	k.press("help", "?", "^ LOOK$")
	k.keep("ctrl+c twice", `^ready\$$`, func() { k.Keys("C-c", "C-c") })
}
