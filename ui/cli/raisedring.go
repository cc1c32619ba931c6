package cli

import (
	"sync"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// raisedKept is how many raised alerts a screen may be behind.
const raisedKept = 256

// raisedRing keeps the alerts that were raised lately, for screens that look
// through this process and ring themselves.
type raisedRing struct {
	mu      sync.Mutex
	last    []watchdog.Raise // the newest last
	count   uint64           // ever
	changed chan struct{}    // closed and made anew with each alert
}

func newRaisedRing() *raisedRing { return &raisedRing{changed: make(chan struct{})} }

func (r *raisedRing) add(raise watchdog.Raise) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(r.last, raise)
	if over := len(r.last) - raisedKept; over > 0 {
		r.last = append(r.last[:0], r.last[over:]...)
	}
	r.count++
	close(r.changed)
	r.changed = make(chan struct{})
}

// after gives what was raised after the first so many, as far as it is kept, how
// many were raised by now, and what is closed when there are more.
func (r *raisedRing) after(count uint64) (news []watchdog.Raise, now uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if count < r.count {
		n := min(r.count-count, uint64(len(r.last)))
		news = append(news, r.last[uint64(len(r.last))-n:]...)
	}
	return news, r.count, r.changed
}
