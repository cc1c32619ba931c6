package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// publishWithin bounds one attempt. A beat that takes longer says nothing
	// about now.
	publishWithin = 5 * time.Second
	// freshness is how old a beat may be when its attempt begins.
	freshness = 5 * time.Second
	// The wait after a failure doubles from retryMin to retryMax. Then a beat of
	// that moment is sent, not the old one.
	retryMin, retryMax = time.Second, 15 * time.Second
	// lastRetry is the wait between attempts at the last beat.
	lastRetry = 100 * time.Millisecond
)

// courier takes the beats of one session to one publisher, on a goroutine of its
// own: whatever the publisher does stays there. Beats are handed over through
// one slot; the newest wins.
type courier struct {
	to   Publisher
	name string
	log  *slog.Logger
	ask  func()      // asks the session to look at again
	gone func(error) // the publisher says ErrGone

	again atomic.Bool   // a fresh beat is wanted
	bell  chan struct{} // the slot was filled
	done  chan struct{} // closed when the last beat is through, or given up

	mu     sync.Mutex
	slot   *letter
	cancel context.CancelFunc // ends the attempt under way

	failing bool // owned by run
}

// letter is a message and when it was written.
type letter struct {
	Message
	at      time.Time
	last    bool
	expires time.Time // of the last: when it is given up
}

func newCourier(to Publisher, log *slog.Logger, ask func(), gone func(error)) *courier {
	return &courier{
		to: to, name: nameOf(to), log: log, ask: ask, gone: gone,
		bell: make(chan struct{}, 1), done: make(chan struct{}), cancel: func() {},
	}
}

// nameOf is what logs call a publisher.
func nameOf(p Publisher) (name string) {
	name = fmt.Sprintf("%T", p)
	defer func() { _ = recover() }() // a foreign String must not end the agent
	if s, ok := p.(fmt.Stringer); ok {
		name = s.String()
	}
	return name
}

// put fills the slot. The last letter stays there, and an attempt that is under
// way is given a moment to end.
func (c *courier) put(l *letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slot != nil && c.slot.last {
		return
	}
	c.slot = l
	if l.last {
		time.AfterFunc(time.Until(l.expires)/4, c.cancel)
	}
	ring(c.bell)
}

func (c *courier) take() *letter {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.slot
	if l == nil || !l.last {
		c.slot = nil
	}
	return l
}

// run delivers until the last letter is through.
func (c *courier) run() {
	defer close(c.done)
	retry := time.NewTimer(retryMax)
	retry.Stop()
	defer retry.Stop()
	for wait := retryMin; ; {
		select {
		case <-c.bell:
		case <-retry.C:
			c.fresh()
			continue
		}
		l := c.take()
		switch {
		case l == nil:
			continue
		case l.last:
			c.deliverLast(l)
			return
		case time.Since(l.at) > freshness:
			c.fresh() // the attempt before it took that long
			continue
		}
		if err := c.attempt(l, time.Now().Add(publishWithin)); err != nil {
			retry.Reset(wait)
			wait = min(2*wait, retryMax)
			continue
		}
		retry.Stop()
		wait = retryMin
	}
}

// fresh asks for a beat of now.
func (c *courier) fresh() {
	c.again.Store(true)
	c.ask()
}

// deliverLast tries until the last beat is through or its time is over.
func (c *courier) deliverLast(l *letter) {
	for time.Now().Before(l.expires) {
		if c.attempt(l, l.expires) == nil {
			c.mu.Lock()
			c.slot = nil
			c.mu.Unlock()
			return
		}
		time.Sleep(min(lastRetry, max(0, time.Until(l.expires))))
	}
}

// delivered reports whether nothing is left to deliver.
func (c *courier) delivered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slot == nil
}

// attempt publishes once and logs what has changed by it.
func (c *courier) attempt(l *letter, until time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	c.mu.Lock()
	c.cancel = cancel
	if c.slot != nil && c.slot.last && !l.last { // it came just now
		c.mu.Unlock()
		return context.Canceled
	}
	c.mu.Unlock()

	err := c.publish(ctx, l.Message)
	switch {
	case err == nil:
		if c.failing {
			c.failing = false
			c.log.Info("beats are published again", "publisher", c.name)
		}
	case errors.Is(err, ErrGone):
		c.gone(err)
	case !c.failing:
		c.failing = true
		c.log.Warn("beats are not published", "publisher", c.name, "error", err)
	}
	return err
}

// publish turns a panic of the publisher into an error.
func (c *courier) publish(ctx context.Context, m Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the publisher panicked: %v", v)
			if !c.failing {
				c.log.Error("a publisher panicked", "publisher", c.name, "panic", v, "stack", string(debug.Stack()))
			}
		}
	}()
	return c.to.Publish(ctx, m)
}

// notDelivered lists the couriers whose last beat did not leave in time.
func notDelivered(couriers []*courier, id watchdog.ID, within time.Duration) error {
	var errs []error
	for _, c := range couriers {
		if !c.delivered() {
			errs = append(errs, fmt.Errorf("guard: the last beat of %s did not reach %s within %v; observers will see it as silent", id, c.name, within))
		}
	}
	return errors.Join(errs...)
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
