package cli

import (
	"testing"

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
