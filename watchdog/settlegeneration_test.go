package watchdog

import (
	"context"
	"testing"
	"time"
)

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
