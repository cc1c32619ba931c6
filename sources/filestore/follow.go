package filestore

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// followPage is how many heads or records are read in one transaction: a long
// one would hold back the space that writers set free.
const followPage = 1000

// change names a head (generation 0) or a record that was written.
type change struct {
	id         watchdog.ID
	generation watchdog.Generation
}

// follower collects what one Follow has not told yet.
type follower struct {
	wake chan struct{}

	mu      sync.Mutex
	pending []change
}

// changed tells all followers. The file has one owner, so that whoever writes to
// it passes here.
func (f *File) changed(c change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for to := range f.followers {
		to.mu.Lock()
		to.pending = append(to.pending, c)
		to.mu.Unlock()
		select {
		case to.wake <- struct{}{}:
		default:
		}
	}
}

// Follow tells what stands, then each change, until ctx ends.
func (l *Ledger) Follow(ctx context.Context, post func(watchdog.Event)) error {
	me := &follower{wake: make(chan struct{}, 1)}
	l.file.mu.Lock()
	l.file.followers[me] = struct{}{}
	l.file.mu.Unlock()
	defer func() {
		l.file.mu.Lock()
		delete(l.file.followers, me)
		l.file.mu.Unlock()
	}()
	if err := l.tellAll(ctx, post); err != nil {
		return ended(ctx, err)
	}
	post(watchdog.FollowedUp{At: l.clock.Now().Mono})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-me.wake:
		}
		me.mu.Lock()
		changes := me.pending
		me.pending = nil
		me.mu.Unlock()
		for _, c := range changes {
			if err := l.tell(ctx, c, post); err != nil {
				return ended(ctx, err)
			}
		}
	}
}

// ended is nil if ctx is over: then an error tells nothing else.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// tellAll tells all heads, then all records.
func (l *Ledger) tellAll(ctx context.Context, post func(watchdog.Event)) error {
	heads := func(key, text []byte) { l.postHead(watchdog.ID(key), text, post) }
	records := func(key, text []byte) {
		if id, g, ok := splitKey(key); ok {
			l.postRecord(id, g, text, post)
		}
	}
	return errors.Join(l.pages(ctx, bucketHeads, heads), l.pages(ctx, bucketRecords, records))
}

// pages calls each for every entry of a bucket, outside of any transaction.
func (l *Ledger) pages(ctx context.Context, bucket []byte, each func(key, value []byte)) error {
	type entry struct{ key, value []byte }
	var last []byte
	for {
		var page []entry
		err := l.file.view(ctx, func(tx *bbolt.Tx) error {
			cursor := tx.Bucket(bucket).Cursor()
			key, value := cursor.Seek(last)
			if last != nil && bytes.Equal(key, last) {
				key, value = cursor.Next()
			}
			for ; key != nil && len(page) < followPage; key, value = cursor.Next() {
				page = append(page, entry{bytes.Clone(key), bytes.Clone(value)})
			}
			return nil
		})
		if err != nil {
			return away(err)
		}
		for _, e := range page {
			each(e.key, e.value)
		}
		if len(page) < followPage {
			return nil
		}
		last = page[len(page)-1].key
	}
}

// tell tells one change as it stands now.
func (l *Ledger) tell(ctx context.Context, c change, post func(watchdog.Event)) error {
	if c.generation == 0 {
		text, err := l.get(ctx, bucketHeads, []byte(c.id))
		if err == nil && text != nil {
			l.postHead(c.id, text, post)
		}
		return err
	}
	text, err := l.get(ctx, bucketRecords, recordKey(c.id, c.generation))
	if err == nil && text != nil {
		l.postRecord(c.id, c.generation, text, post)
	}
	return err
}

func (l *Ledger) postHead(id watchdog.ID, text []byte, post func(watchdog.Event)) {
	h, err := wire.DecodeHead(id, text)
	if err != nil {
		l.file.logger.Warn("a head in the ledger cannot be read", "path", l.file.path, "reason", err.Error())
		return
	}
	post(watchdog.HeadSeen{Head: h, At: l.clock.Now().Mono})
}

func (l *Ledger) postRecord(id watchdog.ID, g watchdog.Generation, text []byte, post func(watchdog.Event)) {
	at := l.clock.Now().Mono
	r, err := l.seal.Open(id, g, text)
	if err != nil {
		post(watchdog.TerminalSeen{ID: id, Generation: g, Foreign: true, Reason: err.Error(), At: at})
		return
	}
	post(r.Seen(at))
}
