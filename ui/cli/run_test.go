//go:build unix && !race

package cli_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// runner starts the built program as a user does, without any server.
type runner struct {
	t       *testing.T
	path    string
	environ []string
	state   string
	dir     string
}

func (r runner) fresh(t *testing.T) runner {
	t.Helper()
	r.t, r.state, r.dir = t, t.TempDir(), t.TempDir()
	r.environ = alone(t, "XDG_STATE_HOME="+r.state, "DIR="+r.dir, "NATS_URL=", "REDIS_URL=")
	return r
}

// command is `run` of a session "s".
func (r runner) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.path, append([]string{"run", "--nats", "-", "--redis", "-", "--id", "s", "--grace", "2s"}, args...)...)
	cmd.Env, cmd.Dir = r.environ, r.dir
	return cmd
}

// ended runs to the end.
func (r runner) ended(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	var out, errs bytes.Buffer
	cmd := r.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return r.code(cmd), out.String(), errs.String()
}

// code waits for the end, for a bounded time.
func (r runner) code(cmd *exec.Cmd) int {
	r.t.Helper()
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = cmd.Wait() // the code tells
	return cmd.ProcessState.ExitCode()
}

// pids are what a child wrote into a file, one a line.
func (r runner) pids(n int) (pids []int) {
	r.t.Helper()
	if !sourcetest.Eventually(20*time.Second, func() bool {
		text, _ := os.ReadFile(filepath.Join(r.dir, "pids"))
		pids = nil
		for _, word := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(word)
			pids = append(pids, pid)
		}
		return len(pids) == n && strings.HasSuffix(string(text), "\n")
	}) {
		r.t.Fatalf("%d processes were not told, but %v", n, pids)
	}
	return pids
}

func (r runner) gone(pids ...int) {
	r.t.Helper()
	for _, pid := range pids {
		if !sourcetest.Eventually(10*time.Second, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }) {
			r.t.Errorf("process %d lives on", pid)
		}
	}
}

// outcome is the end of a generation in the local ledger.
func (r runner) outcome(g watchdog.Generation) string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.state, "sessionwatch", "run-*.db"))
	if err != nil || len(found) != 1 {
		r.t.Fatalf("the ledger is not in one place: %v, %v", found, err)
	}
	file, err := filestore.Open(found[0], slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	record, ok, err := file.Ledger(wire.Seal{}, clock.System()).Record(r.t.Context(), "s", g)
	if err != nil || !ok {
		r.t.Errorf("generation %d has no end: %v", g, err)
	}
	return record.Outcome.String() + " by " + string(record.SettledBy)
}

// What a person sees of run: the output and the exit code of the command.
func TestRunAsBuilt(t *testing.T) {
	built := runner{path: asBuilt(t)}
	t.Run("codes", built.codes)
	t.Run("output", built.output)
	t.Run("signals", built.signals)
	t.Run("killed", built.killed)
	t.Run("readers", built.readers)
	t.Run("held", built.held)
}

func (r runner) codes(t *testing.T) {
	for _, c := range []struct {
		name         string
		args         []string
		code         int
		runs         string // what the runs of the command left
		says, record string
	}{
		{"done", []string{"--", "sh", "-c", "echo x >> $DIR/runs"}, 0, "x", "", "completed by supervisor"},
		{"failed", []string{"--restart", "never", "--", "sh", "-c", "echo x >> $DIR/runs; exit 7"}, 7, "x", "", "error by supervisor"},
		{"never again", []string{"--restart", "always", "--", "sh", "-c", "echo x >> $DIR/runs; exit 78"}, 78, "x", "", "error by supervisor"},
		{"again", []string{"--restart", "never", "--", "sh", "-c", "echo x >> $DIR/runs; test $(wc -l < $DIR/runs) = 2 || exit 75"}, 0, "xx", "", "error by supervisor"},
		{"signal", []string{"--restart", "never", "--", "sh", "-c", "kill -KILL $$"}, 137, "", "", "error by supervisor"},
		{"missing", []string{"--", "/nonexistent/prog"}, 127, "", "/nonexistent/prog cannot be started: no such file", ""},
		{"not in the path", []string{"--", "nonexistent-prog"}, 127, "", "nonexistent-prog cannot be started: executable file not found", ""},
		{"no program", []string{"--", "/dev/null"}, 126, "", "/dev/null cannot be started: permission denied", ""},
		{"a directory", []string{"--", "/"}, 126, "", "/ cannot be started: is a directory", ""},
		{"empty", []string{"--"}, 2, "", "name the command to run", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := r.fresh(t)
			code, stdout, stderr := r.ended(c.args...)
			if code != c.code || stdout != "" {
				t.Errorf("code %d, want %d; stdout %q", code, c.code, stdout)
			}
			if c.says == "" && stderr != "" || !strings.Contains(stderr, c.says) {
				t.Errorf("stderr %q, want %q", stderr, c.says)
			}
			runs, _ := os.ReadFile(filepath.Join(r.dir, "runs"))
			if got := strings.ReplaceAll(string(runs), "\n", ""); got != c.runs {
				t.Errorf("it ran %q, want %q", got, c.runs)
			}
			if c.record != "" {
				if got := r.outcome(1); got != c.record {
					t.Errorf("settled %s, want %s", got, c.record)
				}
			}
		})
	}
}

func (r runner) output(t *testing.T) {
	for _, c := range []struct{ name, script, stdout, stderr string }{
		{"both streams", "echo out; echo err >&2", "out\n", "err\n"},
		{"no line break at the end", "printf end", "end\n", ""},
		{"a line longer than a buffer", "head -c 100000 /dev/zero | tr '\\0' x", strings.Repeat("x", 100000) + "\n", ""},
		{"many lines", "seq 1 30000", "", ""},
		{"colours and titles", `printf 'a\033]0;owned\007b\033[31mred\033[0m\n'`, "abred\n", ""},
		{"no UTF-8, NUL, backspace", `printf '\377x\000y\bz\n'`, "\ufffdxyz\n", ""},
		{"clipboard, unterminated", `printf '\033]52;c;aGk=' >&2`, "", "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := r.fresh(t).ended("--", "sh", "-c", c.script)
			if c.name == "many lines" {
				if n := strings.Count(stdout, "\n"); n != 30000 || !strings.HasSuffix(stdout, "\n30000\n") {
					t.Errorf("%d lines came", n)
				}
			} else if stdout != c.stdout {
				t.Errorf("stdout %.200q, want %.200q", stdout, c.stdout)
			}
			if code != 0 || strings.TrimSpace(stderr) != strings.TrimSpace(c.stderr) {
				t.Errorf("code %d, stderr %q", code, stderr)
			}
		})
	}
}

// A signal to run ends all of its child, settled and without a word.
func (r runner) signals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			r := r.fresh(t)
			var stderr bytes.Buffer
			cmd := r.command("--", "sh", "-c", "sleep 600 & echo $$ $! > $DIR/pids; wait")
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pids := r.pids(2)
			_ = cmd.Process.Signal(sig)
			if code := r.code(cmd); code != 128+int(syscall.SIGTERM) || stderr.Len() > 0 {
				t.Errorf("code %d, stderr %q", code, stderr.String())
			}
			r.gone(pids...)
			if got := r.outcome(1); got != "stopped by supervisor" {
				t.Errorf("settled %s", got)
			}
		})
	}
}

// What a killed run leaves is ended and settled by the next one.
func (r runner) killed(t *testing.T) {
	r = r.fresh(t)
	cmd := r.command("--", "sh", "-c", "sleep 600 & echo $$ $! > $DIR/pids; wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := r.pids(2)
	_ = cmd.Process.Kill()
	r.code(cmd)
	if code, stdout, _ := r.ended("--", "echo", "again"); code != 0 || stdout != "again\n" {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
	r.gone(pids...)
	if got := r.outcome(1); got != "lost by supervisor" {
		t.Errorf("settled %s", got)
	}
	if got := r.outcome(2); got != "completed by supervisor" {
		t.Errorf("then settled %s", got)
	}
}

// Neither a reader that stalls nor one that leaves hangs the supervisor.
func (r runner) readers(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(cmd *exec.Cmd, reader io.Closer)
	}{
		{"stalled", func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(syscall.SIGTERM) }},
		{"gone", func(_ *exec.Cmd, reader io.Closer) { _ = reader.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := r.fresh(t)
			cmd := r.command("--", "sh", "-c", "echo $$ > $DIR/pids; exec yes $(head -c 1000 /dev/zero | tr '\\0' y)")
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			cmd.Stdout = writer
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = writer.Close()
			pids := r.pids(1)
			begun := time.Now()
			c.do(cmd, reader)
			if code := r.code(cmd); code != 128+int(syscall.SIGTERM) {
				t.Errorf("code %d", code)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			r.gone(pids...)
			if got := r.outcome(1); got != "stopped by supervisor" {
				t.Errorf("settled %s", got)
			}
		})
	}
}

// A command that is held runs when a person runs it again, and only once; the
// failures of another command are not its own.
func (r runner) held(t *testing.T) {
	r = r.fresh(t)
	config := filepath.Join(r.dir, "config.yaml")
	if err := os.WriteFile(config, []byte("restart_guard: {burst: 2, window: 60s, backoff_min: 10ms, backoff_max: 20ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.environ = append(r.environ, "SESSIONWATCH_CONFIG="+config)
	for i, c := range []struct {
		script, stdout string
		code           int
		held           bool
	}{
		{"echo x; exit 3", "x\nx\n", 3, true},
		{"echo x; exit 3", "x\n", 3, true},
		{"echo y; exit 4", "y\ny\n", 4, true},
		{"echo y; exit 0", "y\n", 0, false},
	} {
		code, stdout, stderr := r.ended("--", "sh", "-c", c.script)
		if code != c.code || stdout != c.stdout || strings.Contains(stderr, "s is held as a crash loop") != c.held {
			t.Errorf("run %d: code %d, stdout %q, stderr %q", i+1, code, stdout, stderr)
		}
	}
}

// Without any server, and none configured, a command runs at once, its end is
// settled in the local file, and a word or two is enough on what is not there.
func TestRunWaitsForNoServer(t *testing.T) {
	for _, port := range []string{"4222", "6379"} {
		if conn, err := net.DialTimeout("tcp", "localhost:"+port, time.Second); err == nil {
			_ = conn.Close()
			t.Skip("a server listens at a default address")
		}
	}
	r := runner{path: asBuilt(t)}.fresh(t)
	cmd := exec.Command(r.path, "run", "--id", "s", "--", "echo", "hello")
	cmd.Env, cmd.Dir = r.environ, r.dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code := r.code(cmd); code != 0 || out.String() != "hello\n" {
		t.Errorf("code %d, stdout %q", code, out.String())
	}
	if n := strings.Count(errs.String(), "\n"); n > 2 {
		t.Errorf("%d lines on stderr:\n%s", n, errs.String())
	}
	if got := r.outcome(1); got != "completed by supervisor" {
		t.Errorf("settled %s", got)
	}
}
