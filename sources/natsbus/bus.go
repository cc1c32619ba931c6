package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Sink is told what a Bus sees. The engine is one. Beats copies the structs and
// neither method blocks.
type Sink interface {
	Beats([]watchdog.Beat)
	Post(watchdog.Event)
}

// Witness is what a Sink may be besides: it is shown each message that is no
// beat, before it is forgotten. It must not block, and copies what it keeps.
type Witness interface {
	NoteRefused(source watchdog.Source, id watchdog.ID, raw []byte, size int, why watchdog.Refusal, at time.Duration)
}

// What may wait in the client library for our callback: enough for a pause of
// one to two seconds at the full rate of a server. What exceeds it is counted
// as dropped.
const (
	pendingMessages = 1 << 19
	pendingBytes    = 128 << 20
)

// subscribeAgain is how long a denied subscription rests before it is tried
// again.
const subscribeAgain = 10 * time.Second

// ErrReadOnly is the answer to whoever wants to publish on a bus that is
// read-only.
var ErrReadOnly = errors.New("this bus is read-only: nothing is published; leave --read-only (read_only in the configuration) out to allow it")

// Bus is the consuming side: it subscribes to every beat and tells a Sink.
type Bus struct {
	link   *link
	intake *intake
	sink   Sink
	log    *slog.Logger
	plan   *plan
	mono   func() time.Duration

	subject string
	pending int           // messages that may wait for our callback
	ask     chan struct{} // publish a ping

	life lifetime.Run
	quit chan struct{} // closed by stop
	stop func()

	// Owned by the link's goroutine.
	now        *conn
	sub        *nats.Subscription
	ended      chan struct{} // the callbacks of sub are over
	before     error         // last error of the connection before we subscribed
	denied     string        // why; empty not denied
	deniedAt   time.Duration // when the subscription was last tried
	reportedBy uint64        // dropped messages of this connection that were posted
}

// Open makes a Bus. It reads the files that the options name, and an error says
// which setting is wrong; it does not touch the network, so a server that is
// away is no error. The sink hears of the source at once, and of beats while
// Run runs. A nil log drops what would be logged.
func Open(o Options, sink Sink, clocks watchdog.Clock, log *slog.Logger) (*Bus, error) {
	return open(o, wire.LivenessSubjectAll, sink, clocks, log)
}

func open(o Options, subject string, sink Sink, clocks watchdog.Clock, log *slog.Logger) (*Bus, error) {
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	log = orDiscard(log)
	mono := clock.MonoOf(clocks)
	b := &Bus{
		sink: sink, log: log, plan: p, mono: mono, subject: subject, pending: pendingMessages,
		ask: make(chan struct{}, 1), quit: make(chan struct{}),
		intake: newIntake(mono, sink, log),
	}
	b.stop = sync.OnceFunc(func() { close(b.quit) })
	b.link = newLink(p, mono, log, b, subject, func(ev watchdog.LinkChanged) { sink.Post(ev) })
	sink.Post(watchdog.SourceAdded{Source: watchdog.SourceNATS, At: mono()})
	sink.Post(b.Link())
	return b, nil
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// Run connects, stays connected, and returns nil when ctx ends or Close is
// called. It may be called once.
func (b *Bus) Run(ctx context.Context) error {
	ctx, finish, err := b.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	b.link.run(ctx)
	b.intake.close()
	return nil
}

// Close ends Run and waits for it. The sink hears nothing afterwards. It may be
// called more than once, and without Run.
func (b *Bus) Close() {
	b.stop()
	b.life.End()
	b.intake.close()
}

// Retry connects or asks the server again now. It never blocks.
func (b *Bus) Retry() { b.link.wake() }

// Link is what was last told of the connection.
func (b *Bus) Link() watchdog.LinkChanged { return *b.link.latest.Load() }

// Beats counts the beats that were accepted.
func (b *Bus) Beats() uint64 { return b.intake.accepted() }

// Ping asks every guard and supervisor to beat now. It never blocks; while
// there is no connection the wish is dropped.
func (b *Bus) Ping() error {
	if b.plan.ReadOnly {
		return ErrReadOnly
	}
	if b.Link().Phase != watchdog.LinkUp {
		return nil
	}
	select {
	case b.ask <- struct{}{}:
	default:
	}
	b.link.wake()
	return nil
}

// up subscribes on a new connection.
func (b *Bus) up(c *conn) error {
	b.intake.begin()
	b.now, b.reportedBy = c, 0
	select { // a wish from before this connection is stale
	case <-b.ask:
	default:
	}
	return b.subscribe(c)
}

func (b *Bus) subscribe(c *conn) error {
	b.before = c.nc.LastError()
	sub, err := c.nc.Subscribe(b.subject, b.intake.message)
	if err != nil {
		return fmt.Errorf("cannot subscribe to %s: %w", b.subject, err)
	}
	ended := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(ended) })
	b.sub, b.ended, b.deniedAt = sub, ended, b.mono()
	// It fails only on a connection that is gone, which the link sees itself.
	_ = sub.SetPendingLimits(b.pending, pendingBytes)
	return nil
}

// proved looks whether the server refused the subscription before it answered.
func (b *Bus) proved(c *conn) {
	err := c.nc.LastError()
	if err != b.before && isSubscriptionDenied(err) {
		b.deny(netreason.Short(err.Error()))
		return
	}
	b.deny("")
}

// deny tells that a permission error stands, or with "" that none does.
func (b *Bus) deny(why string) {
	if why == b.denied {
		return
	}
	b.denied = why
	b.sink.Post(watchdog.Denied{Source: watchdog.SourceNATS, Reason: why, At: b.mono()})
	if why != "" {
		b.log.Warn("the server denies the subscription; it is tried again every 10 s", "subject", b.subject, "reason", why)
		return
	}
	b.log.Info("the server grants the subscription again", "subject", b.subject)
}

func (b *Bus) answered(sent, at time.Duration) {
	b.sink.Post(watchdog.RoundTrip{Source: watchdog.SourceNATS, Sent: sent, At: at})
}

func (b *Bus) troubled(c *conn, err error) error {
	switch {
	case isSubscriptionDenied(err):
		// It may be the echo of one that was subscribed again with success.
		if err == c.nc.LastError() && err != b.before {
			b.deny(netreason.Short(err.Error()))
		}
	case errors.Is(err, nats.ErrSlowConsumer):
		b.countDropped(c)
	default:
		b.log.Warn("the NATS server complains", "error", netreason.Short(err.Error()))
	}
	return nil
}

func (b *Bus) tick(ctx context.Context, c *conn) error {
	b.countDropped(c)
	b.intake.report(b.mono())
	if b.denied != "" && b.mono()-b.deniedAt >= subscribeAgain {
		return b.subscribeAnew(ctx, c)
	}
	if !b.sub.IsValid() { // or the connection is gone, which the link finds out
		return fmt.Errorf("the subscription to %s has ended", b.subject)
	}
	return nil
}

// subscribeAnew replaces a subscription that was denied.
func (b *Bus) subscribeAnew(ctx context.Context, c *conn) error {
	_ = b.sub.Unsubscribe() // an invalid one is what we replace
	if err := b.subscribe(c); err != nil {
		return err
	}
	sent, at, err := c.roundTrip(ctx, answerWithin)
	if err != nil {
		return err
	}
	b.answered(sent, at)
	b.proved(c)
	return nil
}

func (b *Bus) retried(ctx context.Context, c *conn) error {
	select {
	case <-b.ask:
		if err := c.nc.Publish(wire.PingSubject, nil); err != nil {
			return err
		}
	default:
	}
	if b.denied != "" {
		return b.subscribeAnew(ctx, c)
	}
	return nil
}

// countDropped posts what the client library dropped because we were too slow.
func (b *Bus) countDropped(c *conn) {
	if n, err := b.sub.Dropped(); err == nil && c == b.now {
		b.postDropped(uint64(n))
	}
}

// postDropped posts what a connection lost in all, without what was posted.
func (b *Bus) postDropped(total uint64) {
	if total <= b.reportedBy {
		return
	}
	n := total - b.reportedBy
	b.reportedBy = total
	b.sink.Post(watchdog.Dropped{Source: watchdog.SourceNATS, Count: n, At: b.mono()})
	b.log.Warn("beats were lost on our side: this machine is too slow for what arrives", "count", n)
}

// down settles the accounts of a connection that is gone: the client library
// drops silently what still waited for our callback.
func (b *Bus) down() {
	c := b.now
	if c == nil {
		return
	}
	b.now = nil
	select {
	case <-b.quit: // nobody asks any more
		return
	default:
	}
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case <-b.ended:
	case <-limit.C:
	}
	if in, handled := c.nc.Stats().InMsgs, b.intake.handledSince(); in > handled {
		b.postDropped(in - handled)
	}
	b.intake.report(b.mono())
}
