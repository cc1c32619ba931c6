//go:build unix

package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

var (
	_ watchdog.Ledger = (*natsbus.Ledger)(nil)
	_ watchdog.Marker = (*natsbus.Ledger)(nil)
)

func TestLedgerOnRealServer(t *testing.T) {
	binary := sourcetest.RealBinary(t, "nats-server")
	sourcetest.RunLedger(t, sourcetest.LedgerHarness{
		Serve: func(t testing.TB) sourcetest.LedgerStore { return serveRealJetStream(t, binary) },
	})
}

func TestLedgerOnEmbeddedServer(t *testing.T) {
	sourcetest.RunLedger(t, sourcetest.LedgerHarness{
		Serve: func(t testing.TB) sourcetest.LedgerStore { return serveEmbeddedJetStream(t) },
	})
}

// keeper is a server with JetStream.
type keeper struct{ address string }

// realKeeper is nats-server as a process.
type realKeeper struct {
	keeper
	*sourcetest.Process
}

func serveRealJetStream(t testing.TB, binary string) *realKeeper {
	t.Helper()
	return serveJetStreamWith(t, binary, "")
}

// serveJetStreamWith starts a real server with more in its configuration.
func serveJetStreamWith(t testing.TB, binary, more string) *realKeeper {
	t.Helper()
	port := sourcetest.FreePort(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("host: 127.0.0.1\nport: %d\njetstream { store_dir: %q }\n%s", port, dir, more)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &realKeeper{keeper{fmt.Sprintf("127.0.0.1:%d", port)}, sourcetest.StartProcess(t, binary, port, "-c", config)}
}

// embeddedKeeper runs inside the test.
type embeddedKeeper struct {
	keeper
	options embedded.NATSOptions
	server  *embedded.NATS
}

func serveEmbeddedJetStream(t testing.TB) *embeddedKeeper {
	t.Helper()
	k := &embeddedKeeper{options: embedded.NATSOptions{Port: sourcetest.FreePort(t), JetStream: true, StoreDir: t.TempDir()}}
	k.Restart(t)
	k.address = fmt.Sprintf("127.0.0.1:%d", k.options.Port)
	t.Cleanup(func() { k.server.Close() })
	return k
}

func (k *embeddedKeeper) Kill(testing.TB) { k.server.Close() }

func (k *embeddedKeeper) Restart(t testing.TB) {
	t.Helper()
	server, err := embedded.StartNATS(k.options)
	if err != nil {
		t.Fatal(err)
	}
	k.server = server
}

func (k keeper) Open(t testing.TB) (watchdog.Ledger, func()) {
	t.Helper()
	return openLedger(t, natsbus.Options{URLs: []string{k.address}, Origin: "test"}, natsbus.LedgerOptions{})
}

func openLedger(t testing.TB, o natsbus.Options, lo natsbus.LedgerOptions) (*natsbus.Ledger, func()) {
	t.Helper()
	var log sourcetest.Log
	l, err := natsbus.OpenLedger(o, lo, clock.System(), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	return l, sourcetest.Run(t, l, &log)
}

// patient is a client of a test's own, which the machine may hold up.
var patient = nats.Timeout(time.Minute)

// admin is somebody who may do everything.
func (k keeper) admin(t testing.TB) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	return k.as(t, "admin")
}

func (k keeper) as(t testing.TB, user string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(k.address, nats.UserInfo(user, "a"), patient, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func (k keeper) put(t testing.TB, subject string, data []byte) bool {
	t.Helper()
	_, js := k.admin(t)
	_, err := js.Publish(t.Context(), subject, data)
	return err == nil
}

func (k keeper) PutTerminal(t testing.TB, id watchdog.ID, g watchdog.Generation, data []byte) bool {
	return k.put(t, wire.TerminalSubject(id, g), data)
}

func (k keeper) PutHead(t testing.TB, id watchdog.ID, data []byte) bool {
	return k.put(t, wire.BucketSubject(wire.HeadsBucket, wire.BucketKey(id)), data)
}

// Replace deletes the stream and makes one of the same configuration.
func (k keeper) Replace(t testing.TB) {
	t.Helper()
	_, js := k.admin(t)
	s, err := js.Stream(t.Context(), wire.TerminalStream)
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	if err := errors.Join(js.DeleteStream(t.Context(), wire.TerminalStream), errorOf(js.CreateStream(t.Context(), config))); err != nil {
		t.Fatal(err)
	}
}

func errorOf[T any](_ T, err error) error { return err }

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
