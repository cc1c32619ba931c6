package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
)

const (
	batchLimit  = 512 // beats in one batch for a bus
	batchQueue  = 64  // batches that may wait for a bus
	pingSpread  = time.Second
	pingPerStep = 500 // answers to one ping in each step, at most
)

// troupe is the edge: it plays a script on real clients. One goroutine decides
// who speaks; one for each bus publishes, so that neither bus holds up the
// other or the clock.
type troupe struct {
	script *Script
	speed  float64
	ttl    time.Duration
	nats   *nats.Conn
	redis  *redis.Client
	gate   *Gate
	log    *slog.Logger

	overNATS, overRedis mailbox
	byID                map[string]int32
	asides              chan func(at time.Duration) // run between two steps

	parts   []part
	stars   []int32
	rota    *rota
	pinged  atomic.Bool
	calling []int32 // who still has to answer a ping

	toNATS, toRedis chan []message
	batchN, batchR  []message
	lost            atomic.Uint64
}

// part is what the edge remembers of an agent.
type part struct {
	run     int
	seq     int64
	said    saying
	evicted bool
	over    bool          // this execution's end is said
	since   time.Duration // script time of the first beat of run
	cue     *cue          // nil: nothing was done to it

	settled int           // the execution whose end was written without it; 0: none
	expired bool          // by an operator
	late    time.Duration // script time of its first beat after that; 0: none yet
}

// saying is what a star tells at once when it changes: its state as far as it
// has a meaning, its wait, a new execution, and being back on a bus.
type saying struct {
	state, wait string
	run         int
	buses       Bus
}

func (m *Moment) saying() saying {
	s := saying{state: "running", wait: m.Wait, run: m.Run, buses: m.Buses}
	if m.Ended() || m.State == "stalled" {
		s.state = m.State
	}
	return s
}

type message struct {
	agent   int32
	payload []byte // nil: delete the key
}

func newTroupe(d *Demo, log *slog.Logger) *troupe {
	s := d.script
	t := &troupe{script: s, speed: d.speed, ttl: d.redisTTL(), nats: d.nats, redis: d.redis, gate: d.gate, log: log,
		overNATS: d.boxN, overRedis: d.boxR, byID: make(map[string]int32, len(s.agents)), asides: make(chan func(time.Duration)),
		parts: make([]part, len(s.agents)), rota: newRota(s.agents, d.speed),
		toNATS: make(chan []message, batchQueue), toRedis: make(chan []message, batchQueue)}
	for i := range s.agents {
		t.byID[s.agents[i].ID] = int32(i)
		if s.agents[i].Star() {
			t.stars = append(t.stars, int32(i))
		}
	}
	return t
}

// play runs until ctx ends.
func (t *troupe) play(ctx context.Context) error {
	sub, err := t.nats.Subscribe("agent.ping", func(*nats.Msg) { t.pinged.Store(true) })
	if err != nil {
		return fmt.Errorf("cannot subscribe to agent.ping: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ends, err := t.nats.Subscribe("agent.terminal.>", func(msg *nats.Msg) { t.hearEnd(ctx, msg) })
	if err != nil {
		return fmt.Errorf("cannot subscribe to agent.terminal.>: %w", err)
	}
	defer func() { _ = ends.Unsubscribe() }()

	var wg sync.WaitGroup
	wg.Go(func() { t.publishNATS(ctx) })
	wg.Go(func() { t.publishRedis(ctx) })
	t.listen(ctx, &wg)
	defer wg.Wait()

	began := time.Now()
	tick := time.NewTicker(beatStep)
	defer tick.Stop()
	step := -1
	for {
		elapsed := time.Since(began)
		now := int(elapsed / beatStep)
		t.step(step, now, time.Duration(float64(elapsed)*t.speed))
		t.gate.Set(!redisOut(elapsed))
		step = now
		select {
		case <-ctx.Done():
			return nil
		case f := <-t.asides:
			f(t.storyTime(began))
			t.flush()
		case <-tick.C:
		}
	}
}

// storyTime is how much of the story has been played.
func (t *troupe) storyTime(began time.Time) time.Duration {
	return time.Duration(float64(time.Since(began)) * t.speed)
}

// moment is what agent i says at script time at, by the script and by what was done
// to it.
func (t *troupe) moment(i int32, at time.Duration) Moment {
	if c := t.parts[i].cue; c != nil {
		return c.at(t.script, int(i), at)
	}
	return t.script.At(int(i), at)
}

// step lets everybody speak whose turn came, and the stars that changed.
func (t *troupe) step(from, to int, at time.Duration) {
	t.rota.due(from, to, func(i int32) { t.speak(i, at, false) })
	for _, i := range t.stars {
		t.speak(i, at, true)
	}
	t.answer(at)
	t.flush()
}

// answer lets the guarded agents beat after a ping, spread over a second, or
// over as long as a large fleet takes.
func (t *troupe) answer(at time.Duration) {
	if t.pinged.Swap(false) && len(t.calling) == 0 {
		for i := range t.script.agents {
			if t.script.agents[i].Voice == Guarded {
				t.calling = append(t.calling, int32(i))
			}
		}
	}
	share := len(t.script.agents)/int(pingSpread/beatStep) + 1
	n := min(len(t.calling), share, pingPerStep)
	for _, i := range t.calling[:n] {
		t.speak(i, at, false)
	}
	t.calling = t.calling[n:]
}

// speak queues one beat of an agent, if it has anything to say; ifChanged, if
// it has anything new to say.
func (t *troupe) speak(i int32, at time.Duration, ifChanged bool) {
	p := &t.parts[i]
	m := t.moment(i, at)
	if now := m.saying(); now != p.said {
		first := p.said == saying{}
		p.said = now
		if ifChanged && first {
			return // the first beat keeps its place in the round
		}
	} else if ifChanged {
		return
	}
	if m.Evicted && !p.evicted {
		t.batchR = append(t.batchR, message{agent: i})
	}
	p.evicted = m.Evicted
	if m.Buses == 0 || p.over && m.Run == p.run || t.isOver(i, &m, at) {
		return
	}
	t.say(i, &m, at)
}

// say queues one beat.
func (t *troupe) say(i int32, m *Moment, at time.Duration) {
	a, p := &t.script.agents[i], &t.parts[i]
	if m.Run != p.run {
		p.run, p.seq, p.since = m.Run, 0, at
	}
	p.over = m.Ended()
	p.seq++
	payload, err := a.beat(m, p.seq, t.speed)
	if err != nil {
		t.lost.Add(1)
		return
	}
	t.queue(message{agent: i, payload: payload}, m.Buses)
}

func (t *troupe) queue(msg message, buses Bus) {
	if buses&NATS != 0 {
		t.batchN = append(t.batchN, msg)
	}
	if buses&Redis != 0 {
		t.batchR = append(t.batchR, msg)
	}
	if len(t.batchN) >= batchLimit || len(t.batchR) >= batchLimit {
		t.flush()
	}
}

// flush hands the batches to the buses. A bus that is behind loses them, as
// any agent's beats would be lost.
func (t *troupe) flush() {
	t.batchN = t.offer(t.toNATS, t.batchN)
	t.batchR = t.offer(t.toRedis, t.batchR)
}

func (t *troupe) offer(to chan []message, batch []message) []message {
	if len(batch) == 0 {
		return batch
	}
	select {
	case to <- batch:
	default:
		t.lost.Add(uint64(len(batch)))
	}
	return nil
}

func (t *troupe) publishNATS(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case batch := <-t.toNATS:
			for _, m := range batch {
				if err := t.nats.Publish("agent.liveness."+t.script.agents[m.agent].ID, m.payload); err != nil {
					t.lost.Add(1)
				}
			}
		}
	}
}

func (t *troupe) publishRedis(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case batch := <-t.toRedis:
			_, err := t.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, m := range batch {
					key := "agent:liveness:" + t.script.agents[m.agent].ID
					if m.payload == nil {
						p.Del(ctx, key)
						continue
					}
					p.Set(ctx, key, m.payload, t.ttl)
				}
				return nil
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.lost.Add(uint64(len(batch)))
			}
		}
	}
}
