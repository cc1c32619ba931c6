package embedded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/embedded"
)

func startNATS(t *testing.T, o embedded.NATSOptions) *embedded.NATS {
	t.Helper()
	n, err := embedded.StartNATS(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func connect(t *testing.T, url string, o ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestNATSCarriesMessagesOnLoopback(t *testing.T) {
	n := startNATS(t, embedded.NATSOptions{})
	if !strings.HasPrefix(n.ClientURL(), "nats://127.0.0.1:") || n.Port() == 0 {
		t.Fatalf("ClientURL %q, Port %d", n.ClientURL(), n.Port())
	}
	nc := connect(t, n.ClientURL())
	sub, err := nc.SubscribeSync("a.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("a.b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(time.Minute); err != nil {
		t.Fatal(err)
	}
	n.Close()
	n.Close() // a second time does nothing
}

func TestNATSKeepsStreamsInItsStore(t *testing.T) {
	dir := t.TempDir()
	n := startNATS(t, embedded.NATSOptions{JetStream: true, StoreDir: dir})
	js, err := connect(t, n.ClientURL()).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish("s.1", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	n.Close()

	again := startNATS(t, embedded.NATSOptions{JetStream: true, StoreDir: dir})
	js, err = connect(t, again.ClientURL()).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	m, err := js.GetMsg("S", 1)
	if err != nil || string(m.Data) != "kept" {
		t.Fatalf("after a restart: %v, %v", m, err)
	}
}

func TestNATSSaysWhatIsWrong(t *testing.T) {
	n := startNATS(t, embedded.NATSOptions{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    embedded.NATSOptions
		want string
	}{
		{"port taken", embedded.NATSOptions{Port: n.Port()}, "choose another port"},
		{"port out of range", embedded.NATSOptions{Port: 70000}, "not between 0 and 65535"},
		{"no store", embedded.NATSOptions{JetStream: true}, "needs a directory"},
		{"store is a file", embedded.NATSOptions{JetStream: true, StoreDir: filepath.Join(file, "x")}, "JetStream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			got, err := embedded.StartNATS(c.o)
			if err == nil {
				got.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
			if d := time.Since(began); d > 30*time.Second {
				t.Errorf("it took %v to say so", d)
			}
		})
	}
}

func TestNATSHoldsUsersToTheirSubjects(t *testing.T) {
	n := startNATS(t, embedded.NATSOptions{Users: []embedded.NATSUser{
		{Name: "reader", Password: "r", Publish: []string{}, Subscribe: []string{"a.>"}},
	}})
	if nc, err := nats.Connect(n.ClientURL(), nats.UserInfo("reader", "wrong")); err == nil {
		nc.Close()
		t.Error("a wrong password was let in")
	}
	errs := make(chan error, 4)
	nc := connect(t, n.ClientURL(), nats.UserInfo("reader", "r"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))
	if err := nc.Publish("a.b", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-errs:
		if !strings.Contains(err.Error(), "Permissions Violation for Publish") {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("publishing was allowed")
	}
}
