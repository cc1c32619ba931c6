// Package lifetime is the one run of a part that has a Run and a Close: Run is
// called once at most, in a goroutine of the caller's, and Close ends it and
// waits for it, whichever of the two comes first.
//
// It must not start a goroutine, nor know what runs.
package lifetime

import (
	"context"
	"errors"
	"sync"
)

// ErrTwice: a part runs once.
var ErrTwice = errors.New("told to run twice: Run may be called once")

// Run is the one run of a part. The zero value is one that has not begun.
type Run struct {
	mu     sync.Mutex
	over   bool
	cancel context.CancelFunc
	done   chan struct{} // closed when the part's Run has returned; nil before it
}

// Begin is called by the part's Run. The context ends with the parent or with
// End; finish must be called when the part's Run returns. Its only error is
// ErrTwice.
func (r *Run) Begin(parent context.Context) (ctx context.Context, finish func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil {
		return nil, nil, ErrTwice
	}
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	r.cancel, r.done = cancel, done
	if r.over {
		cancel()
	}
	return ctx, func() { cancel(); close(done) }, nil
}

// End is called by the part's Close: it ends Run, if it runs, and waits for it.
// It may be called more than once.
func (r *Run) End() {
	r.mu.Lock()
	r.over = true
	if r.cancel != nil {
		r.cancel()
	}
	done := r.done
	r.mu.Unlock()
	if done != nil {
		<-done
	}
}
