package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// dumpPiece is what is written or read of a dump at once: a slow link has
	// ioLimit for each.
	dumpPiece = 512 << 10
	// dumpLook is how often a dump is looked for.
	dumpLook = 300 * time.Millisecond
	// dumpPart is where a dump of several pieces is put together.
	dumpPart = ".part"
	// maxDumpValue is the longest value that is read: header and text.
	maxDumpValue = wire.MaxDocumentBytes + 1 + wire.MaxDumpKeyBytes
)

// PublishDump puts the dump that a command asked for where its sender looks for
// it, for an hour. What is longer than wire.MaxDumpKeyBytes is cut, with a last
// line that says so. It appears as a whole or not at all.
func (c *Commands) PublishDump(ctx context.Context, d wire.Dump) error {
	if d.Command == "" {
		return errors.New("no command asked for it, so that it has no place in Redis")
	}
	if d.By == "" {
		d.By = c.rules.Name
	}
	d.Cut(wire.MaxDumpKeyBytes)
	value, err := wire.EncodeDump(d)
	if err != nil {
		return err
	}
	key := wire.DumpKey(d.Session, d.Command)
	if len(value) <= dumpPiece {
		return c.insist(ctx, func(ctx context.Context, cl *client) error {
			return cl.Set(ctx, key, value, wire.DumpKeyHold).Err()
		})
	}
	// Two who write the same dump write other bytes at worst, which its reader finds
	// out.
	part := key + dumpPart
	steps := []func(context.Context, *client) error{func(ctx context.Context, cl *client) error {
		return cl.Set(ctx, part, value[:dumpPiece], wire.DumpKeyHold).Err()
	}}
	for from := dumpPiece; from < len(value); from += dumpPiece {
		piece := value[from:min(from+dumpPiece, len(value))]
		steps = append(steps, func(ctx context.Context, cl *client) error {
			return cl.SetRange(ctx, part, int64(from), string(piece)).Err()
		})
	}
	var renamed atomic.Bool // perhaps: no answer came
	steps = append(steps, func(ctx context.Context, cl *client) error {
		before := renamed.Swap(true)
		_, err := cl.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.PExpire(ctx, part, wire.DumpKeyHold)
			p.Rename(ctx, part, key)
			return nil
		})
		if before && redis.HasErrorPrefix(err, "no such key") {
			return nil
		}
		return err
	})
	return c.insist(ctx, steps...)
}

// AwaitDump waits for the dump that a command asks for, until ctx ends; its error
// then says what is wrong. ready is called once, at once: a dump that is written
// waits for an hour.
func (c *Commands) AwaitDump(ctx context.Context, id watchdog.ID, command string, ready func()) (wire.Dump, error) {
	ready()
	var failed error
	for {
		d, found, err := c.readDump(ctx, id, command, wire.DumpKey(id, command))
		var denied *deniedError
		switch {
		case err == nil && found:
			return d, nil
		case errors.As(err, &denied), errors.Is(err, errConnClosed):
			return wire.Dump{}, err
		case ctx.Err() == nil:
			c.ignoreDump(id, command, err, failed)
			failed = err
		case failed != nil:
			return wire.Dump{}, failed
		default:
			return wire.Dump{}, errors.New("none came")
		}
		pause(ctx, dumpLook)
	}
}

// IgnoredDumps counts the values that stood where a dump was waited for and were
// not it.
func (c *Commands) IgnoredDumps() uint64 { return c.ignoredDumps.Load() }

// readDump reads a dump; found is false if there is none yet.
func (c *Commands) readDump(ctx context.Context, id watchdog.ID, command, key string) (d wire.Dump, found bool, err error) {
	var value []byte
	for {
		piece, err := c.readPiece(ctx, key, int64(len(value)))
		if err != nil {
			return d, false, err
		}
		value = append(value, piece...)
		if len(value) > maxDumpValue {
			return d, false, strangeDump{fmt.Errorf("it is longer than %d bytes", maxDumpValue)}
		}
		if len(piece) < dumpPiece {
			break
		}
	}
	if len(value) == 0 {
		return d, false, nil
	}
	d, err = wire.DecodeDump(id, value)
	switch {
	case err != nil:
	case d.Command != command:
		err = fmt.Errorf("it is of command %q", d.Command)
	case d.Object != "":
		err = errors.New("it names an object, which Redis has none of")
	default:
		return d, true, nil
	}
	return wire.Dump{}, false, strangeDump{err}
}

// strangeDump is what is wrong with something that stands where a dump belongs.
type strangeDump struct{ why error }

func (s strangeDump) Error() string { return "what stands at its place is not it: " + s.why.Error() }

// ignoreDump counts what stands where a dump belongs, once while it stands there.
func (c *Commands) ignoreDump(id watchdog.ID, command string, now, before error) {
	var strange strangeDump
	if !errors.As(now, &strange) || before != nil && before.Error() == now.Error() {
		return
	}
	c.ignoredDumps.Add(1)
	c.logger.Debug("a dump was ignored", "session", id, "command", command, "reason", strange.why)
}

func (c *Commands) readPiece(ctx context.Context, key string, from int64) ([]byte, error) {
	got := make(chan []byte, 1)
	err := c.calls.do(ctx, func(ctx context.Context, cl *client) error {
		text, err := cl.GetRange(ctx, key, from, from+dumpPiece-1).Bytes()
		got <- text
		return err
	})
	switch {
	case isWrongType(err):
		return nil, strangeDump{errors.New("it is no string")}
	case err != nil:
		return nil, c.failed(err)
	}
	return <-got, nil
}
