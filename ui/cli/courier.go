package cli

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// carryWithin bounds one attempt: a beat that takes longer says nothing of now.
const carryWithin = 5 * time.Second

// courier carries the beats of supervised sessions to one bus, on a goroutine of
// its own. Of each session the newest beat waits; a bus that is away or hangs
// holds up nobody.
type courier struct {
	to      guard.Publisher
	ttl     time.Duration
	log     *slog.Logger
	trouble slog.Level // of a bus that is away: less if nobody asked for it

	mu    sync.Mutex
	box   map[watchdog.ID]*watchdog.Beat
	order []watchdog.ID
	bell  chan struct{}
	fails bool
}

// newCourier carries to a bus whose address comes from origin.
func newCourier(to guard.Publisher, origin string, ttl time.Duration, log *slog.Logger) *courier {
	trouble := slog.LevelWarn
	if origin == defaultOrigin {
		trouble = slog.LevelInfo
	}
	return &courier{to: to, ttl: ttl, log: log, trouble: trouble, box: map[watchdog.ID]*watchdog.Beat{}, bell: make(chan struct{}, 1)}
}

// put hands a beat over. It is copied.
func (c *courier) put(b *watchdog.Beat) {
	id := watchdog.ID(b.ID)
	c.mu.Lock()
	if c.box[id] == nil {
		c.order = append(c.order, id)
	}
	c.box[id] = cloneBeat(b)
	c.mu.Unlock()
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

func cloneBeat(b *watchdog.Beat) *watchdog.Beat {
	out := *b
	for _, text := range []*[]byte{&out.ID, &out.StateText, &out.Task, &out.BootID, &out.Agent, &out.Host, &out.Message, &out.Raw} {
		*text = bytes.Clone(*text)
	}
	return &out
}

func (c *courier) take() *watchdog.Beat {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.order) == 0 {
		return nil
	}
	b := c.box[c.order[0]]
	delete(c.box, c.order[0])
	c.order = c.order[1:]
	return b
}

// run carries until ctx ends, and what is left then for one attempt more: the
// last word of a session is its end.
func (c *courier) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
			defer cancel()
			for b := c.take(); b != nil && last.Err() == nil; b = c.take() {
				c.carry(last, b)
			}
			return
		case <-c.bell:
		}
		for b := c.take(); b != nil && ctx.Err() == nil; b = c.take() {
			c.carry(ctx, b)
		}
	}
}

// lastWords bounds how long the last beats may take at the end.
const lastWords = 2 * time.Second

// carry tries once. That it fails, and that it works again, is logged once.
func (c *courier) carry(ctx context.Context, b *watchdog.Beat) {
	ctx, cancel := context.WithTimeout(ctx, carryWithin)
	defer cancel()
	err := c.to.Publish(ctx, guard.Message{Beat: b, TTL: c.ttl})
	if failed := err != nil; failed != c.fails {
		c.fails = failed
		if failed {
			c.log.Log(ctx, c.trouble, "beats of supervised sessions do not arrive", "at", c.to, "error", err)
		} else {
			c.log.Info("beats of supervised sessions arrive again", "at", c.to)
		}
	}
}
