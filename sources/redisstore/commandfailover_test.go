//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// watched is a Redis with a replica that a sentinel watches over.
type watched struct {
	master, replica, sentinel *realServer
}

func startWatched(t *testing.T) watched {
	t.Helper()
	w := watched{master: startReal(t, durable...)}
	w.replica = startReal(t, append(slices.Clone(durable), fmt.Sprintf("replicaof 127.0.0.1 %d", w.master.port))...)
	w.sentinel = startRealOn(t, sourcetest.FreePort(t), []string{"--sentinel"},
		fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 1", w.master.port),
		"sentinel down-after-milliseconds mymaster 1000", "sentinel failover-timeout mymaster 4000")
	if !sourcetest.Eventually(40*time.Second, func() bool {
		known, _ := w.sentinel.admin.Do(context.Background(), "sentinel", "replicas", "mymaster").Slice()
		return len(known) == 1
	}) {
		t.Fatal("the sentinel does not know the replica")
	}
	return w
}

func (w watched) options() Options {
	return Options{Addrs: []string{w.sentinel.Address()}, MasterName: "mymaster", PollInterval: 50 * time.Millisecond}
}

// TestCommandsAcrossAFailover: a command that is being obeyed, one that waits for
// its receiver, one that is sent while nobody leads, and one that was finished
// before: each has one fate, which its sender and whoever comes later learn, and is
// obeyed once.
func TestCommandsAcrossAFailover(t *testing.T) {
	t.Parallel() // it waits for servers, most of the time
	const patience = 90 * time.Second
	w := startWatched(t)
	b := &commandBus{w.master.admin, w.options()}
	operator, _ := b.Open(t, orders.Rules{TrustLoopback: true, Name: "ops"})
	supervisor, stopSupervisor := b.Open(t, orders.Rules{TrustLoopback: true, Name: "run"})
	var d sourcetest.Desk
	release := make(chan struct{})
	begun := make(chan struct{}, 1)
	d.Receive(t, supervisor, "a", sourcetest.OnlyStop(), func(ctx context.Context, got watchdog.Delivery) {
		if got.Command().ID == "held" {
			begun <- struct{}{}
			<-release
		}
		sourcetest.Obey(ctx, got)
	})
	carry := func(on watchdog.CommandWay, id watchdog.ID, command string) *sourcetest.Carried {
		return sourcetest.CarryOn(t, on, sourcetest.CommandTo(id, command))
	}
	effective := func(s *sourcetest.Carried, command string) {
		t.Helper()
		a, err := s.Result(t, patience)
		if err != nil || a.Fate != watchdog.FateEffective || a.Command != command {
			t.Errorf("%s: %v, %+v", command, err, a)
		}
	}
	effective(carry(operator, "a", "before"), "before")
	held := carry(operator, "a", "held")
	<-begun
	waits := carry(operator, "b", "waits")
	if !sourcetest.Eventually(patience, func() bool {
		n, err := w.replica.admin.Exists(context.Background(), wire.CommandsKey("a"), wire.CommandsKey("b"), wire.ResultKey("a", "before")).Result()
		return err == nil && n == 3
	}) {
		t.Fatal("the replica does not follow")
	}
	w.master.Kill(t)
	during := carry(operator, "a", "during")
	close(release) // it is finished while nobody leads
	effective(held, "held")
	effective(during, "during")
	d.Receive(t, supervisor, "b", sourcetest.OnlyStop(), sourcetest.Obey)
	effective(waits, "waits")
	if !sourcetest.Eventually(patience, func() bool {
		p, err := w.replica.admin.XPending(context.Background(), wire.CommandsKey("a"), groupOf(sourcetest.OnlyStop())).Result()
		return err == nil && p.Count == 0
	}) {
		t.Error("what is finished is still pending")
	}
	stopSupervisor()
	// Who comes later reads the streams from the beginning, and obeys nothing again.
	later, _ := b.Open(t, orders.Rules{TrustLoopback: true, Name: "later"})
	for _, id := range []watchdog.ID{"a", "b"} {
		d.Receive(t, later, id, sourcetest.OnlyStop(), sourcetest.Obey)
	}
	for _, command := range []string{"before", "held", "during"} {
		effective(carry(operator, "a", command), command)
	}
	effective(carry(operator, "b", "waits"), "waits")
	effective(carry(operator, "a", "after"), "after")
	for _, command := range []string{"before", "held", "during", "waits", "after"} {
		if n := d.Handed(command); n != 1 {
			t.Errorf("%s was obeyed %d times, want once", command, n)
		}
	}
}

// TestCommandsOverSentinel uses one rig, emptied for each case.
func TestCommandsOverSentinel(t *testing.T) {
	if !sourcetest.Soaking() {
		t.Skip("a fail-over is shown by another test; the whole suite is for the soak")
	}
	w := startWatched(t)
	sourcetest.RunCommands(t, sourcetest.CommandHarness{Keeps: true, Alone: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		if err := w.master.admin.FlushAll(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		return &commandBus{w.master.admin, w.options()}
	}})
}
