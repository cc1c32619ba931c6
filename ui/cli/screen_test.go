package cli_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

var screenSize = terminaltest.Size{Columns: 80, Rows: 24}

// program is this program as a process of its own.
func program(t testing.TB, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{Path: self, Args: append([]string{"sessionwatch"}, args...), Env: environ}
}

// alone is an environment in which nothing is configured and nothing listens.
func alone(t testing.TB, entries ...string) []string {
	t.Helper()
	home := t.TempDir()
	environ := terminaltest.Environ(append([]string{
		"TERM=xterm-256color", "HOME=" + home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "SESSIONWATCH_CONFIG=",
		"NATS_URL=nats://127.0.0.1:1", "REDIS_URL=redis://127.0.0.1:1",
	}, entries...)...)
	return environ
}

// muteServer takes connections and never says a word.
func muteServer(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestFirstFrameWaitsForNobody: both servers hang, and the screen stands before
// either of them has timed out.
func TestFirstFrameWaitsForNobody(t *testing.T) {
	mute := muteServer(t)
	p := terminaltest.StartPTY(t, screenSize, program(t, alone(t, "NATS_URL=nats://"+mute, "REDIS_URL=redis://"+mute)))
	shown := ""
	p.Until("the first-run page stands", func() bool {
		shown = p.Screen()
		return strings.Contains(shown, "demo: simulated agents")
	})
	if !strings.Contains(shown, "connecting") || strings.Contains(shown, "timed out") {
		t.Errorf("the first frame came after a server had timed out:\n%s", shown)
	}
	p.Await("timed out")
	p.Type("q")
	if code, _ := p.Ended(); code != 0 {
		t.Errorf("exit code %d after q", code)
	}
	if before, after := p.SettingsBefore(), p.Settings(); before != after {
		t.Errorf("the terminal was left as %s, it was %s", after, before)
	}
}

// TestFirstRunLeadsToTheBundledNight goes the way of somebody who has no server.
func TestFirstRunLeadsToTheBundledNight(t *testing.T) {
	p := terminaltest.StartPTY(t, screenSize, program(t, alone(t)))
	p.Await("refused")
	p.Await("NO SERVER")
	p.Type("o")
	p.Await("recording")
	p.Type("\r")
	p.Await("REPLAY x20  bundled night")
	p.Await("approver-billing")
	p.Type("q")
	p.Ended()
}

func TestAttachedScreenShowsAForeignBeat(t *testing.T) {
	servers := newServers(t)
	p := terminaltest.StartPTY(t, screenSize, program(t, alone(t), "attach", "--nats", servers.nats, "--redis", servers.redis))
	p.Await("connected, subscribed to agent.liveness.>")
	err := natsSay(servers.nats, "agent.liveness.alien", `{"session_id":"alien","state":"run\u001b]0;pwned\u0007ning","uptime_secs":1,"credits_remaining":null,"current_task":"\u001b]52;c;aGk=\u0007chunk 1/9"}`)
	if err != nil {
		t.Fatal(err)
	}
	p.Await("alien")
	if strings.Contains(string(p.Raw()), "pwned") || strings.Contains(string(p.Raw()), "]52;c;aGk") {
		t.Error("a control sequence of a beat reached the terminal")
	}
	p.Signal(syscall.SIGTERM)
	if code, _ := p.Ended(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	if before, after := p.SettingsBefore(), p.Settings(); before != after {
		t.Errorf("the terminal was left as %s, it was %s", after, before)
	}
}

// fault 47
func TestBadConfigurationOpensNoScreen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("polcy: {}\nread_only: perhaps\nui: {keys: {help: j}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := terminaltest.StartPTY(t, screenSize, program(t, alone(t), "--config", path))
	if code, _ := p.Ended(); code != 78 {
		t.Errorf("exit code %d, want 78", code)
	}
	for _, want := range []string{"bad.yaml:1", "bad.yaml:2"} {
		p.Until(want+" is named", func() bool { return strings.Contains(string(p.Raw()), want) })
	}
	if raw := string(p.Raw()); strings.Contains(raw, "\x1b") {
		t.Errorf("escape codes without a screen: %q", raw)
	}
}

// Two actions on one key, a key that there is not, and a column that there is not
// are told before any screen.
func TestBadKeysOpenNoScreen(t *testing.T) {
	for text, want := range map[string]string{
		"ui: {keys: {why: n}}":                   "bad.yaml:1: ui.keys.why: n does both next and why in sessions",
		"read_only: true\nui: {keys: {stop: x}}": "bad.yaml:2: ui.keys.stop: x cannot be bound: a lower-case letter never touches an agent; give a capital, such as S",
		"ui: {keys: {why: ctrl-x}}":              "is no key", "ui: {keys: {wy: x}}": "no such action", "ui: {columns: [hots]}": "is no column",
	} {
		path := filepath.Join(t.TempDir(), "bad.yaml")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := terminaltest.StartPTY(t, screenSize, program(t, alone(t), "--config", path))
		if code, _ := p.Ended(); code != 78 {
			t.Errorf("%s: exit code %d, want 78", text, code)
		}
		p.Until(want+" is said", func() bool { return strings.Contains(string(p.Raw()), want) })
	}
}

// TestDemoScreen drives the demo in tmux, as an operator would.
func TestDemoScreen(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "sessionwatch")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	tmux := terminaltest.StartTmux(t, screenSize, link, "demo", "--agents", "20")
	tmux.Await("DEMO")
	tmux.Await("NEED YOU")
	tmux.Keys("i")
	tmux.Await("rule")
	tmux.Keys("q")
	tmux.Await("NEED YOU")
	tmux.Keys("q")
	if code := tmux.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestDumpViewerOnTheTerminal looks at one file: the dump view of the screen, with
// nothing behind it.
func TestDumpViewerOnTheTerminal(t *testing.T) {
	p := terminaltest.StartPTY(t, screenSize, program(t, alone(t), "dump-view", sampleDump("py311-loopwatchdog-dump_only-stderr.txt")))
	p.Await("WEDGED")
	p.Await("handle_message")
	p.Type("\r") // folds the loop
	p.AwaitGone("handle_message")
	p.Type("/")
	p.Await("text to look for")
	p.Type("handle_message") // unfolds what has it
	p.Await("/ handle_message")
	p.Type("\r")
	p.AwaitGone("text to look for")
	p.Await("1 of 1 have \"handle_message\"")
	p.Type("v")
	p.Await(`File "`)
	p.Type("2")
	p.Await("no session is watched")
	p.Type("D")
	p.Await("one file is shown")
	p.Type("?")
	p.Await("LOOK")
	p.Type("q") // help
	p.Await(`File "`)
	p.Type("q")
	if code, _ := p.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if before, after := p.SettingsBefore(), p.Settings(); before != after {
		t.Errorf("the terminal was left as %s, it was %s", after, before)
	}
	if p.Mode(ansi.ModeAltScreenSaveCursor) {
		t.Error("the alternate screen was not left")
	}
}

// TestDumpViewerComparesTwo: one of them comes from standard input, so keys come
// from the terminal.
func TestDumpViewerComparesTwo(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "sessionwatch")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	shell := terminaltest.Shell(t)
	shell.Args = []string{shell.Path, "-c", `cat "$1" | "$0" dump-view - "$2"`, link, sampleDump("java17-spin-pair-1.txt"), sampleDump("java17-spin-pair-2.txt")}
	shell.Env = alone(t)
	p := terminaltest.StartPTY(t, screenSize, shell)
	p.Await("compared with standard input")
	p.Await("0 moved, 28 same, 0 new, 0 gone")
	p.Type("D")
	p.AwaitGone("28 same")
	p.Type("D")
	p.Await("28 same")
	p.Type("\x1b") // below it is nothing
	if code, _ := p.Ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// sampleDump is the file of a real dump.
func sampleDump(name string) string {
	return filepath.Join("..", "..", "internal", "stackdump", "testdata", name)
}

// BenchmarkFirstFrame measures from the start of the process to the first frame
// of the first-run page, with hanging servers, against the same with none.
func BenchmarkFirstFrame(b *testing.B) {
	mute := muteServer(b)
	first := func(nats, redis string) time.Duration {
		began := time.Now()
		p := terminaltest.StartPTY(b, screenSize, program(b, alone(b), "attach", "--nats", nats, "--redis", redis))
		p.Until("the first frame", func() bool { return strings.TrimSpace(p.Screen()) != "" })
		took := time.Since(began)
		p.Signal(syscall.SIGKILL)
		p.Ended()
		return took
	}
	var hanging, floor time.Duration
	n := 0
	for b.Loop() {
		floor += first("-", "redis://127.0.0.1:1")
		hanging += first("nats://"+mute, "redis://"+mute)
		n++
	}
	b.ReportMetric(float64(hanging)/float64(floor), "ratio")
	b.ReportMetric(float64(hanging.Milliseconds())/float64(n), "ms/first-frame")
}
