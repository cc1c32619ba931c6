package terminal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// ways to end, and what must be true of each of them.
var endings = []struct {
	name string
	do   func(p *terminaltest.PTY)
	code int
	says string
	fast bool // within a second
}{
	{"quit", func(p *terminaltest.PTY) { p.Type("q") }, 0, "", false},
	{"panic in Update", func(p *terminaltest.PTY) { p.Type("p") }, 75, "panic: in Update", false},
	{"panic in a goroutine", func(p *terminaltest.PTY) { p.Type("g") }, 75, "panic: in a goroutine", false},
	{"panic in a command", func(p *terminaltest.PTY) { p.Type("c") }, 75, "panic: in a command", false},
	{"panic in a batch", func(p *terminaltest.PTY) { p.Type("b") }, 75, "panic: in a batch", false},
	{"panic in a sequence", func(p *terminaltest.PTY) { p.Type("s") }, 75, "panic: in a sequence", false},
	{"SIGTERM", func(p *terminaltest.PTY) { p.Signal(syscall.SIGTERM) }, 3, "ended by terminated", true},
	{"SIGHUP", func(p *terminaltest.PTY) { p.Signal(syscall.SIGHUP) }, 3, "ended by hangup", true},
	{"SIGINT", func(p *terminaltest.PTY) { p.Signal(syscall.SIGINT) }, 3, "ended by interrupt", true},
	{"SIGTERM while wedged", func(p *terminaltest.PTY) { wedge(p); p.Signal(syscall.SIGTERM) }, 143, "", true},
	{"SIGHUP while wedged", func(p *terminaltest.PTY) { wedge(p); p.Signal(syscall.SIGHUP) }, 129, "", true},
	{"SIGQUIT", func(p *terminaltest.PTY) { p.Signal(syscall.SIGQUIT) }, 2, "goroutine", false},
}

// wedge stops the program's loop for ever.
func wedge(p *terminaltest.PTY) {
	p.Type("w")
	p.Until("the loop is wedged", func() bool {
		text, _ := os.ReadFile(p.Env(reportVariable))
		return string(text) == "wedged"
	})
}

// fault 40
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel() // each on a terminal of its own
			dir := t.TempDir()
			crash := filepath.Join(dir, "crash", "self.txt")
			p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen", "SESSIONWATCH_TERMINAL_CRASH="+crash,
				reportVariable+"="+filepath.Join(dir, "report"), "GOTRACEBACK=single"))
			before := p.SettingsBefore()
			p.Await("SCREEN 80x24")
			if p.Settings() == before {
				t.Fatal("the terminal is not raw while the screen is up")
			}
			start := time.Now()
			e.do(p)
			code, _ := p.Ended()
			if took := time.Since(start); e.fast && took > 3*time.Second { // one on a machine that does nothing else
				t.Errorf("ended after %v", took)
			}
			if code != e.code {
				t.Errorf("exit code %d, want %d", code, e.code)
			}
			checkRestored(t, p, before)
			if e.says != "" {
				p.Until("it says "+e.says, func() bool { return bytes.Contains(p.Raw(), []byte(e.says)) })
			}
			if strings.HasPrefix(e.says, "panic") {
				text, err := os.ReadFile(crash)
				if err != nil || !strings.Contains(string(text), e.says) || !strings.Contains(string(text), "helper_test.go") {
					t.Errorf("crash file: %v\n%s", err, text)
				}
			}
		})
	}
}

// checkRestored checks that nothing of the screen is left on the terminal.
func checkRestored(t *testing.T, p *terminaltest.PTY, before string) {
	t.Helper()
	p.Until("the terminal is as before", func() bool { return p.Settings() == before })
	for name, mode := range map[string]ansi.Mode{
		"alternate screen": ansi.ModeAltScreenSaveCursor, "bracketed paste": ansi.ModeBracketedPaste,
		"mouse": ansi.ModeMouseButtonEvent, "mouse encoding": ansi.ModeMouseExtSgr, "focus": ansi.ModeFocusEvent,
	} {
		p.Until(name+" is off", func() bool { return !p.Mode(mode) })
	}
	p.Until("the cursor is shown", func() bool { return p.Mode(ansi.ModeTextCursorEnable) })
	raw := p.Raw()
	for open, shut := range map[string]string{"\x1b[22;0t": "\x1b[23;0t", "\x1b[>1u": "\x1b[<1u", "\x1b[>4;2m": "\x1b[>4m"} {
		if o, s := bytes.Count(raw, []byte(open)), bytes.Count(raw, []byte(shut)); o == 0 || s < o || strings.HasSuffix(open, "u") && s != o {
			t.Errorf("%q %d times, %q %d times", open, o, shut, s)
		}
	}
}

func TestFirstFrameOnAMuteTerminal(t *testing.T) {
	start := time.Now()
	p := terminaltest.StartMutePTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN 80x24")
	t.Logf("first byte after %v, frame seen after %v", p.FirstByte().Sub(start), time.Since(start))
	p.Type("j")
	p.Await("keys j")
	p.Type("q")
	if code, _ := p.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestTerminalAnswers(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("background")
	p.Await("wide:false")
	if strings.Contains(p.Screen(), "●") {
		t.Errorf("the probe is still seen:\n%s", p.Screen())
	}
	p.Until("the title is set", func() bool { return p.Title() != "" })
	if got := p.Title(); got != "9! prod sessionwatch" {
		t.Errorf("title %q", got)
	}
	if bytes.Contains(p.Raw(), []byte("\x1b]52;")) {
		t.Error("a clipboard sequence went out with the title")
	}
}

func TestSplitSequencesAreNoKeys(t *testing.T) {
	t.Parallel()
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("wide:false")
	p.TypeApart(200*time.Millisecond, "\x1b[", "A")
	p.Await("keys up")
	p.TypeApart(200*time.Millisecond, "\x1b", "OS", "\x1b[<0;1", "0;5M")
	p.Type("j")
	p.Await("keys up esc j")
	p.TypeApart(150*time.Millisecond, "\x1b[200", "~pasted R", " text\x1b[20", "1~")
	p.Await("paste:pasted R text")
	p.Type("é")
	p.Await("keys up esc j é")
}

func TestCopyGoesOutByOSC52(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN")
	p.Type("y")
	p.Until("the clipboard sequence is out", func() bool {
		return bytes.Contains(p.Raw(), []byte("\x1b]52;c;Y29waWVkIHRleHQ="))
	})
}

// fault 41
func TestHangUpEndsTheProgram(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN")
	start := time.Now()
	p.HangUp()
	if code, _ := p.Ended(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(start); took > 3*time.Second { // one on a machine that does nothing else
		t.Errorf("it took %v", took)
	}
}

// One hang-up is more than one signal: none of the rest takes a program that puts
// its things away.
func TestHangUpAgainLetsTheProgramEnd(t *testing.T) {
	t.Parallel()
	report := filepath.Join(t.TempDir(), "report")
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "tidies", reportVariable+"="+report))
	p.Await("SCREEN")
	p.HangUp()
	p.Until("it tidies", func() bool { text, _ := os.ReadFile(report); return string(text) == "tidies" })
	p.Signal(syscall.SIGHUP)
	if code, _ := p.Ended(); code != 3 {
		t.Errorf("exit code %d", code)
	}
}

func TestResize(t *testing.T) {
	p := terminaltest.StartPTY(t, terminaltest.Normal, helperCommand(t, "screen"))
	p.Await("SCREEN 80x24")
	p.Resize(terminaltest.Small)
	p.Await("SCREEN 40x10")
}
