//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const keyA = "agent:liveness:a"

// onBoth runs a test against a real server and against the embedded one.
func onBoth(t *testing.T, test func(t *testing.T, address string, admin *redis.Client)) {
	t.Run("real", func(t *testing.T) {
		s := startReal(t)
		test(t, s.Address(), s.admin)
	})
	t.Run("embedded", func(t *testing.T) {
		s, err := embedded.StartRedis(embedded.RedisOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		admin := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, ReadTimeout: patience, WriteTimeout: patience, DialTimeout: patience})
		t.Cleanup(func() { _ = admin.Close() })
		test(t, s.Addr(), admin)
	})
}

func TestAgeAtFirstSight(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		ctx := context.Background()
		admin.Set(ctx, "agent:liveness:half", beatOf("half", 1), 30*time.Second)
		admin.Set(ctx, "agent:liveness:longer", beatOf("longer", 1), 600*time.Second)
		admin.Set(ctx, "agent:liveness:forever", beatOf("forever", 1), 0)
		_, rec := watch(t, fast(address))
		kinds := map[string]watchdog.AgeKind{}
		for _, b := range waitBeats(t, rec, 3) {
			kinds[string(b.ID)] = b.AgeKind
			if string(b.ID) == "half" && (b.Age < 29*time.Second || b.Age > 45*time.Second) {
				t.Errorf("a key with 30 s of 60 s left is said to be %v old", b.Age)
			}
		}
		want := map[string]watchdog.AgeKind{"half": watchdog.AgeEstimated, "longer": watchdog.AgeUnknown, "forever": watchdog.AgeUnknown}
		for id, kind := range want {
			if kinds[id] != kind {
				t.Errorf("the age of %s is of kind %v, want %v", id, kinds[id], kind)
			}
		}
	})
}

func TestOnlyChangedBytesAreABeat(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		ctx := context.Background()
		_, rec := watch(t, fast(address))
		admin.Set(ctx, keyA, beatOf("a", 1), time.Minute)
		waitBeats(t, rec, 1)
		admin.Set(ctx, keyA, beatOf("a", 1), time.Minute) // the TTL is new, the bytes are not
		waitPolls(t, rec, 3)
		if n := rec.Heard(); n != 1 {
			t.Fatalf("%d beats for one value", n)
		}
		admin.Set(ctx, keyA, beatOf("a", 2), time.Minute)
		b := waitBeats(t, rec, 2)[1]
		if b.AgeKind != watchdog.AgeExact || b.Uptime != 2 || b.Source != watchdog.SourceRedis || b.Received <= 0 {
			t.Errorf("a changed value became %+v", b)
		}
		last := sourcetest.EventsOf[watchdog.RoundTrip](rec, 0)
		if got := last[len(last)-1].Keys; got != 1 {
			t.Errorf("the round trip covered %d sessions, want 1", got)
		}
	})
}

func TestAbsence(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		ctx := context.Background()
		_, rec := watch(t, fast(address))
		admin.Set(ctx, keyA, beatOf("a", 1), time.Minute)
		waitBeats(t, rec, 1)
		waitPolls(t, rec, 2)
		admin.Del(ctx, keyA)
		gone := func() []watchdog.KeyGone { return sourcetest.EventsOf[watchdog.KeyGone](rec, 0) }
		rec.Wait(t, 60*time.Second, "two polls without the key", func() bool { return len(gone()) == 2 })
		waitPolls(t, rec, 3)
		got := gone()
		if len(got) != 2 || got[0].Polls != 1 || got[1].Polls != 2 || got[0].ID != "a" || got[0].LastSeen <= 0 || got[0].LastSeen >= got[0].At {
			t.Fatalf("told %+v, want polls 1 and 2, once each", got)
		}
		admin.Set(ctx, keyA, beatOf("a", 1), time.Minute)
		back := func() int { return len(sourcetest.EventsOf[watchdog.KeyBack](rec, 0)) }
		rec.Wait(t, 60*time.Second, "the key is back", func() bool { return back() == 1 })
		if n := rec.Heard(); n != 1 {
			t.Errorf("the old bytes became a beat")
		}
		admin.Del(ctx, keyA)
		rec.Wait(t, 60*time.Second, "gone again", func() bool { return len(gone()) == 4 })
		admin.Set(ctx, keyA, beatOf("a", 9), time.Minute)
		if b := waitBeats(t, rec, 2)[1]; b.Uptime != 9 || b.AgeKind != watchdog.AgeExact {
			t.Errorf("new bytes after absence became %+v", b)
		}
		if back() != 1 {
			t.Error("new bytes were told as KeyBack too")
		}
	})
}

func TestExpiryIsAbsence(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		ctx := context.Background()
		_, rec := watch(t, fast(address))
		admin.Set(ctx, keyA, beatOf("a", 1), time.Minute)
		waitBeats(t, rec, 1)
		admin.PExpire(ctx, keyA, time.Second) // not before it was seen
		rec.Wait(t, 60*time.Second, "the key is gone by itself", func() bool {
			return len(sourcetest.EventsOf[watchdog.KeyGone](rec, 0)) == 2
		})
	})
}

func TestForeignKeysBreakNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		ctx := context.Background()
		admin.LPush(ctx, "agent:liveness:list", "x")
		admin.HSet(ctx, "agent:liveness:hash", "f", "v")
		admin.Set(ctx, "agent:liveness:huge", strings.Repeat("x", 3<<20), 0)
		admin.Set(ctx, "agent:liveness:empty", "", 0)
		admin.Set(ctx, "agent:liveness:not json", "hello", 0)
		pipe := admin.Pipeline()
		for i := range 5000 {
			pipe.Set(ctx, fmt.Sprintf("cache:%d", i), "v", 0)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		admin.Set(ctx, keyA, beatOf("a", 1), time.Minute)
		_, rec := watch(t, fast(address))
		waitBeats(t, rec, 1)
		rec.Wait(t, 60*time.Second, "three refusals", func() bool {
			counts, _ := rec.Refused()
			return counts[watchdog.RefusedSize] == 1 && counts[watchdog.RefusedJSON]+counts[watchdog.RefusedID] == 2
		})
		waitPolls(t, rec, 5)
		if counts, _ := rec.Refused(); counts[watchdog.RefusedSize] != 1 {
			t.Errorf("one huge value was refused %d times", counts[watchdog.RefusedSize])
		}
		// A known beat grows beyond all measure, and shrinks again.
		admin.Set(ctx, keyA, strings.Repeat("y", 40<<20), time.Minute)
		rec.Wait(t, 60*time.Second, "the giant is refused", func() bool {
			counts, _ := rec.Refused()
			return counts[watchdog.RefusedSize] == 2
		})
		waitPolls(t, rec, 2)
		admin.Set(ctx, keyA, beatOf("a", 2), time.Minute)
		waitBeats(t, rec, 2)
	})
}

func TestAKeyThatBecomesAListIsGone(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	ctx := context.Background()
	s.Send(t, "a", beatOf("a", 1))
	_, rec := watch(t, fast(s.Address()))
	waitBeats(t, rec, 1)
	s.admin.Del(ctx, keyA)
	s.admin.LPush(ctx, keyA, "x")
	rec.Wait(t, 60*time.Second, "the beat is gone", func() bool {
		return len(sourcetest.EventsOf[watchdog.KeyGone](rec, 0)) == 2
	})
	waitPolls(t, rec, 2)
}

func TestManyKeys(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	const n = 30_000 // more than one poll may scan
	fill(t, s.admin, n, 1)
	_, rec := watch(t, fast(s.Address()))
	waitBeats(t, rec, n)
	fill(t, s.admin, n, 2)
	for _, b := range waitBeats(t, rec, 2*n)[n:] {
		if b.Uptime != 2 { // its age is exact only if no poll timed out in between
			t.Fatalf("beat %+v", b)
		}
	}
	s.Send(t, "late", beatOf("late", 1))
	waitBeats(t, rec, 2*n+1)
	trip := sourcetest.EventsOf[watchdog.RoundTrip](rec, 0)
	if got := trip[len(trip)-1].Keys; got < n {
		t.Errorf("the last poll covered %d sessions, want %d", got, n)
	}
	if gone := sourcetest.EventsOf[watchdog.KeyGone](rec, 0); len(gone) > 0 {
		t.Errorf("%d keys were said to be gone", len(gone))
	}
}

func fill(t testing.TB, admin redis.UniversalClient, n, uptime int) {
	t.Helper()
	ctx := context.Background()
	for first := 0; first < n; first += 5000 {
		pipe := admin.Pipeline()
		for i := first; i < min(n, first+5000); i++ {
			id := fmt.Sprintf("batch-job-%06d", i)
			pipe.Set(ctx, "agent:liveness:"+id, beatOf(id, uptime), time.Hour)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMaxKeysIsTold(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	fill(t, s.admin, 50, 1)
	o := fast(s.Address())
	o.MaxKeys = 20
	store, rec := watch(t, o)
	rec.Wait(t, 60*time.Second, "a warning that keys are not watched", func() bool {
		return strings.Contains(store.Link().Warning, "more than 20 liveness keys")
	})
	if n := rec.Heard(); n != 20 {
		t.Errorf("%d sessions are watched, want 20", n)
	}
}

func TestRestartIsTold(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	s.Send(t, "a", beatOf("a", 1))
	_, rec := watch(t, fast(s.Address()))
	waitBeats(t, rec, 1)
	mark := rec.Mark()
	s.Kill(t)
	rec.Wait(t, 60*time.Second, "the link is down", func() bool { return rec.Phase() == watchdog.LinkDown })
	if n := trips(rec, mark); n > 1 {
		t.Errorf("%d round trips to a dead server", n)
	}
	s.Restart(t)
	rec.Wait(t, 60*time.Second, "up again", func() bool { return rec.Phase() == watchdog.LinkUp })
	rec.Wait(t, 60*time.Second, "the lost key is gone twice", func() bool {
		return len(sourcetest.EventsOf[watchdog.KeyGone](rec, mark)) == 2
	})
	order := []string{}
	for _, ev := range rec.AllEvents()[mark:] {
		switch ev.(type) {
		case watchdog.StoreChanged:
			order = append(order, "changed")
		case watchdog.KeyGone:
			order = append(order, "gone")
		}
	}
	if !slices.Equal(order, []string{"changed", "gone", "gone"}) {
		t.Errorf("told %v: a restart must be told before what is missing after it (%v)", order, changes(rec, mark))
	}
}

func TestASilentReconnectIsTold(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	_, rec := watch(t, fast(s.Address()))
	mark := rec.Mark()
	s.admin.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
	rec.Wait(t, 60*time.Second, "a changed store", func() bool { return len(changes(rec, mark)) > 0 })
	if got := changes(rec, mark)[0]; got != "reconnected" {
		t.Errorf("reason %q", got)
	}
}

func TestChangesDuringAnOutageAreEstimates(t *testing.T) {
	t.Parallel()
	s := startReal(t, "appendonly yes", "appendfsync always")
	s.Send(t, "a", beatOf("a", 1))
	o := fast(s.Address())
	_, rec := watch(t, o)
	waitBeats(t, rec, 1)
	s.Pause(t)
	rec.Wait(t, patience, "down", func() bool { return rec.Phase() == watchdog.LinkDown })
	time.Sleep(2*o.PollInterval + ioLimit) // until a change would not be taken for one that was just made
	s.Kill(t)
	s.Restart(t)
	s.Send(t, "a", beatOf("a", 2))
	if b := waitBeats(t, rec, 2)[1]; b.AgeKind != watchdog.AgeEstimated {
		t.Errorf("a value that changed while nobody looked has an age of kind %v", b.AgeKind)
	}
}

func TestMissingPermissionIsToldAndCleared(t *testing.T) {
	t.Parallel()
	s := startReal(t, "user poor on >pw ~agent:liveness:* -@all +scan +ping")
	s.Send(t, "a", beatOf("a", 1))
	o := fast(s.Address())
	o.Username, o.Password = "poor", "pw"
	rec := &sourcetest.Recorder{}
	store, err := Open(o, rec, testClock(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, store, nil)
	denied := func() []watchdog.Denied { return sourcetest.EventsOf[watchdog.Denied](rec, 0) }
	rec.Wait(t, 60*time.Second, "a denial", func() bool { return len(denied()) > 0 })
	if got := denied()[0].Reason; !strings.HasPrefix(got, "MGET: ") {
		t.Errorf("reason %q does not name the command", got)
	}
	if trips(rec, 0) > 0 {
		t.Error("a poll without permission gives sight")
	}
	if link := store.Link(); !strings.HasPrefix(link.Detail, "no permission: ") {
		t.Errorf("detail %q", link.Detail)
	}
	s.admin.Do(context.Background(), "acl", "setuser", "poor", "+mget")
	store.Retry()
	rec.Wait(t, 60*time.Second, "the denial is cleared", func() bool { d := denied(); return d[len(d)-1].Reason == "" })
	if b := waitBeats(t, rec, 1)[0]; b.AgeKind != watchdog.AgeUnknown {
		t.Errorf("without PTTL the age is of kind %v, want unknown", b.AgeKind)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	// Not the least recently used: which those are counts this machine's seconds.
	s := startReal(t, "maxmemory 2500kb", "maxmemory-policy allkeys-random")
	store, rec := watch(t, fast(s.Address()))
	for _, want := range []string{"maxmemory-policy allkeys-random evicts", "appendonly is off"} {
		if got := store.Link().Warning; !strings.Contains(got, want) {
			t.Errorf("warning %q does not say %q", got, want)
		}
	}
	ctx := context.Background()
	fill(t, s.admin, 300, 1)
	waitBeats(t, rec, 300)
	for i := range 3000 {
		s.admin.Set(ctx, fmt.Sprintf("cache:%d", i), strings.Repeat("v", 1000), 0)
	}
	rec.Wait(t, 60*time.Second, "evicted beats are gone", func() bool {
		return len(sourcetest.EventsOf[watchdog.KeyGone](rec, 0)) > 1
	})
	rec.Wait(t, 60*time.Second, "a warning about evictions", func() bool {
		return strings.Contains(store.Link().Warning, "keys were evicted")
	})
}

func TestAReplicaIsNamed(t *testing.T) {
	master := startReal(t)
	replica := startReal(t, fmt.Sprintf("replicaof 127.0.0.1 %d", master.port))
	store, rec := watch(t, fast(replica.Address()))
	rec.Wait(t, 60*time.Second, "a warning about the replica", func() bool {
		return strings.Contains(store.Link().Warning, "this is a replica")
	})
	mark := rec.Mark()
	replica.admin.Do(context.Background(), "replicaof", "no", "one")
	rec.Wait(t, 60*time.Second, "the new role", func() bool {
		return slices.Contains(changes(rec, mark), "role changed from slave to master")
	})
	rec.Wait(t, 60*time.Second, "no warning any more", func() bool {
		return !strings.Contains(store.Link().Warning, "replica")
	})
}

func TestLongIntervalsStaySighted(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	o := fast(s.Address())
	o.PollInterval = 30 * time.Second
	_, rec := watch(t, o)
	rec.Wait(t, 60*time.Second, "a ping between two polls", func() bool { return trips(rec, 0) >= 2 })
}

func TestRetryEndsTheWait(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	o := fast(s.Address())
	o.PollInterval = 50 * time.Second
	store, rec := watch(t, o)
	s.Send(t, "a", beatOf("a", 1))
	store.Retry()
	waitBeats(t, rec, 1)
}
