package redisstore

import (
	"log/slog"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Sink is told what the store sees. Neither call may block.
type Sink interface {
	// Beats takes a batch. It copies the structs; the bytes that they point to
	// are never written again.
	Beats(batch []watchdog.Beat)
	Post(ev watchdog.Event)
}

// Witness is what a Sink may be besides: it is shown each value that is no beat,
// before it is forgotten, and each value of a session that it watches. It must
// not block, and copies what it keeps.
type Witness interface {
	Watches(id watchdog.ID) bool
	NoteStanding(source watchdog.Source, id watchdog.ID, raw []byte, at time.Duration)
	NoteRefused(source watchdog.Source, id watchdog.ID, raw []byte, size int, why watchdog.Refusal, at time.Duration)
}

const (
	batchSize   = 256
	arenaSize   = 64 << 10
	refusalTick = time.Second // refusals are told and logged at most so often
)

// outbox turns values into beats and hands everything to the sink in batches.
type outbox struct {
	sink    Sink
	witness Witness // nil: the sink is none
	logger  *slog.Logger
	leases  *leaseWatch // nil: nobody wants to know

	batch []watchdog.Beat
	arena []byte // copies of changed values; never used again once full

	refused   watchdog.Refused
	pending   bool
	refusedAt time.Duration
}

func newOutbox(sink Sink, logger *slog.Logger) *outbox {
	witness, _ := sink.(Witness)
	return &outbox{
		sink: sink, witness: witness, logger: logger, batch: make([]watchdog.Beat, 0, batchSize),
		refusedAt: -refusalTick,
	}
}

// value decodes a copy of a value and queues the beat. It returns false if the
// value is no beat; then it is counted as refused.
func (o *outbox) value(key string, value []byte, at time.Duration, kind watchdog.AgeKind, age time.Duration) bool {
	o.batch = append(o.batch, watchdog.Beat{})
	b := &o.batch[len(o.batch)-1]
	subject, _ := wire.IDFromKey(key)
	raw := o.keep(value)
	if err := wire.DecodeBeat(b, []byte(subject), raw); err != nil {
		o.batch = o.batch[:len(o.batch)-1]
		reason, ok := err.(watchdog.Refusal)
		if !ok {
			reason = watchdog.RefusedJSON
		}
		o.refuse(reason, key, raw, len(raw), at)
		return false
	}
	b.Source, b.Received, b.AgeKind, b.Age, b.Raw = watchdog.SourceRedis, at, kind, age, raw
	if b.Dropped > 0 {
		o.refused.Fields += uint64(b.Dropped)
		o.pending = true
	}
	if b.BootID != nil && o.leases != nil {
		o.leases.meet(watchdog.ID(subject), at)
	}
	if len(o.batch) == batchSize {
		o.flushBeats()
	}
	return true
}

// keep copies a value out of the reply buffer, which the next answer overwrites.
func (o *outbox) keep(value []byte) []byte {
	if len(value) > cap(o.arena)-len(o.arena) {
		o.arena = make([]byte, 0, max(arenaSize, len(value)))
	}
	start := len(o.arena)
	o.arena = append(o.arena, value...)
	return o.arena[start:len(o.arena):len(o.arena)]
}

// standing shows the witness a value that did not change.
func (o *outbox) standing(key string, value []byte, at time.Duration) {
	if o.witness == nil {
		return
	}
	if id, ok := wire.IDFromKey(key); ok && o.witness.Watches(watchdog.ID(id)) {
		o.witness.NoteStanding(watchdog.SourceRedis, watchdog.ID(id), value, at)
	}
}

// refuse counts a value that is no beat. raw is nil where only its size was asked.
func (o *outbox) refuse(reason watchdog.Refusal, key string, raw []byte, size int, at time.Duration) {
	o.refused.Counts[reason]++
	id, _ := wire.IDFromKey(key)
	if o.witness != nil {
		o.witness.NoteRefused(watchdog.SourceRedis, watchdog.ID(id), raw, size, reason, at)
	}
	o.refused.Last, o.refused.LastID, o.refused.At = reason, termtext.Clean(id), at
	o.pending = true
}

func (o *outbox) gone(key string, lastSeen time.Duration, polls int, at time.Duration) {
	if id, ok := wire.IDFromKey(key); ok {
		o.post(watchdog.KeyGone{Source: watchdog.SourceRedis, ID: watchdog.ID(id), LastSeen: lastSeen, Polls: polls, At: at})
	}
}

func (o *outbox) back(key string, at time.Duration) {
	if id, ok := wire.IDFromKey(key); ok {
		o.post(watchdog.KeyBack{Source: watchdog.SourceRedis, ID: watchdog.ID(id), At: at})
	}
}

// post keeps the order: beats queued before an event are told before it.
func (o *outbox) post(ev watchdog.Event) {
	o.flushBeats()
	o.sink.Post(ev)
}

// flush tells what is queued.
func (o *outbox) flush(now time.Duration) {
	o.flushBeats()
	if !o.pending || now-o.refusedAt < refusalTick {
		return
	}
	o.refused.Source, o.refused.At = watchdog.SourceRedis, now
	o.sink.Post(o.refused)
	if n := total(o.refused); n > 0 {
		o.logger.Warn("refused values of liveness keys", "count", n, "last", o.refused.Last.String(), "id", o.refused.LastID)
	}
	o.refused, o.pending, o.refusedAt = watchdog.Refused{}, false, now
}

func total(r watchdog.Refused) (n uint64) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

func (o *outbox) flushBeats() {
	if len(o.batch) > 0 {
		o.sink.Beats(o.batch)
		o.batch = o.batch[:0]
	}
}
