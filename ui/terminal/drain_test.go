package terminal_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

func updates(path string) int {
	text, _ := os.ReadFile(path)
	n, _ := strconv.Atoi(string(text))
	return n
}

// A terminal that takes nothing stops neither Update nor the end of the
// program, and shows the truth again when it goes on.
func TestTerminalThatDoesNotDrain(t *testing.T) {
	t.Parallel()
	report := filepath.Join(t.TempDir(), "updates")
	p := terminaltest.StartPTY(t, terminaltest.Huge, helperCommand(t, "busy", reportVariable+"="+report))
	p.Await("row 59")
	p.StopReading()
	written := func() int { return len(p.Raw()) }
	stalled := written()
	// Far more than the queue and the kernel take: 30 frames of 10 kB a second.
	from := updates(report)
	p.Until("updates go on", func() bool { return updates(report) > from+200 })
	if extra := written() - stalled; extra > 8192 {
		t.Errorf("the rig read %d bytes after it stopped", extra)
	}
	p.Type("x") // stops the drawing, and is the last thing to be shown
	now := updates(report)
	p.Until("the key arrives", func() bool { return updates(report) > now+20 })
	p.ResumeReading()
	p.Await("frozen at")
	p.Until("the screen is whole again", func() bool { return consistent(p.Screen()) })
	p.Await("drained:true")
	p.Type("q")
	if code, _ := p.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	checkRestored(t, p, p.SettingsBefore())
}

// consistent reports whether all rows of a frozen busy screen are of one
// frame.
func consistent(screen string) bool {
	rows := strings.Split(screen, "\n")
	var at int
	for _, r := range rows {
		if i := strings.Index(r, "frozen at "); i >= 0 {
			at, _ = strconv.Atoi(strings.Fields(r[i:])[2])
		}
	}
	seen := 0
	for _, r := range rows {
		fields := strings.Fields(r)
		if len(fields) != 3 || fields[0] != "row" {
			continue
		}
		row, _ := strconv.Atoi(fields[1])
		if want := string(rune('a' + (at+row)%26)); strings.Trim(fields[2], want) != "" {
			return false
		}
		seen++
	}
	return at > 0 && seen == 56
}

func TestEndsOnATerminalThatDoesNotDrain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		do   func(p *terminaltest.PTY)
		code int
	}{
		"quit":    {func(p *terminaltest.PTY) { p.Type("q") }, 0},
		"SIGTERM": {func(p *terminaltest.PTY) { p.Signal(syscall.SIGTERM) }, 3},
		"panic":   {func(p *terminaltest.PTY) { p.Type("g") }, 75},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := filepath.Join(t.TempDir(), "updates")
			p := terminaltest.StartPTY(t, terminaltest.Huge, helperCommand(t, "busy", reportVariable+"="+report))
			p.Await("row 59")
			p.StopReading()
			from := updates(report)
			p.Until("updates go on", func() bool { return updates(report) > from+200 })
			start := time.Now()
			end.do(p)
			code, _ := p.Ended()
			t.Logf("ended after %v", time.Since(start))
			if code != end.code {
				t.Errorf("exit code %d, want %d", code, end.code)
			}
			p.Until("the line discipline is as before", func() bool { return p.Settings() == p.SettingsBefore() })
			p.ResumeReading()
			checkRestored(t, p, p.SettingsBefore())
		})
	}
}
