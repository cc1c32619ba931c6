//go:build !linux

package clock

import "time"

// bootClock tells nothing here: Boot then equals Mono, and a suspend is seen as
// lateness only.
func bootClock() time.Duration { return 0 }
