//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/ui/cli"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// mainThatWedges is the program with a screen that stands still at the key W.
func mainThatWedges() int {
	env := cli.System()
	env.Wrap(func(m tea.Model) tea.Model { return wedging{m} })
	return cli.Main(os.Args[1:], env)
}

type wedging struct{ tea.Model }

func (w wedging) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if key, ok := msg.(tea.KeyPressMsg); ok && key.String() == "W" {
		standStill()
	}
	m, cmd := w.Model.Update(msg)
	return wedging{m}, cmd
}

//go:noinline
func standStill() { select {} }

// wedgingProgram is that program, to be started in a rig.
func wedgingProgram(t *testing.T, environ []string, args ...string) *exec.Cmd {
	cmd := program(t, environ, args...)
	cmd.Args[0] = "sessionwatch-wedging"
	return cmd
}

// awaitScreen waits for the first-run page and for the watchdog to be armed: it
// is once a message has passed the loop.
func awaitScreen(p *terminaltest.PTY) {
	p.Await("NO SERVER")
	p.Type("?")
	p.Await(" LOOK")
	p.Type("\x1b")
	p.AwaitGone(" LOOK")
}

// ownDumps lists the dumps that the program took of itself.
func ownDumps(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "dumps", "self-*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// checkOwnDump reads the only dump that is there, and looks who may.
func checkOwnDump(t *testing.T, dir, function string) {
	t.Helper()
	files := ownDumps(t, dir)
	if len(files) != 1 {
		t.Fatalf("%d dumps of our own, want 1: %v", len(files), files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(function)) {
		t.Errorf("the dump does not name %s:\n%.2000s", function, text)
	}
	for path, want := range map[string]os.FileMode{files[0]: 0o600, filepath.Dir(files[0]): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// fault 11: a wedged screen ends with a dump in a file, the terminal as it was,
// and exit code 75.
func TestWedgedScreenGivesTheTerminalBack(t *testing.T) {
	dir := t.TempDir()
	cmd := wedgingProgram(t, alone(t))
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	line := fmt.Sprintf("stty -g > %s; (exec -a %s %s --data-dir %s/data --watchdog-timeout 0.9); echo exit code $?; stty -g > %s; sleep 100",
		before, cmd.Args[0], cmd.Path, dir, after)
	m := terminaltest.StartTmux(t, terminaltest.Normal, append([]string{"env"}, append(cmd.Env, terminaltest.Need(t, "bash"), "-c", line)...)...)
	m.Await("NO SERVER")
	m.Keys("W")
	m.Await("exit code 75")
	if screen := strings.ReplaceAll(m.Screen(), "\n", ""); !strings.Contains(screen, "the screen made no progress") || !strings.Contains(screen, "dump in "+dir) || strings.Contains(screen, "NO SERVER") {
		t.Errorf("the screen after it:\n%s", screen)
	}
	m.Until("stty has answered", func() bool { info, err := os.Stat(after); return err == nil && info.Size() > 0 })
	was, _ := os.ReadFile(before)
	if is, err := os.ReadFile(after); err != nil || !bytes.Equal(was, is) {
		t.Errorf("stty -g gives %s, it was %s (%v)", is, was, err)
	}
	for _, mode := range []string{"#{alternate_on}", "#{mouse_any_flag}", "#{bracket_paste_flag}"} {
		if got := m.Format(mode); got == "1" {
			t.Errorf("%s is still on", mode)
		}
	}
	checkOwnDump(t, filepath.Join(dir, "data"), "cli_test.standStill")
}

// fault 11: with dump_only a wedged screen is dumped and goes on to be wedged;
// SIGTERM and SIGHUP end it within a second or so, and give the terminal back.
func TestSignalsEndAWedgedScreen(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		code   int
		config string
		dumps  int
	}{
		{syscall.SIGTERM, 143, "watchdog: {on_wedge: dump_only, liveness_interval: 200ms}", 1},
		{syscall.SIGHUP, 129, "watchdog: {enabled: no, liveness_interval: 200ms}", 0},
	} {
		t.Run(c.signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			config := filepath.Join(dir, "c.yaml")
			if err := os.WriteFile(config, []byte(c.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := terminaltest.StartPTY(t, terminaltest.Normal, wedgingProgram(t, alone(t), "--data-dir", dir, "--config", config))
			awaitScreen(p)
			p.Type("W")
			if c.dumps > 0 {
				p.Until("there is a dump", func() bool { return len(ownDumps(t, dir)) == c.dumps })
			}
			time.Sleep(time.Second) // a watchdog that is off does nothing meanwhile
			began := time.Now()
			p.Signal(c.signal)
			if code, _ := p.Ended(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if took := time.Since(began); took > 2*time.Second*slack {
				t.Errorf("it took %v", took)
			}
			p.Until("the terminal is as before", func() bool { return p.Settings() == p.SettingsBefore() })
			if n := len(ownDumps(t, dir)); n != c.dumps {
				t.Errorf("%d dumps, want %d", n, c.dumps)
			}
		})
	}
}

// fault 11: neither a terminal that takes nothing nor a stop of the process is a
// wedge.
func TestWhatIsNoWedge(t *testing.T) {
	for name, disturb := range map[string]func(p *terminaltest.PTY){
		"stalled terminal": func(p *terminaltest.PTY) {
			p.StopReading()
			for range 40 { // frames that nobody takes
				p.Type("?\x1b")
				time.Sleep(100 * time.Millisecond)
			}
			p.ResumeReading()
		},
		"stopped": func(p *terminaltest.PTY) {
			p.Signal(syscall.SIGSTOP)
			time.Sleep(3 * time.Second)
			p.Signal(syscall.SIGCONT)
			time.Sleep(2 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			waits(t)
			dir := t.TempDir()
			p := terminaltest.StartPTY(t, terminaltest.Normal, program(t, alone(t), "demo", "--data-dir", dir, "--watchdog-timeout", "1.5"))
			p.Await("need")
			disturb(p)
			p.Type("\x1b")
			time.Sleep(300 * time.Millisecond)
			p.Type("q")
			if code, _ := p.Ended(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if files := ownDumps(t, dir); len(files) > 0 {
				text, _ := os.ReadFile(files[0])
				t.Errorf("it took a dump of itself: %.400s", text)
			}
		})
	}
}

// fault 11: a wedged engine of a process without a screen ends it with 75; one
// that was only stopped does not.
func TestWedgedEngineEndsTheProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := program(t, alone(t), "--nats", "-", "--redis", "-", "--data-dir", dir, "--watchdog-timeout", "0.9")
	cmd.Args[0] = "sessionwatch-engining"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	time.Sleep(500 * time.Millisecond)
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(2 * time.Second)
	_ = cmd.Process.Signal(syscall.SIGCONT)
	time.Sleep(1500 * time.Millisecond)
	if files := ownDumps(t, dir); len(files) > 0 {
		t.Fatalf("it was only stopped, and took a dump of itself: %v", files)
	}
	if _, err := in.Write([]byte("w")); err != nil {
		t.Fatalf("it has ended: %v", err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 75 {
		t.Errorf("exit code %d, want 75", code)
	}
	if text := stderr.String(); !strings.Contains(text, "watchdog: the engine made no progress") || !strings.Contains(text, "wedgingTap") {
		t.Errorf("standard error: %.1000s", text)
	}
	checkOwnDump(t, dir, "wedgingTap.Beats")
}

// GET /health tells of a watchdog only where one is configured.
func TestHealthTellsOfAConfiguredWatchdog(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want map[string]any
	}{
		"by default": {nil, nil},
		"timeout":    {[]string{"--watchdog-timeout", "30"}, map[string]any{"enabled": true, "armed": true, "wedge_after_s": 30.0}},
		"off":        {[]string{"--watchdog=off"}, map[string]any{"enabled": false, "armed": false, "wedge_after_s": 15.0}},
	} {
		t.Run(name, func(t *testing.T) {
			port, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := port.Addr().String()
			_ = port.Close()
			var stderr shared
			env, interrupt := inProcess(t, io.Discard, &stderr, "HOME="+t.TempDir())
			ended := make(chan int, 1)
			args := append([]string{"serve", "--nats", "-", "--redis", "-", "--listen", address}, c.args...)
			go func() { ended <- cli.Main(args, env) }()
			var health struct {
				Status   string
				Watchdog map[string]any
			}
			terminaltest.Poll(t, func() bool {
				resp, err := http.Get("http://" + address + "/health")
				if err != nil {
					return false
				}
				defer resp.Body.Close()
				return json.NewDecoder(resp.Body).Decode(&health) == nil
			}, stderr.String)
			interrupt()
			if code := <-ended; code != 0 {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
			if (health.Watchdog == nil) != (c.want == nil) {
				t.Errorf("watchdog %v, want %v", health.Watchdog, c.want)
			}
			for key, want := range c.want {
				if health.Watchdog[key] != want {
					t.Errorf("%s is %v, want %v", key, health.Watchdog[key], want)
				}
			}
		})
	}
}
