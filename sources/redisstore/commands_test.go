//go:build unix

package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func realCommands() sourcetest.CommandHarness {
	return sourcetest.CommandHarness{Keeps: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		s := startReal(t, durable...)
		return &mortalCommandBus{commandBus{s.admin, fast(s.Address())}, s}
	}}
}

func TestCommandsOverRealServer(t *testing.T) {
	t.Parallel()
	sourcetest.RunCommands(t, realCommands())
}

// One that forgets everything when it is killed.
func TestCommandsOverServerThatKeepsNothing(t *testing.T) {
	t.Parallel()
	sourcetest.RunCommands(t, sourcetest.CommandHarness{Keeps: true, Forgets: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		s := startReal(t)
		return &mortalCommandBus{commandBus{s.admin, fast(s.Address())}, s}
	}})
}

func TestCommandsOverEmbeddedServer(t *testing.T) {
	t.Parallel()
	sourcetest.RunCommands(t, sourcetest.CommandHarness{Keeps: true, Serve: startMiniCommands})
}

func TestCommandsOverServerWithPassword(t *testing.T) {
	t.Parallel()
	sourcetest.RunCommands(t, sourcetest.CommandHarness{Keeps: true, Authenticated: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		s := startReal(t, "requirepass "+adminSecret)
		s.password = adminSecret
		o := fast(s.Address())
		o.Password = adminSecret
		return &commandBus{s.admin, o}
	}})
}

// TestCommandsOverCluster uses one Cluster, emptied for each case.
func TestCommandsOverCluster(t *testing.T) {
	t.Parallel()
	o := clusterOptions(startCluster(t))
	keys := ledgerKeys{clusterAdmin(t, o)}
	sourcetest.RunCommands(t, sourcetest.CommandHarness{Keeps: true, Alone: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		keys.Replace(t)
		return &commandBus{keys.admin, o}
	}})
}

func TestCommandsLeaveNothingBehind(t *testing.T) {
	sourcetest.RunCommandsLeaveNothing(t, realCommands())
}

// startMiniCommands starts the embedded server.
func startMiniCommands(t testing.TB) sourcetest.CommandBus {
	t.Helper()
	admin, address := startMini(t)
	return &commandBus{admin, fast(address)}
}

// commandBus is a Redis that carries commands.
type commandBus struct {
	admin   redis.UniversalClient
	options Options
}

type mortalCommandBus struct {
	commandBus
	server *realServer
}

func (b *mortalCommandBus) Kill(t testing.TB)    { b.server.Kill(t) }
func (b *mortalCommandBus) Restart(t testing.TB) { b.server.Restart(t) }

func (b *commandBus) Open(t testing.TB, r orders.Rules) (sourcetest.Commands, func()) {
	t.Helper()
	return openCommands(t, b.options, r)
}

func (b *commandBus) OpenLater(t testing.TB, r orders.Rules, by time.Duration) (sourcetest.Commands, func()) {
	t.Helper()
	return openCommandsBy(t, b.options, r, sourcetest.Ahead{Clock: testClock(), By: by})
}

func (b *commandBus) PutCommand(t testing.TB, id watchdog.ID, envelope []byte) {
	t.Helper()
	err := b.admin.XAdd(context.Background(), &redis.XAddArgs{Stream: wire.CommandsKey(id), Values: []any{"c", envelope}}).Err()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *commandBus) PutResult(t testing.TB, id watchdog.ID, command string, stored []byte) bool {
	t.Helper()
	if err := b.admin.Set(context.Background(), wire.ResultKey(id, command), stored, 0).Err(); err != nil {
		t.Fatal(err)
	}
	return true
}

func openCommands(t testing.TB, o Options, r orders.Rules) (*Commands, func()) {
	t.Helper()
	return openCommandsBy(t, o, r, testClock())
}

func openCommandsBy(t testing.TB, o Options, r orders.Rules, clock watchdog.Clock) (*Commands, func()) {
	t.Helper()
	var log sourcetest.Log
	c, err := OpenCommands(o, CommandOptions{Rules: r}, clock, log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	return c, sourcetest.Run(t, c, &log)
}

// A password of ours proves nothing where others need none.
func TestServerThatLetsStrangersInIsNotTrusted(t *testing.T) {
	t.Parallel()
	s := startReal(t, "user default on nopass ~* &* +@all", "user ops on >"+adminSecret+" ~* &* +@all")
	o := fast(s.Address())
	o.Username, o.Password = "ops", adminSecret
	c, _ := openCommands(t, o, orders.Rules{})
	var d sourcetest.Desk
	d.Receive(t, c, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	a, err := c.Carry(limited(t), sourcetest.CommandTo("a", "c1"), nil)
	if err != nil || a.Fate != watchdog.FateRefused || d.Handed("") > 0 {
		t.Errorf("%v, answered with %+v, handed over %d times", err, a, d.Handed(""))
	}
}

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCommandsWithFewRights(t *testing.T) {
	t.Parallel()
	s := startReal(t, "user default on >"+adminSecret+" ~* &* +@all",
		"user agent on >"+readerSecret+" ~{agent:liveness:a}:* resetchannels -@all +ping +xgroup +xreadgroup +xpending +xclaim +xack +xadd +pexpire +multi +exec +get +set",
		"user looker on >"+readerSecret+" %R~* resetchannels -@all +ping +get +xread +xrange")
	s.password = adminSecret
	as := func(user, password string) Options {
		o := fast(s.Address())
		o.Username, o.Password = user, password
		return o
	}
	operator, _ := openCommands(t, as("default", adminSecret), orders.Rules{})
	agent, _ := openCommands(t, as("agent", readerSecret), orders.Rules{Name: "agent"})
	looker, _ := openCommands(t, as("looker", readerSecret), orders.Rules{})
	var d sourcetest.Desk
	d.Receive(t, agent, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	if a, err := operator.Carry(limited(t), sourcetest.CommandTo("a", "c1"), nil); err != nil || a.Fate != watchdog.FateEffective || a.By != "agent" {
		t.Errorf("%v, the result is %+v", err, a)
	}
	if a, err := looker.Carry(limited(t), sourcetest.CommandTo("a", "c2"), nil); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("who may only look sent %+v, %v", a, err)
	}
	if a, err := agent.Carry(limited(t), sourcetest.CommandTo("b", "c3"), nil); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("an agent sent to another session %+v, %v", a, err)
	}
}

func TestReadOnlyRedisCarriesNoCommand(t *testing.T) {
	if _, err := OpenCommands(Options{ReadOnly: true}, CommandOptions{}, testClock(), nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("commands over a read-only Redis: %v", err)
	}
}

// What Redis keeps of commands is bounded, and goes by itself.
func TestCommandsInRedisAreBounded(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c, _ := openCommands(t, fast(s.Address()), orders.Rules{TrustLoopback: true})
	var d sourcetest.Desk
	d.Receive(t, c, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	if _, err := c.Carry(limited(t), sourcetest.CommandTo("a", "c1"), nil); err != nil {
		t.Fatal(err)
	}
	keys, err := s.admin.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 3 {
		t.Errorf("%v, the keys are %v", err, keys)
	}
	for _, key := range keys {
		if left, err := s.admin.PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > 31*24*time.Hour {
			t.Errorf("%s lives for %v, %v", key, left, err)
		}
		if !strings.HasPrefix(key, "{agent:liveness:a}:") {
			t.Errorf("%s stands in a slot of its own", key)
		}
	}
	if !sourcetest.Eventually(60*time.Second, func() bool {
		p, err := s.admin.XPending(t.Context(), wire.CommandsKey("a"), groupOf(sourcetest.OnlyStop())).Result()
		return err == nil && p.Count == 0
	}) {
		t.Error("what is finished is still pending")
	}
}
