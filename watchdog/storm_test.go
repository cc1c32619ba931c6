package watchdog

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// proc is one execution of an agent: a process.
type proc struct {
	agent    *fleetAgent
	number   int // 1, 2, ... of the agent
	boot     string
	started  time.Duration
	seq      int64
	next     time.Duration
	died     time.Duration // never: it lives
	said     State         // its own end; StateRunning none
	heard    map[string]time.Duration
	missed   map[string]int
	overtook bool          // a newer one was started
	paused   time.Duration // it is stopped until then
	ghosts   int           // beats that it still sends after its death: they were delayed
}

// fleetAgent is a session's agent, whoever runs it.
type fleetAgent struct {
	id       string
	kind     int // 0 boot id, 1 five fields, 2 names its generation
	interval time.Duration
	procs    []*proc
	again    time.Duration // Mono of its next start
}

func (a *fleetAgent) last() *proc { return a.procs[len(a.procs)-1] }

// storm is the cluster under a seed.
type storm struct {
	*cluster
	rng     *rand.Rand
	agents  []*fleetAgent
	linked  bool
	calm    bool
	records map[generationKey]Record // as first seen
	depth   int
	fell    []*proc // by the last host that went, if all were well
	fellAt  time.Duration
	checked uint64 // sequence of the store up to which records were held against the truth
}

// stormPolicy is quick, so that a seed takes little time.
func stormPolicy() Policy {
	return Policy{HeartbeatInterval: time.Second, RedisTTL: 2 * time.Second, LostAfter: 4 * time.Second, LostAfterMissed: 3,
		SweepInterval: 5 * time.Second, BrakeHold: 6 * time.Second, StallTimeout: time.Hour, SweepBatch: 10}
}

const stormStep = 250 * time.Millisecond

func newStorm(t testing.TB, seed uint64, without guards) *storm {
	s := &storm{cluster: newCluster(t, stormPolicy(), 2, without), rng: rand.New(rand.NewPCG(seed, 11)), linked: true,
		records: map[generationKey]Record{}}
	s.nodes[1].ahead = Instant{Mono: time.Hour, Boot: time.Hour, Wall: int64(700 * time.Millisecond)}
	if seed%4 == 3 {
		// The second has its own store: it must not use it.
		s.nodes[1].ledger = NewMemoryLedger("two", nil)
	}
	for _, n := range s.nodes {
		n.fault = func(call Call, id ID) Fault { return s.fault(n, call) }
		n.die()
		n.start()
	}
	for i := range 8 {
		a := &fleetAgent{id: fmt.Sprintf("agent-%d", i), kind: i % 3, interval: time.Duration(500+500*s.rng.IntN(2)) * time.Millisecond}
		s.agents = append(s.agents, a)
		s.spawn(a)
	}
	return s
}

func (s *storm) spawn(a *fleetAgent) {
	if len(a.procs) > 0 {
		a.last().overtook = true
	}
	n := len(a.procs) + 1
	a.procs = append(a.procs, &proc{agent: a, number: n, boot: fmt.Sprintf("%s-%d", a.id, n), started: s.now.Mono,
		next: s.now.Mono + time.Duration(s.rng.Int64N(int64(a.interval))), died: never,
		heard: map[string]time.Duration{}, missed: map[string]int{}})
	a.again = 0
}

// fault is what goes wrong with a call, and who comes between it and the next.
func (s *storm) fault(n *sweeperNode, call Call) Fault {
	if s.calm || s.depth > 0 {
		return FaultNone
	}
	if s.rng.IntN(8) == 0 { // another sweeper acts right now
		s.depth++
		for _, other := range s.nodes {
			if other != n {
				other.carryOut()
			}
		}
		s.depth--
	}
	switch r := s.rng.IntN(60); {
	case r < 3:
		return []Fault{FaultAway, FaultLost, FaultApplied}[r]
	case r < 5 && (call == CallHead || call == CallRecord):
		return FaultStale
	case r < 7 && call == CallSwapHead:
		return FaultConflict
	}
	return FaultNone
}

// beat is what a process says now.
func (s *storm) beat(p *proc, state string) Beat {
	p.seq++
	return beat(p.agent.id, int64((s.now.Mono-p.started)/time.Second), func(b *Beat) {
		b.StateText, b.Task = []byte(state), nil
		b.Interval = p.agent.interval
		switch p.agent.kind {
		case 0:
			b.BootID, b.Seq = []byte(p.boot), p.seq
		case 2:
			b.Generation, b.BootID, b.Seq = Generation(p.number), []byte(p.boot), p.seq
		}
	})
}

// deliver brings a beat to the nodes, not always to all.
func (s *storm) deliver(p *proc, b Beat) {
	for _, n := range s.nodes {
		if !s.linked {
			continue
		}
		// Two in a row at most: who hears nothing for longer is right to settle.
		if !s.calm && p.missed[n.name] < 2 && s.rng.IntN(12) == 0 {
			p.missed[n.name]++
			continue
		}
		p.missed[n.name] = 0
		n.hear(b)
		if n.up && n.stopped == 0 && b.State == StateRunning {
			p.heard[n.name] = s.now.Mono
		}
	}
}

func (s *storm) live(a *fleetAgent) {
	p := a.last()
	if p.died != never {
		if p.ghosts > 0 && s.linked && s.rng.IntN(20) == 0 {
			p.ghosts--
			b := s.beat(p, "running")
			if a.kind != 1 { // five fields cannot tell it from a new run, wherever it was held up
				b.Uptime = int64((p.died - p.started) / time.Second)
			}
			for _, n := range s.nodes {
				n.hear(b)
			}
		}
		if !s.calm && a.again == 0 && s.rng.IntN(150) == 0 || a.again != 0 && s.now.Mono >= a.again && !s.calm {
			s.spawn(a)
		}
		return
	}
	if !s.calm && s.rng.IntN(250) == 0 {
		p.died, p.ghosts = s.now.Mono, s.rng.IntN(3)
		if a.kind != 1 && s.rng.IntN(2) == 0 {
			a.again = s.now.Mono + time.Second
		} else {
			a.again = s.now.Mono + 8*time.Second + time.Duration(s.rng.IntN(30))*time.Second
		}
		return
	}
	if !s.calm && s.rng.IntN(200) == 0 { // it is stopped, for about as long as it takes to be lost
		p.paused = s.now.Mono + s.policy.LostAfter + time.Duration(s.rng.IntN(8)-2)*stormStep
	}
	if s.now.Mono < max(p.next, p.paused) {
		return
	}
	if s.settledWhilePaused(p) { // whoever is settled is told so, late
		p.died, p.ghosts = s.now.Mono, 2
		a.again = s.now.Mono + 9*time.Second
		return
	}
	p.next = s.now.Mono + a.interval
	state := "running"
	if !s.calm && s.rng.IntN(120) == 0 {
		state = []string{"completed", "error"}[s.rng.IntN(2)]
		p.said, p.died = StateOf([]byte(state)), s.now.Mono
		a.again = s.now.Mono + 8*time.Second
	}
	b := s.beat(p, state)
	s.deliver(p, b)
	if !s.calm && s.rng.IntN(40) == 0 {
		s.deliver(p, b) // twice
	}
}

// settledWhilePaused reports whether the ledger has the end of a process that
// was stopped.
func (s *storm) settledWhilePaused(p *proc) bool {
	if p.paused == 0 {
		return false
	}
	for key := range s.root.store.records {
		if key.id == ID(p.agent.id) && s.procOf(key.id, key.g) == p {
			return true
		}
	}
	return false
}

// step lets a moment pass with whatever the seed brings.
func (s *storm) step() error {
	s.pass(stormStep)
	if !s.calm {
		s.trouble()
	}
	for _, a := range s.agents {
		s.live(a)
	}
	for _, n := range s.nodes {
		n.advance(s.linked)
		if !n.up || n.stopped > 0 {
			continue
		}
		for range len(n.effects) {
			if s.calm || s.rng.IntN(3) > 0 {
				if !s.calm && s.rng.IntN(12) == 0 {
					n.crash = settleStep(s.rng.IntN(int(settleSteps)))
				}
				n.carryOut()
				n.crash = settleSteps
				if !n.up {
					break
				}
				if err := s.checkRecords(); err != nil {
					return err
				}
			}
		}
		if n.up && (s.calm || s.rng.IntN(2) == 0) {
			n.catchUp()
		}
	}
	return s.check()
}

func (s *storm) trouble() {
	for _, n := range s.nodes {
		switch r := s.rng.IntN(400); {
		case !n.up && r < 40:
			n.start()
		case n.up && r == 0:
			n.die()
		case n.up && r == 1 && n.stopped == 0:
			n.stopped = s.now.Mono + time.Duration(s.rng.IntN(20))*time.Second
		case n.up && r == 2:
			n.tell(BrakeReleased{By: "ops", Reason: "drill", At: n.instant().Mono})
			s.fell = nil
		}
	}
	if s.rng.IntN(300) == 0 || !s.linked && s.rng.IntN(40) == 0 {
		s.link(!s.linked)
	}
	if s.rng.IntN(500) == 0 {
		s.hostGoes()
	}
	if s.rng.IntN(200) == 0 {
		s.mark.away = !s.mark.away
	}
	if s.rng.IntN(150) == 0 { // an operator
		s.expire(s.agents[s.rng.IntN(len(s.agents))])
	}
}

// link breaks or mends the bus; whose client notices at once.
func (s *storm) link(up bool) {
	if s.linked == up {
		return
	}
	s.linked = up
	for _, n := range s.nodes {
		n.tellLink(up)
	}
}

// hostGoes kills five at once. If all of them were well until then, that is a
// correlated silence for every sweeper that heard them.
func (s *storm) hostGoes() {
	s.fell, s.fellAt = nil, s.now.Mono
	all := true
	for _, a := range s.agents[:5] {
		p := a.last()
		all = all && p.died == never && p.paused < s.now.Mono && !s.settledWhilePaused(p)
		s.fell = append(s.fell, p)
		if p.died == never {
			p.died, a.again = s.now.Mono, s.now.Mono+10*time.Second
		}
	}
	if !all {
		s.fell = nil
	}
}

// checkHeld: who fell with others is not settled before the hold is over.
func (s *storm) checkHeld(key generationKey, r *Record, p *proc) error {
	if r.Reason == reasonSuperseded || r.Outcome != OutcomeLost || !slices.Contains(s.fell, p) || s.now.Mono >= s.fellAt+s.policy.BrakeHold {
		return nil
	}
	i := slices.IndexFunc(s.nodes, func(n *sweeperNode) bool { return n.name == r.Writer })
	for _, other := range s.fell {
		if v := s.nodes[i].detail(other.agent.id).Verdict; other != p && v != Silent {
			return nil // it shows another of them otherwise, rightly or not
		}
		if s.fellAt-other.heard[r.Writer] > 1100*time.Millisecond {
			return nil // it had not heard of all of them
		}
	}
	return fmt.Errorf("%v settled by %s %v after five fell at once", key, r.Writer, s.now.Mono-s.fellAt)
}

// expire is an operator's order, by whichever node he looks at.
func (s *storm) expire(a *fleetAgent) {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	h := s.cluster.head(a.id)
	if !n.up || n.stopped > 0 || !h.open() {
		return
	}
	n.carefully(func() {
		_, _ = n.settler.Settle(context.Background(), Record{ID: ID(a.id), Generation: h.Generation, Outcome: OutcomeExpired,
			SettledBy: ByOperator, Reason: "drill"})
	})
	p := a.last() // whoever is expired is told so, and ends
	p.died, a.again = min(cmpOr(p.died, s.now.Mono), s.now.Mono), s.now.Mono+9*time.Second
}

func cmpOr(d, or time.Duration) time.Duration {
	if d == never {
		return or
	}
	return d
}

// procOf finds the process that has a number, by the truth.
func (s *storm) procOf(id ID, g Generation) *proc {
	i := slices.IndexFunc(s.agents, func(a *fleetAgent) bool { return ID(a.id) == id })
	a := s.agents[i]
	if a.kind == 2 && int(g) <= len(a.procs) {
		return a.procs[g-1] // it says so itself
	}
	h := s.cluster.head(a.id)
	for _, e := range h.Executions {
		if e.Generation != g {
			continue
		}
		for _, p := range a.procs {
			if e.BootID == p.boot {
				return p
			}
			off := e.Start.Sub(time.Unix(0, s.now.Wall-int64(s.now.Mono-p.started))).Abs()
			if e.BootID == "" && a.kind == 1 && off < 7*time.Second {
				return p
			}
		}
	}
	return nil
}

// checkRecords holds every new record against the truth.
func (s *storm) checkRecords() error {
	if len(s.root.store.records) == len(s.records) && s.root.store.sequence == s.checked {
		return s.checkAuthority()
	}
	s.checked = s.root.store.sequence
	for key, r := range s.root.store.records {
		have, seen := s.records[key]
		if seen {
			if have.Nonce != r.Nonce {
				return fmt.Errorf("one record: %v had %s and now %s", key, have.Nonce, r.Nonce)
			}
			continue
		}
		s.records[key] = r
		if err := s.checkRecord(key, &r); err != nil {
			return err
		}
	}
	return s.checkAuthority()
}

func (s *storm) checkAuthority() error {
	if other := s.nodes[1].ledger.store; other != s.root.store && len(other.records) > 0 {
		return fmt.Errorf("authority: %d records stand in a store that the cluster did not name", len(other.records))
	}
	return nil
}

func (s *storm) checkRecord(key generationKey, r *Record) error {
	p := s.procOf(key.id, key.g)
	if p == nil || r.SettledBy == ByOperator {
		return nil
	}
	switch {
	case r.Outcome == OutcomeCompleted || r.Outcome == OutcomeError:
		if p.said == StateRunning {
			return fmt.Errorf("settled %v by %s, but %s never said so", r.Outcome, r.Writer, p.boot)
		}
	case p.overtook || p.died != never:
		return s.checkHeld(key, r, p)
	case r.Reason == reasonSuperseded:
		return fmt.Errorf("%v settled as superseded by %s, but %s lives and is the newest", key, r.Writer, p.boot)
	case p.paused > p.heard[r.Writer] && s.now.Mono-p.heard[r.Writer] >= s.policy.LostAfter:
		// Nobody can tell a process that is stopped from one that is gone.
	default:
		return fmt.Errorf("%v settled lost by %s, but %s lives, and was heard %v (now %v): %s", key, r.Writer, p.boot, p.heard, s.now.Mono, r.Reason)
	}
	return nil
}

// check holds what the nodes show against the ledger.
func (s *storm) check() error {
	if err := s.checkRecords(); err != nil {
		return err
	}
	for key := range s.shown.changed {
		delete(s.shown.changed, key)
		entries := s.shown.entries[key]
		r, ok := s.root.store.records[key]
		want := r.Entries()
		if !ok || len(entries) != len(want) {
			return fmt.Errorf("transcript of %v has %v, the record is %v", key, entries, r)
		}
		for _, e := range want {
			if entries[e.ID] != fmt.Sprint(e.Index, e.Type, e.Code, e.StopReason, r.Outcome) {
				return fmt.Errorf("transcript of %v has %v, the record is %v", key, entries, r)
			}
		}
	}
	for _, n := range s.nodes {
		if n.up && n.stopped == 0 {
			if err := s.checkShown(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkShown: an end that a node shows stands in the ledger, and an end that it
// was told of is not taken back.
func (s *storm) checkShown(n *sweeperNode) error {
	for _, a := range s.agents {
		i, ok := n.tr.store.find([]byte(a.id))
		if !ok {
			continue
		}
		r := n.tr.store.at(i)
		sd := n.tr.store.sideOf(r)
		told := n.tr.books.of([]byte(a.id)).end(r.generation)
		if told != nil && told.ends() && !r.verdict.Ended() {
			return fmt.Errorf("revived: %s shows generation %d of %s as %v, its end was told", n.name, r.generation, a.id, r.verdict)
		}
		if sd != nil && sd.terminal.ends() {
			if rec, stands := s.root.store.records[generationKey{ID(a.id), r.generation}]; !stands || rec.Outcome != sd.terminal.Outcome {
				return fmt.Errorf("%s shows generation %d of %s as %v, the ledger has %v", n.name, r.generation, a.id, sd.terminal.Outcome, rec)
			}
		}
	}
	return nil
}

// finish lets everything come to rest: every generation that is over has its
// end, and none that goes on.
func (s *storm) finish() error {
	s.calm, s.mark.away = true, false
	s.link(true)
	for _, n := range s.nodes {
		if !n.up {
			n.start()
		}
		n.stopped = min(n.stopped, s.now.Mono)
	}
	for i := range 240 {
		if err := s.step(); err != nil {
			return err
		}
		if i%40 == 20 {
			s.fell = nil
			for _, n := range s.nodes {
				n.tell(BrakeReleased{By: "ops", At: n.instant().Mono})
			}
		}
	}
	for _, a := range s.agents {
		h := s.cluster.head(a.id)
		for _, e := range h.Executions {
			p := s.procOf(h.ID, e.Generation)
			_, ended := s.cluster.record(a.id, e.Generation)
			over := p == nil || p.died != never || p.overtook
			if over && !ended {
				return fmt.Errorf("never settled: generation %d of %s is over and has no record", e.Generation, a.id)
			}
			if e.Generation == h.Generation && ended != h.Ended {
				return fmt.Errorf("head of %s: ended %v, record %v", a.id, h.Ended, ended)
			}
		}
		if p := a.last(); p.died == never && !s.settledWhilePaused(p) {
			if g := s.nodes[0].detail(a.id); g.Verdict != Running && g.Verdict != Quiet || g.Generation == 0 {
				return fmt.Errorf("%s lives and is shown as %v, number %d: %s", a.id, g.Verdict, g.Generation, g.Why)
			}
		}
	}
	if left := len(s.root.store.outbox); left > 0 {
		return fmt.Errorf("%d ends were never told", left)
	}
	return nil
}

func weather(t testing.TB, seed uint64, without guards) error {
	s := newStorm(t, seed, without)
	for i := range 480 {
		if err := s.step(); err != nil {
			return fmt.Errorf("seed %d, step %d, +%v: %w", seed, i, s.now.Mono, err)
		}
	}
	if err := s.finish(); err != nil {
		return fmt.Errorf("seed %d, at rest: %w", seed, err)
	}
	return nil
}

// fault 8, 9, 10, 17, 29, 48
func TestEveryGenerationEndsExactlyOnce(t *testing.T) {
	sequential(t)
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if err := weather(t, seed, 0); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStormMissesEachGuard takes the guards of settling out one by one.
func TestStormMissesEachGuard(t *testing.T) {
	sequential(t)
	all := map[string]guards{"tombstone": guardTombstone, "still due": guardStillDue, "nonce": guardNonce,
		"generation": guardGeneration, "authority": guardAuthority, "sight": guardSight, "brake": guardBrake}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(*seeds) {
				if err := weather(t, seed, all[name]); err != nil {
					t.Log("noticed: ", err)
					return
				}
			}
			t.Errorf("no seed notices that the guard %q is missing", name)
		})
	}
}
