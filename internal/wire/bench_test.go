package wire

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const fiveFields = `{"session_id":"batch-job-abc123","state":"running","uptime_secs":142,"credits_remaining":8.43,"current_task":"Processing chunk 47/200"}`

const allFields = `{"session_id":"batch-job-abc123","state":"running","uptime_secs":142,"credits_remaining":8.43,"current_task":"Processing chunk 47/200",` +
	`"generation":3,"boot_id":"k3x9","seq":17,"idle_secs":0.4,"heartbeat_interval_secs":30,"stall_timeout_secs":300,` +
	`"waiting_for":null,"waiting_max_secs":null,"loop_lag_ms":2,"agent_id":"worker-7","host":"eu1-02","pid":4711,"message":null,"commands":["stop","dump"]}`

// fiveStruct and allStruct are what encoding/json is given as the floor.
type fiveStruct struct {
	SessionID   string   `json:"session_id"`
	State       string   `json:"state"`
	Uptime      *int64   `json:"uptime_secs"`
	Credits     *float64 `json:"credits_remaining"`
	CurrentTask *string  `json:"current_task"`
}

type allStruct struct {
	fiveStruct
	Generation *uint32  `json:"generation"`
	BootID     *string  `json:"boot_id"`
	Seq        *int64   `json:"seq"`
	Idle       *float64 `json:"idle_secs"`
	Interval   *float64 `json:"heartbeat_interval_secs"`
	Stall      *float64 `json:"stall_timeout_secs"`
	WaitingFor *string  `json:"waiting_for"`
	WaitingMax *float64 `json:"waiting_max_secs"`
	LoopLag    *float64 `json:"loop_lag_ms"`
	AgentID    *string  `json:"agent_id"`
	Host       *string  `json:"host"`
	PID        *int64   `json:"pid"`
	Message    *string  `json:"message"`
	Commands   []string `json:"commands"`
}

// simpleStruct is the cheapest target that encoding/json can be given.
type simpleStruct struct {
	SessionID   string  `json:"session_id"`
	State       string  `json:"state"`
	Uptime      int64   `json:"uptime_secs"`
	Credits     float64 `json:"credits_remaining"`
	CurrentTask string  `json:"current_task"`
}

// compare runs ours and the floor by turns in one benchmark and reports the
// best batch of each, and ours as a share of the floor's. The best batch is the
// one that nothing else on the machine, and no collection, disturbed; that
// favours the floor, which allocates.
func compare(b *testing.B, ours, floor func()) {
	b.Helper()
	const batch = 50
	mine, theirs := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		for range batch {
			ours()
		}
		middle := time.Now()
		for range batch {
			floor()
		}
		mine, theirs = min(mine, middle.Sub(start)), min(theirs, time.Since(middle))
	}
	b.ReportMetric(float64(mine)/float64(theirs), "ratio")
	b.ReportMetric(float64(mine)/batch, "ns/beat")
	b.ReportMetric(float64(theirs)/batch, "floor-ns/beat")
	b.ReportMetric(testing.AllocsPerRun(100, ours), "allocs/beat")
	b.ReportMetric(0, "ns/op")
}

func benchmarkDecode[S any](b *testing.B, text string) {
	payload, id := []byte(text), []byte("batch-job-abc123")
	var beat watchdog.Beat
	compare(b, func() {
		if err := DecodeBeat(&beat, id, payload); err != nil {
			b.Fatal(err)
		}
	}, func() {
		var v S
		if err := json.Unmarshal(payload, &v); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkDecodeFive(b *testing.B)      { benchmarkDecode[simpleStruct](b, fiveFields) }
func BenchmarkDecodeFiveNulls(b *testing.B) { benchmarkDecode[fiveStruct](b, fiveFields) }
func BenchmarkDecodeFull(b *testing.B)      { benchmarkDecode[allStruct](b, allFields) }
func BenchmarkDecodePython(b *testing.B) {
	benchmarkDecode[simpleStruct](b, `{"session_id": "batch-job-abc123", "state": "running", "uptime_secs": 142, "credits_remaining": 8.43, "current_task": "Processing chunk 47/200"}`)
}
func BenchmarkDecodeEscapes(b *testing.B) {
	benchmarkDecode[simpleStruct](b, `{"session_id":"batch-job-abc123","state":"running","uptime_secs":142,"credits_remaining":8.43,"current_task":"\u001b[1msay \"hi\" \u4e16\u754c"}`)
}

func BenchmarkEncode(b *testing.B) {
	var beat watchdog.Beat
	if err := DecodeBeat(&beat, "batch-job-abc123", []byte(allFields)); err != nil {
		b.Fatal(err)
	}
	var v allStruct
	if err := json.Unmarshal([]byte(allFields), &v); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	compare(b, func() { buf = AppendBeat(buf[:0], &beat) }, func() {
		if _, err := json.Marshal(&v); err != nil {
			b.Fatal(err)
		}
	})
}
