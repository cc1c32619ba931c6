package redisstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Heads is where the numbers of generations are given out: the ledger, wherever
// it is. A projection that is late must not touch what is of a newer one.
type Heads interface {
	Head(ctx context.Context, id watchdog.ID) (watchdog.Head, watchdog.Revision, error)
}

// deleteScript deletes a key that still holds what was read.
//
//	KEYS  1 any
//	ARGV  1 its value as it was read
var deleteScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
`)

// RecordCopy shows the ends of another authority in this Redis, where our own
// publishers find them and stop, and where people look.
type RecordCopy struct {
	conn *Conn
	seal wire.Seal
}

// RecordCopy copies terminal records into this Redis. It is not used where this
// Redis is the authority itself.
func (c *Conn) RecordCopy(seal wire.Seal) *RecordCopy { return &RecordCopy{conn: c, seal: seal} }

// ProjectionName is how people call it.
func (p *RecordCopy) ProjectionName() string { return "copy in Redis" }

// Project writes the copy unless something stands there.
func (p *RecordCopy) Project(ctx context.Context, r watchdog.Record) error {
	text, err := p.seal.Record(r)
	if err != nil {
		return err
	}
	fresh := false
	err = p.conn.write(ctx, func(ctx context.Context, c *client) (err error) {
		fresh, err = c.SetNX(ctx, wire.TerminalKey(r.ID, r.Generation), text, 0).Result()
		return err
	})
	if err != nil {
		return projectionError(p.conn, p, err)
	}
	if !fresh {
		p.compare(ctx, r)
	}
	return nil
}

// compare tells of a copy that says something else. It is left: whoever wrote it
// is to be found out, and nothing decides by it.
func (p *RecordCopy) compare(ctx context.Context, r watchdog.Record) {
	var text []byte
	err := p.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		text, _, err = read(ctx, c, wire.TerminalKey(r.ID, r.Generation))
		return err
	})
	if err != nil {
		return
	}
	if there, err := p.seal.Open(r.ID, r.Generation, text); err != nil || there.Nonce != r.Nonce {
		p.conn.logger.Warn("Redis shows another end than the ledger; find out who wrote it, and remove it",
			"address", p.conn.target.display, "key", wire.TerminalKey(r.ID, r.Generation))
	}
}

func projectionError(c *Conn, p watchdog.Projection, err error) error {
	return fmt.Errorf("%s at %s: %s", p.ProjectionName(), c.target.display, explain(err, "SET").words)
}

// LivenessEnd takes away what shows an ended generation as alive: the lease, and
// after an expire the liveness key.
type LivenessEnd struct {
	conn  *Conn
	heads Heads
}

// LivenessEnd takes leases and liveness keys of ended generations away.
func (c *Conn) LivenessEnd(heads Heads) *LivenessEnd { return &LivenessEnd{conn: c, heads: heads} }

// ProjectionName is how people call it.
func (p *LivenessEnd) ProjectionName() string { return "liveness in Redis" }

// Project deletes keys that still hold what they held before it was known that
// no newer generation has begun: a beat that comes between is left alone.
func (p *LivenessEnd) Project(ctx context.Context, r watchdog.Record) error {
	var lease, beat []byte
	err := p.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		if lease, _, err = read(ctx, c, wire.LeaseKey(r.ID)); err == nil {
			beat, _, err = read(ctx, c, wire.LivenessKey(r.ID))
		}
		return err
	})
	if err != nil {
		return projectionError(p.conn, p, err)
	}
	if len(lease) == 0 && len(beat) == 0 {
		return nil
	}
	head, _, err := p.heads.Head(ctx, r.ID)
	if err != nil {
		return fmt.Errorf("%s: %w", p.ProjectionName(), err)
	}
	err = p.conn.write(ctx, func(ctx context.Context, c *client) error {
		if len(lease) > 0 && holderOf(lease, head) == r.Generation {
			if err := deleteScript.Run(ctx, c, []string{wire.LeaseKey(r.ID)}, lease).Err(); err != nil {
				return err
			}
		}
		if len(beat) > 0 && r.Outcome == watchdog.OutcomeExpired && head.Generation <= r.Generation {
			return deleteScript.Run(ctx, c, []string{wire.LivenessKey(r.ID)}, beat).Err()
		}
		return nil
	})
	if err != nil {
		return projectionError(p.conn, p, err)
	}
	return nil
}

// holderOf is the generation that a lease names, 0 if that is not known. One
// that names nobody is the head's.
func holderOf(lease []byte, head watchdog.Head) watchdog.Generation {
	g, boot, ok := readLease(lease)
	switch {
	case !ok || g > 0:
		return g
	case boot == "":
		return head.Generation
	}
	for _, e := range head.Executions {
		if e.BootID == boot {
			return e.Generation
		}
	}
	return 0
}

// readLease reads the value of a lease.
func readLease(text []byte) (g watchdog.Generation, bootID string, ok bool) {
	var lease struct {
		Generation *watchdog.Generation `json:"generation"`
		BootID     *string              `json:"boot_id"`
	}
	if json.Unmarshal(text, &lease) != nil {
		return 0, "", false
	}
	if lease.Generation != nil {
		g = *lease.Generation
	}
	if lease.BootID != nil {
		bootID = *lease.BootID
	}
	return g, bootID, true
}

// RegistryEnd shows ends in the registry's hashes, for whoever reads those.
type RegistryEnd struct {
	conn  *Conn
	heads Heads
}

// RegistryEnd marks the hashes of sessions that ended.
func (c *Conn) RegistryEnd(heads Heads) *RegistryEnd { return &RegistryEnd{conn: c, heads: heads} }

// ProjectionName is how people call it.
func (p *RegistryEnd) ProjectionName() string { return "registry in Redis" }

// Project marks the hash reaped or expired, or removes that of a session that
// ended by its own word or was stopped. It makes none, and leaves that of a
// newer generation alone: a mark there would be taken for an operator's.
func (p *RegistryEnd) Project(ctx context.Context, r watchdog.Record) error {
	registry := p.conn.Registry()
	var fields []any
	err := p.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		fields, err = c.HMGet(ctx, wire.RegistryKey(r.ID), hashFields...).Result()
		return err
	})
	if err != nil {
		return projectionError(p.conn, p, err)
	}
	if !anyField(fields) {
		return nil
	}
	as, _ := readHash(r.ID, fields) // what cannot be read is marked all the same
	head, _, err := p.heads.Head(ctx, r.ID)
	if err != nil {
		return fmt.Errorf("%s: %w", p.ProjectionName(), err)
	}
	if head.Generation > r.Generation {
		return nil
	}
	switch r.Outcome {
	case watchdog.OutcomeLost:
		if as.Status != HashExpired {
			_, err = registry.Mark(ctx, as, HashReaped)
		}
	case watchdog.OutcomeExpired:
		_, err = registry.Mark(ctx, as, HashExpired)
	case watchdog.OutcomeCompleted, watchdog.OutcomeError, watchdog.OutcomeStopped, watchdog.OutcomeNone:
		err = registry.forgetAs(ctx, as)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.ProjectionName(), err)
	}
	return nil
}
