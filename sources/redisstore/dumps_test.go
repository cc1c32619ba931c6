//go:build unix

package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// PutDump writes something where the dump of a command belongs.
func (b *commandBus) PutDump(t testing.TB, id watchdog.ID, command string, stored []byte) {
	t.Helper()
	if err := b.admin.Set(t.Context(), wire.DumpKey(id, command), stored, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestDumpsOverRealServer(t *testing.T) {
	t.Parallel()
	sourcetest.RunDumps(t, sourcetest.DumpHarness{Serve: realCommands().Serve, Most: wire.MaxDumpKeyBytes})
}

func TestDumpsLeaveNothingBehind(t *testing.T) {
	sourcetest.RunDumpsLeaveNothing(t, sourcetest.DumpHarness{Serve: realCommands().Serve, Most: wire.MaxDumpKeyBytes})
}

func TestDumpsOverEmbeddedServer(t *testing.T) {
	t.Parallel()
	sourcetest.RunDumps(t, sourcetest.DumpHarness{Most: wire.MaxDumpKeyBytes, Brief: true, Serve: startMiniCommands})
}

func TestDumpsOverCluster(t *testing.T) {
	t.Parallel()
	o := clusterOptions(startCluster(t))
	keys := ledgerKeys{clusterAdmin(t, o)}
	sourcetest.RunDumps(t, sourcetest.DumpHarness{Alone: true, Brief: true, Most: wire.MaxDumpKeyBytes, Serve: func(t testing.TB) sourcetest.CommandBus {
		keys.Replace(t)
		return &commandBus{keys.admin, o}
	}})
}

// What Redis keeps of dumps stands in the session's slot and goes by itself, the
// pieces of one that was never put together too.
func TestDumpsInRedisAreBounded(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c, _ := openCommands(t, fast(s.Address()), orders.Rules{Name: "run"})
	for i, size := range []int{100, 2 << 20} {
		d := sourcetest.DumpOfCommand("a", []string{"short", "long"}[i])
		d.Text = []byte(strings.Repeat("x\n", size/2))
		if err := c.PublishDump(limited(t), d); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.admin.Set(t.Context(), wire.DumpKey("a", "cut")+dumpPart, "half", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	cut := sourcetest.DumpOfCommand("a", "cut")
	cut.Text = []byte(strings.Repeat("x\n", 1<<20))
	if err := c.PublishDump(limited(t), cut); err != nil {
		t.Fatal(err)
	}
	if d, err := c.AwaitDump(limited(t), "a", "cut", func() {}); err != nil || string(d.Text) != string(cut.Text) {
		t.Errorf("over the pieces of an older one: %d bytes, %v", len(d.Text), err)
	}
	keys, err := s.admin.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 3 {
		t.Errorf("%v, the keys are %v", err, keys)
	}
	for _, key := range keys {
		if left, err := s.admin.PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > wire.DumpKeyHold {
			t.Errorf("%s lives for %v, %v", key, left, err)
		}
		if !strings.HasPrefix(key, "{agent:liveness:a}:dump:") {
			t.Errorf("%s stands elsewhere", key)
		}
	}
	if err := c.PublishDump(limited(t), sourcetest.DumpOfCommand("a", "")); err == nil {
		t.Error("a dump that nobody asked for has a place in Redis")
	}
}

func TestDumpsInPlacesOfAnotherKind(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c, _ := openCommands(t, fast(s.Address()), orders.Rules{Name: "ops"})
	if err := s.admin.LPush(t.Context(), wire.DumpKey("a", "c1"), "x").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.admin.Set(t.Context(), wire.DumpKey("a", "c2"), strings.Repeat("x", 20<<20), 0).Err(); err != nil {
		t.Fatal(err)
	}
	for command, why := range map[string]string{"c1": "no string", "c2": "longer than"} {
		ctx, cancel := context.WithCancel(t.Context())
		before := c.IgnoredDumps()
		go func() {
			defer cancel()
			sourcetest.Eventually(time.Minute, func() bool { return c.IgnoredDumps() > before })
		}()
		if d, err := c.AwaitDump(ctx, "a", command, func() {}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %d bytes, %v", command, len(d.Text), err)
		}
	}
	if n := c.IgnoredDumps(); n != 2 {
		t.Errorf("%d are counted", n)
	}
}

func TestDumpsWithFewRights(t *testing.T) {
	t.Parallel()
	s := startReal(t, "user default on >"+adminSecret+" ~* &* +@all",
		"user agent on >"+readerSecret+" ~{agent:liveness:a}:* resetchannels -@all +ping +set +setrange +rename +pexpire +multi +exec",
		"user looker on >"+readerSecret+" %R~* resetchannels -@all +ping +get")
	s.password = adminSecret
	as := func(user, password string) *Commands {
		o := fast(s.Address())
		o.Username, o.Password = user, password
		c, _ := openCommands(t, o, orders.Rules{Name: user})
		return c
	}
	operator, agent, looker := as("default", adminSecret), as("agent", readerSecret), as("looker", readerSecret)
	d := sourcetest.DumpOfCommand("a", "c1")
	d.Text = []byte(strings.Repeat("x\n", 1<<20))
	if err := agent.PublishDump(limited(t), d); err != nil {
		t.Errorf("an agent may not send: %v", err)
	}
	if got, err := operator.AwaitDump(limited(t), "a", "c1", func() {}); err != nil || len(got.Text) != len(d.Text) {
		t.Errorf("%d bytes, %v", len(got.Text), err)
	}
	if err := agent.PublishDump(limited(t), sourcetest.DumpOfCommand("b", "c1")); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("an agent sends another's dump: %v", err)
	}
	if _, err := looker.AwaitDump(limited(t), "a", "c1", func() {}); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("who may not read dumps is told %v", err)
	}
}
