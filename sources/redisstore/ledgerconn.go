package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// connCalls is how many calls of a Conn may be under way; more wait.
	connCalls = 6
	// connFollowers is how many followers of its ledger it has sockets for.
	connFollowers = 2
)

// Conn is a connection to a Redis for what is asked and written now and then:
// the ledger, the marker of the authority, projections and the registry. It is
// safe for concurrent use.
type Conn struct {
	target *target
	clock  watchdog.Clock
	logger *slog.Logger
	renew  func() *client
	cancel context.CancelFunc // ends the clients
	turns  chan struct{}      // the library refuses what has no socket, and does not wait

	mu       sync.Mutex
	client   *client
	failures int // without an answer between
	closed   bool
	calls    sync.WaitGroup
}

// OpenConn checks o and reads its files; it leaves the network alone. With
// options that are read-only all writing is refused with ErrReadOnly. A nil
// logger drops the log.
func OpenConn(o Options, clock watchdog.Clock, logger *slog.Logger) (*Conn, error) {
	t, err := o.resolve()
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	t.sockets = connCalls + connFollowers
	return newConn(t, connCalls, clock, logger), nil
}

// newConn makes a connection of which so many calls may be under way.
func newConn(t *target, calls int, clock watchdog.Clock, logger *slog.Logger) *Conn {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{target: t, clock: clock, logger: logger, cancel: cancel, turns: make(chan struct{}, calls)}
	c.renew = func() *client { return newClient(ctx, t, logger) }
	c.client = c.renew()
	return c
}

// Address is the redacted address for people.
func (c *Conn) Address() string { return c.target.display }

// Close ends all calls under way and waits for them.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	current := c.client
	c.mu.Unlock()
	c.cancel()
	current.Close()
	c.calls.Wait()
}

var errConnClosed = errors.New("the connection is closed")

// do makes a call that ends with ctx, whatever the library does: it heeds
// deadlines, but no cancellation in the midst of a read. What fn sets may be
// used only if the error is nil, and must be no result of its caller: that one
// may return while fn still runs.
func (c *Conn) do(ctx context.Context, fn func(ctx context.Context, c *client) error) error {
	if err := ctx.Err(); err != nil {
		return notBegun{err}
	}
	select {
	case c.turns <- struct{}{}:
	case <-ctx.Done():
		return notBegun{ctx.Err()}
	}
	current, err := c.begin()
	if err != nil {
		<-c.turns
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer c.calls.Done()
		err := fn(ctx, current)
		c.learn(current, err)
		<-c.turns
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // both may have happened at once
	case err := <-done:
		return err
	default:
		return ctx.Err()
	}
}

// begin counts one more call, for Close, which c.calls.Done ends.
func (c *Conn) begin() (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, notBegun{errConnClosed}
	}
	c.calls.Add(1)
	return c.client, nil
}

// learn drops a connection to a server that has become a replica, so that the
// next one is made to whoever is the master now, and a client whose dials
// failed too often.
func (c *Conn) learn(used *client, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	replica := err != nil && strings.Contains(err.Error(), "READONLY")
	if err == nil || isServerError(err) {
		c.failures = 0
	} else {
		c.failures++
	}
	if c.client != used || c.closed || !replica && c.failures < replaceAt {
		return
	}
	c.failures = 0
	c.client = c.renew()
	go used.Close() // others may still wait for its answers
}

// notBegun is a call that was not made at all.
type notBegun struct{ error }

func (n notBegun) Unwrap() error { return n.error }

// unsaid are the errors, by their first word, that a server answers with before
// it has done anything.
var unsaid = []string{
	"READONLY", "OOM", "MISCONF", "NOREPLICAS", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "MOVED", "ASK", "TRYAGAIN",
	"NOAUTH", "WRONGPASS", "DENIED", "BUSY",
}

// writeError says what became of a write of the ledger: not done, or unknown.
func (c *Conn) writeError(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), errEpoch.Error()) {
		return c.away(sentence("it was emptied or replaced since it was checked, and nothing was written; the next check says more"))
	}
	if c.notDone(err) {
		return c.away(err)
	}
	return fmt.Errorf("%w: %s: %s", watchdog.ErrUnknown, c.target.display, explain(err, "EVALSHA").words)
}

func (c *Conn) notDone(err error) bool {
	var begun notBegun
	var dial *net.OpError
	switch {
	case errors.As(err, &begun), errors.Is(err, redis.ErrClosed), errors.Is(err, ErrReadOnly), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return true
	case errors.As(err, &dial) && dial.Op == "dial":
		return true
	case !isServerError(err) && !isServerText(err):
		return false
	}
	for _, word := range unsaid {
		if strings.HasPrefix(err.Error(), word) || strings.Contains(err.Error(), " "+word+" ") {
			return true
		}
	}
	return explain(err, "").kind == failedDenied
}

// away says that the store cannot decide now.
func (c *Conn) away(err error) error {
	var said sentence
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said), errors.Is(err, ErrReadOnly), errors.Is(err, errConnClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s: %w", watchdog.ErrAuthorityAway, c.target.display, err)
	}
	return fmt.Errorf("%w: %s: %s", watchdog.ErrAuthorityAway, c.target.display, explain(err, "").words)
}

// write refuses where nothing may be written.
func (c *Conn) write(ctx context.Context, fn func(ctx context.Context, c *client) error) error {
	if c.target.ReadOnly {
		return notBegun{ErrReadOnly}
	}
	return c.do(ctx, fn)
}

// isWrongType reports whether a key holds something that is no string.
func isWrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }
