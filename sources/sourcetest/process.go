//go:build unix

package sourcetest

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// RealBinary finds a real server. The test is skipped without it, and fails
// where SESSIONWATCH_TEST_REAL=1 demands it.
func RealBinary(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} { // often not in an ordinary user's PATH
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	if os.Getenv("SESSIONWATCH_TEST_REAL") == "1" {
		t.Fatalf("%s is not installed, and SESSIONWATCH_TEST_REAL=1 demands it", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

// FreePort gives a loopback port that was free a moment ago, and each of them
// only once: a server that is away for a while finds its own again. They are
// below those that systems give to connections, one of which could have it by
// then, even to itself.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 15_000 + rand.IntN(17_000)
		if _, again := givenPorts.LoadOrStore(port, true); again {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free between 15000 and 32000")
	return 0
}

var givenPorts sync.Map

// AtOnce says how many parallel tests run at once if -parallel does not say so:
// more than there are processors, where tests mostly wait. It is for a TestMain.
func AtOnce(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// Process is a server that runs as a process of its own and is ended with the
// test.
type Process struct {
	path string
	args []string
	port int

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	output bytes.Buffer
}

// StartProcess starts a server and waits until its port takes connections.
func StartProcess(t testing.TB, path string, port int, args ...string) *Process {
	t.Helper()
	p := &Process{path: path, args: args, port: port}
	p.Restart(t)
	t.Cleanup(func() {
		select {
		case <-p.exited: // nobody who killed it left it so
			if t.Failed() {
				t.Logf("%s had ended by itself, or was killed and not started again:\n%.4000s", path, p.output.String())
			}
		default:
		}
		p.Resume(t)
		p.Kill(t)
	})
	return p
}

// Restart starts the process again after Kill.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	p.output.Reset()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	exited := make(chan struct{})
	if err := cmd.Start(); err != nil {
		p.mu.Unlock()
		t.Fatalf("%s does not start: %v", p.path, err)
	}
	p.cmd, p.exited = cmd, exited
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	ended := func() bool {
		select {
		case <-exited:
			return true
		default:
			return false
		}
	}
	up := Eventually(60*time.Second, func() bool {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil || ended()
	})
	if ended() {
		t.Fatalf("%s ended at once:\n%s", p.path, p.output.String())
	}
	if !up {
		t.Fatalf("%s does not listen on port %d", p.path, p.port)
	}
}

// Kill ends it with SIGKILL and waits until it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// Pause stops it with SIGSTOP; its sockets stay open and nobody answers. A thread
// that ran goes on for a moment, and could answer: Pause waits for all of them.
func (p *Process) Pause(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGSTOP)
	if !Eventually(60*time.Second, func() bool { return standsStill(p.cmd.Process.Pid) }) {
		t.Fatalf("%s does not stop", p.path)
	}
}

// standsStill reports whether every thread of a process is stopped, as far as
// the system tells.
func standsStill(pid int) bool {
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		// The state is the first letter after the name, which may hold anything.
		if _, state, ok := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" ")); err == nil && ok && state[0] != 'T' {
			return false
		}
	}
	return true
}

// Resume continues it with SIGCONT.
func (p *Process) Resume(t testing.TB) { t.Helper(); p.signal(syscall.SIGCONT) }

// Reload asks it to read its configuration again, with SIGHUP.
func (p *Process) Reload(t testing.TB) { t.Helper(); p.signal(syscall.SIGHUP) }

func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(s)
}
