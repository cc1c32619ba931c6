package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// followEvery is how often followers ask the journal, unless the store is
	// polled more often.
	followEvery = 500 * time.Millisecond
	// lookEvery is how often they look at all keys of the ledger without a
	// cause: for what is in no journal, such as a record that a stranger wrote.
	lookEvery = 5 * time.Minute
	// followPage is how many journal entries, or values, are asked for together.
	followPage = 1000
)

// entryID is the place of an entry in the journal.
type entryID struct{ ms, seq uint64 }

func readEntryID(text string) (entryID, bool) {
	ms, seq, _ := strings.Cut(text, "-")
	a, errA := strconv.ParseUint(ms, 10, 64)
	b, errB := strconv.ParseUint(seq, 10, 64)
	return entryID{a, b}, errA == nil && errB == nil
}

func (e entryID) String() string { return fmt.Sprintf("%d-%d", e.ms, e.seq) }

func (e entryID) before(o entryID) bool { return e.ms < o.ms || e.ms == o.ms && e.seq < o.seq }

// newestEntry is the place of the newest journal entry; zero if there is none.
func newestEntry(ctx context.Context, c *client) (entryID, error) {
	found, err := c.XRevRangeN(ctx, journalKey, "+", "-", 1).Result()
	if err != nil || len(found) == 0 {
		return entryID{}, err
	}
	id, ok := readEntryID(found[0].ID)
	if !ok {
		return entryID{}, errReplyBroken
	}
	return id, nil
}

// follower is one Follow: what it has told, and where in the journal it is.
type follower struct {
	ledger *Ledger
	post   func(watchdog.Event)
	seed   maphash.Seed
	told   map[uint64]uint64 // hash of a key -> hash of the value that was told
	strays map[uint64]bool   // hashes of keys that name no generation
	at     entryID
	looked time.Time // when all keys were last looked at
	line   *line     // that the journal is asked on; nil none
}

// line is a connection that one call uses at a time, one that nobody waits for any
// more too.
type line struct {
	mu sync.Mutex
	*redis.Conn
}

// errGap says that the journal no longer holds the place where we were.
var errGap = errors.New("the journal was cut off or lost")

// Follow looks at all keys of the ledger once and then asks the journal. It
// looks at all of them again when the connection broke, when the journal was
// cut off meanwhile, and every few minutes. It ends with ctx and its error.
func (l *Ledger) Follow(ctx context.Context, post func(watchdog.Event)) error {
	f := &follower{ledger: l, post: post, seed: maphash.MakeSeed(), strays: map[uint64]bool{}}
	for attempt := 0; ; {
		err := f.connect(ctx)
		if err == nil {
			err = f.tellAll(ctx)
		}
		if err == nil {
			attempt = 0
			err = f.tellNew(ctx)
		}
		f.hangUp()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		attempt++
		wait := backoff(attempt)
		if errors.Is(err, errGap) {
			wait = 0
		} else {
			l.conn.logger.Debug("the ledger is not followed", "reason", explain(err, "").words, "next_try", wait)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// connect takes a connection of its own to the server that holds the journal.
// From the pool a broken one would be replaced without a word, and what follows
// must know of every break.
func (f *follower) connect(ctx context.Context) error {
	var got *line
	err := f.ledger.conn.do(ctx, func(ctx context.Context, c *client) error {
		master, ok := c.UniversalClient.(*redis.Client)
		if !ok {
			var err error
			if master, err = c.cluster.MasterForKey(ctx, journalKey); err != nil {
				return err
			}
		}
		made := &line{Conn: master.Conn()}
		err := made.Ping(ctx).Err()
		if err == nil {
			err = ctx.Err() // then nobody waits for it any more
		}
		if err != nil {
			_ = made.Close()
			return err
		}
		got = made
		return nil
	})
	if err == nil {
		f.line = got
	}
	return err
}

// hangUp closes the line once it is not used any more.
func (f *follower) hangUp() {
	l, conn := f.line, f.ledger.conn
	f.line = nil
	if l == nil {
		return
	}
	end := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.Close()
	}
	if _, err := conn.begin(); err != nil { // it is closed, and with it all that is under way
		end()
		return
	}
	go func() {
		defer conn.calls.Done()
		end()
	}()
}

// sleep reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tellAll tells everything anew.
func (f *follower) tellAll(ctx context.Context) error {
	f.told = make(map[uint64]uint64)
	if err := f.look(ctx); err != nil {
		return err
	}
	f.post(watchdog.FollowedUp{At: f.now()})
	return nil
}

// tellNew tells what the journal names until something breaks.
func (f *follower) tellNew(ctx context.Context) error {
	for {
		more, err := f.tellPage(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if time.Since(f.looked) > lookEvery {
			if err := f.look(ctx); err != nil {
				return err
			}
		}
		if !sleep(ctx, min(followEvery, f.ledger.conn.target.PollInterval)) {
			return ctx.Err()
		}
	}
}

func (f *follower) now() time.Duration { return f.ledger.conn.clock.Now().Mono }

// look tells all keys of the ledger that it has not told as they are. The place
// in the journal is read first, so that nothing falls between.
func (f *follower) look(ctx context.Context) error {
	var at entryID
	var nodes []node
	err := f.ledger.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		if at, err = newestEntry(ctx, c); err == nil {
			nodes, err = c.masters(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, pattern := range []string{wire.HeadKeyPattern, wire.TerminalKeyPattern} {
		for _, n := range nodes {
			if err := f.lookAt(ctx, n, pattern); err != nil {
				return err
			}
		}
	}
	f.at, f.looked = at, time.Now()
	f.ledger.sawEntry(at)
	return nil
}

func (f *follower) lookAt(ctx context.Context, n node, pattern string) error {
	for cursor := uint64(0); ; {
		var keys []string
		var next uint64
		err := f.ledger.conn.do(ctx, func(ctx context.Context, _ *client) (err error) {
			keys, next, err = n.Scan(ctx, cursor, pattern, scanCount).Result()
			return err
		})
		if err != nil {
			return err
		}
		if err := f.tell(ctx, keys); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// tellPage tells what the next journal entries name, and whether there may be
// more of them.
func (f *follower) tellPage(ctx context.Context) (more bool, err error) {
	var page []redis.XMessage
	l := f.line
	err = f.ledger.conn.do(ctx, func(ctx context.Context, _ *client) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		// The entry where we are comes first, if it is still there.
		found, err := l.XRangeN(ctx, journalKey, f.at.String(), "+", followPage).Result()
		page = found
		return err
	})
	if err != nil {
		return false, err
	}
	if f.at != (entryID{}) {
		if len(page) == 0 || page[0].ID != f.at.String() {
			return false, errGap
		}
		page = page[1:]
	}
	if len(page) == 0 {
		return false, nil
	}
	if err := f.tell(ctx, keysOf(page)); err != nil {
		return false, err
	}
	last, ok := readEntryID(page[len(page)-1].ID)
	if !ok {
		return false, errReplyBroken
	}
	f.at = last
	f.ledger.sawEntry(last)
	return len(page) >= followPage-1, nil
}

// keysOf are the keys that journal entries name, each once.
func keysOf(page []redis.XMessage) []string {
	var keys []string
	seen := make(map[string]bool, len(page))
	for _, entry := range page {
		session, _ := entry.Values["session"].(string)
		number, _ := entry.Values["generation"].(string)
		g, err := strconv.ParseUint(number, 10, 32)
		if err != nil || !wire.ValidID(session) {
			continue // a stranger's
		}
		key := wire.HeadKey(watchdog.ID(session))
		if g > 0 {
			key = wire.TerminalKey(watchdog.ID(session), watchdog.Generation(g))
		}
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// sawEntry remembers how far the journal ever was.
func (l *Ledger) sawEntry(at entryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest.before(at) {
		l.newest = at
	}
}

// tell reads keys and posts those whose values it has not told.
func (f *follower) tell(ctx context.Context, keys []string) error {
	for start := 0; start < len(keys); start += followPage {
		part := keys[start:min(start+followPage, len(keys))]
		var values []*redis.StringCmd
		err := f.ledger.conn.do(ctx, func(ctx context.Context, c *client) error {
			pipe := c.Pipeline()
			asked := make([]*redis.StringCmd, len(part))
			for i, key := range part {
				asked[i] = pipe.GetRange(ctx, key, 0, wire.MaxDocumentBytes)
			}
			_, _ = pipe.Exec(ctx) // each command has its own error
			for _, a := range asked {
				if err := a.Err(); err != nil && !isWrongType(err) {
					return err
				}
			}
			values = asked
			return nil
		})
		if err != nil {
			return err
		}
		for i, key := range part {
			f.tellValue(key, values[i].Val(), values[i].Err() != nil)
		}
	}
	return nil
}

// tellValue posts one value, unless it was told already. An empty one may be a
// key that went between two questions: only a Redis that was emptied loses
// heads, and an empty record is foreign.
func (f *follower) tellValue(key, value string, wrongType bool) {
	name, content := maphash.String(f.seed, key), maphash.String(f.seed, value)
	if before, told := f.told[name]; told && before == content {
		return
	}
	id, rest, ok := wire.IDFromLedgerKey(key)
	if !ok {
		return
	}
	f.told[name] = content
	if rest == "head" {
		f.tellHead(id, value, wrongType)
		return
	}
	_, g, ok := wire.GenerationFromKey(key)
	if !ok {
		f.stray(name, key)
		return
	}
	r, err := f.ledger.seal.Open(id, g, []byte(value))
	if err != nil {
		f.post(watchdog.TerminalSeen{ID: id, Generation: g, Foreign: true, Reason: err.Error(), At: f.now()})
		return
	}
	f.post(r.Seen(f.now()))
}

// stray counts a key among the terminal records that names no generation, once:
// it can end nothing, but somebody put it there.
func (f *follower) stray(name uint64, key string) {
	if f.strays[name] {
		return
	}
	f.strays[name] = true
	key = termtext.Clean(key)
	f.ledger.conn.logger.Warn("a key among the terminal records names no generation; it ends nothing, find out who wrote it",
		"address", f.ledger.conn.target.display, "key", key)
	refused := watchdog.Refused{Source: watchdog.SourceRedis, Last: watchdog.RefusedID, LastID: key, At: f.now()}
	refused.Counts[watchdog.RefusedID] = 1
	f.post(refused)
}

func (f *follower) tellHead(id watchdog.ID, value string, wrongType bool) {
	if value == "" && !wrongType {
		return
	}
	h, err := wire.DecodeHead(id, []byte(value))
	if err != nil {
		f.ledger.conn.logger.Warn("a head in the ledger cannot be read", "address", f.ledger.conn.target.display, "reason", err.Error())
		return
	}
	f.post(watchdog.HeadSeen{Head: h, At: f.now()})
}
