package httpregistry

import (
	"sync"
	"time"
)

const (
	rateWindow = time.Hour
	rateShare  = 0.02 // of the sessions opened in the window
	rateLeast  = 5    // reaps below which nothing is said
	rateSlots  = 60
)

// reapRate counts opens and reaps of a sliding hour, a minute a slot.
type reapRate struct {
	mu     sync.Mutex
	minute int64
	opens  [rateSlots]int
	reaps  [rateSlots]int
	raised bool
}

func (r *reapRate) opened(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opens[r.slot(now)]++
}

// reaped counts one reap. raised is true when the rate has just become too
// high: more than 2 % of the opens, and at least 5.
func (r *reapRate) reaped(now time.Time) (reaps, opens int, raised bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaps[r.slot(now)]++
	for i := range rateSlots {
		reaps, opens = reaps+r.reaps[i], opens+r.opens[i]
	}
	high := reaps >= rateLeast && float64(reaps) > rateShare*float64(opens)
	raised = high && !r.raised
	r.raised = high
	return reaps, opens, raised
}

// slot gives the slot of now, and empties those that have gone by. A clock that
// was set back stays in the newest slot.
func (r *reapRate) slot(now time.Time) int {
	minute := now.Unix() / int64(rateWindow/rateSlots/time.Second)
	if minute-r.minute >= rateSlots {
		r.opens, r.reaps = [rateSlots]int{}, [rateSlots]int{}
		r.minute = minute
	}
	for r.minute < minute {
		r.minute++
		r.opens[r.minute%rateSlots], r.reaps[r.minute%rateSlots] = 0, 0
	}
	return int(r.minute % rateSlots)
}
