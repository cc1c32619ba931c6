package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// A command is not sent by Redis only because Redis was read first.
func TestCommandWaitsForTheBusThatCarriesIt(t *testing.T) {
	nats, redis := watchdog.SourceNATS, watchdog.SourceRedis
	for name, c := range map[string]struct {
		links []watchdog.Link
		seen  watchdog.SourceSet
		age   int
		boot  string
		want  bool
	}{
		"nothing heard":           {links: []watchdog.Link{{Source: redis, Phase: watchdog.LinkUp}}, seen: redis.Set(), age: -1, boot: "b"},
		"which run is not known":  {links: []watchdog.Link{{Source: redis, Phase: watchdog.LinkUp}}, seen: redis.Set()},
		"Redis alone":             {links: []watchdog.Link{{Source: redis, Phase: watchdog.LinkUp}}, seen: redis.Set(), boot: "b", want: true},
		"NATS not heard yet":      {links: []watchdog.Link{{Source: nats, Phase: watchdog.LinkUp}, {Source: redis, Phase: watchdog.LinkUp}}, seen: redis.Set(), boot: "b"},
		"NATS not connected yet":  {links: []watchdog.Link{{Source: nats, Phase: watchdog.LinkConnecting}}, seen: redis.Set(), boot: "b"},
		"NATS down":               {links: []watchdog.Link{{Source: nats, Phase: watchdog.LinkDown}}, seen: redis.Set(), boot: "b", want: true},
		"heard on NATS":           {links: []watchdog.Link{{Source: nats, Phase: watchdog.LinkUp}}, seen: redis.Set() | nats.Set(), boot: "b", want: true},
		"heard on NATS by number": {links: []watchdog.Link{{Source: nats, Phase: watchdog.LinkUp}}, seen: nats.Set(), boot: "b", want: true},
	} {
		d := &watchdog.Detail{}
		d.BootID, d.Sources, d.BeatAge = c.boot, c.seen, 0
		if c.age < 0 {
			d.BeatAge = -1
		}
		if got := pinned(&watchdog.Window{Links: c.links, Focus: d}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestActionAsksOnlyWhatCanCome: the question names the execution that the command
// is for, and none is put where nothing can come of it.
func TestActionAsksOnlyWhatCanCome(t *testing.T) {
	const five = "nobody supervises it"
	for name, c := range map[string]struct {
		generation watchdog.Generation
		may        bool
		verdict    watchdog.Verdict
		answer     string
		sure       bool
		says       string // in the question, or of the refusal
		asks       bool
	}{
		"it is possible":          {generation: 2, may: true, verdict: watchdog.Running, answer: "y\n", sure: true, says: "RESTART s #2 ?\n  now   running\n", asks: true},
		"a bad verdict":           {generation: 2, may: true, verdict: watchdog.Stalled, answer: "n\n", says: "now   stalled for 7s\n", asks: true},
		"a run that is to come":   {generation: 7, may: true, verdict: watchdog.Running, answer: "\n", says: "RESTART s #7 ?", asks: true},
		"it is not possible":      {generation: 2, verdict: watchdog.Running, answer: "y\n", says: "restart s #2: refused: " + five},
		"a run that is long over": {generation: 1, may: true, verdict: watchdog.Running, sure: true},
	} {
		var said strings.Builder
		a := &app{env: Env{Stdin: strings.NewReader(c.answer), Stderr: &said, StdoutTTY: true}}
		d := &watchdog.Detail{}
		d.ID, d.Generation, d.Verdict, d.For = "s", 2, c.verdict, 7*time.Second
		d.Can.Deny(five, watchdog.Ops()...)
		if c.may {
			d.Can.Allow(watchdog.Ops()...)
		}
		sure, err := a.confirmed(&actingFlags{}, watchdog.Command{Op: watchdog.OpRestart, Session: "s", Generation: c.generation}, "it goes", d)
		text := said.String()
		if err != nil {
			text += err.Error()
		}
		if sure != c.sure || strings.Contains(text, "y to do it") != c.asks || !strings.Contains(text, c.says) || (err != nil) != (!c.asks && !c.sure) {
			t.Errorf("%s: %v, %q", name, sure, text)
		}
	}
}
