package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var (
	stalledRow = watchdog.Row{
		ID: "indexer", Generation: 2, Verdict: watchdog.Stalled, For: 31*time.Second + 499500*time.Microsecond, State: "running",
		BeatAge: 2 * time.Second, WorkAge: 331 * time.Second, WorkKnown: true, Uptime: 11402 * time.Second, UptimeSaid: 11400 * time.Second, Credits: 8.43,
		Task: `embedding <batch> "9"`, Waiting: watchdog.WaitHuman, WaitMax: time.Hour, Agent: "worker-7", Host: "eu1-02",
		Sources: watchdog.SourceNATS.Set() | watchdog.SourceRedis.Set(),
	}
	unknownRow = watchdog.Row{
		ID: "a", Verdict: watchdog.Unknown, For: -1, BeatAge: -1, BeatKind: watchdog.AgeEstimated, WorkAge: -1, Uptime: -1, UptimeSaid: -1, Credits: math.NaN(),
	}
	explained = watchdog.Detail{
		Row: stalledRow, BootID: "k3x9", Seq: 17, PID: 4711, Cadence: 30 * time.Second, CadenceFrom: "declared",
		StallTimeout: 300 * time.Second, StallFrom: "policy", LoopLag: 2500 * time.Microsecond, FirstSeen: time.Hour, Watched: time.Hour,
		LateBeats: 1, TaskSince: -1, BurnPerMin: math.NaN(), HistorySince: time.Minute,
		Evidence: watchdog.Evidence{
			Rule: "work over stall timeout",
			Inputs: []watchdog.Input{
				{Name: "work", Value: "331.0", Unit: "s", Source: "publisher", Age: 2 * time.Second},
				{Name: "state", Value: "running", Source: "publisher", Age: -1, Estimated: true},
				{Name: "odd", Value: "5m", Unit: "s", Age: -1}, {Name: "build", Value: "7", Age: -1},
			},
			Threshold: 300 * time.Second,
			Next:      []watchdog.Forecast{{Verdict: watchdog.Running, In: -1, If: "work is seen"}, {Verdict: watchdog.Silent, In: 70 * time.Second}},
			Sight:     []watchdog.Sight{{Source: watchdog.SourceNATS, Up: true, Since: 90 * time.Second}},
		},
		Can: watchdog.Can{May: watchdog.OpSetOf(watchdog.OpExpire), Against: [5]string{"it has ended", "it has ended", "", "nobody supervises it", "it has ended"}},
	}
	unexplained = watchdog.Detail{
		Row: unknownRow, Seq: -1, LoopLag: -1, FirstSeen: -1, Watched: -1, TaskSince: -1, BurnPerMin: math.NaN(),
	}
)

const stalledJSON = `"session_id":"indexer","generation":2,"verdict":"stalled","since_secs":31.5,"state":"running","beat_age_secs":2,
	"beat_age_estimated":false,"work_age_secs":331,"work_known":true,"uptime_secs":11400,"credits_remaining":8.43,
	"current_task":"embedding <batch> \"9\"","waiting_for":"human","agent_id":"worker-7","host":"eu1-02","sources":["nats","redis"]`

const unknownJSON = `"session_id":"a","generation":null,"verdict":"unknown","since_secs":null,"state":null,"beat_age_secs":null,
	"beat_age_estimated":true,"work_age_secs":null,"work_known":false,"uptime_secs":null,"credits_remaining":null,
	"current_task":null,"waiting_for":null,"agent_id":null,"host":null,"sources":[]`

func TestPrinted(t *testing.T) {
	sixty := "[" + string(bytes.Repeat([]byte("0,"), watchdog.HistoryPoints-1)) + "0]"
	for _, c := range []struct {
		name  string
		print func(io.Writer) error
		want  string
	}{
		{"list", func(to io.Writer) error {
			return EncodeList(to, watchdog.Window{Rows: []watchdog.Row{stalledRow, unknownRow}})
		}, `[{` + unknownJSON + `},{` + stalledJSON + `}]`},
		{"empty list", func(to io.Writer) error { return EncodeList(to, watchdog.Window{}) }, `[]`},
		{"detail", func(to io.Writer) error { return EncodeDetail(to, watchdog.Window{Focus: &explained}) }, `{` + stalledJSON + `,
			"settings":{"cadence_secs":30,"cadence_from":"declared","heartbeat_interval_secs":null,"stall_timeout_secs":300,"stall_timeout_from":"policy","waiting_max_secs":3600},
			"process":{"pid":4711,"boot_id":"k3x9","seq":17,"loop_lag_ms":2.5,"message":null},
			"history":{"first_seen_secs":3600,"watched_secs":3600,"task_since_secs":null,"late_beats":1,"credits_per_min":null,"step_secs":10,"covered_secs":60,"beats":` + sixty + `,"work":` + sixty + `}}`},
		{"detail of the unknown", func(to io.Writer) error { return EncodeDetail(to, watchdog.Window{Focus: &unexplained}) }, `{` + unknownJSON + `,
			"settings":{"cadence_secs":null,"cadence_from":null,"heartbeat_interval_secs":null,"stall_timeout_secs":null,"stall_timeout_from":null,"waiting_max_secs":null},
			"process":{"pid":null,"boot_id":null,"seq":null,"loop_lag_ms":null,"message":null},
			"history":{"first_seen_secs":null,"watched_secs":null,"task_since_secs":null,"late_beats":0,"credits_per_min":null,"step_secs":10,"covered_secs":0,"beats":` + sixty + `,"work":` + sixty + `}}`},
		{"why", func(to io.Writer) error { return EncodeWhy(to, watchdog.Window{Focus: &explained}) },
			`{"session_id":"indexer","generation":2,"verdict":"stalled","since_secs":31.5,"rule":"work over stall timeout","inputs":[
			{"name":"work","value":331.0,"unit":"s","source":"publisher","age_secs":2,"estimated":false},
			{"name":"state","value":"running","unit":null,"source":"publisher","age_secs":null,"estimated":true},
			{"name":"odd","value":"5m","unit":"s","source":null,"age_secs":null,"estimated":false},
			{"name":"build","value":"7","unit":null,"source":null,"age_secs":null,"estimated":false}],
			"threshold_secs":300,"next":[{"verdict":"running","in_secs":null,"if":"work is seen"},{"verdict":"silent","in_secs":70,"if":null}],
			"sight":[{"source":"nats","up":true,"since_secs":90}],"held":null,
			"can":{"stop":false,"kill":false,"expire":true,"restart":false,"dump":false,"why_not":"stop, kill, dump: it has ended; restart: nobody supervises it"}}`},
		{"why of the unknown", func(to io.Writer) error { return EncodeWhy(to, watchdog.Window{Focus: &unexplained}) },
			`{"session_id":"a","generation":null,"verdict":"unknown","since_secs":null,"rule":null,"inputs":[],"threshold_secs":null,"next":[],"sight":[],"held":null,
			"can":{"stop":false,"kill":false,"expire":false,"restart":false,"dump":false,"why_not":"nobody takes commands for it"}}`},
		{"check", func(to io.Writer) error {
			return EncodeCheck(to, Check{Result: 1, Failed: []watchdog.Row{stalledRow}, Sight: 1500 * time.Millisecond, Unknown: 3})
		}, `{"result":"bad_news","failed":[{` + stalledJSON + `}],"sight_secs":1.5,"unknown":3}`},
		{"check that is well", func(to io.Writer) error { return EncodeCheck(to, Check{}) }, `{"result":"healthy","failed":[],"sight_secs":0,"unknown":0}`},
		{"check that saw nothing", func(to io.Writer) error { return EncodeCheck(to, Check{Result: 2}) }, `{"result":"could_not_tell","failed":[],"sight_secs":0,"unknown":0}`},
		{"doctor", func(to io.Writer) error {
			return EncodeDoctor(to, []Finding{{"nats", true, "ok"}, {"redis", false, "refused"}})
		},
			`[{"check":"nats","ok":true,"detail":"ok"},{"check":"redis","ok":false,"detail":"refused"}]`},
		{"doctor without findings", func(to io.Writer) error { return EncodeDoctor(to, nil) }, `[]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, want, got bytes.Buffer
			if err := c.print(&out); err != nil {
				t.Fatal(err)
			}
			// Compacted, not decoded, so that order and spelling count too.
			if err := errors.Join(json.Compact(&want, []byte(c.want)), json.Compact(&got, out.Bytes())); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("%s\n%s", out.String(), diff)
			}
			if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
				t.Error("no line break at the end")
			}
		})
	}
}

func TestPrintingNeedsAFocus(t *testing.T) {
	for _, print := range []func(io.Writer, watchdog.Window) error{EncodeDetail, EncodeWhy} {
		if err := print(io.Discard, watchdog.Window{}); err == nil {
			t.Error("an empty window was explained")
		}
	}
}

func TestListDoesNotTouchItsWindow(t *testing.T) {
	w := watchdog.Window{Rows: []watchdog.Row{stalledRow, unknownRow}}
	if err := EncodeList(io.Discard, w); err != nil {
		t.Fatal(err)
	}
	if w.Rows[0].ID != "indexer" {
		t.Error("the window was sorted in place")
	}
}
