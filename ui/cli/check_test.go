package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fleetOf makes a window with one session of each verdict, seen on a NATS that
// somebody named.
func fleetOf(verdicts ...watchdog.Verdict) watchdog.Window {
	w := watchdog.Window{Total: len(verdicts)}
	for i, v := range verdicts {
		w.Rows = append(w.Rows, watchdog.Row{ID: watchdog.ID(fmt.Sprintf("s%d", i)), Verdict: v})
		w.Fleet.ByVerdict[v]++
		if !v.Ended() {
			w.Fleet.Live++
			w.Fleet.Assessed++
		}
	}
	w.Links = []watchdog.Link{{Source: watchdog.SourceNATS, Sighted: true, Since: time.Minute, Origin: "--nats"}}
	return w
}

func TestJudgeCheck(t *testing.T) {
	blind := func(w watchdog.Window, origin string) watchdog.Window {
		w.Links = append(w.Links, watchdog.Link{Source: watchdog.SourceRedis, Reason: "refused", Origin: origin})
		return w
	}
	hung := func(w watchdog.Window) watchdog.Window {
		w.Links[0].Phase, w.Links[0].Detail, w.Links[0].LastTrip = watchdog.LinkUp, "subscribed", 3*time.Second
		return w
	}
	broken := func(w watchdog.Window) watchdog.Window {
		w.Links[0].Phase, w.Links[0].Detail, w.Links[0].LastTrip = watchdog.LinkDown, "connection lost", 3*time.Second
		return w
	}
	group := func(w watchdog.Window, heldFor time.Duration, n int, members ...watchdog.ID) watchdog.Window {
		w.Groups = []watchdog.Group{{N: n, Of: 9, HeldFor: heldFor, Members: members}}
		for i := range w.Rows {
			w.Rows[i].Held = heldFor != 0 && slices.Contains(members, w.Rows[i].ID)
		}
		return w
	}
	acked := func(w watchdog.Window) watchdog.Window {
		for i := range w.Rows {
			w.Rows[i].Standing = watchdog.AlertAcked
		}
		return w
	}
	for _, c := range []struct {
		name  string
		w     watchdog.Window
		rules checkRules
		code  int
		says  string
	}{
		{"all well", fleetOf(watchdog.Running, watchdog.Waiting, watchdog.Completed), checkRules{}, 0, ""},
		{"an acknowledged end", acked(fleetOf(watchdog.Running, watchdog.Lost, watchdog.Failed)), checkRules{}, 0, ""},
		{"an acknowledged stall is one still", acked(fleetOf(watchdog.Running, watchdog.Stalled)), checkRules{}, 1, "1 session: 1 stalled"},
		{"nothing seen", fleetOf(), checkRules{}, 2, "no session was seen"},
		{"a stall", fleetOf(watchdog.Running, watchdog.Stalled), checkRules{}, 1, "1 session: 1 stalled"},
		{"every bad verdict", fleetOf(watchdog.Stalled, watchdog.Wedge, watchdog.Lost, watchdog.CrashLoop, watchdog.Failed), checkRules{}, 1, "5 sessions: 1 stalled, 1 wedged, 1 lost, 1 crash-loop, 1 error"},
		{"silent is no failure unless asked", fleetOf(watchdog.Silent), checkRules{}, 0, ""},
		{"silent when asked", fleetOf(watchdog.Silent), checkRules{failOn: []watchdog.Verdict{watchdog.Silent}}, 1, "1 silent"},
		{"stalled when not asked", fleetOf(watchdog.Stalled), checkRules{failOn: []watchdog.Verdict{watchdog.Silent}}, 0, ""},
		{"only unknown", fleetOf(watchdog.Unknown, watchdog.Unknown, watchdog.Completed), checkRules{}, 2, "every live session is unknown"},
		{"some unknown", fleetOf(watchdog.Unknown, watchdog.Running), checkRules{}, 0, ""},
		{"only good ends", fleetOf(watchdog.Completed), checkRules{}, 0, ""},
		{"expected and there", fleetOf(watchdog.Running), checkRules{expect: []watchdog.ID{"s0"}}, 0, ""},
		{"expected, never seen", fleetOf(watchdog.Running), checkRules{expect: []watchdog.ID{"s0", "nobody"}}, 2, "expected nobody was never seen"},
		{"bad news outweighs", fleetOf(watchdog.Lost), checkRules{expect: []watchdog.ID{"nobody"}}, 1, "1 lost"},
		{"too few seen", fleetOf(watchdog.Running), checkRules{min: 2}, 2, "at least 2 are wanted"},
		{"too few live", fleetOf(watchdog.Running, watchdog.Completed), checkRules{min: 2}, 1, "at least 2 must"},
		{"a named server is blind", blind(fleetOf(watchdog.Running), "REDIS_URL"), checkRules{}, 2, "Redis cannot be seen: refused"},
		{"a default server is blind", blind(fleetOf(watchdog.Running), "default"), checkRules{}, 0, ""},
		{"a server has just gone", broken(fleetOf(watchdog.Running)), checkRules{}, 2, "NATS answered last 3s ago: connection lost"},
		{"a server does not answer at the end", hung(fleetOf(watchdog.Running)), checkRules{asked: 2 * time.Second}, 2, "NATS answered last 3s ago: no answer since"},
		{"a server answers at the end", hung(fleetOf(watchdog.Running)), checkRules{asked: 4 * time.Second}, 0, ""},
		{"bad news of a server that has just gone", broken(fleetOf(watchdog.Stalled)), checkRules{}, 1, "1 stalled"},
		{"the brake holds", group(fleetOf(watchdog.Silent, watchdog.Running), time.Minute, 1, "s0"), checkRules{}, 2, "the brake holds: 1 of 9"},
		{"held until released", group(fleetOf(watchdog.Silent, watchdog.Running), -1, 1, "s0"), checkRules{}, 2, "the brake holds"},
		{"no longer held", group(fleetOf(watchdog.Silent, watchdog.Running), 0, 1, "s0"), checkRules{}, 0, ""},
		{"held ones are no failure", group(fleetOf(watchdog.Silent), time.Minute, 1, "s0"), checkRules{failOn: []watchdog.Verdict{watchdog.Silent}}, 2, "the brake holds"},
		{"others fail beside them", group(fleetOf(watchdog.Silent, watchdog.Stalled), time.Minute, 1, "s0"), checkRules{}, 1, "1 stalled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rules.failOn == nil {
				c.rules.failOn = defaultFailOn()
			}
			r := judgeCheck(c.w, c.rules)
			if r.code != c.code {
				t.Errorf("code %d, want %d", r.code, c.code)
			}
			if said := strings.Join(append(r.bad, r.untold...), "\n"); !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("it says %q, want %q", said, c.says)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	var rows []watchdog.Row
	for _, id := range []watchdog.ID{"batch-job-0001", "batch-job-0002", "indexer", "etl-nightly", "x"} {
		rows = append(rows, watchdog.Row{ID: id})
	}
	for id, want := range map[string]string{
		"indxer":         "indexer",
		"INDEX":          "indexer",
		"batch-job-0003": "batch-job-0001,batch-job-0002",
		"etl":            "etl-nightly",
		"nobody-at-all":  "",
		"":               "x",
	} {
		if got := strings.Join(nearest(id, rows), ","); got != want {
			t.Errorf("nearest(%q) = %q, want %q", id, got, want)
		}
	}
}
