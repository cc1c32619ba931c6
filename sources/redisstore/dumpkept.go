package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// keptPrefix begins the last part of the key of a dump that nobody asked for.
const keptPrefix = "taken-"

// keptDump is one of them.
type keptDump struct {
	member  string // of wire.KeptDumpsKey
	name    string // the last part of its key
	session watchdog.ID
}

func (k keptDump) key() string { return wire.DumpKey(k.session, k.name) }

// KeepDump keeps a dump that nobody asked for, where KeptDumps finds it, for a
// day. Of a session the newest wire.KeptDumps stand, of all wire.KeptDumpsShown.
func (c *Commands) KeepDump(ctx context.Context, d wire.Dump) error {
	d.By, d.Command = cmp.Or(d.By, c.rules.Name), ""
	d.Cut(wire.MaxKeptKeyBytes)
	value, err := wire.EncodeDump(d)
	if err != nil {
		return err
	}
	at := max(d.At.UnixMilli(), 0)
	k := keptDump{name: fmt.Sprintf("%s%013d", keptPrefix, at), session: d.Session}
	k.member = k.name + " " + string(d.Session)
	err = c.insist(ctx,
		func(ctx context.Context, cl *client) error {
			return cl.Set(ctx, k.key(), value, wire.KeptKeyHold).Err()
		},
		func(ctx context.Context, cl *client) error {
			_, err := cl.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.ZAdd(ctx, wire.KeptDumpsKey, redis.Z{Score: float64(at), Member: k.member})
				p.PExpire(ctx, wire.KeptDumpsKey, wire.KeptKeyHold)
				return nil
			})
			return err
		})
	if err != nil {
		return err
	}
	return c.pruneKept(ctx, d.Session)
}

// pruneKept removes what is more than may stand.
func (c *Commands) pruneKept(ctx context.Context, id watchdog.ID) error {
	var kept []keptDump
	if err := untilKnown(ctx, func() (err error) { kept, err = c.listKept(ctx); return err }); err != nil {
		return err
	}
	ofSession := 0
	for i, k := range kept {
		if k.session == id {
			ofSession++
		}
		if i < wire.KeptDumpsShown && (k.session != id || ofSession <= wire.KeptDumps) {
			continue
		}
		err := c.insist(ctx,
			func(ctx context.Context, cl *client) error { return cl.Del(ctx, k.key()).Err() },
			func(ctx context.Context, cl *client) error { return cl.ZRem(ctx, wire.KeptDumpsKey, k.member).Err() })
		if err != nil {
			return err
		}
	}
	return nil
}

// listKept names what stands, the newest first.
func (c *Commands) listKept(ctx context.Context) ([]keptDump, error) {
	got := make(chan []string, 1)
	err := c.calls.do(ctx, func(ctx context.Context, cl *client) error {
		members, err := cl.ZRevRange(ctx, wire.KeptDumpsKey, 0, 4*wire.KeptDumpsShown).Result()
		got <- members
		return err
	})
	if err != nil {
		return nil, c.failed(err)
	}
	var kept []keptDump
	for _, member := range <-got {
		name, session, ok := strings.Cut(member, " ")
		if stamp, ours := strings.CutPrefix(name, keptPrefix); ok && ours && wire.Mintable(stamp) && wire.ValidID(watchdog.ID(session)) {
			kept = append(kept, keptDump{member, name, watchdog.ID(session)})
		}
	}
	return kept, nil
}

// KeptDumps gives the dumps that were kept of a session, of all if id is empty,
// the newest first; those that are had already are left out. What is no dump is
// passed over.
func (c *Commands) KeptDumps(ctx context.Context, id watchdog.ID, had func(wire.Dump) bool) ([]wire.Dump, error) {
	kept, err := c.listKept(ctx)
	if err != nil {
		return nil, err
	}
	kept = slices.DeleteFunc(kept, func(k keptDump) bool { return id != "" && k.session != id })
	var out []wire.Dump
	for _, k := range kept[:min(len(kept), wire.KeptDumpsShown)] {
		d, found, err := c.readDump(ctx, k.session, "", k.key())
		var strange strangeDump
		switch {
		case errors.As(err, &strange):
		case err != nil:
			return out, err
		case found && !had(d):
			out = append(out, d)
		}
	}
	return out, nil
}
