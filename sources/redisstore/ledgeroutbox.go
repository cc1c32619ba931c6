package redisstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// outboxPage is how many untold ends are looked at together.
const outboxPage = 500

// Outbox gives the records that are not told yet, oldest first. The first call,
// and the first after a failure, looks for outboxes that the list of untold ends
// does not name: a Cluster may have lost a part of it.
func (l *Ledger) Outbox(ctx context.Context, limit int) ([]watchdog.Record, error) {
	var out []watchdog.Record
	err := l.conn.do(ctx, func(ctx context.Context, c *client) error {
		if err := l.collect(ctx, c); err != nil {
			return err
		}
		for start := int64(0); len(out) < limit; start += outboxPage {
			names, err := c.ZRange(ctx, untoldKey, start, start+outboxPage-1).Result()
			if err != nil {
				return err
			}
			records, stale, err := l.untold(ctx, c, names)
			if err != nil {
				return err
			}
			out = append(out, records...)
			if l.drop(ctx, c, stale) {
				start -= int64(len(stale)) // the rest moved up
			}
			if len(names) < outboxPage {
				break
			}
		}
		return nil
	})
	if err != nil {
		l.mu.Lock()
		l.listed = false
		l.mu.Unlock()
		return nil, l.conn.away(err)
	}
	return out[:min(len(out), max(limit, 0))], nil
}

// untold reads the records that are named, and tells which names are stale: told
// ones, and what is no name. A record that is not there yet may be on its way.
func (l *Ledger) untold(ctx context.Context, c *client, names []string) (records []watchdog.Record, stale []string, err error) {
	type question struct {
		id    watchdog.ID
		g     watchdog.Generation
		name  string
		waits *redis.BoolCmd
		text  *redis.StringCmd
	}
	var asked []question
	pipe := c.Pipeline()
	for _, name := range names {
		id, g, ok := readUntoldName(name)
		if !ok {
			stale = append(stale, name)
			continue
		}
		asked = append(asked, question{
			id: id, g: g, name: name,
			waits: pipe.SIsMember(ctx, wire.OutboxKey(id), strconv.FormatUint(uint64(g), 10)),
			text:  pipe.GetRange(ctx, wire.TerminalKey(id, g), 0, wire.MaxDocumentBytes),
		})
	}
	if len(asked) == 0 {
		return nil, stale, nil
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, q := range asked {
		if err := errors.Join(q.waits.Err(), q.text.Err()); err != nil {
			if !isWrongType(err) {
				return nil, nil, err
			}
			continue
		}
		switch {
		case q.text.Val() == "":
		case !q.waits.Val():
			stale = append(stale, q.name)
		default:
			if r, err := l.seal.Open(q.id, q.g, []byte(q.text.Val())); err == nil {
				records = append(records, r)
			}
		}
	}
	return records, stale, nil
}

// drop takes stale names out of the list, if it may, and reports whether it did.
func (l *Ledger) drop(ctx context.Context, c *client, stale []string) bool {
	if len(stale) == 0 || c.target.ReadOnly {
		return false
	}
	members := make([]any, len(stale))
	for i, name := range stale {
		members[i] = name
	}
	return c.ZRem(ctx, untoldKey, members...).Err() == nil // else they are stale next time
}

// collect names the ends of all outboxes among the untold ones.
func (l *Ledger) collect(ctx context.Context, c *client) error {
	l.mu.Lock()
	done := l.listed
	l.mu.Unlock()
	if done || c.target.ReadOnly {
		return nil
	}
	nodes, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		err := scanNode(ctx, n, wire.OutboxKeyPattern, func(keys []string) error { return l.collectKeys(ctx, c, keys) })
		if err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.listed = true
	l.mu.Unlock()
	return nil
}

func (l *Ledger) collectKeys(ctx context.Context, c *client, keys []string) error {
	pipe := c.Pipeline()
	members := make([]*redis.StringSliceCmd, len(keys))
	for i, key := range keys {
		members[i] = pipe.SMembers(ctx, key)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	var names []any
	for i, key := range keys {
		id, _, ok := wire.IDFromLedgerKey(key)
		if err := members[i].Err(); err != nil && !isWrongType(err) {
			return err
		}
		for _, number := range members[i].Val() {
			g, err := strconv.ParseUint(number, 10, 32)
			if ok && err == nil {
				names = append(names, untoldName(id, watchdog.Generation(g)))
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return untoldScript.Run(ctx, c, []string{untoldKey, untoldCounterKey}, names...).Err()
}

// scanNode calls found with the keys of one master that match, in bounded steps.
func scanNode(ctx context.Context, n node, pattern string, found func(keys []string) error) error {
	for cursor := uint64(0); ; {
		keys, next, err := n.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := found(keys); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Told takes a record out of the outbox. What counts goes first: a name that is
// left is found to be stale.
func (l *Ledger) Told(ctx context.Context, r watchdog.Record) error {
	err := l.conn.write(ctx, func(ctx context.Context, c *client) error {
		removed, err := c.SRem(ctx, wire.OutboxKey(r.ID), strconv.FormatUint(uint64(r.Generation), 10)).Result()
		if err != nil {
			return err
		}
		if removed > 0 && c.cluster != nil {
			l.enter(ctx, c, r.ID, r.Generation) // its writer may have ended before it did
		}
		return c.ZRem(ctx, untoldKey, untoldName(r.ID, r.Generation)).Err()
	})
	return l.conn.away(err)
}
