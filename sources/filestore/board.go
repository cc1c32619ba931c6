package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// boardEvery is how often a board looks whether another process wrote to it.
	boardEvery = time.Second
	// boardQuiet is how long a file must have rested until its time of change
	// says that nothing new is in it: file systems count in coarse steps.
	boardQuiet = 5 * time.Second
	// boardTurn is how long a process waits for another's write to end.
	boardTurn = 2 * time.Second
	// boardFormat is what the present layout is called in a file.
	boardFormat = "sessionwatch notes 1"
)

var bucketNotes = []byte("notes") // key of the alert -> note

// ErrReadOnly is the answer to whoever wants to write where nothing may be.
var ErrReadOnly = errors.New("this process is read-only: nothing is written; leave --read-only (read_only in the configuration) out to allow it")

// Board keeps what operators of one machine say of alerts, where no bus can. It
// is a watchdog.NoteBoard. Unlike a File it has no owner: any number of processes
// share one, since each holds it for the moment of a read or a write alone.
//
// The file is made by the first Put and never by one who looks.
type Board struct {
	path     string
	readOnly bool
	now      func() time.Time // wall clock
	logger   *slog.Logger
	junk     atomic.Int64

	mu       sync.Mutex
	watchers map[chan struct{}]struct{}
}

// OpenBoard gives the board at path; it opens nothing. A nil logger drops the log.
func OpenBoard(path string, readOnly bool, clock watchdog.Clock, logger *slog.Logger) (*Board, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &Board{path: path, readOnly: readOnly, logger: logger, watchers: map[chan struct{}]struct{}{},
		now: func() time.Time { return time.Unix(0, clock.Now().Wall) }}, nil
}

// Junk is how many entries of the file are no notes.
func (b *Board) Junk() int { return int(b.junk.Load()) }

// Put writes one note over what stands at its alert. Its error
// wraps a *watchdog.NewerNote if that is newer, or ErrReadOnly.
func (b *Board) Put(ctx context.Context, n watchdog.AlertNote) error {
	text, err := wire.EncodeNote(n)
	if err == nil {
		n, err = wire.DecodeNote(n.Key, text) // as everybody will read it
	}
	switch {
	case err != nil:
		return err
	case b.readOnly:
		return ErrReadOnly
	}
	if err := b.bounded(ctx, func() error { return b.put(n, text) }); err != nil {
		return fmt.Errorf("the note was not written: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for wake := range b.watchers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return nil
}

func (b *Board) put(n watchdog.AlertNote, text []byte) error {
	if err := privateDir(filepath.Dir(b.path)); err != nil {
		return err
	}
	if _, err := os.Lstat(b.path); errors.Is(err, fs.ErrNotExist) {
		if err := create(b.path, layBoard); err != nil {
			return fmt.Errorf("%s cannot be made: %w", b.path, sayFull(err))
		}
	}
	return b.open(false, func(db *bbolt.DB) error {
		return db.Update(func(tx *bbolt.Tx) error {
			notes, err := boardOf(tx)
			if err != nil {
				return err
			}
			if stands, err := wire.DecodeNote(n.Key, notes.Get([]byte(n.Key))); err == nil && n.Order(stands) != 0 {
				if err := n.MayReplace(stands, b.now()); err != nil {
					return err
				}
			}
			if err := notes.Put([]byte(n.Key), text); err != nil {
				return err
			}
			all, _, _ := readNotes(notes)
			for _, drop := range watchdog.SurplusNotes(all, b.now()) {
				if err := notes.Delete([]byte(drop.Key)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// layBoard makes the parts of a new file.
func layBoard(tx *bbolt.Tx) error {
	meta, err := tx.CreateBucket(bucketMeta)
	if err != nil {
		return err
	}
	_, err = tx.CreateBucket(bucketNotes)
	return errors.Join(err, meta.Put(keyFormat, []byte(boardFormat)))
}

// boardOf gives the notes of a file.
func boardOf(tx *bbolt.Tx) (*bbolt.Bucket, error) {
	meta, notes := tx.Bucket(bucketMeta), tx.Bucket(bucketNotes)
	if meta == nil || notes == nil || string(meta.Get(keyFormat)) != boardFormat {
		return nil, fmt.Errorf("%w: it holds no notes of this sessionwatch", bolterrors.ErrInvalid)
	}
	return notes, nil
}

// readNotes reads all notes, and counts what is none.
func readNotes(notes *bbolt.Bucket) (all []watchdog.AlertNote, junk int64, one error) {
	_ = notes.ForEach(func(key, text []byte) error { // it gives our own errors alone
		n, err := wire.DecodeNote(watchdog.AlertKey(key), text)
		if err != nil {
			junk, one = junk+1, err
			return nil
		}
		all = append(all, n)
		return nil
	})
	return all, junk, one
}

// open holds the file for as long as do takes.
func (b *Board) open(readOnly bool, do func(*bbolt.DB) error) error {
	var mine *os.File
	err := caught(func() error {
		db, err := bbolt.Open(b.path, 0o600, &bbolt.Options{
			Timeout: boardTurn, NoStatistics: true, FreelistType: bbolt.FreelistMapType, ReadOnly: readOnly,
			OpenFile: func(path string, flag int, _ os.FileMode) (*os.File, error) {
				file, err := openPrivate(path, flag&^os.O_CREATE)
				if err != nil {
					return nil, err
				}
				if info, err := file.Stat(); err != nil || info.Size() == 0 {
					_ = file.Close()
					return nil, errors.Join(err, errEmpty)
				}
				mine = file
				return file, nil
			},
		})
		if err != nil {
			return err
		}
		return errors.Join(do(db), db.Close())
	})
	var broke panicked
	if errors.As(err, &broke) && mine != nil { // the database cannot be closed any more
		unlock(mine)
		_ = mine.Close()
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s is held by another process for more than %v; end that one", b.path, boardTurn)
	case isDamage(err):
		return fmt.Errorf("%w: %s: %w; it was left as it is. Remove it: what was acknowledged, snoozed and muted is forgotten then", ErrDamaged, b.path, err)
	}
	return sayFull(err)
}

// bounded ends with ctx even if the disk does not answer.
func (b *Board) bounded(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch tells the whole set at first and after each change, those of other
// processes a second late. It survives a file that is not there yet. Its error
// says why the file cannot be read.
func (b *Board) Watch(ctx context.Context, tell func([]watchdog.AlertNote)) error {
	wake := make(chan struct{}, 1)
	b.mu.Lock()
	b.watchers[wake] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, wake)
	}()
	again := time.NewTicker(boardEvery)
	defer again.Stop()
	var seen fs.FileInfo
	var last []watchdog.AlertNote
	for begun := false; ; begun = true {
		if info, err := os.Stat(b.path); !begun || err != nil || !b.resting(seen, info) {
			now, err := b.look(ctx)
			if err != nil {
				return err
			}
			if seen = info; !begun || !slices.Equal(now, last) {
				last = now
				tell(slices.Clone(now))
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
			seen = nil
		case <-again.C:
		}
	}
}

// resting reports whether a file is as it was seen before.
func (b *Board) resting(seen, now fs.FileInfo) bool {
	return seen != nil && os.SameFile(seen, now) && seen.ModTime().Equal(now.ModTime()) && seen.Size() == now.Size() &&
		time.Since(now.ModTime()) > boardQuiet
}

// look reads the notes that count.
func (b *Board) look(ctx context.Context) ([]watchdog.AlertNote, error) {
	read := make(chan []watchdog.AlertNote, 1)
	err := b.bounded(ctx, func() error {
		if _, err := os.Lstat(b.path); errors.Is(err, fs.ErrNotExist) {
			read <- nil
			return nil
		}
		return b.open(true, func(db *bbolt.DB) error {
			return db.View(func(tx *bbolt.Tx) error {
				notes, err := boardOf(tx)
				if err != nil {
					return err
				}
				all, junk, one := readNotes(notes)
				if b.junk.Swap(junk) != junk && junk > 0 {
					b.logger.Warn("entries of the file of notes are no notes and are passed over", "path", b.path, "count", junk, "one of them", one)
				}
				read <- all
				return nil
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return watchdog.StandingNotes(<-read, b.now()), nil
}
