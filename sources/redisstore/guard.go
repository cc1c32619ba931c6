package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// URLVariable names the environment variable that a Guard takes its address from
// unless it is given one.
const URLVariable = "REDIS_URL"

// Guard writes the beats of guarded sessions: it is a guard.Publisher, and may
// serve any number of sessions of a process. A stalled beat refreshes no key, so
// that clients that only poll see the session go, but it renews the lease beside
// it: the publisher lives. An execution whose end stands in the ledger of this
// Redis is refused.
type Guard struct {
	pub      *Publisher
	failures atomic.Int64 // in a row
	bare     atomic.Bool  // the server lets us write the key alone
}

var _ guard.Publisher = (*Guard)(nil)

// OpenGuard makes a Guard. It checks the options and leaves the network alone;
// without an address it takes REDIS_URL. Options that are read-only are refused.
// A nil logger drops what would be logged. Close it after its sessions.
func OpenGuard(o Options, logger *slog.Logger) (*Guard, error) {
	if url := os.Getenv(URLVariable); o.URL == "" && len(o.Addrs) == 0 && url != "" {
		o.URL, o.Origin = url, URLVariable
	}
	pub, err := OpenPublisher(o, 0, clock.System(), logger)
	if err != nil {
		return nil, err
	}
	return &Guard{pub: pub}, nil
}

// String is what logs call it, without a password.
func (g *Guard) String() string { return "Redis " + g.pub.target.display }

// Close ends every call under way.
func (g *Guard) Close() { g.pub.Close() }

// Publish writes one beat and waits for the server's answer.
func (g *Guard) Publish(ctx context.Context, m guard.Message) error {
	h := holdingOf(m)
	if err := checkID(h.ID); err != nil {
		return err
	}
	used := g.pub.client.Load()
	err := g.write(ctx, used, h)
	var refused *Refused
	switch {
	case err == nil:
		g.failures.Store(0)
		return nil
	case errors.As(err, &refused):
		return err
	}
	n := g.failures.Add(1)
	if redis.HasErrorPrefix(err, "READONLY") || n%replaceAt == 0 {
		if renewed := g.pub.renew(); g.pub.client.CompareAndSwap(used, renewed) {
			go used.Close() // others may still wait for its answers
		} else {
			renewed.Close()
		}
	}
	return fmt.Errorf("%s: %s; the beat of %s was not written", g.pub.target.display, explain(err, "SET").words, h.ID)
}

// write writes the beat with its lease. Where the server forbids the script or
// the keys of the ledger, the key alone is written, as any producer does.
func (g *Guard) write(ctx context.Context, c *client, h Holding) error {
	if !g.bare.Load() {
		err := c.hold(ctx, h)
		if err == nil || !forbidsScript(err) {
			return err
		}
		if g.bare.CompareAndSwap(false, true) {
			g.pub.logger.Warn("Redis does not let this agent write the lease of its session, only the beat: observers that read Redis alone will not settle its loss",
				"address", g.pub.target.display, "reason", explain(err, "EVALSHA").words)
		}
	}
	if h.Payload == nil {
		return nil
	}
	return c.Set(ctx, wire.LivenessKey(h.ID), h.Payload, h.TTL).Err()
}

// forbidsScript reports whether a server takes no script of ours, or not on
// these keys.
func forbidsScript(err error) bool {
	return redis.HasErrorPrefix(err, "unknown command") || isServerError(err) && explain(err, "EVALSHA").kind == failedDenied
}

// holdingOf says what a message means to this store.
func holdingOf(m guard.Message) Holding {
	h := Holding{ID: watchdog.ID(m.Beat.ID), Generation: m.Beat.Generation, TTL: m.TTL, Lease: m.TTL}
	if !m.Plain {
		h.BootID = string(m.Beat.BootID)
	}
	switch m.Beat.State {
	case watchdog.StateStalled:
		return h // the lease alone
	case watchdog.StateCompleted, watchdog.StateError:
		h.Lease = 0 // nobody holds it any more
	}
	if m.Plain {
		h.Payload = wire.AppendPlainBeat(nil, m.Beat)
	} else {
		h.Payload = wire.AppendBeat(nil, m.Beat)
	}
	return h
}
