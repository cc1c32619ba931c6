package demo_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/demo"
	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestMain(m *testing.M) {
	sourcetest.AtOnce(8) // they wait for the story
	goleak.VerifyTestMain(m)
}

func start(t testing.TB, o demo.Options) *demo.Demo {
	t.Helper()
	d, err := demo.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// watch runs an engine on the demo's buses, as an attached screen would.
func watch(t *testing.T, d *demo.Demo) *watchdog.Engine {
	t.Helper()
	c := clock.System()
	e := watchdog.NewEngine(watchdog.EngineConfig{Policy: d.Policy(), Clock: c})
	bus, err := natsbus.Open(natsbus.Options{URLs: []string{d.NATSURL()}}, e, c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	store, err := redisstore.Open(redisstore.Options{URL: d.RedisURL(), RedisTTL: d.Policy().RedisTTL}, e, c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{e.Run, bus.Run, store.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return e
}

// observed are the verdicts that watching alone can give.
var observed = []watchdog.Verdict{watchdog.Running, watchdog.Waiting, watchdog.Quiet, watchdog.Unknown, watchdog.Disputed,
	watchdog.Silent, watchdog.Stalled, watchdog.Wedge, watchdog.Completed, watchdog.Failed}

// The promise is one of 20 s, to a machine that has time for it. One that is busy
// misses a moment of the story by so little, and has to wait for the next round.
func TestEveryVerdictWithinTwentySeconds(t *testing.T) {
	t.Parallel()
	const promise, pause = 20 * time.Second, 50 * time.Millisecond
	const unhurried = int(promise/pause) * 3 / 4 // looks in that time
	looks := 0
	began := time.Now()
	d := start(t, demo.Options{Seed: 1})
	e := watch(t, d)
	first := map[watchdog.Verdict]time.Duration{}
	who := map[watchdog.Verdict][]string{}
	for len(first) < len(observed) && time.Since(began) < promise+demo.Loop+demo.Loop/2 {
		if time.Since(began) < promise {
			looks++
		}
		w, err := e.Look(t.Context(), watchdog.Ask{Height: -1, KeepEnded: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range w.Rows {
			if _, ok := first[r.Verdict]; !ok {
				first[r.Verdict] = time.Since(began).Round(10 * time.Millisecond)
				who[r.Verdict] = append(who[r.Verdict], string(r.ID)+": "+r.Why)
			}
		}
		select {
		case <-t.Context().Done():
		case <-time.After(pause):
		}
	}
	t.Logf("looked %d times in %v", looks, promise)
	for _, v := range observed {
		at, ok := first[v]
		t.Logf("%-10s after %v %s", v, at, strings.Join(who[v], "; "))
		if !ok || at > promise && looks >= unhurried {
			t.Errorf("no agent was %s within %v", v, promise)
		}
	}
	w, err := e.Look(t.Context(), watchdog.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	if w.Total != demo.DefaultAgents {
		t.Errorf("%d agents are seen, want %d", w.Total, demo.DefaultAgents)
	}
	for _, l := range w.Links {
		if n := l.RefusedTotal() + l.Fields + l.Dropped; n > 0 {
			t.Errorf("%s refused or dropped %d: %+v", l.Source, n, l)
		}
	}
	if n := d.Lost(); n > 0 {
		t.Errorf("the servers did not take %d beats", n)
	}
}

// TestAgentsAreRealClients reads the wires as any other program would.
func TestAgentsAreRealClients(t *testing.T) {
	t.Parallel()
	d := start(t, demo.Options{Seed: 5, Agents: 120})
	nc, err := nats.Connect(d.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	beats := make(chan *nats.Msg, 4096)
	if _, err := nc.ChanSubscribe(wire.LivenessSubjectAll, beats); err != nil {
		t.Fatal(err)
	}
	// The observer's way to Redis is shut at times; the agents have another.
	rdb := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(d.StoreURL(), "redis://")})
	defer rdb.Close()

	onNATS := 0
	for _, a := range d.Script().Agents() {
		if a.Buses&demo.NATS != 0 {
			onNATS++
		}
	}
	heard := map[string]bool{}
	// Who spoke before we listened speaks again an interval later, or more on a
	// busy machine.
	deadline := time.After(4 * d.Script().Interval())
	for done := false; !done && len(heard) < onNATS; {
		select {
		case msg := <-beats:
			id, _ := wire.IDFromSubject(msg.Subject)
			var b watchdog.Beat
			if err := wire.DecodeBeat(&b, id, msg.Data); err != nil || b.Dropped > 0 {
				t.Fatalf("%s: %v", msg.Data, err)
			}
			heard[id] = true
		case <-deadline:
			done = true
		}
	}
	want := 0
	for _, a := range d.Script().Agents() {
		switch {
		case a.Buses&demo.NATS != 0:
			want++
			if !heard[a.ID] {
				t.Errorf("%s was not heard over NATS", a.ID)
			}
		case heard[a.ID]:
			t.Errorf("%s was heard over NATS", a.ID)
		}
	}
	if want < 100 {
		t.Errorf("only %d agents on NATS", want)
	}
	var keys []string
	for until := time.Now().Add(4 * d.Script().Interval()); len(keys) < 60 && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if keys, err = rdb.Keys(t.Context(), wire.LivenessKeyPattern).Result(); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		ttl, err := rdb.PTTL(t.Context(), key).Result()
		const gone = -2 // since we asked for the keys
		if err != nil || ttl <= 0 && ttl != gone || ttl > d.Policy().RedisTTL {
			t.Errorf("%s lives for %v, %v", key, ttl, err)
		}
	}
	if len(keys) < 60 {
		t.Errorf("only %d keys", len(keys))
	}
}

func TestGuardedAgentsAnswerAPing(t *testing.T) {
	t.Parallel()
	// At a quarter of the speed a beat comes every 8 s. Who is heard more often
	// than that answers, however late a busy machine lets him.
	const interval = 8 * time.Second
	d := start(t, demo.Options{Agents: 80, Speed: demo.MinSpeed})
	nc, err := nats.Connect(d.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	beats := make(chan *nats.Msg, 4096)
	if _, err := nc.ChanSubscribe(wire.LivenessSubjectAll, beats); err != nil {
		t.Fatal(err)
	}
	guarded := map[string]bool{}
	for _, a := range d.Script().Agents() {
		if a.Voice == demo.Guarded && a.Buses&demo.NATS != 0 {
			guarded[a.ID] = true
		}
	}
	all, heard, began := len(guarded), map[string]int{}, time.Now()
	ping, deadline := time.NewTicker(time.Second), time.After(30*time.Second)
	defer ping.Stop()
	for done := false; !done && len(guarded) > 0; {
		select {
		case msg := <-beats:
			id, _ := wire.IDFromSubject(msg.Subject)
			heard[id]++
			if unasked := int(time.Since(began)/interval) + 1; heard[id] > unasked+1 {
				delete(guarded, id)
			}
		case <-ping.C:
			if err := nc.Publish(wire.PingSubject, nil); err != nil {
				t.Fatal(err)
			}
		case <-deadline:
			done = true
		}
	}
	if len(guarded) > 0 {
		t.Errorf("%d of %d did not answer: %v", len(guarded), all, guarded)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	d, err := demo.Start(t.Context(), demo.Options{Agents: 40})
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{strings.TrimPrefix(d.NATSURL(), "nats://"), strings.TrimPrefix(d.RedisURL(), "redis://")}
	for _, a := range addresses {
		host, _, err := net.SplitHostPort(a)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("%s is not on loopback (%v)", a, err)
		}
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, a := range addresses {
		if c, err := net.DialTimeout("tcp", a, time.Second); err == nil {
			_ = c.Close()
			t.Errorf("%s still listens", a)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("it left %v, %v", files, err)
	}
	goleak.VerifyNone(t)
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d, err := demo.Start(ctx, demo.Options{Agents: 5})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, o := range []demo.Options{{Agents: -1}, {Agents: demo.MaxAgents + 1}, {Speed: -1}, {Speed: 100}} {
		if d, err := demo.Start(t.Context(), o); err == nil {
			_ = d.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestPoliciesAreValid(t *testing.T) {
	for _, o := range []demo.Options{{}, {Agents: 100_000}, {Speed: 4}, {Speed: 0.25}, {Agents: 30_000, Speed: 3}} {
		d := start(t, o)
		for _, err := range d.Policy().Validate() {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
