package watchdog

import (
	"bytes"
	"sync"
	"time"
)

// maxQueued is how many beats may wait. Beyond it beats of one session that
// say the same are merged; only if that is not enough are beats lost, counted,
// and their source called blind.
const maxQueued = 1 << 17

// mergeEvery is how many beats must have come since the last merge for another
// to be worth its time: a full queue that cannot be merged must not cost its
// sources a pass over all of it for each batch.
const mergeEvery = maxQueued / 32

// chunkSize is how many beats share one run of memory, which is used again
// once they are applied.
const (
	chunkSize = 256
	maxSpare  = 32
)

// ringAt is how many beats may wait for the next tick. Fewer wake nobody up: most
// of what a beat costs while few arrive is the waking.
const ringAt = maxQueued / 32

// item is a run of beats, an event, or a barrier.
type item struct {
	beats   []Beat
	event   Event
	applied chan struct{}
}

// inbox is the engine's queue: ordered, bounded for beats, never blocking.
// Acknowledgements, exits and terminal records are never merged or lost.
type inbox struct {
	wake chan struct{} // holds a token while something may wait that must not wait for the tick
	lazy bool          // there are ticks, at which the inbox is emptied too

	mu        sync.Mutex
	items     []item
	queued    int       // beats
	unmerged  int       // beats put in since the last coalesce
	waiting   time.Time // when the oldest that waits came; zero: nothing waits
	underway  time.Time // the same of what was taken out and is being applied
	spare     [][]Beat
	coalesced uint64
	dropped   [sourceCount]uint64
}

func (in *inbox) beats(batch []Beat) {
	if len(batch) == 0 {
		return
	}
	in.mu.Lock()
	if in.queued+len(batch) > maxQueued && in.unmerged >= mergeEvery {
		in.coalesce()
		in.unmerged = 0
	}
	if room := maxQueued - in.queued; len(batch) > room {
		for i := range batch[room:] {
			in.dropped[batch[room+i].Source]++
		}
		batch = batch[:room]
	}
	in.came()
	for left := batch; len(left) > 0; {
		n := len(in.items)
		if n == 0 || in.items[n-1].beats == nil || len(in.items[n-1].beats) == chunkSize {
			in.items = append(in.items, item{beats: in.chunk()})
			n++
		}
		last := &in.items[n-1].beats
		take := min(len(left), chunkSize-len(*last))
		*last = append(*last, left[:take]...)
		left = left[take:]
	}
	in.queued += len(batch)
	in.unmerged += len(batch)
	full := in.queued >= ringAt
	in.mu.Unlock()
	if full || !in.lazy {
		in.ring()
	}
}

func (in *inbox) event(ev Event) { in.put(item{event: ev}) }

func (in *inbox) barrier(applied chan struct{}) { in.put(item{applied: applied}) }

func (in *inbox) put(it item) {
	in.mu.Lock()
	in.came()
	in.items = append(in.items, it)
	in.mu.Unlock()
	in.ring()
}

func (in *inbox) ring() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// chunk gives empty memory for a run of beats. The caller holds the lock.
func (in *inbox) chunk() []Beat {
	if n := len(in.spare); n > 0 {
		c := in.spare[n-1]
		in.spare = in.spare[:n-1]
		return c
	}
	return make([]Beat, 0, chunkSize)
}

// take empties the inbox. The old list of items, whose beats are applied, comes
// back as memory.
func (in *inbox) take(old []item) []item {
	for i := range old {
		clear(old[i].beats) // they hold on to the messages that they came in
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range old {
		if b := old[i].beats; cap(b) == chunkSize && len(in.spare) < maxSpare {
			in.spare = append(in.spare, b[:0])
		}
	}
	clear(old)
	items := in.items
	in.items, in.queued = old[:0], 0
	in.underway, in.waiting = in.waiting, time.Time{}
	return items
}

// came notes when the first of those came that wait. The caller holds the lock.
func (in *inbox) came() {
	if in.waiting.IsZero() {
		in.waiting = time.Now()
	}
}

// applied says that all that was taken out was applied.
func (in *inbox) applied() {
	in.mu.Lock()
	in.underway = time.Time{}
	in.mu.Unlock()
}

// oldest is how long the oldest has waited that was not applied yet; 0: nothing
// waits.
func (in *inbox) oldest() time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case !in.underway.IsZero():
		return time.Since(in.underway)
	case !in.waiting.IsZero():
		return time.Since(in.waiting)
	}
	return 0
}

// losses gives what was merged and lost since the last call.
func (in *inbox) losses() (coalesced uint64, dropped [sourceCount]uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	coalesced, dropped = in.coalesced, in.dropped
	in.coalesced, in.dropped = 0, [sourceCount]uint64{}
	return coalesced, dropped
}

func (in *inbox) length() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.queued
}

// coalesce drops every beat that a later one of the same session and source
// makes superfluous: same state, task, credits, generation and boot id.
func (in *inbox) coalesce() {
	latest := map[string]*Beat{}
	for i := len(in.items) - 1; i >= 0; i-- {
		beats := in.items[i].beats
		keep := len(beats)
		for k := len(beats) - 1; k >= 0; k-- {
			b := beats[k]
			key := b.Source.String() + " " + string(b.ID)
			if later := latest[key]; later != nil && sameForPeople(&b, later) {
				in.coalesced++
				in.queued--
				continue
			}
			latest[key] = &b
			keep--
			beats[keep] = b
		}
		if in.items[i].beats != nil {
			in.items[i].beats = beats[:copy(beats, beats[keep:])]
		}
	}
}

func sameForPeople(a, b *Beat) bool {
	return a.State == b.State && a.Generation == b.Generation && a.HasCredits() == b.HasCredits() &&
		(!a.HasCredits() || a.Credits == b.Credits) && bytes.Equal(a.StateText, b.StateText) &&
		bytes.Equal(a.Task, b.Task) && bytes.Equal(a.BootID, b.BootID) && a.WaitingFor == b.WaitingFor
}
