package natsbus

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The rhythm of a link.
const (
	pingEvery = 2 * time.Second
	tickEvery = time.Second
	// The wait between two tries doubles from waitMin to waitMax; each is cut
	// at random by up to a half, but not below waitMin, so that a fleet of
	// observers does not come back in step.
	waitMin = 500 * time.Millisecond
	waitMax = 4 * time.Second
	// steadyAfter is how long a link must have been up until the waits start
	// small again: a server that drops us at once is not hammered.
	steadyAfter = 10 * time.Second
)

// tenant uses the connections that a link makes. Its methods are called on the
// link's goroutine, but for answered.
type tenant interface {
	// up has a new connection. What it sends is proved by the round trip that
	// follows.
	up(c *conn) error
	// proved comes after that round trip, and before the link is told to be up.
	proved(c *conn)
	// answered tells a round trip; it is called on two goroutines, one after
	// the other.
	answered(sent, at time.Duration)
	// troubled has an error of the server that left the connection open. Its
	// own error ends the connection.
	troubled(c *conn, err error) error
	// tick comes once a second while the link is up.
	tick(ctx context.Context, c *conn) error
	// retried says that somebody asked to look again now.
	retried(ctx context.Context, c *conn) error
	// down says that the last connection is gone; nothing of it will be used.
	down()
}

// link keeps one connection to one of several servers.
type link struct {
	plan   *plan
	mono   func() time.Duration
	log    *slog.Logger
	tell   func(watchdog.LinkChanged)
	tenant tenant
	about  string // what is told as the detail of a link that is up

	retry   chan struct{}
	latest  atomic.Pointer[watchdog.LinkChanged]
	found   []server // members of the cluster that a server told us of; owned by run, like the rest
	tries   int      // that chose a server
	attempt int      // since the link was last up
	rounds  int      // over all servers since the link was last steady
}

func newLink(p *plan, mono func() time.Duration, log *slog.Logger, t tenant, about string, tell func(watchdog.LinkChanged)) *link {
	l := &link{
		plan: p, mono: mono, log: log, tenant: t, about: about, tell: tell,
		retry: make(chan struct{}, 1),
	}
	first := l.change(watchdog.LinkConnecting, p.seeds[0], "", 0)
	l.latest.Store(&first)
	return l
}

// wake makes the link look again now. It never blocks.
func (l *link) wake() {
	select {
	case l.retry <- struct{}{}:
	default:
	}
}

// run connects and serves until ctx ends.
func (l *link) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, last := l.pick()
		l.attempt++
		c, err := l.plan.connect(ctx, s, l.mono)
		if err == nil {
			began := l.mono()
			err = l.serve(ctx, c)
			if l.mono()-began >= steadyAfter {
				l.rounds = 0
			}
			l.found = discovered(l.plan.seeds, s, c.nc.DiscoveredServers())[len(l.plan.seeds):]
		}
		if ctx.Err() != nil {
			return
		}
		wait := time.Duration(0)
		if last {
			wait = backoff(l.rounds)
			l.rounds++
		}
		l.say(watchdog.LinkDown, s, reason(err), "", l.mono()+wait)
		l.pause(ctx, wait)
	}
}

// pick chooses the server to try now; last says that a round over all of them
// ends with it. Every second try goes to a configured one, for what a cluster
// tells of its members may be addresses that do not lead there from here.
func (l *link) pick() (s server, last bool) {
	n := l.tries
	l.tries++
	seeds := l.plan.seeds
	if len(l.found) == 0 {
		return seeds[n%len(seeds)], (n+1)%len(seeds) == 0
	}
	if n%2 == 1 {
		return l.found[n/2%len(l.found)], (n/2+1)%len(seeds) == 0
	}
	return seeds[n/2%len(seeds)], false
}

// backoff is how long to wait after so many rounds over all servers failed.
func backoff(rounds int) time.Duration {
	d := waitMax
	if rounds < 3 {
		d = waitMin << rounds
	}
	return max(waitMin, d/2+rand.N(d/2))
}

func (l *link) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-l.retry:
	case <-t.C:
	}
}

// serve lives with one connection until it ends, and closes it.
func (l *link) serve(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithCancel(ctx)
	pings := pinger{kick: make(chan struct{}, 1), dead: make(chan error, 1), done: make(chan struct{})}
	defer func() {
		cancel()
		c.close()
		<-pings.done
		l.tenant.down()
	}()
	if err := l.open(ctx, c); err != nil {
		close(pings.done)
		return l.whyOver(ctx, c, err)
	}
	go l.ping(ctx, c, pings)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.closed:
			err = nats.ErrConnectionClosed
		case err = <-pings.dead:
		case problem := <-c.trouble:
			err = l.troubled(c, problem)
		case <-tick.C:
			err = l.tenant.tick(ctx, c)
		case <-l.retry:
			select {
			case pings.kick <- struct{}{}:
			default:
			}
			err = l.tenant.retried(ctx, c)
		}
		if err != nil {
			return l.whyOver(ctx, c, err)
		}
	}
}

// whyOver finds the reason behind an error. A connection that the library has
// closed is felt in several places at once; the server's last words tell most.
func (l *link) whyOver(ctx context.Context, c *conn, err error) error {
	if ctx.Err() != nil || !c.nc.IsClosed() {
		return err
	}
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case <-c.closed: // the library told all that came before
	case <-limit.C:
	}
	for {
		select {
		case err := <-c.trouble:
			_ = l.troubled(c, err)
			continue
		default:
		}
		return c.whyClosed()
	}
}

// open brings a connection into use: what the tenant subscribes stands when the
// first ping is answered.
func (l *link) open(ctx context.Context, c *conn) error {
	if err := l.tenant.up(c); err != nil {
		return err
	}
	sent, at, err := c.roundTrip(ctx, answerWithin)
	if err != nil {
		return err
	}
	l.attempt = 0
	l.tenant.proved(c)
	l.say(watchdog.LinkUp, c.server, l.about, c.warning, 0)
	l.tenant.answered(sent, at)
	return nil
}

// troubled sorts an error that left the connection open.
func (l *link) troubled(c *conn, err error) error {
	if authReason(err) != "" {
		c.lastAuth = err // the server closes the connection now
		return nil
	}
	return l.tenant.troubled(c, err)
}

// pinger is how a connection's pinging goroutine is spoken to.
type pinger struct {
	kick chan struct{} // ping now
	dead chan error    // one ping was not answered
	done chan struct{}
}

// ping asks the server every two seconds whether it is there. There is one
// question at a time, so a server that hangs costs one goroutine.
func (l *link) ping(ctx context.Context, c *conn, p pinger) {
	defer close(p.done)
	t := time.NewTimer(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		case <-t.C:
		}
		sent, at, err := c.roundTrip(ctx, answerWithin)
		if err != nil {
			if !errors.Is(err, nats.ErrConnectionClosed) { // else c.closed tells why
				p.dead <- err
			}
			return
		}
		l.tenant.answered(sent, at)
		t.Reset(max(0, pingEvery-(at-sent)))
	}
}

func (l *link) change(phase watchdog.LinkPhase, s server, detail string, next time.Duration) watchdog.LinkChanged {
	return watchdog.LinkChanged{
		Source: watchdog.SourceNATS, Phase: phase, Address: s.display, Origin: l.plan.Origin,
		Detail: detail, Attempt: l.attempt, NextTry: next, At: l.mono(),
	}
}

// say publishes a change, and logs it if it tells something new.
func (l *link) say(phase watchdog.LinkPhase, s server, detail, warning string, next time.Duration) {
	ev := l.change(phase, s, detail, next)
	ev.Warning = warning
	before := l.latest.Swap(&ev)
	l.tell(ev)
	if before.Phase == phase && before.Detail == detail && before.Address == ev.Address {
		return
	}
	level := slog.LevelInfo
	if phase == watchdog.LinkDown || warning != "" {
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, "nats "+phase.String(), "address", ev.Address, "detail", detail, "warning", warning)
}
