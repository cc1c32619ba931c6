package watchdog

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// cluster is several sweepers over one ledger, driven step by step on simulated
// clocks, and the truth that they must not contradict.
type cluster struct {
	t       testing.TB
	now     Instant // the world's
	policy  Policy
	without guards
	nodes   []*sweeperNode
	root    *MemoryLedger
	mark    *sharedMark
	shown   *transcripts // a projection that all share, like Redis
	kept    []Late
}

// sweeperNode is one process that settles.
type sweeperNode struct {
	c        *cluster
	name     string
	ahead    Instant // of the world's clocks
	up       bool
	stopped  time.Duration // SIGSTOP: goes on at that Mono of the world; 0 it runs
	tr       *Tracker
	ledger   *MemoryLedger
	settler  *Settler
	follow   *memoryFollower
	effects  []Effect
	queued   []Beat      // came while it was stopped
	relinked []LinkPhase // likewise
	tick     time.Duration
	crash    settleStep // dies there; settleSteps: nowhere
	nonces   int
	fault    func(Call, ID) Fault
}

// crashed is the panic with which a process dies in the midst of a step.
type crashed struct{}

// sharedMark is the place of the authority's name on one bus.
type sharedMark struct {
	name  string
	named *Authority
	away  bool
}

func (m *sharedMark) MarkerName() string { return m.name }

func (m *sharedMark) ReadAuthority(context.Context) (Authority, bool, error) {
	switch {
	case m.away:
		return Authority{}, false, fmt.Errorf("%s does not answer", m.name)
	case m.named == nil:
		return Authority{}, false, nil
	}
	return *m.named, true, nil
}

func (m *sharedMark) CreateAuthority(_ context.Context, a Authority) (Authority, error) {
	if m.away {
		return Authority{}, fmt.Errorf("%s does not answer", m.name)
	}
	if m.named == nil {
		m.named = &a
	}
	return *m.named, nil
}

// transcripts keeps the entries of every ending, as a store of transcripts
// would: by their ids.
type transcripts struct {
	entries map[generationKey]map[string]string
	changed map[generationKey]bool
}

func (p *transcripts) ProjectionName() string { return "transcripts" }

func (p *transcripts) Project(_ context.Context, r Record) error {
	key := generationKey{r.ID, r.Generation}
	p.changed[key] = true
	if p.entries[key] == nil {
		p.entries[key] = map[string]string{}
	}
	for _, e := range r.Entries() {
		p.entries[key][e.ID] = fmt.Sprint(e.Index, e.Type, e.Code, e.StopReason, r.Outcome)
	}
	return nil
}

func (c *cluster) Keep(_ context.Context, l Late) error {
	c.kept = append(c.kept, l)
	return nil
}

func newCluster(t testing.TB, p Policy, nodes int, without guards) *cluster {
	c := &cluster{t: t, policy: p, without: without, root: NewMemoryLedger("one", nil),
		now:   Instant{Mono: time.Minute, Boot: time.Minute, Wall: 1_800_000_000e9},
		mark:  &sharedMark{name: "NATS"},
		shown: &transcripts{entries: map[generationKey]map[string]string{}, changed: map[generationKey]bool{}}}
	for i := range nodes {
		n := &sweeperNode{c: c, name: fmt.Sprint("sweeper-", i), ledger: c.root, crash: settleSteps}
		c.nodes = append(c.nodes, n)
		n.start()
	}
	return c
}

// instant is the present on a node's own clocks.
func (n *sweeperNode) instant() Instant {
	return Instant{Mono: n.c.now.Mono + n.ahead.Mono, Boot: n.c.now.Boot + n.ahead.Boot, Wall: n.c.now.Wall + n.ahead.Wall}
}

// Now makes a node a Clock.
func (n *sweeperNode) Now() Instant { return n.instant() }

// start is a fresh process: it knows nothing.
func (n *sweeperNode) start() {
	c := n.c
	n.up, n.stopped, n.effects, n.queued, n.relinked, n.crash = true, 0, nil, nil, nil, settleSteps
	n.tr = NewTracker(c.policy, n.instant())
	n.tr.without = c.without
	n.tr.SetSweeper(n.name)
	n.tr.Apply(SourceAdded{Source: SourceNATS, At: n.instant().Mono})
	n.tick = n.instant().Mono
	n.ledger = n.ledger.Share(n)
	n.ledger.SetFault(func(call Call, id ID) Fault {
		if n.fault == nil {
			return FaultNone
		}
		return n.fault(call, id)
	})
	n.settler = NewSettler(SettlerConfig{
		Ledger: n.ledger, Markers: []Marker{c.mark}, Projections: []Projection{c.shown}, Quarantine: c,
		Writer: n.name, StillDue: n.tr.StillDue, Clock: n, Policy: c.policy,
		Nonce: func() string { n.nonces++; return fmt.Sprint(n.name, "/", n.nonces) },
		Post:  func(ev Event) { n.tell(ev) },
	})
	n.settler.inline, n.settler.without = true, c.without
	n.settler.step = func(at settleStep) {
		if at == n.crash {
			panic(crashed{})
		}
	}
	n.follow = n.ledger.store.follow(n.instant().Mono)
	n.carefully(func() { _ = n.settler.check(context.Background()) })
}

func (n *sweeperNode) die() {
	if n.up {
		n.up = false
		n.ledger.store.unfollow(n.follow)
	}
}

// carefully does one step of a process, which may die in it.
func (n *sweeperNode) carefully(do func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crashed); !ok {
				panic(r)
			}
			n.die()
		}
	}()
	do()
}

// tell gives a node an event.
func (n *sweeperNode) tell(ev Event) { n.effects = append(n.effects, n.tr.Apply(ev)...) }

func (n *sweeperNode) tellLink(up bool) {
	phase := LinkDown
	if up {
		phase = LinkUp
	}
	switch {
	case !n.up:
	case n.stopped > 0:
		n.relinked = append(n.relinked, phase)
	default:
		n.tell(LinkChanged{Source: SourceNATS, Phase: phase, At: n.instant().Mono})
	}
}

// hear gives a node a beat, on its own clock.
func (n *sweeperNode) hear(b Beat) {
	switch {
	case !n.up:
	case n.stopped > 0 && len(b.BootID) == 0:
		// Who knows a run by its start alone cannot place what waited for him.
	case n.stopped > 0:
		n.queued = append(n.queued, b)
	default:
		b.Received = n.instant().Mono
		n.tr.ApplyBeats([]Beat{b})
	}
}

// advance is one tick of a node; sighted says that the bus answers it.
func (n *sweeperNode) advance(sighted bool) {
	if !n.up || n.stopped > n.c.now.Mono {
		return
	}
	at := n.instant()
	late := time.Duration(0)
	if n.stopped > 0 {
		n.stopped = 0
		for _, phase := range n.relinked {
			n.tell(LinkChanged{Source: SourceNATS, Phase: phase, At: at.Mono})
		}
		n.relinked = nil
		late = at.Mono - n.tick
		for _, b := range n.queued {
			n.hear(b)
		}
		n.queued = nil
	}
	n.tick = at.Mono
	if sighted {
		n.tell(RoundTrip{Source: SourceNATS, Sent: at.Mono, At: at.Mono})
	}
	n.tell(Ticked{Now: at, Late: late})
}

// catchUp tells a node what the ledger told.
func (n *sweeperNode) catchUp() {
	for _, ev := range n.ledger.store.take(n.follow) {
		n.tell(ev)
	}
}

// carryOut does the first effect that waits; it reports whether there was one.
func (n *sweeperNode) carryOut() bool {
	if !n.up || n.stopped > 0 || len(n.effects) == 0 {
		return false
	}
	e := n.effects[0]
	n.effects = n.effects[1:]
	ctx := context.Background()
	n.carefully(func() {
		switch e := e.(type) {
		case Settle:
			n.settler.settleDue(ctx, e)
		case Number:
			n.settler.number(ctx, e.Claim)
		case QuarantineLate:
			n.settler.keep(ctx, e.Late)
		case Sweep:
			n.settler.makePass(ctx)
		}
	})
	return true
}

// run lets time pass quietly: everything is delivered and carried out at once.
func (c *cluster) run(d, step time.Duration, every func()) {
	for end := c.now.Mono + d; c.now.Mono < end; {
		c.pass(step)
		if every != nil {
			every()
		}
		for _, n := range c.nodes {
			n.advance(true)
		}
		c.settleDown()
	}
}

func (c *cluster) pass(d time.Duration) {
	c.now.Mono += d
	c.now.Boot += d
	c.now.Wall += int64(d)
}

// settleDown carries everything out and tells everything.
func (c *cluster) settleDown() {
	for busy := true; busy; {
		busy = false
		for _, n := range c.nodes {
			for n.carryOut() {
				busy = true
			}
			if n.up && n.stopped == 0 {
				n.catchUp()
			}
		}
	}
}

// say delivers a beat to every node.
func (c *cluster) say(b Beat) {
	for _, n := range c.nodes {
		n.hear(b)
	}
}

func (c *cluster) record(id string, g Generation) (Record, bool) {
	r, ok := c.root.store.records[generationKey{ID(id), g}]
	return r, ok
}

func (c *cluster) head(id string) Head {
	if h := c.root.store.heads[ID(id)]; h != nil {
		return h.head
	}
	return Head{}
}

func (n *sweeperNode) detail(id string) Detail {
	w := n.tr.Look(Ask{Focus: ID(id)})
	if w.Focus == nil {
		return Detail{}
	}
	return *w.Focus
}
