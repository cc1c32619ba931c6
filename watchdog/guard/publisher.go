package guard

import (
	"context"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// A Publisher takes beats to one destination: a bus, a store, a registry. Those
// of this project are natsbus.Guard and redisstore.Guard.
//
// Publish is called on a goroutine that has nothing else to do, one call at a
// time for each session. It may wait until ctx ends. If it fails, hangs or
// panics, its beat is lost and the next one is tried; nobody else notices. An
// error that wraps ErrGone cancels the session's work.
type Publisher interface {
	Publish(ctx context.Context, m Message) error
}

// Message is one beat on its way out. A Publisher keeps nothing of it.
type Message struct {
	// Beat is shared with the other publishers and must not be changed. One that
	// says watchdog.StateStalled is no sign of work: what expires by itself, such
	// as a liveness key, is not refreshed by it.
	Beat *watchdog.Beat
	// Plain asks for exactly the five fields that every producer sends.
	Plain bool
	// TTL is how long a store keeps the beat if none follows.
	TTL time.Duration
}

// A Pinger is a Publisher through which others can ask for a beat now.
type Pinger interface {
	// OnPing calls f, which does not block, whenever a beat is asked for, until
	// remove is called.
	OnPing(f func()) (remove func())
}
