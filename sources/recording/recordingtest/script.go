// Package recordingtest writes scripted recordings: small, exact stories that
// tests replay. It owns the script and its order in time; it must not know
// what a tracker makes of it.
package recordingtest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// tickEvery is how far apart the written clock readings are.
const tickEvery = time.Second

// Script collects what shall be recorded, in any order; times are offsets from
// its start. Entries of one time keep the order in which they were added.
type Script struct {
	header  recording.Header
	entries []entry
	end     time.Duration
	holes   [][2]time.Duration // no ticks inside
}

type entry struct {
	at    time.Duration
	rank  int // ticks stand before what happens at their time
	beat  *watchdog.Beat
	event watchdog.Event
	gap   *recording.Gap
}

// New begins a script at a fixed moment, so that what is derived from it can
// be compared byte by byte.
func New(policy watchdog.Policy) *Script {
	return &Script{header: recording.Header{
		Program: "script",
		Name:    "script",
		Started: watchdog.Instant{
			Mono: time.Hour,
			Boot: 2 * time.Hour,
			Wall: time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC).UnixNano(),
		},
		Policy: policy.WithDefaults(),
	}}
}

// May says how far the recorder's process could act.
func (s *Script) May(a watchdog.Acts) *Script {
	s.header.Acts = a
	return s
}

// Started is the moment at which the script begins.
func (s *Script) Started() watchdog.Instant { return s.header.Started }

// Mono is the monotonic reading at an offset, for the fields of events.
func (s *Script) Mono(at time.Duration) time.Duration { return s.header.Started.Mono + at }

func (s *Script) add(e entry) *Script {
	s.end = max(s.end, e.at)
	s.entries = append(s.entries, e)
	return s
}

// Event adds an event at an offset.
func (s *Script) Event(at time.Duration, ev watchdog.Event) *Script {
	return s.add(entry{at: at, rank: 1, event: ev})
}

// Beat adds one beat of a session over a source. Change, if given, fills in
// more of it; as it stands it is a beat that says "running".
func (s *Script) Beat(at time.Duration, source watchdog.Source, id string, change ...func(*watchdog.Beat)) *Script {
	var b watchdog.Beat
	b.Reset()
	b.Source, b.Received = source, s.Mono(at)
	b.ID, b.State, b.StateText = []byte(id), watchdog.StateRunning, []byte(watchdog.StateRunning.String())
	for _, f := range change {
		f(&b)
	}
	return s.add(entry{at: at, rank: 1, beat: &b})
}

// Beats adds a beat every so often, from one offset up to and without another.
// Uptime counts from offset 0.
func (s *Script) Beats(from, to, every time.Duration, source watchdog.Source, id string, change ...func(at time.Duration, b *watchdog.Beat)) *Script {
	for at := from; at < to; at += every {
		s.Beat(at, source, id, func(b *watchdog.Beat) {
			b.Uptime = int64(at / time.Second)
			for _, f := range change {
				f(at, b)
			}
		})
	}
	return s
}

// Link adds a source that is configured at once, up, and answers every 2 s
// from one offset to another. A second call for the same source is its return
// after blindness.
func (s *Script) Link(source watchdog.Source, from, to time.Duration) *Script {
	if !slices.ContainsFunc(s.entries, func(e entry) bool {
		added, ok := e.event.(watchdog.SourceAdded)
		return ok && added.Source == source
	}) {
		s.Event(from, watchdog.SourceAdded{Source: source, At: s.Mono(from)})
	}
	s.Event(from, watchdog.LinkChanged{Source: source, Phase: watchdog.LinkUp,
		Address: source.String() + "://script", Origin: "script", At: s.Mono(from)})
	for at := from; at < to; at += 2 * time.Second {
		s.Event(at, watchdog.RoundTrip{Source: source, Sent: s.Mono(at), At: s.Mono(at)})
	}
	return s
}

// Late adds a time in which the observer itself was held up: no tick comes
// inside, and the one at its end says so.
func (s *Script) Late(from, to time.Duration) *Script {
	s.holes = append(s.holes, [2]time.Duration{from, to})
	s.end = max(s.end, to)
	return s
}

// Gap adds what a recorder would have lost around an offset.
func (s *Script) Gap(at time.Duration, g recording.Gap) *Script {
	g.From, g.To = s.Mono(at), s.Mono(at)
	return s.add(entry{at: at, rank: 1, gap: &g})
}

// Until lets the clock run at least up to an offset.
func (s *Script) Until(end time.Duration) *Script {
	s.end = max(s.end, end)
	return s
}

// Bytes is the recording, not compressed.
func (s *Script) Bytes() ([]byte, error) { return s.write(false) }

// WriteFile writes the recording, compressed if the name ends in .gz.
func (s *Script) WriteFile(path string) error {
	data, err := s.write(strings.HasSuffix(path, ".gz"))
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Reader reads the recording from memory.
func (s *Script) Reader() (*recording.Reader, error) {
	data, err := s.Bytes()
	if err != nil {
		return nil, err
	}
	return recording.NewReader("script", bytes.NewReader(data))
}

func (s *Script) write(compress bool) ([]byte, error) {
	var out bytes.Buffer
	w, err := recording.NewWriter(&out, compress, s.header)
	if err != nil {
		return nil, err
	}
	all := append(s.ticks(), s.entries...)
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank))
	})
	clock := time.Duration(-1)
	for _, e := range all {
		if err := s.entry(w, e, &clock); err != nil {
			return nil, fmt.Errorf("entry at %v: %w", e.at, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// entry writes one entry after the clock that an engine would have reached: its
// last tick on the grid.
func (s *Script) entry(w *recording.Writer, e entry, told *time.Duration) error {
	clock := s.Mono(e.at - e.at%recording.Grid)
	if clock <= *told || s.heldUp(e.at) {
		clock = -1
	} else {
		*told = clock
	}
	switch {
	case e.gap != nil:
		return w.Gap(*e.gap)
	case e.beat != nil:
		return w.Beat(clock, e.beat)
	}
	if tick, ok := e.event.(watchdog.Ticked); ok {
		*told = tick.Now.Mono
	}
	return w.Event(clock, e.event)
}

func (s *Script) heldUp(at time.Duration) bool {
	return slices.ContainsFunc(s.holes, func(h [2]time.Duration) bool { return at > h[0] && at < h[1] })
}

// wakesAt holds for the end of a hole, whose tick is the late one.
func (s *Script) wakesAt(at time.Duration) bool {
	return slices.ContainsFunc(s.holes, func(h [2]time.Duration) bool { return at == h[1] })
}

func (s *Script) ticks() []entry {
	var out []entry
	tick := func(at, late time.Duration) {
		now := s.header.Started
		now.Mono, now.Boot, now.Wall = now.Mono+at, now.Boot+at, now.Wall+int64(at)
		out = append(out, entry{at: at, event: watchdog.Ticked{Now: now, Late: late}})
	}
	for at := time.Duration(0); at <= s.end; at += tickEvery {
		if !s.heldUp(at) && !s.wakesAt(at) {
			tick(at, 0)
		}
	}
	for _, h := range s.holes {
		if h[0]%tickEvery != 0 {
			tick(h[0], 0)
		}
		tick(h[1], max(0, h[1]-h[0]-recording.Grid))
	}
	return out
}
