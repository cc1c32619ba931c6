package watchdog

import "context"

// Reach waits until everything that was put in before is applied: a proof that
// the engine works, which costs less than a look. It returns ErrClosed once the
// engine has ended.
func (e *Engine) Reach(ctx context.Context) error {
	applied := make(chan struct{})
	e.inbox.barrier(applied)
	select {
	case <-applied:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return ErrClosed
	}
}
