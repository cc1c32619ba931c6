package ui

import "github.com/sessionwatch/sessionwatch/watchdog"

// Results of commands. gen is the feed, or the opening, that asked.
type (
	// feedOpened is the answer to an opening.
	feedOpened struct {
		gen   uint64
		feed  Feed
		about About
		err   error
	}
	// windowArrived is the next window of a feed; closed: there are no more.
	windowArrived struct {
		gen      uint64
		window   watchdog.Window
		about    About
		replay   replayState
		tape     tapeState
		children Children // nil: nothing is supervised behind the feed
		closed   bool
	}
	// askDelivered says that the feed took an ask.
	askDelivered struct{ gen uint64 }
	// errandFinished says that the next errand may run; its own message, if
	// any, is handled too.
	errandFinished struct {
		gen    uint64
		result any
	}
	// replayChanged says how a replay stands after a key.
	replayChanged struct{ state replayState }
	// textCopied is the answer of the clipboard.
	textCopied struct {
		text string
		err  error // nil: as far as can be known
	}
	// keysSettled says that the time in which a burst is told has passed.
	keysSettled struct{}
)

// replayState is how a recording plays.
type replayState struct {
	paused bool
	speed  float64
	ended  bool
	wrong  string // with the end
}

func stateOf(r Replay) replayState {
	if r == nil {
		return replayState{}
	}
	s := replayState{paused: r.Paused(), speed: r.Speed()}
	s.ended, s.wrong = r.End()
	return s
}
