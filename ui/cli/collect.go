package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// settleStep is how often a one-shot command looks whether more can be learned.
const settleStep = 50 * time.Millisecond

// collect watches until wait is over, or earlier if nothing more can be
// learned, and gives one window.
func (s *started) collect(ctx context.Context, wait time.Duration, a watchdog.Ask) (watchdog.Window, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	step := time.NewTicker(settleStep)
	defer step.Stop()
	for {
		select {
		case <-ctx.Done():
			return watchdog.Window{}, untold(fmt.Errorf("interrupted before anything could be told"))
		case <-s.done:
			if s.err != nil {
				return watchdog.Window{}, s.err
			}
			return watchdog.Window{}, fault(watchdog.ErrClosed)
		case <-deadline.C:
			return s.look(ctx, a)
		case <-step.C:
			w, err := s.look(ctx, watchdog.Ask{})
			if err != nil {
				return w, err
			}
			if settled(w.Links) && s.endsKnown(w) {
				return s.look(ctx, a)
			}
		}
	}
}

// answerWait is how long the sources have to answer at the end of a watch.
const answerWait = 2 * time.Second

// collectWhole watches for the whole wait, for what is told in it may change
// until its end, and then asks every source once more: a server that has hung or
// gone in the last seconds still looks as if it were seen. asked is how long
// before the window that was.
func (s *started) collectWhole(ctx context.Context, wait time.Duration, a watchdog.Ask) (w watchdog.Window, asked time.Duration, err error) {
	if err := s.sleep(ctx, wait); err != nil {
		return watchdog.Window{}, 0, err
	}
	began := time.Now()
	s.retry()
	for {
		if err := s.sleep(ctx, settleStep); err != nil {
			return watchdog.Window{}, 0, err
		}
		w, err = s.look(ctx, watchdog.Ask{})
		if err != nil {
			return w, 0, err
		}
		asked = time.Since(began)
		waiting := slices.ContainsFunc(w.Links, func(l watchdog.Link) bool {
			return l.Sighted && l.Phase == watchdog.LinkUp && l.LastTrip >= asked
		})
		if !waiting || asked >= answerWait {
			w, err = s.look(ctx, a)
			return w, time.Since(began), err
		}
	}
}

// sleep lets time pass while everything goes on.
func (s *started) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return untold(fmt.Errorf("interrupted before anything could be told"))
	case <-s.done:
		if s.err != nil {
			return s.err
		}
		return fault(watchdog.ErrClosed)
	}
}

func (s *started) look(ctx context.Context, a watchdog.Ask) (watchdog.Window, error) {
	w, err := s.engine.Look(ctx, a)
	if err != nil {
		return w, untold(err)
	}
	return w, nil
}

// endsKnown reports whether the ledger has told what has ended, or cannot tell it
// soon: the bus that could hold it is away.
func (s *started) endsKnown(w watchdog.Window) bool {
	l := &w.Ledger
	return s.settling == nil || l.Read || l.Known && !l.Ready ||
		slices.ContainsFunc(w.Links, func(l watchdog.Link) bool { return l.Phase == watchdog.LinkDown })
}

// settled reports whether waiting cannot tell more: every source has failed
// already, or was polled whole. What publishes on a bus may beat at any time,
// so a NATS that is up is worth the whole wait.
func settled(links []watchdog.Link) bool {
	for _, l := range links {
		polled := l.Source == watchdog.SourceRedis && l.Sighted && l.LastTrip >= 0
		if l.Phase != watchdog.LinkDown && !polled {
			return false
		}
	}
	return len(links) > 0
}
