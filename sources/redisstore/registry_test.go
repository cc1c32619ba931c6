//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// TestRegistryAndProjections runs on the embedded server, a real one and a
// Cluster.
func TestRegistryAndProjections(t *testing.T) {
	t.Parallel() // it waits for servers, most of the time
	servers := map[string]func(t *testing.T) (Options, redis.UniversalClient){
		"embedded": func(t *testing.T) (Options, redis.UniversalClient) {
			mini := miniredis.RunT(t)
			admin := redis.NewClient(&redis.Options{Addr: mini.Addr(), Protocol: 2})
			t.Cleanup(func() { _ = admin.Close() })
			return fast(mini.Addr()), admin
		},
		"real": func(t *testing.T) (Options, redis.UniversalClient) {
			s := startReal(t)
			return fast(s.Address()), s.admin
		},
		"cluster": func(t *testing.T) (Options, redis.UniversalClient) {
			o := clusterOptions(startCluster(t))
			return o, clusterAdmin(t, o)
		},
	}
	for server, start := range servers {
		t.Run(server, func(t *testing.T) {
			o, admin := start(t)
			c := openConn(t, o)
			for name, run := range map[string]func(*testing.T, *Conn, redis.UniversalClient){
				"keeps hashes": keepsHashes, "breaks glass": breaksGlass, "reads all hashes": readsAllHashes, "keeps the last run": keepsLastRun,
				"shows ends": showsEnds, "takes liveness away": takesLivenessAway, "copies once": copiesOnce,
			} {
				t.Run(name, func(t *testing.T) {
					ledgerKeys{admin}.Replace(t)
					run(t, c, admin)
				})
			}
		})
	}
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 331e6, time.UTC)

func keepsHashes(t *testing.T, c *Conn, admin redis.UniversalClient) {
	r, ctx := c.Registry(), t.Context()
	h := Hash{ID: "a.b:c", AgentID: "worker-7", LastSeen: noon, TTL: 45 * time.Second, Status: HashAlive}
	if _, found, err := r.Beat(ctx, h); err != nil || found {
		t.Fatalf("the first heartbeat: found %v, %v", found, err)
	}
	want := map[string]string{"agent_id": "worker-7", "last_seen": fmt.Sprintf("%d.331", noon.Unix()), "ttl": "45", "status": "alive"}
	if got := admin.HGetAll(ctx, "session:a.b:c").Val(); cmp.Diff(want, got) != "" {
		t.Error(cmp.Diff(want, got))
	}
	if left := admin.TTL(ctx, "session:a.b:c").Val(); left < 23*time.Hour {
		t.Errorf("the hash is collected after %v", left)
	}
	later := h
	later.AgentID, later.LastSeen = "", noon.Add(15*time.Second)
	before, found, err := r.Beat(ctx, later)
	if err != nil || !found || cmp.Diff(h, before) != "" {
		t.Errorf("%v %v %s", found, err, cmp.Diff(h, before))
	}
	later.AgentID = "worker-7" // one that says no agent keeps it
	if got, found, err := r.Hash(ctx, h.ID); err != nil || !found || cmp.Diff(later, got) != "" {
		t.Errorf("%v %v %s", found, err, cmp.Diff(later, got))
	}
	if changed, err := r.Mark(ctx, h, HashReaped); err != nil || changed {
		t.Errorf("a hash that was renewed since was marked: %v %v", changed, err)
	}
	if changed, err := r.Mark(ctx, later, HashReaped); err != nil || !changed {
		t.Errorf("a hash that is as it was read was not marked: %v %v", changed, err)
	}
	if stood, found, err := r.Beat(ctx, h); err != nil || !found || stood.Status != HashReaped {
		t.Errorf("a heartbeat of a reaped session: %+v %v %v", stood, found, err)
	}
	if got := admin.HGet(ctx, "session:a.b:c", "status").Val(); got != HashReaped {
		t.Errorf("it was revived: %q", got)
	}
	if err := r.Register(ctx, h); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := r.Hash(ctx, h.ID); cmp.Diff(h, got) != "" {
		t.Error(cmp.Diff(h, got))
	}
	if err := r.Forget(ctx, h.ID); err != nil || admin.Exists(ctx, "session:a.b:c").Val() != 0 {
		t.Errorf("it is still there: %v", err)
	}
	if _, found, err := r.Hash(ctx, h.ID); found || err != nil {
		t.Errorf("a hash that is not there: %v %v", found, err)
	}
}

func breaksGlass(t *testing.T, c *Conn, admin redis.UniversalClient) {
	r, ctx := c.Registry(), t.Context()
	beat := func(id watchdog.ID) Hash {
		h := Hash{ID: id, LastSeen: noon, TTL: 45 * time.Second}
		if _, _, err := r.Beat(ctx, h); err != nil {
			t.Fatal(err)
		}
		return h
	}
	for name, set := range map[string][]any{
		"status": {"status", "expired"}, "seen": {"last_seen", 0}, "seen-decimals": {"last_seen", "0.000"},
	} {
		id := watchdog.ID(name)
		beat(id)
		admin.HSet(ctx, "session:"+name, set...)
		h, found, err := r.Hash(ctx, id)
		if err != nil || !found || h.Status != HashExpired && !h.LastSeen.IsZero() {
			t.Errorf("%s: read as %+v %v %v", name, h, found, err)
		}
		if stood, _, err := r.Beat(ctx, Hash{ID: id, LastSeen: noon.Add(time.Second), TTL: time.Minute}); err != nil || cmp.Diff(h, stood) != "" {
			t.Errorf("%s: a heartbeat changed it: %+v %v", name, stood, err)
		}
		if changed, err := r.Mark(ctx, h, HashExpired); err != nil || !changed {
			t.Errorf("%s: not marked: %v %v", name, changed, err)
		}
		if got := admin.HMGet(ctx, "session:"+name, "status", "last_seen").Val(); got[0] != "expired" || got[1] != "0" {
			t.Errorf("%s: both marks stand afterwards, and are %v", name, got)
		}
	}
	admin.HSet(ctx, "session:partial", "status", "expired") // of a hash that was not there
	if h, found, err := r.Hash(ctx, "partial"); err != nil || !found || h.Status != HashExpired {
		t.Errorf("a partial hash: %+v %v %v", h, found, err)
	}
}

func readsAllHashes(t *testing.T, c *Conn, admin redis.UniversalClient) {
	r, ctx := c.Registry(), t.Context()
	const n = 1500
	pipe := admin.Pipeline()
	for i := range n {
		pipe.HSet(ctx, fmt.Sprintf("session:s%d", i), "agent_id", "a", "last_seen", fmt.Sprintf("%d.5", 1000+i), "ttl", "45", "status", "alive")
	}
	pipe.Set(ctx, "session:string", "x", 0)
	pipe.HSet(ctx, "session:no-ttl", "last_seen", "1", "status", "alive")
	pipe.HSet(ctx, "session:nan", "last_seen", "nan", "ttl", "45", "status", "alive")
	pipe.HSet(ctx, "session:other", "last_seen", "1", "ttl", "45", "status", "paused")
	pipe.HSet(ctx, "session:of somebody else", "field", "1")
	pipe.HSet(ctx, "session:foreign", "field", "1")
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	seen, bad := map[watchdog.ID]bool{}, map[watchdog.ID]bool{}
	if err := r.Hashes(ctx, func(h Hash, err error) {
		if err != nil {
			bad[h.ID] = true
			return
		}
		seen[h.ID] = true
		if h.ID == "s7" && !h.LastSeen.Equal(time.UnixMilli(1007500)) {
			t.Errorf("%v", h.LastSeen)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != n {
		t.Errorf("%d hashes, want %d", len(seen), n)
	}
	if want := map[watchdog.ID]bool{"string": true, "no-ttl": true, "nan": true, "other": true}; cmp.Diff(want, bad) != "" {
		t.Error(cmp.Diff(want, bad))
	}
	// A heartbeat makes what makes no sense whole.
	for _, id := range []watchdog.ID{"no-ttl", "nan", "other"} {
		if _, _, err := r.Beat(ctx, Hash{ID: id, LastSeen: noon, TTL: time.Minute}); err != nil {
			t.Error(err)
		}
		if h, found, err := r.Hash(ctx, id); err != nil || !found || h.Status != HashAlive || h.TTL != time.Minute {
			t.Errorf("%s: %+v %v %v", id, h, found, err)
		}
	}
}

func keepsLastRun(t *testing.T, c *Conn, admin redis.UniversalClient) {
	r, ctx := c.Registry(), t.Context()
	if _, found, err := r.LastRun(ctx); found || err != nil {
		t.Errorf("a reaper that never ran: %v %v", found, err)
	}
	if err := r.ReaperRan(ctx, noon); err != nil {
		t.Fatal(err)
	}
	if got := admin.Get(ctx, "reaper:last_run").Val(); got != fmt.Sprintf("%d.331", noon.Unix()) {
		t.Errorf("%q", got)
	}
	if at, found, err := r.LastRun(ctx); !found || err != nil || !at.Equal(noon) {
		t.Errorf("%v %v %v", at, found, err)
	}
}

// TestBeatsRaceAMark lets heartbeats race reapers: a hash that was marked stays
// so, and no reaper marks one that was renewed since he read it.
func TestBeatsRaceAMark(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	r := openConn(t, fast(s.Address())).Registry()
	ctx := context.Background()
	h := Hash{ID: "a", LastSeen: noon, TTL: 45 * time.Second}
	if _, _, err := r.Beat(ctx, h); err != nil {
		t.Fatal(err)
	}
	var marked, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			stood, _, err := r.Beat(ctx, Hash{ID: "a", LastSeen: noon.Add(time.Duration(i+1) * time.Millisecond), TTL: 45 * time.Second})
			if err != nil {
				t.Error(err)
			}
			if stood.Status == HashReaped {
				refused.Add(1)
			}
		})
		all.Go(func() {
			as, found, err := r.Hash(ctx, "a")
			if err != nil || !found {
				t.Errorf("%v %v", found, err)
			}
			if as.Status != HashAlive {
				return
			}
			if changed, err := r.Mark(ctx, as, HashReaped); err != nil {
				t.Error(err)
			} else if changed {
				marked.Add(1)
			}
		})
	}
	all.Wait()
	if marked.Load() > 1 {
		t.Errorf("%d reapers marked it", marked.Load())
	}
	if got, _, _ := r.Hash(ctx, "a"); marked.Load() == 1 && got.Status != HashReaped {
		t.Errorf("it was marked and is %+v; %d heartbeats were refused", got, refused.Load())
	}
}

// heads is a ledger that knows heads alone.
type heads map[watchdog.ID]watchdog.Head

func (h heads) Head(_ context.Context, id watchdog.ID) (watchdog.Head, watchdog.Revision, error) {
	return h[id], "", nil
}

func endOf(id watchdog.ID, g watchdog.Generation, o watchdog.Outcome) watchdog.Record {
	return watchdog.Record{ID: id, Generation: g, Outcome: o, SettledBy: watchdog.BySweeper, Writer: "test@here/1", Nonce: "n", At: noon}
}

func showsEnds(t *testing.T, c *Conn, admin redis.UniversalClient) {
	ctx := t.Context()
	for name, s := range map[string]struct {
		outcome watchdog.Outcome
		head    watchdog.Generation
		none    bool // there is no hash
		want    map[string]string
	}{
		"lost":      {watchdog.OutcomeLost, 2, false, map[string]string{"status": "reaped", "last_seen": "1000.500"}},
		"expired":   {watchdog.OutcomeExpired, 2, false, map[string]string{"status": "expired", "last_seen": "0"}},
		"completed": {watchdog.OutcomeCompleted, 2, false, nil},
		"stopped":   {watchdog.OutcomeStopped, 2, false, nil},
		"overtaken": {watchdog.OutcomeExpired, 3, false, map[string]string{"status": "alive", "last_seen": "1000.500"}},
		"none":      {watchdog.OutcomeExpired, 2, true, nil},
	} {
		id := watchdog.ID(name)
		if !s.none {
			admin.HSet(ctx, "session:"+name, "agent_id", "a", "last_seen", "1000.500", "ttl", "45", "status", "alive")
		}
		p := c.RegistryEnd(heads{id: {ID: id, Generation: s.head, Ended: true}})
		for range 2 { // anybody may call it again
			if err := p.Project(ctx, endOf(id, 2, s.outcome)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		got := admin.HGetAll(ctx, "session:"+name).Val()
		if s.want == nil && len(got) > 0 {
			t.Errorf("%s: the hash is %v", name, got)
		}
		for field, want := range s.want {
			if got[field] != want {
				t.Errorf("%s: %s is %q, want %q", name, field, got[field], want)
			}
		}
	}
}

func takesLivenessAway(t *testing.T, c *Conn, admin redis.UniversalClient) {
	ctx := t.Context()
	for name, s := range map[string]struct {
		outcome      watchdog.Outcome
		lease        string
		head         watchdog.Head
		lives, leads bool // what stands afterwards
	}{
		"expired":         {watchdog.OutcomeExpired, `{"generation":2,"boot_id":null}`, watchdog.Head{Generation: 2, Ended: true}, false, false},
		"lost":            {watchdog.OutcomeLost, `{"generation":2,"boot_id":"b"}`, watchdog.Head{Generation: 2, Ended: true}, true, false},
		"by-boot":         {watchdog.OutcomeLost, `{"generation":null,"boot_id":"b"}`, watchdog.Head{Generation: 2, Executions: []watchdog.Execution{{Generation: 2, BootID: "b"}}}, true, false},
		"newer-boot":      {watchdog.OutcomeExpired, `{"generation":null,"boot_id":"c"}`, watchdog.Head{Generation: 3, Executions: []watchdog.Execution{{Generation: 3, BootID: "c"}}}, true, true},
		"newer":           {watchdog.OutcomeExpired, `{"generation":3,"boot_id":null}`, watchdog.Head{Generation: 3}, true, true},
		"unknown-boot":    {watchdog.OutcomeExpired, `{"generation":null,"boot_id":"?"}`, watchdog.Head{Generation: 2}, false, true},
		"no-number":       {watchdog.OutcomeExpired, `{"generation":null,"boot_id":null}`, watchdog.Head{Generation: 2}, false, false},
		"no-lease-at-all": {watchdog.OutcomeExpired, "", watchdog.Head{Generation: 2}, false, false},
	} {
		id := watchdog.ID(name)
		admin.Set(ctx, wire.LivenessKey(id), "beat", time.Minute)
		if s.lease != "" {
			admin.Set(ctx, wire.LeaseKey(id), s.lease, time.Minute)
		}
		p := c.LivenessEnd(heads{id: s.head})
		for range 2 {
			if err := p.Project(ctx, endOf(id, 2, s.outcome)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := admin.Exists(ctx, wire.LivenessKey(id)).Val() == 1; got != s.lives {
			t.Errorf("%s: the liveness key stands: %v", name, got)
		}
		if got := admin.Exists(ctx, wire.LeaseKey(id)).Val() == 1; got != s.leads {
			t.Errorf("%s: the lease stands: %v", name, got)
		}
	}
}

func copiesOnce(t *testing.T, c *Conn, _ redis.UniversalClient) {
	ctx := t.Context()
	p, l := c.RecordCopy(wire.Seal{}), c.Ledger(wire.Seal{})
	first := endOf("a", 2, watchdog.OutcomeLost)
	second := endOf("a", 2, watchdog.OutcomeExpired)
	second.Nonce = "another"
	for _, r := range []watchdog.Record{first, first, second} {
		if err := p.Project(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if got, found, err := l.Record(ctx, "a", 2); err != nil || !found || cmp.Diff(first, got) != "" {
		t.Errorf("%v %v %s", found, err, cmp.Diff(first, got))
	}
}
