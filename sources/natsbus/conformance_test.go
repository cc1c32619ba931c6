//go:build unix

package natsbus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestBusOnRealServer(t *testing.T) {
	binary := sourcetest.RealBinary(t, "nats-server")
	sourcetest.RunBeatSource(t, sourcetest.Harness{
		Source: watchdog.SourceNATS,
		Serve:  func(t testing.TB) sourcetest.BeatServer { return serveReal(t, binary) },
		Open:   openBus,

		Streamed: true,
	})
}

func TestBusOnEmbeddedServer(t *testing.T) {
	sourcetest.RunBeatSource(t, sourcetest.Harness{
		Source: watchdog.SourceNATS,
		Serve:  func(t testing.TB) sourcetest.BeatServer { return serveEmbedded(t) },
		Open:   openBus,

		Streamed: true,
	})
}

func optionsFor(address string, as sourcetest.Role) natsbus.Options {
	o := natsbus.Options{URLs: []string{address}, Origin: "test", ReadOnly: true}
	switch as {
	case sourcetest.Reader:
		o.User, o.Password = "reader", "r"
	case sourcetest.WrongPassword:
		o.User, o.Password = "reader", sourcetest.WrongSecret
	case sourcetest.Forbidden:
		o.User, o.Password = "forbidden", "f"
	}
	return o
}

func openBus(t testing.TB, address string, as sourcetest.Role, sink sourcetest.Sink) func() {
	t.Helper()
	var log sourcetest.Log
	bus, err := natsbus.Open(optionsFor(address, as), sink, clock.System(), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	stop := sourcetest.Run(t, bus, &log)
	return func() {
		stop()
		if text := log.String(); strings.Contains(text, sourcetest.WrongSecret) {
			t.Errorf("the password stands in the log: %s", text)
		}
	}
}

// realServer is nats-server as a process.
type realServer struct {
	*sourcetest.Process
	producer
	config string
}

const users = `
host: 127.0.0.1
port: %d
authorization { users = [
  { user: producer, password: p }
  { user: reader, password: r, permissions: { publish: { deny: ">" }, subscribe: "agent.liveness.>" } }
  { user: forbidden, password: f, permissions: { publish: { deny: ">" }, subscribe: { %s } } }
] }
`

const (
	nothing    = `deny: ">"`
	everything = `allow: ">"`
)

func serveReal(t testing.TB, binary string) *realServer {
	t.Helper()
	port := sourcetest.FreePort(t)
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, users, port, nothing), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &realServer{
		Process:  sourcetest.StartProcess(t, binary, port, "-c", config),
		producer: producer{address: fmt.Sprintf("127.0.0.1:%d", port), user: "producer", password: "p"},
		config:   config,
	}
	t.Cleanup(s.close)
	return s
}

func (s *realServer) Address() string { return s.address }

func (s *realServer) Send(t testing.TB, id string, payload []byte) {
	t.Helper()
	s.send(t, "agent.liveness."+id, payload)
}

// grant lets the forbidden user read.
func (s *realServer) grant(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	granted := strings.Replace(string(text), "{ "+nothing+" } }", "{ "+everything+" } }", 1)
	if granted == string(text) {
		t.Fatalf("nothing to grant in %s", text)
	}
	if err := os.WriteFile(s.config, []byte(granted), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Reload(t)
}

// embeddedServer runs inside the test.
type embeddedServer struct {
	producer
	options embedded.NATSOptions
	server  *embedded.NATS
}

func serveEmbedded(t testing.TB) *embeddedServer {
	t.Helper()
	s := &embeddedServer{options: embedded.NATSOptions{Port: sourcetest.FreePort(t), Users: []embedded.NATSUser{
		{Name: "producer", Password: "p"},
		{Name: "reader", Password: "r", Publish: []string{}, Subscribe: []string{"agent.liveness.>"}},
		{Name: "forbidden", Password: "f", Publish: []string{}, Subscribe: []string{}},
	}}}
	s.Restart(t)
	s.producer = producer{address: fmt.Sprintf("127.0.0.1:%d", s.options.Port), user: "producer", password: "p"}
	t.Cleanup(func() {
		s.close()
		s.server.Close()
	})
	return s
}

func (s *embeddedServer) Address() string { return s.address }

func (s *embeddedServer) Send(t testing.TB, id string, payload []byte) {
	t.Helper()
	s.send(t, "agent.liveness."+id, payload)
}

func (s *embeddedServer) Kill(testing.TB) { s.server.Close() }

func (s *embeddedServer) Restart(t testing.TB) {
	t.Helper()
	server, err := embedded.StartNATS(s.options)
	if err != nil {
		t.Fatal(err)
	}
	s.server = server
}

// TestRealServerAtFullRateLosesNothing pours as fast as the server takes it.
func TestRealServerAtFullRateLosesNothing(t *testing.T) {
	server := serveReal(t, sourcetest.RealBinary(t, "nats-server"))
	rec := &sourcetest.Recorder{}
	t.Cleanup(openBus(t, server.Address(), sourcetest.Reader, rec))
	rec.Wait(t, 60*time.Second, "the link is up", func() bool { return rec.Phase() == watchdog.LinkUp })
	sessions, rounds := 10_000, 5
	if sourcetest.Soaking() {
		rounds = 15
	}
	for round := range rounds {
		var all []byte
		for i := range sessions {
			id := fmt.Sprintf("batch-job-%d", i)
			payload := beat(id, round)
			all = fmt.Appendf(all, "PUB agent.liveness.%s %d\r\n%s\r\n", id, len(payload), payload)
		}
		server.pour(t, all)
	}
	rec.Wait(t, 60*time.Second, "every beat", func() bool { return rec.Heard() == sessions*rounds })
	if lost := sourcetest.EventsOf[watchdog.Dropped](rec, 0); len(lost) > 0 {
		t.Errorf("beats were lost: %+v", lost)
	}
	last := map[string]int64{}
	for _, b := range rec.AllBeats() {
		if before, ok := last[string(b.ID)]; ok && b.Uptime != before+1 {
			t.Fatalf("the beats of %s came out of order: %d after %d", b.ID, b.Uptime, before)
		}
		last[string(b.ID)] = b.Uptime
	}
}
