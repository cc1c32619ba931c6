//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func leaseOf(rec *sourcetest.Recorder, id watchdog.ID) (last watchdog.LeaseSeen, told int) {
	for _, ev := range sourcetest.EventsOf[watchdog.LeaseSeen](rec, 0) {
		if ev.ID == id {
			last = ev
			told++
		}
	}
	return last, told
}

func TestLeasesAreTold(t *testing.T) {
	t.Parallel() // it waits for servers, most of the time
	servers := map[string]func() (Options, *Conn){
		"single": func() (Options, *Conn) {
			o := fast(startReal(t).Address())
			return o, openConn(t, o)
		},
		"cluster": func() (Options, *Conn) {
			o := clusterOptions(startCluster(t))
			return o, openConn(t, o)
		},
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			o, c := start()
			hold := func(h Holding) {
				t.Helper()
				h.TTL = time.Minute
				if h.Lease == 0 {
					h.Lease = time.Minute
				}
				if err := c.do(t.Context(), func(ctx context.Context, c *client) error { return c.hold(ctx, h) }); err != nil {
					t.Fatal(err)
				}
			}
			hold(Holding{ID: "stalled", BootID: "b"}) // no liveness key
			hold(Holding{ID: "plain", Payload: beatOf("plain", 1)})
			_, rec := watch(t, o)
			waitLease := func(id watchdog.ID, want watchdog.LeaseSeen) {
				t.Helper()
				want.ID = id
				rec.Wait(t, 60*time.Second, fmt.Sprintf("the lease of %s", id), func() bool {
					got, _ := leaseOf(rec, id)
					got.At = 0
					return got == want
				})
			}
			waitLease("stalled", watchdog.LeaseSeen{BootID: "b", Held: true})
			waitLease("plain", watchdog.LeaseSeen{Held: true})

			hold(Holding{ID: "later", Generation: 3, BootID: "k3x9", Payload: bootBeat("later", "k3x9")})
			waitLease("later", watchdog.LeaseSeen{Generation: 3, BootID: "k3x9", Held: true})
			err := c.do(t.Context(), func(ctx context.Context, c *client) error { return c.Del(ctx, wire.LeaseKey("later")).Err() }) // as if it had run out
			if err != nil {
				t.Fatal(err)
			}
			waitLease("later", watchdog.LeaseSeen{Generation: 3, BootID: "k3x9"})
			hold(Holding{ID: "later", Generation: 4, BootID: "z", Payload: bootBeat("later", "z")})
			waitLease("later", watchdog.LeaseSeen{Generation: 4, BootID: "z", Held: true})

			waitPolls(t, rec, 3*leasePolls)
			if _, told := leaseOf(rec, "stalled"); told != 1 {
				t.Errorf("a lease that did not change was told %d times", told)
			}
		})
	}
}

func bootBeat(id, boot string) []byte {
	return fmt.Appendf(nil, `{"session_id":%q,"state":"running","uptime_secs":1,"boot_id":%q}`, id, boot)
}

// TestNoLeaseIsAskedWithoutPermission watches as a user who may read liveness
// keys alone: that is all it needs.
func TestNoLeaseIsAskedWithoutPermission(t *testing.T) {
	t.Parallel()
	s := serveReal(t).(*realServer)
	s.Send(t, "a", bootBeat("a", "b"))
	s.admin.Set(t.Context(), wire.LeaseKey("a"), `{"generation":1,"boot_id":"b"}`, time.Minute)
	o := fast(s.Address())
	o.Username, o.Password = "reader", readerSecret
	store, rec := watch(t, o)
	waitBeats(t, rec, 1)
	waitPolls(t, rec, 3*leasePolls)
	if link := store.Link(); link.Phase != watchdog.LinkUp || link.Detail != "" {
		t.Errorf("the link is %+v", link)
	}
	if denied := sourcetest.EventsOf[watchdog.Denied](rec, 0); len(denied) > 0 {
		t.Errorf("told as denied: %+v", denied)
	}
}
