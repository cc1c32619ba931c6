package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Dumps that a supervisor takes by itself are kept on the buses too, so that
// operators elsewhere find them: no more often than keptEvery of a session, and
// with no more waiting than keptWaiting. keptLeave is how long those of an end may
// take when we end as well.
const (
	keptEvery   = time.Minute
	keptWaiting = 16
	keptLeave   = 5 * time.Second
)

// dumpKeeping is a bus that keeps dumps which nobody asked for.
type dumpKeeping interface {
	KeepDump(ctx context.Context, d wire.Dump) error
	KeptDumps(ctx context.Context, id watchdog.ID, had func(wire.Dump) bool) ([]wire.Dump, error)
}

// takenDumps are the captures of a supervisor on their way to the buses.
type takenDumps struct {
	mu   sync.Mutex
	to   []chan process.Capture
	last map[watchdog.ID]time.Time // with a monotonic reading
	log  *slog.Logger
}

// take hands a capture on, unless somebody asked for it: then it goes to him. It
// never waits.
func (t *takenDumps) take(c process.Capture) {
	if c.Method == "" || c.Reason == process.CaptureAsked {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, before := t.last[c.ID]; before && time.Since(last) < keptEvery {
		t.log.Info("a dump stays on this machine: another of the session was sent just before", "session", c.ID, "dump", c.Kept)
		return
	}
	if t.last == nil {
		t.last = map[watchdog.ID]time.Time{}
	}
	t.last[c.ID] = time.Now()
	for _, to := range t.to {
		select {
		case to <- c:
		default:
			t.log.Warn("a dump stays on this machine: too many wait to be sent", "session", c.ID, "dump", c.Kept)
		}
	}
}

// carry sends what is taken to one bus until ctx ends, and then what its children
// leave, until over is closed.
func (t *takenDumps) carry(ctx context.Context, bus dumpKeeping, store *process.DumpStore, over <-chan struct{}) {
	mine := make(chan process.Capture, keptWaiting)
	t.mu.Lock()
	t.to = append(t.to, mine)
	t.mu.Unlock()
	keep := func(c process.Capture, within time.Duration) {
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		if err := bus.KeepDump(sending, store.OnWire(c)); err != nil {
			t.log.Warn("a dump stays on this machine", "session", c.ID, "dump", c.Kept, "reason", err)
		}
	}
	for ctx.Err() == nil {
		select {
		case c := <-mine:
			keep(c, dumpLeaves)
		case <-ctx.Done():
		}
	}
	<-over
	for limit := time.Now().Add(keptLeave); ; {
		select {
		case c := <-mine:
			keep(c, time.Until(limit))
		default:
			return
		}
	}
}

// gatheredAfter is how long what was read of the buses' dumps counts, and
// gatherWithin how long reading may take.
const (
	gatheredAfter = 30 * time.Second
	gatherWithin  = 2 * time.Second
)

// dumpGather brings the dumps that supervisors elsewhere took by themselves into
// the data directory, where dumps are listed from.
type dumpGather struct {
	ways  []*commandBus
	store *process.DumpStore
	keep  int // of a session
	log   *slog.Logger

	mu   sync.Mutex
	done map[watchdog.ID]time.Time
}

// gather reads what is new, of all sessions if id is empty. What cannot be read
// costs the listing nothing. A nil gather reads nothing.
func (g *dumpGather) gather(ctx context.Context, id watchdog.ID) {
	if g == nil || len(g.ways) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if done, before := g.done[id]; before && time.Since(done) < gatheredAfter {
		return
	}
	if g.done == nil {
		g.done = map[watchdog.ID]time.Time{}
	}
	g.done[id] = time.Now()
	ctx, cancel := context.WithTimeout(ctx, gatherWithin)
	defer cancel()
	had, err := g.store.Had(id)
	if err != nil {
		return // the listing tells
	}
	kept := make([][]wire.Dump, len(g.ways))
	var reading sync.WaitGroup
	for i, b := range g.ways {
		reading.Go(func() {
			var err error
			if kept[i], err = b.KeptDumps(ctx, id, had); err != nil {
				g.log.Info("the dumps of supervisors elsewhere were not read", "over", b.WayName(), "reason", err)
			}
		})
	}
	reading.Wait()
	type origin struct{ name, by string }
	came := map[origin]bool{}
	for _, list := range kept {
		for _, d := range list {
			o := origin{d.ID, d.By}
			if came[o] {
				continue // by another bus too
			}
			came[o] = true
			if _, err := g.store.Receive(d, keptAt(d.At, time.Now()), g.keep); err != nil {
				g.log.Warn("a dump of a supervisor elsewhere could not be kept", "session", d.Session, "error", err)
			}
		}
	}
}

// keptAt is when a dump was taken, as its supervisor says, unless that cannot be.
func keptAt(at, now time.Time) time.Time {
	if at.After(now) || now.Sub(at) > keptOldest {
		return now
	}
	return at
}

const keptOldest = 8 * 24 * time.Hour // no bus keeps one longer

// newDumpGather makes a gather; nil: there is no data directory.
func newDumpGather(settings *config.Config, ways []*commandBus, log *slog.Logger) *dumpGather {
	if settings.DataDir == "" {
		return nil
	}
	return &dumpGather{ways: ways, store: process.NewDumpStore(settings.DataDir), keep: settings.DefaultSession().Dump.Keep, log: log}
}

// gatherOnce brings in what a one-shot command may list.
func gatherOnce(ctx context.Context, settings *config.Config, id watchdog.ID) {
	log := slog.New(slog.DiscardHandler)
	ways := commandBuses(settings, orders.ProcessName("cli"), func() string { return "" }, nil, clock.System(), log, plainly)
	newDumpGather(settings, ways, log).gather(ctx, id)
	for _, b := range ways {
		b.close()
	}
}

// KeptDumps reads the dumps that nobody asked for.
func (b *commandBus) KeptDumps(ctx context.Context, id watchdog.ID, had func(wire.Dump) bool) ([]wire.Dump, error) {
	opened, err := b.open()
	if err != nil {
		return nil, err
	}
	return opened.KeptDumps(ctx, id, had)
}

// KeepDump keeps a dump that nobody asked for.
func (b *commandBus) KeepDump(ctx context.Context, d wire.Dump) error {
	opened, err := b.open()
	if err != nil {
		return err
	}
	return opened.KeepDump(ctx, d)
}
