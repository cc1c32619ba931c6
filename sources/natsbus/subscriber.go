package natsbus

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// subscriberQueue is how many beats wait for a slow subscriber; more are
// dropped, and it is told.
const subscriberQueue = 1 << 16

// Trouble is the error that Subscribe yields between beats: the link went down
// or came back from it, the subscription is denied, beats were dropped, or
// messages were no beats. The subscription goes on after it.
type Trouble struct {
	Event watchdog.Event // LinkChanged, Denied, Dropped or Refused
}

// Error is a sentence for people.
func (t *Trouble) Error() string {
	switch ev := t.Event.(type) {
	case watchdog.LinkChanged:
		if ev.Phase == watchdog.LinkUp {
			return fmt.Sprintf("%s: connected again; beats in between were missed", ev.Address)
		}
		return fmt.Sprintf("%s: %s; trying again", ev.Address, ev.Detail)
	case watchdog.Denied:
		if ev.Reason == "" {
			return "the server grants the subscription again"
		}
		return "the server denies the subscription: " + ev.Reason
	case watchdog.Dropped:
		return fmt.Sprintf("%d beats were dropped: they are read too slowly", ev.Count)
	case watchdog.Refused:
		n := uint64(0)
		for _, c := range ev.Counts {
			n += c
		}
		return fmt.Sprintf("%d messages were no beats, the newest for %q (%v); %d wrong optional fields", n, ev.LastID, ev.Last, ev.Fields)
	}
	return fmt.Sprintf("%T", t.Event)
}

// Subscribe yields the beats of one session, or of all with an empty id, as
// they arrive: nothing is stored on a bus, so a session is heard from at its
// next beat. Received counts from the start of the iteration. A beat and its
// bytes may be kept.
//
// The iteration ends when the loop breaks or ctx ends. It survives a server
// that is away, and yields a *Trouble with a zero Beat for what the subscriber
// should know meanwhile. Any other error says what is wrong with the options or
// the id, and ends it.
//
// Silence means nothing by itself: the session may be over, stalled, or cut off
// from the bus.
func Subscribe(ctx context.Context, o Options, id watchdog.ID) iter.Seq2[watchdog.Beat, error] {
	return func(yield func(watchdog.Beat, error) bool) {
		subject := wire.LivenessSubjectAll
		if id != "" {
			if err := checkID(id); err != nil {
				yield(watchdog.Beat{}, err)
				return
			}
			subject = wire.LivenessSubject(id)
		}
		q := &subscriber{bell: make(chan struct{}, 1)}
		o.ReadOnly = true
		bus, err := open(o, subject, q, clock.System(), nil)
		if err != nil {
			yield(watchdog.Beat{}, err)
			return
		}
		running := make(chan struct{})
		go func() {
			defer close(running)
			_ = bus.Run(ctx) // its only error is a second call
		}()
		defer func() {
			bus.Close()
			<-running
		}()
		q.drain(ctx, yield)
	}
}

// subscriber is the Sink behind one iteration.
type subscriber struct {
	mu      sync.Mutex
	beats   []watchdog.Beat
	events  []watchdog.Event
	dropped watchdog.Dropped // by our own queue
	wasDown bool
	bell    chan struct{}
}

func (s *subscriber) Beats(batch []watchdog.Beat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := min(len(batch), subscriberQueue-len(s.beats))
	s.beats = append(s.beats, batch[:room]...)
	if lost := len(batch) - room; lost > 0 {
		s.dropped.Source = watchdog.SourceNATS
		s.dropped.Count += uint64(lost)
		s.dropped.At = batch[len(batch)-1].Received
	}
	s.ring()
}

func (s *subscriber) Post(ev watchdog.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev := ev.(type) {
	case watchdog.LinkChanged:
		if ev.Phase == watchdog.LinkConnecting || ev.Phase == watchdog.LinkUp && !s.wasDown {
			return
		}
		s.wasDown = ev.Phase == watchdog.LinkDown
	case watchdog.Denied, watchdog.Dropped, watchdog.Refused:
	default:
		return
	}
	// A subscriber that does not read at all must not fill the memory.
	if len(s.events) < 1024 {
		s.events = append(s.events, ev)
	}
	s.ring()
}

func (s *subscriber) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (s *subscriber) take() ([]watchdog.Beat, []watchdog.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	beats, events := s.beats, s.events
	if s.dropped.Count > 0 {
		events = append(events, s.dropped)
	}
	s.beats, s.events, s.dropped = nil, nil, watchdog.Dropped{}
	return beats, events
}

// drain yields until the loop breaks or ctx ends.
func (s *subscriber) drain(ctx context.Context, yield func(watchdog.Beat, error) bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.bell:
		}
		beats, events := s.take()
		for i := range beats {
			if ctx.Err() != nil || !yield(beats[i], nil) {
				return
			}
		}
		for _, ev := range events {
			if ctx.Err() != nil || !yield(watchdog.Beat{}, &Trouble{Event: ev}) {
				return
			}
		}
	}
}
