package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Counts is what became of the beats that a Publisher was given.
type Counts struct {
	Sent      uint64 // handed to the connection
	Replaced  uint64 // by a newer one of the same session, before they were sent
	Discarded uint64 // there was no connection, or it broke
	Denied    uint64 // complaints of the server that we may not publish
}

// Publisher sends beats. A bus that is away or hangs never slows, blocks or
// ends the caller: beats are handed over through one slot for each session, the
// newest wins, and none is kept while there is no connection.
type Publisher struct {
	link *link
	box  *mailbox
	log  *slog.Logger

	door *door
	life lifetime.Run

	pings *pings // who hears pings; nil: nobody
}

// OpenPublisher makes a Publisher. Like Open it checks the options and leaves
// the network alone. Options that are read-only are refused. A nil log drops
// what would be logged.
func OpenPublisher(o Options, clocks watchdog.Clock, log *slog.Logger) (*Publisher, error) {
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	log = orDiscard(log)
	pub := &Publisher{box: newMailbox(), log: log, door: newDoor()}
	pub.link = newLink(p, clock.MonoOf(clocks), log, pub, "publishing", func(watchdog.LinkChanged) {})
	return pub, nil
}

// Run connects, sends, and returns nil when ctx ends or Close is called. It may
// be called once.
func (p *Publisher) Run(ctx context.Context) error {
	ctx, finish, err := p.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	var wg sync.WaitGroup
	wg.Go(func() { p.send(ctx) })
	p.link.run(ctx)
	wg.Wait()
	return nil
}

// Close ends Run and waits for it. What was published with PublishNow has left;
// what only stood in a slot may not have.
func (p *Publisher) Close() {
	p.door.lock()
	p.life.End()
}

// PublishBeat puts an encoded beat into the slot of its session and returns at
// once. payload is copied. The only error is an id that no subject can carry.
func (p *Publisher) PublishBeat(id watchdog.ID, payload []byte) error {
	if err := checkID(id); err != nil {
		return err
	}
	p.box.put(id, payload)
	return nil
}

// PublishNow sends one beat and returns when the server has it: it waits for a
// connection and for the server's answer, both until ctx ends. Its error says
// what stood in the way.
func (p *Publisher) PublishNow(ctx context.Context, id watchdog.ID, payload []byte) error {
	if err := checkID(id); err != nil {
		return err
	}
	return p.publishNow(ctx, wire.LivenessSubject(id), payload)
}

// Ping asks every guard and supervisor to beat now. It never blocks; while
// there is no connection the wish is dropped.
func (p *Publisher) Ping() { p.box.putPing() }

// PingNow is Ping that returns when the server has it.
func (p *Publisher) PingNow(ctx context.Context) error {
	return p.publishNow(ctx, wire.PingSubject, nil)
}

// Retry connects again now. It never blocks.
func (p *Publisher) Retry() { p.link.wake() }

// Link is what there is to tell of the connection.
func (p *Publisher) Link() watchdog.LinkChanged { return *p.link.latest.Load() }

// Counts tells what became of the beats so far.
func (p *Publisher) Counts() Counts {
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	return p.box.counts
}

func checkID(id watchdog.ID) error {
	if wire.ValidID(id) {
		return nil
	}
	return fmt.Errorf("%q cannot be a session id: use 1 to 256 bytes without white space, control characters and * > { }, and no empty part between dots",
		termtext.Clean(string(id)))
}

// send is the one goroutine that publishes what stands in the slots.
func (p *Publisher) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.box.bell:
		}
		for ctx.Err() == nil && p.door.now() != nil {
			id, payload, ok := p.box.take()
			if !ok {
				break
			}
			p.sendOne(id, payload)
		}
	}
}

func (p *Publisher) sendOne(id watchdog.ID, payload []byte) {
	subject := wire.PingSubject
	if id != "" {
		subject = wire.LivenessSubject(id)
	}
	err := nats.ErrConnectionClosed
	if c := p.door.now(); c != nil {
		err = c.nc.Publish(subject, payload)
	}
	if id == "" {
		return
	}
	p.box.count(func(n *Counts) {
		if err != nil {
			n.Discarded++
		} else {
			n.Sent++
		}
	})
}

func (p *Publisher) publishNow(ctx context.Context, subject string, payload []byte) error {
	c, err := p.door.await(ctx, p.link)
	if err != nil {
		return fmt.Errorf("%w; nothing was sent", err)
	}
	before := c.nc.LastError()
	if err := c.nc.Publish(subject, payload); err != nil {
		return fmt.Errorf("%s: %s; nothing was sent", c.server.display, reason(err))
	}
	if _, _, err := c.roundTrip(ctx, answerWithin); err != nil {
		return fmt.Errorf("%s: %s; whether it was sent is not known", c.server.display, reason(err))
	}
	if err := c.nc.LastError(); err != before && errors.Is(err, nats.ErrPermissionViolation) && strings.EqualFold(deniedWhat(err), "publish to "+subject) {
		return fmt.Errorf("%s: %s; ask its operator for the permission to publish there", c.server.display, netreason.Short(err.Error()))
	}
	if id := subject != wire.PingSubject; id {
		p.box.count(func(n *Counts) { n.Sent++ })
	}
	return nil
}

func (p *Publisher) up(c *conn) error { return p.pings.subscribe(c) }

func (p *Publisher) proved(c *conn) {
	// Whoever is let through the door may use the box too; what it takes until the
	// door is open has to wait.
	p.box.setOpen(true)
	p.door.open(c)
	p.box.ring()
	p.pings.proved()
}

func (p *Publisher) answered(time.Duration, time.Duration) {}

func (p *Publisher) troubled(_ *conn, err error) error {
	if errors.Is(err, nats.ErrPermissionViolation) {
		first := false
		p.box.count(func(n *Counts) { first = n.Denied == 0; n.Denied++ })
		if !first {
			return nil
		}
	}
	p.log.Warn("the NATS server complains", "error", netreason.Short(err.Error()))
	return nil
}

func (p *Publisher) tick(context.Context, *conn) error    { return nil }
func (p *Publisher) retried(context.Context, *conn) error { return nil }

func (p *Publisher) down() {
	p.box.setOpen(false)
	p.door.shut()
}
