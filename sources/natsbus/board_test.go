//go:build unix

package natsbus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

var _ watchdog.NoteBoard = (*natsbus.Board)(nil)

func TestNoteBoardOnRealServer(t *testing.T) {
	binary := sourcetest.RealBinary(t, "nats-server")
	sourcetest.RunNoteBoard(t, sourcetest.NoteBoardHarness{
		Encode: wire.EncodeNote,
		Serve: func(t testing.TB) sourcetest.NoteStore {
			k := serveRealJetStream(t, binary)
			return &noteServer{bucket{k.keeper}, k.Process}
		},
	})
}

func TestNoteBoardOnEmbeddedServer(t *testing.T) {
	sourcetest.RunNoteBoard(t, sourcetest.NoteBoardHarness{
		Encode: wire.EncodeNote, Synced: true,
		Serve: func(t testing.TB) sourcetest.NoteStore {
			k := serveEmbeddedJetStream(t)
			return &noteHost{bucket{k.keeper}, k}
		},
	})
}

// noteServer is a server that can be killed and stopped.
type noteServer struct {
	bucket
	*sourcetest.Process
}

// noteHost is one inside the test.
type noteHost struct {
	bucket
	mortal sourcetest.Mortal
}

func (n *noteHost) Kill(t testing.TB)    { n.mortal.Kill(t) }
func (n *noteHost) Restart(t testing.TB) { n.mortal.Restart(t) }

// bucket is the KV bucket of notes on a server.
type bucket struct{ keeper }

func (k bucket) Open(t testing.TB, readOnly bool) (watchdog.NoteBoard, func()) {
	t.Helper()
	return openBoard(t, natsbus.Options{URLs: []string{k.address}, Origin: "test", ReadOnly: readOnly})
}

func openBoard(t testing.TB, o natsbus.Options) (*natsbus.Board, func()) {
	t.Helper()
	var log sourcetest.Log
	b, err := natsbus.OpenBoard(o, 0, clock.System(), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	return b, sourcetest.Run(t, b, &log)
}

func (k bucket) PutRaw(t testing.TB, stored map[string][]byte) {
	t.Helper()
	nc, _ := k.admin(t)
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2*watchdog.MaxNotes))
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range stored {
		field := wire.NoteField(watchdog.AlertKey(key))
		if odd, ok := strings.CutPrefix(key, "!"); ok {
			field = odd
		}
		_, err := js.PublishMsgAsync(&nats.Msg{Subject: wire.BucketSubject(wire.AlertsBucket, field), Data: text})
		if err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(3 * time.Minute):
		t.Fatal("the server does not take the entries")
	}
}

func (k bucket) Count(t testing.TB) int {
	t.Helper()
	nc, js := k.admin(t)
	defer nc.Close()
	s, err := js.Stream(t.Context(), wire.BucketStream(wire.AlertsBucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

func ackOf(key watchdog.AlertKey, author string) watchdog.AlertNote {
	return watchdog.AlertNote{Key: key, Kind: watchdog.NoteAck, Author: author, Text: "seen", At: time.Now().UTC().Truncate(time.Millisecond)}
}

// TestNotesAsAKVBucket lets the tools for KV buckets read, write and delete them.
func TestNotesAsAKVBucket(t *testing.T) {
	k := bucket{serveEmbeddedJetStream(t).keeper}
	b, _ := openBoard(t, natsbus.Options{URLs: []string{k.address}, Origin: "test"})
	n := ackOf("a#1/stalled", "ops1")
	if err := b.Put(within(t, 60*time.Second), n); err != nil {
		t.Fatal(err)
	}
	_, js := k.admin(t)
	kv, err := js.KeyValue(t.Context(), wire.AlertsBucket)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), wire.NoteField(n.Key))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := wire.DecodeNote(n.Key, entry.Value()); err != nil || got != n {
		t.Errorf("a tool reads %+v, %v", got, err)
	}
	if err := kv.Delete(t.Context(), wire.NoteField(n.Key)); err != nil {
		t.Fatal(err)
	}
	sets := make(chan []watchdog.AlertNote, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = b.Watch(ctx, func(notes []watchdog.AlertNote) { sets <- notes }) }()
	if got := <-sets; len(got) != 0 {
		t.Errorf("what a tool deleted is told: %+v", got)
	}
	if err := b.Put(within(t, 60*time.Second), n); err != nil {
		t.Errorf("over what a tool deleted: %v", err)
	}
	if got := <-sets; len(got) != 1 {
		t.Errorf("%+v stands", got)
	}
	if err := kv.Purge(t.Context(), wire.NoteField(n.Key)); err != nil {
		t.Fatal(err)
	}
	if got := <-sets; len(got) != 0 {
		t.Errorf("what a tool purged is told: %+v", got)
	}
	if err := js.DeleteKeyValue(t.Context(), wire.AlertsBucket); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(within(t, 60*time.Second), n); err != nil {
		t.Errorf("after the bucket was deleted: %v", err)
	}
	if got := <-sets; len(got) != 1 {
		t.Errorf("%+v stands in a bucket that was made anew", got)
	}
}

// TestNotesWithoutJetStream says that such a server keeps none.
func TestNotesWithoutJetStream(t *testing.T) {
	server := serveEmbedded(t)
	o := natsbus.Options{URLs: []string{server.Address()}, Origin: "test", User: "producer", Password: "p"}
	b, _ := openBoard(t, o)
	if err := b.Put(within(t, 60*time.Second), ackOf("a#1/stalled", "ops1")); !errors.Is(err, natsbus.ErrNoJetStream) {
		t.Errorf("Put says %v", err)
	}
	if err := b.Watch(within(t, 60*time.Second), func([]watchdog.AlertNote) {}); !errors.Is(err, natsbus.ErrNoJetStream) {
		t.Errorf("Watch says %v", err)
	}
}

// TestNotesWithoutPermission says what the user may not, and waits for nothing.
func TestNotesWithoutPermission(t *testing.T) {
	k := bucket{serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), `
authorization { users = [
  { user: admin, password: a }
  { user: reader, password: a, permissions: { publish: ["$JS.API.STREAM.INFO.KV_SW_ALERTS", "$JS.API.STREAM.MSG.GET.KV_SW_ALERTS"], subscribe: ["_INBOX.>"] } }
  { user: nobody, password: a, permissions: { publish: { deny: ">" }, subscribe: ["_INBOX.>"] } }
] }`).keeper}
	as := func(user string) *natsbus.Board {
		b, _ := openBoard(t, natsbus.Options{URLs: []string{k.address}, Origin: "test", User: user, Password: "a"})
		return b
	}
	n := ackOf("a#1/stalled", "ops1")
	if err := as("admin").Put(within(t, 60*time.Second), n); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan []watchdog.AlertNote, 9)
	go func() { _ = as("reader").Watch(ctx, func(notes []watchdog.AlertNote) { told <- notes }) }()
	select {
	case notes := <-told:
		if len(notes) != 1 || notes[0] != n {
			t.Errorf("a reader sees %+v", notes)
		}
	case <-time.After(60 * time.Second):
		t.Error("a reader who may not subscribe sees nothing")
	}
	cancel()
	for _, user := range []string{"reader", "nobody"} {
		later := n
		later.At = n.At.Add(time.Second)
		if err := as(user).Put(within(t, 60*time.Second), later); err == nil || !strings.Contains(err.Error(), "may not publish") {
			t.Errorf("Put as %s says %v", user, err)
		}
	}
	if err := as("nobody").Watch(within(t, 60*time.Second), func([]watchdog.AlertNote) {}); err == nil || !strings.Contains(err.Error(), "may not") {
		t.Errorf("Watch as nobody says %v", err)
	}
}

// TestNotesByThePermissions proves the configuration that the README gives.
func TestNotesByThePermissions(t *testing.T) {
	conf := permissions
	for _, user := range []string{"agent", "viewer", "sweeper", "admin"} {
		conf = strings.Replace(conf, "$"+strings.ToUpper(user)+"_PASSWORD", "a", 1)
	}
	k := bucket{serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), conf).keeper}
	as := func(user string) *natsbus.Board {
		b, _ := openBoard(t, natsbus.Options{URLs: []string{k.address}, Origin: "test", User: user, Password: "a", ReadOnly: user == "viewer"})
		return b
	}
	sweeper := as("sweeper")
	spent := ackOf("spent#1/stalled", "ops1")
	spent.At = spent.At.Add(-60 * 24 * time.Hour)
	if err := sweeper.Put(within(t, 60*time.Second), spent); err != nil {
		t.Fatal(err)
	}
	n := ackOf("a#1/stalled", "ops1")
	if err := sweeper.Put(within(t, 60*time.Second), n); err != nil {
		t.Fatal(err)
	}
	if got := k.Count(t); got != 1 {
		t.Errorf("%d entries stand; what nobody needs was not removed", got)
	}
	told := make(chan []watchdog.AlertNote, 9)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = as("viewer").Watch(ctx, func(notes []watchdog.AlertNote) { told <- notes }) }()
	select {
	case notes := <-told:
		if len(notes) != 1 || notes[0] != n {
			t.Errorf("a viewer sees %+v", notes)
		}
	case <-time.After(60 * time.Second):
		t.Error("a viewer sees nothing")
	}
	n.At = n.At.Add(time.Second)
	if err := as("agent").Put(within(t, 60*time.Second), n); err == nil {
		t.Error("an agent writes a note")
	}
}
