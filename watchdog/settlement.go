package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// settleStep is a moment between two steps of a settlement at which a process
// may die. What is missing then is done by the next pass of anybody.
type settleStep uint8

const (
	stepJudged settleStep = iota
	stepWritten
	stepHeadClosed
	stepProjected
	stepTold
	settleSteps
)

func (s *Settler) at(step settleStep) {
	if s.step != nil {
		s.step(step)
	}
}

// errNotDue: a settlement was cancelled because it no longer holds.
var errNotDue = errors.New("it is no longer due: a beat came meanwhile, or the fleet is held")

// settleDue carries out one Settle of the tracker.
func (s *Settler) settleDue(ctx context.Context, e Settle) {
	err := s.call(ctx, 2*callLimit+projectLimit, "settling", func(ctx context.Context) error { return s.attempt(ctx, e) })
	s.mu.Lock()
	delete(s.settling, generationKey{e.ID, e.Generation})
	s.work--
	switch {
	case err == nil:
		s.settled++
	case !errors.Is(err, errNotDue):
		s.failed++
	}
	s.mu.Unlock()
	if err == nil {
		return
	}
	s.post(SettleFailed{ID: e.ID, Generation: e.Generation, Reason: err.Error(), At: s.now()})
	if !errors.Is(err, errNotDue) {
		s.log.Warn("a generation was not settled; the next pass judges it again",
			"session", e.ID, "generation", e.Generation, "outcome", e.Outcome.String(), "reason", err.Error())
		s.doubt(err)
	}
}

func (s *Settler) attempt(ctx context.Context, e Settle) error {
	if ok, reason := s.Ready(); !ok {
		return errors.New(reason)
	}
	r := Record{ID: e.ID, Generation: e.Generation, Outcome: e.Outcome, SettledBy: e.By, Reason: e.Reason}
	if s.cfg.Why != nil {
		r.Why = s.cfg.Why(e)
	}
	s.at(stepJudged)
	_, err := s.write(ctx, r, func() bool {
		return s.cfg.StillDue == nil || s.without&guardStillDue != 0 || s.cfg.StillDue(e)
	})
	return err
}

// Settle writes an end that a supervisor, the reaper or an operator decided, and
// gives the record that stands: another one's if that was there first. Writer,
// Nonce and At are filled in. Its error wraps ErrAuthorityAway if nothing can be
// settled now, ErrForeignRecord, or ErrUnknown: then ask again, which is safe.
//
// An operator's expire ends its generation even where a foreign record stands,
// see Overruling.
func (s *Settler) Settle(ctx context.Context, r Record) (Record, error) {
	if r.ID == "" || r.Generation == 0 || r.Outcome == OutcomeNone {
		return Record{}, fmt.Errorf("an end needs a session id, a generation and an outcome; it has %q, %d and %q", r.ID, r.Generation, r.Outcome)
	}
	if err := s.mustBeReady(ctx); err != nil {
		return Record{}, err
	}
	r = s.named(r)
	stands, err := s.write(ctx, r, func() bool { return true })
	if errors.Is(err, ErrForeignRecord) && r.SettledBy == ByOperator && r.Outcome == OutcomeExpired {
		stands, err = s.overrule(ctx, r)
	}
	if err != nil {
		s.doubt(err)
	}
	return stands, err
}

// overrule closes the head of a generation whose place holds something foreign.
func (s *Settler) overrule(ctx context.Context, r Record) (stands Record, err error) {
	err = s.call(ctx, callLimit, "closing the head over a foreign record", func(ctx context.Context) error {
		end, err := OverruleForeign(ctx, s.cfg.Ledger, r)
		stands = end
		return err
	})
	if err != nil {
		return Record{}, err
	}
	s.log.Warn("an operator expired a generation over a foreign terminal record", "session", stands.ID, "generation", stands.Generation,
		"writer", stands.Writer, "reason", stands.Reason)
	seen := stands.Seen(s.now())
	seen.Overrules = true
	s.post(seen)
	// Nothing in the outbox names this end: whoever asks again repairs it.
	s.project(ctx, stands)
	return stands, nil
}

// Claim gives the number of an execution, see Allocate.
func (s *Settler) Claim(ctx context.Context, c Claim) (Generation, error) {
	if err := s.mustBeReady(ctx); err != nil {
		return 0, err
	}
	g, err := s.allocate(ctx, c)
	if err != nil {
		s.doubt(err)
		return 0, err
	}
	s.post(Claimed{Claim: c, Generation: g, At: s.now()})
	return g, nil
}

func (s *Settler) mustBeReady(ctx context.Context) error {
	if ok, _ := s.Ready(); ok {
		return nil
	}
	return s.check(ctx)
}

func (s *Settler) allocate(ctx context.Context, c Claim) (g Generation, err error) {
	err = s.call(ctx, callLimit, "asking for a number", func(ctx context.Context) error {
		number, err := Allocate(ctx, s.cfg.Ledger, c)
		g = number
		return err
	})
	if err != nil {
		return 0, err
	}
	return g, nil
}

// number carries out one Number of the tracker.
func (s *Settler) number(ctx context.Context, c Claim) {
	defer func() {
		s.mu.Lock()
		delete(s.numbering, c.key())
		s.mu.Unlock()
	}()
	if ok, _ := s.Ready(); !ok {
		return // the tracker asks again
	}
	g, err := s.allocate(ctx, c)
	if err != nil {
		s.log.Warn("an execution has no number yet; it is asked for again", "session", c.ID, "reason", err.Error())
		s.doubt(err)
		return
	}
	s.post(Claimed{Claim: c, Generation: g, At: s.now()})
}

// named says in a record who writes it, and when.
func (s *Settler) named(r Record) Record {
	r.Writer = cmp.Or(r.Writer, s.cfg.Writer)
	if r.Nonce == "" { // whoever may ask again with the same end gives its own
		r.Nonce = s.cfg.Nonce()
	}
	if r.At.IsZero() {
		r.At = s.wall()
	}
	return r
}

// write makes r the end of its generation, if there is none and it is still due,
// and does what follows from the end if it is ours. It gives the end that stands.
func (s *Settler) write(ctx context.Context, r Record, due func() bool) (Record, error) {
	r = s.named(r)
	stands, err := s.writeOnce(ctx, r, due)
	if errors.Is(err, ErrForeignRecord) {
		s.post(TerminalSeen{ID: r.ID, Generation: r.Generation, Foreign: true, At: s.now()})
	}
	if err != nil {
		return Record{}, err
	}
	s.at(stepWritten)
	if stands.Nonce == r.Nonce || s.without&guardNonce != 0 {
		s.follow(ctx, stands)
	} else {
		s.post(stands.Seen(s.now()))
	}
	return stands, nil
}

// writeOnce writes until it is known what stands.
func (s *Settler) writeOnce(ctx context.Context, r Record, due func() bool) (Record, error) {
	var err error
	for range unknownWrites {
		if !due() {
			return Record{}, errNotDue
		}
		var stands Record
		err = s.call(ctx, callLimit, "writing the end", func(ctx context.Context) (err error) {
			stands, err = s.cfg.Ledger.WriteOnce(ctx, r)
			return err
		})
		if err == nil {
			if s.without&guardNonce != 0 {
				return r, nil // takes any answer for its own
			}
			return stands, nil
		}
		if !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			return Record{}, err
		}
		// Only the store knows. Ours is told from another's by its nonce.
		found := false
		readErr := s.call(ctx, callLimit, "reading the end back", func(ctx context.Context) (err error) {
			stands, found, err = s.cfg.Ledger.Record(ctx, r.ID, r.Generation)
			return err
		})
		if readErr != nil {
			return Record{}, readErr
		}
		if found {
			return stands, nil
		}
	}
	return Record{}, err
}

// follow does what follows from an end: head, projections, outbox. Each may
// fail by itself and is repaired by the next pass. It reports whether all is
// done.
func (s *Settler) follow(ctx context.Context, r Record) bool {
	done := s.shown(r, "the head", s.call(ctx, callLimit, "closing the head", func(ctx context.Context) error {
		return CloseHead(ctx, s.cfg.Ledger, r)
	}))
	s.at(stepHeadClosed)
	s.post(r.Seen(s.now()))
	done = s.project(ctx, r) && done
	s.at(stepProjected)
	if done {
		done = s.shown(r, "the outbox", s.call(ctx, callLimit, "clearing the outbox", func(ctx context.Context) error { return s.cfg.Ledger.Told(ctx, r) }))
	}
	s.at(stepTold)
	return done
}

// project shows an end in all places beside the ledger.
func (s *Settler) project(ctx context.Context, r Record) (done bool) {
	done = true
	for _, p := range s.cfg.Projections {
		done = s.shown(r, p.ProjectionName(), s.call(ctx, projectLimit, "projecting to "+p.ProjectionName(), func(ctx context.Context) error {
			return p.Project(ctx, r)
		})) && done
	}
	return done
}

// shown tells of a place that does not show an end yet, and reports whether it
// does.
func (s *Settler) shown(r Record, where string, err error) bool {
	if err != nil {
		s.log.Warn("an end is not shown everywhere; the next pass repairs it",
			"session", r.ID, "generation", r.Generation, "in", where, "reason", err.Error())
	}
	return err == nil
}

// keep puts one late beat into quarantine.
func (s *Settler) keep(ctx context.Context, l Late) {
	err := s.call(ctx, callLimit, "keeping a late beat", func(ctx context.Context) error { return s.cfg.Quarantine.Keep(ctx, l) })
	if err != nil && ctx.Err() == nil {
		s.log.Warn("a late beat was not kept", "session", l.ID, "generation", l.Generation, "reason", err.Error())
	}
}

// repairAge is how old an end must be before somebody else than its writer does
// what follows from it.
const repairAge = 10 * time.Second

// makePass checks the authority, repairs what a crash left, and waits for the
// settlements that were asked for with it.
func (s *Settler) makePass(ctx context.Context) {
	began := s.now()
	passCtx, cancel := context.WithTimeout(ctx, s.cfg.Policy.SweepTimeout)
	defer cancel()
	err := s.check(passCtx)
	repaired := 0
	if err == nil {
		repaired, err = s.repair(passCtx)
	}
	if err == nil {
		err = s.drained(passCtx)
	}
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	swept := Swept{Settled: s.settled, Failed: s.failed}
	s.settled, s.failed = 0, 0
	s.mu.Unlock()
	swept.At = s.now()
	swept.Took = swept.At - began
	if err != nil {
		swept.Reason = err.Error()
		s.log.Warn("a pass failed", "reason", swept.Reason)
	} else if repaired > 0 {
		s.log.Info("ends that a crash left half told were told", "count", repaired)
	}
	s.post(swept)
}

func (r *Record) key() generationKey { return generationKey{r.ID, r.Generation} }

// maxStuck bounds how many ends that cannot be told are read over by a pass.
const maxStuck = 5000

// repair does what follows from ends whose writers died before they did it.
func (s *Settler) repair(ctx context.Context) (repaired int, err error) {
	var left []Record
	err = s.call(ctx, callLimit, "reading the outbox", func(ctx context.Context) (err error) {
		left, err = s.cfg.Ledger.Outbox(ctx, s.cfg.Policy.SweepBatch+min(len(s.stuck), maxStuck))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reading what is left to tell: %w", err)
	}
	// What could not be told before comes last: it must not hide what is new.
	slices.SortStableFunc(left, func(a, b Record) int { return s.stuck[a.key()] - s.stuck[b.key()] })
	stuck := map[generationKey]int{}
	defer func() { s.stuck = stuck }()
	for _, r := range left {
		if age := s.wall().Sub(r.At); age >= 0 && age < repairAge {
			continue // its writer is at it
		}
		if ctx.Err() != nil {
			return repaired, fmt.Errorf("the pass took longer than %v; the next one goes on", s.cfg.Policy.SweepTimeout)
		}
		if s.follow(ctx, r) {
			repaired++
		} else {
			stuck[r.key()] = s.stuck[r.key()] + 1
		}
	}
	return repaired, nil
}

// drainPause is how often a pass looks whether its settlements are done.
const drainPause = 50 * time.Millisecond

// drained waits until no settlement is queued or in work.
func (s *Settler) drained(ctx context.Context) error {
	ticker := time.NewTicker(drainPause)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		left := len(s.settles) + s.work
		s.mu.Unlock()
		if left == 0 || s.inline {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d settlements were not done within %v; the next pass goes on", left, s.cfg.Policy.SweepTimeout)
		case <-ticker.C:
		}
	}
}
