package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/ui/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"sessionwatch":          func() { os.Exit(cli.Main(os.Args[1:], cli.System())) },
		"sessionwatch-wedging":  func() { os.Exit(mainThatWedges()) },
		"sessionwatch-engining": func() { os.Exit(cli.MainWithWedgingEngine(os.Args[1:], cli.System())) },
	})
}

// TestScripts runs the commands of testdata/script as processes of their own,
// against embedded servers and a producer that is a bare socket.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			// Nothing listens there: no script may find a server that it did
			// not start.
			e.Setenv("NATS_URL", "nats://127.0.0.1:1")
			e.Setenv("REDIS_URL", "redis://127.0.0.1:1")
			return os.Mkdir(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"servers": startServers,
			"rawbeat": sendRawBeat,
			"exits":   runForCode,
			"plain":   outputIsPlain,
			"mode":    fileHasMode,
			"private": makePrivate,
		},
	})
}

// servers are embedded ones.
type servers struct{ nats, redis string }

func newServers(t testing.TB) servers {
	t.Helper()
	n, err := embedded.StartNATS(embedded.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	r, err := embedded.StartRedis(embedded.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return servers{n.ClientURL(), r.URL()}
}

// startServers starts embedded servers for this script and sets NATS_URL and
// REDIS_URL to them.
func startServers(ts *testscript.TestScript, _ bool, _ []string) {
	n, err := embedded.StartNATS(embedded.NATSOptions{})
	ts.Check(err)
	ts.Defer(n.Close)
	r, err := embedded.StartRedis(embedded.RedisOptions{})
	ts.Check(err)
	ts.Defer(r.Close)
	ts.Setenv("NATS_URL", n.ClientURL())
	ts.Setenv("REDIS_URL", r.URL())
}

// sendRawBeat says a beat as a foreign producer does, byte by byte:
// rawbeat nats|redis ID JSON. "@file" reads the JSON from a file.
func sendRawBeat(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: rawbeat nats|redis ID JSON")
	}
	body := args[2]
	if name, ok := strings.CutPrefix(body, "@"); ok {
		body = strings.TrimSpace(ts.ReadFile(name))
	}
	var err error
	switch args[0] {
	case "nats":
		err = natsSay(ts.Getenv("NATS_URL"), "agent.liveness."+args[1], body)
	case "redis":
		err = redisSay(ts.Getenv("REDIS_URL"), "agent:liveness:"+args[1], body)
	}
	ts.Check(err)
}

func dial(address string) (net.Conn, *bufio.Reader, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	c, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
	if err != nil {
		return nil, nil, err
	}
	return c, bufio.NewReader(c), c.SetDeadline(time.Now().Add(5 * time.Second))
}

func natsSay(address, subject, body string) error {
	c, in, err := dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT {\"verbose\":false}\r\nPUB %s %d\r\n%s\r\nPING\r\n", subject, len(body), body)
	for {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, "PONG"):
			return nil
		case strings.HasPrefix(line, "-ERR"):
			return errors.New(line)
		}
	}
}

func redisSay(address, key, body string) error {
	c, in, err := dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	words := []string{"SET", key, body, "EX", "60"}
	fmt.Fprintf(c, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(w), w)
	}
	line, err := in.ReadString('\n')
	if err == nil && line != "+OK\r\n" {
		err = errors.New(line)
	}
	return err
}

// runForCode runs a command that must end with an exit code: exits 78 command...
func runForCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// outputIsPlain fails if the last command wrote a control byte: what came from
// a bus must not reach a terminal, and without one there are no escape codes.
func outputIsPlain(ts *testscript.TestScript, _ bool, _ []string) {
	for _, name := range []string{"stdout", "stderr"} {
		for i, r := range ts.ReadFile(name) {
			if r != '\n' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x200b) {
				ts.Fatalf("%s holds the control character %U at %d", name, r, i)
			}
		}
	}
}

// fileHasMode checks the permissions of a file: mode 600 file.
func fileHasMode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := info.Mode().Perm(); got != os.FileMode(want) {
		ts.Fatalf("%s has mode %v, want %v", args[1], got, os.FileMode(want))
	}
}

// makePrivate gives files of the script to their owner alone.
func makePrivate(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.Chmod(ts.MkAbs(name), 0o600))
	}
}
