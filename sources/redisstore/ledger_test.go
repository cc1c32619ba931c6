//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func mustCheck(t testing.TB, l watchdog.Ledger) {
	t.Helper()
	if err := l.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func mustSettle(t testing.TB, l watchdog.Ledger, r watchdog.Record) watchdog.Record {
	t.Helper()
	got, err := l.WriteOnce(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// refused expects that nothing may be settled now, and why.
func refused(t testing.TB, err error, why string) {
	t.Helper()
	if !errors.Is(err, watchdog.ErrAuthorityAway) || !strings.Contains(err.Error(), why) {
		t.Errorf("%v does not say that the authority is away because of %q", err, why)
	}
}

// TestOneOfAThousandWins races goroutines of two processes for one end.
func TestOneOfAThousandWins(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	sourcetest.RaceOneEnd(t, endOf("a", 1, watchdog.OutcomeLost), openConn(t, fast(s.Address())).Ledger(wire.Seal{}), openConn(t, fast(s.Address())).Ledger(wire.Seal{}))
}

func TestAnEndTakesOnlyItsOwnLease(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c := openConn(t, fast(s.Address()))
	l := c.Ledger(wire.Seal{})
	head := `{"session_id":"%s","generation":2,"ended":false,"executions":[{"generation":2,"boot_id":"b"},{"generation":1,"boot_id":"a"}]}`
	for name, lease := range map[string]struct {
		value string
		stays bool
	}{
		"number": {`{"generation":2,"boot_id":"x"}`, false}, "older": {`{"generation":1,"boot_id":"a"}`, true}, "newer": {`{"generation":3,"boot_id":"c"}`, true},
		"boot": {`{"generation":null,"boot_id":"b"}`, false}, "older-boot": {`{"generation":null,"boot_id":"a"}`, true}, "unknown-boot": {`{"generation":null,"boot_id":"c"}`, true},
		"nobody": {`{"generation":null,"boot_id":null}`, false}, "no-lease": {`replica` + "\x1f" + `turn`, true},
	} {
		id := watchdog.ID(name)
		s.admin.Set(t.Context(), wire.HeadKey(id), fmt.Sprintf(head, id), 0)
		s.admin.Set(t.Context(), wire.LeaseKey(id), lease.value, time.Minute)
		mustSettle(t, l, endOf(id, 2, watchdog.OutcomeLost))
		if got := s.admin.Exists(t.Context(), wire.LeaseKey(id)).Val() == 1; got != lease.stays {
			t.Errorf("%s: the lease stands: %v", name, got)
		}
		if got := s.admin.Get(t.Context(), wire.HeadKey(id)).Val(); got != fmt.Sprintf(head, id) {
			t.Errorf("%s: the head became %s", name, got)
		}
		if ttl := s.admin.TTL(t.Context(), wire.TerminalKey(id, 2)).Val(); ttl != -1 {
			t.Errorf("%s: the record expires in %v", name, ttl)
		}
	}
}

func TestAStoreThatWentBackSettlesNothing(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	l, _ := openLedger(t, fast(s.Address()))
	mustCheck(t, l)
	mustSettle(t, l, endOf("a", 1, watchdog.OutcomeLost))
	mustCheck(t, l)
	s.admin.Del(t.Context(), journalKey) // as a copy from before would have it
	refused(t, l.Check(t.Context()), "it went back")
	fresh, _ := openLedger(t, fast(s.Address()))
	mustCheck(t, fresh) // a restart accepts what stands
	if fresh.Authority() != l.Authority() {
		t.Errorf("the same store is %v and %v", l.Authority(), fresh.Authority())
	}
	s.admin.FlushAll(t.Context())
	_, err := fresh.WriteOnce(t.Context(), endOf("a", 1, watchdog.OutcomeExpired)) // before any check
	refused(t, err, "emptied or replaced")
	_, err = fresh.SwapHead(t.Context(), watchdog.Head{ID: "a", Generation: 1}, "")
	refused(t, err, "emptied or replaced")
	if n := s.admin.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	refused(t, fresh.Check(t.Context()), "it was emptied")
	refused(t, fresh.Check(t.Context()), "it was emptied") // it is not made anew by asking
	if n := s.admin.Exists(t.Context(), epochKey).Val(); n != 0 {
		t.Error("whoever knew an identity made another")
	}
}

func TestAReplicaDecidesNothing(t *testing.T) {
	t.Parallel()
	master, replica := startReal(t), startReal(t)
	l, _ := openLedger(t, fast(replica.Address()))
	mustCheck(t, l)
	before := l.conn.client
	turn := func(host, port string) {
		t.Helper()
		if err := replica.admin.ReplicaOf(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	turn("127.0.0.1", strconv.Itoa(master.port))
	_, err := l.WriteOnce(t.Context(), endOf("a", 1, watchdog.OutcomeLost))
	refused(t, err, "read-only replica")
	if l.conn.client == before {
		t.Error("the connection to what became a replica was kept")
	}
	refused(t, l.Check(t.Context()), "it is a replica")
	turn("NO", "ONE")
	if _, err := l.WriteOnce(t.Context(), endOf("a", 1, watchdog.OutcomeLost)); err != nil {
		t.Errorf("a master again: %v", err)
	}
}

func TestReadOnlyWritesNothing(t *testing.T) {
	s := startReal(t)
	writer, _ := openLedger(t, fast(s.Address()))
	mustCheck(t, writer)
	mustSettle(t, writer, endOf("a", 1, watchdog.OutcomeLost))
	o := fast(s.Address())
	o.ReadOnly = true
	c := openConn(t, o)
	reader := c.Ledger(wire.Seal{})
	changes := func() string { return s.admin.Info(t.Context(), "persistence").Val() }
	dirty := func() (n string) {
		for line := range strings.Lines(changes()) {
			if strings.HasPrefix(line, "rdb_changes_since_last_save:") {
				n = line
			}
		}
		return n
	}
	before := dirty()
	if _, found, err := reader.Record(t.Context(), "a", 1); err != nil || !found {
		t.Errorf("reading: %v %v", found, err)
	}
	if left, err := reader.Outbox(t.Context(), 10); err != nil || len(left) != 1 {
		t.Errorf("the outbox: %v %v", left, err)
	}
	refused(t, reader.Check(t.Context()), "read-only")
	_, err := reader.WriteOnce(t.Context(), endOf("a", 2, watchdog.OutcomeLost))
	refused(t, err, "read-only")
	_, err = reader.SwapHead(t.Context(), watchdog.Head{ID: "a", Generation: 1}, "")
	refused(t, err, "read-only")
	refused(t, reader.Told(t.Context(), endOf("a", 1, watchdog.OutcomeLost)), "read-only")
	if _, err := c.Marker().CreateAuthority(t.Context(), writer.Authority()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("naming the authority: %v", err)
	}
	if after := dirty(); after != before {
		t.Errorf("something was written: %s became %s", before, after)
	}
}

func TestMarkerIsCreatedOnce(t *testing.T) {
	s := startReal(t)
	m, other := openConn(t, fast(s.Address())).Marker(), openConn(t, fast(s.Address())).Marker()
	if _, found, err := m.ReadAuthority(t.Context()); found || err != nil {
		t.Errorf("no name stands: %v %v", found, err)
	}
	first := watchdog.Authority{Name: watchdog.AuthorityJetStream, Identity: "one"}
	for _, a := range []watchdog.Authority{first, {Name: watchdog.AuthorityRedis, Identity: "two"}} {
		if got, err := other.CreateAuthority(t.Context(), a); err != nil || got != first {
			t.Errorf("%v stands, %v", got, err)
		}
	}
	if got, found, err := m.ReadAuthority(t.Context()); err != nil || !found || got != first {
		t.Errorf("%v %v %v", got, found, err)
	}
	for _, hostile := range []string{"", "{}", "jetstream", `{"name":"etcd","identity":"x"}`} {
		s.admin.Set(t.Context(), wire.AuthorityKey, hostile, 0)
		if got, _, err := m.ReadAuthority(t.Context()); err == nil {
			t.Errorf("%q is read as %v", hostile, got)
		}
	}
}

func TestAKeyOfAnotherTypeIsForeign(t *testing.T) {
	s := startReal(t)
	l, _ := openLedger(t, fast(s.Address()))
	s.admin.RPush(t.Context(), wire.TerminalKey("a", 1), "x")
	if _, _, err := l.Record(t.Context(), "a", 1); !errors.Is(err, watchdog.ErrForeignRecord) {
		t.Errorf("reading: %v", err)
	}
	if _, err := l.WriteOnce(t.Context(), endOf("a", 1, watchdog.OutcomeLost)); !errors.Is(err, watchdog.ErrForeignRecord) {
		t.Errorf("writing: %v", err)
	}
	rec := follow(t, l)
	rec.Wait(t, 60*time.Second, "a foreign record", func() bool {
		return slices.ContainsFunc(sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0), func(ev watchdog.TerminalSeen) bool { return ev.Foreign })
	})
}

// A key among the terminal records that names no generation ends nothing, and
// is counted once and named.
func TestATerminalKeyWithoutAGenerationIsCounted(t *testing.T) {
	s := startReal(t)
	l, _ := openLedger(t, fast(s.Address()))
	key := strings.TrimSuffix(wire.TerminalKey("a", 1), "1") + "first"
	s.admin.Set(t.Context(), key, "{}", 0)
	rec := follow(t, l)
	s.admin.XTrimMaxLen(t.Context(), journalKey, 0)
	mustSettle(t, l, endOf("b", 1, watchdog.OutcomeLost)) // after the gap all keys are looked at again
	rec.Wait(t, 60*time.Second, "an end after it", func() bool { return len(sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0)) > 0 })
	seen := sourcetest.EventsOf[watchdog.Refused](rec, 0)
	if len(seen) != 1 || seen[0].Source != watchdog.SourceRedis || seen[0].LastID != key || seen[0].Counts[watchdog.RefusedID] != 1 {
		t.Errorf("it is told as %+v", seen)
	}
}

// follow follows a ledger until the test ends.
func follow(t testing.TB, l *Ledger) *sourcetest.Recorder {
	t.Helper()
	rec := &sourcetest.Recorder{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.Follow(ctx, rec.Post) }()
	t.Cleanup(func() { cancel(); <-ended })
	rec.Wait(t, 60*time.Second, "that all has been told", func() bool { return len(sourcetest.EventsOf[watchdog.FollowedUp](rec, 0)) > 0 })
	return rec
}

func TestAFollowerThatMissedEntriesLooksAtAll(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	l, _ := openLedger(t, fast(s.Address()))
	mustSettle(t, l, endOf("a", 1, watchdog.OutcomeLost))
	rec := follow(t, l)
	s.admin.Set(t.Context(), wire.HeadKey("b"), `{"session_id":"b","generation":1,"ended":false,"executions":[]}`, 0) // in no journal
	s.admin.XTrimMaxLen(t.Context(), journalKey, 0)
	rec.Wait(t, 60*time.Second, "what stands in no journal", func() bool { return len(sourcetest.EventsOf[watchdog.HeadSeen](rec, 0)) > 0 })
}

func TestLedgerAcrossAFailover(t *testing.T) {
	t.Parallel() // it waits for servers, most of the time
	master := startReal(t, durable...)
	replica := startReal(t, append(slices.Clone(durable), fmt.Sprintf("replicaof 127.0.0.1 %d", master.port))...)
	sentinel := startRealOn(t, sourcetest.FreePort(t), []string{"--sentinel"},
		fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 1", master.port),
		"sentinel down-after-milliseconds mymaster 1000", "sentinel failover-timeout mymaster 4000")
	l, _ := openLedger(t, Options{Addrs: []string{sentinel.Address()}, MasterName: "mymaster", PollInterval: 50 * time.Millisecond})
	mustCheck(t, l)
	rec := follow(t, l)
	first := mustSettle(t, l, endOf("a", 1, watchdog.OutcomeLost))
	ready := sourcetest.Eventually(60*time.Second, func() bool {
		n, err := replica.admin.Exists(context.Background(), wire.TerminalKey("a", 1)).Result()
		known, _ := sentinel.admin.Do(context.Background(), "sentinel", "replicas", "mymaster").Slice()
		return err == nil && n == 1 && len(known) == 1
	})
	if !ready {
		t.Fatal("the replica does not follow, or the sentinel does not know it")
	}
	mark := rec.Mark()
	master.Kill(t)
	if !sourcetest.Eventually(60*time.Second, func() bool { return l.Check(t.Context()) == nil }) {
		t.Fatal(l.Check(t.Context()))
	}
	late := endOf("a", 1, watchdog.OutcomeExpired)
	late.Nonce = "after"
	if got := mustSettle(t, l, late); cmp.Diff(first, got) != "" {
		t.Errorf("the end became another one in the failover: %+v", got)
	}
	mustSettle(t, l, endOf("b", 1, watchdog.OutcomeLost))
	rec.Wait(t, 60*time.Second, "all told again after the break", func() bool {
		return len(sourcetest.EventsOf[watchdog.FollowedUp](rec, mark)) > 0
	})
}

func TestLedgerInAClusterWithADeadNode(t *testing.T) {
	t.Parallel() // it waits for servers, most of the time
	nodes := startCluster(t)
	l, _ := openLedger(t, clusterOptions(nodes))
	mustCheck(t, l)
	// A session on each node.
	var ids [3]watchdog.ID
	for i := 0; slices.Contains(ids[:], ""); i++ {
		id := watchdog.ID(fmt.Sprintf("s%d", i))
		ids[int(slotOf(wire.HeadKey(id)))*3/slotCount] = id
	}
	for _, id := range ids {
		mustSettle(t, l, endOf(id, 1, watchdog.OutcomeLost))
	}
	for i := range nodes { // whichever holds the shared keys among them
		nodes[i].Kill(t)
		if err := l.Check(t.Context()); !errors.Is(err, watchdog.ErrAuthorityAway) {
			t.Errorf("node %d is dead, and Check says %v", i, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := l.WriteOnce(ctx, endOf(ids[i], 2, watchdog.OutcomeLost))
		if cancel(); !errors.Is(err, watchdog.ErrAuthorityAway) && !errors.Is(err, watchdog.ErrUnknown) {
			t.Errorf("node %d is dead, and its session is settled: %v", i, err)
		}
		nodes[i].Restart(t) // without what it held: nothing was saved
		if !sourcetest.Eventually(60*time.Second, func() bool {
			_, err := l.WriteOnce(t.Context(), endOf(ids[i], 1, watchdog.OutcomeExpired))
			return err != nil && strings.Contains(err.Error(), "emptied or replaced")
		}) {
			t.Errorf("node %d came back empty, and the session that had ended may end again", i)
		}
		refusal := ""
		if !sourcetest.Eventually(60*time.Second, func() bool {
			err := l.Check(t.Context())
			refusal = fmt.Sprint(err)
			return strings.Contains(refusal, "it was emptied") || strings.Contains(refusal, "it went back")
		}) {
			t.Errorf("node %d came back empty, and Check says %s", i, refusal)
		}
		l, _ = openLedger(t, clusterOptions(nodes)) // a restart begins anew
		if !sourcetest.Eventually(60*time.Second, func() bool { return l.Check(t.Context()) == nil }) {
			t.Fatal(l.Check(t.Context()))
		}
	}
}

// TestAnEndNamedButNotWritten is the crash point of a Cluster: between the name
// and the record.
func TestAnEndNamedButNotWritten(t *testing.T) {
	s := startReal(t)
	l, _ := openLedger(t, fast(s.Address()))
	for g := watchdog.Generation(1); g <= 3; g++ {
		if err := untoldScript.Run(t.Context(), s.admin, []string{untoldKey, untoldCounterKey}, untoldName("a", g)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want ...watchdog.Generation) {
		t.Helper()
		left, err := l.Outbox(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []watchdog.Generation
		for _, r := range left {
			got = append(got, r.Generation)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the outbox holds others:\n%s", diff)
		}
	}
	expect()
	mustSettle(t, l, endOf("a", 2, watchdog.OutcomeLost))
	mustSettle(t, l, endOf("a", 1, watchdog.OutcomeLost))
	expect(1, 2) // in the order of their names
	// The list itself is lost: the outboxes of the sessions know.
	s.admin.Del(t.Context(), untoldKey)
	again, _ := openLedger(t, fast(s.Address()))
	l = again
	if left, err := l.Outbox(t.Context(), 10); err != nil || len(left) != 2 {
		t.Errorf("after the loss of the list: %v %v", left, err)
	}
	// Told, but the name stayed: it is found to be stale.
	s.admin.SRem(t.Context(), wire.OutboxKey("a"), "1")
	expect(2)
	if n := s.admin.ZCard(t.Context(), untoldKey).Val(); n != 1 {
		t.Errorf("%d names are left", n)
	}
}

func TestLedgerWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		facts facts
		want  []string
	}{
		"durable":     {facts{appendOnly: "1", policy: "noeviction"}, nil},
		"no file":     {facts{appendOnly: "0", policy: "noeviction"}, []string{"appendonly is off"}},
		"cannot tell": {facts{maxMemory: -1}, []string{"cannot be told"}},
		"evicts":      {facts{appendOnly: "1", maxMemory: 1 << 20, policy: "allkeys-lru"}, []string{"evicts terminal records"}},
		"volatile":    {facts{appendOnly: "1", maxMemory: 1 << 20, policy: "volatile-lru"}, nil},
		"unlimited":   {facts{appendOnly: "1", policy: "allkeys-lru"}, nil},
	} {
		got := c.facts.ledgerWarnings()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
	s := startReal(t)
	l, _ := openLedger(t, fast(s.Address()))
	mustCheck(t, l)
	if w := l.Warning(); !strings.Contains(w, "a failover or kill -9 can lose the last second") || !strings.Contains(w, "appendonly is off") {
		t.Errorf("the warning is %q", w)
	}
}

// afterwards does something once, after the server has answered a command.
type afterwards struct {
	command string
	do      func()
	done    atomic.Bool
}

func (a *afterwards) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *afterwards) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *afterwards) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == a.command && !a.done.Swap(true) {
			a.do()
		}
		return err
	}
}

// A follower sees what comes while a check asks how far the journal is: the store
// did not go back.
func TestWhatComesDuringACheckIsNoStepBack(t *testing.T) {
	t.Parallel()
	_, address := startMini(t)
	l, _ := openLedger(t, fast(address))
	mustCheck(t, l)
	came := false
	l.conn.client.AddHook(&afterwards{command: "xrevrange", do: func() {
		mustSettle(t, l, endOf("a", 1, watchdog.OutcomeLost))
		at, err := newestEntry(t.Context(), l.conn.client)
		if err != nil {
			t.Error(err)
		}
		l.sawEntry(at)
		came = true
	}})
	mustCheck(t, l)
	if !came {
		t.Error("the check does not ask for the newest entry, so that nothing came meanwhile")
	}
	mustCheck(t, l)
}
