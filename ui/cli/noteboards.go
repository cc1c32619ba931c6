package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// putWithin bounds a try to write a note on one board.
	putWithin = 5 * time.Second
	// boardsSettle is how long the boards may take to tell at first what stands on
	// them, until what is known counts.
	boardsSettle = 5 * time.Second
	// boardAgain is how long a board rests that cannot be read.
	boardAgain = 30 * time.Second
	// noteTries is how often a note is put over one that its author knows.
	noteTries = 3
)

// noteFile is where notes stand on a machine whose buses can keep none.
const noteFile = "alerts.db"

// place is one board, and what is special about it.
type place struct {
	name string
	watchdog.NoteBoard
	run  func()      // until shut; nil: it needs none
	shut func()      // nil: it needs none
	down func() bool // nobody answers there now; nil: it cannot be told
	// spare is a bus that only a default names: it may not be there at all.
	spare bool
}

// noteBoards are the boards of what is watched, as one. A note is written to the
// first that takes it: KV on NATS, Redis, and, where there is no bus to share it
// on, a file of this machine. What stands on any of them counts, the newest first:
// nothing is missed that a colleague wrote while a bus was away, or who sees one
// bus alone.
type noteBoards struct {
	places []*place
	shared bool // there is a bus that somebody configured
	log    *slog.Logger
	clock  watchdog.Clock

	mu   sync.Mutex
	seen map[watchdog.AlertKey]watchdog.AlertNote
	sets [][]watchdog.AlertNote // by place
	told []bool                 // by place
	late bool                   // who has not told is not waited for any more
	tell func([]watchdog.AlertNote, bool)
}

// newNoteBoards opens the boards that the configuration names; it waits for none.
// A demo keeps its notes in memory.
func newNoteBoards(settings *config.Config, demo bool, clock watchdog.Clock, log *slog.Logger) (*noteBoards, error) {
	b := &noteBoards{log: log, clock: clock, seen: map[watchdog.AlertKey]watchdog.AlertNote{}}
	if demo {
		b.add(&place{name: "memory", NoteBoard: watchdog.NewMemoryBoard(nil)})
		return b, nil
	}
	if n := settings.NATS; n.Address != config.None {
		board, err := natsbus.OpenBoard(natsOptions(settings), 0, clock, log)
		if err != nil {
			return nil, err
		}
		b.add(&place{name: "NATS", NoteBoard: board, spare: n.Origin == defaultOrigin, shut: board.Close,
			down: func() bool { return board.Link().Phase == watchdog.LinkDown },
			run: func() {
				if err := board.Run(context.Background()); err != nil {
					log.Error("the connection of the notes to NATS ended", "error", err)
				}
			}})
	}
	if r := settings.Redis; r.Address != config.None {
		conn, err := redisstore.OpenConn(redisOptions(settings), clock, log)
		if err != nil {
			b.shut()
			return nil, err
		}
		b.add(&place{name: "Redis", NoteBoard: conn.Board(), spare: r.Origin == defaultOrigin, shut: conn.Close})
	}
	if settings.DataDir != "" {
		board, err := filestore.OpenBoard(filepath.Join(settings.DataDir, noteFile), settings.ReadOnly, clock, log)
		if err != nil {
			b.shut()
			return nil, err
		}
		b.add(&place{name: "the file " + noteFile, NoteBoard: board})
	}
	return b, nil
}

func (b *noteBoards) add(p *place) {
	b.places = append(b.places, p)
	b.shared = b.shared || p.shut != nil && !p.spare
	b.sets, b.told = append(b.sets, nil), append(b.told, false)
}

func (b *noteBoards) shut() {
	for _, p := range b.places {
		if p.shut != nil {
			p.shut()
		}
	}
}

// Put writes a note where colleagues see it. Its error says why nobody does: a
// *watchdog.KeptHere if those on this machine do, because no bus keeps any.
func (b *noteBoards) Put(ctx context.Context, n watchdog.AlertNote) error {
	n = n.OnBoard()
	var wrong []error
	unable := true // all buses that are named keep no notes
	for _, p := range b.places {
		own := p.shut == nil && b.shared // a file of this machine is no place to share what is on a bus
		if own && !unable {
			continue
		}
		err := b.putOn(ctx, p, n)
		unable = unable && (p.spare || errors.Is(err, natsbus.ErrNoJetStream))
		var newer *watchdog.NewerNote
		switch {
		case err == nil && own:
			return &watchdog.KeptHere{Why: natsbus.ErrNoJetStream.Error()}
		case err == nil:
			for _, e := range wrong {
				b.log.Warn("a note was kept elsewhere than it should be", "on", p.name, "error", e)
			}
			return nil
		case errors.As(err, &newer), errors.Is(err, natsbus.ErrReadOnly), errors.Is(err, redisstore.ErrReadOnly), errors.Is(err, filestore.ErrReadOnly), ctx.Err() != nil:
			return err
		}
		wrong = append(wrong, fmt.Errorf("%s: %w", p.name, err))
	}
	if len(wrong) == 0 {
		return errors.New("there is no place to keep it; set data_dir")
	}
	return errors.Join(wrong...)
}

// putOn writes on one board. What its author answers is what was shown, so his
// note comes after that, whatever his clock says.
func (b *noteBoards) putOn(ctx context.Context, p *place, n watchdog.AlertNote) error {
	if p.spare && p.down != nil && p.down() {
		return errors.New("nobody answers there")
	}
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	for try := 1; ; try++ {
		err := p.Put(ctx, n)
		var newer *watchdog.NewerNote
		if try == noteTries || !errors.As(err, &newer) || !b.knows(newer.Stands) {
			return err
		}
		n.At = newer.Stands.At.Add(time.Millisecond)
	}
}

// knows reports whether a note was shown to the people here, or tells them
// nothing.
func (b *noteBoards) knows(n watchdog.AlertNote) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return n.Kind == watchdog.NoteClear || b.seen[n.Key] == n
}

// stands gives the note of an alert.
func (b *noteBoards) stands(key watchdog.AlertKey) (watchdog.AlertNote, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.seen[key]
	return n, ok
}

// run watches all boards until ctx ends, and tells what stands on them together:
// at first once all have told, or boardsSettle has passed, and then after each
// change. whole is false as long as some have not told.
func (b *noteBoards) run(ctx context.Context, spawn func(func()), tell func(notes []watchdog.AlertNote, whole bool)) {
	b.mu.Lock()
	b.tell = tell
	b.mu.Unlock()
	var running sync.WaitGroup
	goes := func(f func()) {
		running.Add(1)
		spawn(func() {
			defer running.Done()
			f()
		})
	}
	for i, p := range b.places {
		if p.run != nil {
			goes(p.run)
		}
		goes(func() { b.watch(ctx, i, p) })
	}
	late := time.NewTimer(boardsSettle)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
		b.settle()
		<-ctx.Done()
	}
	b.shut()
	running.Wait()
}

// watch follows one board.
func (b *noteBoards) watch(ctx context.Context, i int, p *place) {
	said := ""
	for ctx.Err() == nil {
		err := p.Watch(ctx, func(notes []watchdog.AlertNote) { b.take(i, notes) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended")
		}
		if text := err.Error(); text != said {
			said = text
			level := slog.LevelWarn
			if errors.Is(err, natsbus.ErrNoJetStream) {
				level = slog.LevelInfo
			}
			b.log.Log(ctx, level, "notes on alerts are not read there", "on", p.name, "reason", text)
		}
		b.skip(i)
		select {
		case <-ctx.Done():
		case <-time.After(boardAgain):
		}
	}
}

// take takes in what stands on one board.
func (b *noteBoards) take(i int, notes []watchdog.AlertNote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sets[i], b.told[i] = notes, true
	b.merge()
}

// skip waits for a board no longer.
func (b *noteBoards) skip(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.told[i] {
		b.told[i] = true
		b.merge()
	}
}

// settle lets count what is known.
func (b *noteBoards) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = true
	if slices.Contains(b.told, false) {
		b.merge()
	}
}

// merge tells what stands on all boards together. It is called under the lock,
// which keeps what is told in order.
func (b *noteBoards) merge() {
	all := watchdog.StandingNotes(slices.Concat(b.sets...), time.Unix(0, b.clock.Now().Wall))
	clear(b.seen)
	for _, n := range all {
		b.seen[n.Key] = n
	}
	b.tell(all, b.late || !slices.Contains(b.told, false))
}
