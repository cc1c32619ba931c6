package cli_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/ui/cli"
)

// inProcess is an Env without a terminal that ends when interrupt is called.
func inProcess(t *testing.T, stdout, stderr io.Writer, environ ...string) (env cli.Env, interrupt func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return cli.Env{
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Environ: environ,
		Interrupts: func(context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
	}, cancel
}

// shared is a standard error that several goroutines write to.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestBusServesUntilInterrupted(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	out, in := io.Pipe()
	var stderr strings.Builder
	env, interrupt := inProcess(t, in, &stderr)
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main([]string{"bus", "--nats-port", "0", "--redis-port", "0"}, env)
		in.Close()
	}()
	addresses := map[string]string{}
	lines := bufio.NewScanner(out)
	hint := ""
	for lines.Scan() {
		if name, address, ok := strings.Cut(lines.Text(), " "); ok && (name == "NATS" || name == "Redis") {
			addresses[name] = strings.TrimSpace(address)
		}
		if strings.Contains(lines.Text(), "beat hello") {
			hint = lines.Text()
		}
		if strings.Contains(lines.Text(), "interrupt to end it") {
			break
		}
	}
	if !strings.Contains(hint, "--nats "+addresses["NATS"]) || !strings.Contains(hint, "--redis "+addresses["Redis"]) {
		t.Errorf("the hint %q does not lead to %v", hint, addresses)
	}

	var beatOut, beatErr strings.Builder
	beatEnv, _ := inProcess(t, &beatOut, &beatErr, "NATS_URL="+addresses["NATS"], "REDIS_URL="+addresses["Redis"], "HOME="+t.TempDir())
	if code := cli.Main([]string{"beat", "hello"}, beatEnv); code != 0 {
		t.Errorf("beat: exit code %d, %s", code, beatErr.String())
	}
	if got := strings.Count(beatOut.String(), "delivered to "); got != 2 {
		t.Errorf("the beat was delivered to %d servers: %q", got, beatOut.String())
	}

	interrupt()
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("exit code %d, %s", code, stderr.String())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("bus did not end 10 s after the interrupt")
	}
}

func TestPanicIsAFaultOfOurs(t *testing.T) {
	var stderr strings.Builder
	env, _ := inProcess(t, panicking{}, &stderr)
	if code := cli.Main([]string{"version"}, env); code != 75 {
		t.Errorf("exit code %d, want 75", code)
	}
	if !strings.Contains(stderr.String(), "a fault of our own: no paper") {
		t.Errorf("stderr: %q", stderr.String())
	}
}

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("no paper") }

func TestUnwritableAnswerIsBadNews(t *testing.T) {
	var stderr strings.Builder
	env, _ := inProcess(t, full{}, &stderr)
	if code := cli.Main([]string{"version", "--json"}, env); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestTheGuardianIsNobodysCommand(t *testing.T) {
	var out, complaint strings.Builder
	env, _ := inProcess(t, &out, &complaint, "SESSIONWATCH_TERMINAL_GUARDIAN=1")
	if code := cli.Main([]string{"--terminal-guardian"}, env); code != 2 || !strings.Contains(complaint.String(), "unknown flag") {
		t.Errorf("exit code %d, %s", code, complaint.String())
	}
	if cli.Main([]string{"--help"}, env); strings.Contains(out.String(), "guardian") {
		t.Error("the guardian is seen in help")
	}
}
