package clock

import (
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// system reads the clocks of this machine, counted from origin.
type system struct {
	origin   time.Time     // carries a monotonic reading
	bootBase time.Duration // the boot clock at origin
}

// System gives the clocks of this machine. Mono and Boot count from this call,
// so a process makes one such clock when it starts and shares it: readings of
// two of them do not compare.
//
// Mono is Go's monotonic clock, which follows the simulated time of
// testing/synctest. Boot is never behind Mono: where the machine has no clock
// that counts a suspend, or inside a synctest bubble, it equals Mono.
func System() watchdog.Clock {
	return &system{origin: time.Now(), bootBase: bootClock()}
}

// Now reads all three clocks within a few hundred nanoseconds.
func (s *system) Now() watchdog.Instant {
	now := time.Now()
	mono := now.Sub(s.origin)
	// The boot clock is read last, so that without a suspend the gap between
	// the two is the time between two readings and never negative.
	boot := max(mono, bootClock()-s.bootBase)
	return watchdog.Instant{Mono: mono, Boot: boot, Wall: now.UnixNano()}
}

// Mono reads the monotonic clock alone. It costs no system call; whoever stamps
// every message uses it, by an interface of its own.
func (s *system) Mono() time.Duration { return time.Since(s.origin) }

// MonoOf reads the Mono of a clock, in the cheapest way that it has.
func MonoOf(c watchdog.Clock) func() time.Duration {
	if m, ok := c.(interface{ Mono() time.Duration }); ok {
		return m.Mono
	}
	return func() time.Duration { return c.Now().Mono }
}
