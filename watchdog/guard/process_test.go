//go:build unix

package guard_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// childVariable makes the test binary play an agent with a watchdog instead of
// running tests.
const childVariable = "GUARD_TEST_CHILD"

func TestMain(m *testing.M) {
	switch how := os.Getenv(childVariable); how {
	case "":
	case "session":
		guarded()
		return
	default:
		child(how)
		return
	}
	goleak.VerifyTestMain(m)
}

// child is a program with an event loop, watched at 50 ms x 4. Standard input
// tells it when to end.
func child(how string) {
	events := make(chan func(), 4)
	o := guard.LoopOptions{
		Post:     func(ack func()) bool { events <- ack; return true },
		Interval: 50 * time.Millisecond, Strikes: 4,
		DumpFile: os.Getenv("GUARD_TEST_DUMP"),
		DumpOnly: how == "dump only",
	}
	if how == "step" {
		o.Interval, o.Strikes = 2*time.Second, 1
		events <- func() {
			for range 24 { // 1.2 s of running time
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	l, err := guard.NewLoop(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(guard.ExitConfig)
	}
	l.Arm()
	defer fmt.Println("deferred clean-up")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		events <- func() { l.Disarm(); os.Exit(0) }
	}()
	fmt.Println("armed")
	var mu sync.Mutex
	mu.Lock()
	switch how {
	case "sleep":
		events <- func() { time.Sleep(time.Hour) }
	case "deadlock":
		events <- mu.Lock
	case "busy":
		var turns atomic.Int64
		events <- func() {
			for {
				turns.Add(1)
			}
		}
	case "dump only":
		events <- func() { time.Sleep(time.Second); fmt.Println("worked on") }
	}
	for f := range events {
		f()
	}
}

// agent is a child under way.
type agent struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func startChild(t *testing.T, how, dump string, stderr any) *agent {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+how, "GUARD_TEST_DUMP="+dump)
	switch w := stderr.(type) {
	case *os.File:
		cmd.Stderr = w
	case io.Writer:
		cmd.Stderr = w
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &agent{Cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := a.stdout.ReadString('\n'); line != "armed\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return a
}

// ends waits for the child and gives its exit code.
func (a *agent) ends(t *testing.T) (code int, rest string) {
	t.Helper()
	overdue := time.AfterFunc(60*time.Second, func() { _ = a.Process.Kill() })
	defer overdue.Stop()
	text, _ := io.ReadAll(a.stdout)
	err := a.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return a.ProcessState.ExitCode(), string(text)
}

func TestWedgedProcessesExitWithTheDump(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"sleep", "deadlock", "busy"} {
		t.Run(how, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "dump")
			var stderr bytes.Buffer
			code, rest := startChild(t, how, file, &stderr).ends(t)
			if code != guard.ExitRestart || strings.Contains(rest, "deferred") {
				t.Errorf("exit %d, said %q", code, rest)
			}
			kept, err := os.ReadFile(file)
			for name, text := range map[string]string{"stderr": stderr.String(), "file": string(kept)} {
				if !strings.Contains(text, "event loop made no progress for about ") || !strings.Contains(text, "guard_test.child(") {
					t.Errorf("%s: %v, %.300s", name, err, text)
				}
			}
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			if last := lines[len(lines)-1]; !strings.Contains(last, "exit 75; dump in "+file) {
				t.Errorf("the last line is %q", last)
			}
		})
	}
}

func TestHealthyProcessExitsAsItWants(t *testing.T) {
	a := startChild(t, "healthy", "", nil)
	_ = a.stdin.Close()
	if code, _ := a.ends(t); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestDumpOnlyProcessWorksOn(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	a := startChild(t, "dump only", "", &stderr)
	if line, err := a.stdout.ReadString('\n'); line != "worked on\n" {
		t.Fatalf("said %q, %v", line, err)
	}
	_ = a.stdin.Close()
	if code, _ := a.ends(t); code != 0 || !strings.Contains(stderr.String(), "made no progress") {
		t.Errorf("exit %d, dump of %d bytes", code, stderr.Len())
	}
}

// fault 11, and 39 seen from the child
func TestBlockedStderrDoesNotPreventTheExit(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := int(w.Fd()) // it is blocking from now on
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for { // full, and nobody drains it
		if _, err := syscall.Write(fd, make([]byte, 4096)); err != nil {
			break
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dump")
	began := time.Now()
	code, _ := startChild(t, "deadlock", file, w).ends(t)
	if code != guard.ExitRestart {
		t.Errorf("exit %d", code)
	}
	if text, _ := os.ReadFile(file); !strings.Contains(string(text), "guard_test.child(") {
		t.Errorf("the file has %d bytes of the dump", len(text))
	}
	t.Logf("exit after %v", time.Since(began))
}

func TestUnwritableDumpFileDoesNotPreventTheExit(t *testing.T) {
	t.Parallel()
	files := []string{t.TempDir(), "/proc/self/no/such/place"}
	if _, err := os.Stat("/dev/full"); err == nil {
		files = append(files, "/dev/full")
	}
	for _, file := range files {
		var stderr bytes.Buffer
		code, _ := startChild(t, "sleep", file, &stderr).ends(t)
		if code != guard.ExitRestart || !strings.Contains(stderr.String(), "guard_test.child(") || !strings.Contains(stderr.String(), "exit 75; the dump file cannot be opened") {
			t.Errorf("%s: exit %d, stderr %.200s", file, code, stderr.String())
		}
	}
}

// fault 11: one whose loop is idle, and one that is stopped in the midst of a
// step, with a probe unanswered.
func TestStoppedProcessIsNotWedged(t *testing.T) {
	t.Parallel()
	for how, stop := range map[string]time.Duration{"healthy": 600 * time.Millisecond, "step": 4 * time.Second} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			a := startChild(t, how, "", &stderr)
			<-time.After(500 * time.Millisecond)
			if err := a.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			// Longer than its watchdog waits for a loop. There is no condition to
			// poll for: what is awaited is that nothing happens.
			<-time.After(stop)
			if err := a.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			<-time.After(300 * time.Millisecond)
			_ = a.stdin.Close()
			if code, _ := a.ends(t); code != 0 || stderr.Len() != 0 {
				t.Errorf("exit %d, stderr %.300s", code, stderr.String())
			}
		})
	}
}

// guarded is a program that works without a pause, guarded by a session that
// stalls after a second.
func guarded() {
	stalled := onStall(func() { fmt.Println("stalled") })
	s, _, err := guard.Start(context.Background(), guard.Options{
		ID: "s", Publishers: []guard.Publisher{stalled}, StallTimeout: time.Second, Interval: 200 * time.Millisecond, RedisTTL: time.Second,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(guard.ExitConfig)
	}
	fmt.Println("armed")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Complete()
		_ = s.Close()
		os.Exit(0)
	}()
	for range time.Tick(20 * time.Millisecond) {
		s.Touch()
	}
}

// onStall is a publisher that is called for every stalled beat.
type onStall func()

func (f onStall) Publish(_ context.Context, m guard.Message) error {
	if m.Beat.State == watchdog.StateStalled {
		f()
	}
	return nil
}

// fault 6, as an agent meets it
func TestStoppedProcessIsNotStalled(t *testing.T) {
	t.Parallel()
	a := startChild(t, "session", "", nil)
	for range 2 {
		if err := a.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		<-time.After(2500 * time.Millisecond)
		if err := a.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		<-time.After(300 * time.Millisecond)
	}
	_ = a.stdin.Close()
	if code, said := a.ends(t); code != 0 || said != "" {
		t.Errorf("exit %d, said %q", code, said)
	}
}
