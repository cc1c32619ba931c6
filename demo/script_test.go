package demo

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestTheSameSeedIsTheSameScript(t *testing.T) {
	a, b, other := NewScript(7, 200, 1), NewScript(7, 200, 1), NewScript(8, 200, 1)
	same, different := 0, 0
	// In any order of asking: nothing is remembered.
	for i := range a.Agents() {
		for _, at := range []time.Duration{95 * time.Second, 0, 12345 * time.Millisecond} {
			x, y := a.At(i, at), b.At(i, at)
			if diff := cmp.Diff(x, y, cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("%s at %v: %s", a.Agents()[i].ID, at, diff)
			}
			if cmp.Equal(x, other.At(i, at), cmpopts.EquateNaNs()) {
				same++
			} else {
				different++
			}
		}
		if x, y := a.Agents()[i], b.Agents()[i]; x.ID != y.ID || x.Phase != y.Phase || x.Host != y.Host {
			t.Fatalf("agent %d is %s and %s", i, x.ID, y.ID)
		}
	}
	if different < 10*same {
		t.Errorf("another seed changed %d of %d moments", different, same+different)
	}
}

func TestEveryAgentCanBeCarried(t *testing.T) {
	for _, n := range []int{1, 9, 60, 2000, 30_000} {
		seen := map[string]bool{}
		for _, a := range NewScript(1, n, 1).Agents() {
			if seen[a.ID] {
				t.Errorf("%d agents: two are called %s", n, a.ID)
			}
			seen[a.ID] = true
			if !wire.ValidID(a.ID) || a.Interval < time.Second || a.Phase >= a.Interval || a.Buses == 0 {
				t.Errorf("%d agents: %+v", n, a)
			}
		}
		if len(seen) != n {
			t.Errorf("%d agents, want %d", len(seen), n)
		}
	}
}

// TestEveryBeatIsReadAsItWasMeant lets the reader of the project read what the
// agents, who share no code with it, say over three minutes.
func TestEveryBeatIsReadAsItWasMeant(t *testing.T) {
	for _, speed := range []float64{1, 2.5} {
		s := NewScript(3, 120, speed)
		for i := range s.Agents() {
			a := &s.Agents()[i]
			for at := time.Duration(0); at < 3*Loop; at += 1300 * time.Millisecond {
				m := s.At(i, at)
				payload, err := a.beat(&m, 5, speed)
				if err != nil {
					t.Fatal(err)
				}
				var b watchdog.Beat
				if err := wire.DecodeBeat(&b, a.ID, payload); err != nil {
					t.Fatalf("%s: %v", payload, err)
				}
				if string(b.StateText) != m.State || string(b.Task) != m.Task || b.Dropped != 0 {
					t.Fatalf("%s read as %+v", payload, b)
				}
				if termtext.Changes(m.Task) || m.Task == "" || m.Uptime < 0 || m.Run < 1 || m.Credits < 0 {
					t.Fatalf("%s at %v says %+v", a.ID, at, m)
				}
				var fields map[string]any
				if err := json.Unmarshal(payload, &fields); err != nil {
					t.Fatal(err)
				}
				if want := map[Voice]int{Plain: 5, Numbered: 6, Guarded: 19}[a.Voice]; len(fields) != want {
					t.Fatalf("%s has %d fields, want %d: %s", a.ID, len(fields), want, payload)
				}
				if a.Voice == Guarded && m.Wait != "" && (b.WaitingFor.String() != m.Wait || b.WaitingMax <= 0) {
					t.Fatalf("%s read as %+v", payload, b)
				}
			}
		}
	}
}

func TestExecutionsGoForward(t *testing.T) {
	s := NewScript(11, 120, 1)
	for i := range s.Agents() {
		a := &s.Agents()[i]
		var before Moment
		for at := time.Duration(0); at < 20*Loop; at += 700 * time.Millisecond {
			m := s.At(i, at)
			switch {
			case at == 0:
			case m.Run < before.Run || m.Run > before.Run+1:
				t.Fatalf("%s at %v: run %d after %d", a.ID, at, m.Run, before.Run)
			case m.Run == before.Run && m.Uptime < before.Uptime:
				t.Fatalf("%s at %v: uptime %v after %v", a.ID, at, m.Uptime, before.Uptime)
			case m.Run > before.Run && !before.Ended() && !slices.Contains([]string{"team.a.job-1", "vector-sync"}, a.ID): // these are lost first
				t.Fatalf("%s at %v: a new run without an end of the old", a.ID, at)
			case m.Run > before.Run && m.Uptime > time.Second:
				t.Fatalf("%s at %v: a new run is up for %v", a.ID, at, m.Uptime)
			case m.Run == before.Run && before.Ended() && !m.Ended():
				t.Fatalf("%s at %v: lives again without a new run", a.ID, at)
			case m.Run == before.Run && !math.IsNaN(m.Credits) && m.Credits > before.Credits && a.ID != "batch-job-def456":
				t.Fatalf("%s at %v: credits grew from %v to %v", a.ID, at, before.Credits, m.Credits)
			}
			before = m
		}
	}
}

func TestPlainAgentsOfTheCrowdShowProgress(t *testing.T) {
	s := NewScript(5, 200, 1)
	for i := range s.Agents() {
		a := &s.Agents()[i]
		if a.Star() || a.Voice == Guarded {
			continue
		}
		var last string
		changed := time.Duration(0)
		for at := time.Duration(0); at < 4*Loop; at += a.Interval {
			m := s.At(i, at)
			if now := fmt.Sprint(m.Task, m.Credits, m.Ended()); now != last || m.Ended() {
				last, changed = now, at
			}
			if at-changed > 3*stallTimeout {
				t.Errorf("%s shows %q for %v", a.ID, last, at-changed)
				break
			}
		}
	}
}

func TestTheRotaCallsEverybodyOnceAnInterval(t *testing.T) {
	s := NewScript(5, 5000, 1)
	r := newRota(s.Agents(), 1)
	beats := make([]int, 5000)
	busiest := 0
	step := -1
	for now := range 60 * 20 {
		n := 0
		r.due(step, now, func(i int32) { beats[i]++; n++ })
		busiest = max(busiest, n)
		step = now
	}
	for i, a := range s.Agents() {
		want := float64(time.Minute) / float64(a.Interval)
		if math.Abs(float64(beats[i])-want) > 1 {
			t.Errorf("%s beats %d times a minute, its interval is %v", a.ID, beats[i], a.Interval)
		}
	}
	if mean := 5000 / int(s.Interval()/beatStep); busiest > 2*mean {
		t.Errorf("up to %d beats in one step, the mean is %d", busiest, mean)
	}
	late := 0
	r.due(step, step+100_000, func(int32) { late++ })
	if late != 5000 {
		t.Errorf("after a long stop %d agents beat, want each once", late)
	}
}

func TestLargeFleetsAreBounded(t *testing.T) {
	s := NewScript(1, 100_000, 1)
	rate, keys := 0.0, 0
	for _, a := range s.Agents() {
		rate += 1 / a.Interval.Seconds()
		if a.Buses&Redis != 0 {
			keys++
		}
	}
	if rate > 1.5*beatsASecond {
		t.Errorf("%.0f beats a second", rate)
	}
	if keys > 2*keysAtMost {
		t.Errorf("%d keys in Redis", keys)
	}
}

// TestTheCastPlaysItsParts checks what the stars say when the story needs it.
func TestTheCastPlaysItsParts(t *testing.T) {
	s := NewScript(9, 60, 1)
	at := func(id string, seconds float64) Moment {
		t.Helper()
		i := slices.IndexFunc(s.Agents(), func(a Agent) bool { return a.ID == id })
		if i < 0 {
			t.Fatalf("nobody is called %s", id)
		}
		return s.At(i, script(seconds))
	}
	for _, loop := range []float64{0, 60, 120} {
		for _, c := range []struct {
			id      string
			seconds float64
			ok      func(Moment) bool
		}{
			{"indexer", 15, func(m Moment) bool { return m.Idle > stallTimeout && m.State == "running" }},
			{"indexer", 55, func(m Moment) bool { return m.Idle < time.Second }},
			{"user:42:chat-eu-1f9c", 6, func(m Moment) bool { return m.State == "stalled" && m.Buses == NATS }},
			{"user:42:chat-eu-1f9c", 48, func(m Moment) bool { return m.State == "running" && m.Buses == Both }},
			{"gateway-eu1", 10, func(m Moment) bool { return m.Lag > 5*time.Second }},
			{"team.a.job-1", 10, func(m Moment) bool { return m.Buses == 0 }},
			{"crawler-0031", 10, func(m Moment) bool { return m.Buses == NATS && m.Evicted }},
			{"ingest-eu2", 40, func(m Moment) bool { return m.Buses == Redis }},
			{"approver-billing", 10, func(m Moment) bool { return m.Wait == "human" && m.Idle > 6*time.Hour }},
			{"approver-legal", 20, func(m Moment) bool { return m.Wait == "human" && m.WaitMax < 10*time.Second }},
			{"report-weekly", 20, func(m Moment) bool { return m.State == "completed" }},
			{"etl-nightly", 12, func(m Moment) bool { return m.State == "error" && strings.Contains(m.Message, "schema") }},
			{"support-triage", 35, func(m Moment) bool { return m.State == "error" && m.Credits == 0 }},
			{"team.a.job-1", 41, func(m Moment) bool { return m.Buses == 0 }},
			{"team.a.job-1", 50, func(m Moment) bool { return m.Buses == NATS && m.Run > 1 && m.Uptime < 10*time.Second }},
			{"vector-sync", 20, func(m Moment) bool { return m.Buses == 0 }},
			{"vector-sync", 32, func(m Moment) bool { return m.Buses == NATS && m.Uptime > 20*time.Second }},
			{"vector-sync", 38, func(m Moment) bool { return m.Buses == NATS && m.Run > 1 && m.Uptime < 3*time.Second }},
			{"worker-0203", 45, func(m Moment) bool { return m.Buses == 0 }},
			{"worker-0203", 10, func(m Moment) bool { return m.Buses == NATS }},
		} {
			if m := at(c.id, loop+c.seconds); !c.ok(m) {
				t.Errorf("%s at %v says %+v", c.id, loop+c.seconds, m)
			}
		}
	}
	if a, b := at("batch-job-def456", 1), at("batch-job-def456", 44); a.Task != b.Task || a.Credits != b.Credits {
		t.Errorf("batch-job-def456 moves from %q to %q", a.Task, b.Task)
	}
}

// BenchmarkMoments compares making a beat with the floor of encoding it.
func BenchmarkMoments(b *testing.B) {
	s := NewScript(1, 2000, 1)
	m := s.At(500, time.Minute)
	began := time.Now()
	for range 20_000 {
		if _, err := s.agents[500].beat(&m, 1, 1); err != nil {
			b.Fatal(err)
		}
	}
	floor := float64(time.Since(began)) / 20_000
	i := 0
	for b.Loop() {
		m := s.At(i%2000, time.Duration(i)*time.Millisecond)
		if _, err := s.agents[i%2000].beat(&m, 1, 1); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/floor, "ratio")
}

// Nobody can have been idle, or waiting, for longer than it is up.
func TestNobodyIsIdleLongerThanItIsUp(t *testing.T) {
	s := NewScript(1, 300, 1)
	for i, a := range s.Agents() {
		for at := time.Duration(0); at < 3*Loop; at += 700 * time.Millisecond {
			if m := s.At(i, at); m.Idle > m.Uptime+time.Second {
				t.Fatalf("%s at %v is up %v and idle for %v", a.ID, at, m.Uptime, m.Idle)
			}
		}
	}
}

func TestStallTimeoutIsOneNumber(t *testing.T) {
	for _, n := range []int{60, 2000, 25_000, 31_337} {
		interval := NewScript(1, n, 1).Interval()
		got := stallAfter(interval)
		if got%time.Second != 0 || got <= interval*24/10 {
			t.Errorf("%d agents that beat every %v stall after %v", n, interval, got)
		}
	}
}
