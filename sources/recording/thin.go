package recording

import (
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// keepEvery is how far apart written ticks are while nothing is notable.
	keepEvery = time.Second
	// notableLate is the lateness from which a tick is always written. What is
	// below is lost: it is less than the grid on which a replay ticks.
	notableLate = 50 * time.Millisecond
	// notableDrift is how far the clocks may move apart between two ticks
	// before both are written: a suspend, or a wall clock that was set.
	notableDrift = 20 * time.Millisecond
)

// thinner decides which ticks are written.
type thinner struct {
	written watchdog.Ticked
	last    watchdog.Ticked
	held    bool // last is not written
	begun   bool
}

// add takes the next tick and gives the ones to write now, in order.
func (t *thinner) add(tick watchdog.Ticked, force bool) []watchdog.Ticked {
	previous, held := t.last, t.held
	jump := !t.begun || force || tick.Late >= notableLate ||
		tick.Now.Mono-previous.Now.Mono >= keepEvery || drifted(previous.Now, tick.Now)
	t.begun, t.last, t.held = true, tick, false
	switch {
	case jump && held:
		t.written = tick
		return []watchdog.Ticked{previous, tick}
	case jump || tick.Now.Mono-t.written.Now.Mono >= keepEvery:
		t.written = tick
		return []watchdog.Ticked{tick}
	}
	t.held = true
	return nil
}

// flush gives the tick that is held back, if there is one.
func (t *thinner) flush() (watchdog.Ticked, bool) {
	held := t.held
	if held {
		t.written, t.held = t.last, false
	}
	return t.last, held
}

// clock is the Mono that an entry between ticks must tell, or -1 if the last
// written tick says it.
func (t *thinner) clock() time.Duration {
	if !t.held {
		return -1
	}
	return t.last.Now.Mono
}

func drifted(a, b watchdog.Instant) bool {
	mono := b.Mono - a.Mono
	boot := b.Boot - a.Boot - mono
	wall := time.Duration(b.Wall-a.Wall) - (b.Boot - a.Boot)
	return boot.Abs() >= notableDrift || wall.Abs() >= notableDrift
}
