package sourcetest

import (
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// QuickSession are the options of a guarded agent that a test does not wait long
// for.
func QuickSession(id watchdog.ID, p guard.Publisher) guard.Options {
	return guard.Options{
		ID: id, Publishers: []guard.Publisher{p},
		Interval: 200 * time.Millisecond, RedisTTL: time.Second, StallTimeout: time.Second, FlushTimeout: 10 * time.Second,
	}
}

// StartSession starts a session that is closed with the test.
func StartSession(t testing.TB, o guard.Options) *guard.Session {
	t.Helper()
	s, _, err := guard.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// KeepWorking lets a guarded agent work as fast as it can while its bus is in
// trouble, and fails the test if the bus holds it up. begin makes the trouble and
// end mends it.
func KeepWorking(t testing.TB, s *guard.Session, name string, begin, end func()) {
	t.Helper()
	_, before := work(s)
	begin()
	worst, during := work(s)
	for range 2 { // a busy machine holds a step up now and then, a bus that is waited for always
		if worst > time.Second {
			again, rate := work(s)
			worst, during = min(worst, again), max(during, rate)
		}
	}
	end()
	t.Logf("%s: %.2f of the agent's speed before (%.3g touches/s); its longest step took %v", name, during/before, during, worst)
	if worst > time.Second {
		t.Errorf("%s: a step of the agent took %v", name, worst)
	}
}

// work gives the longest step and the best rate of touches of some windows: on a
// busy machine the others measure the neighbours.
func work(s *guard.Session) (worst time.Duration, best float64) {
	const step, window, windows = 1000, 50 * time.Millisecond, 20
	for range windows {
		began, touches := time.Now(), 0
		for time.Since(began) < window {
			one := time.Now()
			for range step {
				s.Touch()
			}
			s.SetTask("busy")
			touches += step
			worst = max(worst, time.Since(one))
		}
		best = max(best, float64(touches)/time.Since(began).Seconds())
	}
	return worst, best
}
