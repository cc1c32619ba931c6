package watchdog

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestExitCodesDecideBeforeThePolicy(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules RestartRules
		exit  Exit
		want  bool
	}{
		{"75 although never", RestartRules{Policy: RestartNever}, Exit{Code: 75}, true},
		{"78 although always", RestartRules{Policy: RestartAlways}, Exit{Code: 78}, false},
		{"78 although listed", RestartRules{Policy: RestartAlways, ExitCodes: []int{78}}, Exit{Code: 78}, false},
		{"listed although never", RestartRules{Policy: RestartNever, ExitCodes: []int{3}}, Exit{Code: 3}, true},
		{"not listed", RestartRules{Policy: RestartNever, ExitCodes: []int{3}}, Exit{Code: 4}, false},
		{"0 on failure", RestartRules{Policy: RestartOnFailure}, Exit{}, false},
		{"1 on failure", RestartRules{Policy: RestartOnFailure}, Exit{Code: 1}, true},
		{"signal on failure", RestartRules{Policy: RestartOnFailure}, Exit{Code: 139, Signal: 11}, true},
		{"signal although never", RestartRules{Policy: RestartNever}, Exit{Code: 139, Signal: 11}, false},
		{"a signal is no code", RestartRules{Policy: RestartNever, ExitCodes: []int{137}}, Exit{Code: 137, Signal: 9}, false},
		{"0 always", RestartRules{Policy: RestartAlways}, Exit{}, true},
		{"stalled although never", RestartRules{Policy: RestartNever}, Exit{Code: 143, Signal: 15, Stalled: true}, true},
	} {
		got, why := c.rules.Wants(c.exit)
		if got != c.want || why == "" {
			t.Errorf("%s: restart %v (%q), want %v", c.name, got, why, c.want)
		}
	}
}

func defaultLimits() RestartLimits {
	return RestartLimits{Burst: 3, Window: time.Minute, BackoffMin: time.Second, BackoffMax: time.Minute}
}

func TestTheCrashLoopGuardTripsAtItsNumber(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []Exit
		held int // the end that trips it, from 1; 0 none
	}{
		{"at once", []Exit{{Code: 1}, {Code: 1}, {Code: 1}}, 3},
		{"every 31 s", []Exit{{Code: 1, Ran: 31 * time.Second}, {Code: 1, Ran: 31 * time.Second}, {Code: 1, Ran: 31 * time.Second}}, 3},
		{"just within", []Exit{{Code: 1, Ran: time.Minute - 1}, {Code: 1, Ran: time.Minute - 1}, {Code: 1, Ran: time.Minute - 1}}, 3},
		{"at the window", []Exit{{Code: 1, Ran: time.Minute}, {Code: 1, Ran: time.Minute}, {Code: 1, Ran: time.Minute}, {Code: 1, Ran: time.Minute}}, 0},
		{"a long run breaks it", []Exit{{Code: 1}, {Code: 1}, {Code: 1, Ran: time.Hour}, {Code: 1}, {Code: 1}, {Code: 1}}, 6},
		{"a good end breaks it", []Exit{{Code: 1}, {Code: 1}, {}, {Code: 1}, {Code: 1}, {Code: 1}}, 6},
		{"good ends only", []Exit{{}, {}, {}, {}, {}}, 0},
		{"75 counts", []Exit{{Code: 75}, {Code: 75}, {Code: 75}}, 3},
		{"signals count", []Exit{{Signal: 11, Code: 139}, {Signal: 9, Code: 137}, {Code: 1}}, 3},
		{"stalls count", []Exit{{Stalled: true}, {Stalled: true}, {Stalled: true}}, 3},
	} {
		var chain RestartChain
		held := 0
		for i, e := range c.runs {
			d := chain.Ended(e, RestartRules{Policy: RestartAlways}, defaultLimits(), 0)
			if d.Held != chain.Held || d.Held == d.Restart {
				t.Fatalf("%s: end %d: %+v with %+v", c.name, i+1, d, chain)
			}
			if d.Held {
				held = i + 1
				break
			}
		}
		if held != c.held {
			t.Errorf("%s: held at end %d, want %d", c.name, held, c.held)
		}
	}
}

func TestAHeldSessionStartsAnewAfterReset(t *testing.T) {
	var chain RestartChain
	rules := RestartRules{Policy: RestartOnFailure}
	for range 3 {
		chain.Ended(Exit{Code: 1}, rules, defaultLimits(), 0)
	}
	if !chain.Held {
		t.Fatal("three failures did not trip the guard")
	}
	chain.Reset()
	if d := chain.Ended(Exit{Code: 1}, rules, defaultLimits(), 0); !d.Restart {
		t.Errorf("the first failure after a start by hand: %+v", d)
	}
}

func TestA78IsNotHeldAsACrashLoop(t *testing.T) {
	chain := RestartChain{Links: 9, Short: 9}
	d := chain.Ended(Exit{Code: 78}, RestartRules{Policy: RestartAlways}, defaultLimits(), 0)
	if d.Restart || d.Held || !strings.Contains(d.Reason, "configuration") {
		t.Errorf("got %+v", d)
	}
}

func TestBackoffDoublesBetweenItsBounds(t *testing.T) {
	l := defaultLimits()
	for i, want := range []time.Duration{1, 1, 2, 4, 8, 16, 32, 48, 48, 48} {
		if got := l.Backoff(i, 0); got != want*time.Second {
			t.Errorf("Backoff(%d) = %v, want %v", i, got, want*time.Second)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		low := time.Duration(rapid.Int64Range(1, int64(366*24*time.Hour)).Draw(t, "min"))
		l := RestartLimits{Burst: 1, Window: time.Hour, BackoffMin: low,
			BackoffMax: time.Duration(rapid.Int64Range(int64(low), int64(366*24*time.Hour)).Draw(t, "max"))}
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		random := rapid.SampledFrom([]float64{0, 0.5, math.Nextafter(1, 0), math.NaN(), -1, 2, math.Inf(1)}).Draw(t, "random")
		short := rapid.IntRange(-1, math.MaxInt32).Draw(t, "short")
		got := l.Backoff(short, random)
		if got < l.BackoffMin || got > l.BackoffMax {
			t.Fatalf("%v is outside %v to %v", got, l.BackoffMin, l.BackoffMax)
		}
		if short < math.MaxInt32 && l.Backoff(short+1, 0) < l.Backoff(short, 0) {
			t.Fatal("one more short run shortens the back-off")
		}
	})
}

func TestImpossibleRestartSettingsAreRefused(t *testing.T) {
	good := defaultLimits()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*RestartLimits){
		"restart_guard.burst":       func(l *RestartLimits) { l.Burst = 0 },
		"restart_guard.window":      func(l *RestartLimits) { l.Window = time.Microsecond },
		"restart_guard.backoff_min": func(l *RestartLimits) { l.BackoffMin = 0 },
		"restart_guard.backoff_max": func(l *RestartLimits) { l.BackoffMax = time.Millisecond },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	fleet := defaultFleet()
	if err := fleet.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*FleetLimits){
		"per_hour": func(l *FleetLimits) { l.PerHour = 0 },
		"failing":  func(l *FleetLimits) { l.Failing = math.NaN() },
		"hold":     func(l *FleetLimits) { l.Hold = -1 },
		"window":   func(l *FleetLimits) { l.Window = 0 },
	} {
		bad := fleet
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A session that fails again and again is held at exactly burst failures,
// whatever its cadence within the window and whenever it is saved and restored.
func TestEveryCadenceWithinTheWindowTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := RestartLimits{Burst: rapid.IntRange(1, 20).Draw(t, "burst"), Window: time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "window")),
			BackoffMin: time.Second, BackoffMax: time.Hour}
		var chain RestartChain
		for n := 1; ; n++ {
			ran := time.Duration(rapid.Int64Range(0, int64(l.Window)-1).Draw(t, "ran"))
			d := chain.Ended(Exit{Code: 1, Ran: ran}, RestartRules{Policy: RestartOnFailure}, l, 0)
			if d.Held != (n == l.Burst) {
				t.Fatalf("failure %d of %d: %+v", n, l.Burst, d)
			}
			if d.Held {
				return
			}
		}
	})
}
