package filestore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// What the quarantine keeps.
const (
	QuarantineAge   = 7 * 24 * time.Hour
	QuarantineCount = 10_000 // of one session
)

// Quarantine keeps what came late. It is safe for concurrent use.
type Quarantine struct{ file *File }

// Quarantine is the quarantine that the file holds.
func (f *File) Quarantine() *Quarantine { return &Quarantine{file: f} }

// kept is what came late, as it is stored.
type kept struct {
	Generation watchdog.Generation `json:"generation"`
	Original   []byte              `json:"original"` // any bytes, so in base64
	Source     watchdog.Source     `json:"source"`
	At         time.Time           `json:"quarantined_at"`
	LateBy     float64             `json:"late_by_secs"`
	MaybeNew   bool                `json:"maybe_new,omitempty"`
}

// Keep keeps l, and gives up what is too old or too much of its session.
func (q *Quarantine) Keep(ctx context.Context, l watchdog.Late) error {
	text, err := json.Marshal(kept{l.Generation, l.Raw, l.Source, l.At.UTC(), l.LateBy.Seconds(), l.MaybeNew})
	if err != nil {
		return fmt.Errorf("what came late from %s cannot be kept: %w", l.ID, err)
	}
	return q.file.update(ctx, func(tx *bbolt.Tx) error {
		session, err := tx.Bucket(bucketQuarantine).CreateBucketIfNotExists([]byte(l.ID))
		if err != nil {
			return err
		}
		n, err := session.NextSequence()
		if err != nil {
			return err
		}
		if err := session.Put(numbered(n), text); err != nil {
			return err
		}
		return trimQuarantine(session, n, l.At)
	})
}

// trimQuarantine gives up the oldest of a session, whose newest has the number
// last. Only the oldest go, so that numbers count.
func trimQuarantine(session *bbolt.Bucket, last uint64, now time.Time) error {
	oldest := numbered(last - min(last, QuarantineCount) + 1)
	cutoff := now.Add(-QuarantineAge)
	for {
		number, text := session.Cursor().First()
		if number == nil {
			return nil
		}
		var k kept
		if string(number) >= string(oldest) && json.Unmarshal(text, &k) == nil && !k.At.Before(cutoff) {
			return nil
		}
		if err := session.Delete(append([]byte(nil), number...)); err != nil {
			return err
		}
	}
}

// List gives up to limit of what came late from a session, newest first.
func (q *Quarantine) List(ctx context.Context, id watchdog.ID, limit int) ([]watchdog.Late, error) {
	var out []watchdog.Late
	err := q.file.view(ctx, func(tx *bbolt.Tx) error {
		session := tx.Bucket(bucketQuarantine).Bucket([]byte(id))
		if session == nil {
			return nil
		}
		cursor := session.Cursor()
		for number, text := cursor.Last(); number != nil && len(out) < limit; number, text = cursor.Prev() {
			var k kept
			if json.Unmarshal(text, &k) != nil {
				continue
			}
			out = append(out, watchdog.Late{
				ID: id, Generation: k.Generation, Raw: k.Original, Source: k.Source, At: k.At,
				LateBy: time.Duration(k.LateBy * float64(time.Second)), MaybeNew: k.MaybeNew,
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Sessions calls each with every session that has something in quarantine and
// how much, until it returns false.
func (q *Quarantine) Sessions(ctx context.Context, each func(id watchdog.ID, count int) bool) error {
	type session struct {
		id    watchdog.ID
		count int
	}
	var all []session
	err := q.file.view(ctx, func(tx *bbolt.Tx) error {
		quarantine := tx.Bucket(bucketQuarantine)
		return quarantine.ForEachBucket(func(name []byte) error {
			all = append(all, session{watchdog.ID(name), quarantine.Bucket(name).Stats().KeyN})
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, s := range all {
		if !each(s.id, s.count) {
			break
		}
	}
	return nil
}

// Prune gives up what is too old of sessions from which nothing comes any more.
// now is the wall clock. It is called now and then, an hour apart or so.
func (q *Quarantine) Prune(ctx context.Context, now time.Time) error {
	var ids [][]byte
	err := q.file.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketQuarantine).ForEachBucket(func(name []byte) error {
			ids = append(ids, append([]byte(nil), name...))
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := q.file.update(ctx, func(tx *bbolt.Tx) error { return pruneSession(tx, id, now) }); err != nil {
			return err
		}
	}
	return nil
}

func pruneSession(tx *bbolt.Tx, id []byte, now time.Time) error {
	quarantine := tx.Bucket(bucketQuarantine)
	session := quarantine.Bucket(id)
	if session == nil {
		return nil
	}
	if err := trimQuarantine(session, session.Sequence(), now); err != nil {
		return err
	}
	if first, _ := session.Cursor().First(); first == nil {
		return quarantine.DeleteBucket(id)
	}
	return nil
}
