//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"go.uber.org/goleak"
)

func publish(t testing.TB, o Options) *Publisher {
	t.Helper()
	p, err := OpenPublisher(o, 0, testClock(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, p, nil)
	return p
}

func settled(t testing.TB, p *Publisher, what string, ok func(Counts) bool) {
	t.Helper()
	if !sourcetest.Eventually(60*time.Second, func() bool { return ok(p.Counts()) }) {
		t.Fatalf("still not: %s; counts %+v, link %+v", what, p.Counts(), p.Link())
	}
}

func TestPublisherWritesTheNewestWithItsTTL(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		p := publish(t, fast(address))
		payload := beatOf("a", 1)
		if err := p.PublishBeat("a", payload); err != nil {
			t.Fatal(err)
		}
		copy(payload, "overwritten by its owner")
		settled(t, p, "one beat", func(c Counts) bool { return c.Sent == 1 })
		ctx := context.Background()
		if got := admin.Get(ctx, keyA).Val(); got != string(beatOf("a", 1)) {
			t.Errorf("the key holds %q", got)
		}
		if left := admin.PTTL(ctx, keyA).Val(); left <= 55*time.Second || left > 60*time.Second {
			t.Errorf("the key lives for %v, want 60 s", left)
		}
		if p.Link().Phase != watchdog.LinkUp {
			t.Errorf("link %+v", p.Link())
		}
	})
}

// fault 16
func TestPublisherNeverReplays(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	p := publish(t, fast(s.Address()))
	if err := p.PublishBeat("a", beatOf("a", 1)); err != nil {
		t.Fatal(err)
	}
	settled(t, p, "one beat", func(c Counts) bool { return c.Sent == 1 })
	s.Kill(t)
	if err := p.PublishBeat("a", beatOf("a", 2)); err != nil {
		t.Fatal(err)
	}
	settled(t, p, "the beat is given up", func(c Counts) bool { return c.Discarded == 1 })
	s.Restart(t)
	if err := p.PublishBeat("b", beatOf("b", 3)); err != nil {
		t.Fatal(err)
	}
	p.Retry()
	settled(t, p, "a beat after the return", func(c Counts) bool { return c.Sent == 2 })
	if n := s.admin.Exists(context.Background(), keyA).Val(); n != 0 {
		t.Error("the beat of the outage was written after it")
	}
}

func TestPublisherNeverBlocks(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	p := publish(t, fast(s.Address()))
	settled(t, p, "up", func(Counts) bool { return p.Link().Phase == watchdog.LinkUp })
	s.Pause(t)
	began := time.Now()
	for i := range 10_000 {
		if err := p.PublishBeat(watchdog.ID(fmt.Sprintf("s-%d", i%100)), beatOf("x", i)); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(began); d > 10*time.Second { // one wait for an answer each would be hours
		t.Errorf("10,000 beats to a hanging server took %v", d)
	}
	settled(t, p, "most were replaced", func(c Counts) bool { return c.Replaced > 9000 && c.Discarded > 0 })
	s.Resume(t)
	if err := p.PublishBeat("fresh", beatOf("fresh", 1)); err != nil {
		t.Fatal(err)
	}
	settled(t, p, "a fresh one after SIGCONT", func(c Counts) bool { return c.Sent > 0 })
}

func TestPublishNowSaysWhatIsWrong(t *testing.T) {
	s := startReal(t, "user reader on >pw ~* -@all +get +ping")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	open := func(o Options) *Publisher {
		p, err := OpenPublisher(o, 90*time.Second, testClock(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	good := fast(s.Address())
	if err := open(good).PublishNow(ctx, "a", beatOf("a", 1)); err != nil {
		t.Error(err)
	}
	if left := s.admin.TTL(ctx, keyA).Val(); left < 80*time.Second {
		t.Errorf("the key lives for %v, want 90 s", left)
	}
	poor := good
	poor.Username, poor.Password = "reader", "pw"
	if err := open(poor).PublishNow(ctx, "a", nil); err == nil || !strings.Contains(err.Error(), "no permission: SET: ") {
		t.Errorf("without permission: %v", err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	if err := open(fast(closed.Addr().String())).PublishNow(ctx, "a", nil); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
	if err := open(good).PublishNow(ctx, "a b", nil); err == nil || !strings.Contains(err.Error(), "white space") {
		t.Errorf("a bad id: %v", err)
	}
	ro := good
	ro.ReadOnly = true
	if _, err := OpenPublisher(ro, 0, testClock(), nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	if _, err := OpenPublisher(good, time.Millisecond, testClock(), nil); err == nil {
		t.Error("a TTL of 1 ms was accepted")
	}
}

func TestPublisherLeavesAReplica(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	p := publish(t, fast(s.Address()))
	settled(t, p, "up", func(Counts) bool { return p.Link().Phase == watchdog.LinkUp })
	s.admin.Do(context.Background(), "replicaof", "127.0.0.1", sourcetest.FreePort(t))
	before := p.client.Load()
	if err := p.PublishBeat("a", beatOf("a", 1)); err != nil {
		t.Fatal(err)
	}
	settled(t, p, "refused", func(c Counts) bool { return c.Refused == 1 })
	settled(t, p, "a new connection", func(Counts) bool { return p.client.Load() != before })
	if got := p.Link().Detail; got != "the server is a read-only replica" {
		t.Errorf("detail %q", got)
	}
}

func TestPublisherInACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	p := publish(t, clusterOptions(nodes))
	for i := range 500 {
		id := fmt.Sprintf("s-%d", i)
		if err := p.PublishBeat(watchdog.ID(id), beatOf(id, 1)); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, p, "all beats", func(c Counts) bool { return c.Sent == 500 })
	var total int64
	for _, n := range nodes {
		total += n.admin.DBSize(context.Background()).Val()
	}
	if total != 500 {
		t.Errorf("%d keys in the cluster, want 500", total)
	}
}

func TestPublisherLeavesNoGoroutine(t *testing.T) {
	s := startReal(t)
	before := goleak.IgnoreCurrent()
	for _, address := range []string{s.Address(), "127.0.0.1:1"} {
		p, err := OpenPublisher(fast(address), 0, testClock(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Run(context.Background()) }()
		_ = p.PublishBeat("a", beatOf("a", 1))
		settled(t, p, "an outcome", func(c Counts) bool { return c.Sent+c.Discarded == 1 })
		p.Close()
		<-ended
	}
	goleak.VerifyNone(t, before)
}

func TestPollOneSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		answers, err := Poll(ctx, Options{URL: "redis://" + address}, "a", 20*time.Millisecond, nil)
		if err != nil {
			t.Fatal(err)
		}
		step := 0
		for a, err := range answers {
			if err != nil {
				t.Fatal(err)
			}
			switch step {
			case 0:
				if a.Present || !strings.Contains(a.Meaning(), "stalled") || !strings.Contains(a.Meaning(), "never started") {
					t.Fatalf("nothing was published, and the answer is %+v: %s", a, a.Meaning())
				}
				admin.Set(ctx, keyA, beatOf("a", 7), 40*time.Second)
			case 1:
				if !a.Present || a.Beat.Uptime != 7 || a.Beat.AgeKind != watchdog.AgeEstimated || a.Beat.Age < 19*time.Second || a.Left > 40*time.Second {
					t.Fatalf("answer %+v", a)
				}
				if got := a.Meaning(); !strings.HasPrefix(got, "a: running, beat about ") {
					t.Errorf("meaning %q", got)
				}
				admin.Del(ctx, keyA)
			case 2:
				if a.Present {
					t.Fatalf("a deleted key is present")
				}
				cancel()
			}
			step++
		}
		if step != 3 {
			t.Errorf("%d answers, want 3", step)
		}
	})
}

func TestPollIsNoAbsenceWithoutAnAnswer(t *testing.T) {
	_, err := Get(context.Background(), Options{URL: "redis://127.0.0.1:1"}, "a", nil)
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
	if _, err := Poll(context.Background(), Options{RedisTTL: 40 * time.Second}, "a", 0, nil); err == nil || !strings.Contains(err.Error(), "must be under the TTL") {
		t.Errorf("45 s of polling with a TTL of 40 s: %v", err)
	}
}
