package process

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Ends is the ledger of generations as a supervisor needs it. Its calls may take
// long or fail; no child waits for them for more than a moment.
type Ends interface {
	// Claim gives the number of a new execution. The same boot id again gives
	// the same number.
	Claim(ctx context.Context, c watchdog.Claim) (watchdog.Generation, error)
	// Settle writes the end of a generation once, and gives the record that
	// stands: ours, or that of who was first. The same nonce again answers the
	// same. An error means that it is not settled yet, as far as is known.
	Settle(ctx context.Context, r watchdog.Record) (watchdog.Record, error)
}

// The pace of a ledger that does not answer.
const (
	ledgerPatience = 5 * time.Second
	ledgerRetryMin = 500 * time.Millisecond
	ledgerRetryMax = 30 * time.Second
	// lastSettling is how long the end of a supervisor waits for the ledger. What
	// is left is kept and settled by the next one.
	lastSettling = 3 * time.Second
	maxEndings   = 1000 // kept of one session while the ledger is away
)

// Execution is one run of a session from its start to its settled end, as it is
// kept across a restart of the supervisor.
type Execution struct {
	BootID     string
	Started    time.Time
	Generation watchdog.Generation // 0 not known yet
	Outcome    watchdog.Outcome    // OutcomeNone: it runs
	Reason     string
	Ended      time.Time
	Nonce      string
}

// keeper numbers and settles the executions of one session, in their order, for
// as long as it takes.
type keeper struct {
	id      watchdog.ID
	ends    Ends // nil: numbers are counted here, and ends are told to nobody
	writer  string
	cadence time.Duration
	log     *slog.Logger
	changed func()                  // something that is to be saved; not under the lock
	told    func(e Execution)       // a number became known
	settled func(r watchdog.Record) // a record stands

	failing time.Time // of run: since when the ledger has not answered; zero: it does
	said    bool      // of run: and that was logged

	mu    sync.Mutex
	queue []*Execution // oldest first
	last  watchdog.Generation
	wake  chan struct{}
}

// add takes up a new execution.
func (k *keeper) add(e Execution) {
	k.mu.Lock()
	k.queue = append(k.queue, &e)
	if over := len(k.queue) - maxEndings; over > 0 {
		k.log.Error("ends of a session were dropped: the ledger has been away for too long", "session", k.id, "dropped", over)
		k.queue = slices.Delete(k.queue, 0, over)
	}
	k.mu.Unlock()
	k.bell()
}

// end tells how the execution with this boot id ended.
func (k *keeper) end(bootID string, outcome watchdog.Outcome, reason string, at time.Time) {
	k.mu.Lock()
	for _, e := range k.queue {
		if e.BootID == bootID && e.Outcome == watchdog.OutcomeNone {
			e.Outcome, e.Reason, e.Ended = outcome, reason, at
		}
	}
	k.mu.Unlock()
	k.bell()
}

func (k *keeper) bell() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// state gives what is to be saved.
func (k *keeper) state() (queue []Execution, last watchdog.Generation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.queue {
		queue = append(queue, *e)
	}
	return queue, k.last
}

// idle reports whether nothing waits for the ledger but what still runs.
func (k *keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !slices.ContainsFunc(k.queue, func(e *Execution) bool { return e.Generation == 0 || e.Outcome != watchdog.OutcomeNone })
}

// run works until ctx ends, and then for a last moment. What is under way when
// ctx ends goes on: a write that is cut off is a write of which nobody knows.
func (k *keeper) run(ctx context.Context) {
	calls, end := lingering(ctx, lastSettling)
	defer end()
	retry, stopping := ledgerRetryMin, ctx.Done()
	for {
		wait := ledgerRetryMax
		if k.pass(calls) {
			retry = ledgerRetryMin
			if ctx.Err() != nil && k.idle() {
				return
			}
		} else {
			wait, retry = retry, min(2*retry, ledgerRetryMax)
		}
		if ctx.Err() != nil {
			wait, stopping = min(wait, ledgerRetryMin), nil
		}
		select {
		case <-calls.Done():
			k.leave()
			return
		case <-stopping:
		case <-k.wake:
		case <-time.After(wait):
		}
	}
}

// lingering gives a context that ends d after ctx has ended.
func lingering(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		select {
		case <-out.Done():
		case <-time.After(d):
		}
	})
	return out, func() {
		stop()
		cancel()
	}
}

// leave tells what the next supervisor has to settle.
func (k *keeper) leave() {
	queue, _ := k.state()
	for _, e := range queue {
		if e.Outcome != watchdog.OutcomeNone {
			k.log.Warn("an end is not settled: the next start of this session does it", "session", k.id, "generation", e.Generation, "outcome", e.Outcome.String())
		}
	}
}

// failed tells that the ledger did not answer. It is said once, and not of the
// first tries: a ledger is chosen a moment after the first start.
func (k *keeper) failed(what string, e Execution, err error) {
	if k.failing.IsZero() {
		k.failing = time.Now()
	}
	if !k.said && time.Since(k.failing) > ledgerPatience {
		k.said = true
		k.log.Warn(what, "session", k.id, "generation", e.Generation, "error", err)
	}
}

// answered tells that it does again.
func (k *keeper) answered() {
	if k.said {
		k.log.Info("the ledger answers again", "session", k.id, "after", time.Since(k.failing).Round(time.Second))
	}
	k.failing, k.said = time.Time{}, false
}

// pass does what can be done now. It reports whether nothing failed.
func (k *keeper) pass(ctx context.Context) bool {
	for i := 0; ; {
		k.mu.Lock()
		if i >= len(k.queue) {
			k.mu.Unlock()
			return true
		}
		e := *k.queue[i]
		k.mu.Unlock()
		switch {
		case e.Generation == 0:
			// Numbers are given in the order of the starts: the next waits.
			if !k.number(ctx, e) {
				return false
			}
		case e.Outcome != watchdog.OutcomeNone:
			if !k.settle(ctx, e) {
				return false
			}
		default:
			i++
		}
	}
}

func (k *keeper) number(ctx context.Context, e Execution) bool {
	g := k.last + 1
	if k.ends != nil {
		ctx, cancel := context.WithTimeout(ctx, ledgerPatience)
		defer cancel()
		var err error
		g, err = k.ends.Claim(ctx, watchdog.Claim{ID: k.id, BootID: e.BootID, Start: e.Started, New: true,
			Cadence: k.cadence, Sources: watchdog.SourceLocal.Set()})
		if err != nil || g == 0 {
			k.failed("a generation has no number yet", e, err)
			return false
		}
		k.answered()
	}
	k.mu.Lock()
	k.last = max(k.last, g)
	if q := k.find(e.BootID); q != nil {
		q.Generation = g
		e = *q
	}
	k.mu.Unlock()
	k.told(e)
	k.changed()
	return true
}

func (k *keeper) settle(ctx context.Context, e Execution) bool {
	r := watchdog.Record{ID: k.id, Generation: e.Generation, Outcome: e.Outcome, SettledBy: watchdog.BySupervisor,
		Writer: k.writer, Nonce: e.Nonce, Reason: e.Reason, At: e.Ended}
	if k.ends != nil {
		ctx, cancel := context.WithTimeout(ctx, ledgerPatience)
		defer cancel()
		stands, err := k.ends.Settle(ctx, r)
		if err != nil {
			k.failed("an end is not settled yet", e, err)
			return false
		}
		k.answered()
		r = stands
	}
	k.mu.Lock()
	k.queue = slices.DeleteFunc(k.queue, func(q *Execution) bool { return q.BootID == e.BootID })
	k.mu.Unlock()
	k.settled(r)
	k.changed()
	return true
}

func (k *keeper) find(bootID string) *Execution {
	for _, e := range k.queue {
		if e.BootID == bootID {
			return e
		}
	}
	return nil
}
