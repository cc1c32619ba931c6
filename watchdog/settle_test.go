package watchdog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// talker is a publisher of the scenarios: it beats every interval while it is
// not silent.
type talker struct {
	c        *cluster
	id       string
	every    time.Duration
	started  time.Duration
	last     time.Duration
	boot     string
	declares bool
	silent   bool
	seq      int64
	say      func(*Beat)
}

func (c *cluster) talker(id string, every time.Duration) *talker {
	return &talker{c: c, id: id, every: every, started: c.now.Mono, last: -time.Hour}
}

// guarded makes it a publisher with a boot id that declares its interval.
func (p *talker) guarded(boot string) *talker {
	p.boot, p.declares = boot, true
	return p
}

func (p *talker) beat(state string) {
	p.seq++
	p.c.say(beat(p.id, int64((p.c.now.Mono-p.started)/time.Second), func(b *Beat) {
		b.StateText, b.Task = []byte(state), fmt.Appendf(nil, "step %d", p.seq)
		if p.boot != "" {
			b.BootID, b.Seq = []byte(p.boot), p.seq
		}
		if p.declares {
			b.Interval = p.every
		}
		b.Raw = []byte("raw")
		if p.say != nil {
			p.say(b)
		}
	}))
}

func (p *talker) tick() {
	if !p.silent && p.c.now.Mono-p.last >= p.every {
		p.last = p.c.now.Mono
		p.beat("running")
	}
}

// live lets talkers talk for d.
func (c *cluster) live(d time.Duration, talkers ...*talker) {
	c.run(d, 500*time.Millisecond, func() {
		for _, p := range talkers {
			p.tick()
		}
	})
}

func (c *cluster) wantRecord(id string, g Generation, o Outcome, by SettledBy) {
	c.t.Helper()
	r, ok := c.record(id, g)
	if !ok || r.Outcome != o || r.SettledBy != by {
		c.t.Fatalf("the end of %s generation %d is %+v, want %v by %s; shown %v: %s", id, g, r, o, by, c.nodes[0].detail(id).Verdict, c.nodes[0].detail(id).Why)
	}
}

func (c *cluster) wantNone(id string) {
	c.t.Helper()
	for key, r := range c.root.store.records {
		if key.id == ID(id) {
			c.t.Fatalf("%s was settled: %+v", id, r)
		}
	}
}

func (c *cluster) want(id string, v Verdict, g Generation) Detail {
	c.t.Helper()
	d := Detail{}
	for _, n := range c.nodes {
		if d = n.detail(id); d.Verdict != v || d.Generation != g {
			c.t.Fatalf("%s shows %s as %v, generation %d (%s), want %v %d", n.name, id, d.Verdict, d.Generation, d.Why, v, g)
		}
	}
	return d
}

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

func isSettle(e Effect) bool { _, ok := e.(Settle); return ok }

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

// An agent without ids that ends and starts again within the tolerance of two
// start estimates is another generation all the same.
func TestQuickRestartWithoutIdsIsAnotherGeneration(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	p := c.talker("a", time.Second)
	c.live(2*time.Second, p)
	p.beat("error")
	c.live(time.Second)
	next := c.talker("a", time.Second)
	c.live(30*time.Second, next)
	c.wantRecord("a", 1, OutcomeError, ByAgent)
	c.want("a", Running, 2)
}

func TestOvertakenGenerationIsSuperseded(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	old := c.talker("a", 10*time.Second).guarded("one")
	c.live(30*time.Second, old)
	next := c.talker("a", 10*time.Second).guarded("two")
	c.live(10*time.Second, next)
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
	if r, _ := c.record("a", 1); r.Reason != "superseded" {
		t.Errorf("reason %q", r.Reason)
	}
	c.want("a", Running, 2)
	if h := c.head("a"); h.Ended || h.Generation != 2 {
		t.Errorf("the end of generation 1 touched the head: %+v", h)
	}
}

// A sweeper that is stopped between asking for a number and getting it asks on,
// when it continues, for an execution whose successor has one by now.
func TestNumberThatComesAfterTheSuccessorsIsNone(t *testing.T) {
	c := newCluster(t, Policy{}, 2, 0)
	stopped := c.nodes[0]
	first, second := c.talker("a", time.Second).guarded("one"), c.talker("a", time.Second).guarded("two")
	stopped.fault = func(Call, ID) Fault { return FaultAway }
	c.nodes[1].stopped = c.now.Mono + 20*time.Second
	c.live(3*time.Second, first)
	if len(c.head("a").Executions) > 0 {
		t.Fatalf("it was to have no number yet: %+v", c.head("a"))
	}
	// Its claim is in the hands of the first when that is stopped; the second
	// serve knows nothing of the execution.
	claim := Number{Claim{ID: "a", BootID: "one", Start: stopped.tr.wallAt(first.started), Sources: SourceNATS.Set()}}
	first.silent, stopped.stopped = true, c.now.Mono+100*time.Second
	c.nodes[1].die()
	c.live(20*time.Second, first)
	c.nodes[1].start()
	second.started = c.now.Mono
	c.live(10*time.Second, second)
	stopped.fault, stopped.effects = nil, []Effect{Sweep{}, claim}
	c.live(120*time.Second, second)
	c.want("a", Running, 1)
	if h := c.head("a"); h.Generation != 1 || len(h.Executions) != 1 || h.Executions[0].BootID != "two" {
		t.Errorf("the head is %+v", h)
	}
	second.silent = true
	c.live(300*time.Second, second)
	c.wantRecord("a", 1, OutcomeLost, BySweeper)
	c.want("a", Lost, 1)
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

func TestSupervisorsWordBeginsAGeneration(t *testing.T) {
	c := newCluster(t, Policy{}, 1, 0)
	n := c.nodes[0]
	tell := func(g Generation, phase SupervisorPhase) {
		n.tell(Supervised{ID: "a", Generation: g, Phase: phase, Process: Process{PID: 4711}, At: n.instant().Mono})
	}
	claim := func(boot string) Generation {
		g, err := n.settler.Claim(context.Background(), Claim{ID: "a", BootID: boot, New: true, Cadence: 10 * time.Second, Sources: SourceNATS.Set()})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := claim("sup-1")
	tell(g, SupervisorRunning)
	c.live(time.Second)
	if d := c.want("a", Running, 1); d.Process == nil || d.Process.PID != 4711 {
		t.Errorf("%+v", d.Process)
	}
	child := c.talker("a", 10*time.Second) // five fields: its supervisor's number is its
	c.live(20*time.Second, child)
	c.want("a", Running, 1)
	if _, err := n.settler.Settle(context.Background(), Record{ID: "a", Generation: 1, Outcome: OutcomeError, SettledBy: BySupervisor, Reason: "exit status 1"}); err != nil {
		t.Fatal(err)
	}
	tell(claim("sup-2"), SupervisorRunning)
	c.live(time.Second)
	c.want("a", Running, 2)
	tell(1, SupervisorCrashLoop) // an old word
	c.live(time.Second)
	c.want("a", Running, 2)
	c.wantRecord("a", 1, OutcomeError, BySupervisor)
	if _, ok := c.record("a", 2); ok {
		t.Error("generation 2 has ended")
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
