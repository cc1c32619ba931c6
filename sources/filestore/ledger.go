package filestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Ledger is the ledger of the sessions of one machine. Its authority is the
// file: what it answers is on the disk.
type Ledger struct {
	file  *File
	seal  wire.Seal
	clock watchdog.Clock
}

// Ledger is the ledger that the file holds.
func (f *File) Ledger(seal wire.Seal, clock watchdog.Clock) *Ledger {
	return &Ledger{file: f, seal: seal, clock: clock}
}

// Authority names the file by the identity that it was made with.
func (l *Ledger) Authority() watchdog.Authority {
	return watchdog.Authority{Name: watchdog.AuthorityFile, Identity: l.file.identity}
}

// Check finds out whether the file that we write to still is the one at its
// path, and proves with a compare-and-set that it takes what is written.
func (l *Ledger) Check(ctx context.Context) error {
	if err := l.inPlace(); err != nil {
		return away(err)
	}
	fresh := []byte(randomID())
	err := l.file.update(ctx, func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if got := string(meta.Get(keyIdentity)); got != l.file.identity {
			return fmt.Errorf("%s says that it is %q, and was %q when it was opened; restart sessionwatch", l.file.path, got, l.file.identity)
		}
		return meta.Put(keySelfTest, fresh)
	})
	if err != nil {
		return away(err)
	}
	return away(l.file.view(ctx, func(tx *bbolt.Tx) error {
		if !bytes.Equal(tx.Bucket(bucketMeta).Get(keySelfTest), fresh) {
			return fmt.Errorf("%s does not hold what was just written to it; restart sessionwatch", l.file.path)
		}
		return nil
	}))
}

// inPlace notices a file that was removed or replaced under our hands: what we
// write would be lost with our process.
func (l *Ledger) inPlace() error {
	ours, err := l.file.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(l.file.path)
	if err != nil || !os.SameFile(ours, there) {
		return fmt.Errorf("%s was removed or replaced while it was open; put it back, or restart sessionwatch to begin anew", l.file.path)
	}
	return nil
}

func away(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", watchdog.ErrAuthorityAway, err)
}

// WriteOnce writes the record, and its place in the outbox, unless one stands.
func (l *Ledger) WriteOnce(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	text, err := l.seal.Record(r)
	if err != nil {
		return watchdog.Record{}, err
	}
	standing, found, err := l.Record(ctx, r.ID, r.Generation)
	if err != nil || found {
		return standing, err
	}
	key := recordKey(r.ID, r.Generation)
	err = l.file.update(ctx, func(tx *bbolt.Tx) error {
		records := tx.Bucket(bucketRecords)
		if records.Get(key) != nil {
			return errStands
		}
		return errors.Join(records.Put(key, text), enqueue(tx, key))
	})
	var unfinished errUnfinished
	switch {
	case err == nil:
		l.file.changed(change{id: r.ID, generation: r.Generation})
	case errors.As(err, &unfinished):
		return l.afterUnfinished(ctx, r, unfinished)
	case !errors.Is(err, errStands):
		return watchdog.Record{}, away(err)
	}
	standing, found, err = l.Record(ctx, r.ID, r.Generation)
	if err == nil && !found {
		err = away(fmt.Errorf("%s does not hold what was just written to it; restart sessionwatch", l.file.path))
	}
	return standing, err
}

// errStands is the answer to a write that somebody else made first.
var errStands = errors.New("it stands already")

// afterUnfinished finds out what became of a record whose commit failed.
func (l *Ledger) afterUnfinished(ctx context.Context, r watchdog.Record, unfinished error) (watchdog.Record, error) {
	standing, found, err := l.Record(ctx, r.ID, r.Generation)
	switch {
	case err != nil:
		return watchdog.Record{}, fmt.Errorf("%w: %w", watchdog.ErrUnknown, unfinished)
	case found && standing.Nonce == r.Nonce:
		// It can be read, and perhaps only from memory: the disk did not say
		// that it has it.
		return watchdog.Record{}, fmt.Errorf("%w: %w", watchdog.ErrUnknown, unfinished)
	case found:
		return standing, nil
	}
	return watchdog.Record{}, away(unfinished)
}

// Record reads the terminal record of one generation.
func (l *Ledger) Record(ctx context.Context, id watchdog.ID, g watchdog.Generation) (watchdog.Record, bool, error) {
	text, err := l.get(ctx, bucketRecords, recordKey(id, g))
	if err != nil || text == nil {
		return watchdog.Record{}, false, err
	}
	r, err := l.seal.Open(id, g, text)
	return r, err == nil, err
}

// get copies one value; nil is none.
func (l *Ledger) get(ctx context.Context, bucket, key []byte) ([]byte, error) {
	var value []byte
	err := l.file.view(ctx, func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket(bucket).Get(key))
		return nil
	})
	if err != nil {
		return nil, away(err)
	}
	return value, nil
}

// Head reads the newest generation of a session. Its revision is its text.
func (l *Ledger) Head(ctx context.Context, id watchdog.ID) (watchdog.Head, watchdog.Revision, error) {
	text, err := l.get(ctx, bucketHeads, []byte(id))
	if err != nil || text == nil {
		return watchdog.Head{}, "", err
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
	err = l.file.update(ctx, func(tx *bbolt.Tx) error {
		heads := tx.Bucket(bucketHeads)
		if string(heads.Get([]byte(h.ID))) != string(rev) {
			return watchdog.ErrConflict
		}
		return heads.Put([]byte(h.ID), text)
	})
	var unfinished errUnfinished
	switch {
	case err == nil:
		l.file.changed(change{id: h.ID})
		return watchdog.Revision(text), nil
	case errors.Is(err, watchdog.ErrConflict):
		return "", err
	case errors.As(err, &unfinished):
		return "", fmt.Errorf("%w: %w", watchdog.ErrUnknown, unfinished)
	}
	return "", away(err)
}

// Outbox gives the records that are not told yet, oldest first. One that cannot
// be read is left out; it blocks its own generation alone.
func (l *Ledger) Outbox(ctx context.Context, limit int) ([]watchdog.Record, error) {
	var out []watchdog.Record
	err := l.file.view(ctx, func(tx *bbolt.Tx) error {
		records, cursor := tx.Bucket(bucketRecords), tx.Bucket(bucketOutbox).Cursor()
		for number, key := cursor.First(); number != nil && len(out) < limit; number, key = cursor.Next() {
			id, g, ok := splitKey(key)
			if !ok {
				continue
			}
			if r, err := l.seal.Open(id, g, records.Get(key)); err == nil {
				out = append(out, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, away(err)
	}
	return out, nil
}

// Told takes a record out of the outbox.
func (l *Ledger) Told(ctx context.Context, r watchdog.Record) error {
	key := recordKey(r.ID, r.Generation)
	return away(l.file.update(ctx, func(tx *bbolt.Tx) error {
		untold := tx.Bucket(bucketUntold)
		number := bytes.Clone(untold.Get(key))
		if number == nil {
			return nil
		}
		return errors.Join(tx.Bucket(bucketOutbox).Delete(number), untold.Delete(key))
	}))
}

func enqueue(tx *bbolt.Tx, key []byte) error {
	outbox := tx.Bucket(bucketOutbox)
	n, err := outbox.NextSequence()
	if err != nil {
		return err
	}
	number := numbered(n)
	return errors.Join(outbox.Put(number, key), tx.Bucket(bucketUntold).Put(key, number))
}

// recordKey is the place of a generation: no id holds a zero byte.
func recordKey(id watchdog.ID, g watchdog.Generation) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(id), 0), uint32(g))
}

func splitKey(key []byte) (id watchdog.ID, g watchdog.Generation, ok bool) {
	end := len(key) - 5
	if end < 1 || key[end] != 0 {
		return "", 0, false
	}
	return watchdog.ID(key[:end]), watchdog.Generation(binary.BigEndian.Uint32(key[end+1:])), true
}

func numbered(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// ReadAuthority gives the authority that is written down beside this ledger.
func (l *Ledger) ReadAuthority(ctx context.Context) (watchdog.Authority, bool, error) {
	text, err := l.get(ctx, bucketMeta, keyMarker)
	if err != nil || text == nil {
		return watchdog.Authority{}, false, err
	}
	a, err := wire.DecodeAuthority(text)
	return a, err == nil, err
}

// CreateAuthority writes a down unless an authority is written down already.
func (l *Ledger) CreateAuthority(ctx context.Context, a watchdog.Authority) (watchdog.Authority, error) {
	text, err := wire.EncodeAuthority(a)
	if err != nil {
		return watchdog.Authority{}, err
	}
	err = l.file.update(ctx, func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta.Get(keyMarker) != nil {
			return errStands
		}
		return meta.Put(keyMarker, text)
	})
	if err != nil && !errors.Is(err, errStands) {
		return watchdog.Authority{}, away(err)
	}
	standing, found, err := l.ReadAuthority(ctx)
	if err == nil && !found {
		err = away(fmt.Errorf("%s does not hold what was just written to it; restart sessionwatch", l.file.path))
	}
	return standing, err
}

// MarkerName is how people call this place.
func (l *Ledger) MarkerName() string { return "the file " + l.file.path }
