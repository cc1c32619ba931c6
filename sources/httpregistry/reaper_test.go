package httpregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestReapsStrictlyAfterTheTTL(t *testing.T) {
	r := newRig(t, nil)
	r.beat("a")
	r.rounds(45 * time.Second)
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s at exactly the ttl", s)
	}
	r.pass(time.Millisecond)
	r.reg.Round(context.Background())
	if s := r.status("a"); s != Reaped {
		t.Fatalf("%s past the ttl", s)
	}
	code, body, _ := r.post("/heartbeat", fleetToken, `{"session_id":"a"}`)
	var g gone
	if err := json.Unmarshal([]byte(body), &g); err != nil || code != 410 {
		t.Fatal(code, body)
	}
	if g.Error != "session_gone" || g.SessionID != "a" || g.Generation != 1 || g.Outcome == nil || *g.Outcome != "lost" || g.At == nil || g.Reason == "" {
		t.Errorf("%s", body)
	}
	if !strings.Contains(r.audit[0], `"event":"session.reaped"`) || !strings.Contains(r.audit[0], `"session_id":"a"`) {
		t.Errorf("audit: %s", r.audit)
	}
	if len(r.beats) != 2 || r.beats[1].Generation != 1 {
		t.Errorf("the late heartbeat must reach the quarantine: %+v", r.beats)
	}
	// Nothing is settled twice.
	r.rounds(time.Minute)
	if len(r.audit) != 1 {
		t.Errorf("audited again: %s", r.audit)
	}
}

func TestHeartbeatBetweenScanAndReap(t *testing.T) {
	r := newRig(t, nil)
	r.beat("a")
	e, _, _ := r.store.Entry(context.Background(), "a")
	r.pass(46 * time.Second)
	r.beat("a")
	r.reg.consider(context.Background(), e, time.Unix(0, r.clock.Now().Wall))
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s, though it beat", s)
	}
}

func TestNobodyIsReapedForOurAbsence(t *testing.T) {
	r := newRig(t, nil)
	_ = r.store.Register(context.Background(), Entry{ID: "old", LastSeen: time.Unix(0, r.clock.Now().Wall).Add(-time.Hour), TTL: 45 * time.Second, Status: Alive})
	r.rounds(45 * time.Second) // just started: it may have tried while nobody listened
	if s := r.status("old"); s != Alive {
		t.Fatalf("%s before one ttl of listening", s)
	}
	r.rounds(15 * time.Second)
	if s := r.status("old"); s != Reaped {
		t.Fatalf("%s after it", s)
	}
	r.beat("b")
	r.reg.Round(context.Background())
	r.pass(2 * time.Hour) // we were stopped
	r.reg.Round(context.Background())
	if s := r.status("b"); s != Alive {
		t.Fatalf("%s after a stop of ours", s)
	}
}

func TestBreakGlass(t *testing.T) {
	for name, broken := range map[string]func(*Entry){
		"status":    func(e *Entry) { e.Status = Expired },
		"last_seen": func(e *Entry) { e.LastSeen = time.Time{} },
	} {
		for _, by := range []string{"the reaper", "the next heartbeat"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				r := newRig(t, nil)
				r.beat("a")
				e, _, _ := r.store.Entry(context.Background(), "a")
				broken(&e)
				r.store.entries["a"] = e
				if by == "the reaper" {
					r.rounds(DefaultReapInterval)
				}
				code, body, _ := r.post("/heartbeat", fleetToken, `{"session_id":"a"}`)
				if code != 410 || !strings.Contains(body, `"outcome":"expired"`) {
					t.Fatalf("%d %s", code, body)
				}
				e, _, _ = r.store.Entry(context.Background(), "a")
				if e.Status != Expired || !e.LastSeen.IsZero() {
					t.Errorf("hash: %+v", e)
				}
				r.rounds(time.Minute)
				if len(r.audit) != 1 {
					t.Errorf("%d audit lines: %s", len(r.audit), r.audit)
				}
			})
		}
	}
}

// A mark that an older generation left in the hash says nothing of a newer one,
// which came by another way; what an operator does to the newer one counts.
func TestMarkOfAnOlderGenerationExpiresNobody(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		between []watchdog.Outcome // how the generations in between ended
		restart bool               // the registry remembers nothing
		hash    func(r *rig)       // what is done once the newer one lives; nil: nothing
		expired bool
	}{
		"the next one":                  {},
		"the next one, after a restart": {restart: true},
		"one behind others":             {between: []watchdog.Outcome{watchdog.OutcomeLost, watchdog.OutcomeCompleted}},
		"status is set again":           {hash: func(r *rig) { r.store.entries["a"] = Entry{ID: "a", LastSeen: wall(r.clock), Status: Expired} }, expired: true},
		"only a status is there": {restart: true, hash: func(r *rig) {
			r.store.entries["a"] = Entry{ID: "a", LastSeen: wall(r.clock), TTL: DefaultTTL, Status: Expired}
		}, expired: true},
		"only a last_seen is there":        {hash: func(r *rig) { r.store.entries["a"] = Entry{ID: "a"} }, expired: true},
		"last_seen is set to 0":            {restart: true, hash: func(r *rig) { r.store.entries["a"] = Entry{ID: "a", TTL: DefaultTTL, Status: Alive} }, expired: true},
		"both, of a hash that was alive":   {hash: aliveThenBoth, expired: true},
		"a heartbeat without a generation": {hash: func(r *rig) { r.post("/heartbeat", fleetToken, `{"session_id":"a","generation":2}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.beat("a")
			r.store.entries["a"] = Entry{ID: "a", TTL: DefaultTTL, Status: Expired}
			r.rounds(DefaultReapInterval)
			g := watchdog.Generation(1)
			next := func() {
				var err error
				g++
				if g, err = watchdog.Allocate(ctx, r.ledger, watchdog.Claim{ID: "a", BootID: fmt.Sprint("boot-", g), Start: wall(r.clock), Knew: g - 1, Sources: watchdog.SourceNATS.Set()}); err != nil {
					t.Fatal(err)
				}
			}
			for _, o := range c.between {
				next()
				if _, _, err := (ends{r}).Settle(ctx, watchdog.Record{ID: "a", Generation: g, Outcome: o, SettledBy: watchdog.ByAgent, Writer: "x", At: wall(r.clock)}); err != nil {
					t.Fatal(err)
				}
			}
			r.pass(time.Second)
			next()
			if c.restart {
				r.reg.reaper.settled, r.reg.reaper.alive = map[watchdog.ID]watchdog.Generation{}, nil
			}
			if name != "a heartbeat without a generation" {
				r.reg.Round(ctx)
			}
			if c.hash != nil {
				c.hash(r)
			}
			r.rounds(2 * DefaultReapInterval)
			rec, found, err := r.ledger.Record(ctx, "a", g)
			if err != nil || found != c.expired {
				t.Errorf("record of generation %d: %v %+v %v, want one: %v", g, found, rec, err, c.expired)
			}
		})
	}
}

// A mark that an operator sets where there is no hash ends one generation, and
// not every one that comes after it.
func TestMarkWithoutAHashExpiresOnce(t *testing.T) {
	for name, mark := range map[string]Entry{"status": {ID: "a", Status: Expired}, "last_seen": {ID: "a"}} {
		t.Run(name, func(t *testing.T) {
			r, ctx := newRig(t, nil), context.Background()
			for g := watchdog.Generation(1); g <= 3; g++ {
				n, err := watchdog.Allocate(ctx, r.ledger, watchdog.Claim{ID: "a", BootID: fmt.Sprint("boot-", g), Start: wall(r.clock), Knew: g - 1, Sources: watchdog.SourceNATS.Set()})
				if n != g || err != nil {
					t.Fatal(n, err)
				}
				r.rounds(2 * DefaultReapInterval)
				if _, found, _ := r.ledger.Record(ctx, "a", g); found {
					t.Fatalf("generation %d was expired by the mark of an older one", g)
				}
				r.store.entries["a"] = mark
				r.rounds(DefaultReapInterval)
				if rec, found, _ := r.ledger.Record(ctx, "a", g); !found || rec.Outcome != watchdog.OutcomeExpired {
					t.Fatalf("the mark on generation %d was overlooked", g)
				}
				if e := r.store.entries["a"]; e.Status != Expired || !e.LastSeen.IsZero() || e.TTL <= 0 {
					t.Errorf("the hash afterwards: %+v", e)
				}
			}
		})
	}
}

// aliveThenBoth: the newer generation heartbeats here, is seen alive, and is then
// expired by both halves of the mark at once.
func aliveThenBoth(r *rig) {
	r.store.entries["a"] = Entry{ID: "a", LastSeen: wall(r.clock), TTL: DefaultTTL, Status: Alive}
	r.reg.Round(context.Background())
	r.store.entries["a"] = Entry{ID: "a", TTL: DefaultTTL, Status: Expired}
}

// A ledger that is away costs one line a round, however many wait for it.
func TestOneWarningARound(t *testing.T) {
	var log strings.Builder
	r := newRig(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for i := range 20 {
		r.beat(fmt.Sprint("s", i))
	}
	r.reg.o.Ends = endsAway{r.reg.o.Ends}
	r.rounds(2 * time.Minute)
	if n, rounds := strings.Count(log.String(), "level=WARN"), int(2*time.Minute/DefaultReapInterval); n == 0 || n > rounds {
		t.Errorf("%d warnings in %d rounds:\n%.600s", n, rounds, log.String())
	}
	if !strings.Contains(log.String(), "count=20") {
		t.Errorf("how many wait is not said:\n%.600s", log.String())
	}
}

type endsAway struct{ Ends }

func (endsAway) Head(context.Context, watchdog.ID) (watchdog.Head, error) {
	return watchdog.Head{}, watchdog.ErrAuthorityAway
}

func TestStoreAwayEndsNobody(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Store = failing{o.Store} })
	if code := r.beat("a"); code != 503 {
		t.Errorf("%d", code)
	}
	if beats := r.heard("a"); beats != 1 {
		t.Errorf("%d of its beats are told; it lives, whatever our store does", beats)
	}
	r.reg.Round(context.Background())
	if _, why := r.reg.LastGoodRound(); why == "" {
		t.Error("the failed round is not told")
	}
}

type failing struct{ Store }

func (failing) Entry(context.Context, watchdog.ID) (Entry, bool, error) {
	return Entry{}, false, errors.New("connection refused")
}

func (failing) Entries(context.Context, func(Entry, error)) error {
	return errors.New("connection refused")
}

func TestElsewhereAndHeldAreNotReaped(t *testing.T) {
	r := newRig(t, nil)
	r.beat("a")
	r.sight = Sight{Elsewhere: "NATS"}
	r.rounds(2 * time.Minute)
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s, though it beats on NATS", s)
	}
	if _, ok := r.events[0].(watchdog.HTTPSilent); !ok {
		t.Errorf("the dispute is not told: %+v", r.events)
	}
	r.sight = Sight{Held: "400 silent together"}
	r.rounds(time.Minute)
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s, though it is held", s)
	}
}

func TestEachStepOfAReapIsIsolated(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Release = []string{"sh", "-c", `echo "released $SESSIONWATCH_SESSION_ID $SESSIONWATCH_GENERATION $SESSIONWATCH_OUTCOME"; exit 3`}
		o.Sink = nil
	})
	r.reg.o.Sink = r
	for i := range 8 {
		r.beat(fmt.Sprint("s", i))
	}
	r.rounds(time.Minute)
	if len(r.audit) != 8 {
		t.Fatalf("%d audit lines", len(r.audit))
	}
	if !strings.Contains(r.audit[0], `"exit_code":3`) || !strings.Contains(r.audit[0], "1 lost") {
		t.Errorf("the hook's result is lost: %s", r.audit[0])
	}
	if n := len(r.reg.Releases()); n != 8 {
		t.Errorf("%d releases kept", n)
	}
	if len(r.alerts) != 1 {
		t.Errorf("alerts of the reap rate: %q", r.alerts)
	}
}

func TestReleaseHookThatHangs(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Release, o.ReleaseTimeout = []string{"sh", "-c", "sleep 60 & sleep 60"}, 100*time.Millisecond
	})
	r.beat("a")
	began := time.Now()
	r.rounds(time.Minute)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it held the round up for %v", took)
	}
	if got := r.reg.Releases()[0]; got.OK || !strings.Contains(got.Output, "ended after") {
		t.Errorf("%+v", got)
	}
}

func TestReapRate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var r reapRate
	for range 1000 {
		r.opened(now)
	}
	for i := range 30 {
		_, _, raised := r.reaped(now.Add(time.Duration(i) * time.Minute))
		if raised != (i == 20) {
			t.Fatalf("reap %d: raised %v", i, raised)
		}
	}
	reaps, opens, _ := r.reaped(now.Add(70 * time.Minute))
	if opens != 0 || reaps != 20 {
		t.Errorf("after the hour: %d reaps of %d opens", reaps, opens)
	}
	if _, _, raised := r.reaped(now.Add(-time.Hour)); raised {
		t.Error("a clock set back raised it again")
	}
}

// fault 29: beats race the reaper for a thousand sessions.
func TestRaceOfBeatsAndReaper(t *testing.T) {
	r := newRig(t, nil)
	const n = 200
	for i := range n {
		r.reg.Heartbeat(context.Background(), beatOf(fmt.Sprint("s", i)))
	}
	r.rounds(30 * time.Second)
	r.pass(16 * time.Second)
	var wg sync.WaitGroup
	taken := make([]bool, n)
	for i := range n {
		wg.Go(func() { taken[i] = r.reg.Heartbeat(context.Background(), beatOf(fmt.Sprint("s", i))) == nil })
	}
	wg.Go(func() { r.reg.Round(context.Background()) })
	wg.Wait()
	for i := range n {
		id := watchdog.ID(fmt.Sprint("s", i))
		_, ended, _ := r.ledger.Record(context.Background(), id, 1)
		again := r.reg.Heartbeat(context.Background(), beatOf(string(id))) == nil
		if ended == again {
			t.Fatalf("%s: ended %v, and the next heartbeat is accepted: %v", id, ended, again)
		}
		if !ended && !taken[i] {
			t.Fatalf("%s: refused, though it was not reaped", id)
		}
	}
}
