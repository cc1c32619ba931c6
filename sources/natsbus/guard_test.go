//go:build unix

package natsbus_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// ear hears beats over a bare connection.
type ear struct{ producer }

func listen(t *testing.T, address, subject string) *ear {
	t.Helper()
	e := &ear{producer{address: address, user: "producer", password: "p"}}
	t.Cleanup(e.close)
	if !sourcetest.Eventually(60*time.Second, func() bool { return e.dial() == nil && e.hears(subject) }) {
		t.Fatal("the bare client cannot subscribe")
	}
	return e
}

func (e *ear) hears(subject string) bool {
	if _, err := fmt.Fprintf(e.conn, "SUB %s 1\r\nPING\r\n", subject); err != nil {
		return false
	}
	for {
		line, err := e.reader.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "PONG") {
			return err == nil
		}
	}
}

// next gives the next message.
func (e *ear) next(t *testing.T) (subject string, fields map[string]any) {
	t.Helper()
	_ = e.conn.SetDeadline(time.Now().Add(60 * time.Second))
	for {
		line, err := e.reader.ReadString('\n')
		if err != nil {
			t.Fatalf("no message came: %v", err)
		}
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "PING" {
			_, _ = fmt.Fprint(e.conn, "PONG\r\n")
		}
		if len(words) != 4 || words[0] != "MSG" {
			continue
		}
		size, err := strconv.Atoi(words[3])
		if err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, size+2)
		if _, err := io.ReadFull(e.reader, payload); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(payload, &fields); err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		return words[1], fields
	}
}

// until reads beats up to the first in a state, and gives that one and the
// states before it.
func (e *ear) until(t *testing.T, state string) (fields map[string]any, before []string) {
	t.Helper()
	for {
		_, fields := e.next(t)
		if fields["state"] == state {
			return fields, before
		}
		before = append(before, fmt.Sprint(fields["state"]))
	}
}

func openGuard(t *testing.T, o natsbus.Options) *natsbus.Guard {
	t.Helper()
	g, err := natsbus.OpenGuard(o, new(sourcetest.Log).Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func TestBareClientSeesTheLifeOfAGuardedAgent(t *testing.T) {
	t.Parallel()
	server := serveReal(t, sourcetest.RealBinary(t, "nats-server"))
	e := listen(t, server.Address(), "agent.liveness.>")
	o := sourcetest.QuickSession("team.a:job-7", openGuard(t, producerOptions(server.Address())))
	o.AgentID = "worker-7"
	s := sourcetest.StartSession(t, o)
	s.SetTask("chunk 1/200")

	subject, first := e.next(t)
	if subject != "agent.liveness.team.a:job-7" || first["session_id"] != "team.a:job-7" || first["state"] != "running" {
		t.Fatalf("on %s came %v", subject, first)
	}
	for _, name := range []string{"generation", "credits_remaining", "waiting_for", "waiting_max_secs", "loop_lag_ms", "message"} {
		if v, there := first[name]; !there || v != nil {
			t.Errorf("%s is %v, want null", name, v)
		}
	}
	if first["boot_id"] != s.BootID() || first["heartbeat_interval_secs"] != 0.2 || first["stall_timeout_secs"] != 1.0 || first["agent_id"] != "worker-7" {
		t.Errorf("the first beat is %v", first)
	}
	stalled, before := e.until(t, "stalled")
	if idle, _ := stalled["idle_secs"].(float64); idle < 1 || stalled["current_task"] != "chunk 1/200" || slices.ContainsFunc(before, func(s string) bool { return s != "running" }) {
		t.Errorf("stalled: %v, after %v", stalled, before)
	}
	if _, again := e.next(t); again["state"] != "stalled" {
		t.Errorf("the next interval says %v", again["state"])
	}
	s.Touch()
	e.until(t, "running")
	s.Complete()
	last, before := e.until(t, "completed")
	if slices.Contains(before, "error") || last["current_task"] != "chunk 1/200" {
		t.Errorf("the last beat is %v", last)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestPlainGuardSendsFiveFields(t *testing.T) {
	server := serveEmbedded(t)
	e := listen(t, server.Address(), "agent.liveness.plain")
	o := sourcetest.QuickSession("plain", openGuard(t, producerOptions(server.Address())))
	o.Plain = true
	s := sourcetest.StartSession(t, o)
	_, beat := e.next(t)
	s.Fail(io.ErrUnexpectedEOF)
	last, _ := e.until(t, "error")
	for _, fields := range []map[string]any{beat, last} {
		if names := slices.Sorted(maps.Keys(fields)); !slices.Equal(names, []string{"credits_remaining", "current_task", "session_id", "state", "uptime_secs"}) {
			t.Errorf("fields %v", names)
		}
	}
}

func TestGuardAnswersAPing(t *testing.T) {
	t.Parallel()
	server := serveEmbedded(t)
	e := listen(t, server.Address(), "agent.liveness.>")
	o := sourcetest.QuickSession("pinged", openGuard(t, producerOptions(server.Address())))
	o.Interval, o.RedisTTL, o.StallTimeout = time.Hour, 2*time.Hour, 3*time.Hour
	sourcetest.StartSession(t, o)
	e.next(t)
	server.send(t, "agent.ping", []byte("anything"))
	if _, beat := e.next(t); beat["seq"] != 2.0 {
		t.Errorf("the answer is %v", beat)
	}
}

// A bus that dies or hangs costs the agent nothing, and beats come again with it.
func TestAgentGoesOnWithoutItsBus(t *testing.T) {
	t.Parallel()
	server := serveReal(t, sourcetest.RealBinary(t, "nats-server"))
	e := listen(t, server.Address(), "agent.liveness.>")
	g := openGuard(t, producerOptions(server.Address()))
	s := sourcetest.StartSession(t, sourcetest.QuickSession("s", g))
	e.next(t)
	for name, outage := range map[string]struct{ begin, end func() }{
		"killed": {func() { server.Kill(t) }, func() { server.Restart(t) }},
		"hangs":  {func() { server.Pause(t) }, func() { server.Resume(t) }},
	} {
		sourcetest.KeepWorking(t, s, name, outage.begin, outage.end)
		e = listen(t, server.Address(), "agent.liveness.>")
		if _, beat := e.next(t); beat["state"] != "running" {
			t.Errorf("%s: after it %v", name, beat)
		}
	}
	s.Complete()
	e.until(t, "completed")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestGuardNeedsNoPermissionToHearPings(t *testing.T) {
	port := sourcetest.FreePort(t)
	server, err := embedded.StartNATS(embedded.NATSOptions{Port: port, Users: []embedded.NATSUser{
		{Name: "producer", Password: "p"},
		{Name: "mute", Password: "m", Publish: []string{"agent.liveness.>"}, Subscribe: []string{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	e := listen(t, address, "agent.liveness.>")
	o := natsbus.Options{URLs: []string{address}, User: "mute", Password: "m"}
	sourcetest.StartSession(t, sourcetest.QuickSession("mute", openGuard(t, o)))
	if _, beat := e.next(t); beat["session_id"] != "mute" {
		t.Errorf("got %v", beat)
	}
}

func TestCloseTellsThatTheBusIsAway(t *testing.T) {
	away := fmt.Sprintf("127.0.0.1:%d", sourcetest.FreePort(t))
	before := goleak.IgnoreCurrent()
	g, err := natsbus.OpenGuard(natsbus.Options{URLs: []string{away}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := sourcetest.QuickSession("s", g)
	o.FlushTimeout = 300 * time.Millisecond
	s := sourcetest.StartSession(t, o)
	s.Complete()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "did not reach NATS") || !strings.Contains(err.Error(), away) {
		t.Errorf("Close: %v", err)
	}
	g.Close()
	goleak.VerifyNone(t, before)
}

func TestGuardTakesItsAddressFromTheEnvironment(t *testing.T) {
	t.Setenv(natsbus.URLVariable, "nats://user:secret@127.0.0.1:1")
	g := openGuard(t, natsbus.Options{})
	if name := g.String(); !strings.Contains(name, "127.0.0.1:1") || strings.Contains(name, "secret") {
		t.Errorf("named %q", name)
	}
	if name := openGuard(t, natsbus.Options{URLs: []string{"127.0.0.1:2"}}).String(); !strings.Contains(name, "127.0.0.1:2") {
		t.Errorf("a given address yields to the environment: %q", name)
	}
	t.Setenv(natsbus.URLVariable, "gopher://x")
	if _, err := natsbus.OpenGuard(natsbus.Options{}, nil); err == nil {
		t.Error("a bad address was taken")
	}
	if _, err := natsbus.OpenGuard(natsbus.Options{ReadOnly: true}, nil); err == nil {
		t.Error("read-only options were taken")
	}
}
