//go:build unix

package natsbus_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// TestDumpsByThePermissions proves the configuration that the README gives: dumps
// of supervisors come whole, sent again too, and of those of agents as much as a
// message holds.
func TestDumpsByThePermissions(t *testing.T) {
	t.Parallel()
	conf := permissions
	for _, user := range []string{"agent", "viewer", "sweeper", "admin"} {
		conf = strings.Replace(conf, "$"+strings.ToUpper(user)+"_PASSWORD", "a", 1)
	}
	k := serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), conf)
	as := func(user string) *natsbus.Commands {
		c, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}, User: user, Password: "a"}, orders.Rules{Name: user})
		return c
	}
	operator := as("sweeper")
	text := bytes.Repeat([]byte("frame\n"), 500_000)
	for i, user := range []string{"sweeper", "agent", "sweeper"} { // the second whole one finds the store
		sender, id := as(user), fmt.Sprintf("c%d", i)
		d := sourcetest.DumpOfCommand("a", id)
		d.Text = text
		var sending sync.WaitGroup
		got, err := operator.AwaitDump(within(t, 60*time.Second), "a", id, func() {
			sending.Go(func() {
				for range 2 {
					if err := sender.PublishDump(within(t, 60*time.Second), d); err != nil {
						t.Errorf("%s may not send a dump: %v", user, err)
					}
				}
			})
		})
		sending.Wait()
		switch {
		case err != nil:
			t.Errorf("the dump of %s: %v", user, err)
		case user == "sweeper" && !bytes.Equal(got.Text, text):
			t.Errorf("%d of %d bytes came from a supervisor", len(got.Text), len(text))
		case user == "agent" && (!got.Truncated || len(got.Text) < 900<<10):
			t.Errorf("%d bytes came from an agent, truncated %v", len(got.Text), got.Truncated)
		}
	}
	own := sourcetest.DumpOfCommand("a", "")
	if err := operator.KeepDump(within(t, 60*time.Second), own); err != nil {
		t.Errorf("a supervisor may not keep a dump: %v", err)
	}
	if kept, err := operator.KeptDumps(within(t, 60*time.Second), "a", func(wire.Dump) bool { return false }); err != nil || len(kept) != 1 || !bytes.Equal(kept[0].Text, own.Text) {
		t.Errorf("%v; what is kept is %+v", err, kept)
	}
}
