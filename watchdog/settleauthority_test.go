package watchdog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A sweeper that was killed and restarted settles what died meanwhile, after one
// fresh deadline; what it only knows of it does not call running.
func TestRestartedSweeperSettlesWhatDiedMeanwhile(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	n := c.nodes[0]
	died, five, lives := c.talker("died", 10*time.Second).guarded("d"), c.talker("five", 10*time.Second), c.talker("lives", 10*time.Second).guarded("l")
	c.live(2*time.Minute, died, five, lives)
	n.die()
	c.live(5*time.Minute, lives)
	n.start()
	born := c.now.Mono
	c.live(10*time.Second, lives)
	c.want("lives", Running, 1)
	if d := c.want("died", Unknown, 1); !strings.Contains(d.Why, "known from the ledger") || d.State != "" || d.BeatAge != -1 {
		t.Errorf("%+v", d.Row)
	}
	for c.now.Mono < born+10*time.Minute && len(c.root.store.records) < 2 {
		c.live(time.Second, lives)
	}
	if waited := c.now.Mono - born; waited < 90*time.Second || waited > 5*time.Minute {
		t.Errorf("settled %v after the restart", waited)
	}
	c.wantRecord("died", 1, OutcomeLost, BySweeper)
	c.wantRecord("five", 1, OutcomeLost, BySweeper)
	c.wantNone("lives")
	five.beat("running") // it was not dead: its tombstone stands
	c.live(time.Second, lives)
	c.want("five", Lost, 1)
}

// fault 48: what does not decode blocks, and is no outcome.
func TestForeignRecordBlocksAndIsNoOutcome(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	for _, n := range c.nodes {
		n.tell(TerminalSeen{ID: "a", Generation: 1, Foreign: true, At: n.instant().Mono})
	}
	c.live(time.Second, p)
	c.want("a", Disputed, 1)
	p.silent = true
	c.live(10*time.Minute, p)
	c.wantNone("a")
	if d := c.want("a", Silent, 1); !strings.Contains(d.Why, "foreign") {
		t.Error(d.Why)
	}
}

// An operator ends what a foreign record blocks; what comes after is as after
// any expire, in every serve and in one that starts later.
func TestOperatorOverrulesAForeignRecord(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	foreign := TerminalSeen{ID: "a", Generation: 1, Foreign: true}
	c.root.store.foreign[generationKey{"a", 1}] = true
	for _, n := range c.nodes {
		foreign.At = n.instant().Mono
		n.tell(foreign)
	}
	c.live(time.Second, p)
	c.want("a", Disputed, 1)
	stands, err := c.nodes[0].settler.Settle(t.Context(), Record{ID: "a", Generation: 1, Outcome: OutcomeExpired, SettledBy: ByOperator, Reason: "ticket 7"})
	if err != nil || stands.Outcome != OutcomeExpired {
		t.Fatal(stands, err)
	}
	c.live(30*time.Second, p)
	check := func() {
		t.Helper()
		d := c.want("a", Expired, 1)
		if !strings.Contains(d.Why, "over a foreign terminal record") || d.Terminal == nil || !d.Terminal.Overrules || d.Terminal.Foreign {
			t.Errorf("%s: %+v", d.Why, d.Terminal)
		}
		if n := c.nodes[0].tr.Look(Ask{}).Ledger.Waiting; n != 0 {
			t.Errorf("%d still wait", n)
		}
	}
	check()
	if len(c.kept) == 0 {
		t.Error("its late beats are not kept")
	}
	c.nodes[1].die()
	c.nodes[1].start()
	c.live(30*time.Second, p)
	check()
	next := c.talker("a", 10*time.Second).guarded("two")
	c.live(2*time.Second, next)
	c.want("a", Running, 2)
	c.wantNone("a")
}

func TestSettlementWaitsForTheAuthority(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	n := c.nodes[0]
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	n.fault = func(Call, ID) Fault { return FaultAway }
	p.silent = true
	c.live(10*time.Minute, p)
	c.wantNone("a")
	w := n.tr.Look(Ask{Focus: "a"})
	if w.Ledger.Ready || w.Ledger.Reason == "" || w.Ledger.Waiting != 1 || !strings.Contains(w.Focus.Why, "authority away") {
		t.Errorf("%+v, %s", w.Ledger, w.Focus.Why)
	}
	if w.Ledger.PassWhy == "" || !w.Ledger.Overdue {
		t.Errorf("passes fail for ten minutes: %+v", w.Ledger)
	}
	n.fault = nil
	c.live(61*time.Second, p)
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
	if w := n.tr.Look(Ask{}); !w.Ledger.Ready || w.Ledger.Overdue || w.Ledger.Waiting != 0 || w.Ledger.LastPass > 61*time.Second {
		t.Errorf("%+v", w.Ledger)
	}
}

// fault 8: rows that cannot be settled cost only themselves, and hide no fresh
// orphan.
func TestBacklogHidesNoFreshOrphan(t *testing.T) {
	c := newCluster(t, Policy{SweepBatch: 10, BrakeShare: 1, BrakeHold: time.Nanosecond}, 1, 0)
	n := c.nodes[0]
	var all []*talker
	for i := range 100 {
		all = append(all, c.talker(fmt.Sprintf("bad%03d", i), 10*time.Second).guarded(fmt.Sprint("b", i)))
	}
	fresh := c.talker("fresh", 10*time.Second).guarded("f")
	n.fault = func(call Call, id ID) Fault {
		if call == CallWriteOnce && strings.HasPrefix(string(id), "bad") {
			return FaultLost
		}
		return FaultNone
	}
	c.live(30*time.Second, append(all, fresh)...)
	c.live(5*time.Minute, fresh)
	n.tell(BrakeReleased{At: n.instant().Mono})
	c.live(5*time.Minute, fresh)
	if w := n.tr.Look(Ask{}); w.Ledger.Waiting != 100 {
		t.Errorf("%d wait", w.Ledger.Waiting)
	}
	fresh.silent = true
	c.live(92 * time.Second)
	c.wantRecord("fresh", 1, OutcomeLost, BySweeper)
	n.fault = nil
	c.live(12 * time.Minute) // ten a minute
	if len(c.root.store.records) != 101 {
		t.Errorf("%d of 101 are settled in the end", len(c.root.store.records))
	}
}

// Both directions: who comes second learns who won.
func TestTheLoserLearnsTheWinner(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	r, err := c.nodes[0].settler.Settle(context.Background(), Record{ID: "a", Generation: 1, Outcome: OutcomeExpired, SettledBy: ByOperator})
	if err != nil || r.Outcome != OutcomeExpired {
		t.Fatal(r, err)
	}
	lost, err := c.nodes[1].settler.Settle(context.Background(), Record{ID: "a", Generation: 1, Outcome: OutcomeStopped, SettledBy: BySupervisor})
	if err != nil || lost.Nonce != r.Nonce || lost.Outcome != OutcomeExpired {
		t.Errorf("the loser is told %+v, %v", lost, err)
	}
	c.live(10 * time.Minute)
	c.want("a", Expired, 1)
	if len(c.root.store.records) != 1 || !c.head("a").Ended {
		t.Errorf("%d records, head %+v", len(c.root.store.records), c.head("a"))
	}
}
