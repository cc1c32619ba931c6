package guard

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"
)

// Post puts ack onto the event loop, to be called there in its turn. It returns
// false if the loop is closed or stopped: such a loop is not wedged. It may
// block; it is called on a goroutine of its own.
type Post func(ack func()) bool

// Defaults of a Loop: a wedge is seen after about 15 s.
const (
	loopInterval = 5 * time.Second
	loopStrikes  = 3
	// ShutdownWithin is a good limit for DeadlineForShutdown.
	ShutdownWithin = 5 * time.Second
)

// LoopOptions describe the watchdog of one event loop. Only Post has no default.
type LoopOptions struct {
	Name     string        // of the loop, in dumps and logs; "event loop"
	Post     Post          // reaches the loop
	Interval time.Duration // between two probes; 5 s
	Strikes  int           // successive probes that must not come back; 3

	// DumpOnly goes on after the dump, and sets Wedged, instead of ending the
	// process. Try it first.
	DumpOnly bool
	ExitCode int       // 75 (ExitRestart), which asks a supervisor for a restart
	Dump     io.Writer // gets the stacks of all goroutines; os.Stderr; io.Discard where that is a screen
	DumpFile string    // they are appended to it too; none by default
	// BeforeExit is called before the process ends, for 500 ms at most: to
	// restore a terminal, say. Deferred functions are not run.
	BeforeExit func()

	OnWedge   func(lag time.Duration) // the loop is wedged; 500 ms are waited for it
	OnRecover func()                  // the loop that was wedged works again

	Logger *slog.Logger // nil: nothing is logged

	// Exit ends the process; os.Exit. It is called with the Loop locked, so that
	// a Disarm comes either before it or not at all.
	Exit func(code int)
}

// Loop watches an event loop from a goroutine of its own: it posts an
// acknowledgement onto it every interval and counts those that do not come back.
// See the package comment for the choice of numbers. All methods are safe for
// concurrent use.
type Loop struct {
	o LoopOptions

	mu         sync.Mutex
	generation uint64 // of the arming; what belongs to an older one does nothing
	quit       chan struct{}
	done       chan struct{} // of the goroutine of this arming; nil: disarmed
	strikes    strikes
}

// IntervalFor is the interval that makes a watchdog see a wedge after budget
// seconds. It refuses what is not finite and above 0.
func IntervalFor(budget float64, strikes int) (time.Duration, error) {
	if strikes < 1 {
		return 0, fmt.Errorf("guard: %d strikes cannot be counted; give 1 or more", strikes)
	}
	interval := budget / float64(strikes) * float64(time.Second)
	if !(interval >= 1) || interval > math.MaxInt64/4 { // NaN fails the first
		return 0, fmt.Errorf("guard: a watchdog timeout of %v seconds cannot be kept; give a number of seconds above 0", budget)
	}
	return time.Duration(interval), nil
}

// NewLoop makes a watchdog that is not armed yet. Its error lists all that is
// wrong with the options.
func NewLoop(o LoopOptions) (*Loop, error) {
	var errs []error
	if o.Post == nil {
		errs = append(errs, errors.New("guard: LoopOptions.Post is nil; say how to put a function onto the loop"))
	}
	if o.Interval < 0 {
		errs = append(errs, fmt.Errorf("guard: LoopOptions.Interval is %v; give a duration above 0, or 0 for %v", o.Interval, loopInterval))
	}
	if o.Strikes < 0 {
		errs = append(errs, fmt.Errorf("guard: LoopOptions.Strikes is %d; give 1 or more, or 0 for %d", o.Strikes, loopStrikes))
	}
	if o.ExitCode < 0 || o.ExitCode > 255 {
		errs = append(errs, fmt.Errorf("guard: LoopOptions.ExitCode is %d; give 1 to 255, or 0 for %d", o.ExitCode, ExitRestart))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if o.Interval > math.MaxInt64/4/time.Duration(o.Strikes) {
		return nil, fmt.Errorf("guard: %d strikes of %v are more than a clock can count; give a shorter Interval", o.Strikes, o.Interval)
	}
	return &Loop{o: o}, nil
}

func (o LoopOptions) withDefaults() LoopOptions {
	if o.Name == "" {
		o.Name = "event loop"
	}
	if o.Interval == 0 {
		o.Interval = loopInterval
	}
	if o.Strikes == 0 {
		o.Strikes = loopStrikes
	}
	if o.ExitCode == 0 {
		o.ExitCode = ExitRestart
	}
	if o.Dump == nil {
		o.Dump = os.Stderr
	}
	if o.Exit == nil {
		o.Exit = os.Exit
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Arm begins to watch. It does nothing if the watchdog is armed already. Arm it
// after the start-up.
func (l *Loop) Arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return
	}
	l.generation++
	l.quit, l.done = make(chan struct{}), make(chan struct{})
	l.strikes = strikes{limit: l.o.Strikes}
	go l.watch(l.generation, l.quit, l.done)
}

// Disarm ends the watch and every deadline. What is on its way to end the
// process does not end it any more. It waits for the watching goroutine, but not
// longer than an interval and a second, and may be called at any time. Disarm
// first at shutdown.
func (l *Loop) Disarm() {
	l.mu.Lock()
	l.generation++
	done := l.done
	if done != nil {
		close(l.quit)
	}
	l.quit, l.done = nil, nil
	l.strikes.forget()
	l.mu.Unlock()
	if done == nil {
		return
	}
	limit := time.NewTimer(l.o.Interval + time.Second)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	}
}

// Armed reports whether the loop is watched.
func (l *Loop) Armed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done != nil
}

// Wedged reports whether the loop is wedged now.
func (l *Loop) Wedged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strikes.wedged
}

// Lag is the age of the oldest probe that has not come back: 0 if all have.
func (l *Loop) Lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strikes.lag(time.Now())
}

// WedgeAfter is how long the loop must make no progress to be called wedged.
func (l *Loop) WedgeAfter() time.Duration { return l.o.Interval * time.Duration(l.o.Strikes) }

// watch probes until quit. A failure of the probing itself is no wedge.
func (l *Loop) watch(generation uint64, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	posted := make(chan bool, 1) // what Post answered
	posting := false
	timer := time.NewTimer(l.o.Interval)
	defer timer.Stop()
	for {
		if !posting { // else the last Post still hangs, which tells enough
			posting = true
			l.probe(generation, posted)
		}
		began := time.Now()
		timer.Reset(l.o.Interval)
		open := true
		for waiting := true; waiting; {
			select {
			case <-quit:
				return
			case open = <-posted:
				posting = false
				if !open {
					l.closed(generation)
				}
			case <-timer.C:
				waiting = false
			}
		}
		now := time.Now()
		if late := now.Sub(began) - l.o.Interval; late > l.o.Interval/2 {
			l.excuse(generation, now, late)
			continue
		}
		if open && l.judge(generation) {
			l.react(generation)
		}
	}
}

// probe posts one acknowledgement.
func (l *Loop) probe(generation uint64, posted chan<- bool) {
	l.mu.Lock()
	if l.generation != generation {
		l.mu.Unlock()
		posted <- false
		return
	}
	number := l.strikes.post(time.Now())
	l.mu.Unlock()
	go func() {
		open := false
		defer func() {
			if v := recover(); v != nil {
				l.o.Logger.Error("the loop watchdog cannot post its probe", "loop", l.o.Name, "panic", v)
			}
			posted <- open
		}()
		open = l.o.Post(func() { l.answered(generation, number) })
	}()
}

// answered is called on the loop.
func (l *Loop) answered(generation, number uint64) {
	l.mu.Lock()
	recovered := l.generation == generation && l.strikes.answer(number, time.Now())
	l.mu.Unlock()
	if recovered {
		l.recovered()
	}
}

// closed is told that there is no loop to post to.
func (l *Loop) closed(generation uint64) {
	l.mu.Lock()
	recovered := l.generation == generation && l.strikes.forget()
	l.mu.Unlock()
	if recovered {
		l.recovered()
	}
}

func (l *Loop) recovered() {
	l.o.Logger.Info("the loop works again", "loop", l.o.Name)
	if l.o.OnRecover != nil { // never on the loop itself
		go protect(l.o.OnRecover)
	}
}

// excuse is called when we ourselves ran late: the process was stopped or
// starved, and the loop with it.
func (l *Loop) excuse(generation uint64, now time.Time, late time.Duration) {
	l.mu.Lock()
	if l.generation == generation {
		l.strikes.excuse(now)
	}
	l.mu.Unlock()
	l.o.Logger.Warn("the process was stopped or starved; the loop is given a new chance", "loop", l.o.Name, "late", late)
}

func (l *Loop) judge(generation uint64) (wedged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation == generation && l.strikes.judge()
}

// react tells of a wedge, dumps, and ends the process unless DumpOnly.
func (l *Loop) react(generation uint64) {
	lag := l.Lag()
	l.o.Logger.Error("the loop is wedged", "loop", l.o.Name, "lag", lag)
	if l.o.OnWedge != nil {
		within(hookWithin, func() { l.o.OnWedge(lag) })
	}
	l.dumpAndExit(fmt.Sprintf("%s made no progress for about %.3g s", l.o.Name, lag.Seconds()),
		func() bool { return l.generation == generation })
}
