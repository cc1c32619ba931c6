package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How long Redis keeps commands, their results and the words on the way to them:
// a command expires within minutes, and whoever asks for its result asks within
// days.
const (
	keepCommands = 24 * time.Hour
	keepResults  = 30 * 24 * time.Hour
	keepWords    = watchdog.CommandTTL + 5*time.Minute

	maxCommands = 1000 // of one session, about
	maxWords    = 64   // of one command, about
)

const (
	// blockFor is how long one read waits at the server: whoever is told to end
	// waits as long, for what is answered to nobody is lost for a lease.
	blockFor = time.Second / 2
	// blockedReads is how many reads may wait at a server at once; more wait for
	// their turn.
	blockedReads = 64
)

// CommandOptions say how commands are sent and taken over Redis.
type CommandOptions struct{ orders.Rules }

// Commands carries the commands of operators to whoever supervises a session,
// and what becomes of them back, where there is no NATS. A command stands in the
// session's stream and is delivered again, with the same id, until it is finished
// or the stream forgets it after a day; its one result is written once. Reads
// that wait have connections of their own.
//
// What a Redis loses by a kill or a failover is sent again by who still waits for
// it, and a receiver that has finished a command says so again.
type Commands struct {
	rules  orders.Rules
	calls  *Conn
	reads  *Conn
	desk   *orders.Desk
	clock  watchdog.Clock
	logger *slog.Logger
	life   lifetime.Run
	quit   chan struct{}
	close  func()
	tells  chan telling

	ignoredDumps atomic.Uint64

	reading  readers
	proof    sync.Mutex
	proved   bool      // strangers are kept out
	provedT  time.Time // when that was found out
	unproved int       // tries in a row that left it open
}

var (
	_ watchdog.CommandWay   = (*Commands)(nil)
	_ watchdog.CommandInbox = (*Commands)(nil)
)

// OpenCommands makes a Commands. Like Open it checks the options and leaves the
// network alone. A nil logger drops what would be logged.
func OpenCommands(o Options, co CommandOptions, clock watchdog.Clock, logger *slog.Logger) (*Commands, error) {
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	calls, err := OpenConn(o, clock, logger)
	if err != nil {
		return nil, err
	}
	t := *calls.target
	t.sockets = blockedReads
	c := &Commands{
		rules: co.Rules.WithDefaults(), calls: calls, reads: newConn(&t, blockedReads, clock, calls.logger), clock: clock, logger: calls.logger,
		quit: make(chan struct{}), tells: make(chan telling, 1024),
	}
	c.close = sync.OnceFunc(func() { c.reading.close(c.quit) })
	c.desk = orders.NewDesk(c.WayName(), co.Rules, c, c.wall, c.logger)
	return c, nil
}

// Run tells senders what becomes of their commands, and returns nil when ctx ends
// or Close is called. It may be called once.
func (c *Commands) Run(ctx context.Context) error {
	ctx, finish, err := c.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	for {
		select {
		case t := <-c.tells:
			c.tell(ctx, t)
		case <-ctx.Done():
			return nil
		}
	}
}

// Close ends Run and every call, and waits for Run.
func (c *Commands) Close() {
	c.close()
	c.life.End()
	over, limit := make(chan struct{}), time.NewTimer(2*blockFor)
	defer limit.Stop()
	go func() { c.reading.Wait(); close(over) }()
	select {
	case <-over:
	case <-limit.C: // the server hangs
	}
	c.reads.Close()
	c.calls.Close()
}

// Address is the redacted address for people.
func (c *Commands) Address() string { return c.calls.Address() }

// WayName is the word for people.
func (c *Commands) WayName() string { return "redis" }

// Carries reports whether commands can go this way: to a session of any name, and
// while the server is away they wait for its return.
func (c *Commands) Carries(watchdog.ID) bool { return true }

// Refused counts the commands that were not obeyed, by their fault.
func (c *Commands) Refused() watchdog.RefusedCommands { return c.desk.Refused() }

func (c *Commands) wall() time.Time { return time.Unix(0, c.clock.Now().Wall).UTC() }

// Result reads the one result of a command; found is false if there is none yet.
func (c *Commands) Result(ctx context.Context, id watchdog.ID, command string) (a watchdog.Answer, found bool, err error) {
	type holding struct {
		text []byte
		err  error
	}
	held := make(chan holding, 1)
	err = c.calls.do(ctx, func(ctx context.Context, cl *client) error {
		text, err := cl.Get(ctx, wire.ResultKey(id, command)).Bytes()
		held <- holding{text, err}
		return err
	})
	switch {
	case errors.Is(err, redis.Nil):
		return watchdog.Answer{}, false, nil
	case isWrongType(err):
		return watchdog.Answer{}, false, fmt.Errorf("%w: it is no string", orders.ErrForeign)
	case err != nil:
		return watchdog.Answer{}, false, c.failed(err)
	}
	a, err = wire.DecodeFinal(id, command, (<-held).text)
	if err != nil {
		return watchdog.Answer{}, false, fmt.Errorf("%w: %w", orders.ErrForeign, err)
	}
	return a, true, nil
}

// Conclude writes the one result of a command unless there is one, and gives the
// one that stands. Asked again with the same answer it finds its own.
func (c *Commands) Conclude(ctx context.Context, a watchdog.Answer) (watchdog.Answer, error) {
	payload, err := wire.EncodeResult(a)
	if err != nil {
		return watchdog.Answer{}, err
	}
	err = c.insist(ctx, func(ctx context.Context, cl *client) error {
		return cl.SetNX(ctx, wire.ResultKey(a.Session, a.Command), payload, keepResults).Err()
	})
	if err != nil {
		return watchdog.Answer{}, err
	}
	var stands watchdog.Answer
	var found bool
	err = untilKnown(ctx, func() (err error) { stands, found, err = c.Result(ctx, a.Session, a.Command); return err })
	switch {
	case err != nil:
		return watchdog.Answer{}, err
	case !found:
		return watchdog.Answer{}, fmt.Errorf("%w: the result of command %s was written and is gone", watchdog.ErrUnknown, a.Command)
	}
	return stands, nil
}

// insistEvery is the rest before what no answer came to is done again.
const insistEvery = 200 * time.Millisecond

// insist makes writes, one after the other, that may each be done twice: one that
// no answer comes to is done again until ctx ends, for a slow server may well have
// done it.
func (c *Commands) insist(ctx context.Context, writes ...func(context.Context, *client) error) error {
	for _, write := range writes {
		err := c.calls.write(ctx, write)
		for err != nil && ctx.Err() == nil && !isServerError(err) && !errors.Is(err, errConnClosed) && !errors.Is(err, ErrReadOnly) {
			pause(ctx, insistEvery)
			if again := c.calls.write(ctx, write); ctx.Err() == nil || again == nil {
				err = again // else the one before says more
			}
		}
		if err != nil {
			return c.failed(err)
		}
	}
	return nil
}

// untilKnown reads until that is known which was asked, or ctx ends.
func untilKnown(ctx context.Context, read func() error) error {
	for {
		err := read()
		if !errors.Is(err, watchdog.ErrUnknown) || ctx.Err() != nil {
			return err
		}
		pause(ctx, insistEvery)
	}
}

// failed puts an error into words. One that is worth another try wraps
// watchdog.ErrUnknown.
func (c *Commands) failed(err error) error {
	var denied *deniedError
	switch {
	case err == nil, errors.Is(err, errConnClosed), errors.Is(err, ErrReadOnly), errors.As(err, &denied):
		return err
	}
	f := explain(err, "")
	if f.kind == failedDenied {
		return &deniedError{c.Address() + ": " + f.words}
	}
	return fmt.Errorf("%w: %s: %s", watchdog.ErrUnknown, c.Address(), f.words)
}

// deniedError says that this user may not do what was asked.
type deniedError struct{ words string }

func (d *deniedError) Error() string { return d.words }

// proofFor is how long an answer about strangers counts.
const proofFor = 30 * time.Second

// proofTries is how often a server may leave open whether it keeps strangers out
// before that counts as if it did not.
const proofTries = 5

// errNotProved says that it is not known yet whether strangers are kept out.
var errNotProved = errors.New("whether the server keeps strangers out cannot be told: no answer")

// provedOut reports whether the server is known to let nobody in who does not
// prove who he is.
func (c *Commands) provedOut() bool {
	c.proof.Lock()
	defer c.proof.Unlock()
	return c.proved
}

// prove finds out, where no keys say who is trusted, whether the server keeps
// strangers out: a password of ours proves nothing if others need none. While that
// is not known nothing may be taken, for a command that is refused is refused for
// good, and the server may only be slow to answer.
func (c *Commands) prove(ctx context.Context) error {
	c.proof.Lock()
	defer c.proof.Unlock()
	if len(c.rules.Trusted) > 0 || !c.provedT.IsZero() && time.Since(c.provedT) < proofFor {
		return nil
	}
	stranger := *c.calls.target
	stranger.username, stranger.password, stranger.sockets = "", "", 1
	ctx, cancel := context.WithTimeout(ctx, dialLimit+ioLimit)
	defer cancel()
	cl := newClient(ctx, &stranger, c.logger)
	defer cl.Close()
	// It changes nothing even if it is let: there is no such stream.
	err := cl.XAdd(ctx, &redis.XAddArgs{Stream: wire.CommandsKey("sessionwatch-proof"), NoMkStream: true, Values: []string{"c", ""}}).Err()
	refused := err != nil && (redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "DENIED"))
	if refused || err == nil || errors.Is(err, redis.Nil) || isServerError(err) {
		c.proved, c.provedT, c.unproved = refused, time.Now(), 0
		return nil
	}
	c.proved, c.provedT = false, time.Time{} // no answer, so ask again
	if c.unproved++; c.unproved < proofTries {
		return errNotProved
	}
	return nil
}

// loopback reports whether all that was ever dialled is on this machine.
func (c *Commands) loopback() bool {
	if c.calls.target.network == "unix" {
		return true
	}
	known := 0
	for _, conn := range []*Conn{c.calls, c.reads} {
		conn.mu.Lock()
		dials := &conn.client.dials
		conn.mu.Unlock()
		n, here := dials.local()
		if !here {
			return false
		}
		known += n
	}
	return known > 0
}

// local counts the addresses that were dialled, and says whether all are of this
// machine.
func (d *dialCounter) local() (n int, here bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for addr := range d.byAddr {
		host, _, err := net.SplitHostPort(addr)
		ip := net.ParseIP(host)
		if err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return 0, false
		}
	}
	return len(d.byAddr), true
}
