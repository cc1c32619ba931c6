package cli

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// replayFeed plays a recording to an engine of its own. Going back makes a new
// engine, whose windows come out of the same channel.
type replayFeed struct {
	path    string
	spawn   func(func())
	ctx     func() context.Context // ends with Close
	cancel  context.CancelFunc
	player  *recording.Player
	windows chan watchdog.Window
	running sync.WaitGroup
	once    sync.Once
	length  atomic.Int64 // nanoseconds; 0 not known yet

	mu     sync.Mutex
	ask    watchdog.Ask
	engine *watchdog.Engine
	reader *recording.Reader
	end    context.CancelFunc // of engine
}

// openReplay opens a recording and begins to play it. Goroutines are started
// by spawn.
func openReplay(path string, speed float64, spawn func(func())) (*replayFeed, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &replayFeed{
		path: path, spawn: spawn, cancel: cancel, windows: make(chan watchdog.Window, 1),
		ctx: func() context.Context { return ctx },
	}
	reader, engine, err := f.rewind(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	f.player = recording.NewPlayer(reader, engine, recording.PlayerOptions{Speed: speed, Rewind: f.rewind, AtEnd: f.askAgain})
	f.goes(func() { f.measure(ctx) })
	f.goes(func() {
		// A recording that cannot be read on stays where it is; the reason
		// stands in the player's progress.
		_ = f.player.Run(ctx)
	})
	return f, nil
}

// measure finds out how long the recording is: it is read to its end once more.
func (f *replayFeed) measure(ctx context.Context) {
	r, err := openRecording(f.path)
	if err != nil {
		return // the player tells it
	}
	defer r.Close()
	if length, err := recording.Length(r, ctx.Done()); err == nil {
		f.length.Store(int64(length))
	}
}

// goes runs f and lets Close wait for it.
func (f *replayFeed) goes(run func()) {
	f.running.Add(1)
	f.spawn(func() {
		defer f.running.Done()
		run()
	})
}

// rewind replaces engine and reader by fresh ones that stand at the beginning.
func (f *replayFeed) rewind(context.Context) (*recording.Reader, recording.Engine, error) {
	reader, err := openRecording(f.path)
	if err != nil {
		return nil, nil, err
	}
	engine := watchdog.NewEngine(reader.Header().EngineConfig())
	ctx, end := context.WithCancel(f.ctx())
	f.mu.Lock()
	before, endBefore := f.reader, f.end
	f.engine, f.reader, f.end = engine, reader, end
	engine.Ask(f.ask)
	f.mu.Unlock()
	if before != nil {
		endBefore()
		err = before.Close()
	}
	f.goes(func() { _ = engine.Run(ctx) })
	f.goes(func() { f.forward(engine) })
	return reader, engine, err
}

// forward passes the windows of one engine on, as long as it is the present one.
func (f *replayFeed) forward(engine *watchdog.Engine) {
	for w := range engine.Windows() {
		f.mu.Lock()
		if engine == f.engine {
			select {
			case <-f.windows:
			default:
			}
			f.windows <- w // the slot is free: only the holder of mu sends
		}
		f.mu.Unlock()
	}
}

// Ask replaces the wanted window.
func (f *replayFeed) Ask(a watchdog.Ask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ask = a
	f.engine.Ask(a)
}

// askAgain brings a window though no time passes any more: the screen shall see
// that the recording is at its end.
func (f *replayFeed) askAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.engine.Ask(f.ask)
}

// Windows gives the newest answer.
func (f *replayFeed) Windows() <-chan watchdog.Window { return f.windows }

// Retry does nothing: a recording has no sources.
func (f *replayFeed) Retry() {}

// Children is nil: nobody runs in a recording.
func (f *replayFeed) Children() ui.Children { return nil }

// Do refuses: nobody runs in a recording.
func (f *replayFeed) Do(context.Context, watchdog.Command) (watchdog.Action, error) {
	return watchdog.Action{}, errors.New("this is a recording: nothing in it can be acted on")
}

// Note refuses: nobody answers what is past.
func (f *replayFeed) Note(context.Context, watchdog.AlertNote) error {
	return errors.New("this is a recording: nothing in it can be acknowledged")
}

// Release refuses: what a recording holds is past.
func (f *replayFeed) Release(context.Context, string) (int, error) {
	return 0, errors.New("this is a recording: nothing in it can be released")
}

// About says what is played.
func (f *replayFeed) About() ui.About {
	name := nightName
	if f.path != "" {
		name = filepath.Base(f.path)
	}
	return ui.About{Name: name, ReadOnly: true, Replay: f.player, Length: time.Duration(f.length.Load()), Trial: replayTrial{f.path}, Shift: shift{look: f.look}}
}

// look gives one window of what was played so far.
func (f *replayFeed) look(ctx context.Context, ask watchdog.Ask) (watchdog.Window, error) {
	f.mu.Lock()
	engine := f.engine
	f.mu.Unlock()
	return engine.Look(ctx, ask)
}

// Close ends the playing.
func (f *replayFeed) Close() {
	f.once.Do(func() {
		f.cancel()
		f.running.Wait()
		close(f.windows)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.end()
		_ = f.reader.Close() // nothing was written
	})
}
