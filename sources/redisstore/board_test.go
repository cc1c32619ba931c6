//go:build unix

package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

var _ watchdog.NoteBoard = (*Board)(nil)

func TestNoteBoardConformanceRealServer(t *testing.T) {
	sourcetest.RunNoteBoard(t, sourcetest.NoteBoardHarness{Encode: wire.EncodeNote, Serve: func(t testing.TB) sourcetest.NoteStore {
		s := startReal(t, durable...)
		return &noteServer{noteHash{s.admin, fast(s.Address())}, s}
	}})
}

func TestNoteBoardConformanceEmbeddedServer(t *testing.T) {
	sourcetest.RunNoteBoard(t, sourcetest.NoteBoardHarness{Encode: wire.EncodeNote, Serve: func(t testing.TB) sourcetest.NoteStore {
		admin, address := startMini(t)
		return noteHash{admin, fast(address)}
	}})
}

// TestNotesOnACluster writes and reads from any of its nodes.
func TestNotesOnACluster(t *testing.T) {
	o := clusterOptions(startCluster(t))
	sharesNotes(t, o, o)
}

// sharesNotes writes by one way to a store and reads by another.
func sharesNotes(t *testing.T, writes, reads Options) {
	t.Helper()
	writer, reader := openConn(t, writes).Board(), openConn(t, reads).Board()
	told := make(chan []watchdog.AlertNote, 9)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = reader.Watch(ctx, func(notes []watchdog.AlertNote) { told <- notes })
	}()
	defer func() { cancel(); <-over }()
	next := func() []watchdog.AlertNote {
		t.Helper()
		select {
		case notes := <-told:
			return notes
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is told")
			return nil
		}
	}
	if got := next(); len(got) != 0 {
		t.Fatalf("%+v stands at first", got)
	}
	n := noteOf("a#1/stalled")
	put(t, writer, n)
	if got := next(); len(got) != 1 || got[0] != n {
		t.Errorf("%+v is told", got)
	}
}

func noteOf(key watchdog.AlertKey) watchdog.AlertNote {
	return watchdog.AlertNote{Key: key, Kind: watchdog.NoteAck, Author: "ops1", Text: "seen", At: time.Now().UTC().Truncate(time.Millisecond)}
}

func put(t testing.TB, b watchdog.NoteBoard, n watchdog.AlertNote) {
	t.Helper()
	var err error
	if !sourcetest.Eventually(60*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = b.Put(ctx, n)
		return err == nil
	}) {
		t.Fatal(err)
	}
}

// noteServer is a server that can be killed and stopped.
type noteServer struct {
	noteHash
	*realServer
}

// noteHash is the hash of notes in a server.
type noteHash struct {
	admin   redis.UniversalClient
	options Options
}

func (n noteHash) Open(t testing.TB, readOnly bool) (watchdog.NoteBoard, func()) {
	t.Helper()
	o := n.options
	o.ReadOnly = readOnly
	c := openConn(t, o)
	return c.Board(), c.Close
}

func (n noteHash) PutRaw(t testing.TB, stored map[string][]byte) {
	t.Helper()
	pipe := n.admin.Pipeline()
	for key, text := range stored {
		field := wire.NoteField(watchdog.AlertKey(key))
		if odd, ok := strings.CutPrefix(key, "!"); ok {
			field = odd
		}
		pipe.HSet(context.Background(), wire.AlertsKey, field, text)
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (n noteHash) Count(t testing.TB) int {
	t.Helper()
	ctx := context.Background()
	exists, err := n.admin.Exists(ctx, wire.AlertsKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	if exists == 0 {
		return -1
	}
	count := n.admin.HLen(ctx, wire.AlertsKey).Val()
	if n.admin.HExists(ctx, wire.AlertsKey, wire.AlertsRevision).Val() {
		count--
	}
	return int(count)
}

// TestNotesInABadPlace says what is wrong with what stands at the key.
func TestNotesInABadPlace(t *testing.T) {
	s := startReal(t)
	b := openConn(t, fast(s.Address())).Board()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	refused := func(says string) {
		t.Helper()
		if err := b.Watch(ctx, func([]watchdog.AlertNote) {}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Watch says %v", err)
		}
	}
	s.admin.Set(ctx, wire.AlertsKey, "no hash", 0)
	refused("something else; remove it")
	if err := b.Put(ctx, noteOf("a#1/stalled")); err == nil || !strings.Contains(err.Error(), "something else; remove it") {
		t.Errorf("Put says %v", err)
	}
	s.admin.Del(ctx, wire.AlertsKey)
	s.admin.HSet(ctx, wire.AlertsKey, wire.NoteField("big#1/stalled"), strings.Repeat("x", maxBoardBytes+1))
	refused("more than notes can be")
}

// TestNotesWithoutPermission says what the user may not.
func TestNotesWithoutPermission(t *testing.T) {
	s := startReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, acl := range [][]any{
		{"ACL", "SETUSER", "viewer", "on", ">v", "~*", "+@read", "+@connection"},
		{"ACL", "SETUSER", "agent", "on", ">v", "~agent:liveness:*", "+@all"},
	} {
		if err := s.admin.Do(ctx, acl...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) *Board {
		o := fast(s.Address())
		o.Username, o.Password = user, "v"
		return openConn(t, o).Board()
	}
	n := noteOf("a#1/stalled")
	put(t, openConn(t, fast(s.Address())).Board(), n)
	reading, stop := context.WithCancel(ctx)
	var got []watchdog.AlertNote
	_ = as("viewer").Watch(reading, func(notes []watchdog.AlertNote) { got = notes; stop() })
	if len(got) != 1 || got[0] != n {
		t.Errorf("a viewer sees %+v", got)
	}
	later := n
	later.At = n.At.Add(time.Second)
	for _, user := range []string{"viewer", "agent"} {
		if err := as(user).Put(ctx, later); err == nil || !strings.Contains(err.Error(), "no permission") {
			t.Errorf("Put as %s says %v", user, err)
		}
	}
	if err := as("agent").Watch(ctx, func([]watchdog.AlertNote) {}); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("Watch as an agent says %v", err)
	}
}
