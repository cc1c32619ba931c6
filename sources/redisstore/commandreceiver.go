package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Receive hands the commands to a session to handle, each id to one handler at a
// time, until ctx ends. knows are the ops that handle knows; any other is left to
// others: neither acknowledged nor counted. A handler that returns without Finish
// gets the command again, after the lease.
//
// Never handed on are commands that are not trusted, have expired, were
// delivered too often or have their result: these are answered here.
func (c *Commands) Receive(ctx context.Context, id watchdog.ID, knows []watchdog.Op, handle func(context.Context, watchdog.Delivery)) error {
	if err := checkID(id); err != nil {
		return err
	}
	r := &receiver{Receiver: c.desk.Receiver(id, knows, handle), commands: c, id: id, key: wire.CommandsKey(id), group: groupOf(knows)}
	defer r.Wait()
	for warned := false; ; {
		err := r.pass(ctx)
		switch {
		case errors.Is(err, errConnClosed):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			warned = false
			continue
		}
		r.grouped, r.claimed = false, time.Time{}
		if !warned {
			warned = true
			c.logger.Info("receiving commands was interrupted", "session", id, "error", err)
		}
		pause(ctx, time.Second/2)
	}
}

// groupOf names those who know the same ops: what others leave is no delivery of
// theirs.
func groupOf(knows []watchdog.Op) string {
	words := make([]string, len(knows))
	for i, op := range knows {
		words[i] = string(op)
	}
	slices.Sort(words)
	return "commands:" + strings.Join(words, ",")
}

// consumer is one name for all: who holds a command is not told by Redis, and a
// name of each process would stay behind it.
const consumer = "receiver"

// receiver is one Receive.
type receiver struct {
	*orders.Receiver
	commands *Commands
	id       watchdog.ID
	key      string
	group    string
	grouped  bool      // the group was seen
	claimed  time.Time // when we last looked for what others left
}

// pass takes what was left behind, then what is new.
func (r *receiver) pass(ctx context.Context) error {
	c := r.commands
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.grouped {
		if err := r.join(ctx); err != nil {
			return c.failed(err)
		}
		r.grouped = true
		r.Pass()
	}
	if time.Since(r.claimed) >= min(c.rules.Lease/3, 5*time.Second) {
		if err := r.claim(ctx); err != nil {
			return c.failed(err)
		}
		r.claimed = time.Now()
	}
	got, err := c.read(ctx, func(ctx context.Context, cl *client, block time.Duration) ([]redis.XStream, error) {
		return cl.XReadGroup(ctx, &redis.XReadGroupArgs{Group: r.group, Consumer: consumer, Streams: []string{r.key, ">"}, Count: 16, Block: block}).Result()
	})
	if err != nil {
		return c.failed(err)
	}
	if ctx.Err() != nil {
		return r.giveBack(ctx, got)
	}
	if len(got) > 0 {
		if err := c.prove(ctx); err != nil {
			return errors.Join(err, r.giveBack(ctx, got))
		}
	}
	for _, m := range got {
		r.Take(ctx, r.parcel(ctx, m, 1))
	}
	return nil
}

// giveBack lets others have at once what came while we were told to end, or could
// not be judged, as if it had never been delivered.
func (r *receiver) giveBack(ctx context.Context, got []redis.XMessage) error {
	if len(got) == 0 {
		return nil
	}
	ask := []any{"XCLAIM", r.key, r.group, consumer, 0}
	for _, m := range got {
		ask = append(ask, m.ID)
	}
	ask = append(ask, "IDLE", r.commands.rules.Lease.Milliseconds(), "RETRYCOUNT", 0, "JUSTID")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ioLimit)
	defer cancel()
	return r.commands.calls.write(ctx, func(ctx context.Context, cl *client) error { return cl.Do(ctx, ask...).Err() })
}

// join makes the group. It reads from the beginning: what is finished is known by
// its result.
func (r *receiver) join(ctx context.Context) error {
	return r.commands.calls.write(ctx, func(ctx context.Context, cl *client) error {
		err := cl.XGroupCreateMkStream(ctx, r.key, r.group, "0").Err()
		if redis.HasErrorPrefix(err, "BUSYGROUP") {
			return nil
		}
		if err != nil {
			return err
		}
		return cl.PExpire(ctx, r.key, keepCommands).Err()
	})
}

// claim takes over what was delivered and not finished for a whole lease.
func (r *receiver) claim(ctx context.Context) error {
	c, lease := r.commands, r.commands.rules.Lease
	type left struct {
		messages []redis.XMessage
		counts   map[string]int64
	}
	got := make(chan left, 1)
	err := c.calls.write(ctx, func(ctx context.Context, cl *client) error {
		pending, err := cl.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: r.key, Group: r.group, Start: "-", End: "+", Count: maxCommands}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		l, ids := left{counts: map[string]int64{}}, []string(nil)
		for _, p := range pending {
			if p.Idle >= lease {
				ids = append(ids, p.ID)
				l.counts[p.ID] = p.RetryCount
			}
		}
		err = nil
		if len(ids) > 0 {
			err = c.prove(ctx)
		}
		if len(ids) > 0 && err == nil {
			l.messages, err = cl.XClaim(ctx, &redis.XClaimArgs{Stream: r.key, Group: r.group, Consumer: consumer, MinIdle: lease, Messages: ids}).Result()
		}
		got <- l
		return err
	})
	if err != nil {
		return err
	}
	l := <-got
	for _, m := range l.messages {
		r.Take(ctx, r.parcel(ctx, m, int(l.counts[m.ID])+1))
	}
	return nil
}

// parcel is an entry as the desk takes it.
func (r *receiver) parcel(ctx context.Context, m redis.XMessage, deliveries int) orders.Parcel {
	c := r.commands
	p := orders.Parcel{Deliveries: deliveries, Authenticated: c.provedOut(), Loopback: c.loopback(), At: timeOf(m.ID)}
	envelope, _ := m.Values[fieldCommand].(string)
	p.Envelope = []byte(envelope)
	if sender, _ := m.Values[fieldSender].(string); sender != "" {
		p.Sender = waiting{c, sender}
	}
	p.Done = func() { c.later(telling{key: r.key, group: r.group, done: m.ID}) }
	p.Renew = func() {
		_ = c.calls.write(context.WithoutCancel(ctx), func(ctx context.Context, cl *client) error { // else it is delivered again
			// The count is given, for the embedded server takes each renewal for a delivery.
			return cl.Do(ctx, "XCLAIM", r.key, r.group, consumer, 0, m.ID, "RETRYCOUNT", deliveries, "JUSTID").Err()
		})
	}
	return p
}

// timeOf is when an entry was added, by the server's clock.
func timeOf(entry string) time.Time {
	ms, _, _ := strings.Cut(entry, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// waiting is a sender.
type waiting struct {
	commands *Commands
	sender   string // tells one from another; all read the same place
}

// Tell writes a word down for whoever waits.
func (w waiting) Tell(a watchdog.Answer) {
	if text, err := wire.EncodeResult(a); err == nil {
		w.commands.later(telling{key: wire.WordsKey(a.Session, a.Command), word: text})
	}
}

// telling is a small write that nobody waits for: a word on the way, or that an
// entry is done with.
type telling struct {
	key   string
	word  []byte
	group string
	done  string
}

// later never blocks: a sender that hears nothing reads the result, and an entry
// that is not done with comes again.
func (c *Commands) later(t telling) {
	select {
	case c.tells <- t:
	default:
	}
}

// tellWithin is how long a word is worth trying.
const tellWithin = 5 * time.Second

func (c *Commands) tell(ctx context.Context, t telling) {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	for ctx.Err() == nil {
		err := c.calls.write(ctx, func(ctx context.Context, cl *client) error {
			if t.done != "" {
				return cl.XAck(ctx, t.key, t.group, t.done).Err()
			}
			_, err := cl.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.XAdd(ctx, &redis.XAddArgs{Stream: t.key, MaxLen: maxWords, Approx: true, Values: []any{fieldWord, t.word}})
				p.PExpire(ctx, t.key, keepWords)
				return nil
			})
			return err
		})
		if err == nil || isServerError(err) {
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}
