package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Keys of the ledger that belong to all sessions. Nobody else reads them.
const (
	// untoldKey orders the ends that are not told yet: session, blank,
	// generation. It is a hint: what counts stands in the outbox of each session.
	untoldKey        = "sessionwatch:{untold}"
	untoldCounterKey = "sessionwatch:{untold}:last"
	// journalKey names what was written, so that followers need not look at
	// everything. It is a hint too: who misses an entry of it finds the change
	// in the next full look.
	journalKey = "sessionwatch:journal"

	// journalLength is how many entries the journal keeps. A follower that was
	// away for longer looks at everything.
	journalLength = 10_000
)

// Ledger is the ledger in a Redis that is the authority. One script decides
// each end; what it keeps is as safe as that Redis keeps it, see Warning.
type Ledger struct {
	conn *Conn
	seal wire.Seal

	mu       sync.Mutex
	identity string            // as first seen; empty before
	parts    []string          // of the identity
	newest   entryID           // of the journal, as ever seen
	runs     map[string]string // run id of each master at the last check
	warning  string
	listed   bool // the untold ends were collected since the last failure
}

// Ledger is the ledger in this Redis.
func (c *Conn) Ledger(seal wire.Seal) *Ledger {
	return &Ledger{conn: c, seal: seal, runs: make(map[string]string)}
}

// Authority is known after Check.
func (l *Ledger) Authority() watchdog.Authority {
	l.mu.Lock()
	defer l.mu.Unlock()
	return watchdog.Authority{Name: watchdog.AuthorityRedis, Identity: l.identity}
}

// shared adds the keys of all sessions where a script may name them.
func (l *Ledger) shared(keys []string, more ...string) []string {
	if l.conn.target.Cluster {
		return keys
	}
	return append(keys, more...)
}

// WriteOnce writes the record, and its place in the outbox, unless one stands.
func (l *Ledger) WriteOnce(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	text, err := l.seal.Record(r)
	if err != nil {
		return watchdog.Record{}, err
	}
	standing, found, err := l.settle(ctx, r, text)
	if err != nil {
		if isWrongType(err) {
			return watchdog.Record{}, foreignType(r.ID, r.Generation)
		}
		return watchdog.Record{}, l.conn.writeError(err)
	}
	if !found {
		standing = string(text)
	}
	got, err := l.seal.Open(r.ID, r.Generation, []byte(standing))
	if err != nil {
		l.note(ctx, r.ID, r.Generation) // so that all followers look at it
	}
	return got, err
}

// settle runs the script, in a Cluster between the steps that make the end
// findable: it is named among the untold ones before it is written, so that a
// crash cannot hide it.
func (l *Ledger) settle(ctx context.Context, r watchdog.Record, text []byte) (standing string, found bool, err error) {
	var stood *string // not a result of this function, which may return before the call ends
	generation := strconv.FormatUint(uint64(r.Generation), 10)
	keys := l.shared([]string{
		wire.TerminalKey(r.ID, r.Generation), wire.OutboxKey(r.ID), wire.LeaseKey(r.ID), wire.HeadKey(r.ID),
	}, untoldKey, untoldCounterKey, journalKey, epochKey)
	err = l.conn.write(ctx, func(ctx context.Context, c *client) error {
		epoch, err := l.epochFor(ctx, c, keys[0])
		if err == nil && c.cluster != nil {
			err = untoldScript.Run(ctx, c, []string{untoldKey, untoldCounterKey}, untoldName(r.ID, r.Generation)).Err()
		}
		if err != nil {
			return err
		}
		answer, err := settleScript.Run(ctx, c, keys,
			text, generation, untoldName(r.ID, r.Generation), string(r.ID), wire.MaxDocumentBytes, journalLength, epoch).Text()
		if errors.Is(err, redis.Nil) {
			if c.cluster != nil {
				l.enter(ctx, c, r.ID, r.Generation)
			}
			return nil
		}
		if err == nil {
			stood = &answer
		}
		return err
	})
	if err != nil || stood == nil {
		return "", false, err
	}
	return *stood, true, nil
}

// enter makes a journal entry of its own. Its loss does no harm.
func (l *Ledger) enter(ctx context.Context, c *client, id watchdog.ID, g watchdog.Generation) {
	err := c.XAdd(ctx, &redis.XAddArgs{
		Stream: journalKey, MaxLen: journalLength, Approx: true,
		Values: []any{"session", string(id), "generation", strconv.FormatUint(uint64(g), 10)},
	}).Err()
	if err != nil {
		l.conn.logger.Debug("no journal entry", "session", id, "reason", explain(err, "XADD").words)
	}
}

func (l *Ledger) note(ctx context.Context, id watchdog.ID, g watchdog.Generation) {
	_ = l.conn.write(ctx, func(ctx context.Context, c *client) error { l.enter(ctx, c, id, g); return nil })
}

func untoldName(id watchdog.ID, g watchdog.Generation) string {
	return string(id) + " " + strconv.FormatUint(uint64(g), 10) // no id holds a blank
}

func readUntoldName(name string) (id watchdog.ID, g watchdog.Generation, ok bool) {
	text, number, _ := strings.Cut(name, " ")
	n, err := strconv.ParseUint(number, 10, 32)
	return watchdog.ID(text), watchdog.Generation(n), err == nil && n > 0 && wire.ValidID(text)
}

func foreignType(id watchdog.ID, g watchdog.Generation) error {
	return fmt.Errorf("%s#%d: %w: the key holds no string; only an operator's expire ends this generation",
		id, g, watchdog.ErrForeignRecord)
}

// read reads a document. Whatever stands there, no more than one is read.
func read(ctx context.Context, c redis.Cmdable, key string) (text []byte, found bool, err error) {
	pipe := c.Pipeline()
	exists, get := pipe.Exists(ctx, key), pipe.GetRange(ctx, key, 0, wire.MaxDocumentBytes)
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err := errors.Join(exists.Err(), get.Err()); err != nil {
		return nil, false, errors.Join(exists.Err(), get.Err())
	}
	return []byte(get.Val()), exists.Val() == 1 || get.Val() != "", nil
}

// Record reads the terminal record of one generation.
func (l *Ledger) Record(ctx context.Context, id watchdog.ID, g watchdog.Generation) (watchdog.Record, bool, error) {
	var text []byte
	var found bool
	err := l.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		text, found, err = read(ctx, c, wire.TerminalKey(id, g))
		return err
	})
	switch {
	case isWrongType(err):
		return watchdog.Record{}, false, foreignType(id, g)
	case err != nil:
		return watchdog.Record{}, false, l.conn.away(err)
	case !found:
		return watchdog.Record{}, false, nil
	}
	r, err := l.seal.Open(id, g, text)
	return r, err == nil, err
}

// Head reads the newest generation of a session. Its revision is its text.
func (l *Ledger) Head(ctx context.Context, id watchdog.ID) (watchdog.Head, watchdog.Revision, error) {
	var text []byte
	err := l.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		text, _, err = read(ctx, c, wire.HeadKey(id))
		return err
	})
	switch {
	case isWrongType(err):
		return watchdog.Head{}, "", fmt.Errorf("the head of %s cannot be read: its key holds no string; remove it, and it is found anew from the terminal records", id)
	case err != nil:
		return watchdog.Head{}, "", l.conn.away(err)
	case len(text) == 0:
		return watchdog.Head{}, "", nil
	}
	h, err := wire.DecodeHead(id, text)
	return h, watchdog.Revision(text), err
}

// SwapHead replaces a head that is still as it was read.
func (l *Ledger) SwapHead(ctx context.Context, h watchdog.Head, rev watchdog.Revision) (watchdog.Revision, error) {
	text, err := wire.EncodeHead(h)
	if err != nil {
		return "", err
	}
	swapped := false
	err = l.conn.write(ctx, func(ctx context.Context, c *client) error {
		keys := l.shared([]string{wire.HeadKey(h.ID)}, journalKey, epochKey)
		epoch, err := l.epochFor(ctx, c, keys[0])
		if err != nil {
			return err
		}
		swapped, err = swapScript.Run(ctx, c, keys, string(rev), text, string(h.ID), journalLength, epoch).Bool()
		if err == nil && swapped && c.cluster != nil {
			l.enter(ctx, c, h.ID, 0)
		}
		return err
	})
	switch {
	case err != nil:
		return "", l.conn.writeError(err)
	case !swapped:
		return "", watchdog.ErrConflict
	}
	return watchdog.Revision(text), nil
}
