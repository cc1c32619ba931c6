package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"
)

// What a board holds at most, and for how long.
const (
	// MaxNotes is how many notes a board holds. Those that have lapsed go first
	// when there are more, then the oldest.
	MaxNotes = 10_000
	// ClearedFor is how long a NoteClear stands: long enough for an older note of
	// a colleague who was cut off to come too late.
	ClearedFor = 7 * 24 * time.Hour
	// NoteKept is how long any other note stands after the later of At and Until.
	NoteKept = 30 * 24 * time.Hour
	// NoteAhead is how far a note's time may lie ahead of the reader's wall clock.
	// One beyond it could never be answered, so it is none.
	NoteAhead = 24 * time.Hour
	// maxKeyBytes is the longest key: that of a session's alert.
	maxKeyBytes = 320
)

// NewerNote is the error of NoteBoard.Put if a newer note of the key stands: then
// nothing was written.
type NewerNote struct{ Stands AlertNote }

// Error says who wrote it, and when.
func (e *NewerNote) Error() string {
	return fmt.Sprintf("a newer note stands there: %s by %s at %s; look at it, and at your clock, before you write again",
		e.Stands.Kind, e.Stands.Author, e.Stands.At.Format("15:04:05.000Z"))
}

// KeptHere is the error of who kept a note, but where the people of this machine
// alone see it.
type KeptHere struct{ Why string }

// Error says that it is kept, and why not elsewhere.
func (e *KeptHere) Error() string { return "kept on this machine alone: " + e.Why }

// Check says why a note cannot be put on a board.
func (n AlertNote) Check() error {
	switch pattern, isPattern := n.Key.Pattern(); {
	case n.Key == "" || len(n.Key) > maxKeyBytes:
		return fmt.Errorf("a note needs the key of an alert, of 1 to %d bytes", maxKeyBytes)
	case isPattern && pattern == "":
		return errors.New("a note of many sessions needs a pattern, such as etl-*")
	case isPattern && !wellFormed(pattern):
		return fmt.Errorf("%q is no pattern; write one such as etl-* or batch-[0-9]*", pattern)
	case int(n.Kind) >= len(noteKindNames):
		return errors.New("a note is an ack, a snooze, a mute or a clear")
	case n.At.IsZero():
		return errors.New("a note needs the time at which it was written")
	case n.Kind == NoteSnooze && n.Until.IsZero():
		return errors.New("a snooze needs an end")
	}
	return nil
}

func wellFormed(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil
}

// OnBoard is the note as boards keep it: its times in UTC, in milliseconds.
func (n AlertNote) OnBoard() AlertNote {
	n.At = n.At.UTC().Truncate(time.Millisecond)
	if !n.Until.IsZero() {
		n.Until = n.Until.UTC().Truncate(time.Millisecond)
	}
	return n
}

// Order tells which of two notes of a key counts: the later one, by At, then by
// author, then by what it says, so that all observers agree. Above 0: n does.
func (n AlertNote) Order(o AlertNote) int {
	return cmp.Or(n.At.Compare(o.At), cmp.Compare(n.Author, o.Author), cmp.Compare(n.Kind, o.Kind),
		n.Until.Compare(o.Until), cmp.Compare(n.Evidence, o.Evidence), cmp.Compare(n.Text, o.Text))
}

// Ahead reports whether a note cannot have been written yet, by the reader's
// wall clock.
func (n AlertNote) Ahead(now time.Time) bool { return n.At.Sub(now) > NoteAhead }

// Lapsed reports whether a note answers nothing any more, by the reader's wall
// clock.
func (n AlertNote) Lapsed(now time.Time) bool {
	return n.Kind == NoteClear || !n.Until.IsZero() && !n.Until.After(now)
}

// Matches reports whether a note is of every session whose id matches a pattern,
// and id is one.
func (n AlertNote) Matches(id ID) bool {
	pattern, ok := n.Key.Pattern()
	if !ok {
		return false
	}
	matched, err := path.Match(pattern, string(id))
	return err == nil && matched
}

// Disposable reports whether a board may drop a note, by the reader's wall clock.
func (n AlertNote) Disposable(now time.Time) bool {
	if n.Kind == NoteClear {
		return now.Sub(n.At) > ClearedFor
	}
	last := n.At
	if n.Until.After(last) {
		last = n.Until
	}
	return now.Sub(last) > NoteKept
}

// StandingNotes gives the notes that count of all those that were read, by key:
// the newest of each, without what was taken back, and MaxNotes at most.
func StandingNotes(read []AlertNote, now time.Time) []AlertNote {
	newest := make(map[AlertKey]AlertNote, len(read))
	for _, n := range read {
		if stands, ok := newest[n.Key]; !n.Ahead(now) && (!ok || n.Order(stands) > 0) {
			newest[n.Key] = n
		}
	}
	out := make([]AlertNote, 0, len(newest))
	for _, n := range newest {
		if n.Kind != NoteClear && !n.Disposable(now) {
			out = append(out, n)
		}
	}
	if len(out) > MaxNotes {
		slices.SortFunc(out, func(a, b AlertNote) int { return dropOrder(b, a, now) })
		out = out[:MaxNotes]
	}
	slices.SortFunc(out, func(a, b AlertNote) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// SurplusNotes gives those of a board's notes that whoever writes to it removes:
// what may be dropped, and what is too much.
func SurplusNotes(board []AlertNote, now time.Time) []AlertNote {
	var drop, keep []AlertNote
	for _, n := range board {
		if n.Disposable(now) || n.Ahead(now) {
			drop = append(drop, n)
		} else {
			keep = append(keep, n)
		}
	}
	if over := len(keep) - MaxNotes; over > 0 {
		slices.SortFunc(keep, func(a, b AlertNote) int { return dropOrder(a, b, now) })
		drop = append(drop, keep[:over]...)
	}
	return drop
}

// dropOrder sorts what is dropped first to the front.
func dropOrder(a, b AlertNote, now time.Time) int {
	rank := func(n AlertNote) int {
		if n.Lapsed(now) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Order(b), cmp.Compare(a.Key, b.Key))
}

// MayReplace says why a note may not be put where another stands: a *NewerNote.
// Both are as OnBoard gives them.
func (n AlertNote) MayReplace(stands AlertNote, now time.Time) error {
	if stands.Ahead(now) || n.Order(stands) > 0 {
		return nil
	}
	return &NewerNote{stands}
}

// MemoryBoard is a NoteBoard that lives as long as its process: for tests, and
// for a demo. It is safe for concurrent use, and keeps notes as they are.
type MemoryBoard struct {
	now func() time.Time

	mu       sync.Mutex
	notes    map[AlertKey]AlertNote
	watchers map[chan struct{}]struct{}
}

// NewMemoryBoard makes an empty board. now is the wall clock; nil: time.Now.
func NewMemoryBoard(now func() time.Time) *MemoryBoard {
	if now == nil {
		now = time.Now
	}
	return &MemoryBoard{now: now, notes: map[AlertKey]AlertNote{}, watchers: map[chan struct{}]struct{}{}}
}

// Put writes one note.
func (b *MemoryBoard) Put(ctx context.Context, n AlertNote) error {
	if err := errors.Join(ctx.Err(), n.Check()); err != nil {
		return err
	}
	n = n.OnBoard()
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if stands, ok := b.notes[n.Key]; ok {
		if n.Order(stands) == 0 {
			return nil
		}
		if err := n.MayReplace(stands, now); err != nil {
			return err
		}
	}
	b.notes[n.Key] = n
	for _, drop := range SurplusNotes(b.all(), now) {
		delete(b.notes, drop.Key)
	}
	for wake := range b.watchers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return nil
}

func (b *MemoryBoard) all() []AlertNote {
	out := make([]AlertNote, 0, len(b.notes))
	for _, n := range b.notes {
		out = append(out, n)
	}
	return out
}

// Watch tells the set at first and after each change, until ctx ends.
func (b *MemoryBoard) Watch(ctx context.Context, tell func([]AlertNote)) error {
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	b.mu.Lock()
	b.watchers[wake] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, wake)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.mu.Lock()
		all := b.all()
		b.mu.Unlock()
		tell(StandingNotes(all, b.now()))
	}
}
