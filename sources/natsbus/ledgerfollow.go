package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// reconcileEvery is how often a follower asks whether it missed something.
const reconcileEvery = 10 * time.Second

// echo wakes who follows a stream again after something was heard on its subject:
// a server hands a message on before its stream has stored it, and that takes as
// long as the disk does.
type echo struct {
	*time.Timer
	step int
}

// echoes are the waits from one time to the next.
var echoes = [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 3 * time.Second}

func newEcho() *echo {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &echo{Timer: t}
}

// begin is for what was heard just now.
func (e *echo) begin() {
	e.step = 0
	e.Reset(echoes[0])
}

// next comes after each time.
func (e *echo) next() {
	if e.step++; e.step < len(echoes) {
		e.Reset(echoes[e.step])
	}
}

// Follow tells what stands in the ledger and what comes. It creates nothing on
// the bus, and no consumer: it reads the streams message by message, and what
// is published on their subjects only wakes it, for a write that was refused is
// seen by subscribers too.
//
// A user who may not ask JetStream is told what is published, unconfirmed, and
// never FollowedUp; LedgerChanged says what is missing.
func (l *Ledger) Follow(ctx context.Context, post func(watchdog.Event)) error {
	f := &follower{ledger: l, post: post}
	f.streams = []*followed{
		{name: wire.BucketStream(wire.HeadsBucket), subject: wire.BucketSubject(wire.HeadsBucket, ">"), read: f.head},
		{name: wire.TerminalStream, subject: wire.TerminalSubjectAll, read: f.terminal},
	}
	for {
		c, err := l.js.door.await(ctx, l.js.link)
		if err == nil {
			err = f.on(ctx, c)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errClosed):
			return nil
		case err != nil:
			l.js.log.Warn("following the ledger was interrupted", "error", plainly(err))
			pause(ctx, time.Second)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// follower is one Follow.
type follower struct {
	ledger  *Ledger
	streams []*followed

	mu       sync.Mutex // held while something is posted
	post     func(watchdog.Event)
	wrong    int // messages that are no heads since it was last logged
	foreign  int // terminal records that are foreign, likewise
	example  error
	nowhere  int    // messages on terminal subjects that name no generation, likewise
	last     string // subject of the last of them
	blind    bool   // this user may not ask JetStream
	reported string
}

// followed is one stream and how far it was read.
type followed struct {
	name, subject string
	read          func(stored)
	made          string // identity of the stream; empty: there was none
	next          uint64 // first sequence that was not read
}

// on follows on one connection, until that is gone or something fails.
func (f *follower) on(ctx context.Context, c *conn) error {
	wake := make(chan struct{}, 1)
	for _, s := range f.streams {
		sub, err := c.nc.Subscribe(s.subject, func(m *nats.Msg) { f.heard(s, m, wake) })
		if err != nil {
			return fmt.Errorf("cannot subscribe to %s: %w", s.subject, err)
		}
		defer func() { _ = sub.Unsubscribe() }() // it goes with the connection anyway
	}
	f.setBlind(false)
	again, late := time.NewTicker(f.ledger.reconcile), newEcho()
	defer again.Stop()
	defer late.Stop()
	for first := true; ; first = false {
		err := f.catchUp(ctx, c)
		switch {
		case isDenied(err):
			f.setBlind(true)
			f.say(err)
		case err != nil:
			return err
		default:
			f.setBlind(false)
			f.say(f.deaf())
			f.refuseLog()
			if first {
				f.tell(watchdog.FollowedUp{At: f.ledger.js.mono()})
			}
		}
		if err := f.sleep(ctx, c, wake, late, again.C); err != nil {
			return err
		}
	}
}

// sleep waits until there may be something to read.
func (f *follower) sleep(ctx context.Context, c *conn, wake <-chan struct{}, late *echo, again <-chan time.Time) error {
	if f.isBlind() { // what is heard is told already
		wake = nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ledger.js.door.quit:
		return errClosed
	case <-c.closed:
		return nats.ErrConnectionClosed
	case <-wake:
		late.begin()
	case <-late.C:
		late.next()
	case <-again:
	}
	return nil
}

func isDenied(err error) bool {
	var denied *deniedError
	return errors.As(err, &denied)
}

// heard takes a message that was published on a stream's subject.
func (f *follower) heard(s *followed, m *nats.Msg, wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
	if f.isBlind() {
		s.read(stored{Subject: m.Subject, Data: m.Data, Header: headerOf(m)})
	}
}

func headerOf(m *nats.Msg) []byte {
	if m.Header.Get("KV-Operation") != "" {
		return []byte("KV-Operation:")
	}
	return nil
}

// catchUp reads what was not read yet.
func (f *follower) catchUp(ctx context.Context, c *conn) error {
	for _, s := range f.streams {
		info, err := f.ledger.js.info(ctx, c, s.name)
		if isFault(err, faultNoStream) || errors.Is(err, ErrNoJetStream) {
			s.made, s.next = "", 1
			continue
		}
		if err != nil {
			return err
		}
		if made := info.identity(); made != s.made || info.State.Last+1 < s.next {
			if s.made != "" {
				f.ledger.js.log.Warn("a stream of the ledger was made anew or lost messages; it is read from its start", "stream", s.name)
			}
			s.made, s.next = made, 1
		}
		first := max(s.next, info.State.First)
		if err := f.ledger.js.eachMessage(ctx, c, s.name, s.subject, first, info.State.Last, s.read); err != nil {
			return err
		}
		s.next = max(s.next, info.State.Last+1)
	}
	return nil
}

// terminal tells a terminal record.
func (f *follower) terminal(m stored) {
	id, g, ok := wire.GenerationFromSubject(m.Subject)
	if !ok {
		f.strange(m.Subject)
		return
	}
	r, err := f.ledger.options.Seal.Open(id, g, m.Data)
	if err != nil {
		f.mu.Lock()
		f.foreign++
		f.example = err
		f.mu.Unlock()
		f.tell(watchdog.TerminalSeen{ID: id, Generation: g, Foreign: true, At: f.ledger.js.mono()})
		return
	}
	f.tell(r.Seen(f.ledger.js.mono()))
}

// strange counts what stands on a terminal subject that names no generation: it
// can end nothing, but somebody put it there. The one of the self-test is ours.
func (f *follower) strange(subject string) {
	if subject == wire.TerminalProbeSubject {
		return
	}
	subject = termtext.Clean(subject)
	f.mu.Lock()
	f.nowhere++
	f.last = subject
	f.mu.Unlock()
	refused := watchdog.Refused{Source: watchdog.SourceNATS, Last: watchdog.RefusedID, LastID: subject, At: f.ledger.js.mono()}
	refused.Counts[watchdog.RefusedID] = 1
	f.tell(refused)
}

// head tells a head.
func (f *follower) head(m stored) {
	id, ok := wire.IDFromBucketSubject(wire.HeadsBucket, m.Subject)
	if !ok || isGrave(m) {
		return
	}
	h, err := wire.DecodeHead(id, m.Data)
	if err != nil {
		f.mu.Lock()
		f.wrong++
		f.mu.Unlock()
		return
	}
	f.tell(watchdog.HeadSeen{Head: h, At: f.ledger.js.mono()})
}

func (f *follower) tell(ev watchdog.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.post(ev)
}

// refuseLog says how much could not be read, once a pass.
func (f *follower) refuseLog() {
	f.mu.Lock()
	n, foreign, example := f.wrong, f.foreign, f.example
	nowhere, last := f.nowhere, f.last
	f.wrong, f.foreign, f.nowhere = 0, 0, 0
	f.mu.Unlock()
	if nowhere > 0 {
		f.ledger.js.log.Warn("messages on terminal subjects name no generation; they end nothing, find out who publishes them", "count", nowhere, "the last on", last)
	}
	if foreign > 0 {
		f.ledger.js.log.Warn("foreign terminal records stand in the ledger", "count", foreign, "one of them", example)
	}
	if n > 0 {
		f.ledger.js.log.Warn("entries of the bucket SW_HEADS cannot be read; those sessions are shown without their numbers", "count", n)
	}
}

// deaf says what this user may not hear although it may read.
func (f *follower) deaf() error {
	for _, s := range f.streams {
		if _, err := f.ledger.js.refused("subscribe to " + s.subject); err != nil {
			return err
		}
	}
	return nil
}

// say tells once what this user may not do, or that it may again.
func (f *follower) say(denied error) {
	reason := ""
	switch {
	case denied == nil:
	case f.isBlind():
		reason = "what stands in the ledger cannot be read, and ends are shown unconfirmed as they are published: " + denied.Error()
	default:
		reason = fmt.Sprintf("ends are told %v late at most: %v", reconcileEvery, denied)
	}
	if reason == f.reported {
		return
	}
	f.reported = reason
	if reason == "" {
		return
	}
	f.ledger.js.log.Warn("the ledger cannot be followed as a whole", "reason", reason)
	f.tell(watchdog.LedgerChanged{Authority: f.ledger.Authority(), Reason: reason, At: f.ledger.js.mono()})
}

func (f *follower) setBlind(blind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind = blind
}

func (f *follower) isBlind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blind
}
