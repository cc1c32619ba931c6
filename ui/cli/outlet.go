package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// The patience with who reads what passes through.
const (
	outletRoom     = 4 << 20         // bytes that wait for a reader
	outletPatience = 2 * time.Second // without a byte taken, until it counts as stalled
)

// outlet writes to a reader that may be slow, stalled or gone, and keeps the
// order. A slow reader slows who writes, as in any pipeline; one that takes
// nothing for outletPatience with a full buffer gets no more until it goes on,
// and is told then how much it missed: a pager that nobody turns must not hang a
// supervisor, nor a child in the middle of its dump.
type outlet struct {
	to       io.Writer
	patience time.Duration
	room     int
	gone     func() // called once: the reader is gone for good

	mu      sync.Mutex
	buf     []byte
	taken   int64 // bytes that the reader has taken
	missed  int   // writes that were dropped since it stalled
	dead    bool  // nothing can be written any more
	closing bool
	changed chan struct{} // closed and made anew whenever something above changes
	over    chan struct{} // closed when the writer has ended
}

// newOutlet starts an outlet; close ends it. gone may be nil.
func newOutlet(to io.Writer, gone func()) *outlet {
	o := &outlet{to: to, patience: outletPatience, room: outletRoom, gone: gone,
		changed: make(chan struct{}), over: make(chan struct{})}
	go o.run()
	return o
}

// Write takes p as a whole, or drops it as a whole, and never fails: nobody
// could be told.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.buf) > 0 && len(o.buf)+len(p) > o.room && !o.dead && !o.closing {
		if o.missed > 0 || !o.progress() {
			o.missed++
			return len(p), nil
		}
	}
	if o.dead || o.closing {
		return len(p), nil
	}
	if o.missed > 0 {
		o.buf = fmt.Appendf(o.buf, "\n[%d lines are missing here: nobody read for %v]\n", o.missed, o.patience)
		o.missed = 0
	}
	o.buf = append(o.buf, p...)
	o.tell()
	return len(p), nil
}

func (o *outlet) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// progress waits, without the lock, for the reader to take something. It reports
// whether it did in time.
func (o *outlet) progress() bool {
	taken := o.taken
	late := time.NewTimer(o.patience)
	defer late.Stop()
	for o.taken == taken && !o.dead {
		changed := o.changed
		o.mu.Unlock()
		select {
		case <-changed:
			o.mu.Lock()
		case <-late.C:
			o.mu.Lock()
			return false
		}
	}
	return true
}

// run carries what was written to the reader.
func (o *outlet) run() {
	defer close(o.over)
	var batch []byte
	for {
		o.mu.Lock()
		for len(o.buf) == 0 && !o.closing {
			changed := o.changed
			o.mu.Unlock()
			<-changed
			o.mu.Lock()
		}
		if len(o.buf) == 0 {
			o.mu.Unlock()
			return
		}
		batch, o.buf = o.buf, batch[:0]
		o.mu.Unlock()
		if !o.carry(batch) {
			return
		}
	}
}

// carry writes a batch in pieces that a pipe takes at once, so that a reader that
// is slow is seen to go on. It reports whether there is still a reader.
func (o *outlet) carry(batch []byte) bool {
	for len(batch) > 0 {
		n, err := o.to.Write(batch[:min(len(batch), 4096)])
		batch = batch[n:]
		o.mu.Lock()
		o.taken += int64(n)
		o.dead = err != nil
		o.tell()
		o.mu.Unlock()
		if err != nil {
			if o.gone != nil {
				o.gone()
			}
			return false
		}
	}
	return true
}

// close writes what is left, as long as somebody takes it.
func (o *outlet) close() {
	o.mu.Lock()
	o.closing = true
	o.tell()
	taken := o.taken
	o.mu.Unlock()
	for {
		select {
		case <-o.over:
			return
		case <-time.After(o.patience):
		}
		o.mu.Lock()
		stalled := o.taken == taken
		taken = o.taken
		o.mu.Unlock()
		if stalled {
			return
		}
	}
}
