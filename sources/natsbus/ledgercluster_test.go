//go:build unix

package natsbus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// serveCluster starts three real servers that keep streams together.
func serveCluster(t *testing.T, binary string) []*realKeeper {
	t.Helper()
	const size = 3
	var ports, routes []int
	for range size {
		ports, routes = append(ports, sourcetest.FreePort(t)), append(routes, sourcetest.FreePort(t))
	}
	var urls []string
	for _, port := range routes {
		urls = append(urls, fmt.Sprintf("nats-route://127.0.0.1:%d", port))
	}
	var all []*realKeeper
	for i := range size {
		dir := t.TempDir()
		config := filepath.Join(dir, "nats.conf")
		text := fmt.Sprintf("server_name: n%d\nhost: 127.0.0.1\nport: %d\njetstream { store_dir: %q }\ncluster { name: c, host: 127.0.0.1, port: %d, routes: [%s] }\n",
			i, ports[i], dir, routes[i], strings.Join(urls, ", "))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, &realKeeper{keeper{fmt.Sprintf("127.0.0.1:%d", ports[i])}, sourcetest.StartProcess(t, binary, ports[i], "-c", config)})
	}
	return all
}

// Refused writes leave no gaps in a replicated stream, leaders are asked
// wherever we are connected, and the loss of one server loses nothing.
func TestLedgerOnCluster(t *testing.T) {
	t.Parallel()
	servers := serveCluster(t, sourcetest.RealBinary(t, "nats-server"))
	var ledgers []*natsbus.Ledger
	for _, s := range servers {
		l, _ := openLedger(t, natsbus.Options{URLs: []string{s.address}}, natsbus.LedgerOptions{Replicas: 3})
		if !sourcetest.Eventually(60*time.Second, func() bool { return l.Check(within(t, 5*time.Second)) == nil }) {
			t.Fatalf("no ledger: %v", l.Check(within(t, 5*time.Second)))
		}
		ledgers = append(ledgers, l)
	}
	if w := ledgers[0].Warning(); w != "" {
		t.Errorf("three servers keep the ends, and the warning is %q", w)
	}
	race := func(g watchdog.Generation, by []*natsbus.Ledger) {
		t.Helper()
		var racers sync.WaitGroup
		stands := make([]string, 12)
		for i := range stands {
			racers.Go(func() {
				r := lost("racer", g, fmt.Sprintf("%d-%d", g, i))
				sourcetest.Eventually(60*time.Second, func() bool {
					got, err := by[i%len(by)].WriteOnce(within(t, 10*time.Second), r)
					stands[i] = got.Nonce
					return err == nil
				})
			})
		}
		racers.Wait()
		for _, nonce := range stands {
			if nonce == "" || nonce != stands[0] {
				t.Fatalf("generation %d ended as %v", g, stands)
			}
		}
	}
	for g := range watchdog.Generation(5) {
		race(g+1, ledgers)
	}
	for _, l := range ledgers {
		checked(t, l)
	}
	_, js := servers[1].admin(t)
	s, err := js.Stream(t.Context(), wire.TerminalStream)
	if err != nil {
		t.Fatal(err)
	}
	leader := 0
	if info := s.CachedInfo(); info.Cluster != nil {
		_, _ = fmt.Sscanf(info.Cluster.Leader, "n%d", &leader)
	}
	servers[leader].Kill(t)
	var left []*natsbus.Ledger
	for i, l := range ledgers {
		if i != leader {
			left = append(left, l)
		}
	}
	for g := range watchdog.Generation(5) {
		race(g+6, left)
	}
	for _, l := range left {
		if !sourcetest.Eventually(60*time.Second, func() bool { return l.Check(within(t, 5*time.Second)) == nil }) {
			t.Errorf("after the loss of a server: %v", l.Check(within(t, 5*time.Second)))
		}
	}
	for g := watchdog.Generation(1); g <= 10; g++ {
		if _, found, err := left[0].Record(within(t, 10*time.Second), "racer", g); !found || err != nil {
			t.Errorf("generation %d has no end: %v", g, err)
		}
	}
}
