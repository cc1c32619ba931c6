package sourcetest

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Sink is what a source tells.
type Sink interface {
	Beats([]watchdog.Beat)
	Post(watchdog.Event)
}

// Recorder is a Sink that keeps everything. Like the engine it copies the
// structs and not the bytes behind them. Its zero value is ready for use.
type Recorder struct {
	mu     sync.Mutex
	beats  []watchdog.Beat
	events []watchdog.Event
}

// Beats keeps the beats.
func (r *Recorder) Beats(batch []watchdog.Beat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats = append(r.beats, batch...)
}

// Post keeps the event.
func (r *Recorder) Post(ev watchdog.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ev)
}

// AllBeats gives what came so far.
func (r *Recorder) AllBeats() []watchdog.Beat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.beats)
}

// Heard is how many beats came so far.
func (r *Recorder) Heard() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.beats)
}

// AllEvents gives what was posted so far.
func (r *Recorder) AllEvents() []watchdog.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Mark is how many events were posted so far; EventsOf and Last count from one.
func (r *Recorder) Mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// EventsOf gives the events of one type that were posted since a mark.
func EventsOf[E watchdog.Event](r *Recorder, since int) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []E
	for _, ev := range r.events[since:] {
		if e, ok := ev.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// Phase is what the last LinkChanged said; LinkConnecting before the first.
func (r *Recorder) Phase() watchdog.LinkPhase {
	links := EventsOf[watchdog.LinkChanged](r, 0)
	if len(links) == 0 {
		return watchdog.LinkConnecting
	}
	return links[len(links)-1].Phase
}

// Refused sums all refusals.
func (r *Recorder) Refused() (counts [watchdog.RefusalCount]uint64, fields uint64) {
	for _, ev := range EventsOf[watchdog.Refused](r, 0) {
		for i, n := range ev.Counts {
			counts[i] += n
		}
		fields += ev.Fields
	}
	return counts, fields
}

// Wait polls until ok holds, and fails the test with what was awaited if it
// does not within the limit.
func (r *Recorder) Wait(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if Eventually(limit, ok) {
		return
	}
	t.Fatalf("after %v still not: %s\nlast events: %+v", limit, what, tail(r.AllEvents(), 12))
}

// Eventually polls until ok holds or the limit has passed.
func Eventually(limit time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// Promptly calls what must wait for nothing, and fails the test if that takes long
// each time: a busy machine holds it up now and then, but not always.
func Promptly(t testing.TB, what string, call func()) {
	t.Helper()
	const limit, tries = time.Second, 5
	least := time.Duration(math.MaxInt64)
	for range tries {
		began := time.Now()
		call()
		if least = min(least, time.Since(began)); least <= limit {
			return
		}
	}
	t.Errorf("%s took %v at best, of %d times", what, least, tries)
}

func tail[T any](all []T, n int) []T {
	return all[max(0, len(all)-n):]
}
