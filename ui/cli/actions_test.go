//go:build linux && !race

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// yard is a `run` of one session on a bus, and an operator on another machine:
// with a data directory of its own, and nothing but the bus between them.
type yard struct {
	t       *testing.T
	path    string   // of the session's own files
	sources []string // --nats, --redis
	config  string
	there   []string // environment of the run
	here    []string // environment of the operator
	state   string   // data of the operator
	run     *exec.Cmd
	says    shared
}

// yardOf is a yard in which nothing runs yet.
func yardOf(t *testing.T, config string, sources []string) *yard {
	t.Helper()
	y := &yard{t: t, path: t.TempDir(), sources: sources, state: t.TempDir()}
	y.config = filepath.Join(y.path, "config.yaml")
	if err := os.WriteFile(y.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	y.there = alone(t, "XDG_STATE_HOME="+t.TempDir(), "PIDS="+filepath.Join(y.path, "pids"))
	y.here = alone(t, "XDG_STATE_HOME="+y.state)
	return y
}

// newYard starts a session that notes its pids, a line each, and works on.
func newYard(t *testing.T, config string, sources ...string) *yard {
	t.Helper()
	y := yardOf(t, config, sources)
	y.runs("s", "sh", "-c", `echo $$ >> "$PIDS"; while :; do echo working; sleep 0.2; done`)
	return y
}

// runs starts a session under a run.
func (y *yard) runs(id string, command ...string) {
	t := y.t
	t.Helper()
	y.run = program(t, y.there, append(append([]string{"run", "--id", id, "--config", y.config}, y.sources...), append([]string{"--"}, command...)...)...)
	y.run.Stdout, y.run.Stderr = &y.says, &y.says
	if err := y.run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = y.run.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = y.run.Wait()
	})
}

// pid is the process of the newest of n runs.
func (y *yard) pid(n int) int {
	y.t.Helper()
	pid := 0
	if !sourcetest.Eventually(20*time.Second, func() bool {
		text, _ := os.ReadFile(filepath.Join(y.path, "pids"))
		words := strings.Fields(string(text))
		if len(words) != n {
			return false
		}
		pid, _ = strconv.Atoi(words[n-1])
		return pid > 0
	}) {
		y.t.Fatalf("%d runs did not come about; the run says:\n%s", n, y.says.String())
	}
	return pid
}

// told is what the command line tells of an action.
type told struct {
	Op, Fate, Detail, By string
	Next                 *string
	Generation           *int
}

// act gives an action and waits for its fate.
func (y *yard) act(args ...string) (code int, a told, errs string) {
	y.t.Helper()
	cmd := program(y.t, y.here, append(append(args, "--json", "--config", y.config, "--wait", "4s"), y.sources...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	_ = cmd.Run() // the code tells
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &a); err != nil {
			y.t.Fatalf("%v prints %q: %v", args, out.String(), err)
		}
	}
	return cmd.ProcessState.ExitCode(), a, said.String()
}

func (y *yard) want(code int, fate, word string, args ...string) told {
	y.t.Helper()
	got, a, errs := y.act(args...)
	if got != code || a.Fate != fate || !strings.Contains(a.Detail, word) {
		y.t.Fatalf("%v: code %d, %s (%s), %s; want %d, %s with %q", args, got, a.Fate, a.Detail, errs, code, fate, word)
	}
	return a
}

func (y *yard) lives(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestActionsReachASessionOnAnotherMachine: dump, restart and stop of a remote
// run, each with the truth for its fate; a newer generation is never touched.
func TestActionsReachASessionOnAnotherMachine(t *testing.T) {
	t.Parallel()
	for _, bus := range []string{"NATS", "Redis"} {
		t.Run(bus, func(t *testing.T) {
			sources := []string{"--nats", "-", "--redis", "-"}
			if bus == "NATS" {
				_, address := keepingNATS(t)
				sources[1] = "nats://" + address
			} else {
				_, address := keepingRedis(t)
				sources[3] = "redis://" + address
			}
			y := newYard(t, "commands: {trust_loopback: true}\npublish: {interval: 1s, redis_ttl: 5s}\npolicy: {sweep_interval: 1s}\n", sources...)
			first := y.pid(1)
			if code, _, errs := y.act("stop", "s"); code != 2 || !strings.Contains(errs, "--yes") {
				t.Errorf("a stop that nobody confirms ends with %d: %s", code, errs)
			}
			if code, _, errs := y.act("stop", "s", "--yes", "--read-only"); code != 1 || !strings.Contains(errs, "read-only") {
				t.Errorf("a stop in read-only ends with %d: %s", code, errs)
			}
			if a := y.want(0, "effective", "from run@", "dump", "s", "--yes"); !strings.HasPrefix(a.By, "run@") {
				t.Errorf("the dump was taken by %q", a.By)
			}
			y.want(0, "effective", "#2 runs as pid", "restart", "s", "--yes", "--reason", "a test")
			second := y.pid(2)
			if y.lives(first) || !y.lives(second) {
				t.Fatalf("after the restart %d lives: %v, %d lives: %v", first, y.lives(first), second, y.lives(second))
			}
			if code, a, _ := y.act("stop", "s", "--generation", "1", "--yes"); code != 1 || a.Fate != "lost_race" && a.Fate != "refused" || !y.lives(second) {
				t.Errorf("a stop of generation 1 while 2 runs: code %d, %s (%s); the second lives: %v", code, a.Fate, a.Detail, y.lives(second))
			}
			y.want(0, "effective", "after", "stop", "s", "--yes")
			if y.lives(second) {
				t.Error("it is said to be stopped, and lives")
			}
			if code, a, errs := y.act("stop", "s", "--yes"); code == 0 || a.Fate == "effective" {
				t.Errorf("a stop of what is stopped: code %d, %s (%s), %s", code, a.Fate, a.Detail, errs)
			}
			y.audited("action.asked", `"op":"stop"`)
			y.audited("action.fate", `"fate":"effective"`)
			y.audited("action.fate", `"reason":"a test"`)
		})
	}
}

// audited finds a line in the operator's audit file.
func (y *yard) audited(words ...string) {
	y.t.Helper()
	text, err := os.ReadFile(filepath.Join(y.state, "sessionwatch", "audit.jsonl"))
	if err != nil {
		y.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		all := json.Valid([]byte(line))
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return
		}
	}
	y.t.Errorf("no line of the audit file holds %v:\n%s", words, text)
}

// TestCommandsThatNobodyVouchesForAreRefused: from a server that lets anybody in,
// unsigned, to a run that does not trust it.
func TestCommandsThatNobodyVouchesForAreRefused(t *testing.T) {
	t.Parallel()
	_, address := keepingNATS(t)
	y := newYard(t, "publish: {interval: 1s}\n", "--nats", "nats://"+address, "--redis", "-")
	pid := y.pid(1)
	if code, a, errs := y.act("stop", "s", "--yes"); code != 1 || a.Fate != "refused" || !strings.Contains(a.Detail, "not signed") {
		t.Errorf("code %d, %s (%s): %s", code, a.Fate, a.Detail, errs)
	}
	if !y.lives(pid) {
		t.Error("it was obeyed")
	}
	y.audited(`"fate":"refused"`)
}

// TestExpireReachesEveryStore: the record, the hash and the key of a producer that
// nobody supervises; its restart is refused before anything is sent.
func TestExpireReachesEveryStore(t *testing.T) {
	t.Parallel()
	listen := fmt.Sprintf("127.0.0.1:%d", sourcetest.FreePort(t))
	f := fleetOf(t, settleConfig, listen)
	expiresOverHTTP(f, listen)
	a := &agent{id: "five", every: 500 * time.Millisecond, plain: true}
	stop := make(chan struct{})
	done := make(chan struct{})
	var sent atomic.Int64
	go func() {
		defer close(done)
		f.beatsWhile(a, func(n int) bool {
			sent.Store(int64(n))
			select {
			case <-stop:
				return false
			default:
				return true
			}
		})
	}()
	defer func() { close(stop); <-done }()
	f.eventually("it runs", func() bool { _, v := f.view(0, "five"); return v == "running" })
	// Whole seconds of uptime alone tell its beats from those of a new run.
	f.eventually("it has run for a while", func() bool { return sent.Load() > 6 })
	out, err := f.ask(0, "restart", "five", "--yes", "--json")
	if err == nil || !strings.Contains(out, `"refused"`) || !strings.Contains(out, "nobody supervises it") {
		t.Errorf("a restart: %v\n%s", err, out)
	}
	out, err = f.ask(0, "expire", "five", "--yes", "--json", "--reason", "a test")
	if err != nil || !strings.Contains(out, `"effective"`) {
		t.Fatalf("an expire: %v\n%s", err, out)
	}
	g, _ := f.view(0, "five")
	record := decodeEnd(t, f.ends()["five."+strconv.Itoa(g)])
	if record.Outcome != "expired" || len(record.Records) != 1 {
		t.Errorf("its record is %+v", record)
	}
	f.eventually("both serves say so", func() bool {
		_, one := f.view(0, "five")
		_, other := f.view(1, "five")
		return one == "expired" && other == "expired"
	})
	out, err = f.ask(1, "expire", "five", "--yes", "--json")
	if err == nil || !strings.Contains(out, `"lost_race"`) {
		t.Errorf("a second expire: %v\n%s", err, out)
	}
	// Its publisher beats on. Who has no serve to ask reads the ledger itself.
	alone := program(t, f.environ, "get", "five", "--json", "--data-dir", t.TempDir(), "--nats", "nats://"+f.nats, "--redis", "redis://"+f.redis, "--wait", "4s")
	if text, err := alone.Output(); !strings.Contains(string(text), `"verdict":"expired"`) && !strings.Contains(string(text), `"verdict": "expired"`) {
		t.Errorf("without a serve: %v\n%s", err, text)
	}
}

// expiresOverHTTP: a session of the registry; its next heartbeat gets 410.
func expiresOverHTTP(f *fleet, listen string) {
	t := f.t
	t.Helper()
	token, err := os.ReadFile(filepath.Join(f.dirs[0], "token"))
	if err != nil {
		t.Fatal(err)
	}
	heartbeat := func() int {
		req, err := http.NewRequest(http.MethodPost, "http://"+listen+"/heartbeat", strings.NewReader(`{"session_id":"web","timestamp":1}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	f.eventually("a heartbeat is taken", func() bool { return heartbeat() == http.StatusNoContent })
	f.eventually("it is seen", func() bool { _, v := f.view(0, "web"); return v == "running" })
	if out, err := f.ask(0, "expire", "web", "--yes", "--json"); err != nil || !strings.Contains(out, `"effective"`) {
		t.Fatalf("an expire: %v\n%s", err, out)
	}
	c := ofRedis{dialBare(t, f.redis)}
	defer c.Close()
	if status, seen := c.do("HGET", "session:web", "status"), c.do("HGET", "session:web", "last_seen"); !strings.Contains(status, "expired") || !strings.Contains(seen, "0") {
		t.Errorf("its hash says %q, last seen %q", status, seen)
	}
	if code := heartbeat(); code != http.StatusGone {
		t.Errorf("its next heartbeat gets %d, want 410", code)
	}
}
