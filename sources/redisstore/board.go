package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// lookAtNotes is how often the notes are read although none of us wrote one:
	// somebody else may have.
	lookAtNotes = 10 * time.Second
	// maxBoardFields and maxBoardBytes bound what is read of the hash.
	maxBoardFields = 4 * watchdog.MaxNotes
	maxBoardBytes  = 64 << 20
)

// Board keeps what operators say of alerts in one hash of this Redis, a field for
// each alert. It is a watchdog.NoteBoard. Of two notes the later one counts,
// whoever is first to write: a note is written over what was read before, or not
// at all. It makes no key before the first Put.
type Board struct {
	conn *Conn
	junk atomic.Int64
}

// Board keeps notes on alerts in this Redis.
func (c *Conn) Board() *Board { return &Board{conn: c} }

// noteScript writes a note over what was read, and answers 1, or 0 if something
// else stands there now. What is too long to be a note counts as nothing.
//
//	KEYS  1 notes
//	ARGV  1 field  2 what was read, empty for nothing  3 the note  4 longest note  5 field of the revision  6 a new revision
var noteScript = redis.NewScript(`
local stands = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if #stands > tonumber(ARGV[4]) then stands = '' end
if stands ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3], ARGV[5], ARGV[6])
return 1
`)

// unnoteScript removes notes that still are what was read.
//
//	KEYS  1 notes
//	ARGV  1 field of the revision  2 a new revision  then field and note, for each
var unnoteScript = redis.NewScript(`
local removed = 0
for i = 3, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    removed = removed + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
if removed > 0 then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return removed
`)

// boardField is what stands at one place of the hash.
type boardField struct {
	field, text string
	note        watchdog.AlertNote
}

// Junk is how many fields of the hash are no notes.
func (b *Board) Junk() int { return int(b.junk.Load()) }

func (b *Board) nowWall() time.Time { return time.Unix(0, b.conn.clock.Now().Wall) }

// Put writes one note over what stands at its alert. Its error
// wraps a *watchdog.NewerNote if that is newer, or ErrReadOnly.
func (b *Board) Put(ctx context.Context, n watchdog.AlertNote) error {
	text, err := wire.EncodeNote(n)
	if err == nil {
		n, err = wire.DecodeNote(n.Key, text) // as everybody will read it
	}
	if err != nil {
		return err
	}
	if b.conn.target.ReadOnly {
		return ErrReadOnly
	}
	written := false
	for err == nil && !written {
		written, err = b.replace(ctx, n, text)
	}
	if err != nil {
		return b.failed("the note was not written", err)
	}
	b.tidy(ctx)
	return nil
}

// replace is one try to write; false: somebody was faster.
func (b *Board) replace(ctx context.Context, n watchdog.AlertNote, text []byte) (written bool, err error) {
	field := wire.NoteField(n.Key)
	stands, _, err := b.read(ctx, field, wire.MaxNoteBytes)
	switch {
	case err != nil:
		return false, err
	case stands == string(text):
		return true, nil // ours, by an earlier try whose answer was lost
	}
	if other, err := wire.DecodeNote(n.Key, []byte(stands)); err == nil {
		if err := n.MayReplace(other, b.nowWall()); err != nil {
			return false, err
		}
	}
	done := false
	err = b.conn.write(ctx, func(ctx context.Context, c *client) (err error) {
		done, err = noteScript.Run(ctx, c, []string{wire.AlertsKey}, field, stands, text, wire.MaxNoteBytes, wire.AlertsRevision, rand.Text()).Bool()
		return err
	})
	return err == nil && done, err
}

// read gives what stands at a field, if it is no longer than most, and how long
// it is.
func (b *Board) read(ctx context.Context, field string, most int64) (text string, length int64, err error) {
	var stands string // not a result of this function, which may return before the call ends
	var size int64
	err = b.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		if size, err = c.Do(ctx, "HSTRLEN", wire.AlertsKey, field).Int64(); err != nil || size == 0 || size > most {
			return err
		}
		if stands, err = c.HGet(ctx, wire.AlertsKey, field).Result(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	if err != nil {
		return "", 0, err
	}
	return stands, size, nil
}

// failed says what went wrong, in words.
func (b *Board) failed(what string, err error) error {
	var full sentence
	var newer *watchdog.NewerNote
	switch {
	case isWrongType(err):
		return fmt.Errorf("%s: the key %s at %s holds no notes but something else; remove it", what, wire.AlertsKey, b.conn.target.display)
	case errors.As(err, &full), errors.As(err, &newer), errors.Is(err, ErrReadOnly), errors.Is(err, errConnClosed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %s: %s", what, b.conn.target.display, explain(err, "").words)
}

// tidy removes what nobody needs any more. Whoever writes does it; what fails is
// done by the next one.
func (b *Board) tidy(ctx context.Context) {
	all, err := b.all(ctx)
	if err != nil {
		b.conn.logger.Debug("the notes were not tidied up", "reason", netreason.Short(err.Error()))
		return
	}
	at := make(map[watchdog.AlertKey]boardField, len(all))
	notes := make([]watchdog.AlertNote, 0, len(all))
	for _, f := range all {
		at[f.note.Key] = f
		notes = append(notes, f.note)
	}
	for drop := range slices.Chunk(watchdog.SurplusNotes(notes, b.nowWall()), 500) {
		args := []any{wire.AlertsRevision, rand.Text()}
		for _, n := range drop {
			args = append(args, at[n.Key].field, at[n.Key].text)
		}
		err := b.conn.write(ctx, func(ctx context.Context, c *client) error {
			return unnoteScript.Run(ctx, c, []string{wire.AlertsKey}, args...).Err()
		})
		if err != nil {
			b.conn.logger.Debug("notes that nobody needs were not removed", "reason", explain(err, "EVALSHA").words)
			return
		}
	}
}

// all reads the whole hash; what is no note is counted.
func (b *Board) all(ctx context.Context) ([]boardField, error) {
	if err := b.weigh(ctx); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for cursor := uint64(0); ; {
		var part []string
		var next uint64
		err := b.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
			part, next, err = c.HScan(ctx, wire.AlertsKey, cursor, "", scanCount).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(part); i += 2 {
			found[part[i]] = part[i+1]
		}
		if cursor = next; cursor == 0 || len(found) > maxBoardFields {
			break
		}
	}
	out := make([]boardField, 0, len(found))
	var junk int64
	var one error
	for field, text := range found {
		if field == wire.AlertsRevision {
			continue
		}
		n, err := decodeField(field, text)
		if err != nil {
			junk, one = junk+1, err
			continue
		}
		out = append(out, boardField{field, text, n})
	}
	if b.junk.Swap(junk) != junk && junk > 0 {
		b.conn.logger.Warn("fields of the hash of notes are no notes and are passed over", "key", wire.AlertsKey, "count", junk, "one of them", one)
	}
	return out, nil
}

func decodeField(field, text string) (watchdog.AlertNote, error) {
	key, ok := wire.KeyFromNoteField(field)
	if !ok {
		return watchdog.AlertNote{}, errors.New("its field is that of no alert")
	}
	return wire.DecodeNote(key, []byte(text))
}

// weigh refuses to read a hash that somebody has filled.
func (b *Board) weigh(ctx context.Context) error {
	var fields, size int64
	err := b.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		if fields, err = c.HLen(ctx, wire.AlertsKey).Result(); err != nil || fields > maxBoardFields {
			return err
		}
		// Not every server and every user may; the count must do then.
		size, _ = c.MemoryUsage(ctx, wire.AlertsKey, 0).Result()
		return nil
	})
	switch {
	case err != nil:
		return err
	case fields > maxBoardFields || size > maxBoardBytes:
		return sentence(fmt.Sprintf("the hash %s at %s holds %d fields of %d bytes, more than notes can be; find out who writes there, then remove it",
			wire.AlertsKey, b.conn.target.display, fields, size))
	}
	return nil
}

// Watch tells the whole set at first and after each change. It asks as often as
// the store is polled, for a revision alone unless that has changed. It survives a
// server that is away. Its error says why the board cannot be read: this user may
// not, something else stands in its place, or somebody has filled it.
func (b *Board) Watch(ctx context.Context, tell func([]watchdog.AlertNote)) error {
	w := &boardWatch{board: b, tell: tell}
	for attempt := 0; ; {
		err := w.look(ctx)
		wait := min(b.conn.target.PollInterval, DefaultPollInterval)
		var full sentence
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			attempt = 0
		case errors.Is(err, errConnClosed):
			return err
		case errors.As(err, &full), isWrongType(err), explain(err, "").kind == failedDenied:
			return b.failed("the notes on alerts cannot be read", err)
		default:
			if attempt++; attempt == 1 {
				b.conn.logger.Info("following the notes on alerts was interrupted", "reason", explain(err, "").words)
			}
			w.revision = "" // another server may answer next
			wait = backoff(attempt)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// boardWatch is one Watch.
type boardWatch struct {
	board    *Board
	tell     func([]watchdog.AlertNote)
	revision string // when all was last read
	looked   time.Time
	begun    bool
	last     []watchdog.AlertNote // that was told
}

// look tells what stands, if that is news.
func (w *boardWatch) look(ctx context.Context) error {
	revision, err := w.board.revision(ctx)
	if err != nil {
		return err
	}
	if w.begun && revision == w.revision && time.Since(w.looked) < lookAtNotes {
		return nil
	}
	all, err := w.board.all(ctx)
	if err != nil {
		return err
	}
	w.revision, w.looked = revision, time.Now()
	notes := make([]watchdog.AlertNote, len(all))
	for i, f := range all {
		notes[i] = f.note
	}
	now := watchdog.StandingNotes(notes, w.board.nowWall())
	if w.begun && slices.Equal(now, w.last) {
		return nil
	}
	w.begun, w.last = true, now
	w.tell(slices.Clone(now))
	return nil
}

// revision is what changes with each of our writes, and when the key comes or
// goes.
func (b *Board) revision(ctx context.Context) (string, error) {
	text, length, err := b.read(ctx, wire.AlertsRevision, 64)
	return fmt.Sprint(length, text), err
}
