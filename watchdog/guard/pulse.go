package guard

import (
	"math"
	"time"
)

const never = time.Duration(math.MaxInt64)

// extraEvery is the least time between two beats that were only asked for:
// pings, waits and messages. A change of state is told at once.
const extraEvery = time.Second

// pulse decides when a session beats and whether it says stalled. It is pure:
// all times are told to it, on the session's clock.
type pulse struct {
	interval time.Duration

	stalled bool
	regular time.Duration // the next heartbeat
	extra   time.Duration // the next beat that was asked for
	beaten  time.Duration // the last beat; negative before the first
	pinged  time.Duration // the last beat that answered a ping
	ping    time.Duration // the answer to a ping that came
}

func newPulse(interval time.Duration) pulse {
	return pulse{interval: interval, extra: never, ping: never, beaten: -extraEvery, pinged: -extraEvery}
}

// step reports whether to beat now. deadline is when the stall timeout passes.
func (p *pulse) step(now, deadline time.Duration) bool {
	stalled := now >= deadline
	changed := stalled != p.stalled
	p.stalled = stalled
	if !changed && now < min(p.regular, p.extra, p.ping) {
		return false
	}
	if p.ping != never { // any beat answers it
		p.pinged = now
	}
	p.beaten, p.regular, p.extra, p.ping = now, now+p.interval, never, never
	return true
}

// next is when step wants to be called again, if nothing happens meanwhile.
func (p *pulse) next(deadline time.Duration) time.Duration {
	if p.stalled {
		deadline = never
	}
	return min(p.regular, p.extra, p.ping, deadline)
}

// ask wishes for a beat soon.
func (p *pulse) ask(now time.Duration) {
	p.extra = min(p.extra, max(now, p.beaten+extraEvery))
}

// asked answers a ping after the delay, which spreads the answers of a fleet,
// and not twice within a second.
func (p *pulse) asked(now, delay time.Duration) {
	if p.ping == never {
		p.ping = max(now+delay, p.pinged+extraEvery)
	}
}
