package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// DefaultAskInterval is how often Poll asks if not told otherwise.
const DefaultAskInterval = 45 * time.Second

// Answer is what one look at a session's key found.
type Answer struct {
	Present bool
	Beat    watchdog.Beat // if Present; its age is an estimate, and Received is zero
	Left    time.Duration // until the key expires by itself; negative: never, or not known
}

// Meaning is one sentence for people. The absence of a key proves nothing by
// itself, so the sentence names what it can mean.
func (a Answer) Meaning() string {
	if !a.Present {
		return "absent: it stalled (a stalled session lets its key expire), ended, was evicted or deleted, or never started"
	}
	text := fmt.Sprintf("%s: %s", a.Beat.ID, a.Beat.StateText)
	if a.Beat.AgeKind == watchdog.AgeEstimated {
		text += fmt.Sprintf(", beat about %v ago", a.Beat.Age.Round(time.Second))
	}
	return text
}

// Poll asks for one session's key every interval (zero: 45 s) until ctx ends or
// the caller stops ranging. Each turn yields an answer, or an error if there
// was none; an error is never an absence, and the polling goes on after it. The
// interval must be under the TTL of the keys, else a beat could come and go
// unseen. A client that only polls sees a stall after up to stall timeout + TTL
// + interval.
func Poll(ctx context.Context, o Options, id watchdog.ID, interval time.Duration, logger *slog.Logger) (iter.Seq2[Answer, error], error) {
	if interval == 0 {
		interval = DefaultAskInterval
	}
	o.PollInterval = interval
	t, err := o.resolve()
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return func(yield func(Answer, error) bool) {
		c := newClient(ctx, t, logger)
		defer c.Close()
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if !yield(c.ask(ctx, id)) {
				return
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	}, nil
}

// Get asks for one session's key once.
func Get(ctx context.Context, o Options, id watchdog.ID, logger *slog.Logger) (Answer, error) {
	t, err := o.resolve()
	if err != nil {
		return Answer{}, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := newClient(ctx, t, logger)
	defer c.Close()
	return c.ask(ctx, id)
}

// ask reads a key and its TTL together.
func (c *client) ask(ctx context.Context, id watchdog.ID) (Answer, error) {
	key := wire.LivenessKey(id)
	pipe := c.Pipeline()
	get, left := pipe.GetRange(ctx, key, 0, maxValue), pipe.PTTL(ctx, key)
	_, _ = pipe.Exec(ctx)
	value, err := get.Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return Answer{}, fmt.Errorf("%s does not say whether %s lives: %s", c.target.display, netreason.Short(string(id)), explain(err, "GETRANGE").words)
	}
	if len(value) == 0 {
		return Answer{Left: -1}, nil
	}
	a := Answer{Present: true, Left: -1}
	if err := wire.DecodeBeat(&a.Beat, []byte(id), value); err != nil {
		return Answer{}, fmt.Errorf("the value of %s is no beat: %w", netreason.Short(key), err)
	}
	a.Beat.Source, a.Beat.AgeKind = watchdog.SourceRedis, watchdog.AgeUnknown
	if left.Err() == nil && left.Val() > 0 {
		a.Left = left.Val()
		a.Beat.AgeKind, a.Beat.Age = ageOf(a.Left, c.target.RedisTTL)
	}
	return a, nil
}
