package watchdog

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// identity is what a publisher tells of its execution besides its state.
type identity struct {
	name             string
	gen, boot, noUp  bool
	firstComesInTime bool // without it nothing tells who was first
}

var identities = []identity{
	{name: "generation", gen: true},
	{name: "generation and boot id, no uptime", gen: true, boot: true, noUp: true},
	{name: "boot id", boot: true},
	{name: "all", gen: true, boot: true},
	{name: "five fields", firstComesInTime: true},
}

// sent is one beat of one of two executions of a session: A ran from -100 s to
// its end at 20 s, B since 30 s.
type sent struct {
	name string
	exec int // 1 A, 2 B
	at   time.Duration
	end  bool
	key  AgeKind // AgeExact, or a key at first sight
}

const (
	bornA = -100 * time.Second
	bornB = 30 * time.Second
)

var (
	sentA1 = sent{name: "A1", exec: 1, at: 0}
	sentA2 = sent{name: "A2", exec: 1, at: 10 * time.Second}
	sentAE = sent{name: "AE", exec: 1, at: 20 * time.Second, end: true}
	sentB1 = sent{name: "B1", exec: 2, at: bornB}
	sentB2 = sent{name: "B2", exec: 2, at: 40 * time.Second}
	sentB3 = sent{name: "B3", exec: 2, at: 60 * time.Second}
	keyA2  = sent{name: "A2", exec: 1, at: 10 * time.Second, key: AgeEstimated}
	oldA2  = sent{name: "A2", exec: 1, at: 10 * time.Second, key: AgeUnknown}
)

func (s sent) newer(o sent) bool { return s.exec > o.exec || s.exec == o.exec && s.at > o.at }

// beat is s on the wire, as a publisher with identity id sends it.
func (s sent) beat(id identity, src Source, now time.Duration) Beat {
	born := []time.Duration{0, bornA, bornB}[s.exec]
	b := beat("s", int64((s.at-born)/time.Second), func(b *Beat) {
		b.Source, b.Task = src, []byte(s.name)
		if s.end {
			b.StateText = []byte("completed")
		}
		if id.gen {
			b.Generation = Generation(s.exec)
		}
		if id.boot {
			b.BootID, b.Seq = fmt.Appendf(nil, "boot-%d", s.exec), int64((s.at-born)/(10*time.Second))
		}
		if id.noUp {
			b.Uptime = -1
		}
	})
	if b.AgeKind = s.key; s.key != AgeExact {
		b.Source = SourceRedis
		if s.key == AgeEstimated {
			b.Age = now - s.at
		}
	}
	return b
}

// permutations calls do with every order of list.
func permutations(list []sent, do func([]sent)) {
	var permute func(k int)
	permute = func(k int) {
		if k == len(list) {
			do(list)
			return
		}
		for i := k; i < len(list); i++ {
			list[k], list[i] = list[i], list[k]
			permute(k + 1)
			list[k], list[i] = list[i], list[k]
		}
	}
	permute(0)
}

// TestEveryOrderOfTwoExecutions delivers the beats of an execution that ended
// and of the one that followed, twice some of them, and an old key, in every
// order and by every pattern of sources.
func TestEveryOrderOfTwoExecutions(t *testing.T) {
	patterns := map[string][]Source{
		"NATS": {SourceNATS}, "Redis": {SourceRedis}, "both": {SourceNATS, SourceRedis}, "both, the other way": {SourceRedis, SourceNATS},
	}
	extras := map[string][]sent{
		"plain": nil, "twice": {sentA2}, "end twice": {sentAE}, "new twice": {sentB1}, "key": {keyA2}, "old key": {oldA2},
	}
	for _, id := range identities {
		for pattern, sources := range patterns {
			for extra, more := range extras {
				t.Run(id.name+"/"+pattern+"/"+extra, func(t *testing.T) {
					list := append([]sent{sentA1, sentA2, sentAE, sentB1, sentB2}, more...)
					if id.firstComesInTime {
						list = list[1:]
					}
					line := newLine(id, sources)
					permutations(list, func(order []sent) { line.deliver(t, order) })
				})
				if t.Failed() {
					return // one order is enough to read
				}
			}
		}
	}
}

// line delivers beats to one tracker, each order to a session of its own.
type line struct {
	id      identity
	sources []Source
	tr      *Tracker
	base    time.Duration // zero of the present session's times
	session string
}

func newLine(id identity, sources []Source) *line {
	l := &line{id: id, sources: sources, base: time.Hour, tr: NewTracker(Policy{}, Instant{Mono: time.Hour})}
	l.next()
	return l
}

// next begins another session, later.
func (l *line) next() {
	l.base += 4 * time.Minute
	l.session = fmt.Sprint("s", l.base)
	for _, src := range l.sources {
		l.tr.Apply(RoundTrip{Source: src, Sent: l.base, At: l.base})
	}
}

func (l *line) hand(s sent, src Source, at time.Duration) Row {
	b := s.beat(l.id, src, at)
	b.ID, b.Received = []byte(l.session), l.base+at
	l.tr.ApplyBeats([]Beat{b})
	n, _ := l.tr.store.find(b.ID)
	v := l.tr.view()
	row, _, _ := l.tr.row(n, l.tr.store.at(n), &v)
	return row
}

// deliver hands out a burst of delayed beats, and holds what is shown against
// the newest that was handed out.
func (l *line) deliver(t *testing.T, order []sent) {
	t.Helper()
	id, sources, hand := l.id, l.sources, l.hand
	if order[0].key != AgeExact && !id.firstComesInTime {
		return // a first sight is that of an unknown session
	}
	l.next()
	var newest sent
	if id.firstComesInTime {
		newest = sentA1
		hand(sentA1, sources[0], sentA1.at)
	}
	// Five fields cannot tell a first beat that is delayed from one more
	// execution's, nor a start that lies before a delayed beat of an open head.
	blurred := false
	ended, keyed := false, false
	for i, s := range order {
		row := hand(s, sources[i%len(sources)], 40*time.Second+time.Duration(i)*200*time.Millisecond)
		if id.firstComesInTime && s.exec == 2 && (newest.exec == 2 || i > 0 && !ended) {
			blurred = true
		}
		keyed = keyed || s.key != AgeExact
		if s.newer(newest) && s.key == AgeExact {
			newest = s
		}
		ended = ended || s.end
		if blurred {
			continue
		}
		if want := newest.exec == 1 && ended; row.Verdict.Ended() != want {
			t.Fatalf("%v: after %s it is %v (%s)", names(order), s.name, row.Verdict, row.Task)
		}
		if keyed && row.Task == "A2" && newest.name == "A1" {
			continue // the key is newer, and says so
		}
		if row.Task != newest.name {
			t.Fatalf("%v: after %s it shows %s, the newest is %s", names(order), s.name, row.Task, newest.name)
		}
	}
	b3 := sentB3
	row := hand(b3, sources[0], b3.at)
	for blurred && row.Task != "B3" && b3.at < 3*time.Minute {
		b3.at += 20 * time.Second
		row = hand(b3, sources[0], b3.at)
	}
	if row.Verdict.Ended() || row.Task != "B3" {
		t.Fatalf("%v: then its next beat, in time, shows %v %s", names(order), row.Verdict, row.Task)
	}
	if blurred {
		return
	}
	late := hand(sentA2, sources[0], b3.at+time.Second)
	if late.Task != "B3" {
		t.Fatalf("%v: a beat of the execution before, even later, shows %s", names(order), late.Task)
	}
}

func names(order []sent) []string {
	var out []string
	for _, s := range order {
		out = append(out, s.name)
	}
	return slices.Clip(out)
}
