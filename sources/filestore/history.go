package filestore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// What History keeps unless told otherwise.
const (
	DefaultHistoryAge   = 30 * 24 * time.Hour
	DefaultHistoryBytes = 64 << 20
)

// maxMomentText bounds one text of a moment, in bytes.
const maxMomentText = 1 << 10

// Moment is one entry of the history: something that happened to a session, or
// with an empty ID to the fleet.
type Moment struct {
	At         time.Time           `json:"at"` // wall clock of who noted it
	ID         watchdog.ID         `json:"session_id,omitempty"`
	Generation watchdog.Generation `json:"generation,omitempty"`
	Kind       string              `json:"kind"`
	From       string              `json:"from,omitempty"`
	To         string              `json:"to,omitempty"`
	Text       string              `json:"text,omitempty"`
}

// History keeps what happened, oldest out first. It is safe for concurrent use.
type History struct {
	file     *File
	maxAge   time.Duration
	maxBytes uint64
}

// History is the history that the file holds. Moments older than maxAge, by the
// newest one's time, and the oldest beyond maxBytes are given up as new ones
// come; zero means the default.
func (f *File) History(maxAge time.Duration, maxBytes int64) *History {
	if maxAge <= 0 {
		maxAge = DefaultHistoryAge
	}
	if maxBytes <= 0 {
		maxBytes = DefaultHistoryBytes
	}
	return &History{file: f, maxAge: maxAge, maxBytes: uint64(maxBytes)}
}

// keyHistoryBytes counts the bytes of all moments, in the meta bucket.
var keyHistoryBytes = []byte("history_bytes")

// Append notes moments in one step: all of them, or with an error none.
func (h *History) Append(ctx context.Context, moments ...Moment) error {
	if len(moments) == 0 {
		return nil
	}
	texts := make([][]byte, len(moments))
	for i, m := range moments {
		m.At = m.At.UTC()
		m.From, m.To, m.Text = clip(m.From), clip(m.To), clip(m.Text)
		var err error
		if texts[i], err = json.Marshal(m); err != nil {
			return fmt.Errorf("the history cannot take %q: %w", m.Kind, err)
		}
	}
	return h.file.update(ctx, func(tx *bbolt.Tx) error {
		bytes := historyBytes(tx)
		for i, m := range moments {
			if err := appendMoment(tx, m.ID, texts[i]); err != nil {
				return err
			}
			bytes += uint64(len(texts[i]))
		}
		cutoff := moments[len(moments)-1].At.Add(-h.maxAge)
		// A long rest of what is too old is given up bit by bit.
		bytes, err := trimHistory(tx, bytes, h.maxBytes, cutoff, 1000+2*len(moments))
		return errors.Join(err, tx.Bucket(bucketMeta).Put(keyHistoryBytes, numbered(bytes)))
	})
}

func clip(s string) string { return s[:min(len(s), maxMomentText)] }

func historyBytes(tx *bbolt.Tx) uint64 {
	if v := tx.Bucket(bucketMeta).Get(keyHistoryBytes); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func appendMoment(tx *bbolt.Tx, id watchdog.ID, text []byte) error {
	history := tx.Bucket(bucketHistory)
	n, err := history.NextSequence()
	if err != nil {
		return err
	}
	if err := history.Put(numbered(n), text); err != nil || id == "" {
		return err
	}
	line, err := tx.Bucket(bucketTimelines).CreateBucketIfNotExists([]byte(id))
	if err != nil {
		return err
	}
	return line.Put(numbered(n), nil)
}

// trimHistory gives up the oldest moments, at most limit of them, and returns
// the bytes that are left.
func trimHistory(tx *bbolt.Tx, bytes, maxBytes uint64, cutoff time.Time, limit int) (uint64, error) {
	history := tx.Bucket(bucketHistory)
	for range limit {
		number, text := history.Cursor().First()
		if number == nil {
			return 0, nil
		}
		var m Moment
		unread := json.Unmarshal(text, &m) != nil
		if !unread && bytes <= maxBytes && !m.At.Before(cutoff) {
			break
		}
		bytes -= min(bytes, uint64(len(text)))
		if err := forgetMoment(tx, m.ID, number); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

func forgetMoment(tx *bbolt.Tx, id watchdog.ID, number []byte) error {
	number = append([]byte(nil), number...) // the page it stands in changes
	if err := tx.Bucket(bucketHistory).Delete(number); err != nil || id == "" {
		return err
	}
	lines := tx.Bucket(bucketTimelines)
	line := lines.Bucket([]byte(id))
	if line == nil {
		return nil
	}
	if err := line.Delete(number); err != nil {
		return err
	}
	if first, _ := line.Cursor().First(); first == nil {
		return lines.DeleteBucket([]byte(id))
	}
	return nil
}

// Session gives up to limit moments of one session, newest first.
func (h *History) Session(ctx context.Context, id watchdog.ID, limit int) ([]Moment, error) {
	var out []Moment
	err := h.file.view(ctx, func(tx *bbolt.Tx) error {
		line := tx.Bucket(bucketTimelines).Bucket([]byte(id))
		if line == nil {
			return nil
		}
		history, cursor := tx.Bucket(bucketHistory), line.Cursor()
		for number, _ := cursor.Last(); number != nil && len(out) < limit; number, _ = cursor.Prev() {
			out = appendRead(out, history.Get(number))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Fleet gives up to limit moments of all sessions that are not older than since,
// newest first.
func (h *History) Fleet(ctx context.Context, since time.Time, limit int) ([]Moment, error) {
	var out []Moment
	err := h.file.view(ctx, func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucketHistory).Cursor()
		for number, text := cursor.Last(); number != nil && len(out) < limit; number, text = cursor.Prev() {
			before := len(out)
			if out = appendRead(out, text); len(out) > before && out[before].At.Before(since) {
				out = out[:before]
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// appendRead leaves out a moment that cannot be read.
func appendRead(out []Moment, text []byte) []Moment {
	var m Moment
	if json.Unmarshal(text, &m) != nil {
		return out
	}
	return append(out, m)
}

// Oldest is when the oldest moment was noted; zero: there is none.
func (h *History) Oldest(ctx context.Context) (at time.Time, err error) {
	err = h.file.view(ctx, func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucketHistory).Cursor()
		for number, text := cursor.First(); number != nil; number, text = cursor.Next() {
			if one := appendRead(nil, text); len(one) == 1 {
				at = one[0].At
				return nil
			}
		}
		return nil
	})
	return at, err
}
