package natsbus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The object store of dumps, which is made when the first is too long for a
// message.
const (
	keepDumps    = 7 * 24 * time.Hour
	maxDumpStore = 512 << 20 // bytes; the oldest go first
	dumpsWaiting = 64        // messages of one session that may wait to be read
)

// PublishDump sends a dump of a session to whoever listens now, and returns when
// the server has it. Text that is too long for a message goes into the object
// store if a command asked for it, and is cut, with a last line that says so, on
// a server that keeps no objects. One that nobody asked for is not sent then.
func (c *Commands) PublishDump(ctx context.Context, d wire.Dump) error {
	if d.By == "" {
		d.By = c.options.Name
	}
	d.Cut(wire.MaxDumpBytes)
	conn, err := c.js.door.await(ctx, c.js.link)
	if err != nil {
		return plainly(err)
	}
	message, err := wire.EncodeDump(d)
	if err != nil {
		return err
	}
	if room := int(conn.nc.MaxPayload()); len(message) > room {
		if d.Command == "" {
			return fmt.Errorf("it has %d bytes, and a message of this server %d at most", len(d.Text), room)
		}
		if message, err = c.storeDump(ctx, conn, d, room, len(message)-len(d.Text)); err != nil {
			return err
		}
	}
	return plainly(c.js.publish(ctx, conn, wire.DumpSubject(d.Session), message))
}

// storeDump puts the text of a dump into the object store, and gives the message
// that names it; or one with as much of the text as it can hold.
func (c *Commands) storeDump(ctx context.Context, conn *conn, d wire.Dump, room, header int) ([]byte, error) {
	name := objectName(d.Command, d.Text)
	err := c.unlessDenied(ctx, func(ctx context.Context) error { return c.putObject(ctx, conn, name, d.Text) })
	switch {
	case err == nil:
		d.Object, d.Bytes, d.Text = name, int64(len(d.Text)), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it did not get into the object store %s in time: %w", wire.DumpsBucket, ctx.Err())
	default:
		c.js.log.Warn("a dump is cut to one message, since it cannot be kept as an object", "session", d.Session, "bytes", len(d.Text), "reason", netreason.Short(err.Error()))
		d.Cut(room - header - 64) // the header's numbers grow by a few digits
	}
	return wire.EncodeDump(d)
}

// objectName names the object of a text that answers a command. No two texts have
// one name, so that an object is never replaced while somebody reads it: a reader
// of the client library would wait in vain for the pieces of the old one.
func objectName(command string, text []byte) string {
	sum := sha256.New()
	_, _ = sum.Write(append([]byte(command), 0))
	_, _ = sum.Write(text)
	return "asked-" + hex.EncodeToString(sum.Sum(nil)[:16])
}

// putObject keeps a text in the object store of dumps, if it does not stand there
// already. If that is full, the oldest make room.
func (c *Commands) putObject(ctx context.Context, conn *conn, name string, text []byte) error {
	store, err := c.dumpStore(ctx, conn, true)
	if err != nil {
		return err
	}
	if there, err := store.GetInfo(ctx, name); err == nil && there.Size == uint64(len(text)) {
		return nil
	}
	if err := makeRoom(ctx, store, int64(len(text))); err != nil {
		return err
	}
	_, err = store.PutBytes(ctx, name, text)
	return err
}

// unlessDenied lets the client library work on the object store, which does not
// hear what the server refuses, until that is known.
func (c *Commands) unlessDenied(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	for {
		denial, err := c.js.refusedAbout("OBJ_"+wire.DumpsBucket, "$O."+wire.DumpsBucket+".", mayNotHear)
		if err != nil {
			cancel()
			<-done
			return err
		}
		select {
		case err := <-done:
			return err
		case <-denial:
		case <-c.js.door.quit:
			cancel()
			<-done
			return errClosed
		}
	}
}

// makeRoom removes the oldest objects until so many more bytes have a place.
func makeRoom(ctx context.Context, store jetstream.ObjectStore, more int64) error {
	kept, err := store.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	if err != nil {
		return err
	}
	status, err := store.Status(ctx)
	if err != nil {
		return err
	}
	most := int64(maxDumpStore)
	if s, ok := status.(*jetstream.ObjectBucketStatus); ok && s.StreamInfo().Config.MaxBytes > 0 { // whoever made it
		most = s.StreamInfo().Config.MaxBytes
	}
	if more > most { // no room that could be made is enough
		return fmt.Errorf("%d bytes are more than the object store %s may hold", more, wire.DumpsBucket)
	}
	total := more
	for _, o := range kept {
		total += int64(o.Size)
	}
	slices.SortFunc(kept, func(a, b *jetstream.ObjectInfo) int { return a.ModTime.Compare(b.ModTime) })
	for _, o := range kept {
		if total <= most/10*9 { // the rest is what the store itself needs
			break
		}
		if err := store.Delete(ctx, o.Name); err != nil {
			return err
		}
		total -= int64(o.Size)
	}
	return nil
}

// dumpStore opens the object store of dumps, and makes it if create is set and
// there is none.
func (c *Commands) dumpStore(ctx context.Context, conn *conn, create bool) (jetstream.ObjectStore, error) {
	js, err := jetstream.New(conn.nc)
	if err != nil {
		return nil, err
	}
	store, err := js.ObjectStore(ctx, wire.DumpsBucket)
	if create && errors.Is(err, jetstream.ErrBucketNotFound) {
		store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: wire.DumpsBucket, Description: "stack dumps of sessionwatch that are longer than a message",
			TTL: keepDumps, MaxBytes: maxDumpStore, Storage: jetstream.FileStorage, Replicas: max(c.options.Replicas, 1),
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another was faster
			store, err = js.ObjectStore(ctx, wire.DumpsBucket)
		}
	}
	return store, err
}

// AwaitDump waits for the dump that a command asks for, until ctx ends; its error
// then says what came instead. ready is called once, when everything that is
// published from then on is heard. It lasts over breaks of the connection, but
// what is published meanwhile is missed.
func (c *Commands) AwaitDump(ctx context.Context, id watchdog.ID, command string, ready func()) (wire.Dump, error) {
	a := &dumpWait{commands: c, id: id, command: command, ready: ready}
	for {
		conn, err := c.js.door.await(ctx, c.js.link)
		if err == nil {
			var d wire.Dump
			if d, err = a.on(ctx, conn); err == nil {
				return d, nil
			}
		}
		var denied *deniedError
		switch {
		case errors.As(err, &denied), errors.Is(err, errClosed):
			return wire.Dump{}, err
		case ctx.Err() != nil:
			return wire.Dump{}, a.missing(err)
		}
		a.breaks++
		pause(ctx, 200*time.Millisecond)
	}
}

// IgnoredDumps counts the messages that came on the subject of a session whose
// dump was waited for and were not it.
func (c *Commands) IgnoredDumps() uint64 { return c.ignoredDumps.Load() }

// dumpWait is one AwaitDump.
type dumpWait struct {
	commands *Commands
	id       watchdog.ID
	command  string
	ready    func() // nil: it was called
	ignored  int
	breaks   int   // connections that were lost
	failed   error // what was wrong with one that said it was it
}

// on waits on one connection.
func (a *dumpWait) on(ctx context.Context, conn *conn) (wire.Dump, error) {
	c, subject := a.commands, wire.DumpSubject(a.id)
	came := make(chan *nats.Msg, dumpsWaiting)
	sub, err := conn.nc.ChanSubscribe(subject, came)
	if err != nil {
		return wire.Dump{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if _, _, err := conn.roundTrip(ctx, askWithin); err != nil {
		return wire.Dump{}, err
	}
	if a.ready != nil {
		a.ready()
		a.ready = nil
	}
	for {
		denial, err := c.js.refused("subscribe to " + subject)
		if err != nil {
			return wire.Dump{}, err
		}
		select {
		case m := <-came:
			if d, ok := a.look(ctx, conn, m.Data); ok {
				return d, nil
			}
		case <-denial:
		case <-conn.closed:
			return wire.Dump{}, nats.ErrConnectionClosed
		case <-c.js.door.quit:
			return wire.Dump{}, errClosed
		case <-ctx.Done():
			return wire.Dump{}, ctx.Err()
		}
	}
}

// look takes in one message; ok if it is the dump.
func (a *dumpWait) look(ctx context.Context, conn *conn, data []byte) (d wire.Dump, ok bool) {
	c := a.commands
	d, err := wire.DecodeDump(a.id, data)
	if err == nil && d.Command == a.command {
		if d.Object == "" {
			return d, true
		}
		if err = c.unlessDenied(ctx, func(ctx context.Context) error { return c.fetchDump(ctx, conn, &d) }); err == nil {
			return d, true
		}
		a.failed = err
	}
	a.ignored++
	c.ignoredDumps.Add(1)
	c.js.log.Debug("a dump was ignored", "session", a.id, "command", d.Command, "reason", err)
	return wire.Dump{}, false
}

// missing says why there is no dump.
func (a *dumpWait) missing(last error) error {
	switch {
	case a.failed != nil:
		return a.failed
	case a.commands.js.door.now() == nil:
		return plainly(last)
	case a.breaks > 0:
		return errors.New("the connection was lost meanwhile, and it may have been sent then")
	case a.ignored > 0:
		return fmt.Errorf("none came; %d that were not it were ignored", a.ignored)
	}
	return errors.New("none came")
}

// fetchDump reads the text of a dump from the object store.
func (c *Commands) fetchDump(ctx context.Context, conn *conn, d *wire.Dump) error {
	ctx, cancel := context.WithTimeout(ctx, dumpWithin)
	defer cancel()
	store, err := c.dumpStore(ctx, conn, false)
	if err != nil {
		return fmt.Errorf("the object store %s cannot be read: %s", wire.DumpsBucket, netreason.Short(err.Error()))
	}
	info, err := store.GetInfo(ctx, d.Object)
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return fmt.Errorf("its object %s is not in %s", d.Object, wire.DumpsBucket)
	case err != nil:
		return fmt.Errorf("its object %s cannot be read: %s", d.Object, netreason.Short(err.Error()))
	case info.Opts != nil && info.Opts.Link != nil:
		return fmt.Errorf("its object %s is a link to somewhere else", d.Object)
	case info.Size > wire.MaxDumpBytes || int64(info.Size) != d.Bytes:
		return fmt.Errorf("its object %s has %d bytes, and its header says %d", d.Object, info.Size, d.Bytes)
	}
	object, err := store.Get(ctx, d.Object)
	if err != nil {
		return fmt.Errorf("its object %s cannot be read: %s", d.Object, netreason.Short(err.Error()))
	}
	defer func() { _ = object.Close() }()
	text, err := io.ReadAll(io.LimitReader(object, d.Bytes+1))
	if err == nil && int64(len(text)) != d.Bytes {
		err = fmt.Errorf("%d bytes of it came", len(text))
	}
	if err != nil {
		return fmt.Errorf("its object %s cannot be read whole: %s", d.Object, netreason.Short(err.Error()))
	}
	d.Text = text
	return nil
}

// dumpWithin bounds how long an object may take to come.
const dumpWithin = 20 * time.Second
