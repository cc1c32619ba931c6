package wire

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func fullBeat() *watchdog.Beat {
	return &watchdog.Beat{
		ID: []byte("batch-job-abc123"), State: watchdog.StateRunning, StateText: []byte("running"), Uptime: 142, Credits: 8.43,
		Task: []byte("Processing chunk 47/200"), Generation: 3, BootID: []byte("k3x9"), Seq: 17, Idle: 400 * time.Millisecond,
		Interval: 30 * time.Second, StallTimeout: 300 * time.Second, LoopLag: 2 * time.Millisecond, PID: 4711,
		Agent: []byte("worker-7"), Host: []byte("eu1-02"), Takes: watchdog.OpSetOf(watchdog.OpStop, watchdog.OpDump), TakesSaid: true,
	}
}

func TestAppendBeat(t *testing.T) {
	if got := string(AppendBeat(nil, fullBeat())); got != allFields {
		t.Errorf("got  %s\nwant %s", got, allFields)
	}
	if got := string(AppendPlainBeat([]byte("> "), fullBeat())); got != "> "+fiveFields {
		t.Errorf("got  %s\nwant > %s", got, fiveFields)
	}
}

func TestAppendBeatWritesNullForWhatIsUnknown(t *testing.T) {
	var b watchdog.Beat
	b.Reset()
	b.ID, b.State = []byte("a"), watchdog.StateStalled
	var got map[string]any
	if err := json.Unmarshal(AppendBeat(nil, &b), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	for _, name := range fieldNames {
		want[name] = nil
	}
	want["session_id"], want["state"] = "a", "stalled"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b.Credits = math.Inf(1)
	if got := string(AppendPlainBeat(nil, &b)); got != `{"session_id":"a","state":"stalled","uptime_secs":null,"credits_remaining":null,"current_task":null}` {
		t.Error(got)
	}
}

func drawnText(t *rapid.T, label string) []byte {
	switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
	case 0:
		return nil
	case 1:
		return []byte(rapid.StringMatching(`[ -~]{1,40}`).Draw(t, label))
	case 2:
		return rapid.SliceOfN(rapid.Byte(), 1, 60).Draw(t, label)
	}
	return []byte(strings.Repeat(rapid.SampledFrom([]string{`"\`, "x", "世", "\x1b[31m\"", "\xff"}).Draw(t, label), rapid.IntRange(1, 2000).Draw(t, label+" times")))
}

func drawnBeat(t *rapid.T) *watchdog.Beat {
	age := rapid.OneOf(rapid.Just(time.Duration(-1)), rapid.Map(rapid.Int64Range(0, int64(MaxAge)), func(n int64) time.Duration { return time.Duration(n) }))
	declared := rapid.Map(rapid.Int64Range(0, int64(MaxDeclared)), func(n int64) time.Duration { return time.Duration(n) })
	b := &watchdog.Beat{
		ID:    []byte(rapid.SampledFrom([]string{"a", "team.a.job-1", "user:42:chat", `q"\`, "世界"}).Draw(t, "id")),
		State: watchdog.State(rapid.IntRange(0, 4).Draw(t, "state")), StateText: drawnText(t, "state text"),
		Uptime:  rapid.Int64Range(-1, math.MaxInt64).Draw(t, "uptime"),
		Credits: rapid.OneOf(rapid.Just(math.NaN()), rapid.Float64(), rapid.Float64Range(-10, 100)).Draw(t, "credits"),
		Task:    drawnText(t, "task"), Generation: watchdog.Generation(rapid.Uint32().Draw(t, "generation")), BootID: drawnText(t, "boot"),
		Seq: rapid.Int64Range(-1, math.MaxInt64).Draw(t, "seq"), Idle: age.Draw(t, "idle"), Interval: declared.Draw(t, "interval"),
		StallTimeout: declared.Draw(t, "stall"), WaitingFor: watchdog.Wait(rapid.IntRange(0, 4).Draw(t, "wait")), WaitingMax: declared.Draw(t, "max"),
		LoopLag: age.Draw(t, "lag"), PID: rapid.Int64Range(0, math.MaxInt64).Draw(t, "pid"),
		Agent: drawnText(t, "agent"), Host: drawnText(t, "host"), Message: drawnText(t, "message"),
	}
	if b.TakesSaid = rapid.Bool().Draw(t, "takes said"); b.TakesSaid {
		b.Takes = watchdog.OpSetOf(rapid.SliceOf(rapid.SampledFrom(watchdog.Ops())).Draw(t, "takes")...)
	}
	return b
}

// asRead is what a reader must make of b.
func asRead(b watchdog.Beat, plain bool) watchdog.Beat {
	clean := func(text []byte) []byte {
		if text == nil {
			return nil
		}
		return termtext.Clean(text)
	}
	if b.StateText == nil {
		b.StateText = []byte(b.State.String())
	}
	b.StateText = clean(b.StateText)
	b.State = watchdog.StateOf(b.StateText)
	b.Task, b.BootID, b.Agent, b.Host, b.Message = clean(b.Task), clean(b.BootID), clean(b.Agent), clean(b.Host), clean(b.Message)
	if b.BootID != nil && len(b.BootID) == 0 {
		b.BootID, b.Dropped = nil, 1
	}
	if b.Credits == 0 {
		b.Credits = 0
	}
	if plain {
		known := b
		b = watchdog.Beat{}
		b.Reset()
		b.ID, b.State, b.StateText, b.Uptime, b.Credits, b.Task = known.ID, known.State, known.StateText, known.Uptime, known.Credits, known.Task
	}
	return b
}

func TestBeatsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawnBeat(t)
		for _, plain := range []bool{false, true} {
			write := AppendBeat
			if plain {
				write = AppendPlainBeat
			}
			payload := write(nil, b)
			if !json.Valid(payload) || len(payload) > MaxBeatBytes {
				t.Fatalf("%d bytes, valid JSON: %v: %q", len(payload), json.Valid(payload), payload)
			}
			var got watchdog.Beat
			if err := DecodeBeat(&got, b.ID, payload); err != nil {
				t.Fatalf("%v: %q", err, payload)
			}
			if diff := cmp.Diff(asRead(*b, plain), got, cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("%q:\n%s", payload, diff)
			}
		}
	})
}
