package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	backoffMin = 500 * time.Millisecond
	backoffMax = 5 * time.Second
	// pingEvery keeps a source sighted between polls that are further apart
	// than the sight window.
	pingEvery = 3 * time.Second
)

// Store polls a Redis and tells its sink what it sees.
type Store struct {
	target *target
	clock  watchdog.Clock
	logger *slog.Logger
	out    *outbox
	retry  chan struct{}
	life   lifetime.Run
	latest atomic.Pointer[watchdog.LinkChanged] // as last told

	// Owned by the loop.
	poller *poller
	leases *leaseWatch
	denied string            // reason as last told
	wasUp  bool              // since the loop began
	asked  map[string]string // run id of each node whose CONFIG was asked
}

// Open checks o and reads its files; its error says what to change. It does not
// touch the network, so a server that is away is no error. The sink hears of
// the source at once, and of keys while Run runs. A nil logger drops the log.
func Open(o Options, sink Sink, clock watchdog.Clock, logger *slog.Logger) (*Store, error) {
	t, err := o.resolve()
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		target: t, clock: clock, logger: logger, out: newOutbox(sink, logger),
		retry: make(chan struct{}, 1), asked: make(map[string]string),
	}
	s.poller = newPoller(t, clock, s.out)
	s.leases = newLeaseWatch(s.poller, s.out)
	s.poller.leases, s.out.leases = s.leases, s.leases
	sink.Post(watchdog.SourceAdded{Source: watchdog.SourceRedis, At: clock.Now().Mono})
	s.latest.Store(&watchdog.LinkChanged{})
	s.tellLink(watchdog.LinkChanged{Phase: watchdog.LinkConnecting})
	return s, nil
}

// Address is the redacted address for people.
func (s *Store) Address() string { return s.target.display }

// Link is what was last told of the connection.
func (s *Store) Link() watchdog.LinkChanged { return *s.latest.Load() }

// Retry polls now, whatever the back-off says. It never blocks.
func (s *Store) Retry() { ring(s.retry) }

// Close ends Run and waits for it. The sink hears nothing afterwards. It may be
// called more than once, and without Run.
func (s *Store) Close() { s.life.End() }

// Run polls, whatever the server does, and returns nil when ctx ends or Close
// is called. It may be called once.
func (s *Store) Run(ctx context.Context) error {
	ctx, finish, err := s.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	s.poller.client = newClient(ctx, s.target, s.logger)
	defer func() { s.poller.client.Close() }()
	for attempt := 0; ctx.Err() == nil; {
		began := time.Now()
		err := s.poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var wait time.Duration
		if err == nil {
			attempt = 0
			// A poll that takes longer than its interval leaves the server a rest.
			wait = max(s.target.PollInterval-time.Since(began), s.target.PollInterval/4)
		} else {
			attempt++
			wait = backoff(attempt)
			s.tellFailure(err, attempt, wait)
			if attempt%replaceAt == 0 { // what is known of the keys stays
				s.poller.client.Close()
				s.poller.client = newClient(ctx, s.target, s.logger)
			}
		}
		s.rest(ctx, wait, err == nil)
	}
	return nil
}

// rest waits for the next poll, pinging meanwhile if the link is up. A ping
// that fails ends the rest: the poll that follows says what is wrong.
func (s *Store) rest(ctx context.Context, wait time.Duration, up bool) {
	next := time.NewTimer(wait)
	defer next.Stop()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			return
		case <-s.retry:
			return
		case <-ping.C:
			if !up {
				continue
			}
			sent := s.clock.Now().Mono
			if s.poller.ping(ctx) != nil {
				return
			}
			s.out.post(watchdog.RoundTrip{Source: watchdog.SourceRedis, Sent: sent, At: s.clock.Now().Mono, Keys: s.poller.table.alive()})
		}
	}
}

// backoff is the time before the next try, with jitter so that a fleet of
// observers does not come back at once.
func backoff(attempt int) time.Duration {
	d := backoffMax
	if attempt < 5 {
		d = min(backoffMin<<(attempt-1), backoffMax)
	}
	return min(d*9/10+rand.N(d/5), backoffMax)
}

// poll makes one poll and tells what it saw, beats of a failed one too: they
// are true, only absence is not.
func (s *Store) poll(ctx context.Context) error {
	p := s.poller
	sent := s.clock.Now().Mono
	v, err := p.client.survey(ctx)
	if err != nil {
		return s.afterFailure(ctx, err)
	}
	s.tellUp(ctx, v)
	err = p.read(ctx, v)
	now := s.clock.Now().Mono
	s.out.flush(now)
	if err != nil {
		return s.afterFailure(ctx, err)
	}
	s.tellDenied("")
	s.tellWarning(v)
	s.out.post(watchdog.RoundTrip{Source: watchdog.SourceRedis, Sent: sent, At: now, Keys: p.table.alive()})
	if err := s.leases.look(ctx, v); err != nil {
		return s.afterFailure(ctx, err)
	}
	return nil
}

// afterFailure lets the client look at the Cluster anew.
func (s *Store) afterFailure(ctx context.Context, err error) error {
	if c := s.poller.client.cluster; c != nil {
		c.ReloadState(ctx)
	}
	return err
}

// tellUp tells that the store answers, and whether it is still the same one.
func (s *Store) tellUp(ctx context.Context, v *survey) {
	p := s.poller
	for addr, f := range v.facts {
		if f.policy == "" || f.appendOnly == "" || f.maxMemory < 0 {
			s.completeFacts(ctx, v, addr, f)
		}
	}
	reason := v.changed(p.last)
	if reason == "" && s.wasUp && s.Link().Phase == watchdog.LinkDown {
		reason = "reconnected"
	}
	p.last = v
	if s.Link().Phase != watchdog.LinkUp {
		s.wasUp = true
		s.tellLink(watchdog.LinkChanged{Phase: watchdog.LinkUp, Warning: s.warnings(v)})
	}
	if reason == "" {
		return
	}
	p.scan.restart()
	s.leases.restart()
	s.logger.Info("the store changed", "reason", reason)
	s.out.post(watchdog.StoreChanged{Source: watchdog.SourceRedis, Reason: reason, At: s.clock.Now().Mono})
}

// completeFacts asks CONFIG once of each server that hides its settings in INFO.
func (s *Store) completeFacts(ctx context.Context, v *survey, addr string, f facts) {
	id := f.runID + " " + strconv.Itoa(f.connections)
	if s.asked[addr] == id && s.poller.last != nil {
		before := s.poller.last.facts[addr]
		f.policy, f.appendOnly, f.maxMemory = before.policy, before.appendOnly, before.maxMemory
	} else {
		for _, n := range v.nodes {
			if n.addr == addr {
				f.readConfig(ctx, n)
			}
		}
		s.asked[addr] = id
	}
	v.facts[addr] = f
}

// warnings are the sentences about the store, each once.
func (s *Store) warnings(v *survey) string {
	var all []string
	add := func(text string) {
		for _, have := range all {
			if have == text {
				return
			}
		}
		all = append(all, text)
	}
	if w := s.target.transportWarning(); w != "" {
		add(w)
	}
	for _, n := range v.nodes {
		f := v.facts[n.addr]
		for _, w := range f.warnings() {
			add(w)
		}
	}
	if s.poller.full {
		add("more than " + strconv.Itoa(s.target.MaxKeys) + " liveness keys; the rest is not watched")
	}
	return strings.Join(all, "; ")
}

func (s *Store) tellWarning(v *survey) {
	if w := s.warnings(v); w != s.Link().Warning || s.Link().Detail != "" {
		s.tellLink(watchdog.LinkChanged{Phase: watchdog.LinkUp, Warning: w})
	}
}

// tellFailure tells why a poll failed and when the next one comes.
func (s *Store) tellFailure(err error, attempt int, wait time.Duration) {
	var a asked
	command := ""
	if errors.As(err, &a) {
		command = a.command
		err = a.err
	}
	f := explain(err, command)
	s.logger.Debug("poll failed", "attempt", attempt, "reason", f.words)
	ev := watchdog.LinkChanged{
		Phase: watchdog.LinkDown, Detail: f.words, Attempt: attempt,
		NextTry: s.clock.Now().Mono + wait, Warning: s.Link().Warning,
	}
	if f.kind == failedDenied {
		// The link is well; what is missing is a permission.
		ev.Phase = watchdog.LinkUp
		s.tellDenied(strings.TrimPrefix(f.words, "no permission: "))
	}
	s.tellLink(ev)
}

func (s *Store) tellDenied(reason string) {
	if reason == s.denied {
		return
	}
	s.denied = reason
	s.out.post(watchdog.Denied{Source: watchdog.SourceRedis, Reason: reason, At: s.clock.Now().Mono})
}

func (s *Store) tellLink(ev watchdog.LinkChanged) {
	ev.Source, ev.Address, ev.Origin, ev.At = watchdog.SourceRedis, s.target.display, s.target.Origin, s.clock.Now().Mono
	if ev.Phase != s.Link().Phase || ev.Detail != s.Link().Detail {
		s.logger.Info("redis link", "phase", ev.Phase.String(), "address", ev.Address, "detail", ev.Detail)
	}
	s.latest.Store(&ev)
	s.out.post(ev)
}
