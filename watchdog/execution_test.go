package watchdog

import (
	"fmt"
	"slices"
	"strings"
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
	sequential(t)
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
	l.tr.ticked.Mono = b.Received // nobody was stopped
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

// producer is a five-field publisher: uptime is what it says after d.
type producer struct {
	uptime func(d time.Duration) int64
	task   func(d time.Duration) string
	every  time.Duration
}

// attend lets it beat for d, since the rig began, by both buses, Redis being polled every 2 s: a value
// is a beat only when its bytes changed.
func (p producer) attend(r *rig, id string, d time.Duration) {
	r.t.Helper()
	var last, polled string
	var copied Beat
	r.run(d, func() {
		ran := r.at.Mono - r.tr.epoch.Mono
		if ran%p.every == 0 {
			b := beat(id, p.uptime(ran), func(b *Beat) { b.Task = []byte(p.task(ran)) })
			r.send(b)
			copied, last = b, fmt.Sprint(b.Uptime, string(b.Task))
		}
		if ran%(2*time.Second) == 0 && last != polled {
			copied.Source, polled = SourceRedis, last
			r.send(copied)
		}
	})
}

func constantly(n int64) func(time.Duration) int64 { return func(time.Duration) int64 { return n } }
func always(text string) func(time.Duration) string {
	return func(time.Duration) string { return text }
}
func truly(d time.Duration) int64     { return int64(d / time.Second) }
func counting(d time.Duration) string { return fmt.Sprintf("chunk %d/1000", d/(30*time.Second)) }
func drifting(rate float64) func(time.Duration) int64 {
	return func(d time.Duration) int64 { return int64(d.Seconds() * rate) }
}

// TestOddProducersAreNotAccused: who beats is at most quiet, and silent once it
// stops.
func TestOddProducersAreNotAccused(t *testing.T) {
	sequential(t)
	for name, c := range map[string]struct {
		p     producer
		quiet bool
	}{
		"as usual":                    {producer{truly, counting, 30 * time.Second}, false},
		"as usual, every second":      {producer{truly, counting, time.Second}, false},
		"the same bytes":              {producer{constantly(142), always("work"), 30 * time.Second}, true},
		"the same bytes, slow":        {producer{constantly(142), always("work"), 60 * time.Second}, true},
		"same uptime, other tasks":    {producer{constantly(142), counting, 30 * time.Second}, false},
		"uptime is 0":                 {producer{constantly(0), always("work"), 30 * time.Second}, false},
		"uptime is 0, other tasks":    {producer{constantly(0), counting, 30 * time.Second}, false},
		"uptime is 0, every second":   {producer{constantly(0), always("work"), time.Second}, false},
		"no uptime":                   {producer{constantly(-1), always("work"), 30 * time.Second}, true},
		"no uptime, other tasks":      {producer{constantly(-1), counting, 30 * time.Second}, false},
		"clock too fast":              {producer{drifting(1.2), counting, 30 * time.Second}, false},
		"clock too slow":              {producer{drifting(0.8), counting, 30 * time.Second}, false},
		"uptime in years":             {producer{constantly(1 << 40), counting, 30 * time.Second}, false},
		"uptime since the epoch":      {producer{func(d time.Duration) int64 { return 1_800_000_000 + truly(d) }, counting, 30 * time.Second}, false},
		"milliseconds by mistake":     {producer{func(d time.Duration) int64 { return d.Milliseconds() }, counting, 30 * time.Second}, false},
		"clock set forward by a year": {producer{func(d time.Duration) int64 { return truly(d) + 31e6*int64(d/(10*time.Minute)) }, counting, 30 * time.Second}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS, SourceRedis)
			for range 20 {
				c.p.attend(r, "p", time.Minute)
				d := r.detail("p")
				if d.Attention.Counted() || d.Verdict != Running && d.Verdict != Quiet {
					t.Fatalf("after %v it is %v: %s", d.Watched, d.Verdict, d.Why)
				}
			}
			d := r.detail("p")
			if (d.Verdict == Quiet) != c.quiet {
				t.Errorf("%v after 20 min: %s", d.Verdict, d.Why)
			}
			if d.LateBeats > 0 {
				t.Errorf("%d beats of its own were late", d.LateBeats)
			}
			r.run(5*time.Minute, nil)
			r.want("p", Silent)
		})
	}
}

// A publisher's uptime falls back when its wall clock is set: it lives all the
// same, and is told so before long.
func TestUptimeThatStepsBackCountsAgain(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	p := producer{func(d time.Duration) int64 { return 7200 + truly(d) }, counting, 30 * time.Second}
	p.attend(r, "p", 10*time.Minute)
	p.uptime = func(d time.Duration) int64 { return 3600 + truly(d) }
	p.attend(r, "p", 2*time.Minute)
	d := r.want("p", Running)
	if d.BeatAge > 31*time.Second || d.FirstSeen < 11*time.Minute {
		t.Errorf("last beat %v ago, first seen %v ago", d.BeatAge, d.FirstSeen)
	}
}

// A queue that is flushed late brings no life, whatever pace its uptimes have.
func TestFlushedQueueOfOldBeatsChangesNothing(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	p := producer{truly, counting, 10 * time.Second}
	p.attend(r, "p", 5*time.Minute)
	before := r.detail("p")
	for up := range int64(20) {
		r.send(beat("p", 60+10*up))
	}
	after := r.detail("p")
	if after.Task != before.Task || after.BeatAge != before.BeatAge || after.Cadence != before.Cadence {
		t.Errorf("%+v, before %+v", after.Row, before.Row)
	}
}

// Beats that were held up and come at once teach no cadence: their publisher
// would be silent between its next two.
func TestBeatsThatComeAtOnceTeachNoCadence(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("p", 0))
	r.run(5*time.Minute, nil)
	for up := range int64(10) {
		r.send(beat("p", 30+30*up))
	}
	if d := r.detail("p"); d.CadenceFrom == fromLearned {
		t.Errorf("a cadence of %v was learned", d.Cadence)
	}
}

func TestRestartIsSeenInItsFirstBeat(t *testing.T) {
	sequential(t)
	for name, c := range map[string]struct {
		gap  time.Duration
		ends string
		id   func(*Beat, int)
	}{
		"within a second, five fields": {time.Second, "", func(*Beat, int) {}},
		"after an error, five fields":  {time.Second, "error", func(*Beat, int) {}},
		"after an hour, five fields":   {time.Hour, "", func(*Beat, int) {}},
		"at once, boot id":             {0, "", func(b *Beat, n int) { b.BootID, b.Seq = fmt.Append(nil, n), b.Uptime }},
		"at once, generation":          {0, "", func(b *Beat, n int) { b.Generation = Generation(n) }},
		"at once, error, generation":   {0, "error", func(b *Beat, n int) { b.Generation = Generation(n) }},
		"within a second, all": {time.Second, "completed", func(b *Beat, n int) {
			b.Generation, b.BootID, b.Seq = Generation(n), fmt.Append(nil, n), 2*b.Uptime+int64(len(b.StateText)%7)
		}},
		"generation alone, uptime is 0":  {0, "completed", func(b *Beat, n int) { b.Generation, b.Uptime = Generation(n), 0 }},
		"generation alone, uptime is no": {0, "completed", func(b *Beat, n int) { b.Generation, b.Uptime = Generation(n), -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS)
			send := func(uptime int64, n int, state string) {
				r.send(beat("p", uptime, func(b *Beat) {
					b.StateText, b.Task = []byte(state), fmt.Appendf(nil, "run %d", n)
					c.id(b, n)
				}))
			}
			for n := 1; n <= 4; n++ {
				send(0, n, "running")
				d := r.want("p", Running)
				if d.Task != fmt.Sprint("run ", n) || d.Watched != 0 {
					t.Fatalf("run %d shows %q, watched for %v", n, d.Task, d.Watched)
				}
				for up := int64(10); up <= 60; up += 10 {
					r.run(10*time.Second, nil)
					send(up, n, "running")
				}
				if c.ends != "" {
					send(60, n, c.ends)
					if d := r.detail("p"); !d.Verdict.Ended() {
						t.Fatalf("run %d did not end: %v", n, d.Verdict)
					}
				}
				r.run(c.gap, nil)
			}
			if d := r.detail("p"); d.FirstSeen < 4*time.Minute {
				t.Errorf("first seen %v ago: every execution is one more session", d.FirstSeen)
			}
		})
	}
}

// An agent that fails within seconds and is started again at once, without ids,
// shows life once it stays up.
func TestFailingStartsWithoutIdsThenLife(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	for range 10 {
		r.send(beat("p", 0))
		r.run(2*time.Second, nil)
		r.send(beat("p", 2, func(b *Beat) { b.StateText = []byte("error") }))
		r.want("p", Failed)
		r.run(time.Second, nil)
	}
	r.send(beat("p", 0))
	r.run(30*time.Second, nil)
	r.send(beat("p", 30))
	r.want("p", Running)
}

// The copy of a first beat that a poll finds later is not one more execution.
func TestCopyOfAFirstBeatIsTheSameExecution(t *testing.T) {
	for _, poll := range []time.Duration{2 * time.Second, 20 * time.Second, 45 * time.Second} {
		r := newRig(t, Policy{}, SourceNATS, SourceRedis)
		r.send(beat("p", 0))
		r.run(poll, nil)
		r.send(beat("p", 0, func(b *Beat) { b.Source = SourceRedis }))
		if d := r.want("p", Running); d.Watched < poll || d.Sources != SourceNATS.Set()|SourceRedis.Set() {
			t.Errorf("poll after %v: watched for %v by %v", poll, d.Watched, d.Sources.Sources())
		}
	}
}

// Beats after an end that nothing tells apart from a new execution's are kept
// out, and that is said.
func TestBeatsAfterAnEndThatCannotBeTold(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("p", -1))
	r.send(beat("p", -1, func(b *Beat) { b.StateText = []byte("completed") }))
	r.run(time.Minute, nil)
	r.send(beat("p", -1))
	if d := r.want("p", Completed); d.LateBeats != 1 || !strings.Contains(d.Why, "could be a new run") {
		t.Errorf("%d late, %q", d.LateBeats, d.Why)
	}
}

// A supervisor beats, and then its child does so by itself, with the five fields
// and on NATS alone. What the supervisor told of its work, and its key, which
// nobody renews, accuse nobody.
func TestAPublisherThatTookOverIsNotContradicted(t *testing.T) {
	for name, boot := range map[string]string{"five fields": "", "a guard": "own"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS, SourceRedis)
			supervisor := func(src Source, seq int64, idle time.Duration) {
				r.send(beat("a", seq, func(b *Beat) {
					b.Source, b.BootID, b.Seq, b.Generation = src, []byte("sup"), seq, 1
					b.Interval, b.StallTimeout, b.Idle = 30*time.Second, time.Minute, idle
				}))
			}
			for seq, idle := range []time.Duration{0, -1} { // the second hands over
				supervisor(SourceNATS, int64(seq), idle)
				supervisor(SourceRedis, int64(seq), idle)
				r.run(time.Second, nil)
			}
			key, polls := r.at.Mono, 0
			for i := range int64(150) {
				r.send(beat("a", 2+2*i, func(b *Beat) {
					b.Task = fmt.Appendf(nil, "chunk %d", i)
					if boot != "" {
						b.BootID, b.Seq = []byte(boot), i
					}
				}))
				r.run(2*time.Second, nil)
				if r.at.Mono > key+time.Minute {
					polls++
					r.tr.Apply(KeyGone{Source: SourceRedis, ID: "a", LastSeen: key, Polls: polls, At: r.at.Mono})
				}
				r.want("a", Running)
			}
		})
	}
}

// A guard's own key is its own: that it went while its beats go on is disputed.
func TestTheKeyOfAGuardIsNotTakenOverByItself(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	send := func(src Source) {
		seq := int64(r.at.Mono / time.Second)
		r.send(beat("g", seq, func(b *Beat) {
			b.Source, b.BootID, b.Seq, b.Interval, b.Idle = src, []byte("boot"), seq, 5*time.Second, 0
		}))
	}
	for range 5 {
		send(SourceNATS)
		send(SourceRedis)
		r.run(5*time.Second, nil)
	}
	gone := r.at.Mono
	for polls := 1; polls <= 6; polls++ {
		send(SourceNATS)
		r.tr.Apply(KeyGone{Source: SourceRedis, ID: "g", LastSeen: gone - time.Second, Polls: polls, At: r.at.Mono})
		r.run(5*time.Second, nil)
	}
	r.want("g", Disputed)
}

// The same with a child that beats into Redis alone: that nobody speaks on NATS
// any more accuses nobody.
func TestAPublisherThatTookOverInRedisIsNotContradicted(t *testing.T) {
	for name, boot := range map[string]string{"five fields": "", "a guard": "own"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS, SourceRedis)
			for seq, idle := range []time.Duration{0, 0, -1} { // the last hands over
				for _, src := range []Source{SourceNATS, SourceRedis} {
					r.send(beat("a", int64(seq), func(b *Beat) {
						b.Source, b.BootID, b.Seq, b.Generation = src, []byte("sup"), int64(seq), 1
						b.Interval, b.StallTimeout, b.Idle = 2*time.Second, time.Minute, idle
					}))
				}
				r.run(time.Second, nil)
			}
			for i := range int64(150) {
				r.send(beat("a", 3+2*i, func(b *Beat) {
					b.Source, b.Task = SourceRedis, fmt.Appendf(nil, "chunk %d", i)
					if boot != "" {
						b.BootID, b.Seq = []byte(boot), i
					}
				}))
				r.run(2*time.Second, nil)
				r.want("a", Running)
			}
		})
	}
}

// A guard whose NATS connection is lost beats on into Redis: it is one publisher,
// and disputed.
func TestAGuardThatIsHalfHeardIsDisputed(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS, SourceRedis)
	send := func(src Source) {
		seq := int64(r.at.Mono / time.Second)
		r.send(beat("g", seq, func(b *Beat) {
			b.Source, b.BootID, b.Seq, b.Interval, b.Idle = src, []byte("boot"), seq, 5*time.Second, 0
		}))
	}
	for i := range 12 {
		if i < 5 {
			send(SourceNATS)
		}
		send(SourceRedis)
		r.run(5*time.Second, nil)
	}
	r.want("g", Disputed)
}
