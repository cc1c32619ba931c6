package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// captureRoom is how long a program may take to start on a busy machine.
const captureRoom = 30 * time.Second

// heard is the output of a program, all of it.
type heard struct {
	mu   sync.Mutex
	text []byte
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, p...)
	return len(p), nil
}

func (h *heard) Mark() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.text))
}

func (h *heard) Since(mark int64) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.text[mark:])
}

// agent is a program that a test runs as a supervisor would: in a session of its
// own, its output drained.
type agent struct {
	cmd    *exec.Cmd
	start  uint64
	out    *heard
	exited chan struct{}
}

// startAgent runs a program; unless ready is empty, until that stands in its
// output.
func startAgent(t *testing.T, ready string, argv ...string) *agent {
	t.Helper()
	a := &agent{out: &heard{}, exited: make(chan struct{})}
	a.cmd = exec.Command(argv[0], argv[1:]...)
	a.cmd.Stdout, a.cmd.Stderr = a.out, a.out
	a.cmd.Dir = t.TempDir()
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	a.cmd.WaitDelay = time.Second
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := readStat(a.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	a.start = stat.start
	go func() {
		_ = a.cmd.Wait()
		close(a.exited)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGTERM) // a Java machine takes its files along
		select {
		case <-a.exited:
		case <-time.After(2 * time.Second):
		}
		_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL)
		<-a.exited
	})
	if ready != "" && !sourcetest.Eventually(captureRoom, func() bool { return strings.Contains(string(a.out.Since(0)), ready) }) {
		t.Fatalf("%q did not come:\n%s", ready, a.out.Since(0))
	}
	return a
}

// alive fails unless the program and all of its tree are the processes that they
// were.
func (a *agent) alive(t *testing.T, before []processStat) {
	t.Helper()
	for _, p := range before {
		now, err := readStat(p.pid)
		switch {
		case err != nil || now.start != p.start || now.ended():
			t.Errorf("process %d (%s) did not survive the capture", p.pid, p.comm)
		case now.stopped():
			t.Errorf("process %d (%s) was left stopped", p.pid, p.comm)
		}
	}
}

func (a *agent) tree(t *testing.T) []processStat {
	t.Helper()
	tree, err := readTree(a.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// want asks for one capture of it, on a machine that may be busy.
func (a *agent) want(change func(*CaptureWant)) CaptureWant {
	w := CaptureWant{
		ID: "indexer", Generation: 3, Reason: CaptureStall, Active: true,
		PID: a.cmd.Process.Pid, Start: a.start, Output: a.out, Dump: new(config.Config).DefaultSession().Dump,
	}
	w.Dump.Samples, w.Dump.Timeout, w.Dump.Budget = 1, captureRoom, 4*captureRoom
	if change != nil {
		change(&w)
	}
	return w
}

// testProgram gives the path of a copy of an agent's source, so that it may be
// run and compiled beside what it makes.
func testProgram(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "agents", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".txt"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// compiled is the binary of a program of testdata, which is compiled once.
func compiled(t *testing.T, name string) string {
	t.Helper()
	compiler := "go"
	if filepath.Ext(name) == ".c" {
		compiler = "gcc"
	}
	sourcetest.RealBinary(t, compiler)
	once, _ := compilations.LoadOrStore(name, sync.OnceValues(func() (string, error) { return compile(name) }))
	out, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("%s does not compile: %v", name, err)
	}
	return out
}

var (
	compilations sync.Map
	compiledDir  = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "agents-") })
)

func compile(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("testdata", "agents", name))
	if err != nil {
		return "", err
	}
	dir, err := compiledDir()
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, strings.TrimSuffix(name, ".txt"))
	if err := os.WriteFile(source, text, 0o600); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "agent-"+strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)))
	cmd := exec.Command("gcc", "-g", "-O0", "-pthread", "-o", out, source)
	if filepath.Ext(source) != ".c" {
		cmd = exec.Command("go", "build", "-o", out, source)
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GO111MODULE=off")
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, said)
	}
	return out, nil
}

// stepOf gives what was recorded of a method; the last time if it was tried more
// often.
func stepOf(t *testing.T, got Capture, method string) CaptureStep {
	t.Helper()
	found := CaptureStep{Detail: "no such step"}
	for _, s := range got.Steps {
		if s.Method == method {
			found = s
		}
	}
	return found
}

func describeSteps(got Capture) string {
	var b strings.Builder
	for _, s := range got.Steps {
		_, _ = io.WriteString(&b, "  "+s.Method)
		if s.Taken {
			_, _ = io.WriteString(&b, " taken")
		}
		_, _ = io.WriteString(&b, " in "+s.Took.Round(time.Millisecond).String()+": "+s.Detail+"\n")
	}
	return b.String()
}
