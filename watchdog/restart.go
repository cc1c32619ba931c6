package watchdog

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Exit codes by which a child says what it wants of its supervisor.
const (
	ExitRestart = 75 // EX_TEMPFAIL: restart me, whatever the policy says
	ExitConfig  = 78 // EX_CONFIG: never restart me, the configuration is wrong
)

// RestartPolicy is when a child that ended by itself is started again, unless
// its exit code says so.
type RestartPolicy uint8

// The policies of the configuration.
const (
	RestartNever RestartPolicy = iota
	RestartOnFailure
	RestartAlways
)

// RestartRules say whether an end calls for a restart at all.
type RestartRules struct {
	Policy    RestartPolicy
	ExitCodes []int // restart on these whatever Policy says; 78 is never restarted
}

// Exit is how one run of a child ended.
type Exit struct {
	Code    int  // of exit; 128 + n after signal n
	Signal  int  // that ended it; 0 none
	Stalled bool // we ended it because it did no work and the policy is to restart
	Ran     time.Duration
}

// Failed reports whether the run ended badly.
func (e Exit) Failed() bool { return e.Code != 0 || e.Signal != 0 || e.Stalled }

// String is the end in words.
func (e Exit) String() string {
	switch {
	case e.Stalled:
		return "stalled"
	case e.Signal != 0:
		return fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("code %d", e.Code)
}

// Wants reports whether the rules call for a restart after e, and why.
func (r RestartRules) Wants(e Exit) (bool, string) {
	switch {
	case e.Stalled:
		return true, "stalled"
	case e.Signal == 0 && e.Code == ExitConfig:
		return false, "code 78: its configuration is wrong"
	case e.Signal == 0 && e.Code == ExitRestart:
		return true, "code 75: it asks for a restart"
	}
	for _, code := range r.ExitCodes {
		if e.Signal == 0 && e.Code == code {
			return true, e.String() + ", which is always restarted"
		}
	}
	switch {
	case r.Policy == RestartAlways:
		return true, e.String()
	case r.Policy == RestartOnFailure && e.Failed():
		return true, e.String()
	}
	return false, e.String()
}

// RestartLimits bound the restarts of one session.
type RestartLimits struct {
	Burst                  int           // links of a chain at which a session is held
	Window                 time.Duration // a failed run that was shorter joins the chain
	BackoffMin, BackoffMax time.Duration
}

// shortestWindow is a time within which a process can start and fail at all: a
// guard over a shorter one would never trip.
const shortestWindow = 10 * time.Millisecond

// Validate says which settings could never work.
func (l RestartLimits) Validate() error {
	var errs []error
	if l.Burst < 1 {
		errs = append(errs, fmt.Errorf("restart_guard.burst: %d is no number of failures; give at least 1", l.Burst))
	}
	if l.Window < shortestWindow {
		errs = append(errs, fmt.Errorf("restart_guard.window: within %v nothing starts and fails, so the guard would never trip; give at least %v", l.Window, shortestWindow))
	}
	if l.BackoffMin <= 0 {
		errs = append(errs, fmt.Errorf("restart_guard.backoff_min: %v is not above 0; give at least 1ms", l.BackoffMin))
	}
	if l.BackoffMax < l.BackoffMin {
		errs = append(errs, fmt.Errorf("restart_guard.backoff_max: %v is under backoff_min %v; raise it", l.BackoffMax, l.BackoffMin))
	}
	return errors.Join(errs...)
}

// Backoff is how long to wait after short runs in a row, of which there is at
// least one. It doubles from BackoffMin and never leaves the two bounds. Up to a
// quarter is added by random, which lies in [0, 1), so that what fell together
// does not rise together.
func (l RestartLimits) Backoff(short int, random float64) time.Duration {
	// Room for the jitter below the upper bound.
	top := max(l.BackoffMin, l.BackoffMax-l.BackoffMax/5)
	base := l.BackoffMin
	for i := 1; i < short && base < top; i++ {
		base = min(2*base, top)
	}
	if math.IsNaN(random) || random < 0 || random >= 1 {
		random = 0
	}
	return min(base+time.Duration(random*float64(base/4)), l.BackoffMax)
}

// RestartChain is what has to be kept of a session's ends to bound its
// restarts. The zero value is a session that never failed. It holds no times,
// so it can be saved and go on in another process as it is.
type RestartChain struct {
	Links int  // failures in a row, each after a run shorter than the window
	Short int  // runs in a row that were shorter, failed or not: they set the back-off
	Held  bool // the guard has tripped; a person has to start it again
}

// RestartDecision is what follows from an end.
type RestartDecision struct {
	Restart bool
	After   time.Duration // from the end of the run, if Restart
	Held    bool          // a restart was called for, but the guard holds it
	Reason  string        // for people
}

// Ended adds the end of a run to the chain and decides. The chain counts the
// time that runs lasted, never the back-off between them: a cycle of 31 s trips
// a guard of 3 in 60 s as surely as one of 1 s. A run that lasted the window, or
// that ended well, breaks it.
func (c *RestartChain) Ended(e Exit, rules RestartRules, limits RestartLimits, random float64) RestartDecision {
	if e.Ran >= limits.Window {
		*c = RestartChain{}
	} else {
		c.Short = min(c.Short+1, math.MaxInt32)
		if e.Failed() {
			c.Links = min(c.Links+1, math.MaxInt32)
		} else {
			c.Links = 0
		}
	}
	wants, why := rules.Wants(e)
	switch {
	case !wants:
		return RestartDecision{Reason: why}
	case e.Failed() && c.Links >= limits.Burst:
		c.Held = true
		return RestartDecision{Held: true,
			Reason: fmt.Sprintf("%d failures in a row, each within %s of its start, the last: %s; held until it is started again", c.Links, FormatLimit(limits.Window), why)}
	}
	return RestartDecision{Restart: true, After: limits.Backoff(max(c.Short, 1), random), Reason: why}
}

// Reset forgets the failures: a person has started the session.
func (c *RestartChain) Reset() { *c = RestartChain{} }
