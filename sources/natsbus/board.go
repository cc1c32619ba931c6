package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Board keeps what operators say of alerts in the KV bucket SW_ALERTS, one entry
// for each alert. It is a watchdog.NoteBoard.
//
// The bucket is created by the first Put and never by one who looks. Of two notes
// the later one counts, whoever is first to write: a note is written over what was
// read before, or not at all. A server lets go of the oldest entries where there
// are too many, whoever wrote them.
//
// With Options.ReadOnly it creates and writes nothing.
type Board struct {
	js       *jetStream
	replicas int
	now      func() time.Time // wall clock
	junk     atomic.Int64

	reconcile time.Duration // reconcileEvery

	// busy is held by who reads the bucket; it guards what follows.
	busy    chan struct{}
	made    string                // identity of the stream; empty: there was none
	next    uint64                // first sequence that was not read
	entries map[string]boardEntry // by subject, as the server holds them
}

// boardEntry is what stands at one place of the bucket.
type boardEntry struct {
	sequence uint64
	note     watchdog.AlertNote
	err      error // it is no note
	grave    bool  // its key was deleted with a tool for KV buckets
}

var alertsStream = wire.BucketStream(wire.AlertsBucket)

// maxBoardEntries is how many entries are read: with our configuration a bucket
// never holds as many.
const maxBoardEntries = 4 * watchdog.MaxNotes

// OpenBoard makes a Board on a connection of its own. Like Open it checks the
// options and leaves the network alone. Replicas is of the bucket, where it is
// created; 0 is 1. A nil log drops what would be logged.
func OpenBoard(o Options, replicas int, clock watchdog.Clock, log *slog.Logger) (*Board, error) {
	js, err := newJetStream(o, "notes on alerts", clock, log)
	if err != nil {
		return nil, err
	}
	return &Board{js: js, replicas: replicas, reconcile: reconcileEvery, busy: make(chan struct{}, 1), entries: map[string]boardEntry{},
		now: func() time.Time { return time.Unix(0, clock.Now().Wall) }}, nil
}

// Run connects, stays connected, and returns nil when ctx ends or Close is
// called. It may be called once.
func (b *Board) Run(ctx context.Context) error { return b.js.run(ctx) }

// Close ends Run and every call, and waits for Run.
func (b *Board) Close() { b.js.close() }

// Link is what there is to tell of the board's connection.
func (b *Board) Link() watchdog.LinkChanged { return *b.js.link.latest.Load() }

// Junk is how many entries of the bucket are no notes.
func (b *Board) Junk() int { return int(b.junk.Load()) }

// Put writes one note over what stands at its alert. Its error
// wraps a *watchdog.NewerNote if that is newer, ErrReadOnly or ErrNoJetStream.
func (b *Board) Put(ctx context.Context, n watchdog.AlertNote) error {
	payload, err := wire.EncodeNote(n)
	if err == nil {
		n, err = wire.DecodeNote(n.Key, payload) // as everybody will read it
	}
	if err != nil {
		return err
	}
	if b.js.plan.ReadOnly {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := b.js.door.await(ctx, b.js.link)
	if err != nil {
		return fmt.Errorf("the note was not written: %w", err)
	}
	if err := b.replace(ctx, c, n, payload); err != nil {
		return fmt.Errorf("the note was not written: %w", plainly(err))
	}
	b.tidy(ctx, c)
	return nil
}

// replace writes until the note stands, or a newer one does.
func (b *Board) replace(ctx context.Context, c *conn, n watchdog.AlertNote, payload []byte) error {
	subject := noteSubject(n.Key)
	for {
		m, found, err := b.js.message(ctx, c, alertsStream, sought{Last: subject})
		switch {
		case isFault(err, faultNoStream):
			if err := b.create(ctx, c); err != nil {
				return err
			}
		case err != nil:
			return err
		case found && bytes.Equal(m.Data, payload):
			return nil // ours, by an earlier try whose answer was lost
		case found && !isGrave(m):
			if stands, err := wire.DecodeNote(n.Key, m.Data); err == nil {
				if err := n.MayReplace(stands, b.now()); err != nil {
					return err
				}
			}
		}
		_, err = b.js.store(ctx, c, alertsStream, subject, payload, lastSequence(m.Sequence))
		switch {
		case err == nil:
			return nil
		case isFault(err, faultWrongSequence): // somebody was faster
		case isDenied(err), ctx.Err() != nil:
			return err
		default: // nobody knows; the leader does, and a stream that is gone is made anew
			pause(ctx, 50*time.Millisecond)
			if c, err = b.js.door.await(ctx, b.js.link); err != nil {
				return err
			}
		}
	}
}

func noteSubject(key watchdog.AlertKey) string {
	return wire.BucketSubject(wire.AlertsBucket, wire.NoteField(key))
}

// create makes the bucket. Unlike those of the ledger it lets go of its oldest
// entries when there are too many, and entries may be deleted.
func (b *Board) create(ctx context.Context, c *conn) error {
	config := bucketConfig(wire.AlertsBucket, b.replicas)
	config.Discard, config.MaxMessages, config.MaxSize = "old", watchdog.MaxNotes, wire.MaxNoteBytes+1<<10
	config.DenyDelete, config.DenyPurge, config.Rollup = false, false, true
	var made streamInfo
	err := b.js.api(ctx, c, "STREAM.CREATE."+config.Name, config, &made)
	if err == nil {
		b.js.log.Info("the bucket of notes on alerts was created", "bucket", wire.AlertsBucket)
	}
	if err == nil || isFault(err, faultNameInUse) {
		return nil
	}
	return fmt.Errorf("the bucket %s cannot be created: %w", wire.AlertsBucket, plainly(err))
}

// tidy removes what nobody needs any more. Whoever writes does it; what fails is
// done by the next one.
func (b *Board) tidy(ctx context.Context, c *conn) {
	if b.hold(ctx) != nil {
		return
	}
	defer b.release()
	if err := b.catchUp(ctx, c); err != nil {
		b.js.log.Debug("the notes were not tidied up", "reason", plainly(err))
		return
	}
	for _, n := range watchdog.SurplusNotes(b.notes(), b.now()) {
		subject := noteSubject(n.Key)
		gone := struct {
			Sequence uint64 `json:"seq"`
			NoErase  bool   `json:"no_erase"`
		}{b.entries[subject].sequence, true}
		if err := b.js.api(ctx, c, "STREAM.MSG.DELETE."+alertsStream, gone, &struct{}{}); err != nil && !isFault(err, faultNoMessage) {
			b.js.log.Debug("a note that nobody needs was not removed", "reason", plainly(err))
			return
		}
		delete(b.entries, subject)
	}
}

func (b *Board) hold(ctx context.Context) error {
	select {
	case b.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Board) release() { <-b.busy }

// notes are those that were read.
func (b *Board) notes() []watchdog.AlertNote {
	out := make([]watchdog.AlertNote, 0, len(b.entries))
	for _, e := range b.entries {
		if e.err == nil && !e.grave {
			out = append(out, e.note)
		}
	}
	return out
}

// catchUp reads what was not read yet. What was deleted leaves no trace but the
// number of entries; then all are read anew.
func (b *Board) catchUp(ctx context.Context, c *conn) error {
	for range 3 { // others may write and delete meanwhile
		info, err := b.js.info(ctx, c, alertsStream)
		if isFault(err, faultNoStream) {
			b.made, b.next = "", 1
			clear(b.entries)
			b.junk.Store(0)
			return nil
		}
		if err != nil {
			return err
		}
		if info.State.Messages > maxBoardEntries {
			return &boardError{fmt.Errorf("the bucket %s holds %d entries, more than %d are not read; find out who writes there, then remove the stream %s",
				wire.AlertsBucket, info.State.Messages, maxBoardEntries, alertsStream)}
		}
		if made := info.identity(); made != b.made || info.State.Last+1 < b.next {
			b.made, b.next = made, 1
			clear(b.entries)
		}
		err = b.js.eachMessage(ctx, c, alertsStream, wire.BucketSubject(wire.AlertsBucket, ">"), max(b.next, info.State.First), info.State.Last, b.take())
		if err != nil {
			return err
		}
		b.next = max(b.next, info.State.Last+1)
		maps.DeleteFunc(b.entries, func(_ string, e boardEntry) bool { return e.sequence < info.State.First })
		if uint64(len(b.entries)) == info.State.Messages {
			break
		}
		b.next = 1
		clear(b.entries)
	}
	b.count()
	return nil
}

// take gives what takes up a message; several goroutines call it.
func (b *Board) take() func(stored) {
	turn := make(chan struct{}, 1)
	return func(m stored) {
		e := boardEntry{sequence: m.Sequence, grave: isGrave(m)}
		if !e.grave {
			e.note, e.err = decodeEntry(m)
		}
		turn <- struct{}{}
		if b.entries[m.Subject].sequence < m.Sequence {
			b.entries[m.Subject] = e
		}
		<-turn
	}
}

func decodeEntry(m stored) (watchdog.AlertNote, error) {
	field, _ := strings.CutPrefix(m.Subject, wire.BucketSubject(wire.AlertsBucket, ""))
	key, ok := wire.KeyFromNoteField(field)
	if !ok {
		return watchdog.AlertNote{}, errors.New("its place is that of no alert")
	}
	return wire.DecodeNote(key, m.Data)
}

// count counts what is no note, and says so when that changes.
func (b *Board) count() {
	var junk int64
	var one error
	for _, e := range b.entries {
		if e.err != nil {
			junk++
			one = e.err
		}
	}
	if b.junk.Swap(junk) != junk && junk > 0 {
		b.js.log.Warn("entries of the bucket SW_ALERTS are no notes and are passed over", "count", junk, "one of them", one)
	}
}

// boardError is one that does not pass by itself.
type boardError struct{ error }

func (e *boardError) Unwrap() error { return e.error }

// Watch tells the whole set at first and after each change. It survives a server
// that is away, and a bucket that is not there yet. Its error says why the board
// cannot be read: this user may not, the server keeps nothing (ErrNoJetStream), or
// somebody has filled the bucket.
func (b *Board) Watch(ctx context.Context, tell func([]watchdog.AlertNote)) error {
	w := &boardWatch{board: b, tell: tell}
	for {
		c, err := b.js.door.await(ctx, b.js.link)
		if err == nil {
			err = w.on(ctx, c)
		}
		var filled *boardError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errClosed), errors.Is(err, ErrNoJetStream), isDenied(err), errors.As(err, &filled):
			return err
		case err != nil:
			b.js.log.Info("following the notes on alerts was interrupted", "error", plainly(err))
			pause(ctx, time.Second)
		}
	}
}

// boardWatch is one Watch.
type boardWatch struct {
	board *Board
	tell  func([]watchdog.AlertNote)
	begun bool
	last  []watchdog.AlertNote // that was told
}

// on watches on one connection, until that is gone or something fails.
func (w *boardWatch) on(ctx context.Context, c *conn) error {
	wake := make(chan struct{}, 1)
	subject := wire.BucketSubject(wire.AlertsBucket, ">")
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("cannot subscribe to %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // it goes with the connection anyway
	again, late := time.NewTicker(w.board.reconcile), newEcho()
	defer again.Stop()
	defer late.Stop()
	for {
		if err := w.look(ctx, c); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.board.js.door.quit:
			return errClosed
		case <-c.closed:
			return nats.ErrConnectionClosed
		case <-wake:
			late.begin()
		case <-late.C:
			late.next()
		case <-again.C:
		}
	}
}

// look tells what stands, if that is news.
func (w *boardWatch) look(ctx context.Context, c *conn) error {
	if err := w.board.hold(ctx); err != nil {
		return err
	}
	err := w.board.catchUp(ctx, c)
	var now []watchdog.AlertNote
	if err == nil {
		now = watchdog.StandingNotes(w.board.notes(), w.board.now())
	}
	w.board.release()
	if err != nil || w.begun && slices.Equal(now, w.last) {
		return err
	}
	w.begun, w.last = true, now
	w.tell(slices.Clone(now))
	return nil
}
