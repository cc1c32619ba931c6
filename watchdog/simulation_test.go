package watchdog

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var seeds = flag.Int("seeds", 200, "seeds of the simulation of sweepers; that of one observer takes a third as many")

// sequential is for a test that asks very much in one goroutine: the race
// detector would see nothing in it, ten times as slowly.
func sequential(t *testing.T) {
	t.Helper()
	if racing {
		t.Skip("it has one goroutine; it runs without the race detector")
	}
}

func observerSeeds() uint64 { return uint64(max(*seeds/3, 1)) }

// world is the truth that the tracker must not contradict: agents, links and
// clocks, moved by a seed.
type world struct {
	rng       *rand.Rand
	tr        *Tracker
	now       Instant
	wall      bool // wall clock jumps
	up        [2]bool
	trip      [2]time.Duration // last answered trip by the world's own books
	agent     []*simAgent
	late      []Beat        // delayed by the proxy, delivered later
	downSince time.Duration // both links are truly down; never
	accused   map[ID]Verdict
}

type simAgent struct {
	id       string
	gen      Generation
	boot     string
	seq      int64
	interval time.Duration
	alive    bool
	started  time.Duration
	nextBeat time.Duration
	declares bool
	zombie   time.Duration // beats once more then, long after its end; never

	// the books of the world, by delivered beats only
	ended    time.Duration // an end beat was delivered; never
	newest   int64         // highest seq delivered of the head
	lastBeat time.Duration
	unseen   time.Duration // sighted time since lastBeat
}

func newWorld(seed uint64, without guards, wall bool) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), wall: wall, up: [2]bool{true, true}, downSince: never}
	w.now = Instant{Mono: time.Second, Boot: time.Second, Wall: 1_800_000_000e9}
	w.tr = NewTracker(Policy{BrakeHold: 2 * time.Minute}, w.now)
	w.tr.without = without
	for s := range 2 {
		w.tr.Apply(SourceAdded{Source: Source(s), At: w.now.Mono})
	}
	for i := range 40 {
		a := &simAgent{id: fmt.Sprintf("agent-%02d", i), interval: time.Duration(1+w.rng.IntN(20)) * time.Second, declares: i%3 != 0}
		w.agent = append(w.agent, a)
		w.start(a)
	}
	return w
}

func (w *world) start(a *simAgent) {
	a.gen++
	a.boot = fmt.Sprintf("%s-%d", a.id, a.gen)
	a.seq, a.newest = 0, -1
	a.alive, a.ended, a.zombie = true, never, never
	a.started = w.now.Mono
	a.nextBeat = w.now.Mono + time.Duration(w.rng.Int64N(int64(a.interval)))
	if a.gen == 1 {
		a.lastBeat = never
	}
}

func (w *world) beat(a *simAgent, state string) Beat {
	a.seq++
	b := beat(a.id, int64((w.now.Mono-a.started)/time.Second), func(b *Beat) {
		b.StateText, b.BootID, b.Seq, b.Generation = []byte(state), []byte(a.boot), a.seq, a.gen
		if a.declares {
			b.Interval = a.interval
		}
		b.Task = nil
	})
	return b
}

// step lets one tick pass with whatever the seed brings.
func (w *world) step() {
	w.now.Mono += tickLength
	w.now.Boot += tickLength
	w.now.Wall += int64(tickLength)
	if w.rng.IntN(2000) == 0 {
		w.now.Boot += time.Hour
	}
	if w.wall && w.now.Mono%(17*time.Second) == 0 {
		w.now.Wall += int64(4*365*24*time.Hour) - int64(w.now.Mono%11)*int64(365*24*time.Hour)
	}
	if w.rng.IntN(1000) == 0 { // the network goes
		w.up = [2]bool{}
	}
	for s := range w.up {
		if w.rng.IntN(400) == 0 {
			w.up[s] = !w.up[s]
		}
		if w.up[s] && w.now.Mono%time.Second == 0 {
			w.trip[s] = w.now.Mono
			w.tr.Apply(RoundTrip{Source: Source(s), Sent: w.now.Mono, At: w.now.Mono})
		}
	}
	if w.rng.IntN(1500) == 0 { // a host dies
		for _, a := range w.agent[:12] {
			a.alive = false
		}
	}
	for _, a := range w.agent {
		w.live(a)
	}
	w.deliverLate()
	if w.up[0] || w.up[1] {
		w.downSince = never
	} else if w.downSince == never {
		w.downSince = w.now.Mono
	}
	w.tr.Advance(w.now)
	for _, a := range w.agent {
		if w.sighted() {
			a.unseen += tickLength
		}
	}
}

// sighted is the world's own idea of sight.
func (w *world) sighted() bool {
	return w.now.Mono-w.trip[0] < SightWindow || w.now.Mono-w.trip[1] < SightWindow
}

func (w *world) live(a *simAgent) {
	if !a.alive {
		if a.zombie != never && w.now.Mono >= a.zombie && w.up[SourceNATS] {
			a.zombie = never
			b := w.beat(a, "running")
			b.Received = w.now.Mono
			w.deliver(b)
		}
		if w.rng.IntN(1200) == 0 {
			w.start(a)
		}
		return
	}
	if w.rng.IntN(3000) == 0 {
		a.alive = false
		return
	}
	if w.now.Mono < a.nextBeat {
		return
	}
	a.nextBeat += a.interval
	state := "running"
	if w.rng.IntN(60) == 0 {
		state = "completed"
		a.alive = false
		a.zombie = w.now.Mono + 2*time.Minute
	}
	b := w.beat(a, state)
	for s := range w.up {
		switch copied := b; {
		case !w.up[s] || w.rng.IntN(10) == 0: // lost
		case w.rng.IntN(8) == 0: // delayed, so out of order
			copied.Source = Source(s)
			copied.Received = w.now.Mono + time.Duration(w.rng.Int64N(int64(30*time.Second)))
			w.late = append(w.late, copied)
		default:
			copied.Source, copied.Received = Source(s), w.now.Mono
			w.deliver(copied)
			if w.rng.IntN(10) == 0 {
				w.deliver(copied)
			}
		}
	}
}

func (w *world) deliverLate() {
	keep := w.late[:0]
	for _, b := range w.late {
		if b.Received > w.now.Mono {
			keep = append(keep, b)
		} else if w.up[b.Source] {
			b.Received = w.now.Mono
			w.deliver(b)
		}
	}
	w.late = keep
}

// deliver hands a beat to the tracker and keeps the books.
func (w *world) deliver(b Beat) {
	w.tr.ApplyBeats([]Beat{b})
	i := slices.IndexFunc(w.agent, func(a *simAgent) bool { return a.id == string(b.ID) })
	a := w.agent[i]
	if b.Generation != a.gen || b.Seq <= a.newest {
		return
	}
	if a.ended != never && b.State == StateRunning {
		return
	}
	a.newest = b.Seq
	a.lastBeat, a.unseen = w.now.Mono, 0
	if b.State == StateCompleted {
		a.ended = w.now.Mono
	}
}

// check gives the first invariant that does not hold now.
func (w *world) check() error {
	win := w.tr.Look(Ask{Height: -1, KeepEnded: true})
	sum := 0
	for _, n := range win.Fleet.ByVerdict {
		sum += n
	}
	if sum != win.Total || len(win.Rows) != win.Total {
		return fmt.Errorf("8: %d counted, %d rows, %d known", sum, len(win.Rows), win.Total)
	}
	for _, row := range win.Rows {
		if err := w.checkRow(row); err != nil {
			return err
		}
	}
	if err := checkTold(win.Events); err != nil {
		return err
	}
	return w.checkAccusations(win.Rows)
}

// checkTold: what became of a session is told in the order of its times; the
// newest comes first.
func checkTold(events []Transition) error {
	next := map[ID]*Transition{}
	for i := range events {
		e := &events[i]
		if e.Kind != "" {
			continue
		}
		if n := next[e.ID]; n != nil && n.At.Mono < e.At.Mono-tickLength {
			return fmt.Errorf("9: %s became %v at %v, which is told after that it became %v at %v", e.ID, n.To, n.At.Mono, e.To, e.At.Mono)
		}
		next[e.ID] = e
	}
	return nil
}

// checkAccusations: while every link is truly down, noticed or not, nobody is
// newly accused.
func (w *world) checkAccusations(rows []Row) error {
	before := w.accused
	w.accused = map[ID]Verdict{}
	for _, row := range rows {
		if row.Verdict != Silent && row.Verdict != Disputed {
			continue
		}
		w.accused[row.ID] = row.Verdict
		if began := w.now.Mono - row.For; w.downSince != never && began > w.downSince+tickLength && before[row.ID] != row.Verdict {
			return fmt.Errorf("1: %s became %v at %v (%s), the links are down since %v", row.ID, row.Verdict, began, row.Why, w.downSince)
		}
	}
	return nil
}

func (w *world) checkRow(row Row) error {
	i := slices.IndexFunc(w.agent, func(a *simAgent) bool { return ID(a.id) == row.ID })
	a := w.agent[i]
	n, _ := w.tr.store.find([]byte(row.ID))
	r := w.tr.store.at(n)
	if shown, _ := w.tr.shown(r); shown != row.Verdict {
		return fmt.Errorf("8: %s stored as %v, judged %v (%s)", a.id, shown, row.Verdict, row.Why)
	}
	if r.generation != a.gen {
		return nil // the new execution has not been heard yet
	}
	blind := w.now.Mono-w.trip[0] >= SightWindow+time.Second && w.now.Mono-w.trip[1] >= SightWindow+time.Second
	if blind && row.Verdict != Unknown && !row.Verdict.Ended() {
		return fmt.Errorf("1: blind, but %s is %v", a.id, row.Verdict)
	}
	if a.ended != never && row.Verdict != Completed {
		return fmt.Errorf("3: %s ended at %v, but is %v", a.id, a.ended, row.Verdict)
	}
	if sd := w.tr.store.sideOf(r); sd != nil && sd.seq < a.newest {
		return fmt.Errorf("4: %s is at seq %d, %d was delivered", a.id, sd.seq, a.newest)
	}
	if row.Verdict == Silent {
		least := silentAfter(a.interval, 2)
		if !a.declares {
			least = min(least, silentAfter(30*time.Second, 2))
		}
		if a.unseen < least-SightWindow-2*tickLength && a.unseen < least {
			return fmt.Errorf("2: %s is silent after %v of sighted time, least %v", a.id, a.unseen, least)
		}
	}
	return w.checkHeld(a, r, n)
}

// checkHeld: whoever went silent with enough others is in a group.
func (w *world) checkHeld(a *simAgent, r *record, n uint32) error {
	if r.verdict != Silent {
		return nil
	}
	near := 0
	for _, other := range w.agent {
		m, ok := w.tr.store.find([]byte(other.id))
		if !ok {
			continue
		}
		o := w.tr.store.at(m)
		if d := w.tr.mono(o.since) - w.tr.mono(r.since); o.verdict == Silent && d <= 0 && d > -GroupWindow/2 {
			near++
		}
	}
	if near < GroupMin {
		return nil
	}
	if w.tr.brake.byRec[n] == nil {
		return fmt.Errorf("6: %s is silent with %d others and not held", a.id, near-1)
	}
	return nil
}

// simulate runs one seed and gives the first broken invariant.
func simulate(seed uint64, without guards, wall bool) (verdicts string, err error) {
	w := newWorld(seed, without, wall)
	for i := range 6000 {
		w.step()
		if i%7 == 0 {
			if err := w.check(); err != nil {
				return "", fmt.Errorf("seed %d, step %d, +%v: invariant %w", seed, i, w.now.Mono, err)
			}
		}
	}
	win := w.tr.Look(Ask{Height: -1, KeepEnded: true})
	for _, row := range win.Rows {
		verdicts += fmt.Sprintf("%s %v %v %v\n", row.ID, row.Verdict, row.For, row.BeatAge)
	}
	return verdicts, nil
}

// fault 4, 7, 16
func TestSimulation(t *testing.T) {
	sequential(t)
	for seed := range observerSeeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			plain, err := simulate(seed, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			if seed%10 != 0 {
				return
			}
			jumping, err := simulate(seed, 0, true)
			if err != nil {
				t.Fatal(err)
			}
			if jumping != plain {
				t.Errorf("invariant 5: the wall clock changed a verdict:\n%s\nnot\n%s", jumping, plain)
			}
		})
	}
}

// TestSimulationMissesEachGuard takes the guards out one by one: some seed must
// notice, or the simulation proves nothing.
func TestSimulationMissesEachGuard(t *testing.T) {
	sequential(t)
	for name, g := range map[string]guards{
		"execution": guardExecution, "order": guardOrder, "sight": guardSight, "brake": guardBrake, "reopen": guardReopen, "proof": guardProof, "told": guardTold,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range observerSeeds() {
				if _, err := simulate(seed, g, false); err != nil {
					t.Log("noticed: ", err)
					return
				}
			}
			t.Errorf("no seed notices that the guard %q is missing", name)
		})
	}
}
