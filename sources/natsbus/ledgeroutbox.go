package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The stream SW_TERMINAL is its own outbox: the key "told" of SW_META says which
// sequences are done. It is changed by compare-and-set, so any number of
// sweepers may work at it, and what a crash leaves is told once more.
const metaTold = "told"

// maxSpans bounds the cursor. What does not fit is told once more.
const maxSpans = 2000

// maxSequence is more than any stream will reach.
const maxSequence = 1 << 62

// span is a run of sequences, both ends included.
type span [2]uint64

// spans are runs in order that do not touch.
type spans []span

// has reports whether seq is in one of them.
func (s spans) has(seq uint64) bool {
	i, found := s.find(seq)
	return found || i < len(s) && s[i][0] <= seq
}

// find gives the first span that ends at seq or behind it.
func (s spans) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(s, seq, func(r span, seq uint64) int {
		switch {
		case r[1] < seq:
			return -1
		case r[1] > seq:
			return 1
		}
		return 0
	})
}

// with adds a run.
func (s spans) with(add span) spans {
	out := make(spans, 0, len(s)+1)
	for _, r := range s {
		switch {
		case r[1]+1 < add[0]:
			out = append(out, r)
		case add[1]+1 < r[0]:
			out = append(out, add)
			add = r
		default:
			add = span{min(r[0], add[0]), max(r[1], add[1])}
		}
	}
	return append(out, add)
}

// free gives the first sequence from seq on that is in none of them.
func (s spans) free(seq uint64) uint64 {
	for _, r := range s {
		if r[0] <= seq && seq <= r[1] {
			seq = r[1] + 1
		}
	}
	return seq
}

// valid reports whether s is in order: it came from a bus.
func (s spans) valid() bool {
	last := uint64(0)
	for _, r := range s {
		if r[0] == 0 || r[1] < r[0] || r[1] > maxSequence || last > 0 && r[0] <= last+1 {
			return false
		}
		last = r[1]
	}
	return true
}

// Outbox gives the oldest records that are not told.
func (l *Ledger) Outbox(ctx context.Context, limit int) ([]watchdog.Record, error) {
	c, err := l.ready(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.tell(ctx); err != nil {
		return nil, err
	}
	defer func() { <-l.telling }()
	told, _, err := l.told(ctx, c)
	if err != nil {
		return nil, away(err)
	}
	var out []watchdog.Record
	for seq := uint64(1); len(out) < limit; seq++ {
		if next := told.free(l.skipped.free(l.junk.free(seq))); next != seq {
			seq = next - 1
			continue
		}
		m, found, err := l.js.message(ctx, c, wire.TerminalStream, sought{Sequence: seq, Next: wire.TerminalSubjectAll})
		if err != nil {
			return nil, away(err)
		}
		if !found {
			break
		}
		seq = m.Sequence
		if told.has(seq) {
			continue
		}
		if r, ok := l.recordOf(m); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// recordOf reads a message of the stream; what is none of ours is remembered.
func (l *Ledger) recordOf(m stored) (watchdog.Record, bool) {
	id, g, ok := wire.GenerationFromSubject(m.Subject)
	if !ok {
		l.junk = l.junk.with(span{m.Sequence, m.Sequence})
		return watchdog.Record{}, false
	}
	r, err := l.options.Seal.Open(id, g, m.Data)
	if err != nil {
		// Somebody else may have the key to it, so it is not done for all.
		l.skipped = l.skipped.with(span{m.Sequence, m.Sequence})
	}
	return r, err == nil
}

func (l *Ledger) tell(ctx context.Context) error {
	select {
	case l.telling <- struct{}{}:
		return nil
	case <-ctx.Done():
		return away(ctx.Err())
	}
}

// told reads the cursor and its revision.
func (l *Ledger) told(ctx context.Context, c *conn) (spans, uint64, error) {
	m, found, err := l.js.message(ctx, c, metaStream, sought{Last: metaSubject(metaTold)})
	if err != nil || !found || isGrave(m) {
		return nil, m.Sequence, err
	}
	var s spans
	if err := json.Unmarshal(m.Data, &s); err != nil || !s.valid() {
		return nil, 0, errors.New("the key told of the bucket SW_META cannot be read; find out who wrote it, then delete it: all ends are told once more")
	}
	return s, m.Sequence, nil
}

// Told takes a record out of the outbox.
func (l *Ledger) Told(ctx context.Context, r watchdog.Record) error {
	if !wire.ValidID(r.ID) || r.Generation == 0 {
		return fmt.Errorf("%q#%d is no generation", r.ID, r.Generation)
	}
	c, err := l.writable(ctx)
	if err != nil {
		return err
	}
	m, found, err := l.js.message(ctx, c, wire.TerminalStream, sought{Last: wire.TerminalSubject(r.ID, r.Generation)})
	if err != nil {
		return away(err)
	}
	if !found {
		return nil
	}
	if err := l.tell(ctx); err != nil {
		return err
	}
	defer func() { <-l.telling }()
	for {
		told, rev, err := l.told(ctx, c)
		if err != nil {
			return away(err)
		}
		if told.has(m.Sequence) {
			return nil
		}
		told = told.with(span{m.Sequence, m.Sequence})
		for _, j := range l.junk {
			told = told.with(j)
		}
		payload, err := json.Marshal(told[:min(len(told), maxSpans)])
		if err != nil {
			return err
		}
		_, err = l.js.store(ctx, c, metaStream, metaSubject(metaTold), payload, lastSequence(rev))
		if err == nil || !isFault(err, faultWrongSequence) {
			return plainly(err)
		}
	}
}
