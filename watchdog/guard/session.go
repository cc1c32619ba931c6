package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// lateness is how late a session may look at its own clock before it
	// concludes that the process was stopped or starved.
	lateness = time.Second
	// pingSpread is the time over which the answers of a fleet are spread.
	pingSpread = time.Second
	// maxText bounds what is kept of a text; beats carry less.
	maxText = 4 << 10
)

// Session is one execution of an agent, seen by its observers from Start until
// it is completed, failed or closed. All methods are safe for concurrent use,
// and none waits for a publisher but Close.
type Session struct {
	o     Options
	boot  string
	began time.Time // carries a monotonic reading; the session's clock counts from it
	work  activity

	cancel    context.CancelCauseFunc // of the work's context
	couriers  []*courier
	unping    []func()
	bell      chan struct{}  // something has changed
	receiving sync.WaitGroup // those who receive commands
	over      chan struct{}  // closed by the end
	done      chan struct{}  // closed when the last beat was handed out

	mu      sync.Mutex
	task    string
	waits   waits
	wished  bool // a beat is wanted soon
	pinged  bool
	stopped bool
	ended   bool
	end     watchdog.State
	message string
	seq     int64

	// Owned by run.
	pulse     pulse
	sweepAt   time.Duration
	excused   time.Duration // for which nobody could work, since excusedAt
	excusedAt time.Duration // the activity that it follows
}

// Start begins a session and its heartbeats. The context that it returns is for
// the work: it is cancelled when ctx is, when the budget is spent (ErrBudget),
// when an operator stops the session (ErrStopped), when a registry has given it
// up (ErrGone), and after Close; context.Cause tells which. The session itself
// lasts until Close. Start waits for no network. Its error lists all that is
// wrong with the options.
func Start(ctx context.Context, o Options) (*Session, context.Context, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	s := &Session{
		o: o, began: time.Now(), boot: strings.ToLower(rand.Text()[:13]), task: shorten(o.Task, maxText),
		bell: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{}),
		waits: waits{open: make(map[*wait]struct{})},
		pulse: newPulse(o.Interval), sweepAt: never,
	}
	if o.Budget != nil {
		if err := o.Budget.attach(s.budgetChanged); err != nil {
			return nil, nil, err
		}
	}
	ctx, s.cancel = context.WithCancelCause(ctx)
	for _, p := range o.Publishers {
		c := newCourier(p, o.Logger.With("session", string(o.ID)), func() { ring(s.bell) }, s.givenUp)
		s.couriers = append(s.couriers, c)
		s.listen(p)
		go c.run()
	}
	if o.Budget != nil && o.Budget.Remaining() <= 0 { // spent before the start
		s.budgetChanged(true)
	}
	s.receive()
	go s.run()
	return s, ctx, nil
}

// listen takes pings from a publisher that can hear them.
func (s *Session) listen(p Publisher) {
	pinger, ok := p.(Pinger)
	if !ok {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.o.Logger.Error("a publisher panicked; pings are not heard", "publisher", nameOf(p), "panic", v)
		}
	}()
	s.unping = append(s.unping, pinger.OnPing(s.ping))
}

// ID is the session's name.
func (s *Session) ID() watchdog.ID { return s.o.ID }

// BootID names this execution in its beats until the ledger gives it a number.
func (s *Session) BootID() string { return s.boot }

// Touch says that the work goes on: call it for every token, tool call and
// checkpoint. It costs a few nanoseconds, from many goroutines too.
func (s *Session) Touch() {
	if s.work.touch(s.began) {
		ring(s.bell)
	}
}

// SetTask describes what the agent does now. A new task counts as activity.
func (s *Session) SetTask(text string) {
	s.mu.Lock()
	s.task = shorten(text, maxText)
	s.mu.Unlock()
	s.Touch()
}

// Stop does what an operator's command does: it cancels the context of the work
// with ErrStopped and ends every wait. The beats go on until Close, so that the
// operator sees whether the work heeds it.
func (s *Session) Stop(reason string) {
	s.stop("stopped", reason, func() { s.cancel(ErrStopped) })
}

// stop ends the work by do, once.
func (s *Session) stop(message, reason string, do func()) {
	s.mu.Lock()
	first := !s.stopped && !s.ended
	s.stopped = s.stopped || first
	if first {
		s.message = strings.TrimSuffix(message+": "+shorten(reason, maxText), ": ")
		s.wish()
	}
	s.mu.Unlock()
	if first {
		do()
	}
}

// Complete ends the session: the work is done. One last beat says so; Close
// waits until it has left. After the first end all others change nothing. A
// session whose budget is spent ends in error all the same.
func (s *Session) Complete() { s.finish(watchdog.StateCompleted, nil) }

// Fail ends the session in error; err is shown beside it.
func (s *Session) Fail(err error) {
	if err == nil {
		err = ErrUnfinished
	}
	s.finish(watchdog.StateError, err)
}

// Close ends a session that was neither completed nor failed in error, cancels
// the context of the work, and waits until the last beat has left, for
// Options.FlushTimeout at most. Its error names the publishers that did not take
// it. It may be called again.
func (s *Session) Close() error {
	s.Fail(ErrUnfinished)
	s.cancel(context.Canceled)
	<-s.done
	limit, expired := context.WithTimeout(context.Background(), s.o.FlushTimeout+lastRetry)
	defer expired()
	answered := make(chan struct{})
	go func() { s.receiving.Wait(); close(answered) }()
	defer func() {
		select {
		case <-answered: // what was asked for is answered
		case <-limit.Done():
		}
	}()
	for _, c := range s.couriers {
		select {
		case <-c.done:
		case <-limit.Done():
			// A publisher that heeds no context keeps its goroutine until it returns.
			return notDelivered(s.couriers, s.o.ID, s.o.FlushTimeout)
		}
	}
	return notDelivered(s.couriers, s.o.ID, s.o.FlushTimeout)
}

// finish decides how the session ends, once.
func (s *Session) finish(end watchdog.State, err error) {
	exhausted, message := false, ""
	if err != nil {
		message = err.Error()
	}
	if b := s.o.Budget; b != nil {
		_, _, exhausted = b.told()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if exhausted {
		end = watchdog.StateError
		if message == "" || message == ErrUnfinished.Error() {
			message = "" // the budget says it better
		}
	} else if s.stopped && (errors.Is(err, ErrUnfinished) || errors.Is(err, ErrStopped) || errors.Is(err, context.Canceled)) {
		message = s.message // it says by whom, and why
	}
	s.ended, s.end, s.message = true, end, shorten(message, maxText)
	close(s.over)
}

func (s *Session) now() time.Duration { return time.Since(s.began) }

// wish asks for a beat soon; s.mu is held.
func (s *Session) wish() {
	s.wished = true
	ring(s.bell)
}

// ping is called by publishers.
func (s *Session) ping() {
	s.mu.Lock()
	s.pinged = true
	s.mu.Unlock()
	ring(s.bell)
}

func (s *Session) budgetChanged(exhausted bool) {
	s.mu.Lock()
	s.wish()
	s.mu.Unlock()
	if exhausted {
		s.cancel(ErrBudget)
	}
}

// givenUp is told by a publisher that the execution is gone.
func (s *Session) givenUp(err error) { s.cancel(err) }

// run is the one goroutine that decides.
func (s *Session) run() {
	defer close(s.done)
	defer func() {
		for _, remove := range s.unping {
			protect(remove)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for planned := time.Duration(0); ; { // a process may be stopped before the first look
		select {
		case <-timer.C:
		case <-s.bell:
		case <-s.over:
			s.farewell()
			return
		}
		now := s.now()
		if late := now - planned; late > lateness {
			s.excuse(late)
		}
		planned = s.look(now)
		timer.Reset(max(0, planned-s.now()))
	}
}

// look does what is due now and says when to look again.
func (s *Session) look(now time.Duration) time.Duration {
	if now >= s.sweepAt {
		s.work.sweep(now)
		s.sweepAt = never
	}
	if s.sweepAt == never && s.work.marked() {
		s.sweepAt = now + grainOf(s.o.StallTimeout)
	}
	s.mu.Lock()
	if s.wished {
		s.pulse.ask(now)
	}
	if s.pinged {
		s.pulse.asked(now, mathrand.N(pingSpread))
	}
	s.wished, s.pinged = false, false
	s.mu.Unlock()

	deadline := s.deadline(now)
	if s.pulse.step(now, deadline) {
		s.send(now)
	}
	for _, c := range s.couriers {
		if !c.again.Swap(false) {
			continue
		}
		if m, ok := s.compose(now, false); ok {
			c.put(&letter{Message: m, at: time.Now()})
		}
	}
	return min(s.pulse.next(deadline), s.sweepAt)
}

// deadline is when the stall timeout passes if nothing happens.
func (s *Session) deadline(now time.Duration) time.Duration {
	worked := s.work.at(now)
	if worked != s.excusedAt {
		s.excused = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waits.longest(); w != nil {
		worked = max(worked, w.until)
	}
	return worked + s.excused + s.o.StallTimeout
}

// excuse leaves a time in which the whole process stood still out of account:
// the work had no chance either.
func (s *Session) excuse(late time.Duration) {
	worked := time.Duration(s.work.last.Load())
	if worked != s.excusedAt {
		s.excused, s.excusedAt = 0, worked
	}
	s.excused += late
}

// send hands a beat to every publisher.
func (s *Session) send(now time.Duration) {
	m, ok := s.compose(now, false)
	if !ok {
		return
	}
	for _, c := range s.couriers {
		c.again.Store(false)
		c.put(&letter{Message: m, at: time.Now()})
	}
}

// farewell hands out the last beat.
func (s *Session) farewell() {
	m, _ := s.compose(s.now(), true)
	at := time.Now()
	for _, c := range s.couriers {
		c.put(&letter{Message: m, at: at, last: true, expires: at.Add(s.o.FlushTimeout)})
	}
}

// compose says what there is to say now. Once the session has ended only the
// last beat is left to say, so that there is one.
func (s *Session) compose(now time.Duration, last bool) (m Message, ok bool) {
	b := new(watchdog.Beat)
	b.Reset()
	b.ID = []byte(s.o.ID)
	b.Uptime = int64(now / time.Second)
	b.BootID = []byte(s.boot)
	b.Interval, b.StallTimeout = s.o.Interval, s.o.StallTimeout
	b.Host, b.Agent, b.PID = bytesOf(s.o.Host), bytesOf(s.o.AgentID), int64(s.o.PID)
	worked := s.work.at(now)
	if worked == s.excusedAt {
		worked += s.excused
	}
	b.Idle = max(0, now-worked)
	if len(s.o.Commands) > 0 {
		b.Takes, b.TakesSaid = watchdog.OpSetOf(s.o.takes()...), true
	}
	if s.pulse.stalled {
		b.State = watchdog.StateStalled
	}
	if l := s.o.Loop; l != nil && l.Armed() {
		b.LoopLag = l.Lag()
	}
	message := ""
	b.Credits = math.NaN()
	if s.o.Budget != nil {
		b.Credits, message, _ = s.o.Budget.told()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != last {
		return Message{}, false
	}
	if s.ended {
		b.State = s.end
	}
	if s.message != "" {
		message = s.message
	}
	b.Message = bytesOf(message)
	b.Task = bytesOf(s.task)
	b.WaitingFor, b.WaitingMax = s.waits.show()
	s.seq++
	b.Seq = s.seq
	return Message{Beat: b, Plain: s.o.Plain, TTL: s.o.RedisTTL}, true
}

// bytesOf is nil for an empty text: unknown, not empty.
func bytesOf(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// protect calls foreign code that must not end the agent.
func protect(f func()) {
	defer func() { _ = recover() }()
	f()
}
