package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func defaultFleet() FleetLimits {
	return FleetLimits{PerHour: 40, Failing: 0.5, Hold: 2 * time.Minute, Window: time.Minute}
}

func TestTheFleetGuardTripsAtTheFortyFirstRestart(t *testing.T) {
	g := NewFleetGuard(defaultFleet())
	now := time.Duration(0)
	for i := range 40 {
		if now += time.Minute; !g.Allow("a", now, 100) {
			t.Fatalf("restart %d was held", i+1)
		}
	}
	if g.Allow("a", now+1, 100) {
		t.Fatal("restart 41 within an hour went through")
	}
	until, reason, held := g.Held(now + 1)
	if !held || until != now+1+2*time.Minute || !strings.Contains(reason, "more than 40 restarts") {
		t.Errorf("held %v until %v: %q", held, until, reason)
	}
	if g.Allow("b", until-1, 100) {
		t.Error("a restart went through just before the end of the hold")
	}
	for i := range 40 { // the window is empty again
		if !g.Allow("b", until+time.Duration(i), 100) {
			t.Fatalf("restart %d after the hold was held", i+1)
		}
	}
}

func TestRestartsOlderThanAnHourDoNotCount(t *testing.T) {
	g := NewFleetGuard(defaultFleet())
	for i := range 500 {
		if !g.Allow("a", time.Duration(i)*91*time.Second, 100) {
			t.Fatalf("restart %d at one in 91 s was held", i+1)
		}
	}
}

func TestTheFleetGuardTripsWhenHalfFails(t *testing.T) {
	for _, c := range []struct {
		sessions, failing int
		want              bool // held
	}{
		{1, 1, false}, {2, 2, false}, {3, 3, false}, // no fleet
		{4, 1, false}, {4, 2, true}, {5, 2, false}, {5, 3, true}, {40, 19, false}, {40, 20, true},
	} {
		g := NewFleetGuard(defaultFleet())
		for i := range c.failing {
			g.Failed(ID(fmt.Sprint(i)))
		}
		if got := !g.Allow("0", time.Hour, c.sessions); got != c.want {
			t.Errorf("%d of %d fail: held %v, want %v", c.failing, c.sessions, got, c.want)
		}
	}
}

func TestWhatRunsLongEnoughFailsNoMore(t *testing.T) {
	g := NewFleetGuard(defaultFleet())
	g.Failed("a")
	g.Allow("a", 0, 4)
	g.Failed("b")
	if g.Allow("b", 59*time.Second, 4) {
		t.Error("a was restarted 59 s ago and b failed: half of 4 fail, yet b went through")
	}
	g = NewFleetGuard(defaultFleet())
	g.Failed("a")
	g.Allow("a", 0, 4)
	g.Failed("b")
	if !g.Allow("b", 60*time.Second, 4) {
		t.Error("a has run for a minute, yet b was held")
	}
	g.Failed("c")
	g.Forget("c") // stopped
	g.Failed("d")
	if !g.Allow("d", 10*time.Minute, 4) {
		t.Error("a stopped session counts as failing")
	}
}

// A guard that is saved and restored at any moment decides as one that was not.
func TestASavedFleetGuardDecidesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := FleetLimits{PerHour: rapid.IntRange(1, 5).Draw(t, "per hour"), Failing: 0.5, Hold: 2 * time.Minute, Window: time.Minute}
		one, two := NewFleetGuard(limits), NewFleetGuard(limits)
		var shift, now time.Duration
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "passes"))
			id := ID(drawID.Draw(t, "id"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				one.Failed(id)
				two.Failed(id)
			case 1:
				one.Forget(id)
				two.Forget(id)
			case 2, 3:
				if a, b := one.Allow(id, now, 6), two.Allow(id, now+shift, 6); a != b {
					t.Fatalf("restart of %s: %v, after a restore %v", id, a, b)
				}
			case 4:
				saved := two.State(now + shift)
				passed := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "away"))
				now += passed
				shift = time.Duration(rapid.Int64Range(-int64(now), int64(time.Hour)).Draw(t, "shift"))
				two = NewFleetGuard(limits)
				two.Restore(saved, now+shift, passed)
			}
			if diff := cmp.Diff(one.State(now), two.State(now+shift), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("states differ (-kept +restored):\n%s", diff)
			}
			if len(one.restarts) > limits.PerHour {
				t.Fatalf("%d restarts are kept of at most %d", len(one.restarts), limits.PerHour)
			}
		}
	})
}

func TestAForeignFleetStateIsCutToWhatIsPossible(t *testing.T) {
	g := NewFleetGuard(defaultFleet())
	ages := make([]time.Duration, 1000)
	g.Restore(FleetState{RestartAges: ages, HoldLeft: 1000 * time.Hour, Failing: map[ID]time.Duration{"a": 1 << 62}}, time.Second, -5)
	if until, _, held := g.Held(time.Second); !held || until > time.Second+2*time.Minute {
		t.Errorf("held %v until %v", held, until)
	}
	if n := len(g.State(time.Second).RestartAges); n != 40 {
		t.Errorf("%d restarts were taken up, want 40", n)
	}
}
