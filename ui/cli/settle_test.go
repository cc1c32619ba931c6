//go:build linux && !race

package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// Two serves on one NATS and one Redis, all of them processes. What settles is
// in them and not in this one, where the race detector would see nothing but
// producers.

// settleConfig has times that are short beside the defaults, and otherwise the
// same proportions.
const settleConfig = `policy: {heartbeat_interval: 1s, redis_ttl: 4s, lost_after: 3s, sweep_interval: 1s, sweep_timeout: 10s, brake_hold: 1s}
registry: {interval: 1s, ttl: 5s, reap_interval: 1s}
`

// fleet is two serves and their servers.
type fleet struct {
	t           *testing.T
	nats, redis string // host:port
	config      string
	listen      [2]string
	dirs        [2]string

	natsServer, redisServer *sourcetest.Process
	serves                  [2]*exec.Cmd
	says                    [2]*bytes.Buffer
	environ                 []string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return fleetOf(t, settleConfig, "")
}

// keepingNATS starts nats-server with JetStream, which outlives its death.
func keepingNATS(t testing.TB) (server *sourcetest.Process, address string) {
	t.Helper()
	port := sourcetest.FreePort(t)
	server = sourcetest.StartProcess(t, sourcetest.RealBinary(t, "nats-server"), port, "-a", "127.0.0.1", "-p", strconv.Itoa(port), "-js", "-sd", t.TempDir())
	return server, fmt.Sprintf("127.0.0.1:%d", port)
}

// keepingRedis starts redis-server, which keeps what it was told in a file.
func keepingRedis(t testing.TB) (server *sourcetest.Process, address string) {
	t.Helper()
	port := sourcetest.FreePort(t)
	server = sourcetest.StartProcess(t, sourcetest.RealBinary(t, "redis-server"), port,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "yes", "--dir", t.TempDir())
	return server, fmt.Sprintf("127.0.0.1:%d", port)
}

// fleetOf starts two serves with a configuration; listen is where the first
// keeps its registry, empty for nowhere.
func fleetOf(t *testing.T, config, listen string) *fleet {
	t.Helper()
	if listen == "" {
		listen = "-"
	}
	f := &fleet{t: t, listen: [2]string{listen, "-"}}
	f.natsServer, f.nats = keepingNATS(t)
	f.redisServer, f.redis = keepingRedis(t)
	f.environ = alone(t, "NATS_URL=nats://"+f.nats, "REDIS_URL=redis://"+f.redis)
	f.config = filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(f.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range f.dirs {
		f.dirs[i] = t.TempDir()
		f.start(i)
	}
	t.Cleanup(func() {
		for i := range f.serves {
			f.kill(i)
		}
		if t.Failed() {
			for i := range f.says {
				t.Logf("serve %d:\n%.2000s", i+1, f.says[i].String())
			}
		}
	})
	for i := range f.dirs {
		f.eventually("serve "+strconv.Itoa(i+1)+" answers", func() bool { _, err := f.ask(i, "ls"); return err == nil })
	}
	return f
}

// start starts a serve; it is one that was killed, or the first.
func (f *fleet) start(i int) {
	f.t.Helper()
	f.says[i] = &bytes.Buffer{}
	cmd := program(f.t, f.environ, "serve", "--config", f.config, "--data-dir", f.dirs[i], "--listen", f.listen[i])
	cmd.Stdout, cmd.Stderr = f.says[i], f.says[i]
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.serves[i] = cmd
}

func (f *fleet) kill(i int) {
	if f.serves[i] == nil {
		return
	}
	_ = f.serves[i].Process.Signal(syscall.SIGKILL) // it may have ended
	_ = f.serves[i].Wait()                          // it was killed
	f.serves[i] = nil
}

// ask looks through a serve.
func (f *fleet) ask(i int, args ...string) (string, error) {
	cmd := program(f.t, f.environ, append(args, "--data-dir", f.dirs[i], "--serve", filepath.Join(f.dirs[i], "serve.sock"))...)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

// view is what a serve says of a session: its generation and verdict.
func (f *fleet) view(i int, id string) (generation int, verdict string) {
	out, _ := f.ask(i, "ls", "--json")
	var all []struct {
		ID         string `json:"session_id"`
		Generation int
		Verdict    string
	}
	_ = json.Unmarshal([]byte(out), &all) // nothing is seen
	for _, s := range all {
		if s.ID == id {
			return s.Generation, s.Verdict
		}
	}
	return 0, ""
}

func (f *fleet) eventually(what string, ok func() bool) {
	f.t.Helper()
	if !sourcetest.Eventually(20*time.Second, ok) {
		f.t.Fatalf("it does not come about: %s", what)
	}
}

// end is a terminal record.
type end struct {
	ID         string `json:"session_id"`
	Generation int
	Outcome    string
	Writer     string
	Records    []struct {
		ID    string
		Index int
		Type  string
	}
}

// ends are all terminal messages that the stream holds, by session and
// generation. Two for one generation fail the test.
func (f *fleet) ends() map[string]string {
	f.t.Helper()
	out := map[string]string{}
	c := dialNATS(f.t, f.nats)
	defer c.Close()
	var info struct {
		State struct {
			First uint64 `json:"first_seq"`
			Last  uint64 `json:"last_seq"`
		}
	}
	c.request("$JS.API.STREAM.INFO.SW_TERMINAL", "", &info)
	for seq := info.State.First; seq <= info.State.Last; seq++ {
		var got struct {
			Message struct {
				Subject string
				Data    []byte
			}
		}
		c.request("$JS.API.STREAM.MSG.GET.SW_TERMINAL", fmt.Sprintf(`{"seq":%d}`, seq), &got)
		key := strings.TrimPrefix(got.Message.Subject, "agent.terminal.")
		if _, twice := out[key]; twice {
			f.t.Errorf("two terminal records of %s", key)
		}
		if !strings.HasPrefix(key, "selftest") && key != "" {
			out[key] = string(got.Message.Data)
		}
	}
	return out
}

// copyOf is the copy of a record that Redis keeps.
func (f *fleet) copyOf(id string, generation int) string {
	c := ofRedis{dialBare(f.t, f.redis)}
	defer c.Close()
	return c.do("GET", fmt.Sprintf("{agent:liveness:%s}:terminal:%d", id, generation))
}

func decodeEnd(t *testing.T, text string) (e end) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return e
}

// lostOnce checks one record: lost, error then done, the same in both stores.
func (f *fleet) lostOnce(all map[string]string, id string, generation int) {
	f.t.Helper()
	text := all[fmt.Sprintf("%s.%d", id, generation)]
	if text == "" {
		f.t.Errorf("no record of %s #%d", id, generation)
		return
	}
	e := decodeEnd(f.t, text)
	if e.Outcome != "lost" || len(e.Records) != 2 || e.Records[0].Type != "error" || e.Records[1].Type != "done" || e.Records[0].ID == e.Records[1].ID {
		f.t.Errorf("the record of %s #%d: %.300s", id, generation, text)
	}
	f.eventually(fmt.Sprintf("Redis has the record of %s #%d", id, generation), func() bool { return f.copyOf(id, generation) != "" })
	if diff := cmp.Diff(e, decodeEnd(f.t, f.copyOf(id, generation))); diff != "" {
		f.t.Errorf("%s #%d in JetStream and in Redis differ:\n%s", id, generation, diff)
	}
}

// agent is a producer on a bare socket. A plain one sends the five fields alone.
type agent struct {
	id, boot string
	every    time.Duration
	plain    bool
	began    time.Time
	seq      int
}

func (a *agent) beat() string {
	if a.began.IsZero() {
		a.began = time.Now()
	}
	a.seq++
	text := fmt.Sprintf(`{"session_id":%q,"state":"running","uptime_secs":%d,"credits_remaining":null,"current_task":"step %d"`, a.id, int(time.Since(a.began).Seconds()), a.seq)
	if !a.plain {
		text += fmt.Sprintf(`,"boot_id":%q,"seq":%d,"heartbeat_interval_secs":%g`, a.boot, a.seq, a.every.Seconds())
	}
	return text + "}"
}

// beats sends n beats.
func (f *fleet) beats(a *agent, n int) {
	f.t.Helper()
	f.beatsWhile(a, func(sent int) bool { return sent < n })
}

// beatsWhile sends beats to NATS and, as producers do, to Redis.
func (f *fleet) beatsWhile(a *agent, more func(sent int) bool) {
	f.t.Helper()
	bus, keys := dialNATS(f.t, f.nats), ofRedis{dialBare(f.t, f.redis)}
	defer bus.Close()
	defer keys.Close()
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	for i := 0; more(i); i++ {
		if i > 0 {
			<-tick.C
		}
		text := a.beat()
		bus.publish("agent.liveness."+a.id, text)
		keys.do("SET", "agent:liveness:"+a.id, text, "EX", "4")
	}
}

// A producer that stops is lost once in every store; what comes late from it is
// kept and listed, and is no life; its next run is another generation.
func TestAnExecutionEndsOnce(t *testing.T) {
	waits(t)
	f := newFleet(t)
	screen := terminaltest.StartPTY(t, screenSize, program(t, f.environ, "attach", "--config", f.config, "--data-dir", f.dirs[0]))
	// Somebody has to live on: a whole fleet that goes is held, not settled.
	var over atomic.Bool
	var both, others sync.WaitGroup
	rest := []*agent{{id: "steady1", boot: "s", every: time.Second}, {id: "steady2", boot: "s", every: time.Second}, {id: "steady3", boot: "s", every: time.Second}}
	for _, a := range rest {
		others.Go(func() { f.beatsWhile(a, func(int) bool { return !over.Load() }) })
	}
	defer others.Wait()
	defer over.Store(true)
	for _, first := range []*agent{
		{id: "declares", boot: "one", every: time.Second},
		{id: "plain", every: 500 * time.Millisecond, plain: true},
	} {
		both.Go(func() {
			second := f.livesOnce(first)
			// The other one may take longer: who falls silent meanwhile is lost too.
			others.Go(func() { f.beatsWhile(second, func(int) bool { return !over.Load() }) })
			f.livesAgain(second)
		})
	}
	both.Wait()
	screen.Await("declares")
	screen.Await("plain")
	for _, a := range rest {
		for i := range f.dirs {
			if g, v := f.view(i, a.id); g != 1 || v != "running" {
				t.Errorf("serve %d says that %s is #%d %s", i+1, a.id, g, v)
			}
		}
	}
	if n := len(f.ends()); n != 2 {
		t.Errorf("%d ends, want 2: %q", n, f.ends())
	}
}

// livesOnce lets an agent live and be lost, and gives its next run.
func (f *fleet) livesOnce(first *agent) (second *agent) {
	t := f.t
	f.beats(first, 11)
	for i := range f.dirs {
		f.eventually(first.id+" is lost", func() bool { g, v := f.view(i, first.id); return g == 1 && v == "lost" })
	}
	f.lostOnce(f.ends(), first.id, 1)

	f.beats(first, 2) // it was only away
	for i := range f.dirs {
		f.eventually("its late beats are listed", func() bool {
			out, err := f.ask(i, "events", first.id, "--late")
			return err == nil && strings.Count(out, `"late_by_secs"`) >= 2
		})
		if g, v := f.view(i, first.id); g != 1 || v != "lost" {
			t.Errorf("serve %d says that %s is #%d %s after late beats", i+1, first.id, g, v)
		}
	}

	return &agent{id: first.id, boot: "two", every: time.Second, plain: first.plain}
}

// livesAgain waits until the next run of an agent, which beats, is seen as one.
func (f *fleet) livesAgain(second *agent) {
	began := time.Now()
	f.eventually(second.id+" is generation 2", func() bool { g, v := f.view(0, second.id); return g == 2 && v == "running" })
	if took := time.Since(began); took > slack*time.Second {
		f.t.Errorf("generation 2 of %s took %v", second.id, took)
	}
	f.lostOnce(f.ends(), second.id, 1)
}

// Serves that are killed at any moment, while producers die and come again,
// leave one record of each execution that is over, and none of one that lives.
func TestKilledServesEndEveryExecutionOnce(t *testing.T) {
	waits(t)
	f := newFleet(t)
	const sessions, lives = 6, 3
	quit := make(chan struct{})
	var running, settling sync.WaitGroup
	for n := range sessions {
		running.Go(func() {
			for life := range lives {
				a := &agent{id: fmt.Sprint("s", n), boot: fmt.Sprint("boot-", life), every: 500 * time.Millisecond}
				f.beats(a, 5+n%3)
				if life == lives-1 {
					f.beats(a, 8) // it lives on until all others are over
					return
				}
				<-time.After(time.Duration(n) * 300 * time.Millisecond) // it is away
			}
		})
	}
	kills := 0
	settling.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(time.Duration(200+rand.IntN(1200)) * time.Millisecond):
			}
			for _, i := range [][]int{{0}, {1}, {0, 1}}[rand.IntN(3)] {
				f.kill(i)
				f.start(i)
				kills++
			}
		}
	})
	running.Wait()
	close(quit)
	settling.Wait()
	t.Logf("%d kills", kills)
	// The last ones may have ended too by now: each that must have a record is asked for.
	f.eventually("every generation but the last has its record", func() bool {
		all := f.ends()
		for n := range sessions {
			for g := 1; g < lives; g++ {
				if all[fmt.Sprintf("s%d.%d", n, g)] == "" {
					return false
				}
			}
		}
		return true
	})
	all := f.ends()
	for n := range sessions {
		for g := 1; g < lives; g++ {
			f.lostOnce(all, fmt.Sprint("s", n), g)
		}
		if g, _ := f.view(0, fmt.Sprint("s", n)); g != lives {
			t.Errorf("s%d is #%d, want #%d", n, g, lives)
		}
	}
}

// bareSocket is one side of a bare socket.
type bareSocket struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialBare(t *testing.T, address string) *bareSocket {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return &bareSocket{t, c, bufio.NewReader(c)}
}

// until reads lines until one begins with the word, and gives it.
func (w *bareSocket) until(word string) string {
	w.t.Helper()
	_ = w.SetReadDeadline(time.Now().Add(10 * time.Second)) // a socket can
	for {
		line, err := w.in.ReadString('\n')
		if err != nil {
			w.t.Errorf("%q does not come: %v", word, err)
			return word + " 0"
		}
		if strings.HasPrefix(line, "PING") {
			fmt.Fprint(w, "PONG\r\n")
		}
		if strings.HasPrefix(line, word) {
			return strings.TrimSpace(line)
		}
	}
}

// counted reads as many bytes as the last word of a line says.
func (w *bareSocket) counted(line string) []byte {
	n, _ := strconv.Atoi(line[strings.LastIndexAny(line, " $")+1:]) // -1 there is none
	if n < 0 {
		return nil
	}
	text := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(w.in, text); err != nil {
		w.t.Error(err)
	}
	return text[:n]
}

// ofNATS is a connection to NATS over a bare socket.
type ofNATS struct{ *bareSocket }

func dialNATS(t *testing.T, address string) ofNATS {
	t.Helper()
	c := ofNATS{dialBare(t, address)}
	fmt.Fprint(c, "CONNECT {\"verbose\":false}\r\nSUB answers 1\r\nPING\r\n")
	c.until("PONG")
	return c
}

// publish returns once the server has it.
func (c ofNATS) publish(subject, body string) {
	c.t.Helper()
	fmt.Fprintf(c, "PUB %s %d\r\n%s\r\nPING\r\n", subject, len(body), body)
	c.until("PONG")
}

// request reads an answer in JSON.
func (c ofNATS) request(subject, body string, answer any) {
	c.t.Helper()
	fmt.Fprintf(c, "PUB %s answers %d\r\n%s\r\n", subject, len(body), body)
	if text := c.counted(c.until("MSG")); json.Unmarshal(text, answer) != nil {
		c.t.Errorf("%s is answered with %.200s", subject, text)
	}
}

// ofRedis is a connection to Redis over a bare socket.
type ofRedis struct{ *bareSocket }

// do gives the answer as text; "" if there is none.
func (c ofRedis) do(words ...string) string {
	c.t.Helper()
	_, _ = c.Write(appendCommand(nil, words...)) // the answer tells
	line := c.until("")
	if strings.HasPrefix(line, "$") {
		return string(c.counted(line))
	}
	return line
}
