package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fixture is one line of testdata/beats.jsonl.
type fixture struct {
	Name, Subject, Payload string
	Expect                 map[string]any
}

func fixtures(tb testing.TB) []fixture {
	tb.Helper()
	f, err := os.Open("testdata/beats.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var all []fixture
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c fixture
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			tb.Fatal(err)
		}
		all = append(all, c)
	}
	if len(all) < 33 {
		tb.Fatalf("%d cases, want at least 33", len(all))
	}
	return all
}

// readings gives what was read as the fixtures spell it.
func readings(b *watchdog.Beat) map[string]any {
	orNil := func(known bool, v any) any {
		if known {
			return v
		}
		return nil
	}
	return map[string]any{
		"session_id": string(b.ID), "state": string(b.StateText),
		"uptime_secs":             orNil(b.Uptime >= 0, float64(b.Uptime)),
		"credits_remaining":       orNil(b.HasCredits(), b.Credits),
		"current_task":            orNil(b.Task != nil, string(b.Task)),
		"generation":              orNil(b.Generation > 0, float64(b.Generation)),
		"boot_id":                 orNil(b.BootID != nil, string(b.BootID)),
		"seq":                     orNil(b.Seq >= 0, float64(b.Seq)),
		"idle_secs":               orNil(b.Idle >= 0, b.Idle.Seconds()),
		"heartbeat_interval_secs": orNil(b.Interval > 0, b.Interval.Seconds()),
		"stall_timeout_secs":      orNil(b.StallTimeout > 0, b.StallTimeout.Seconds()),
		"waiting_for":             orNil(b.WaitingFor != watchdog.WaitNone, b.WaitingFor.String()),
		"waiting_max_secs":        orNil(b.WaitingMax > 0, b.WaitingMax.Seconds()),
		"loop_lag_ms":             orNil(b.LoopLag >= 0, b.LoopLag.Seconds()*1000),
		"agent_id":                orNil(b.Agent != nil, string(b.Agent)),
		"host":                    orNil(b.Host != nil, string(b.Host)),
		"pid":                     orNil(b.PID > 0, float64(b.PID)),
		"message":                 orNil(b.Message != nil, string(b.Message)),
	}
}

func TestDecodeFixtures(t *testing.T) {
	for _, c := range fixtures(t) {
		t.Run(c.Name, func(t *testing.T) {
			id, ok := IDFromSubject(c.Subject)
			if !ok {
				t.Fatalf("%q is no liveness subject", c.Subject)
			}
			var b watchdog.Beat
			err := DecodeBeat(&b, id, []byte(c.Payload))
			if accept := c.Expect["accept"].(bool); accept != (err == nil) {
				t.Fatalf("accepted: %v (%v), want %v", err == nil, err, accept)
			}
			if err != nil {
				var r watchdog.Refusal
				if !errors.As(err, &r) || r.String() != c.Expect["why"] {
					t.Fatalf("refused as %v, want %v", err, c.Expect["why"])
				}
				return
			}
			got := readings(&b)
			for name, want := range c.Expect {
				if name != "accept" && got[name] != want {
					t.Errorf("%s = %v, want %v", name, got[name], want)
				}
			}
		})
	}
}

func TestDecodeKeepsWhatIsTheCallers(t *testing.T) {
	b := watchdog.Beat{
		Source: watchdog.SourceRedis, Received: time.Second, AgeKind: watchdog.AgeEstimated, Age: time.Minute,
		Task: []byte("old"), Seq: 7, Dropped: 3,
	}
	if err := DecodeBeat(&b, []byte("a"), []byte(`{"session_id":"a","state":"running"}`)); err != nil {
		t.Fatal(err)
	}
	if b.Source != watchdog.SourceRedis || b.Received != time.Second || b.AgeKind != watchdog.AgeEstimated || b.Age != time.Minute {
		t.Errorf("arrival was changed: %+v", b)
	}
	if b.Task != nil || b.Seq != -1 || b.Dropped != 0 || b.Uptime != -1 || !math.IsNaN(b.Credits) {
		t.Errorf("the last beat shines through: %+v", b)
	}
}
