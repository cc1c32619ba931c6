package natsbus

import (
	"context"
	"errors"
	"sync"
)

// life is the one run of a Publisher or a Ledger.
type life struct {
	mu     sync.Mutex
	over   bool
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned; nil before Run
}

// begin is called by Run. The context ends with the parent or with end; finish
// must be called when Run returns.
func (l *life) begin(parent context.Context) (ctx context.Context, finish func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return nil, nil, errors.New("natsbus: Run was called twice")
	}
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	l.cancel, l.done = cancel, done
	if l.over {
		cancel()
	}
	return ctx, func() { cancel(); close(done) }, nil
}

// end is called by Close: it ends Run, if it runs, and waits for it.
func (l *life) end() {
	l.mu.Lock()
	l.over = true
	if l.cancel != nil {
		l.cancel()
	}
	done := l.done
	l.mu.Unlock()
	if done != nil {
		<-done
	}
}
