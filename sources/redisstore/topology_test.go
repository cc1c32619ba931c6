//go:build unix

package redisstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// startCluster starts three masters that share the slots.
func startCluster(t testing.TB) []*realServer {
	t.Helper()
	ctx := context.Background()
	var nodes []*realServer
	var buses []string // by default the port + 10000, which there may not be
	for range 3 {
		buses = append(buses, fmt.Sprint(sourcetest.FreePort(t)))
		nodes = append(nodes, startReal(t, "cluster-enabled yes", "cluster-port "+buses[len(nodes)], "cluster-node-timeout 2000", "cluster-require-full-coverage no"))
	}
	for i, n := range nodes {
		first, last := i*slotCount/3, (i+1)*slotCount/3-1
		if err := n.admin.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if err := n.admin.Do(ctx, "cluster", "meet", "127.0.0.1", nodes[0].port, buses[0]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	formed := sourcetest.Eventually(60*time.Second, func() bool {
		for _, n := range nodes {
			info, err := n.admin.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") ||
				!strings.Contains(info, "cluster_slots_assigned:16384") {
				return false
			}
		}
		return true
	})
	if !formed {
		t.Fatal("the cluster does not form")
	}
	return nodes
}

func clusterOptions(nodes []*realServer) Options {
	o := Options{Cluster: true, PollInterval: 50 * time.Millisecond}
	for _, n := range nodes {
		o.Addrs = append(o.Addrs, n.Address())
	}
	return o
}

func clusterAdmin(t testing.TB, o Options) *redis.ClusterClient {
	t.Helper()
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: o.Addrs, Protocol: 2, ReadTimeout: patience, WriteTimeout: patience, DialTimeout: patience})
	t.Cleanup(func() { _ = admin.Close() })
	return admin
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	o := clusterOptions(nodes)
	admin := clusterAdmin(t, o)
	const n = 2000
	fill(t, admin, n, 1)
	_, rec := watch(t, o)
	waitBeats(t, rec, n)
	fill(t, admin, n, 2)
	ids := map[string]bool{}
	for _, b := range waitBeats(t, rec, 2*n)[n:] {
		ids[string(b.ID)] = b.Uptime == 2 && b.AgeKind == watchdog.AgeExact
	}
	if len(ids) != n {
		t.Errorf("%d sessions changed, want %d", len(ids), n)
	}

	t.Run("a slot moves", func(t *testing.T) {
		mark := rec.Mark()
		moveSlot(t, nodes, "agent:liveness:batch-job-000000")
		rec.Wait(t, 60*time.Second, "a changed topology", func() bool {
			return slices.Contains(changes(rec, mark), "cluster topology changed")
		})
		rec.Wait(t, 60*time.Second, "the link is up", func() bool { return rec.Phase() == watchdog.LinkUp })
		waitPolls(t, rec, 2)
		if gone := sourcetest.EventsOf[watchdog.KeyGone](rec, mark); len(gone) > 0 {
			t.Errorf("moving a slot made %d sessions disappear: %+v", len(gone), gone[0])
		}
	})

	t.Run("a node dies", func(t *testing.T) {
		nodes[2].Kill(t)
		rec.Wait(t, 60*time.Second, "down", func() bool { return rec.Phase() == watchdog.LinkDown })
		mark := rec.Mark()
		if sourcetest.Eventually(4*time.Second, func() bool { return trips(rec, mark) > 0 }) {
			t.Error("a poll without a third of the slots is told as a round trip")
		}
		if gone := sourcetest.EventsOf[watchdog.KeyGone](rec, mark); len(gone) > 0 {
			t.Errorf("a dead node made %d sessions disappear", len(gone))
		}
		nodes[2].Restart(t)
		rec.Wait(t, 60*time.Second, "a good poll again", func() bool { return trips(rec, mark) > 0 })
		if len(changes(rec, mark)) == 0 {
			t.Error("the return of a node is not told")
		}
	})
}

// moveSlot hands the slot of a key to the next node, keys included.
func moveSlot(t *testing.T, nodes []*realServer, key string) {
	t.Helper()
	ctx := context.Background()
	slot, from := int(slotOf(key)), 0
	for slot >= (from+1)*slotCount/3 {
		from++
	}
	source, target := nodes[from], nodes[(from+1)%3]
	sourceID, _ := source.admin.ClusterMyID(ctx).Result()
	targetID, _ := target.admin.ClusterMyID(ctx).Result()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(target.admin.Do(ctx, "cluster", "setslot", slot, "importing", sourceID).Err())
	must(source.admin.Do(ctx, "cluster", "setslot", slot, "migrating", targetID).Err())
	keys, err := source.admin.ClusterGetKeysInSlot(ctx, slot, 1000).Result()
	must(err)
	for _, k := range keys {
		must(source.admin.Migrate(ctx, "127.0.0.1", fmt.Sprint(target.port), k, 0, time.Second).Err())
	}
	must(target.admin.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
	must(source.admin.Do(ctx, "cluster", "setslot", slot, "node", targetID).Err())
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master := startReal(t)
	replica := startReal(t, fmt.Sprintf("replicaof 127.0.0.1 %d", master.port))
	sentinel := startRealOn(t, sourcetest.FreePort(t), []string{"--sentinel"},
		fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 1", master.port),
		"sentinel down-after-milliseconds mymaster 1000", "sentinel failover-timeout mymaster 4000")
	master.Send(t, "a", beatOf("a", 1))
	o := Options{Addrs: []string{sentinel.Address()}, MasterName: "mymaster", PollInterval: 50 * time.Millisecond}
	store, rec := watch(t, o)
	waitBeats(t, rec, 1)
	ready := sourcetest.Eventually(60*time.Second, func() bool {
		n, err := replica.admin.Exists(context.Background(), keyA).Result()
		known, _ := sentinel.admin.Do(context.Background(), "sentinel", "replicas", "mymaster").Slice()
		return err == nil && n == 1 && len(known) == 1
	})
	if !ready {
		t.Fatal("the replica does not follow, or the sentinel does not know it")
	}
	mark := rec.Mark()
	master.Kill(t)
	rec.Wait(t, 60*time.Second, "down", func() bool { return rec.Phase() == watchdog.LinkDown })
	rec.Wait(t, 40*time.Second, "the other server answers", func() bool { return rec.Phase() == watchdog.LinkUp })
	rec.Wait(t, 60*time.Second, "it is told that another server answers", func() bool {
		got := changes(rec, mark)
		return slices.Contains(got, "another server answers") || slices.Contains(got, "restarted")
	})
	if gone := sourcetest.EventsOf[watchdog.KeyGone](rec, mark); len(gone) > 0 {
		t.Errorf("a key that the replica holds was said to be gone: %+v", gone)
	}
	replica.Send(t, "b", beatOf("b", 1))
	waitBeats(t, rec, 2)
	if got := store.Address(); got != "sentinel mymaster at "+sentinel.Address() {
		t.Errorf("address %q", got)
	}
}

// authority makes certificates for one test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", nil, nil)
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.crt and name.key; without a parent it signs itself.
func (a *authority) issue(t *testing.T, name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        parent == nil, BasicConstraintsValid: true,
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(a.path(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue(t, "server", a.cert, a.key)
	a.issue(t, "client", a.cert, a.key)
	port := sourcetest.FreePort(t)
	plain := startReal(t, fmt.Sprintf("tls-port %d", port), "tls-auth-clients yes",
		"tls-cert-file "+a.path("server.crt"), "tls-key-file "+a.path("server.key"), "tls-ca-cert-file "+a.path("ca.crt"))
	plain.Send(t, "a", beatOf("a", 1))
	secure := fmt.Sprintf("rediss://127.0.0.1:%d", port)
	mutual := TLSOptions{CAFile: a.path("ca.crt"), CertFile: a.path("client.crt"), KeyFile: a.path("client.key")}

	t.Run("mutual", func(t *testing.T) {
		_, rec := watch(t, Options{URL: secure, TLS: mutual, PollInterval: 50 * time.Millisecond})
		waitBeats(t, rec, 1)
	})
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"unknown authority": {Options{URL: secure}, "TLS: the certificate is signed by an unknown authority"},
		"no certificate":    {Options{URL: secure, TLS: TLSOptions{CAFile: a.path("ca.crt")}}, "TLS: the server wants a certificate of ours that it trusts"},
		"wrong name":        {Options{URL: fmt.Sprintf("rediss://localhost:%d", port), TLS: mutual}, "TLS: the certificate is for another host name"},
		"plain server":      {Options{URL: "rediss://" + plain.Address(), TLS: mutual}, "TLS: the handshake timed out; perhaps this is not a TLS port"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &sourcetest.Recorder{}
			store, err := Open(c.options, rec, testClock(), nil)
			if err != nil {
				t.Fatal(err)
			}
			sourcetest.Run(t, store, nil)
			rec.Wait(t, 60*time.Second, c.want, func() bool { return store.Link().Detail == c.want })
		})
	}
}
