package guard

import (
	"fmt"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// wait is one declared quiet.
type wait struct {
	kind         watchdog.Wait
	since, until time.Duration // on the session's clock
}

// waits are those that are open now; goroutines of one agent may wait for
// several things at once. The one that may last longest is shown.
type waits struct {
	open map[*wait]struct{}

	// What the beats of an unbroken spell of one kind show: observers count its
	// maximum from the first of them.
	shown watchdog.Wait
	since time.Duration
}

// longest is the wait that may last longest; nil if none is open.
func (w *waits) longest() *wait {
	var last *wait
	for open := range w.open {
		if last == nil || open.until > last.until || open.until == last.until && open.since < last.since {
			last = open
		}
	}
	return last
}

// show gives what a beat says of the wait.
func (w *waits) show() (kind watchdog.Wait, limit time.Duration) {
	last := w.longest()
	if last == nil {
		w.shown = watchdog.WaitNone
		return watchdog.WaitNone, 0
	}
	if w.shown != last.kind {
		w.shown, w.since = last.kind, last.since
	}
	return last.kind, last.until - w.since
}

// Wait declares that the agent now waits, for at most max (capped by
// Options.MaxWait), and that its quiet is expected meanwhile. If the wait lasts
// longer, the stall timeout begins at the end of the maximum. The agent calls
// end when the wait is over; that counts as activity.
//
//	end, err := s.Wait(watchdog.WaitHuman, time.Hour)
//	if err != nil {
//		return err
//	}
//	select {
//	case answer = <-answers:
//	case <-ctx.Done():
//	}
//	if err := end(); err != nil {
//		return err // stopped: the answer is not to be used
//	}
//
// Both return ErrStopped once the session was stopped. An undeclared pause
// counts as inactivity.
func (s *Session) Wait(kind watchdog.Wait, max time.Duration) (end func() error, err error) {
	if kind == watchdog.WaitNone || kind.String() == "" {
		return nil, fmt.Errorf("guard: a wait of kind %d is not known; use WaitHuman, WaitTool, WaitRateLimit or WaitOther", kind)
	}
	if max <= 0 {
		return nil, fmt.Errorf("guard: a wait of at most %v cannot be declared; give its longest expected duration", max)
	}
	s.Touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, ErrStopped
	}
	now := s.now()
	w := &wait{kind: kind, since: now, until: now + min(max, s.o.MaxWait)}
	s.waits.open[w] = struct{}{}
	s.wish()
	return func() error { return s.endWait(w) }, nil
}

// endWait ends a wait; again and again it tells the same.
func (s *Session) endWait(w *wait) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.waits.open[w]; open {
		s.Touch() // first, or the session looks idle for a moment
		delete(s.waits.open, w)
		s.wish()
	}
	if s.stopped {
		return ErrStopped
	}
	return nil
}
