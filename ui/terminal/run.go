package terminal

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
)

// FramesPerSecond is how often the screen is redrawn at most. At twice that an
// idle screen costs more than one per cent of a core.
const FramesPerSecond = 30

// Options says how a model is run.
type Options struct {
	// Capabilities, as Probe gave them. They choose the colours and whether
	// the width of the symbols is asked for.
	Capabilities Capabilities
	// Translate turns what happened to the terminal into a message of the
	// screen; nil messages are not sent. Nil: nobody wants to know.
	Translate func(Notice) tea.Msg
	// Started is called once, before the first frame, with a way to send
	// messages to the screen from outside. Sending blocks while the program
	// is busy, and does nothing after it has ended.
	Started func(send func(tea.Msg))
}

// Result is how a run ended.
type Result struct {
	Model  tea.Model // as it was last
	Signal os.Signal // that ended it; nil: the screen itself
}

// Notice is something that happened to the terminal. The set is closed.
type Notice interface{ notice() }

type (
	// Stalled says that the terminal takes nothing; it comes once a second
	// while that lasts.
	Stalled struct{ For time.Duration }
	// Drained says that a stalled terminal takes frames again, and how many
	// were dropped since the start.
	Drained struct{ Dropped uint64 }
	// Resumed says that the program was stopped and goes on.
	Resumed struct{ After time.Duration }
	// SuspendRefused says why ctrl+z did nothing.
	SuspendRefused struct{ Reason string }
	// Glyphs tells how wide the terminal draws the symbols.
	Glyphs struct{ Wide bool }
)

func (Stalled) notice()        {}
func (Drained) notice()        {}
func (Resumed) notice()        {}
func (SuspendRefused) notice() {}
func (Glyphs) notice()         {}

// ErrRunning says that a terminal runs one model at a time.
var ErrRunning = errors.New("the terminal already runs a screen")

// Run shows a model until it quits, ctx ends, or a signal asks for the end.
// The terminal is given back before Run returns, whatever happened; a panic in
// the model or one of its commands ends the process (see Guard).
//
// The model is always shown on the alternate screen, and its title is cleaned.
// tea.Suspend suspends; what the model gets after that is tea.ResumeMsg.
func (t *Terminal) Run(ctx context.Context, model tea.Model, o Options) (Result, error) {
	if !t.running.CompareAndSwap(false, true) {
		return Result{}, ErrRunning
	}
	defer t.running.Store(false)
	defer t.Restore()
	defer t.catch()

	if o.Capabilities.AskGlyphs {
		t.askGlyphs()
	}
	t.take()
	p := tea.NewProgram(guarded{model, t}, t.programOptions(o)...)
	if o.Started != nil {
		o.Started(p.Send)
	}
	w := &watcher{t: t, p: p, translate: o.Translate, done: make(chan struct{}), ended: make(chan struct{})}
	w.start(ctx)
	final, err := p.Run()
	w.finish()
	t.out.Flush(flushLimit)

	result := Result{Signal: w.signal()}
	if g, ok := final.(guarded); ok {
		result.Model = g.model
	}
	switch {
	case errors.Is(err, tea.ErrProgramPanic): // one that escaped Guard
		t.Restore()
		t.exit(ExitFault)
	case result.Signal != nil || ctx.Err() != nil:
		err = ctx.Err()
	}
	return result, err
}

// programOptions assembles the program in the only way that is right for the
// pieces of this package.
//
// The context is not among them: a program that is cancelled does not wait for
// its reader, which then takes the next byte that anyone types.
func (t *Terminal) programOptions(o Options) []tea.ProgramOption {
	return []tea.ProgramOption{
		tea.WithInput(t.in),
		tea.WithOutput(t.out),
		tea.WithEnvironment(t.env),
		tea.WithoutSignalHandler(),
		tea.WithFPS(FramesPerSecond),
		tea.WithColorProfile(o.Capabilities.Profile),
		tea.WithFilter(func(_ tea.Model, msg tea.Msg) tea.Msg {
			if _, ok := msg.(tea.SuspendMsg); ok {
				select {
				case t.restart <- struct{}{}:
				default:
				}
				return nil
			}
			return msg
		}),
	}
}

// Repaint draws the whole screen anew: for ctrl+l, after something else has
// written on it.
func Repaint() tea.Msg { return tea.ClearScreen() }

// lastSignal remembers what ended a run.
type lastSignal struct{ v atomic.Value }

func (l *lastSignal) set(s os.Signal) bool { return l.v.CompareAndSwap(nil, s) }

func (l *lastSignal) get() os.Signal {
	s, _ := l.v.Load().(os.Signal)
	return s
}
