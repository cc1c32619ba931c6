//go:build unix

package redisstore

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// deaf loses the server's first answer to each command: what was asked is done.
type deaf struct {
	mu   sync.Mutex
	lost map[string]bool
}

func (d *deaf) loses(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.lost[name]
	d.lost[name] = true
	return !before
}

func (d *deaf) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *deaf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if d.loses(cmd.Name()) {
			err = os.ErrDeadlineExceeded
			cmd.SetErr(err)
		}
		return err
	}
}

func (d *deaf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		name := "pipeline"
		for _, cmd := range cmds {
			name += " " + cmd.Name()
		}
		if d.loses(name) {
			err = os.ErrDeadlineExceeded
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// A server that is slow has often done what no answer came to in time.
func TestWhatNoAnswerCameToIsDoneAgain(t *testing.T) {
	t.Parallel()
	s := startReal(t)
	c, _ := openCommands(t, fast(s.Address()), orders.Rules{Name: "run"})
	silence := func() { c.calls.client.AddHook(&deaf{lost: map[string]bool{}}) }
	d := sourcetest.DumpOfCommand("a", "c1")
	d.Text = []byte(strings.Repeat("x\n", 1<<20))
	silence()
	if err := c.PublishDump(limited(t), d); err != nil {
		t.Errorf("a dump of several pieces: %v", err)
	}
	if got, err := c.AwaitDump(limited(t), "a", "c1", func() {}); err != nil || !bytes.Equal(got.Text, d.Text) {
		t.Errorf("%d bytes, %v", len(got.Text), err)
	}
	kept := sourcetest.DumpOfCommand("a", "")
	silence()
	if err := c.KeepDump(limited(t), kept); err != nil {
		t.Errorf("a dump that is kept: %v", err)
	}
	if n := s.admin.ZCard(t.Context(), wire.KeptDumpsKey).Val(); n != 1 {
		t.Errorf("%d dumps are kept", n)
	}
	cmd := sourcetest.CommandTo("a", "c1")
	a := watchdog.Answer{Command: cmd.ID, Session: cmd.Session, Generation: cmd.Generation, Fate: watchdog.FateEffective, Detail: "exit status 0", By: "run", At: cmd.At}
	silence()
	if stands, err := c.Conclude(limited(t), a); err != nil || stands != a {
		t.Errorf("%+v stands, %v", stands, err)
	}
}

// strangersWay is a way to a server on which some strangers are never answered.
type strangersWay struct {
	address string
	ignored atomic.Int32 // so many more of them
}

func newStrangersWay(t *testing.T, to string) *strangersWay {
	t.Helper()
	w := &strangersWay{}
	w.address = sourcetest.StartWay(t, to, w.carry)
	return w
}

func (w *strangersWay) carry(near, far net.Conn) {
	go func() {
		defer func() { _ = near.Close() }()
		pour(far, near, nil)
	}()
	known := false
	pour(near, far, func(sent []byte) bool {
		sent = bytes.ToLower(sent)
		known = known || bytes.Contains(sent, []byte("auth"))
		return known || !bytes.Contains(sent, []byte("xadd")) || w.ignored.Add(-1) < 0
	})
}

// pour copies what may go on.
func pour(from, to net.Conn, may func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if may != nil && !may(buf[:n]) {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A server that does not say in time whether it keeps strangers out does not make a
// command a stranger's.
func TestACommandWaitsUntilItIsKnownWhoMayComeIn(t *testing.T) {
	t.Parallel()
	s := startReal(t, "requirepass "+adminSecret)
	s.password = adminSecret
	way := newStrangersWay(t, s.Address())
	o := fast(way.address)
	o.Password = adminSecret
	receiver, _ := openCommands(t, o, orders.Rules{Name: "run"})
	operator, _ := openCommands(t, o, orders.Rules{Name: "ops"})
	way.ignored.Store(1)
	var desk sourcetest.Desk
	desk.Receive(t, receiver, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	a, err := operator.Carry(limited(t), sourcetest.CommandTo("a", "c1"), nil)
	if err != nil || a.Fate != watchdog.FateEffective || desk.Handed("c1") != 1 {
		t.Errorf("%+v, %v; handed over %d times", a, err, desk.Handed("c1"))
	}
	if left := way.ignored.Load(); left > 0 {
		t.Error("no stranger asked, so that nothing was proved")
	}
}

// A command that is handled for long was delivered once all the while, on a server
// that counts renewals too.
func TestRenewingIsNoDelivery(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string, admin *redis.Client) {
		c, _ := openCommands(t, fast(address), orders.Rules{Name: "run"})
		r := &receiver{commands: c, id: "a", key: wire.CommandsKey("a"), group: groupOf(sourcetest.OnlyStop())}
		if err := r.join(limited(t)); err != nil {
			t.Fatal(err)
		}
		ask := &redis.XReadGroupArgs{Group: r.group, Consumer: consumer, Streams: []string{r.key, ">"}}
		if err := admin.XAdd(t.Context(), &redis.XAddArgs{Stream: r.key, Values: []any{fieldCommand, "{}"}}).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := admin.XReadGroup(t.Context(), ask).Result()
		if err != nil {
			t.Fatal(err)
		}
		p := r.parcel(t.Context(), got[0].Messages[0], 1)
		for range 5 {
			p.Renew()
		}
		pending, err := admin.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: r.key, Group: r.group, Start: "-", End: "+", Count: 9}).Result()
		if err != nil || len(pending) != 1 || pending[0].RetryCount != 1 {
			t.Errorf("%+v, %v", pending, err)
		}
	})
}
