package demo_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/demo"
	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/stackdump"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// desk is an operator before a demo, with an engine that settles.
type desk struct {
	*watchdog.Engine
	t      *testing.T
	orders *natsbus.Commands
}

// way carries commands to the agents that one bus carries.
type way struct {
	watchdog.CommandWay
	carries func(watchdog.ID) bool
}

func (w way) Carries(id watchdog.ID) bool { return w.carries(id) }

// operate watches a demo, settles what ends and carries actions out.
func operate(t *testing.T, d *demo.Demo) *desk {
	t.Helper()
	c, log := clock.System(), slog.New(slog.DiscardHandler)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	nats := natsbus.Options{URLs: []string{d.NATSURL()}}
	ledger, err := natsbus.OpenLedger(nats, natsbus.LedgerOptions{}, c, log)
	must(err)
	carrier, err := natsbus.OpenCommands(nats, natsbus.CommandOptions{Rules: orders.Rules{Name: "ops"}}, c, log)
	must(err)
	keys, err := redisstore.OpenCommands(redisstore.Options{URL: d.RedisURL()}, redisstore.CommandOptions{Rules: orders.Rules{Name: "ops"}}, c, log)
	must(err)
	onRedis := func(id watchdog.ID) bool { return strings.HasPrefix(string(id), "research-8") || id == "research-90" }

	var e *watchdog.Engine
	post := func(ev watchdog.Event) { e.Post(ev) }
	settler := watchdog.NewSettler(watchdog.SettlerConfig{Ledger: ledger, Markers: []watchdog.Marker{ledger}, Writer: "demo@test/1", Why: wire.EncodeEvidence,
		StillDue: func(s watchdog.Settle) bool { return e.StillDue(s) }, Post: post, Clock: c, Log: log, Policy: d.Policy()})
	operator := watchdog.NewOperator(watchdog.OperatorConfig{
		Ways:   []watchdog.CommandWay{way{keys, onRedis}, way{carrier, func(watchdog.ID) bool { return true }}},
		Settle: settler.Settle, Number: func(ctx context.Context, c watchdog.Command) (watchdog.Generation, error) {
			mine, ok := e.ClaimOf(c.Session)
			if !ok {
				return 0, errors.New("it is not known")
			}
			return settler.Claim(ctx, mine)
		}, Name: "ops", Clock: c, Post: post, Log: log})
	e = watchdog.NewEngine(watchdog.EngineConfig{Policy: d.Policy(), Clock: c, Sweeper: "demo@test/1", Acts: watchdog.Acts{Able: true, Bus: true, Settles: true},
		Effects: func(effects []watchdog.Effect) { settler.Effects(effects); operator.Effects(effects) }})
	bus, err := natsbus.Open(nats, e, c, log)
	must(err)
	store, err := redisstore.Open(redisstore.Options{URL: d.RedisURL(), RedisTTL: d.Policy().RedisTTL}, e, c, log)
	must(err)

	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{e.Run, bus.Run, store.Run, ledger.Run, carrier.Run, keys.Run, settler.Run, operator.Run,
		func(ctx context.Context) error { return ledger.Follow(ctx, post) }} {
		wg.Go(func() {
			if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); ledger.Close(); carrier.Close(); keys.Close(); wg.Wait() })
	return &desk{Engine: e, t: t, orders: carrier}
}

// look gives everything about one agent.
func (k *desk) look(id watchdog.ID) (watchdog.Window, *watchdog.Detail) {
	k.t.Helper()
	w, err := k.Look(k.t.Context(), watchdog.Ask{Focus: id, KeepEnded: true})
	if err != nil {
		k.t.Fatal(err)
	}
	return w, w.Focus
}

// until waits for something about an agent.
func (k *desk) until(id watchdog.ID, within time.Duration, what string, ok func(*watchdog.Detail) bool) *watchdog.Detail {
	k.t.Helper()
	deadline := time.Now().Add(within)
	for {
		_, d := k.look(id)
		if d != nil && ok(d) {
			return d
		}
		if time.Now().After(deadline) {
			if d == nil {
				k.t.Fatalf("%s was not seen", id)
			}
			k.t.Fatalf("%s: %s did not come within %v: %v, %s", id, what, within, d.Verdict, d.Why)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func is(v watchdog.Verdict) func(*watchdog.Detail) bool {
	return func(d *watchdog.Detail) bool { return d.Verdict == v }
}

// do gives an action to an agent and waits for its fate.
func (k *desk) do(op watchdog.Op, id watchdog.ID) watchdog.Action {
	k.t.Helper()
	_, d := k.look(id)
	c := watchdog.Command{ID: string(op) + "-" + strings.NewReplacer(".", "_", ":", "_").Replace(string(id)), Op: op, Session: id,
		Generation: d.Generation, BootID: d.BootID, IssuedBy: "ops1"}
	a, err := k.Do(k.t.Context(), c)
	if err != nil {
		k.t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for !a.Fate.Final() {
		if time.Now().After(deadline) {
			k.t.Fatalf("%s %s: %s (%s) after a minute", op, id, a.Fate, a.Detail)
		}
		time.Sleep(50 * time.Millisecond)
		w, _ := k.look(id)
		for _, b := range w.Actions {
			if b.ID == c.ID {
				a = b
			}
		}
	}
	return a
}

// TestActionsWorkOnTheAgents: each with its fate, and with what is seen of it.
func TestActionsWorkOnTheAgents(t *testing.T) {
	t.Parallel()
	d := start(t, demo.Options{Seed: 1})
	k := operate(t, d)
	running := func(id watchdog.ID) *watchdog.Detail {
		t.Helper()
		return k.until(id, 30*time.Second, "its number", func(d *watchdog.Detail) bool { return d.Generation != 0 && !d.Verdict.Ended() })
	}
	want := func(a watchdog.Action, f watchdog.Fate, words string) {
		t.Helper()
		if a.Fate != f || !strings.Contains(a.Detail, words) {
			t.Errorf("%s %s: %s (%s), want %s with %q", a.Op, a.Session, a.Fate, a.Detail, f, words)
		}
	}

	running("mailer-digest")
	want(k.do(watchdog.OpStop, "mailer-digest"), watchdog.FateEffective, "stopped by ops1")
	k.until("mailer-digest", 30*time.Second, "its end", is(watchdog.Stopped))

	running("summarizer-12")
	want(k.do(watchdog.OpKill, "summarizer-12"), watchdog.FateEffective, "signal 9")
	k.until("summarizer-12", 30*time.Second, "its end", is(watchdog.Stopped))

	before := running("indexer")
	want(k.do(watchdog.OpRestart, "indexer"), watchdog.FateEffective, "runs again")
	k.until("indexer", 30*time.Second, "its next execution", func(d *watchdog.Detail) bool {
		return d.Generation == before.Generation+1 && d.BootID != before.BootID && d.Verdict == watchdog.Running && d.Uptime < 20*time.Second
	})

	running("gateway-eu1")
	k.until("gateway-eu1", 30*time.Second, "its wedge", is(watchdog.Wedge))
	stop := k.do(watchdog.OpStop, "gateway-eu1")
	want(stop, watchdog.FateIneffective, "goes on")
	if stop.Next != "expire" {
		t.Errorf("after it %q is offered", stop.Next)
	}
	want(k.do(watchdog.OpExpire, "gateway-eu1"), watchdog.FateEffective, "written")
	k.until("gateway-eu1", 30*time.Second, "its end", is(watchdog.Expired))
	k.until("gateway-eu1", 30*time.Second, "late beats", func(d *watchdog.Detail) bool { return d.Verdict == watchdog.Expired && d.LateBeats > 0 })

	running("research-88")
	want(k.do(watchdog.OpRestart, "indexer"), watchdog.FateEffective, "") // the same wish again is its old fate
}

// TestTheFleetIsSettled: what is away for long is lost within 20 s, comes back as
// another execution, and one comes back late before that.
func TestTheFleetIsSettled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it plays most of a loop")
	}
	d := start(t, demo.Options{Seed: 1, Speed: 2})
	k := operate(t, d)
	k.until("team.a.job-1", 20*time.Second, "its end", is(watchdog.Lost))
	k.until("vector-sync", 30*time.Second, "late beats", func(d *watchdog.Detail) bool { return d.Verdict == watchdog.Lost && d.LateBeats > 0 })
	for _, id := range []watchdog.ID{"vector-sync", "team.a.job-1"} {
		k.until(id, 30*time.Second, "another execution", func(d *watchdog.Detail) bool { return d.Generation == 2 && d.Verdict == watchdog.Running })
	}
	// The mass silence is one group, and nobody of it is settled.
	k.until("worker-0203", 20*time.Second, "its silence", is(watchdog.Silent))
	held := func() bool { // the first to be silent is not yet a group
		w, _ := k.look("worker-0203")
		return len(w.Groups) == 1 && w.Groups[0].HeldFor > 0
	}
	for until := time.Now().Add(20 * time.Second); !held(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			w, _ := k.look("worker-0203")
			t.Fatalf("the groups are %+v, want one that is held", w.Groups)
		}
	}
	back := k.until("worker-0203", 25*time.Second, "its return", is(watchdog.Running))
	if back.Generation != 1 {
		t.Errorf("it came back as #%d", back.Generation)
	}
}

func TestDumpsAreReadable(t *testing.T) {
	t.Parallel()
	d := start(t, demo.Options{Seed: 1})
	k := operate(t, d)
	for _, c := range []struct {
		id      watchdog.ID
		culprit string
	}{{"gateway-eu1", "rebuild_index"}, {"indexer", "loop"}} {
		k.until(c.id, 15*time.Second, "its number", func(d *watchdog.Detail) bool {
			return d.Generation != 0 && (c.id != "gateway-eu1" || d.Verdict == watchdog.Wedge)
		})
		ready, got := make(chan struct{}), make(chan wire.Dump, 1)
		command := "dump-" + string(c.id)
		go func() {
			dump, err := k.orders.AwaitDump(t.Context(), c.id, command, func() { close(ready) })
			if err != nil {
				t.Error(err)
			}
			got <- dump
		}()
		<-ready
		if a := k.do(watchdog.OpDump, c.id); a.Fate != watchdog.FateEffective {
			t.Errorf("dump %s: %s (%s)", c.id, a.Fate, a.Detail)
		}
		dump := <-got
		file := stackdump.Parse(string(dump.Text))
		if len(file.Dumps) == 0 {
			t.Fatalf("%s gave no dump: %.200s", c.id, dump.Text)
		}
		found := stackdump.Analyze(&file.Dumps[0], stackdump.Options{})
		text := ""
		for _, culprit := range found.Culprits {
			text += culprit.Name + " "
		}
		if !strings.Contains(text, c.culprit) {
			t.Errorf("%s is stuck in %q, want %s", c.id, text, c.culprit)
		}
	}
}
