package watchdog

import (
	"fmt"
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

func isSettle(e Effect) bool { _, ok := e.(Settle); return ok }
