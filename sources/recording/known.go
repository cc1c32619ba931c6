package recording

import (
	"maps"
	"slices"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// maxKnown is of how many sessions it is remembered what is known beside their
// beats.
const maxKnown = 20_000

// known is what a tracker must be told to stand, but for beats, where an engine
// stands in the middle of its life: sources and how they are linked, the ledger,
// what operators said of alerts, and of each session its head, its last end and its supervisor. Sessions
// themselves appear with their next beats.
type known struct {
	sources  map[watchdog.Source]*knownSource
	ledger   watchdog.Event
	followed watchdog.Event
	noted    watchdog.Event // all that is said of alerts
	sessions map[watchdog.ID]*knownSession
}

type knownSource struct{ added, link, denied, trip watchdog.Event }

type knownSession struct{ head, end, supervised watchdog.Event }

// note remembers what an event says for later.
func (k *known) note(ev watchdog.Event) {
	switch e := ev.(type) {
	case watchdog.SourceAdded:
		k.source(e.Source).added = ev
	case watchdog.LinkChanged:
		k.source(e.Source).link = ev
	case watchdog.Denied:
		k.source(e.Source).denied = ev
	case watchdog.RoundTrip:
		k.source(e.Source).trip = ev
	case watchdog.LedgerChanged:
		k.ledger = ev
	case watchdog.FollowedUp:
		k.followed = ev
	case watchdog.Noted:
		k.noted = ev
	case watchdog.HeadSeen:
		if s := k.session(e.Head.ID); s != nil {
			s.head = ev
		}
	case watchdog.TerminalSeen:
		if s := k.session(e.ID); s != nil && !e.Foreign {
			if before, ok := s.end.(watchdog.TerminalSeen); !ok || before.Generation <= e.Generation {
				s.end = ev
			}
		}
	case watchdog.Supervised:
		if s := k.session(e.ID); s != nil {
			s.supervised = ev
		}
	}
}

func (k *known) source(src watchdog.Source) *knownSource {
	if k.sources == nil {
		k.sources = map[watchdog.Source]*knownSource{}
	}
	if k.sources[src] == nil {
		k.sources[src] = &knownSource{}
	}
	return k.sources[src]
}

func (k *known) session(id watchdog.ID) *knownSession {
	if s := k.sessions[id]; s != nil || len(k.sessions) >= maxKnown {
		return s
	}
	if k.sessions == nil {
		k.sessions = map[watchdog.ID]*knownSession{}
	}
	s := &knownSession{}
	k.sessions[id] = s
	return s
}

// events tell it again, in the order in which an engine learns it.
func (k *known) events() []watchdog.Event {
	var out []watchdog.Event
	add := func(evs ...watchdog.Event) {
		for _, ev := range evs {
			if ev != nil {
				out = append(out, ev)
			}
		}
	}
	for _, src := range slices.Sorted(maps.Keys(k.sources)) {
		s := k.sources[src]
		add(s.added, s.link, s.denied, s.trip)
	}
	add(k.ledger)
	ids := slices.Sorted(maps.Keys(k.sessions))
	for _, id := range ids {
		add(k.sessions[id].head, k.sessions[id].end)
	}
	add(k.followed)
	for _, id := range ids {
		add(k.sessions[id].supervised)
	}
	add(k.noted)
	return out
}
