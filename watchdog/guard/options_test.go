package guard_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

func TestOptionsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*guard.Options)
		want   string
	}{
		"no id":              {func(o *guard.Options) { o.ID = "" }, "ID is empty"},
		"a bad id":           {func(o *guard.Options) { o.ID = "a b" }, "white space"},
		"TTL at interval":    {func(o *guard.Options) { o.RedisTTL = 30 * time.Second }, "must exceed Interval"},
		"interval over TTL":  {func(o *guard.Options) { o.Interval = 90 * time.Second }, "must exceed Interval"},
		"negative interval":  {func(o *guard.Options) { o.Interval = -1 }, "Interval is -1ns"},
		"negative stall":     {func(o *guard.Options) { o.StallTimeout = -time.Second }, "StallTimeout is -1s"},
		"negative TTL":       {func(o *guard.Options) { o.RedisTTL = -time.Second }, "RedisTTL is -1s"},
		"negative wait":      {func(o *guard.Options) { o.MaxWait = -time.Second }, "MaxWait is -1s"},
		"negative flush":     {func(o *guard.Options) { o.FlushTimeout = -time.Second }, "FlushTimeout is -1s"},
		"a missing one":      {func(o *guard.Options) { o.Publishers = []guard.Publisher{nil} }, "Publishers[0] is nil"},
		"two faults at once": {func(o *guard.Options) { o.ID, o.Interval = "", -1 }, "ID is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			o := guard.Options{ID: "s"}
			c.change(&o)
			_, _, err := guard.Start(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
			if name == "two faults at once" && !strings.Contains(err.Error(), "Interval is") {
				t.Errorf("only one fault is told: %v", err)
			}
		})
	}
}

func TestStallTimeoutOfTheEnvironment(t *testing.T) {
	stallsAfter := func(t *testing.T, o guard.Options) (after time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			b := newBus()
			o.Publishers = []guard.Publisher{b}
			start(t, o)
			time.Sleep(400 * time.Second)
			for _, m := range b.take() {
				if m.Beat.State == watchdog.StateStalled {
					after = m.At
					break
				}
			}
		})
		return after
	}
	t.Setenv(guard.StallTimeoutVariable, "")
	if got := stallsAfter(t, guard.Options{}); got != 300*time.Second {
		t.Errorf("by default after %v", got)
	}
	t.Setenv(guard.StallTimeoutVariable, " 12.5 ")
	if got := stallsAfter(t, guard.Options{}); got != 12500*time.Millisecond {
		t.Errorf("by the environment after %v", got)
	}
	if got := stallsAfter(t, guard.Options{StallTimeout: 100 * time.Second}); got != 100*time.Second {
		t.Errorf("by the program's own word after %v", got)
	}
	for _, bad := range []string{"0", "-1", "NaN", "inf", "5m", "1e300", "1e-300"} {
		t.Setenv(guard.StallTimeoutVariable, bad)
		if _, _, err := guard.Start(t.Context(), guard.Options{ID: "s"}); err == nil || !strings.Contains(err.Error(), guard.StallTimeoutVariable) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzID holds that the guard takes no id that the wire format refuses.
func FuzzID(f *testing.F) {
	for _, id := range []string{
		"indexer", "a.b:c", "Ünïcode", "a..b", ".a", "a.", "a b", "a\u00a0b", "a\u200bb", "a\ufe0f", "a\u3164", "a\u115f", "a\u202eb",
		"\u2028", "a>", "*", "{a}", "\x00", "\xff", "\ufffd", "🙂", "👨\u200d👩", strings.Repeat("x", 256), strings.Repeat("x", 257), "a\u034fb", "\u2800", "\U000e0041",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		s, _, err := guard.Start(t.Context(), guard.Options{ID: watchdog.ID(id)})
		if err != nil {
			return
		}
		s.Complete()
		_ = s.Close()
		if !wire.ValidID(id) {
			t.Errorf("%q is taken", id)
		}
	})
}
