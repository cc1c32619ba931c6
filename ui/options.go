package ui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options is what the wiring gives to a screen. Title is called from a command,
// never from Update or View, so it may block.
type Options struct {
	// Host opens feeds; nil: only Feed is shown.
	Host Host
	// Feed is shown at once; nil: the first-run page, or Open.
	Feed Feed
	// Dumps are shown alone, with no sessions behind them: the first one, compared
	// with the second, an older one, if there is one. None: sessions are shown.
	Dumps []DumpEntry
	// ReadDump reads the text of one of Dumps, by its name. It runs off the screen's
	// goroutine.
	ReadDump func(ctx context.Context, name string) ([]byte, error)
	// Open is opened at start, off the screen's goroutine; nil nothing.
	Open *Target

	Theme Theme
	// Light is a guess at the background for ThemeAuto, until the terminal
	// has answered.
	Light  bool
	ASCII  bool
	NoAlt  bool // draw into the main screen
	Mouse  bool
	KeyMap KeyMap // nil: DefaultKeyMap
	// Columns are the columns that are shown, as Columns knows them; none: the
	// width says.
	Columns []string

	// Copy is the command that puts text into the clipboard; done makes the
	// message of its outcome. Nil: OSC 52 alone.
	Copy func(text string, done func(error) tea.Msg) tea.Cmd
	// Edit gives the command that opens an editor at a line (0: anywhere) of a
	// file that a stack dump names, or says why that cannot be done. It runs off
	// the screen's goroutine. Nil: there is no editor.
	Edit func(path string, line int) (tea.Cmd, error)
	// Export writes to a file that must not exist yet, and says where it stands.
	// It runs off the screen's goroutine. Nil: nothing can be written.
	Export func(Export) (path string, err error)
	// Hints remembers which keys were pointed out; nil: none is.
	Hints HintMemory
	// Title sets the terminal's title; nil: Bubble Tea does.
	Title func(title string)
	// Lag is how late the screen's own loop is; nil: nobody measures it. It is
	// called while drawing and must not wait.
	Lag func() time.Duration
	// Memory is how much memory the process holds, in bytes; nil: nobody measures
	// it. It is called while drawing and must not wait.
	Memory func() uint64
	// Now is a monotonic clock for what hangs on when a key came: bursts, the
	// second ctrl+c, the order that holds still. Nil: the time since New.
	Now func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.KeyMap == nil {
		o.KeyMap = DefaultKeyMap()
	}
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	return o
}
