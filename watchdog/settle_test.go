package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A runner that goes is settled once, with an error and then done; what it says
// later is kept and hidden; its next run is generation 2 at once.
//
// fault 8, 9, 10
func TestLostOnceLateBeatsKeptNextRunIsTwo(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	c.want("a", Running, 1)
	p.silent = true
	c.live(60*time.Second, p)
	if d := c.want("a", Silent, 1); !strings.Contains(d.Why, "lost in") {
		t.Errorf("silent without a word on when it is lost: %s", d.Why)
	}
	c.live(30*time.Second, p)
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
	if d := c.want("a", Lost, 1); d.Terminal == nil || d.Terminal.Outcome != OutcomeLost || d.Terminal.Writer == "" {
		t.Errorf("the end is not shown: %+v", d.Terminal)
	}
	r, _ := c.record("a", 1)
	if e := r.Entries(); len(e) != 2 || e[0].Code != "execution_lost" || e[1].Type != "done" || e[1].StopReason != "lost" {
		t.Errorf("entries %+v", e)
	}
	first := r.Nonce
	c.live(5*time.Minute, p) // passes go on and add nothing
	if r, _ := c.record("a", 1); r.Nonce != first || len(c.shown.entries[generationKey{"a", 1}]) != 2 {
		t.Errorf("a later pass changed the end: %+v", r)
	}

	p.beat("running")
	c.live(time.Second)
	c.want("a", Lost, 1)
	if len(c.kept) != 2 { // each sweeper keeps what it heard
		t.Fatalf("kept %d late beats", len(c.kept))
	}
	if l := c.kept[0]; l.Generation != 1 || string(l.Raw) != "raw" || l.LateBy < 4*time.Minute {
		t.Errorf("kept %+v", l)
	}
	if w := c.nodes[0].tr.Look(Ask{}); w.Fleet.LateBeats != 1 || w.Ledger.Late != 1 || w.Ledger.Settled+c.nodes[1].tr.Look(Ask{}).Ledger.Settled == 0 {
		t.Errorf("late %d, kept %d, settled %d", w.Fleet.LateBeats, w.Ledger.Late, w.Ledger.Settled)
	}

	next := c.talker("a", 10*time.Second).guarded("two")
	c.live(time.Second, next)
	c.want("a", Running, 2)
	p.beat("running") // the old one still talks
	c.live(time.Second, next)
	if d := c.want("a", Running, 2); d.BootID != "two" {
		t.Errorf("a late beat took over: %+v", d)
	}
	if len(c.kept) != 4 {
		t.Errorf("kept %d late beats", len(c.kept))
	}
}

func TestFiveFieldProducerIsLostOnceItsCadenceIsLearned(t *testing.T) {
	for name, beats := range map[string]int{"learned": 10, "not learned": 5} {
		c := newCluster(t, Policy{}, 2, 0)
		p := c.talker("a", 10*time.Second)
		c.live(time.Duration(beats)*10*time.Second, p)
		p.silent = true
		c.live(10*time.Minute, p)
		if beats < 8 {
			c.wantNone("a")
			if d := c.want("a", Silent, 1); !strings.Contains(d.Why, "never lost by itself") {
				t.Errorf("%s: %s", name, d.Why)
			}
			continue
		}
		c.wantRecord("a", 1, OutcomeLost, BySweeper)
		p.beat("running")
		c.live(time.Second)
		c.want("a", Lost, 1)
		if len(c.kept) == 0 {
			t.Errorf("%s: its late beat was not kept", name)
		}
		next := c.talker("a", 10*time.Second)
		c.live(time.Second, next)
		c.want("a", Running, 2)
	}
}

// fault 9: a beat that lands between scan and write cancels the settlement.
func TestBeatBeforeTheWriteCancels(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	n := c.nodes[0]
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	for len(n.effects) == 0 || !isSettle(n.effects[len(n.effects)-1]) {
		c.pass(500 * time.Millisecond)
		n.advance(true)
		n.catchUp()
		if c.now.Mono > 10*time.Minute {
			t.Fatal("it is never asked for")
		}
	}
	p.beat("running")
	c.settleDown()
	c.wantNone("a")
	c.want("a", Running, 1)
	p.silent = true
	c.live(2*time.Minute, p)
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
}

// fault 7: both buses away for five minutes; nothing is settled meanwhile, and
// the first at least one TTL after.
func TestNothingIsSettledWhileTheBusIsAway(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	for range 600 {
		c.pass(500 * time.Millisecond)
		for _, n := range c.nodes {
			n.advance(false)
		}
		c.settleDown()
	}
	c.wantNone("a")
	c.want("a", Unknown, 1)
	back := c.now.Mono
	for c.now.Mono < back+20*time.Minute {
		if _, ok := c.record("a", 1); ok {
			break
		}
		c.live(time.Second)
	}
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
	if waited := c.now.Mono - back; waited < time.Minute {
		t.Errorf("settled %v after the bus came back", waited)
	}
}

func TestWhoSaidStalledIsLostOnlyIfItIsOurs(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	foreign, ours := c.talker("foreign", 10*time.Second), c.talker("ours", 10*time.Second).guarded("one")
	c.live(2*time.Minute, foreign, ours)
	foreign.beat("stalled")
	ours.beat("stalled")
	foreign.silent, ours.silent = true, true
	c.live(10 * time.Minute)
	c.wantNone("foreign")
	c.want("foreign", Stalled, 1)
	c.wantRecord("ours", 1, OutcomeLost, BySweeper)
}

func TestRedisAloneSettlesNobodyButByTheLease(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	n := c.nodes[0]
	n.tell(SourceAdded{Source: SourceRedis, At: n.instant().Mono})
	plain, leased := c.talker("plain", 10*time.Second).guarded("p"), c.talker("leased", 10*time.Second).guarded("l")
	for _, p := range []*talker{plain, leased} {
		p.say = func(b *Beat) { b.Source = SourceRedis }
	}
	trip := func() { n.tell(RoundTrip{Source: SourceRedis, Sent: n.instant().Mono, At: n.instant().Mono}) }
	c.run(time.Minute, 500*time.Millisecond, func() { trip(); plain.tick(); leased.tick() })
	n.tell(LeaseSeen{ID: "leased", BootID: "l", Held: true, At: n.instant().Mono})
	c.run(time.Minute, 500*time.Millisecond, trip)
	n.tell(LeaseSeen{ID: "leased", BootID: "l", Held: false, At: n.instant().Mono})
	n.tell(LeaseSeen{ID: "plain", BootID: "p", Held: false, At: n.instant().Mono}) // was never seen held
	c.run(10*time.Minute, 500*time.Millisecond, trip)
	c.wantNone("plain")
	if d := c.want("plain", Silent, 1); !strings.Contains(d.Why, "Redis alone") {
		t.Error(d.Why)
	}
	c.wantRecord("leased", 1, OutcomeLost, BySweeper)
}

func TestOwnEndIsConfirmedByNoContraryBeat(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	good, bad, back := c.talker("good", 2*time.Second).guarded("g"), c.talker("bad", 2*time.Second), c.talker("back", 2*time.Second).guarded("b")
	c.live(30*time.Second, good, bad, back)
	good.beat("completed")
	bad.say = func(b *Beat) { b.Message = []byte("out of credits") }
	bad.beat("error")
	back.beat("completed")
	c.live(2 * time.Second)
	back.beat("running")
	c.live(20*time.Second, back)
	c.wantRecord("good", 1, OutcomeCompleted, ByAgent)
	c.wantRecord("bad", 1, OutcomeError, ByAgent)
	if r, _ := c.record("bad", 1); r.Reason != "out of credits" || r.Entries()[0].Code != "agent_error" {
		t.Errorf("%+v", r)
	}
	c.wantNone("back")
	c.want("back", Running, 1)

	good.beat("running") // trailing output after an honest end is ordinary
	c.live(time.Second)
	c.want("good", Completed, 1)
	if len(c.kept) != 0 {
		t.Errorf("%d beats in quarantine", len(c.kept))
	}
}

func TestWaitingIsNotLostWhileItBeats(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	waits, gone := c.talker("waits", 10*time.Second).guarded("w"), c.talker("gone", 10*time.Second).guarded("g")
	for _, p := range []*talker{waits, gone} {
		p.say = func(b *Beat) { b.WaitingFor, b.WaitingMax = WaitHuman, 4*time.Hour }
	}
	c.live(30*time.Second, waits, gone)
	gone.silent = true
	c.live(10*time.Minute, waits, gone)
	c.want("waits", Waiting, 1)
	c.wantNone("waits")
	c.wantRecord("gone", 1, OutcomeLost, BySweeper)
}

// fault 7: both levels of the brake.
func TestBrakeHoldsThoseThatFallTogether(t *testing.T) {
	fleet := func(n, fall int) (*cluster, []*talker) {
		c := newCluster(t, Policy{}, 1, 0)
		var all []*talker
		for i := range n {
			all = append(all, c.talker(fmt.Sprintf("s%04d", i), 10*time.Second).guarded(fmt.Sprint("b", i)))
		}
		c.live(20*time.Second, all...)
		for _, p := range all[:fall] {
			p.silent = true
		}
		return c, all
	}
	c, all := fleet(300, 8) // 2 % are 6
	c.live(5*time.Minute, all...)
	w := c.nodes[0].tr.Look(Ask{Focus: "s0000"})
	if len(w.Groups) != 1 || w.Groups[0].N != 8 || w.Groups[0].HeldFor <= 0 || len(c.root.store.records) != 0 {
		t.Fatalf("groups %+v, %d settled", w.Groups, len(c.root.store.records))
	}
	if !strings.Contains(fmt.Sprint(w.Focus.Evidence.Next), "not while held") || w.Focus.Evidence.Held == "" {
		t.Errorf("%+v", w.Focus.Evidence)
	}
	c.live(6*time.Minute, all...)
	if n := len(c.root.store.records); n != 8 {
		t.Errorf("%d settled once the hold is over", n)
	}
	if w := c.nodes[0].tr.Look(Ask{}); len(w.Groups) != 0 {
		t.Errorf("the group lives on: %+v", w.Groups)
	}

	c, all = fleet(20, 11)
	c.live(30*time.Minute, all...)
	if w := c.nodes[0].tr.Look(Ask{}); len(w.Groups) != 1 || w.Groups[0].HeldFor >= 0 || len(c.root.store.records) != 0 {
		t.Fatalf("groups %+v, %d settled", w.Groups, len(c.root.store.records))
	}
	c.nodes[0].tell(BrakeReleased{By: "ops", Reason: "the rack is gone", At: c.nodes[0].instant().Mono})
	c.live(2*time.Second, all...)
	if n := len(c.root.store.records); n != 11 {
		t.Errorf("%d settled after the release", n)
	}
}

// A group that silences trickle into does not hold the first of them for ever.
func TestTrickleOfSilencesIsNoEndlessHold(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	var all []*talker
	for i := range 120 {
		all = append(all, c.talker(fmt.Sprintf("s%03d", i), 10*time.Second).guarded(fmt.Sprint("b", i)))
	}
	c.live(20*time.Second, all...)
	for _, p := range all[:5] {
		p.silent = true
	}
	for i := range 20 {
		all[5+i].silent = true
		c.live(50*time.Second, all...)
	}
	if _, ok := c.record("s000", 1); !ok {
		t.Error("the first is held after 17 minutes: ", c.nodes[0].detail("s000").Why)
	}
}

// fault 6: a sweeper that was stopped for longer than every deadline writes
// nothing stale when it goes on.
func TestStoppedSweeperWritesNothingStale(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	n := c.nodes[0]
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	for range 20 {
		n.stopped = c.now.Mono + 3*time.Minute
		c.live(5*time.Minute, p)
		c.wantNone("a")
	}
	c.want("a", Running, 1)
	p.silent = true
	c.live(10*time.Minute, p)
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
}

// fault 4, 5: our clocks jump, or the machine sleeps.
func TestClocksThatJumpSettleNobody(t *testing.T) {
	for name, jump := range map[string]Instant{
		"asleep for 8 h": {Boot: 8 * time.Hour, Wall: int64(8 * time.Hour)},
		"+1 h":           {Wall: int64(time.Hour)}, "-1 h": {Wall: -int64(time.Hour)},
		"+2 years": {Wall: int64(2 * 365 * 24 * time.Hour)}, "-2 years": {Wall: -int64(2 * 365 * 24 * time.Hour)},
	} {
		c := newCluster(t, Policy{}, 2, 0)
		boot, five := c.talker("boot", 10*time.Second).guarded("one"), c.talker("five", 10*time.Second)
		c.live(2*time.Minute, boot, five)
		c.now.Boot += jump.Boot
		c.now.Wall += jump.Wall
		c.live(5*time.Minute, boot, five)
		if len(c.root.store.records) != 0 || c.head("five").Generation != 1 || c.head("boot").Generation != 1 {
			t.Errorf("%s: %d settled, heads %d and %d", name, len(c.root.store.records), c.head("five").Generation, c.head("boot").Generation)
		}
	}
}

func TestLateOutputIsRejectedIfSet(t *testing.T) {
	c := newCluster(t, Policy{RejectLate: true}, 1, 0)
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	c.live(3 * time.Minute)
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
	p.beat("running")
	c.live(time.Second)
	if d := c.want("a", Lost, 1); d.LateBeats != 1 || len(c.kept) != 0 {
		t.Errorf("late %d, kept %d", d.LateBeats, len(c.kept))
	}
}

func TestEventsTellOfEverything(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	p := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, p)
	c.live(3 * time.Minute)
	n := c.nodes[0]
	kinds := map[string]int{}
	for _, e := range n.tr.Look(Ask{Events: -1}).Events {
		kinds[e.Kind]++
	}
	for _, kind := range []string{"", EventNumbered, EventSettled, EventSight, EventLedger} {
		if kinds[kind] == 0 {
			t.Errorf("no event of kind %q in %v", kind, kinds)
		}
	}
	if kinds[EventSettled] != 1 {
		t.Errorf("%d ends are told", kinds[EventSettled])
	}
	own := n.tr.Look(Ask{Events: 3, EventsOf: "a"}).Events
	if len(own) != 3 || own[0].ID != "a" || own[1].At.Mono > own[0].At.Mono+tickLength {
		t.Errorf("%+v", own)
	}
}
