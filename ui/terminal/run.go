package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Options says how a model is run.
type Options struct {
	// Capabilities, as Probe gave them. They choose the colours and whether
	// the width of the symbols is asked for.
	Capabilities Capabilities
	// Translate turns what happened to the terminal into a message of the
	// screen; nil messages are not sent. Nil: nobody wants to know.
	Translate func(Notice) tea.Msg
	// Started is called once, before the first frame, with a way to send
	// messages to the screen from outside. Sending blocks until the first frame
	// and while the program is busy, and does nothing after it has ended.
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
// The model is always shown on the alternate screen without a cursor, and its
// title is cleaned. It learns its colours and its size right after Init, so that
// the first frame is a whole one. tea.Suspend suspends; what the model gets after
// that is tea.ResumeMsg.
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
	t.painter = newPainter(t, o.Capabilities.Profile)
	defer t.painter.end()
	shown := &guarded{model: model, t: t}
	p := tea.NewProgram(shown, t.programOptions(o)...)
	defer t.hold(p)()
	if o.Started != nil {
		o.Started(p.Send)
	}
	w := &watcher{t: t, p: p, translate: o.Translate, done: make(chan struct{}), ended: make(chan struct{})}
	w.start(ctx)
	err := t.take()
	if err == nil {
		_, err = p.Run()
	}
	w.finish()
	t.out.Flush(flushLimit)

	result := Result{Model: shown.model, Signal: w.signal()}
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
// pieces of this package. Drawing is the painter's, raw mode and the size are
// the terminal's own; what is left to the clock of Bubble Tea's renderer are
// questions that nobody here asks.
//
// The context is not among them: a program that is cancelled does not wait for
// its reader, which then takes the next byte that anyone types.
func (t *Terminal) programOptions(o Options) []tea.ProgramOption {
	return []tea.ProgramOption{
		tea.WithInput(t.in),
		tea.WithOutput(t.out),
		tea.WithEnvironment(t.env),
		tea.WithoutSignalHandler(),
		tea.WithoutRenderer(),
		tea.WithFPS(1),
		tea.WithColorProfile(o.Capabilities.Profile),
		tea.WithFilter(t.messageFilter()),
	}
}

// messageFilter takes what is meant for the terminal out of the way of the
// model, and what the model knows from guarded.Init.
func (t *Terminal) messageFilter() func(tea.Model, tea.Msg) tea.Msg {
	colours, size := false, false // were said
	return func(_ tea.Model, msg tea.Msg) tea.Msg {
		switch m := msg.(type) {
		case posted:
			defer t.catch()
			m()
			return nil
		case tea.SuspendMsg:
			select {
			case t.restart <- struct{}{}:
			default:
			}
			return nil
		case tea.ColorProfileMsg:
			if !colours {
				colours = true
				return nil
			}
		case tea.WindowSizeMsg:
			if !size { // Bubble Tea's own, which knows none
				size = true
				return nil
			}
			// As it is now: two changes may come in either order.
			width, height := t.size()
			msg = tea.WindowSizeMsg{Width: width, Height: height}
		}
		if seq := sequenceOf(msg); seq != "" {
			_, _ = t.out.Write([]byte(seq))
			return nil
		}
		return msg
	}
}

// sequenceOf is what a message asks to be written to the terminal as it is;
// empty: nothing. Bubble Tea's own types for that are not exported.
func sequenceOf(msg tea.Msg) string {
	switch {
	case msg == tea.RequestBackgroundColor():
		return ansi.RequestBackgroundColor
	case reflect.TypeOf(msg) == reflect.TypeOf(tea.SetClipboard("")()):
		return ansi.SetSystemClipboard(reflect.ValueOf(msg).String())
	}
	if raw, ok := msg.(tea.RawMsg); ok {
		return fmt.Sprint(raw.Msg)
	}
	return ""
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
