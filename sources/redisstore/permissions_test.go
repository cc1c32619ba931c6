//go:build unix

package redisstore

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// usersOfReadme are the lines that the README gives, each with a password.
func usersOfReadme() (lines []string) {
	for line := range strings.Lines(sourcetest.ReadmeBlock("user sweeper")) {
		if strings.HasPrefix(line, "user ") {
			lines = append(lines, strings.Replace(strings.TrimSpace(line), ">...", ">"+readerSecret, 1))
		}
	}
	return lines
}

// TestPermissions proves the users that the README gives: each can do its work, and
// an agent none of the others'.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := startReal(t, slices.Concat(durable, []string{"user default on >" + adminSecret + " ~* &* +@all"}, usersOfReadme())...)
	s.password = adminSecret
	as := func(user string) Options {
		o := fast(s.Address())
		o.Username, o.Password = user, readerSecret
		return o
	}
	beats := func(user string, id watchdog.ID) {
		t.Helper()
		g := openGuard(t, as(user), nil)
		session, _, err := guard.Start(t.Context(), guard.Options{ID: id, Publishers: []guard.Publisher{g}})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, user+" beats", func() bool { return s.admin.Exists(t.Context(), wire.LivenessKey(id)).Val() == 1 })
		session.Complete()
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
	beats("agent", "plain")
	beats("obeyer", "a")

	ledger, _ := openLedger(t, as("sweeper"))
	mustCheck(t, ledger)
	mustSettle(t, ledger, endOf("kept", 1, watchdog.OutcomeLost))
	if left, err := ledger.Outbox(t.Context(), 10); err != nil || len(left) != 1 {
		t.Errorf("the outbox: %+v, %v", left, err)
	}
	if err := watchdog.NameAuthority(t.Context(), ledger.Authority(), []watchdog.Marker{openConn(t, as("sweeper")).Marker()}); err != nil {
		t.Error(err)
	}
	sharesNotes(t, as("sweeper"), as("watcher"))

	operator, _ := openCommands(t, as("sweeper"), orders.Rules{Name: "ops"})
	agent, _ := openCommands(t, as("obeyer"), orders.Rules{Name: "agent", Lease: shortLease})
	obeysAndDumps(t, operator, agent)
	rec := &sourcetest.Recorder{}
	store, err := Open(as("watcher"), rec, testClock(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, store, nil)
	s.Send(t, "seen", []byte(`{"session_id":"seen","state":"running","uptime_secs":1,"credits_remaining":null,"current_task":null}`))
	rec.Wait(t, 60*time.Second, "a watcher sees beats", func() bool { return rec.Heard() > 0 })

	for _, user := range []string{"agent", "obeyer", "watcher"} {
		o := as(user)
		rogue := redis.NewClient(&redis.Options{Addr: s.Address(), Username: o.Username, Password: o.Password, Protocol: 2})
		for _, forged := range [][]any{
			{"SET", wire.TerminalKey("kept", 2), "{}"}, {"SET", wire.HeadKey("kept"), "{}"}, {"DEL", wire.TerminalKey("kept", 1)},
			{"HSET", "session:kept", "status", "expired"}, {"SET", wire.AuthorityKey, "{}"}, {"HSET", "sessionwatch:alerts", "a", "{}"},
			{"EVAL", "return 1", "0"}, {"FLUSHALL"}, {"CONFIG", "SET", "appendonly", "no"}, {"RENAME", wire.CommandsKey("kept"), wire.TerminalKey("kept", 3)},
		} {
			if err := rogue.Do(t.Context(), forged...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("%s: %v gives %v", user, forged, err)
			}
		}
		_ = rogue.Close()
	}
	plain, _ := openCommands(t, as("agent"), orders.Rules{})
	if a, err := plain.Carry(limited(t), sourcetest.CommandTo("a", "c9"), nil); err == nil {
		t.Errorf("an agent that only beats sent a command: %+v", a)
	}
}

// shortLease lets a command that nobody finished come again within the test.
const shortLease = time.Second

// obeysAndDumps has an agent take every step that it needs rights for: a command
// that it finishes, one that comes again, and a dump of many pieces.
func obeysAndDumps(t *testing.T, operator, agent *Commands) {
	t.Helper()
	var d sourcetest.Desk
	left := false
	d.Receive(t, agent, "a", sourcetest.OnlyStop(), func(ctx context.Context, got watchdog.Delivery) {
		if got.Command().ID == "again" && !left {
			left = true
			return
		}
		sourcetest.Obey(ctx, got)
	})
	for _, id := range []string{"c1", "again"} {
		if a, err := operator.Carry(limited(t), sourcetest.CommandTo("a", id), nil); err != nil || a.Fate != watchdog.FateEffective || a.By != "agent" {
			t.Errorf("%s: %v, the result is %+v", id, err, a)
		}
	}
	long := sourcetest.DumpOfCommand("a", "dump")
	long.Text = bytes.Repeat([]byte("frame\n"), dumpPiece/2)
	if err := agent.PublishDump(limited(t), long); err != nil {
		t.Errorf("an agent may not send a dump: %v", err)
	}
	if got, err := operator.AwaitDump(limited(t), "a", "dump", func() {}); err != nil || len(got.Text) != len(long.Text) {
		t.Errorf("%v, %d bytes of a dump came", err, len(got.Text))
	}
	own := sourcetest.DumpOfCommand("a", "")
	if err := operator.KeepDump(limited(t), own); err != nil {
		t.Errorf("a supervisor may not keep a dump: %v", err)
	}
	if kept, err := operator.KeptDumps(limited(t), "a", func(wire.Dump) bool { return false }); err != nil || len(kept) != 1 || !bytes.Equal(kept[0].Text, own.Text) {
		t.Errorf("%v; what is kept is %+v", err, kept)
	}
}
