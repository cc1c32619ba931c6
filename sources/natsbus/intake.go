package natsbus

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// A batch goes to the sink when it is full, or this long after its first beat. A
// beat that comes alone goes at once: while few arrive, a timer would cost more
// than all the rest.
const (
	batchSize   = 256
	batchWithin = time.Millisecond
)

// intake turns messages into batches of beats, and counts what it refuses. One
// intake outlives the connections whose messages it takes.
type intake struct {
	mono    func() time.Duration
	sink    Sink
	witness Witness // nil: the sink is none
	log     *slog.Logger

	mu      sync.Mutex
	batch   []watchdog.Beat
	late    *time.Timer   // sends a batch that does not fill
	sent    time.Duration // when a batch went out last
	closed  bool
	handled uint64 // messages since the connection was made
	beats   uint64 // accepted, ever

	refused watchdog.Refused // since it was last posted
	posted  time.Duration    // when that was; -1 never
	logged  bool             // a panic was logged since then
}

func newIntake(mono func() time.Duration, sink Sink, log *slog.Logger) *intake {
	in := &intake{mono: mono, sink: sink, log: log, batch: make([]watchdog.Beat, 0, batchSize), posted: -1}
	in.witness, _ = sink.(Witness)
	in.late = time.AfterFunc(time.Hour, in.flush)
	return in
}

// message is called by the client library for each message, on the one
// goroutine of a subscription.
func (in *intake) message(m *nats.Msg) {
	received := in.mono()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	in.handled++
	n := len(in.batch)
	in.batch = in.batch[:n+1]
	b := &in.batch[n]
	if err := in.decode(b, m); err != nil {
		in.batch = in.batch[:n]
		in.refuse(err, m, received)
		return
	}
	b.Source, b.Received, b.Raw = watchdog.SourceNATS, received, m.Data
	in.beats++
	in.refused.Fields += uint64(b.Dropped)
	switch {
	case n == batchSize-1, n == 0 && received-in.sent >= batchWithin:
		in.sent = received
		in.deliver()
	case n == 0:
		in.late.Reset(batchWithin)
	}
}

// decode reads one message. The memory of subject and payload is the message's
// own: the client library never uses it again, so the beat may point into it.
func (in *intake) decode(b *watchdog.Beat, m *nats.Msg) (err error) {
	defer func() {
		if r := recover(); r != nil { // one message must never end the screen
			err = watchdog.RefusedJSON
			if !in.logged {
				in.logged = true
				in.log.Error("reading a beat panicked; please report this", "panic", r, "stack", string(debug.Stack()))
			}
		}
	}()
	id, ok := wire.IDFromSubject(m.Subject)
	if !ok {
		return watchdog.RefusedID
	}
	return wire.DecodeBeat(b, id, m.Data)
}

func (in *intake) refuse(err error, m *nats.Msg, at time.Duration) {
	kind, ok := err.(watchdog.Refusal)
	if !ok {
		kind = watchdog.RefusedJSON
	}
	in.refused.Counts[kind]++
	in.refused.Last, in.refused.LastID, in.refused.At = kind, m.Subject, at
	if id, ok := wire.IDFromSubject(m.Subject); ok && in.witness != nil {
		in.witness.NoteRefused(watchdog.SourceNATS, watchdog.ID(id), m.Data, len(m.Data), kind, at)
	}
}

// flush delivers what waits.
func (in *intake) flush() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.sent = in.mono()
		in.deliver()
	}
}

// deliver hands the batch on under the lock, so that batches stay in order. The
// sink copies the structs and never blocks.
func (in *intake) deliver() {
	if len(in.batch) == 0 {
		return
	}
	in.sink.Beats(in.batch)
	in.batch = in.batch[:0]
}

// report posts and logs what was refused, at most once a second.
func (in *intake) report(now time.Duration) {
	in.mu.Lock()
	ev := in.refused
	something := ev.Fields > 0 || ev.Counts != [watchdog.RefusalCount]uint64{}
	if in.closed || !something || in.posted >= 0 && now-in.posted < time.Second {
		in.mu.Unlock()
		return
	}
	in.refused, in.posted, in.logged = watchdog.Refused{}, now, false
	in.mu.Unlock()

	ev.Source, ev.At = watchdog.SourceNATS, now
	if ev.LastID != "" {
		if id, ok := wire.IDFromSubject(ev.LastID); ok {
			ev.LastID = id
		}
		ev.LastID = termtext.Clean(ev.LastID)
	}
	in.sink.Post(ev)
	in.log.Warn("messages that are no beats, or beats with wrong fields",
		"counts", refusalWords(ev.Counts), "fields", ev.Fields, "newest", ev.LastID)
}

func refusalWords(counts [watchdog.RefusalCount]uint64) slog.Value {
	var attrs []slog.Attr
	for kind, n := range counts {
		if n > 0 {
			attrs = append(attrs, slog.Uint64(watchdog.Refusal(kind).String(), n))
		}
	}
	return slog.GroupValue(attrs...)
}

// begin starts the count of a new connection.
func (in *intake) begin() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.handled = 0
}

func (in *intake) handledSince() uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.handled
}

func (in *intake) accepted() uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.beats
}

// close delivers what waits and takes nothing more: when it returns, the sink
// hears no beat of this source again.
func (in *intake) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deliver()
	in.closed = true
	in.late.Stop()
}
