//go:build linux && !race

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

const dumpConfig = "commands: {trust_loopback: true}\npublish: {interval: 1s, redis_ttl: 5s}\npolicy: {sweep_interval: 1s}\n"

// pythonAgent hangs in a call of its loop, and shows its stacks on SIGUSR1.
const pythonAgent = `import asyncio, faulthandler, signal, sys, time
faulthandler.register(signal.SIGUSR1, all_threads=True)
def call_tool():
    while True:
        time.sleep(0.2)
        print("working", flush=True)
async def main():
    call_tool()
asyncio.run(main())
`

// onBus starts a bus and gives the flags that lead to it alone, and its address.
func onBus(t *testing.T, bus string) (sources []string, address string) {
	t.Helper()
	if bus == "NATS" {
		_, address = keepingNATS(t)
		return []string{"--nats", "nats://" + address, "--redis", "-"}, address
	}
	_, address = keepingRedis(t)
	return []string{"--nats", "-", "--redis", "redis://" + address}, address
}

// eachBus runs a test over both.
func eachBus(t *testing.T, test func(t *testing.T, bus string)) {
	for _, bus := range []string{"NATS", "Redis"} {
		t.Run(bus, func(t *testing.T) { test(t, bus) })
	}
}

// listed is what dumps --json tells.
type listed struct {
	ID, Reason, Method, Format, Verdict string
	Culprit                             *string
	Bytes                               int64
	Truncated                           bool
}

// dumps lists what the operator has.
func (y *yard) dumps(args ...string) (list []listed) {
	y.t.Helper()
	out := y.prints("dumps", append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		y.t.Fatalf("dumps prints %q: %v", out, err)
	}
	return list
}

// prints is what a command of the operator prints.
func (y *yard) prints(command string, args ...string) string {
	y.t.Helper()
	cmd := program(y.t, y.here, append(append([]string{command}, args...), "--config", y.config)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		y.t.Fatalf("%s %v: %v, %s", command, args, err, said.String())
	}
	return out.String()
}

// private checks that nobody else may read what the operator has.
func (y *yard) private() {
	y.t.Helper()
	files := 0
	_ = filepath.Walk(filepath.Join(y.state, "sessionwatch", "dumps"), func(path string, info os.FileInfo, err error) error {
		switch {
		case err != nil:
			y.t.Error(err)
		case info.IsDir() && info.Mode().Perm() != 0o700, !info.IsDir() && info.Mode().Perm() != 0o600:
			y.t.Errorf("%s has mode %o", path, info.Mode().Perm())
		case !info.IsDir():
			files++
		}
		return nil
	})
	if files == 0 {
		y.t.Error("no dump is kept")
	}
}

// TestDumpOfARemoteSessionIsReadWhereItWasAskedFor: a Python program that another
// machine's run supervises. Its dump comes over the bus, stands in the data
// directory of who asked, says what it shows, and the viewer opens it.
func TestDumpOfARemoteSessionIsReadWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	python := sourcetest.RealBinary(t, "python3")
	eachBus(t, func(t *testing.T, bus string) {
		t.Parallel()
		sources, _ := onBus(t, bus)
		y := yardOf(t, dumpConfig, sources)
		script := filepath.Join(y.path, "agent.py")
		if err := os.WriteFile(script, []byte(pythonAgent), 0o600); err != nil {
			t.Fatal(err)
		}
		y.runs("s", python, script)
		// One that has just begun is dumped from outside: who handles a signal is looked at once it has worked for a while.
		if !sourcetest.Eventually(20*time.Second, func() bool { return strings.Count(y.says.String(), "working") > 10 }) {
			t.Fatalf("it never works: %s", y.says.String())
		}
		a := y.want(0, "effective", "agent.py:5 call_tool", "dump", "s", "--yes")
		if !regexp.MustCompile(`^s@\d{8}T\d{6}\.\d{3}Z, \d+ k?B, from run@.+: wedged, `).MatchString(a.Detail) {
			t.Errorf("the detail is %q", a.Detail)
		}
		list := y.dumps("s")
		if len(list) != 1 {
			t.Fatalf("listed are %+v", list)
		}
		d := list[0]
		if name, _, _ := strings.Cut(a.Detail, ","); d.ID != name || d.Reason != "asked" || d.Format != "py-faulthandler" ||
			d.Verdict != "wedged" || d.Culprit == nil || !strings.Contains(*d.Culprit, "agent.py:5 call_tool") || d.Truncated || d.Bytes < 100 {
			t.Errorf("it is listed as %+v", d)
		}
		y.private()
		text := y.prints("dumps", "s", "--show", d.ID)
		if !strings.Contains(text, "most recent call first") || !strings.Contains(text, "call_tool") {
			t.Errorf("it reads:\n%s", text)
		}
		y.want(0, "effective", "from run@", "dump", "s", "--yes")
		if list := y.dumps(); len(list) != 2 {
			t.Errorf("after a second one there are %+v", list)
		}
	})
}

// TestDumpOnTheSameMachineIsKeptOnce: who asks shares the data directory with the
// run that takes it.
func TestDumpOnTheSameMachineIsKeptOnce(t *testing.T) {
	sources, _ := onBus(t, "NATS")
	y := newYard(t, dumpConfig, sources...)
	y.here = y.there
	y.pid(1)
	y.want(0, "effective", "from run@", "dump", "s", "--yes")
	if list := y.dumps("s"); len(list) != 1 {
		t.Errorf("it is listed as %+v", list)
	}
}

// TestDumpOfAGuardedAgent: an agent that embeds the guard and supervises itself.
func TestDumpOfAGuardedAgent(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, bus string) {
		sources, address := onBus(t, bus)
		y := yardOf(t, dumpConfig, sources)
		rules := orders.Rules{TrustLoopback: true}
		o := guard.Options{ID: "go-agent", Interval: time.Second, RedisTTL: 5 * time.Second}
		if bus == "NATS" {
			options := natsbus.Options{URLs: []string{"nats://" + address}}
			inbox, err := natsbus.OpenInbox(options, natsbus.CommandOptions{Rules: rules}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer inbox.Close()
			beats, err := natsbus.OpenGuard(options, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer beats.Close()
			o.Commands, o.Publishers = []watchdog.CommandInbox{inbox}, []guard.Publisher{beats}
		} else {
			options := redisstore.Options{URL: "redis://" + address}
			inbox, err := redisstore.OpenInbox(options, redisstore.CommandOptions{Rules: rules}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer inbox.Close()
			beats, err := redisstore.OpenGuard(options, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer beats.Close()
			o.Commands, o.Publishers = []watchdog.CommandInbox{inbox}, []guard.Publisher{beats}
		}
		s, _, err := guard.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		y.want(0, "effective", "from "+orders.ProcessName("guard"), "dump", "go-agent", "--yes")
		list := y.dumps("go-agent")
		if len(list) != 1 || list[0].Format != "go" || list[0].Method != "guard" {
			t.Fatalf("listed are %+v", list)
		}
		if text := y.prints("dumps", "go-agent", "--show", "1"); !strings.Contains(text, "TestDumpOfAGuardedAgent") {
			t.Errorf("it reads:\n%.600s", text)
		}
	})
}

// silentSender is an agent whose dumps get lost.
type silentSender struct{}

func (silentSender) PublishDump(context.Context, guard.Dump) error { return nil }

// TestDumpThatDoesNotArrive: it was taken, and that is what is said, with the
// reason why it is not here.
func TestDumpThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	sources, address := onBus(t, "NATS")
	y := yardOf(t, dumpConfig, sources)
	options := natsbus.Options{URLs: []string{"nats://" + address}}
	inbox, err := natsbus.OpenInbox(options, natsbus.CommandOptions{Rules: orders.Rules{TrustLoopback: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Close()
	beats, err := natsbus.OpenGuard(options, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer beats.Close()
	s, _, err := guard.Start(t.Context(), guard.Options{ID: "go-agent", Interval: time.Second, RedisTTL: 5 * time.Second,
		Commands: []watchdog.CommandInbox{inbox}, Publishers: []guard.Publisher{beats}, Dumps: silentSender{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y.want(0, "effective", "goroutines, ", "dump", "go-agent", "--yes")
	y.audited(`"fate":"effective"`, "the dump did not arrive: none came")
	if list := y.dumps(); len(list) != 0 {
		t.Errorf("listed are %+v", list)
	}
}

// TestDumpThroughAServe: the serve that is asked keeps it, and its screens and
// commands read it there.
func TestDumpThroughAServe(t *testing.T) {
	t.Parallel()
	sources, _ := onBus(t, "NATS")
	y := newYard(t, dumpConfig, sources...)
	y.pid(1)
	serve := program(t, y.here, append([]string{"serve", "--listen", "-", "--config", y.config}, sources...)...)
	var says shared
	serve.Stdout, serve.Stderr = &says, &says
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = serve.Wait()
	}()
	socket := filepath.Join(y.state, "sessionwatch", "serve.sock")
	if !sourcetest.Eventually(20*time.Second, func() bool { _, err := os.Stat(socket); return err == nil }) {
		t.Fatalf("it offers no view: %s", says.String())
	}
	var a told
	if !sourcetest.Eventually(20*time.Second, func() bool {
		var code int
		code, a, _ = y.act("dump", "s", "--yes", "--serve", socket)
		return code == 0
	}) {
		t.Fatalf("it is %s: %s", a.Fate, a.Detail)
	}
	if !strings.Contains(a.Detail, "from run@") {
		t.Errorf("the detail is %q", a.Detail)
	}
	list := y.dumps("s")
	if len(list) != 1 || !strings.HasPrefix(a.Detail, list[0].ID) {
		t.Fatalf("the serve lists %+v", list)
	}
	if text := y.prints("dumps", "s", "--show", "1"); len(text) == 0 {
		t.Error("it is empty")
	}
	y.private()
}

// TestDumpThatASupervisorTookIsReadElsewhere: it stalls by night, and the operator
// of another machine finds its dump in the morning, once, though its run is gone.
func TestDumpThatASupervisorTookIsReadElsewhere(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, bus string) {
		t.Parallel()
		sources, _ := onBus(t, bus)
		y := yardOf(t, dumpConfig, sources)
		y.runs("night", "sh", "-c", `echo "goroutine 1 [running]:"; echo "main.main()"; echo "	/a/main.go:7 +0x1d"; sleep 0.3; exit 75`)
		look := append([]string{"night"}, sources...)
		if !sourcetest.Eventually(60*time.Second, func() bool { return len(y.dumps(look...)) > 0 }) {
			t.Fatalf("it is found nowhere; the run says:\n%s", y.says.String())
		}
		_ = y.run.Process.Signal(syscall.SIGTERM)
		_ = y.run.Wait()
		list := y.dumps(look...)
		if len(list) != 1 || list[0].Reason != "exit" || list[0].Format == "" || list[0].Bytes == 0 {
			t.Fatalf("it is listed as %+v", list)
		}
		if list := y.dumps(sources...); len(list) != 1 {
			t.Errorf("read again, it is listed as %+v", list)
		}
		if text := y.prints("dumps", "night", "--show", list[0].ID); !strings.Contains(text, "main.go:7") {
			t.Errorf("it reads:\n%s", text)
		}
		y.private()
		y.here = y.there // whose data directory has it anyway
		if list := y.dumps(look...); len(list) == 0 {
			t.Error("it is gone where it was taken")
		} else if n := len(list); n > 1 && list[0].ID == list[1].ID {
			t.Errorf("there it is listed twice: %+v", list)
		}
	})
}
