package watchdog

import (
	"fmt"
	"testing"
	"time"
)

// redisKey is one liveness key as a real store keeps it, and how the nodes of a
// cluster poll it: its time to live need not be the one that they expect.
type redisKey struct {
	c       *cluster
	ttl     time.Duration // 0: it never goes
	value   Beat
	written time.Duration // 0: there is none
	seen    map[*sweeperNode]time.Duration
}

func (k *redisKey) set(b Beat) {
	b.Source, k.value, k.written = SourceRedis, b, k.c.now.Mono
}

// poll lets every node look at the key, as redisstore does.
func (k *redisKey) poll() {
	now := k.c.now.Mono
	if k.ttl > 0 && now-k.written >= k.ttl {
		k.written = 0
	}
	for _, n := range k.c.nodes {
		if !n.up {
			delete(k.seen, n)
			continue
		}
		n.tell(RoundTrip{Source: SourceRedis, Sent: n.instant().Mono, At: n.instant().Mono})
		if last, known := k.seen[n]; k.written == 0 || known && last == k.written {
			continue
		} else if b := k.value; known {
			n.hear(b)
		} else {
			left := k.ttl - (now - k.written)
			if b.AgeKind = AgeUnknown; left > 0 && left <= k.c.policy.WithDefaults().RedisTTL {
				b.AgeKind, b.Age = AgeEstimated, k.c.policy.WithDefaults().RedisTTL-left
			}
			n.hear(b)
		}
		k.seen[n] = k.written
	}
}

// keyLifetimes are times to live of producers that do not ask what we expect.
var keyLifetimes = []time.Duration{0, 5 * time.Second, 20 * time.Second, 45 * time.Second, time.Minute, 90 * time.Second, 2 * time.Minute, 5 * time.Minute}

// live lets time pass; a producer that is not silent writes its key.
func (k *redisKey) live(d time.Duration, p *talker) {
	ticks := 0
	k.c.run(d, 500*time.Millisecond, func() {
		if p != nil && !p.silent && k.c.now.Mono-p.last >= p.every {
			p.last = k.c.now.Mono
			p.seq++
			k.set(beat(p.id, int64((k.c.now.Mono-p.started)/time.Second), func(b *Beat) { b.Task = fmt.Appendf(nil, "step %d", p.seq) }))
		}
		if ticks++; ticks%4 == 3 {
			k.poll()
		}
	})
}

// The age of a key at first sight is a guess from its time to live. However wrong
// it is, its execution is one, before and after our own start.
func TestKeyOfAnyLifetimeIsOneExecution(t *testing.T) {
	for _, ttl := range keyLifetimes {
		for _, every := range []time.Duration{4500 * time.Millisecond, 30 * time.Second} {
			for _, age := range []time.Duration{0, 20 * time.Second, 10 * time.Minute} {
				t.Run(fmt.Sprintf("ttl %v every %v age %v", ttl, every, age), func(t *testing.T) {
					c := newCluster(t, Policy{}, 1, 0)
					k := &redisKey{c: c, ttl: ttl, seen: map[*sweeperNode]time.Duration{}}
					p := c.talker("a", every)
					p.started = c.now.Mono - age
					for range 3 {
						k.live(100*time.Second, p)
						c.nodes[0].die()
						k.live(3*time.Second, p)
						c.nodes[0].start()
					}
					k.live(100*time.Second, p)
					c.wantNone("a")
					if h := c.head("a"); h.Generation != 1 || len(h.Executions) != 1 {
						t.Errorf("the head is %+v", h)
					}
					if off := c.head("a").Executions[0].Start.Sub(c.nodes[0].tr.wallAt(p.started)).Abs(); off > startTolerance {
						t.Errorf("its start is told %v off", off)
					}
				})
			}
		}
	}
}

// The key of an execution that is over lives as long as its producer asked for:
// whoever starts meanwhile takes it for no new one, and a real one for new.
func TestKeyOfAnyLifetimeRevivesNobody(t *testing.T) {
	for _, ttl := range keyLifetimes {
		for _, outcome := range []Outcome{OutcomeCompleted, OutcomeLost} {
			for _, lived := range []time.Duration{5 * time.Second, 10 * time.Minute} {
				for _, first := range []string{"the ledger", "the key"} {
					t.Run(fmt.Sprintf("ttl %v %v lived %v, %s tells first", ttl, outcome, lived, first), func(t *testing.T) {
						c := newCluster(t, Policy{}, 1, 0)
						k := &redisKey{c: c, ttl: ttl, seen: map[*sweeperNode]time.Duration{}}
						p := c.talker("a", 10*time.Second)
						p.started -= lived
						by := ByAgent
						say := func(state string) {
							b := beat("a", int64((c.now.Mono-p.started)/time.Second), func(b *Beat) { b.StateText, b.Interval = []byte(state), p.every })
							c.say(b)
							k.set(b)
						}
						k.live(2*time.Second, nil)
						say("running")
						if k.live(10*time.Second, nil); outcome == OutcomeLost {
							by = BySweeper
							k.live(110*time.Second, nil)
						} else {
							say("completed")
							k.live(10*time.Second, nil)
						}
						c.wantRecord("a", 1, outcome, by)
						for range 3 {
							c.nodes[0].die()
							k.live(17*time.Second, nil)
							if c.nodes[0].start(); first == "the key" {
								k.poll()
							}
							k.live(20*time.Second, nil)
							if h := c.head("a"); h.Generation != 1 {
								t.Fatalf("a key of what is over began another one: %+v", h)
							}
							c.want("a", verdictOfOutcome(outcome), 1)
						}
						next := c.talker("a", 10*time.Second)
						k.live(22*time.Second, next)
						c.want("a", Running, 2)
					})
				}
			}
		}
	}
}

// What is measured from a key's guessed age accuses nobody, and is no older than
// what its producer says.
func TestGuessedAgeAccusesNobody(t *testing.T) {
	r := newRig(t, Policy{}, SourceRedis)
	for id, change := range map[string]func(*Beat){
		"works": func(b *Beat) { b.Idle, b.StallTimeout = 500*time.Millisecond, 30*time.Second },
		"waits": func(b *Beat) { b.WaitingFor, b.WaitingMax = WaitHuman, 30*time.Second },
		"five":  func(b *Beat) {},
		"says":  func(b *Beat) { b.StateText = []byte("paused") },
	} {
		b := beat(id, 14, change, func(b *Beat) { b.Source, b.AgeKind, b.Age = SourceRedis, AgeEstimated, 55*time.Second })
		r.send(b)
		want := Running
		if b.WaitingFor != WaitNone {
			want = Waiting
		}
		if d := r.want(id, want); d.WorkAge > time.Second || d.For > time.Second {
			t.Errorf("%s: work %v, since %v: it is up 14 s", id, d.WorkAge, d.For)
		}
	}
}
