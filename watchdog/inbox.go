package watchdog

import (
	"bytes"
	"sync"
)

// maxQueued is how many beats may wait. Beyond it beats of one session that
// say the same are merged; only if that is not enough are beats lost, counted,
// and their source called blind.
const maxQueued = 1 << 17

// item is a run of beats, an event, or a barrier.
type item struct {
	beats   []Beat
	event   Event
	applied chan struct{}
}

// inbox is the engine's queue: ordered, bounded for beats, never blocking.
// Acknowledgements, exits and terminal records are never merged or lost.
type inbox struct {
	wake chan struct{} // holds a token while something may wait

	mu        sync.Mutex
	items     []item
	queued    int // beats
	coalesced uint64
	dropped   [sourceCount]uint64
}

func (in *inbox) beats(batch []Beat) {
	if len(batch) == 0 {
		return
	}
	in.mu.Lock()
	if in.queued+len(batch) > maxQueued {
		in.coalesce()
	}
	if room := maxQueued - in.queued; len(batch) > room {
		for i := range batch[room:] {
			in.dropped[batch[room+i].Source]++
		}
		batch = batch[:room]
	}
	if n := len(in.items); n > 0 && in.items[n-1].beats != nil {
		in.items[n-1].beats = append(in.items[n-1].beats, batch...)
	} else {
		in.items = append(in.items, item{beats: append(make([]Beat, 0, len(batch)), batch...)})
	}
	in.queued += len(batch)
	in.mu.Unlock()
	in.ring()
}

func (in *inbox) event(ev Event) { in.put(item{event: ev}) }

func (in *inbox) barrier(applied chan struct{}) { in.put(item{applied: applied}) }

func (in *inbox) put(it item) {
	in.mu.Lock()
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

// take empties the inbox.
func (in *inbox) take() []item {
	in.mu.Lock()
	defer in.mu.Unlock()
	items := in.items
	in.items, in.queued = nil, 0
	return items
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
		in.items[i].beats = beats[keep:]
	}
}

func sameForPeople(a, b *Beat) bool {
	return a.State == b.State && a.Generation == b.Generation && a.HasCredits() == b.HasCredits() &&
		(!a.HasCredits() || a.Credits == b.Credits) && bytes.Equal(a.StateText, b.StateText) &&
		bytes.Equal(a.Task, b.Task) && bytes.Equal(a.BootID, b.BootID) && a.WaitingFor == b.WaitingFor
}
