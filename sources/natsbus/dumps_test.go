//go:build unix

package natsbus_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// PutDump publishes something where dumps of a session are heard.
func (b *commandBus) PutDump(t testing.TB, id watchdog.ID, _ string, stored []byte) {
	t.Helper()
	b.put(t, wire.DumpSubject(id), stored)
}

func TestDumpsOverRealJetStream(t *testing.T) {
	t.Parallel()
	sourcetest.RunDumps(t, sourcetest.DumpHarness{Serve: realCommands(t).Serve, Most: wire.MaxDumpBytes})
}

func TestDumpsLeaveNothingBehind(t *testing.T) {
	sourcetest.RunDumpsLeaveNothing(t, sourcetest.DumpHarness{Serve: realCommands(t).Serve, Most: wire.MaxDumpBytes})
}

func TestDumpsOverEmbeddedJetStream(t *testing.T) {
	t.Parallel()
	sourcetest.RunDumps(t, sourcetest.DumpHarness{Most: wire.MaxDumpBytes, Brief: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		return &commandBus{keeper: serveEmbeddedJetStream(t).keeper, kept: true}
	}})
}

// A server that keeps nothing carries as much as one message holds.
func TestDumpsWithoutJetStream(t *testing.T) {
	t.Parallel()
	sourcetest.RunDumps(t, sourcetest.DumpHarness{Most: 1<<20 - 1, Forgets: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		return &commandBus{keeper: keeper{serveEmbedded(t).Address()}, user: "producer", password: "p"}
	}})
}

// dumpRig is a server, and an operator who waits for dumps.
type dumpRig struct {
	*testing.T
	nc       *nats.Conn
	js       jetstream.JetStream
	operator *natsbus.Commands
}

func newDumpRig(t *testing.T) *dumpRig {
	k := serveEmbeddedJetStream(t)
	nc, err := nats.Connect(k.address, patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	operator, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}}, orders.Rules{Name: "ops"})
	return &dumpRig{t, nc, js, operator}
}

// stored gives the object store, which a test may fill as it likes.
func (r *dumpRig) store() jetstream.ObjectStore {
	r.Helper()
	store, err := r.js.CreateOrUpdateObjectStore(r.Context(), jetstream.ObjectStoreConfig{Bucket: wire.DumpsBucket})
	if err != nil {
		r.Fatal(err)
	}
	return store
}

// The store is made when it is needed, and is bounded in time and size.
func TestDumpStoreIsMadeWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	r := newDumpRig(t)
	d := sourcetest.DumpOfCommand("a", "c1")
	if err := r.operator.PublishDump(within(t, 60*time.Second), d); err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.ObjectStore(t.Context(), wire.DumpsBucket); err == nil {
		t.Error("it was made for a dump that fits into a message")
	}
	d.Text, d.Command = bytes.Repeat([]byte("x\n"), 1<<20), ""
	if err := r.operator.PublishDump(within(t, 60*time.Second), d); err == nil {
		t.Error("a long dump that nobody asked for was sent")
	}
	if _, err := r.js.ObjectStore(t.Context(), wire.DumpsBucket); err == nil {
		t.Error("it was made for a dump that nobody asked for")
	}
	d.Command = "c1"
	for range 2 { // the same again takes no more room
		if err := r.operator.PublishDump(within(t, 60*time.Second), d); err != nil {
			t.Fatal(err)
		}
	}
	store, err := r.js.ObjectStore(t.Context(), wire.DumpsBucket)
	if err != nil {
		t.Fatal(err)
	}
	status, err := store.Status(t.Context())
	if err != nil || status.TTL() != 7*24*time.Hour || status.Size() > 3<<20 {
		t.Errorf("%v, it keeps for %v and holds %d bytes", err, status.TTL(), status.Size())
	}
	stream, err := r.js.Stream(t.Context(), "OBJ_"+wire.DumpsBucket)
	if err != nil {
		t.Fatal(err)
	}
	if most := stream.CachedInfo().Config.MaxBytes; most <= wire.MaxDumpBytes || most > 1<<30 {
		t.Errorf("it may hold %d bytes", most)
	}
}

// Objects that are not what a message says of them are no dump, and the right one
// may still come.
func TestDumpObjectsThatLie(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x\n"), 1<<20)
	for name, c := range map[string]struct {
		put func(*dumpRig, jetstream.ObjectStore) error
		why string
	}{
		"missing": {func(*dumpRig, jetstream.ObjectStore) error { return nil }, "not in SW_DUMPS"},
		"removed": {func(r *dumpRig, s jetstream.ObjectStore) error {
			if _, err := s.PutBytes(r.Context(), "c1", text); err != nil {
				return err
			}
			return s.Delete(r.Context(), "c1")
		}, "not in SW_DUMPS"},
		"shorter": {func(r *dumpRig, s jetstream.ObjectStore) error {
			_, err := s.PutBytes(r.Context(), "c1", text[:100])
			return err
		}, "has 100 bytes"},
		"longer than any": {func(r *dumpRig, s jetstream.ObjectStore) error {
			_, err := s.PutBytes(r.Context(), "c1", bytes.Repeat(text, 10))
			return err
		}, "header says"},
		"a link": {func(r *dumpRig, s jetstream.ObjectStore) error {
			other, err := r.js.CreateObjectStore(r.Context(), jetstream.ObjectStoreConfig{Bucket: "secrets"})
			if err != nil {
				return err
			}
			info, err := other.PutBytes(r.Context(), "key", text)
			if err != nil {
				return err
			}
			_, err = s.AddLink(r.Context(), "c1", info)
			return err
		}, "a link"},
		"of lost pieces": {func(r *dumpRig, s jetstream.ObjectStore) error {
			if _, err := s.PutBytes(r.Context(), "c1", text); err != nil {
				return err
			}
			stream, err := r.js.Stream(r.Context(), "OBJ_"+wire.DumpsBucket)
			if err != nil {
				return err
			}
			return stream.DeleteMsg(r.Context(), 3)
		}, "cannot be read whole"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newDumpRig(t)
			if err := c.put(r, r.store()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				defer cancel()
				sourcetest.Eventually(time.Minute, func() bool { return r.operator.IgnoredDumps() > 0 })
			}()
			ready := func() {
				d := sourcetest.DumpOfCommand("a", "c1")
				d.Object, d.Bytes, d.Text = "c1", int64(len(text)), nil
				message, err := wire.EncodeDump(d)
				if err == nil {
					err = r.nc.Publish(wire.DumpSubject("a"), message)
				}
				if err != nil {
					t.Error(err)
				}
			}
			if d, err := r.operator.AwaitDump(ctx, "a", "c1", ready); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%d bytes came, %v; want %q", len(d.Text), err, c.why)
			}
			if r.operator.IgnoredDumps() != 1 {
				t.Errorf("%d are counted", r.operator.IgnoredDumps())
			}
		})
	}
}

// What answers a command is never put in the place of what somebody may be reading,
// not even the same again.
func TestDumpObjectsAreNeverReplaced(t *testing.T) {
	t.Parallel()
	r := newDumpRig(t)
	ctx := within(t, 60*time.Second)
	d := sourcetest.DumpOfCommand("a", "c1")
	names := map[string]string{} // of objects, with their NUID
	for _, line := range []string{"frame\n", "FRAME\n", "frame\n"} {
		d.Text = bytes.Repeat([]byte(line), 400_000)
		got, err := r.operator.AwaitDump(ctx, "a", "c1", func() {
			if err := r.operator.PublishDump(ctx, d); err != nil {
				t.Error(err)
			}
		})
		if err != nil || !bytes.Equal(got.Text, d.Text) {
			t.Errorf("%v, %d bytes came", err, len(got.Text))
		}
		list, err := r.store().List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			if before, there := names[o.Name]; there && before != o.NUID {
				t.Errorf("%s was replaced", o.Name)
			}
			names[o.Name] = o.NUID
		}
	}
	if len(names) != 2 {
		t.Errorf("two texts stand in %d objects", len(names))
	}
}

// When the store is full of what nobody removes, the oldest go.
func TestOldDumpsMakeRoom(t *testing.T) {
	t.Parallel()
	r := newDumpRig(t)
	if _, err := r.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: wire.DumpsBucket, MaxBytes: 12 << 20}); err != nil {
		t.Fatal(err)
	}
	d := sourcetest.DumpOfCommand("a", "")
	d.Text = bytes.Repeat([]byte("x\n"), 1<<19)
	var begun []time.Time
	for i := range 18 { // 1 MiB each
		begun = append(begun, time.Now())
		d.Command = "c" + string(rune('a'+i))
		if err := r.operator.PublishDump(within(t, 60*time.Second), d); err != nil {
			t.Fatalf("dump %d: %v", i, err)
		}
	}
	store, err := r.js.ObjectStore(t.Context(), wire.DumpsBucket)
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.List(t.Context())
	if err != nil || len(list) < 8 || len(list) > 11 {
		t.Errorf("%v, %d are kept", err, len(list))
	}
	var newest bool
	for _, o := range list {
		if o.ModTime.Before(begun[6]) {
			t.Errorf("one of %v is kept, while %d newer ones had to go", o.ModTime, len(begun)-len(list))
		}
		newest = newest || o.ModTime.After(begun[len(begun)-1])
	}
	if !newest {
		t.Error("the newest is gone")
	}
	d.Text, d.Command = bytes.Repeat([]byte("x\n"), 13<<19), "long"
	if err := r.operator.PublishDump(within(t, 60*time.Second), d); err != nil {
		t.Fatal(err)
	}
	if after, err := store.List(t.Context()); err != nil || len(after) != len(list) {
		t.Errorf("%v, for one that is longer than the whole store %d of %d are kept", err, len(after), len(list))
	}
}

func TestDumpsForWhoMayNot(t *testing.T) {
	t.Parallel()
	k := serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), `authorization { users = [ { user: admin, password: a }
		{ user: agent, password: a, permissions: { publish: { allow: ["agent.dump.>"] }, subscribe: ["agent.command.>", "_INBOX.>"] } }
		{ user: mute, password: a, permissions: { publish: { allow: ["agent.liveness.>"] }, subscribe: ["agent.liveness.>", "_INBOX.>"] } } ] }`)
	as := func(user string) *natsbus.Commands {
		c, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}, User: user, Password: "a"}, orders.Rules{Name: user})
		return c
	}
	operator, agent, mute := as("admin"), as("agent"), as("mute")
	long := sourcetest.DumpOfCommand("a", "c1")
	long.Text = bytes.Repeat([]byte("x\n"), 2<<20)
	ctx := within(t, 60*time.Second)
	d, err := operator.AwaitDump(ctx, "a", "c1", func() {
		go func() { // an agent may not reach the object store: as much as a message holds
			if err := agent.PublishDump(ctx, long); err != nil {
				t.Errorf("an agent may not send: %v", err)
			}
		}()
	})
	if err != nil || !d.Truncated || len(d.Text) < 900<<10 {
		t.Errorf("%v, %d bytes came, truncated %v", err, len(d.Text), d.Truncated)
	}
	if _, err := mute.AwaitDump(ctx, "a", "c1", func() {}); err == nil || !strings.Contains(err.Error(), "may not subscribe to agent.dump.a") {
		t.Errorf("who may not hear dumps is told %v", err)
	}
	if err := mute.PublishDump(ctx, sourcetest.DumpOfCommand("a", "c1")); err == nil || !strings.Contains(err.Error(), "may not publish to agent.dump.a") {
		t.Errorf("who may not send dumps is told %v", err)
	}
}
