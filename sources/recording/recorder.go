package recording

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Options say how a Recorder records.
type Options struct {
	Program string           // version of this program, for the header
	Name    string           // of what is watched, for people
	Started watchdog.Instant // now, on the engine's clock
	Policy  watchdog.Policy
	Sweeper string // who settles; empty nobody
	Acts    watchdog.Acts

	Overwrite bool  // replace an existing regular file
	MaxBytes  int64 // of the file; recording stops there with an error; 0 no limit
	Buffer    int   // bytes of beats that may wait for the file; 0: 16 MiB
}

const (
	defaultBuffer = 16 << 20
	flushEvery    = time.Second     // what a crash may lose
	closePatience = 5 * time.Second // for a file that does not take what is written
)

// Recorder writes what an engine is told to a file. It is the engine's Tap: its
// Beats and Event copy and return, and a goroutine of its own writes. If the
// file is too slow, beats are dropped first and events only when twice the
// buffer is full; the recording says so with a gap, and so does Close.
type Recorder struct {
	buffer int
	wake   chan struct{} // one slot
	stop   chan struct{}
	done   chan struct{} // closed when the writing goroutine ended

	mu      sync.Mutex
	queue   []item
	size    int // of what is queued, in bytes
	ticks   thinner
	told    time.Duration // the clock of the last item that told one
	missed  Gap           // not yet told
	missing bool          // missed began and is not told
	closed  bool
	stats   Stats
	failed  error // first error of the writer
	odd     error // first entry that could not be written down, while others can
}

// Stats is what became of a recording so far.
type Stats struct {
	Beats, Events               uint64 // accepted
	DroppedBeats, DroppedEvents uint64
	Bytes                       int64 // written, as of the last second
	Err                         error // why recording stopped; nil: it goes on
}

// sink is where a Recorder writes to, in a goroutine of its own.
type sink interface {
	Beat(clock time.Duration, b *watchdog.Beat) error
	Event(clock time.Duration, ev watchdog.Event) error
	Gap(Gap) error
	Flush() error
	Size() int64
	Close() error
	broken() error // it takes nothing any more; nil: it does
}

// item is what one call of the tap leaves for the writer.
type item struct {
	clock time.Duration // see Writer.Beat
	beats []watchdog.Beat
	event watchdog.Event
	gap   *Gap
	done  chan struct{} // to be closed when everything before is written
	size  int           // as counted in Recorder.size
}

// Record creates the file and records until Close.
func Record(path string, o Options) (*Recorder, error) {
	w, err := Create(path, o.Overwrite, Header{Program: o.Program, Name: o.Name, Started: o.Started, Policy: o.Policy, Sweeper: o.Sweeper, Acts: o.Acts})
	if err != nil {
		return nil, err
	}
	return recordTo(w, o), nil
}

func recordTo(w sink, o Options) *Recorder {
	r := &Recorder{
		buffer: o.Buffer,
		told:   -1,
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	if r.buffer <= 0 {
		r.buffer = defaultBuffer
	}
	r.stats.Bytes = w.Size()
	go r.run(w, o.MaxBytes)
	return r
}

// Beats copies a batch. It never blocks.
func (r *Recorder) Beats(batch []watchdog.Beat) {
	if len(batch) == 0 {
		return
	}
	size := sizeOf(batch)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.failed != nil {
		return
	}
	if r.size+size > r.buffer {
		r.miss(Gap{Beats: uint64(len(batch))})
		return
	}
	r.stats.Beats += uint64(len(batch))
	r.push(item{beats: copyBeats(batch, size)}, size)
}

// Event takes one event, which nobody may change any more. It never blocks.
func (r *Recorder) Event(ev watchdog.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.failed != nil {
		return
	}
	if tick, ok := ev.(watchdog.Ticked); ok {
		// After a gap the first tick is written whatever it says, so that
		// time stands on both sides of it.
		for _, tick := range r.ticks.add(tick, r.missing) {
			r.keep(tick)
		}
		return
	}
	r.keep(ev)
}

func (r *Recorder) keep(ev watchdog.Event) {
	const size = int(unsafe.Sizeof(item{})) + 256 // an event and its text, roughly
	if r.size+size > 2*r.buffer {
		r.miss(Gap{Events: 1})
		return
	}
	r.stats.Events++
	r.push(item{event: ev}, size)
}

// Prime writes down the sources that an engine knows already, for a recording
// that begins in the middle of its life. Its sessions appear with their next
// beats.
func (r *Recorder) Prime(now watchdog.Instant, links []watchdog.Link) {
	r.Event(watchdog.Ticked{Now: now})
	for _, l := range links {
		nextTry := time.Duration(0)
		if l.NextTry > 0 {
			nextTry = now.Mono + l.NextTry
		}
		r.Event(watchdog.SourceAdded{Source: l.Source, At: now.Mono})
		r.Event(watchdog.LinkChanged{Source: l.Source, Phase: l.Phase, Address: l.Address, Origin: l.Origin,
			Detail: l.Detail, Attempt: l.Attempt, NextTry: nextTry, Warning: l.Warning, At: now.Mono})
		if l.LastTrip >= 0 {
			at := now.Mono - l.LastTrip
			r.Event(watchdog.RoundTrip{Source: l.Source, Sent: at - l.RTT, At: at, Keys: l.Keys})
		}
	}
}

// lose counts what its caller does not pass on.
func (r *Recorder) lose(g Gap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.failed == nil {
		r.miss(g)
	}
}

// miss counts what is dropped. The clock is written down once more before the
// first of it, if there is room for that.
func (r *Recorder) miss(g Gap) {
	if !r.missing {
		r.missing = true
		if tick, ok := r.ticks.flush(); ok {
			r.queue = append(r.queue, item{clock: -1, event: tick})
		}
		r.missed = Gap{From: r.ticks.last.Now.Mono}
	}
	r.missed.Beats += g.Beats
	r.missed.Events += g.Events
	r.stats.DroppedBeats += g.Beats
	r.stats.DroppedEvents += g.Events
}

// push queues one item, after the gap that it ends if something was dropped.
func (r *Recorder) push(it item, size int) {
	if r.missing {
		r.endGap()
	}
	it.size, it.clock = size, r.ticks.clock()
	if it.clock == r.told {
		it.clock = -1
	} else if it.clock >= 0 {
		r.told = it.clock
	}
	r.queue = append(r.queue, it)
	r.size += size
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Recorder) endGap() {
	g := r.missed
	g.To = r.ticks.last.Now.Mono
	r.queue = append(r.queue, item{clock: -1, gap: &g})
	r.missing, r.missed = false, Gap{}
}

// Sync returns when everything that was told before is written, or cannot be any
// more, or ctx ends.
func (r *Recorder) Sync(ctx context.Context) error {
	done := make(chan struct{})
	r.mu.Lock()
	if r.closed {
		close(done)
	} else {
		r.queue = append(r.queue, item{clock: -1, done: done})
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats says how the recording goes.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Err = r.failed
	return s
}

// Close writes what is queued and completes the file. Its error says if
// anything is missing in it: what could not be written, and what was dropped.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		if r.missing {
			r.endGap()
		}
		if tick, ok := r.ticks.flush(); ok {
			r.queue = append(r.queue, item{clock: -1, event: tick})
		}
		close(r.stop)
	}
	r.mu.Unlock()

	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-r.done:
	case <-patience.C:
		return fmt.Errorf("the recording is incomplete: its file took nothing for %v", closePatience)
	}
	return r.verdict()
}

func (r *Recorder) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stats; s.DroppedBeats+s.DroppedEvents > 0 {
		cause := "because its file was too slow; record to a faster disk"
		if r.odd != nil {
			cause = "of which the first " + r.odd.Error()
		}
		return errors.Join(r.failed, fmt.Errorf("the recording is incomplete: %d beats and %d events were dropped, %s",
			s.DroppedBeats, s.DroppedEvents, cause))
	}
	return r.failed
}

// run is the writing goroutine.
func (r *Recorder) run(w sink, maxBytes int64) {
	defer close(r.done)
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for stopping := false; !stopping; {
		due := false
		select {
		case <-r.wake:
		case <-flush.C:
			due = true
		case <-r.stop:
			stopping = true
		}
		err := r.drain(w)
		if err == nil && due {
			err = w.Flush()
		}
		if err == nil && maxBytes > 0 && w.Size() > maxBytes {
			err = fmt.Errorf("the recording reached its limit of %d bytes and stopped", maxBytes)
		}
		r.note(w, err)
	}
	r.note(w, w.Close())
}

// drain writes what is queued. After an error it only empties the queue.
func (r *Recorder) drain(w sink) error {
	r.mu.Lock()
	queue, failed := r.queue, r.failed
	r.queue = nil
	r.mu.Unlock()
	if failed != nil {
		for i := range queue {
			if queue[i].done != nil {
				close(queue[i].done)
			}
		}
		return nil
	}
	for i := range queue {
		if err := r.write(w, &queue[i]); err != nil {
			return err
		}
		size := queue[i].size
		queue[i] = item{}
		r.mu.Lock()
		r.size -= size
		r.mu.Unlock()
	}
	return nil
}

// write writes one item. An entry that has no form in the file costs itself
// alone and leaves a gap; an error of the file is final.
func (r *Recorder) write(w sink, it *item) error {
	switch {
	case it.done != nil:
		close(it.done)
		return nil
	case it.gap != nil:
		return w.Gap(*it.gap)
	case it.event != nil:
		if err := w.Event(it.clock, it.event); err != nil {
			return r.skip(w, Gap{Events: 1}, err)
		}
	}
	for i := range it.beats {
		if err := w.Beat(it.clock, &it.beats[i]); err != nil {
			if err := r.skip(w, Gap{Beats: 1}, err); err != nil {
				return err
			}
		}
		it.clock = -1
	}
	return nil
}

func (r *Recorder) skip(w sink, g Gap, err error) error {
	if err := w.broken(); err != nil {
		return err
	}
	r.mu.Lock()
	r.stats.DroppedBeats += g.Beats
	r.stats.DroppedEvents += g.Events
	if r.odd == nil {
		r.odd = err
	}
	g.From, g.To = r.ticks.last.Now.Mono, r.ticks.last.Now.Mono
	r.mu.Unlock()
	return w.Gap(g)
}

// note keeps the first error; from then on nothing is accepted.
func (r *Recorder) note(w sink, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Bytes = w.Size()
	if r.failed == nil {
		r.failed = err
	}
}

// texts lists the byte slices of a beat.
func texts(b *watchdog.Beat) [7]*[]byte {
	return [...]*[]byte{&b.ID, &b.StateText, &b.Task, &b.BootID, &b.Agent, &b.Host, &b.Message}
}

func sizeOf(batch []watchdog.Beat) int {
	size := len(batch) * int(unsafe.Sizeof(watchdog.Beat{}))
	for i := range batch {
		for _, text := range texts(&batch[i]) {
			size += len(*text)
		}
	}
	return size
}

// copyBeats copies a batch with its text, in two allocations.
func copyBeats(batch []watchdog.Beat, size int) []watchdog.Beat {
	out := append(make([]watchdog.Beat, 0, len(batch)), batch...)
	arena := make([]byte, 0, size-len(batch)*int(unsafe.Sizeof(watchdog.Beat{})))
	for i := range out {
		for _, text := range texts(&out[i]) {
			if *text == nil {
				continue
			}
			from := len(arena)
			arena = append(arena, *text...)
			*text = arena[from:len(arena):len(arena)]
		}
	}
	return out
}
