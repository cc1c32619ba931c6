//go:build linux && !race

package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// A whole fleet that went is held; once it is released, everybody is settled
// soon, and once.
func TestReleasedFleetIsSettledSoon(t *testing.T) {
	waits(t)
	n := amount(300, 1000)
	f := fleetOf(t, strings.Replace(killConfig, "sweep_interval: 2s", "sweep_interval: 10s", 1), "")
	p := startProducers(t, "gone", n, f.nats, f.redis)
	all := func(verdict string) func() bool {
		return func() bool {
			for i := range f.serves {
				rows, err := f.rows(i)
				if err != nil || len(rows) != n {
					return false
				}
				for _, row := range rows {
					if row.Verdict != verdict || row.Generation != 1 {
						return false
					}
				}
			}
			return true
		}
	}
	f.eventually("the fleet is seen", all("running"))
	p.stop()
	f.eventually("the fleet is silent", all("silent"))
	time.Sleep(8 * time.Second) // lost, were it not held
	if ends := f.ends(); len(ends) > 0 {
		t.Fatalf("%d were settled while all are held", len(ends))
	}
	began := time.Now()
	if out, err := f.ask(0, "release", "--reason", "drill"); err != nil {
		t.Fatal(out, err)
	}
	lasted := func() int {
		c := dialNATS(t, f.nats)
		defer c.Close()
		var info struct{ State struct{ Messages int } }
		c.request("$JS.API.STREAM.INFO.SW_TERMINAL", "", &info)
		return info.State.Messages - 1 // one is of the self-test
	}
	if !sourcetest.Eventually(60*time.Second, func() bool { return lasted() >= n }) {
		t.Fatalf("after a minute %d of %d have a record", lasted(), n)
	}
	written := time.Since(began)
	f.eventually("both views show it", all("lost"))
	shown := time.Since(began)
	f.eventually("Redis has every record", func() bool {
		for i := range n {
			if f.copyOf(fmt.Sprintf("gone-%05d", i), 1) == "" {
				return false
			}
		}
		return true
	})
	everywhere := time.Since(began)
	if got := len(f.ends()); got != n {
		t.Errorf("%d records of %d", got, n)
	}
	sourcetest.Figure(t, "7, 8", fmt.Sprintf("%d sessions that fell together released, 2 serves, JetStream and Redis", n), "all settled within 10 s, once",
		fmt.Sprintf("%d records after %.1f s; both views after %.1f s; all in Redis after %.1f s", n, written.Seconds(), shown.Seconds(), everywhere.Seconds()))
	if written > 10*time.Second*slack {
		t.Errorf("the records took %v", written)
	}
}
