package watchdog

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// FleetLimits bound the restarts of all sessions of one supervisor together.
type FleetLimits struct {
	PerHour int           // more restarts than this within an hour trip the guard
	Failing float64       // so does this share of the sessions
	Hold    time.Duration // for how long new restarts are held then
	Window  time.Duration // a restarted session that runs this long no longer counts as failing
}

const (
	fleetHour = time.Hour
	// smallestFleet is how many sessions a share is taken of: one of two that
	// fails says nothing of what they have in common.
	smallestFleet = 4
)

// Validate says which settings could never work.
func (l FleetLimits) Validate() error {
	var errs []error
	if l.PerHour < 1 {
		errs = append(errs, fmt.Errorf("restart_guard.fleet.per_hour: %d restarts an hour would hold every restart; give at least 1", l.PerHour))
	}
	if !(l.Failing > 0 && l.Failing <= 1) {
		errs = append(errs, fmt.Errorf("restart_guard.fleet.failing: %v is no share; give one above 0 and at most 1, such as 0.5", l.Failing))
	}
	if l.Hold <= 0 {
		errs = append(errs, fmt.Errorf("restart_guard.fleet.hold: %v is not above 0; give a duration such as 120s", l.Hold))
	}
	if l.Window <= 0 {
		errs = append(errs, fmt.Errorf("restart_guard.window: %v is not above 0; give a duration such as 60s", l.Window))
	}
	return errors.Join(errs...)
}

// FleetGuard holds restarts when so much fails at once that the cause is likely
// a common one, which restarts only make worse. Its times are those of one
// monotonic clock.
type FleetGuard struct {
	limits   FleetLimits
	restarts []time.Duration // within the last hour, ascending; at most PerHour
	failing  map[ID]time.Duration
	held     bool
	until    time.Duration
	reason   string
}

// notRestarted marks a failing session that was not started again yet.
const notRestarted = time.Duration(-1 << 62)

// NewFleetGuard makes a guard that has seen nothing.
func NewFleetGuard(limits FleetLimits) *FleetGuard {
	return &FleetGuard{limits: limits, failing: map[ID]time.Duration{}}
}

// Failed tells that a run of id ended badly.
func (g *FleetGuard) Failed(id ID) { g.failing[id] = notRestarted }

// Forget tells that id does not fail: it ended well, was stopped or removed.
func (g *FleetGuard) Forget(id ID) { delete(g.failing, id) }

// Held reports whether restarts are held, until when, and why.
func (g *FleetGuard) Held(now time.Duration) (until time.Duration, reason string, held bool) {
	g.rearm(now)
	return g.until, g.reason, g.held
}

// Allow reports whether id may be started again now, and counts the restart if
// so. A restart that is held is not counted; it asks again once the hold is
// over. sessions is how many there are in all.
func (g *FleetGuard) Allow(id ID, now time.Duration, sessions int) bool {
	g.rearm(now)
	if g.held {
		return false
	}
	g.forgetOld(now)
	failing := len(g.failing)
	switch {
	case len(g.restarts) >= g.limits.PerHour:
		g.trip(now, fmt.Sprintf("more than %d restarts within an hour", g.limits.PerHour))
		return false
	case sessions >= smallestFleet && float64(failing) >= g.limits.Failing*float64(sessions)-1e-9:
		g.trip(now, fmt.Sprintf("%d of %d sessions fail", failing, sessions))
		return false
	}
	g.restarts = append(g.restarts, now)
	if _, ok := g.failing[id]; ok {
		g.failing[id] = now
	}
	return true
}

func (g *FleetGuard) trip(now time.Duration, reason string) {
	g.held, g.until, g.reason = true, now+g.limits.Hold, reason
}

// rearm ends a hold whose time is over. What led to it is forgotten with it:
// otherwise what fails could never be restarted to see whether it still does.
func (g *FleetGuard) rearm(now time.Duration) {
	if !g.held || now < g.until {
		return
	}
	g.held, g.until, g.reason = false, 0, ""
	g.restarts = nil
	clear(g.failing)
}

func (g *FleetGuard) forgetOld(now time.Duration) {
	old := 0
	for old < len(g.restarts) && now-g.restarts[old] >= fleetHour {
		old++
	}
	g.restarts = slices.Delete(g.restarts, 0, old)
	for id, restarted := range g.failing {
		if restarted != notRestarted && now-restarted >= g.limits.Window {
			delete(g.failing, id)
		}
	}
}

// FleetState is a guard as it is saved. It holds ages and no moments, because
// another process counts its clock from elsewhere.
type FleetState struct {
	RestartAges []time.Duration      // oldest first
	Failing     map[ID]time.Duration // age of the restart; negative: not restarted yet
	HoldLeft    time.Duration        // 0 not held
	Reason      string
}

// State gives what is to be saved at now.
func (g *FleetGuard) State(now time.Duration) FleetState {
	g.rearm(now)
	g.forgetOld(now)
	s := FleetState{Failing: map[ID]time.Duration{}, Reason: g.reason}
	for _, at := range g.restarts {
		s.RestartAges = append(s.RestartAges, now-at)
	}
	for id, at := range g.failing {
		s.Failing[id] = -1
		if at != notRestarted {
			s.Failing[id] = now - at
		}
	}
	if g.held {
		s.HoldLeft = g.until - now
	}
	return s
}

// Restore takes up a state that was saved passed ago, at now. What no guard
// with these limits could have saved is cut to what it could.
func (g *FleetGuard) Restore(s FleetState, now, passed time.Duration) {
	passed = min(max(passed, 0), maxUptime)
	g.restarts, g.held, g.until, g.reason = nil, false, 0, ""
	clear(g.failing)
	for _, age := range s.RestartAges {
		g.restarts = append(g.restarts, now-min(max(age, 0), fleetHour)-passed)
	}
	slices.Sort(g.restarts)
	if over := len(g.restarts) - g.limits.PerHour; over > 0 {
		g.restarts = g.restarts[over:]
	}
	for id, age := range s.Failing {
		g.failing[id] = notRestarted
		if age >= 0 {
			g.failing[id] = now - min(age, maxUptime) - passed
		}
	}
	if s.HoldLeft > 0 {
		g.held, g.until, g.reason = true, now+min(s.HoldLeft, g.limits.Hold)-passed, s.Reason
		g.rearm(now)
	}
	g.forgetOld(now)
}
