//go:build unix

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// durable are the settings with which a kill loses nothing.
var durable = []string{"appendonly yes", "appendfsync always"}

func TestLedgerConformanceRealServer(t *testing.T) {
	sourcetest.RunLedger(t, sourcetest.LedgerHarness{Patience: 4 * time.Second, Serve: func(t testing.TB) sourcetest.LedgerStore {
		s := startReal(t, durable...)
		return &ledgerServer{ledgerKeys{s.admin}, s, fast(s.Address())}
	}})
}

func TestLedgerConformanceEmbeddedServer(t *testing.T) {
	sourcetest.RunLedger(t, sourcetest.LedgerHarness{Serve: func(t testing.TB) sourcetest.LedgerStore {
		admin, address := startMini(t)
		return &embeddedLedger{ledgerKeys{admin}, fast(address)}
	}})
}

// TestLedgerConformanceCluster uses one Cluster, emptied for each case.
func TestLedgerConformanceCluster(t *testing.T) {
	o := clusterOptions(startCluster(t))
	keys := ledgerKeys{clusterAdmin(t, o)}
	sourcetest.RunLedger(t, sourcetest.LedgerHarness{Serve: func(t testing.TB) sourcetest.LedgerStore {
		keys.Replace(t)
		return &embeddedLedger{keys, o}
	}})
}

// ledgerKeys writes what no ledger would.
type ledgerKeys struct{ admin redis.UniversalClient }

func (k ledgerKeys) PutTerminal(t testing.TB, id watchdog.ID, g watchdog.Generation, stored []byte) bool {
	t.Helper()
	return k.put(t, wire.TerminalKey(id, g), stored)
}

func (k ledgerKeys) PutHead(t testing.TB, id watchdog.ID, stored []byte) bool {
	t.Helper()
	return k.put(t, wire.HeadKey(id), stored)
}

func (k ledgerKeys) put(t testing.TB, key string, stored []byte) bool {
	t.Helper()
	if err := k.admin.Set(context.Background(), key, stored, 0).Err(); err != nil {
		t.Fatal(err)
	}
	return true
}

// Replace deletes everything.
func (k ledgerKeys) Replace(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	var err error
	if c, ok := k.admin.(*redis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return m.FlushAll(ctx).Err() })
	} else {
		err = k.admin.FlushAll(ctx).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// embeddedLedger is a server that the suite cannot kill.
type embeddedLedger struct {
	ledgerKeys
	options Options
}

func (e *embeddedLedger) Open(t testing.TB) (watchdog.Ledger, func()) {
	return openLedger(t, e.options)
}

// ledgerServer is a server that it can kill and stop.
type ledgerServer struct {
	ledgerKeys
	*realServer
	options Options
}

func (s *ledgerServer) Open(t testing.TB) (watchdog.Ledger, func()) { return openLedger(t, s.options) }

func openLedger(t testing.TB, o Options) (*Ledger, func()) {
	t.Helper()
	c := openConn(t, o)
	return c.Ledger(wire.Seal{}), c.Close
}

func openConn(t testing.TB, o Options) *Conn {
	t.Helper()
	c, err := OpenConn(o, testClock(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
