//go:build unix

package redisstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

const leaseA = "{agent:liveness:a}:lease"

func openGuard(t *testing.T, o Options, logger *slog.Logger) *Guard {
	t.Helper()
	g, err := OpenGuard(o, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// cli asks with redis-cli, as an operator would.
func cli(t *testing.T, s *realServer, args ...string) string {
	t.Helper()
	out, err := exec.Command(sourcetest.RealBinary(t, "redis-cli"), append([]string{"-p", strconv.Itoa(s.port)}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// says is the state in the key; empty without one.
func says(t *testing.T, s *realServer) string {
	t.Helper()
	text := cli(t, s, "GET", keyA)
	if text == "" {
		return ""
	}
	var beat struct{ State string }
	if err := json.Unmarshal([]byte(text), &beat); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return beat.State
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !sourcetest.Eventually(60*time.Second, ok) {
		t.Fatalf("still not: %s", what)
	}
}

func TestRedisCliSeesTheLifeOfAGuardedAgent(t *testing.T) {
	t.Parallel()
	server := startReal(t)
	s := sourcetest.StartSession(t, sourcetest.QuickSession("a", openGuard(t, fast(server.Address()), nil)))
	eventually(t, "the key", func() bool { return says(t, server) == "running" })
	if ttl := cli(t, server, "PTTL", keyA); ttl == "-1" || ttl == "-2" {
		t.Errorf("the key lives for %s ms", ttl)
	}
	eventually(t, "the key of a stalled session expires", func() bool { return says(t, server) == "" })
	if got := cli(t, server, "EXISTS", leaseA); got != "1" {
		t.Error("the lease of a stalled session went with its key: its publisher lives")
	}
	s.SetTask("on it again")
	eventually(t, "the key after the recovery", func() bool { return says(t, server) == "running" })
	s.Complete()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := says(t, server); got != "completed" {
		t.Errorf("the last value says %q", got)
	}
	eventually(t, "the last value expires", func() bool { return says(t, server) == "" && cli(t, server, "EXISTS", leaseA) == "0" })
}

func TestPlainGuardWritesFiveFields(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		g := openGuard(t, fast(address), nil)
		for plain, want := range map[bool]int{true: 5, false: 19} {
			if err := g.Publish(t.Context(), messageOf(watchdog.StateRunning, plain)); err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(admin.Get(t.Context(), keyA).Val()), &fields); err != nil {
				t.Fatal(err)
			}
			if len(fields) != want {
				t.Errorf("plain %v: fields %v", plain, slices.Sorted(maps.Keys(fields)))
			}
			lease := admin.Get(t.Context(), leaseA).Val()
			if named := strings.Contains(lease, "k3x9"); named == plain {
				t.Errorf("plain %v: the lease is %s", plain, lease)
			}
		}
	})
}

// messageOf is a message of session a.
func messageOf(state watchdog.State, plain bool) guard.Message {
	b := new(watchdog.Beat)
	b.Reset()
	b.ID, b.BootID, b.State, b.Seq, b.Uptime = []byte("a"), []byte("k3x9"), state, 1, 7
	return guard.Message{Beat: b, Plain: plain, TTL: time.Minute}
}

func TestEndOfAnExecutionRefusesItsBeats(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		ctx := t.Context()
		admin.Set(ctx, "{agent:liveness:a}:head", `{"generation":2,"executions":[{"generation":1,"boot_id":"k3x9"},{"generation":2,"boot_id":"next"}]}`, 0)
		admin.Set(ctx, "{agent:liveness:a}:terminal:1", `{"outcome":"lost"}`, 0)
		g := openGuard(t, fast(address), nil)
		var refused *Refused
		if err := g.Publish(ctx, messageOf(watchdog.StateRunning, false)); !errors.As(err, &refused) {
			t.Errorf("the beat of an ended execution: %v", err)
		}
		if n := admin.Exists(ctx, keyA, leaseA).Val(); n != 0 {
			t.Error("it wrote something")
		}
		next := messageOf(watchdog.StateRunning, false)
		next.Beat.BootID = []byte("next")
		if err := g.Publish(ctx, next); err != nil {
			t.Errorf("the beat of the next one: %v", err)
		}
	})
}

func TestGuardThatMayWriteItsKeyAlone(t *testing.T) {
	t.Parallel()
	server := startReal(t, "user poor on >pw ~agent:liveness:* -@all +set +ping", "user noscript on >pw ~* -@all +set +get")
	for _, user := range []string{"poor", "noscript"} {
		t.Run(user, func(t *testing.T) {
			var log bytes.Buffer
			o := fast(server.Address())
			o.Username, o.Password = user, "pw"
			g := openGuard(t, o, slog.New(slog.NewTextHandler(&log, nil)))
			for range 3 {
				if err := g.Publish(t.Context(), messageOf(watchdog.StateRunning, true)); err != nil {
					t.Fatal(err)
				}
			}
			if says(t, server) != "running" || cli(t, server, "DEL", keyA) != "1" {
				t.Error("the key was not written")
			}
			if err := g.Publish(t.Context(), messageOf(watchdog.StateStalled, true)); err != nil {
				t.Error(err)
			}
			if got := cli(t, server, "EXISTS", keyA, leaseA); got != "0" {
				t.Error("a stalled beat wrote a key")
			}
			if n := strings.Count(log.String(), "lease"); n != 1 {
				t.Errorf("told %d times:\n%s", n, log.String())
			}
		})
	}
}

func TestGuardOfAServerWithoutScripts(t *testing.T) {
	t.Parallel()
	server := startReal(t, `rename-command EVALSHA ""`, `rename-command EVAL ""`)
	if err := openGuard(t, fast(server.Address()), nil).Publish(t.Context(), messageOf(watchdog.StateRunning, true)); err != nil || says(t, server) != "running" {
		t.Errorf("the key alone was not written: %v", err)
	}
}

// A Redis that dies or hangs costs the agent nothing, and beats come again with it.
func TestAgentGoesOnWithoutItsRedis(t *testing.T) {
	t.Parallel()
	server := startReal(t)
	s := sourcetest.StartSession(t, sourcetest.QuickSession("a", openGuard(t, fast(server.Address()), nil)))
	eventually(t, "the key", func() bool { return says(t, server) == "running" })
	for name, outage := range map[string]struct{ begin, end func() }{
		"killed": {func() { server.Kill(t) }, func() { server.Restart(t) }},
		"hangs":  {func() { server.Pause(t) }, func() { server.Resume(t) }},
	} {
		sourcetest.KeepWorking(t, s, name, outage.begin, outage.end)
		cli(t, server, "DEL", keyA)
		eventually(t, "the key after the outage", func() bool { s.Touch(); return says(t, server) == "running" })
	}
}

func TestGuardLeavesAReplica(t *testing.T) {
	t.Parallel()
	server := startReal(t)
	g := openGuard(t, fast(server.Address()), nil)
	server.admin.Do(t.Context(), "replicaof", "127.0.0.1", sourcetest.FreePort(t))
	before := g.pub.client.Load()
	if err := g.Publish(t.Context(), messageOf(watchdog.StateRunning, false)); err == nil || !strings.Contains(err.Error(), "read-only replica") {
		t.Errorf("error %v", err)
	}
	if g.pub.client.Load() == before {
		t.Error("the connection to the replica is kept")
	}
}

func TestGuardInACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	g := openGuard(t, clusterOptions(nodes), nil)
	for i := range 50 {
		m := messageOf(watchdog.StateRunning, false)
		m.Beat.ID = []byte("s-" + strconv.Itoa(i))
		if err := g.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var total int64
	for _, n := range nodes {
		total += n.admin.DBSize(t.Context()).Val()
	}
	if total != 100 {
		t.Errorf("%d keys, want 50 beats and 50 leases", total)
	}
}

func TestGuardLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	g, err := OpenGuard(Options{URL: "redis://127.0.0.1:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := sourcetest.QuickSession("a", g)
	o.FlushTimeout = 300 * time.Millisecond
	s := sourcetest.StartSession(t, o)
	s.Complete()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "did not reach Redis redis://127.0.0.1:1") {
		t.Errorf("Close: %v", err)
	}
	g.Close()
	goleak.VerifyNone(t, before)
}

func TestGuardTakesItsAddressFromTheEnvironment(t *testing.T) {
	t.Setenv(URLVariable, "redis://:secret@127.0.0.1:1")
	if name := openGuard(t, Options{}, nil).String(); !strings.Contains(name, "127.0.0.1:1") || strings.Contains(name, "secret") {
		t.Errorf("named %q", name)
	}
	if name := openGuard(t, Options{URL: "redis://127.0.0.1:2"}, nil).String(); !strings.Contains(name, "127.0.0.1:2") {
		t.Errorf("a given address yields to the environment: %q", name)
	}
	if _, err := OpenGuard(Options{ReadOnly: true}, nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	if err := openGuard(t, Options{}, nil).Publish(context.Background(), guard.Message{Beat: &watchdog.Beat{ID: []byte("a b")}, TTL: time.Minute}); err == nil || !strings.Contains(err.Error(), "white space") {
		t.Errorf("a bad id: %v", err)
	}
}
