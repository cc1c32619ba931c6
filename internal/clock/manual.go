package clock

import (
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Manual is a Clock that stands still until a test moves it. Its three clocks
// move together or apart. It is safe for concurrent use. The zero value stands
// at zero on all three.
type Manual struct {
	mu  sync.Mutex
	now watchdog.Instant
}

// NewManual gives a clock that stands at start.
func NewManual(start watchdog.Instant) *Manual { return &Manual{now: start} }

// Now reads all three clocks.
func (m *Manual) Now() watchdog.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Mono reads the monotonic clock alone.
func (m *Manual) Mono() time.Duration { return m.Now().Mono }

// Advance lets d pass on all three clocks and returns the new moment.
func (m *Manual) Advance(d time.Duration) watchdog.Instant { return m.Move(d, d, d) }

// Suspend lets the machine sleep for d: Mono stands still.
func (m *Manual) Suspend(d time.Duration) watchdog.Instant { return m.Move(0, d, d) }

// JumpWall sets the wall clock forward, or back with a negative d.
func (m *Manual) JumpWall(d time.Duration) watchdog.Instant { return m.Move(0, 0, d) }

// Move moves each clock by its own amount and returns the new moment.
func (m *Manual) Move(mono, boot, wall time.Duration) watchdog.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Mono += mono
	m.now.Boot += boot
	m.now.Wall += int64(wall)
	return m.now
}

// Set puts all three clocks at now.
func (m *Manual) Set(now watchdog.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}
