package httpregistry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// reaper is what the rounds remember of each other.
type reaper struct {
	mu       sync.Mutex
	settled  map[watchdog.ID]watchdog.Generation // whose mark was settled: not asked for again
	alive    map[watchdog.ID]time.Time           // when a hash was last seen alive; of the last round only
	lastGood time.Time
	lastWhy  string // why the last round was not good; empty: it was
	// openSince is since when heartbeats could arrive without a break: what was
	// silent before that may have tried.
	openSince time.Time
	lastRound time.Duration // Mono
	lastBoot  time.Duration
}

// stopGap is how late a round may come before we doubt that heartbeats could
// reach us meanwhile: we were stopped, starved or suspended.
const stopGap = 5 * time.Second

// broken reports whether an operator broke the glass.
func (e *Entry) broken() bool { return e.Status == Expired || e.LastSeen.IsZero() }

// sightEvery is how often the registry says that it listens: a heartbeat that
// does not come then was not sent, or was lost on its way.
const sightEvery = 2 * time.Second

// Run reaps every ReapInterval until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.o.ReapInterval)
	defer ticker.Stop()
	sight := time.NewTicker(sightEvery)
	defer sight.Stop()
	now := r.o.Clock.Now().Mono
	r.o.Sink.Post(watchdog.SourceAdded{Source: watchdog.SourceHTTP, At: now})
	r.o.Sink.Post(watchdog.LinkChanged{Source: watchdog.SourceHTTP, Phase: watchdog.LinkUp, Address: r.o.Address, Origin: "serve.listen", At: now})
	r.listening()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sight.C:
			r.listening()
		case <-ticker.C:
			r.Round(ctx)
		}
	}
}

func (r *Registry) listening() {
	now := r.o.Clock.Now().Mono
	r.o.Sink.Post(watchdog.RoundTrip{Source: watchdog.SourceHTTP, Sent: now, At: now})
}

// Round is one round of the reaper. What goes wrong with one session costs only
// that session; what goes wrong with the store ends the round, and the next one
// comes.
func (r *Registry) Round(ctx context.Context) {
	now := r.o.Clock.Now()
	r.notice(now)
	at := time.Unix(0, now.Wall)
	ctx, cancel := context.WithTimeout(ctx, max(2*r.o.ReapInterval, 30*time.Second))
	defer cancel()
	var unreadable, unsettled int
	var why error // of the first of them
	alive := map[watchdog.ID]time.Time{}
	err := r.o.Store.Entries(ctx, func(e Entry, err error) {
		if err != nil {
			unreadable++
			return
		}
		if e.open() {
			alive[e.ID] = at
		}
		if err := r.consider(ctx, e, at); err != nil {
			r.metrics.failed.Inc()
			if unsettled++; why == nil {
				why = fmt.Errorf("%s: %w", e.ID, err)
			}
		}
	})
	r.reaper.mu.Lock()
	r.reaper.alive = alive
	r.reaper.mu.Unlock()
	if unreadable > 0 {
		r.o.Logger.Warn("session hashes could not be read", "count", unreadable)
	}
	if unsettled > 0 {
		r.o.Logger.Warn("sessions were not settled; they are judged again in the next round", "count", unsettled, "one of them", netreason.Short(why.Error()))
	}
	if err == nil {
		err = r.o.Store.ReaperRan(ctx, at)
	}
	r.finish(at, err)
}

// notice finds out whether heartbeats could not reach us for a while.
func (r *Registry) notice(now watchdog.Instant) {
	r.reaper.mu.Lock()
	defer r.reaper.mu.Unlock()
	if last := r.reaper.lastRound; last != 0 {
		late := now.Mono - last - r.o.ReapInterval
		slept := (now.Boot - r.reaper.lastBoot) - (now.Mono - last)
		if late > stopGap || slept > stopGap {
			r.reaper.openSince = time.Unix(0, now.Wall)
		}
	}
	r.reaper.lastRound, r.reaper.lastBoot = now.Mono, now.Boot
}

// finish notes how a round went. After one that failed nobody is reaped for a
// whole TTL: heartbeats may have been turned away.
func (r *Registry) finish(at time.Time, err error) {
	r.reaper.mu.Lock()
	defer r.reaper.mu.Unlock()
	if err != nil {
		r.reaper.lastWhy = netreason.Short(err.Error())
		r.reaper.openSince = wall(r.o.Clock)
		r.o.Logger.Error("the reaper's round failed; the next one comes", "error", r.reaper.lastWhy)
		return
	}
	r.reaper.lastGood, r.reaper.lastWhy = at, ""
	r.metrics.lastRun.Set(float64(at.UnixMilli()) / 1000)
}

// LastGoodRound tells when a round last went through, and why the last one did
// not.
func (r *Registry) LastGoodRound() (at time.Time, why string) {
	r.reaper.mu.Lock()
	defer r.reaper.mu.Unlock()
	return r.reaper.lastGood, r.reaper.lastWhy
}

// consider decides about one hash.
func (r *Registry) consider(ctx context.Context, e Entry, now time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("judging it panicked: %v", p)
		}
	}()
	switch {
	case e.broken():
		return r.breakGlass(ctx, e)
	case e.Status == Alive && r.overdue(e, now):
		return r.reap(ctx, e, now)
	}
	return nil
}

// overdue: strictly more than the TTL since the last heartbeat, of which only
// the time counts in which one could arrive.
func (r *Registry) overdue(e Entry, now time.Time) bool {
	r.reaper.mu.Lock()
	since := r.reaper.openSince
	r.reaper.mu.Unlock()
	if e.LastSeen.After(since) {
		since = e.LastSeen
	}
	return now.Sub(since) > e.TTL
}

// breakGlass settles what an operator expired in the hash.
func (r *Registry) breakGlass(ctx context.Context, e Entry) error {
	head, _, err := r.head(ctx, e.ID, true)
	if err != nil {
		return err
	}
	r.reaper.mu.Lock()
	done := r.reaper.settled[e.ID] == head.Generation && head.Generation != 0
	r.reaper.mu.Unlock()
	if done {
		return nil
	}
	return r.expire(ctx, e, head)
}

// expire settles a session whose hash says expired. A mark that an older
// generation left goes instead: it says nothing of the one that lives.
func (r *Registry) expire(ctx context.Context, e Entry, head watchdog.Head) error {
	if !head.Ended {
		e, found, err := r.o.Store.Entry(ctx, e.ID)
		if err != nil || !found || !e.broken() {
			return err // somebody dealt with it since it was read
		}
		if left, err := r.leftBehind(ctx, e, head); err != nil {
			return err
		} else if left {
			return r.o.Store.Forget(ctx, e.ID)
		}
		g, err := r.numbered(ctx, e, head)
		if err != nil {
			return err
		}
		rec := watchdog.Record{ID: e.ID, Generation: g, Outcome: watchdog.OutcomeExpired, SettledBy: watchdog.ByOperator,
			Writer: r.o.Writer, Reason: "expired by hand in session:" + string(e.ID), At: wall(r.o.Clock)}
		if err := r.settle(ctx, e, rec); err != nil {
			return err
		}
		head.Generation = g
	}
	// One of the two marks is enough for an operator, even where there was no
	// hash; afterwards both stand in a whole one, which goes by itself in time.
	if e.TTL <= 0 {
		whole := Entry{ID: e.ID, AgentID: e.AgentID, LastSeen: wall(r.o.Clock), TTL: r.o.TTL, Status: Alive}
		if err := r.o.Store.Register(ctx, whole); err != nil {
			return err
		}
		e = whole
	}
	if e.Status != Expired || !e.LastSeen.IsZero() {
		if _, err := r.o.Store.Mark(ctx, e, Expired); err != nil {
			return err
		}
	}
	r.reaper.mu.Lock()
	defer r.reaper.mu.Unlock()
	r.reaper.settled[e.ID] = head.Generation
	return nil
}

// lookBack is how many generations before the head may have left a mark.
const lookBack = 16

// leftBehind reports whether the mark of a hash stands there since an older
// generation was expired. Every mark that was settled has both its halves, in a
// whole hash; one that an operator makes anew has one of them, or stands alone, or
// comes on a hash that was seen alive after that end.
func (r *Registry) leftBehind(ctx context.Context, e Entry, head watchdog.Head) (bool, error) {
	if e.Status != Expired || !e.LastSeen.IsZero() || e.TTL <= 0 {
		return false, nil
	}
	r.reaper.mu.Lock()
	alive := r.reaper.alive[e.ID]
	r.reaper.mu.Unlock()
	for g := head.Generation; g > 1 && head.Generation-g < lookBack; g-- {
		rec, found, err := r.o.Ends.Record(ctx, e.ID, g-1)
		if err != nil {
			return false, err
		}
		if found && rec.Outcome == watchdog.OutcomeExpired {
			return !alive.After(rec.At), nil
		}
	}
	return false, nil
}

// numbered gives the generation to settle, which a hash of a foreign writer may
// not have yet.
func (r *Registry) numbered(ctx context.Context, e Entry, head watchdog.Head) (watchdog.Generation, error) {
	if head.Generation != 0 {
		return head.Generation, nil
	}
	return r.o.Ends.Claim(ctx, watchdog.Claim{ID: e.ID, Cadence: r.o.Interval, Sources: watchdog.SourceHTTP.Set()})
}

// reap settles, marks, releases and audits one session that stopped.
func (r *Registry) reap(ctx context.Context, scanned Entry, now time.Time) error {
	e, found, err := r.o.Store.Entry(ctx, scanned.ID)
	if err != nil || !found || !r.overdue(e, now) || e.Status != Alive {
		return err // a heartbeat came between the scan and now
	}
	head, _, err := r.head(ctx, e.ID, true)
	if err != nil {
		return err
	}
	g, err := r.numbered(ctx, e, head)
	if err != nil {
		return err
	}
	if head.Ended {
		return r.markEnded(ctx, e, g)
	}
	sight, err := r.o.Watch.Sight(ctx, e.ID, g)
	switch {
	case err != nil:
		return err
	case sight.Elsewhere != "":
		r.o.Sink.Post(watchdog.HTTPSilent{ID: e.ID, Generation: g, Age: now.Sub(e.LastSeen), At: r.o.Clock.Now().Mono})
		return nil
	case sight.Held != "":
		return nil
	}
	if e, found, err = r.o.Store.Entry(ctx, e.ID); err != nil || !found || !r.overdue(e, now) {
		return err // the last look before the write
	}
	rec := watchdog.Record{ID: e.ID, Generation: g, Outcome: watchdog.OutcomeLost, SettledBy: watchdog.ByReaper, Writer: r.o.Writer,
		Reason: fmt.Sprintf("no heartbeat for %d s (ttl %d s)", int(now.Sub(e.LastSeen).Seconds()), int(e.TTL.Seconds())), At: now}
	if err := r.settle(ctx, e, rec); err != nil {
		return err
	}
	return r.markEnded(ctx, e, g)
}

// markEnded projects the end onto the hash, by the outcome that stands.
func (r *Registry) markEnded(ctx context.Context, e Entry, g watchdog.Generation) error {
	rec, found, err := r.o.Ends.Record(ctx, e.ID, g)
	if err != nil || !found {
		return err
	}
	switch rec.Outcome {
	case watchdog.OutcomeLost:
		_, err = r.o.Store.Mark(ctx, e, Reaped)
	case watchdog.OutcomeExpired:
		_, err = r.o.Store.Mark(ctx, e, Expired)
	case watchdog.OutcomeCompleted, watchdog.OutcomeError, watchdog.OutcomeStopped, watchdog.OutcomeNone:
		err = r.o.Store.Forget(ctx, e.ID)
	}
	return err
}

// settle writes the end. If it is ours it is released and audited, each by
// itself: a hook that fails loses neither the audit nor the rest of the round.
func (r *Registry) settle(ctx context.Context, e Entry, rec watchdog.Record) error {
	stands, ours, err := r.o.Ends.Settle(ctx, rec)
	if err != nil {
		return err
	}
	r.SawHead(watchdog.Head{ID: rec.ID, Generation: rec.Generation, Ended: true})
	if !ours {
		return nil
	}
	r.metrics.reaped.WithLabelValues(stands.Outcome.String()).Inc()
	released := r.hook.Run(ctx, stands, e.AgentID)
	if released.Ran && !released.OK {
		r.metrics.releaseFailed.Inc()
	}
	r.audit(e, stands, released)
	if stands.Outcome == watchdog.OutcomeLost {
		r.tellRate(stands.At)
	}
	return nil
}

// tellRate raises the alert of a fleet that is reaped faster than is normal.
func (r *Registry) tellRate(now time.Time) {
	reaps, opens, raised := r.rate.reaped(now)
	if !raised {
		return
	}
	text := watchdog.FormatCount(reaps) + " sessions reaped of " + watchdog.FormatCount(opens) + " opened in the last hour"
	r.o.Logger.Warn("the reap rate is high", "reaped", reaps, "opened", opens)
	if r.o.Alert != nil {
		r.o.Alert(text)
	}
}

// audit writes the line of one reap.
func (r *Registry) audit(e Entry, rec watchdog.Record, released Release) {
	if r.o.Audit == nil {
		return
	}
	event := "session.reaped"
	if rec.Outcome == watchdog.OutcomeExpired {
		event = "session.expired"
	}
	err := r.o.Audit(struct {
		Event      string              `json:"event"`
		ID         watchdog.ID         `json:"session_id"`
		AgentID    *string             `json:"agent_id"`
		Timestamp  float64             `json:"timestamp"`
		Generation watchdog.Generation `json:"generation"`
		LastSeen   float64             `json:"last_seen"`
		TTL        float64             `json:"ttl"`
		Reason     string              `json:"reason"`
		By         string              `json:"by"`
		Release    *Release            `json:"release"`
	}{event, rec.ID, orNull(e.AgentID), unixSeconds(rec.At), rec.Generation, unixSeconds(e.LastSeen), e.TTL.Seconds(), rec.Reason, rec.Writer, released.orNil()})
	if err != nil {
		r.o.Logger.Error("an audit line was not written", "session", rec.ID, "error", err)
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// unixSeconds spells a moment as the registry does: seconds with three decimals.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
