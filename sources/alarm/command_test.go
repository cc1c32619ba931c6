//go:build unix

package alarm

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runCommand runs a line of shell as the command, and gives its error and what is
// logged.
func runCommand(t *testing.T, timeout time.Duration, environ []string, script string) (log string, err error) {
	t.Helper()
	var text bytes.Buffer
	if environ == nil {
		environ = os.Environ()
	}
	c := newCommand(&Options{Command: []string{"/bin/sh", "-c", script}, Timeout: timeout, Environ: environ, Logger: slog.New(slog.NewTextHandler(&text, nil))})
	began := time.Now()
	err = c.send(context.Background(), anAlarm())
	if took := time.Since(began); took > timeout+5*time.Second {
		t.Errorf("it takes %v", took)
	}
	return text.String(), err
}

func TestCommandIsTold(t *testing.T) {
	dir := t.TempDir()
	environ := append(os.Environ(), "NATS_URL=nats://u:hunter2@a", "REDIS_URL=redis://:hunter2@a", "SESSIONWATCH_TOKEN=hunter2",
		"SESSIONWATCH_CONFIG=/x", "NOTIFY_SOCKET=/x", "OTHER=kept")
	log, err := runCommand(t, 10*time.Second, environ, "cat > "+dir+"/in; env > "+dir+"/env; pwd > "+dir+"/pwd; echo paged ops1")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if in := read("in"); !strings.HasPrefix(in, `{"id":"ABC",`) || !strings.HasSuffix(in, "}\n") || strings.Count(in, "\n") != 1 {
		t.Errorf("it reads %q", in)
	}
	env := read("env")
	if strings.Contains(env, "hunter2") || strings.Contains(env, "SESSIONWATCH_CONFIG") || strings.Contains(env, "NOTIFY_SOCKET") {
		t.Errorf("it is told what is not meant for it:\n%s", env)
	}
	if !strings.Contains(env, "OTHER=kept\n") || !strings.Contains(env, "SESSIONWATCH_ALERT=STALLED batch-job-abc123 #3") {
		t.Errorf("it is not told what is:\n%s", env)
	}
	if read("pwd") != "/\n" {
		t.Errorf("it stands in %s", read("pwd"))
	}
	if !strings.Contains(log, "paged ops1") {
		t.Errorf("its output is not in the log: %s", log)
	}
}

// alive reports whether the process runs whose id stands in a file; a zombie does
// not.
func alive(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func gone(t *testing.T, file string) {
	t.Helper()
	for until := time.Now().Add(5 * time.Second); alive(t, file); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Error("what the command started is left")
			return
		}
	}
}

func TestCommandThatHangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	_, err := runCommand(t, 500*time.Millisecond, nil, "trap '' TERM; sleep 60 & echo $! > "+file+"; echo waiting; wait; sleep 60")
	if err == nil || !strings.Contains(err.Error(), "did not end within 500ms and was killed: waiting") {
		t.Errorf("it says %v", err)
	}
	gone(t, file)
}

func TestCommandThatForks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what is left can be ended on Linux only")
	}
	file := filepath.Join(t.TempDir(), "pid")
	began := time.Now()
	_, err := runCommand(t, 20*time.Second, nil, "sleep 60 & echo $! > "+file)
	if err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	gone(t, file)
}

// TestCommandWhoseChildLeaves waits for nobody who left the group and holds the
// pipes.
func TestCommandWhoseChildLeaves(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	_, err := runCommand(t, 20*time.Second, nil, "command -v setsid > /dev/null || exit 0; setsid sh -c 'echo $$ > "+file+"; sleep 60' & while [ ! -s "+file+" ]; do sleep 0.05; done")
	if err != nil {
		t.Errorf("it says %v", err)
	}
	if text, err := os.ReadFile(file); err == nil {
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

func TestCommandThatFails(t *testing.T) {
	log, err := runCommand(t, 10*time.Second, nil, "printf 'no\\033[2J such pager' >&2; exit 3")
	if err == nil || err.Error() != "the command sh ended with exit status 3: no such pager" {
		t.Errorf("it says %v", err)
	}
	if !strings.Contains(log, "exit=3") {
		t.Errorf("it is logged as %s", log)
	}
	c := newCommand(&Options{Command: []string{"/no/such/pager"}, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err := c.send(t.Context(), anAlarm()); err == nil || !strings.Contains(err.Error(), "pager cannot be run: no such file") {
		t.Errorf("a command that is not there: %v", err)
	}
}

func TestCommandThatSaysMuch(t *testing.T) {
	log, err := runCommand(t, 20*time.Second, nil, "head -c 20000000 /dev/zero | tr '\\0' x; echo the end")
	if err != nil {
		t.Fatal(err)
	}
	if len(log) > 4<<10 || !strings.Contains(log, "xxxthe end") {
		t.Errorf("%d bytes of it are logged", len(log))
	}
}

// TestCommandThatReadsNothing ends although its input is not taken.
func TestCommandThatReadsNothing(t *testing.T) {
	if _, err := runCommand(t, 10*time.Second, nil, "exit 0"); err != nil {
		t.Errorf("it says %v", err)
	}
}
