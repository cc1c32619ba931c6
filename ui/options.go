package ui

import (
	"time"
)

// Options is what the wiring gives to a screen. Every function value may be
// nil; what needs it then says so. They are called from commands, never from
// Update or View, so they may block.
type Options struct {
	// Host opens feeds; nil: only Feed is shown.
	Host Host
	// Feed is shown at once; nil: the first-run page, or Open.
	Feed Feed
	// Open is opened at start, off the screen's goroutine; nil nothing.
	Open *Target

	Theme  Theme
	ASCII  bool
	NoAlt  bool // draw into the main screen
	Mouse  bool
	KeyMap KeyMap // nil: DefaultKeyMap

	// Copy puts text into the clipboard; nil: OSC 52.
	Copy func(text string) error
	// Title sets the terminal's title; nil: Bubble Tea does.
	Title func(title string)
	// Suspend stops the process until it is continued; its error says why not.
	Suspend func() error
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
