package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// publishBatch is how many SETs go into one pipeline.
	publishBatch = 10_000
	// publishGather is how long a beat waits for others to share its pipeline.
	publishGather = 2 * time.Millisecond
	// freshness is how old a beat may be when it is sent. An older one is
	// dropped: it would show a life that may have ended since.
	freshness = 5 * time.Second
)

// ErrReadOnly is the answer to whoever wants to publish on a Redis that is
// read-only.
var ErrReadOnly = errors.New("this Redis is read-only: nothing is published; leave --read-only (read_only in the configuration) out to allow it")

// Counts is what became of the beats that a Publisher was given.
type Counts struct {
	Sent      uint64 // acknowledged by the server
	Replaced  uint64 // by a newer one of the same session, before they were sent
	Discarded uint64 // the server was away, or its answer did not come
	Refused   uint64 // the server answered with an error
}

// Publisher writes liveness keys. A Redis that is away or hangs never slows,
// blocks or ends the caller: beats are handed over through one slot for each
// session, the newest wins, and one whose sending failed is never sent again.
// It is safe for concurrent use.
type Publisher struct {
	target *target
	ttl    time.Duration
	clock  watchdog.Clock
	logger *slog.Logger
	latest atomic.Pointer[watchdog.LinkChanged]
	life   lifetime.Run

	cancel context.CancelFunc // ends the clients
	wake   chan struct{}      // there is something to send
	retry  chan struct{}
	client atomic.Pointer[client]
	renew  func() *client

	mu     sync.Mutex
	box    map[watchdog.ID]letter
	spare  map[watchdog.ID]letter
	counts Counts
}

// letter is one unsent beat. Key and payload are boxed for the client library
// when the beat is handed over, so that a flush of many has less to do while the
// server waits for it.
type letter struct {
	key     any // string
	payload any // []byte
	at      time.Time
}

// OpenPublisher makes a Publisher whose keys live for ttl unless refreshed; zero
// means o.RedisTTL. Like Open it checks the options and leaves the network
// alone. Options that are read-only are refused.
func OpenPublisher(o Options, ttl time.Duration, clock watchdog.Clock, logger *slog.Logger) (*Publisher, error) {
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	t, err := o.resolve()
	if err != nil {
		return nil, err
	}
	if ttl == 0 {
		ttl = t.RedisTTL
	}
	if ttl < time.Second {
		return nil, fmt.Errorf("publish.redis_ttl: %v is under 1s, the shortest that a liveness key may live", ttl)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		target: t, ttl: ttl, clock: clock, logger: logger, cancel: cancel,
		wake: make(chan struct{}, 1), retry: make(chan struct{}, 1),
		box: make(map[watchdog.ID]letter), spare: make(map[watchdog.ID]letter),
	}
	p.renew = func() *client { return newClient(ctx, t, logger) }
	p.client.Store(p.renew())
	p.setLink(watchdog.LinkChanged{Phase: watchdog.LinkConnecting})
	return p, nil
}

// PublishBeat puts an encoded beat into the slot of its session and returns at
// once. payload is copied. The only error is an id that no key can carry.
func (p *Publisher) PublishBeat(id watchdog.ID, payload []byte) error {
	if err := checkID(id); err != nil {
		return err
	}
	l := letter{key: wire.LivenessKey(id), payload: append([]byte(nil), payload...), at: time.Now()}
	p.mu.Lock()
	if _, waits := p.box[id]; waits {
		p.counts.Replaced++
	}
	p.box[id] = l
	p.mu.Unlock()
	ring(p.wake)
	return nil
}

// PublishNow writes one beat and waits for the server's answer or the end of
// ctx, for commands that run once; Run is not needed. What waits in the
// session's slot is dropped, because it is older.
func (p *Publisher) PublishNow(ctx context.Context, id watchdog.ID, payload []byte) error {
	if err := checkID(id); err != nil {
		return err
	}
	p.mu.Lock()
	delete(p.box, id)
	p.mu.Unlock()
	if err := p.client.Load().Set(ctx, wire.LivenessKey(id), payload, p.ttl).Err(); err != nil {
		return fmt.Errorf("%s: %s; the beat of %s was not written", p.target.display, explain(err, "SET").words, id)
	}
	return nil
}

// Retry tries again now. It never blocks.
func (p *Publisher) Retry() { ring(p.retry) }

// Link is what there is to tell of the connection.
func (p *Publisher) Link() watchdog.LinkChanged { return *p.latest.Load() }

// Counts tells what became of the beats so far.
func (p *Publisher) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Close ends Run and waits for it. What only stands in a slot is not sent: use
// PublishNow for a last word.
func (p *Publisher) Close() {
	p.cancel()
	p.life.End()
	p.client.Load().Close()
}

// Run sends what is published, and returns nil when ctx ends or Close is
// called. It may be called once.
func (p *Publisher) Run(ctx context.Context) error {
	ctx, finish, err := p.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	defer context.AfterFunc(ctx, p.cancel)()
	// A first ping shows at once whether there is a server.
	p.tell(p.client.Load().Ping(ctx).Err(), 0)
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-p.retry:
		case <-p.wake:
		}
		p.pause(ctx, publishGather)
		err := p.flush(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			failures = 0
			p.tell(nil, 0)
			continue
		}
		failures++
		// A beat that waits this long is still fresh when its turn comes.
		wait := min(backoff(failures), freshness/2)
		p.tell(err, failures)
		p.replace(err, failures)
		p.pause(ctx, wait)
	}
}

// pause waits, but not beyond the end or a Retry.
func (p *Publisher) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-p.retry:
	}
}

// replace drops the connection to a server that has become a replica, so that
// the next one is made to whoever is the master now.
func (p *Publisher) replace(err error, failures int) {
	if redis.HasErrorPrefix(err, "READONLY") || failures%replaceAt == 0 {
		p.client.Swap(p.renew()).Close()
	}
}

// tell keeps what became of the connection; nil is a success.
func (p *Publisher) tell(err error, failures int) {
	ev := watchdog.LinkChanged{Phase: watchdog.LinkUp}
	if err != nil {
		f := explain(err, "SET")
		ev.Detail, ev.Attempt = f.words, failures
		if f.kind != failedDenied {
			ev.Phase = watchdog.LinkDown
		}
	}
	if before := p.Link(); before.Phase == ev.Phase && before.Detail == ev.Detail {
		return
	}
	if err != nil {
		p.logger.Warn("beats are not published to Redis", "address", p.target.display, "reason", ev.Detail)
	}
	p.setLink(ev)
}

func (p *Publisher) setLink(ev watchdog.LinkChanged) {
	ev.Source, ev.Address, ev.Origin, ev.At = watchdog.SourceRedis, p.target.display, p.target.Origin, p.clock.Now().Mono
	p.latest.Store(&ev)
}

// flush sends what is in the slots, and returns the first failure. After a
// failure nothing more is tried: the rest would wait for the same time-out.
func (p *Publisher) flush(ctx context.Context) error {
	p.mu.Lock()
	box := p.box
	p.box, p.spare = p.spare, nil
	p.mu.Unlock()

	var counts Counts
	var first error
	pipe := p.client.Load().Pipeline()
	var set, ex, seconds any = "set", "ex", int64((p.ttl + time.Second - 1) / time.Second)
	arguments := make([]any, 0, 5*len(box))
	now := time.Now()
	for _, l := range box {
		if first != nil || now.Sub(l.at) > freshness {
			counts.Discarded++
			continue
		}
		n := len(arguments)
		arguments = append(arguments, set, l.key, l.payload, ex, seconds)
		_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, arguments[n:n+5:n+5]...))
		if pipe.Len() == publishBatch {
			first = counts.send(ctx, pipe)
		}
	}
	if pipe.Len() > 0 {
		first = counts.send(ctx, pipe)
	}
	clear(box)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare = box
	p.counts.Sent += counts.Sent
	p.counts.Refused += counts.Refused
	p.counts.Discarded += counts.Discarded
	return first
}

// send ends a pipeline and counts its answers. It returns the first failure.
func (c *Counts) send(ctx context.Context, pipe redis.Pipeliner) (first error) {
	cmds, _ := pipe.Exec(ctx) // each command has its own error
	for _, cmd := range cmds {
		err := cmd.Err()
		switch {
		case err == nil:
			c.Sent++
		case isServerError(err):
			c.Refused++
		default:
			c.Discarded++
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

func checkID(id watchdog.ID) error {
	if wire.ValidID(id) {
		return nil
	}
	return fmt.Errorf("%q cannot be a session id: use 1 to 256 bytes without white space, control characters and * > { }, and no empty part between dots",
		netreason.Short(string(id)))
}
