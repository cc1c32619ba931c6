package watchdog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// bubbleClock is a clock inside a synctest bubble: all three run alike.
type bubbleClock struct{ began time.Time }

func (c bubbleClock) Now() Instant {
	d := time.Since(c.began)
	return Instant{Mono: d, Boot: d, Wall: time.Now().UnixNano()}
}

func runEngine(t *testing.T, cfg EngineConfig) *Engine {
	t.Helper()
	if cfg.Clock == nil && cfg.Start == (Instant{}) {
		cfg.Clock = bubbleClock{time.Now()}
	}
	e := NewEngine(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return e
}

func TestEngineShowsASilenceByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := runEngine(t, EngineConfig{})
		now := func() time.Duration { return e.clock.Now().Mono }
		trips := time.NewTicker(time.Second)
		defer trips.Stop()
		e.Ask(Ask{Height: 10, Seq: 7})
		e.Post(RoundTrip{Source: SourceNATS, Sent: now(), At: now()})
		e.Beats([]Beat{beat("a", 1)})
		deadline := time.After(80 * time.Second)
		for {
			select {
			case <-trips.C:
				e.Post(RoundTrip{Source: SourceNATS, Sent: now(), At: now()})
			case w := <-e.Windows():
				if w.AskSeq == 7 && w.Fleet.ByVerdict[Silent] == 1 {
					if at := w.Now.Mono; at < 72*time.Second || at > 73*time.Second {
						t.Errorf("silent at %v", at)
					}
					return
				}
			case <-deadline:
				t.Fatal("the silence was never shown")
			}
		}
	})
}

func TestEngineLookSeesEverythingPutInBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := runEngine(t, EngineConfig{})
		for i := range 500 {
			e.Beats([]Beat{beat(fmt.Sprintf("s%d", i), 1)})
			e.Post(RoundTrip{Source: SourceNATS})
		}
		w, err := e.Look(t.Context(), Ask{Height: -1})
		if err != nil || len(w.Rows) != 500 {
			t.Fatalf("%d rows, %v", len(w.Rows), err)
		}
	})
}

func TestEngineWithoutAReaderNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := runEngine(t, EngineConfig{})
		for i := range 2000 {
			e.Ask(Ask{Seq: uint64(i), Height: 5})
			e.Beats([]Beat{beat("a", int64(i))})
			time.Sleep(50 * time.Millisecond)
		}
		w := <-e.Windows()
		if w.AskSeq < 1990 {
			t.Errorf("an old window %d was kept over newer ones", w.AskSeq)
		}
	})
}

// A beat that tells nothing new is seen by its age: it is shown at once if that
// age had grown, whatever the rhythm of the screen.
func TestEngineShowsABeatThatWasAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := runEngine(t, EngineConfig{})
		e.Ask(Ask{Height: 10})
		received := func(b *Beat) { b.Received = e.clock.Now().Mono }
		start := time.Now()
		e.Beats([]Beat{beat("a", 0, received)})
		for wait := 7*time.Second + 30*time.Millisecond; wait < 40*time.Second; wait += 7*time.Second + 170*time.Millisecond {
			for end := time.After(time.Until(start.Add(wait))); end != nil; {
				select {
				case <-e.Windows():
				case <-end:
					end = nil
				}
			}
			e.Beats([]Beat{beat("a", int64(wait/time.Second), received)})
			at := time.Now()
			for {
				if r := rowOf(<-e.Windows(), "a"); r != nil && r.BeatAge < time.Second {
					break
				}
			}
			if late := time.Since(at); late > 3*tickLength {
				t.Errorf("after %v: shown after %v", wait, late)
			}
		}
	})
}

// A beat that tells nothing new is an age that moved, and is shown with the
// others once a second; what somebody could act on is there within a tick or two.
func TestEngineAnswersWhenSomethingWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := runEngine(t, EngineConfig{})
		e.Ask(Ask{Height: 10})
		began := time.Now()
		answers := 0
		received := func(b *Beat) { b.Received = e.clock.Now().Mono }
		count := func(d time.Duration) int {
			before := answers
			for end := time.After(d); ; {
				select {
				case <-e.Windows():
					answers++
				case <-time.After(20 * time.Millisecond):
					for _, id := range []string{"a", "b", "c"} {
						e.Beats([]Beat{beat(id, int64(time.Since(began)/time.Second), received)})
					}
				case <-end:
					return answers - before
				}
			}
		}
		count(5 * time.Second) // who is new is told at once
		if n := count(20 * time.Second); n < 18 || n > 21 {
			t.Errorf("%d answers in 20 s in which nothing was told", n)
		}
		for name, tell := range map[string]func(*Beat){
			"task":    func(b *Beat) { b.Task = []byte("another") },
			"credits": func(b *Beat) { b.Credits = 3 },
			"state":   func(b *Beat) { b.StateText = []byte("stalled") },
		} {
			count(300 * time.Millisecond)
			told := beat("b", 100, tell, received)
			e.Beats([]Beat{told})
			at := time.Now()
			for {
				w := <-e.Windows()
				if r := rowOf(w, "b"); r != nil && (r.Task == string(told.Task) && (r.Credits == told.Credits || !told.HasCredits()) && (told.State == StateRunning || r.Verdict != Running)) {
					break
				}
			}
			if late := time.Since(at); late > 2*tickLength {
				t.Errorf("a new %s is shown after %v", name, late)
			}
		}
	})
}

func rowOf(w Window, id ID) *Row {
	for i := range w.Rows {
		if w.Rows[i].ID == id {
			return &w.Rows[i]
		}
	}
	return nil
}

// TestInboxMergesThenCounts: an overfull queue first merges what says the same,
// and only then loses beats, which makes their source blind.
// panicking is a tap that cannot stand beats.
type panicking struct{}

func (panicking) Beats([]Beat) { panic("in the tap") }
func (panicking) Event(Event)  {}

// A panic must reach whoever ends the process for it, while the lens and the
// context live on.
func TestEnginePanicsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := NewEngine(EngineConfig{Clock: bubbleClock{time.Now()}, Tap: panicking{}})
		caught := make(chan any, 1)
		go func() {
			defer func() { caught <- recover() }()
			_ = e.Run(ctx)
		}()
		e.Beats([]Beat{beat("a", 1)})
		select {
		case r := <-caught:
			if r != "in the tap" {
				t.Errorf("recovered %v", r)
			}
		case <-time.After(time.Minute):
			t.Fatal("the panic does not leave Run")
		}
		if _, err := e.Look(ctx, Ask{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a look at what is left gives %v", err)
		}
	})
}

// fault 15
func TestInboxMergesThenCounts(t *testing.T) {
	sequential(t)
	in := inbox{wake: make(chan struct{}, 1)}
	same := make([]Beat, 0, 1000)
	for i := range 1000 {
		same = append(same, beat(fmt.Sprintf("s%03d", i), 5))
	}
	for range 4 * maxQueued / 1000 {
		in.beats(same)
	}
	coalesced, dropped := in.losses()
	if coalesced == 0 || dropped[SourceNATS] != 0 {
		t.Errorf("coalesced %d, dropped %v", coalesced, dropped)
	}
	last := map[string]bool{}
	for _, it := range in.take(nil) {
		for _, b := range it.beats {
			last[string(b.ID)] = true
		}
	}
	if len(last) != 1000 {
		t.Errorf("%d sessions left of 1000", len(last))
	}

	for i := range maxQueued + 300 {
		in.beats([]Beat{beat("x", int64(i), func(b *Beat) { b.Task = fmt.Appendf(nil, "step %d", i) })})
	}
	if _, dropped := in.losses(); dropped[SourceNATS] != 300 {
		t.Errorf("dropped %v, want 300", dropped)
	}
}

// fault 15
func TestDroppedBeatsMakeUnknownNeverStalled(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("a", 10))
	r.run(65*time.Second, nil)
	r.tr.Apply(Dropped{Source: SourceNATS, Count: 5, At: r.at.Mono})
	r.run(20*time.Second, nil)
	r.want("a", Unknown)
	w := r.tr.Look(Ask{})
	if w.Self.Drops != 5 || w.Links[0].Reason != "we lost messages" {
		t.Errorf("%+v %+v", w.Self, w.Links)
	}
	r.run(30*time.Second, nil)
	r.want("a", Running) // the grace after it
}

// fault 6
func TestOwnLatenessStretchesDeadlinesAndAccusesNobody(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.send(beat("a", 10))
	r.run(30*time.Second, nil)
	// Stopped for a minute, then continued.
	r.at.Mono += time.Minute
	r.at.Boot += time.Minute
	r.tr.Apply(Ticked{Now: r.at, Late: time.Minute - tickLength})
	r.trip(SourceNATS)
	r.run(30*time.Second, nil)
	r.want("a", Running)
	if w := r.tr.Look(Ask{}); w.Self.Score > 1 {
		t.Errorf("score %d", w.Self.Score)
	}
	// Starved: every tick is late.
	for range 10 {
		r.at.Mono += time.Second
		r.at.Boot += time.Second
		r.tr.Apply(Ticked{Now: r.at, Late: time.Second - tickLength})
	}
	if w := r.tr.Look(Ask{}); w.Self.Score != MaxHealthScore {
		t.Errorf("score %d when starved", w.Self.Score)
	}
	r.run(100*time.Second, nil)
	if w := r.tr.Look(Ask{}); w.Self.Score != 0 {
		t.Errorf("score %d after 100 s on time", w.Self.Score)
	}
}

// TestStoreAgainstAMap: sessions come and go, and the store agrees with a map.
func TestStoreAgainstAMap(t *testing.T) {
	sequential(t)
	rng := rand.New(rand.NewPCG(1, 2))
	s := newStore()
	want := map[string]uint32{}
	for i := range 200_000 {
		id := fmt.Sprintf("id-%d", rng.IntN(3000))
		n, ok := s.find([]byte(id))
		if m, known := want[id]; known != ok || ok && m != n {
			t.Fatalf("step %d: %s is %d %v, want %d %v", i, id, n, ok, m, known)
		}
		switch {
		case !ok:
			want[id] = s.add([]byte(id))
		case rng.IntN(2) == 0:
			s.remove(n)
			delete(want, id)
		default:
			task := make([]byte, rng.IntN(1100))
			for k := range task {
				task[k] = byte('a' + rng.IntN(26))
			}
			r := s.at(n)
			r.task = s.text.put(r.task, task)
			if got := s.text.get(r.task); string(got) != string(task[:min(len(task), 1085)]) {
				t.Fatalf("task of %d bytes came back as %d", len(task), len(got))
			}
		}
		if s.count != len(want) {
			t.Fatalf("count %d, want %d", s.count, len(want))
		}
	}
	for id, n := range want {
		if string(s.idOf(s.at(n))) != id {
			t.Fatalf("%s is stored as %s", id, s.idOf(s.at(n)))
		}
	}
}

// TestLensOrderWhileSessionsComeAndGo: a lens that is kept agrees with a new one.
func TestLensOrderWhileSessionsComeAndGo(t *testing.T) {
	sequential(t)
	rng := rand.New(rand.NewPCG(3, 4))
	r := newRig(t, Policy{MaxSessions: 300}, SourceNATS)
	kept := lens{t: r.tr}
	for i := range 400 {
		for range rng.IntN(20) {
			state := "running"
			if rng.IntN(3) == 0 {
				state = "completed"
			}
			r.send(beat(fmt.Sprintf("s%d", rng.IntN(2000)), int64(i), func(b *Beat) { b.StateText = []byte(state) }))
		}
		r.run(20*time.Second, nil)
		a := Ask{Height: -1, KeepEnded: true}
		old, fresh := kept.look(&a), r.tr.Look(a)
		if len(old.Rows) != len(fresh.Rows) || old.Total != fresh.Total {
			t.Fatalf("step %d: %d rows, a new lens has %d", i, len(old.Rows), len(fresh.Rows))
		}
		for k := range old.Rows {
			if old.Rows[k].ID != fresh.Rows[k].ID {
				t.Fatalf("step %d row %d: %s, a new lens has %s", i, k, old.Rows[k].ID, fresh.Rows[k].ID)
			}
		}
	}
}

func TestProgressOf(t *testing.T) {
	for task, want := range map[string][2]uint32{
		"Processing chunk 47/200":     {47, 200},
		"chunk 47/200 of file 3/9":    {3, 9},
		"47/200":                      {47, 200},
		"chunk 47/200.":               {47, 200},
		"(5/10)":                      {5, 10},
		"see /var/10/20":              {},
		"date 2026/11/30":             {},
		"a/b":                         {},
		"200/47":                      {},
		"5/0":                         {},
		"":                            {},
		"/":                           {},
		"1/":                          {},
		"99999999999/999999999999":    {},
		"tests 12/40, retry 2/1":      {12, 40},
		"http://10.0.0.1/12 step 3/4": {3, 4},
	} {
		done, of, ok := progressOf([]byte(task))
		if ok != (want[1] != 0) || ok && (done != want[0] || of != want[1]) {
			t.Errorf("%q: %d/%d %v, want %v", task, done, of, ok, want)
		}
	}
}

func TestExtension(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		spells []Spell
		since  time.Duration
		want   time.Duration
	}{
		{"nothing", nil, 0, 0},
		{"one spell and one grace", []Spell{{10 * s, 20 * s}}, 0, 40 * s},
		{"before since", []Spell{{10 * s, 20 * s}}, 20 * s, 0},
		{"since inside", []Spell{{10 * s, 20 * s}}, 15 * s, 35 * s},
		{"two within one grace share it", []Spell{{10 * s, 20 * s}, {40 * s, 45 * s}}, 0, 45 * s},
		{"two far apart do not", []Spell{{10 * s, 20 * s}, {60 * s, 65 * s}}, 0, 75 * s},
		{"three graces at most", []Spell{{10 * s, 20 * s}, {60 * s, 65 * s}, {100 * s, 105 * s}, {140 * s, 145 * s}, {180 * s, 185 * s}}, 0, 120 * s},
		{"one that begins after the deadline moves nothing", []Spell{{80 * s, 90 * s}}, 0, 0},
		{"nor one after the moved deadline", []Spell{{10 * s, 20 * s}, {150 * s, 160 * s}}, 0, 40 * s},
		{"a suspend has no length", []Spell{{10 * s, 10 * s}}, 0, 30 * s},
	} {
		var b Blindness
		for _, sp := range c.spells {
			b.Add(sp.From, sp.To)
		}
		if got := b.Extension(c.since, 72*s, 30*s); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	var b Blindness
	b.Begin(10 * s)
	if got, clock := b.Extension(0, 72*s, 30*s), b.Clock(25*s); got != 0 || clock != 10*s {
		t.Errorf("an open spell moved a deadline by %v; the clock stands at %v", got, clock)
	}
	b.End(30 * s)
	if got, clock := b.Extension(0, 72*s, 30*s), b.Clock(35*s); got != 50*s || clock != 35*s {
		t.Errorf("a spell that is over moved a deadline by %v; the clock stands at %v", got, clock)
	}
}
