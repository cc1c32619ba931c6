package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	defaultMemory = 16 << 20
	memoryParts   = 16      // the oldest one goes when all are full
	memoryBuffer  = 4 << 20 // of what waits to be packed

	// mostKept is how many beats a second are kept: packing them costs a tenth of
	// a core. What comes faster keeps nothing for a while, and says so.
	mostKept  = 10_000
	keepPause = 10 * time.Second
)

// MemoryOptions say what a Memory keeps.
type MemoryOptions struct {
	Program, Name string           // for the header
	Started       watchdog.Instant // now, on the engine's clock
	Policy        watchdog.Policy
	Sweeper       string // who settles; empty nobody
	Acts          watchdog.Acts
	MaxBytes      int // packed; 0: 16 MiB
}

// Memory keeps the newest inputs of an engine, in so many bytes, so that they
// can be judged again. It is a watchdog.Tap that never blocks: a goroutine of its
// own packs what it was told, as a recording that begins wherever the memory
// reaches back to.
type Memory struct {
	recorder *Recorder
	ring     *ring

	mu     sync.Mutex
	second time.Duration // in which count counts
	count  int
	muted  time.Duration // Mono until which nothing is kept
	now    time.Duration
}

// NewMemory keeps what it is told until Close.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMemory
	}
	m := &Memory{ring: &ring{limit: o.MaxBytes,
		header: Header{Program: o.Program, Name: o.Name, Policy: o.Policy, Sweeper: o.Sweeper, Acts: o.Acts}}}
	m.recorder = recordTo(m.ring, Options{Buffer: memoryBuffer})
	m.recorder.Event(watchdog.Ticked{Now: o.Started})
	return m
}

// Beats copies a batch, unless more come than are kept.
func (m *Memory) Beats(batch []watchdog.Beat) {
	m.mu.Lock()
	if second := m.now.Truncate(time.Second); second != m.second {
		m.second, m.count = second, 0
	}
	if m.count += len(batch); m.count > mostKept {
		m.muted = m.now + keepPause
	}
	muted := m.now < m.muted
	m.mu.Unlock()
	if muted {
		m.recorder.lose(Gap{Beats: uint64(len(batch))})
		return
	}
	m.recorder.Beats(batch)
}

// Event takes one event, which nobody may change any more.
func (m *Memory) Event(ev watchdog.Event) {
	if tick, ok := ev.(watchdog.Ticked); ok {
		m.mu.Lock()
		m.now = tick.Now.Mono
		m.mu.Unlock()
	}
	m.recorder.Event(ev)
}

// Reach is the time that is kept, from its begin to the last clock reading.
func (m *Memory) Reach() (from, to watchdog.Instant) { return m.ring.reach() }

// Overrun reports whether nothing is kept now because too much comes.
func (m *Memory) Overrun() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now < m.muted
}

// Reader reads what is kept, up to what was told before the call.
func (m *Memory) Reader(ctx context.Context) (*Reader, error) {
	if err := m.recorder.Sync(ctx); err != nil {
		return nil, err
	}
	in, err := m.ring.read()
	if err != nil {
		return nil, err
	}
	return NewReader("what was kept in memory", in)
}

// Close forgets everything.
func (m *Memory) Close() { _ = m.recorder.Close() } // it has no file that could fail

// ring is the sink of a Memory: recordings that continue each other, each with
// all that a tracker has to know at its begin.
type ring struct {
	limit  int
	header Header

	mu    sync.Mutex
	known known
	parts []*part // oldest first; the last one is written to
	w     *Writer // to the last part; nil: there is none
	last  watchdog.Instant
}

// part is a recording: its header and what is known at its begin, which is left
// out when it continues another, and then its entries.
type part struct {
	started watchdog.Instant
	data    bytes.Buffer
	head    int // bytes
}

// Beat keeps one beat. Without a part, which begins with a tick, it is lost.
func (r *ring) Beat(clock time.Duration, b *watchdog.Beat) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil {
		return nil
	}
	return r.w.Beat(clock, b)
}

// Event keeps one event. Parts begin at ticks.
func (r *ring) Event(clock time.Duration, ev watchdog.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	tick, ok := ev.(watchdog.Ticked)
	if ok {
		r.last = tick.Now
		if r.w == nil || int(r.w.Size()) > r.limit/memoryParts {
			if err := r.begin(tick.Now); err != nil {
				return err
			}
		}
	}
	r.known.note(ev)
	if r.w == nil {
		return nil
	}
	return r.w.Event(clock, ev)
}

// begin starts the next part, and lets the oldest go if there is no room.
func (r *ring) begin(at watchdog.Instant) error {
	if r.w != nil {
		if err := r.w.endMember(); err != nil {
			return err
		}
	}
	size := r.limit / memoryParts
	for i := len(r.parts) - 1; i >= 0; i-- {
		if size += r.parts[i].data.Len(); size > r.limit {
			r.parts = append(r.parts[:0:0], r.parts[i+1:]...)
			break
		}
	}
	p := &part{started: at}
	h := r.header
	h.Started = at
	w, err := newWriter(&p.data, gzip.BestSpeed, h)
	if err != nil {
		return err
	}
	for _, ev := range r.known.events() {
		if err := w.Event(-1, ev); err != nil {
			return err
		}
	}
	if err := w.endMember(); err != nil {
		return err
	}
	p.head, r.w = p.data.Len(), w
	r.parts = append(r.parts, p)
	return nil
}

// Gap forgets all: what has a hole would accuse those who were heard in it.
func (r *ring) Gap(Gap) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts, r.w = nil, nil
	return nil
}

// Flush has nothing to hand over.
func (r *ring) Flush() error { return nil }

// Size is how many bytes are kept.
func (r *ring) Size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.parts {
		n += p.data.Len()
	}
	return int64(n)
}

// Close forgets all.
func (r *ring) Close() error { return r.Gap(Gap{}) }

func (r *ring) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil {
		return nil
	}
	return r.w.broken()
}

func (r *ring) reach() (from, to watchdog.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.parts) == 0 {
		return r.last, r.last
	}
	return r.parts[0].started, r.last
}

// read gives one recording of all parts. What is kept of them afterwards does
// not change it.
func (r *ring) read() (io.Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil {
		return nil, errors.New("nothing is kept yet")
	}
	if err := r.w.endMember(); err != nil {
		return nil, err
	}
	var all []io.Reader
	for i, p := range r.parts {
		// The bytes up to here are never written again: a buffer that grows copies.
		data := p.data.Bytes()[:p.data.Len():p.data.Len()]
		if i > 0 {
			data = data[p.head:]
		}
		all = append(all, bytes.NewReader(data))
	}
	return io.MultiReader(all...), nil
}
