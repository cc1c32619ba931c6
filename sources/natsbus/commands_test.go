//go:build unix

package natsbus_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func openCommands(t testing.TB, o natsbus.Options, co natsbus.CommandOptions) (*natsbus.Commands, func()) {
	t.Helper()
	var log logBuffer
	c, err := natsbus.OpenCommands(o, co, clock.System(), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	stop := sync.OnceFunc(func() {
		c.Close()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if t.Failed() {
			t.Logf("the log of commands:\n%s", log.String())
		}
	})
	t.Cleanup(stop)
	return c, stop
}

// desk is a receiver that keeps what it got.
type desk struct {
	mu  sync.Mutex
	got []natsbus.Delivery
}

func (d *desk) deliveries() []natsbus.Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]natsbus.Delivery(nil), d.got...)
}

// receive runs a receiver until the test ends or stop is called.
func (d *desk) receive(t testing.TB, c *natsbus.Commands, id watchdog.ID, knows []string, handle func(context.Context, *natsbus.Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Receive(ctx, id, knows, func(ctx context.Context, got *natsbus.Delivery) {
			d.mu.Lock()
			d.got = append(d.got, natsbus.Delivery{Command: got.Command, Deliveries: got.Deliveries})
			d.mu.Unlock()
			handle(ctx, got)
		})
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

func obey(ctx context.Context, d *natsbus.Delivery) {
	d.Acknowledge()
	_, _ = d.Finish(ctx, wire.FateEffective, "exit status 0 after 1.2 s")
}

func stopOf(id watchdog.ID, commandID string) wire.Command {
	return wire.Command{ID: commandID, Op: wire.OpStop, Session: id, Generation: 2, Reason: "wedged", IssuedBy: "ops1@host", At: time.Now(), Expires: time.Now().Add(10 * time.Minute)}
}

func sent(t *testing.T, c *natsbus.Commands, cmd wire.Command, wait time.Duration) natsbus.Sent {
	t.Helper()
	s, err := c.Send(within(t, wait), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func result(t *testing.T, c *natsbus.Commands, cmd wire.Command) wire.Result {
	t.Helper()
	r, err := c.Await(within(t, 30*time.Second), cmd.Session, cmd.ID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var onlyStop = []string{wire.OpStop}

func TestCommandIsObeyedOnce(t *testing.T) {
	t.Parallel()
	k := serveRealJetStream(t, sourcetest.RealBinary(t, "nats-server"))
	o, co := natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true, Name: "run@here/1"}
	operator, _ := openCommands(t, o, co)
	supervisor, _ := openCommands(t, o, co)
	var d desk
	d.receive(t, supervisor, "team.a:7", onlyStop, obey)
	cmd := stopOf("team.a:7", "c1")
	if s := sent(t, operator, cmd, 10*time.Second); s.Answer == nil || s.Answer.By != "run@here/1" {
		t.Errorf("nobody answered: %+v", s)
	}
	if r := result(t, operator, cmd); r.Fate != wire.FateEffective || r.Detail != "exit status 0 after 1.2 s" || r.Generation != 2 {
		t.Errorf("the result is %+v", r)
	}
	for range 3 { // the same once more
		if s := sent(t, operator, cmd, 10*time.Second); s.Answer == nil || s.Answer.Fate != wire.FateEffective {
			t.Errorf("a repeat is answered with %+v", s)
		}
	}
	third, _ := openCommands(t, o, co) // a process that knows nothing of it
	d.receive(t, third, "team.a:7", onlyStop, obey)
	if s := sent(t, operator, cmd, 10*time.Second); s.Answer == nil || s.Answer.Fate != wire.FateEffective {
		t.Errorf("a repeat is answered with %+v", s)
	}
	if got := d.deliveries(); len(got) != 1 || got[0].Command.Reason != "wedged" || got[0].Deliveries != 1 {
		t.Errorf("it was handled %d times: %+v", len(got), got)
	}
	if _, err := operator.WriteResult(t.Context(), wire.Result{Command: "c1", Session: "team.a:7", Fate: wire.FateTimedOut}); err != nil {
		t.Error(err)
	}
	if r := result(t, operator, cmd); r.Fate != wire.FateEffective {
		t.Errorf("the result became %+v", r)
	}
}

func TestCommandsWithoutJetStream(t *testing.T) {
	t.Parallel()
	server := serveEmbedded(t)
	o := natsbus.Options{URLs: []string{server.Address()}, User: "producer", Password: "p"} // it demands authentication
	operator, _ := openCommands(t, o, natsbus.CommandOptions{})
	if s := sent(t, operator, stopOf("nobody", "c0"), 5*time.Second); !s.Nobody() {
		t.Errorf("somebody took a command to nobody: %+v", s)
	}
	supervisor, _ := openCommands(t, o, natsbus.CommandOptions{})
	var d desk
	d.receive(t, supervisor, "a", onlyStop, func(ctx context.Context, got *natsbus.Delivery) {
		got.Acknowledge()
		time.Sleep(100 * time.Millisecond) // until the operator awaits the result
		_, _ = got.Finish(ctx, wire.FateIneffective, "it ignores SIGTERM")
	})
	cmd := stopOf("a", "c1")
	var s natsbus.Sent
	if !sourcetest.Eventually(10*time.Second, func() bool { s = sent(t, operator, cmd, time.Second); return s.Answer != nil }) {
		t.Fatal("nobody answers")
	}
	if s.Kept {
		t.Error("it is said to be kept")
	}
	if s.Answer.Fate == wire.FateAcknowledged {
		if r := result(t, operator, cmd); r.Fate != wire.FateIneffective || r.Detail != "it ignores SIGTERM" {
			t.Errorf("the result is %+v", r)
		}
	}
}

func TestKeptCommandWaitsForItsReceiver(t *testing.T) {
	t.Parallel()
	k := serveRealJetStream(t, sourcetest.RealBinary(t, "nats-server"))
	o, co := natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true}
	operator, _ := openCommands(t, o, co)
	cmd, old := stopOf("late", "c1"), stopOf("late", "c0")
	old.Expires = time.Now().Add(-time.Second)
	for _, c := range []wire.Command{old, cmd} {
		if s := sent(t, operator, c, time.Second); !s.Kept || s.Answer != nil {
			t.Errorf("a command that nobody takes: %+v", s)
		}
	}
	k.Kill(t)
	k.Restart(t)
	supervisor, _ := openCommands(t, o, co)
	var d desk
	d.receive(t, supervisor, "late", onlyStop, obey)
	if r := result(t, operator, cmd); r.Fate != wire.FateEffective {
		t.Errorf("the result is %+v", r)
	}
	if r := result(t, operator, old); r.Fate != wire.FateTimedOut {
		t.Errorf("the result of one that has expired is %+v", r)
	}
	if got := d.deliveries(); len(got) != 1 || got[0].Command.ID != "c1" {
		t.Errorf("%+v was handled", got)
	}
}

// fault 21
func TestCommandThatIsNeverFinished(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	o, co := natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true, Lease: 300 * time.Millisecond}
	c, _ := openCommands(t, o, co)
	var d desk
	d.receive(t, c, "deaf", onlyStop, func(context.Context, *natsbus.Delivery) {})
	cmd := stopOf("deaf", "c1")
	sent(t, c, cmd, 5*time.Second)
	if r := result(t, c, cmd); r.Fate != wire.FateUndeliverable || !strings.Contains(r.Detail, "3 times") {
		t.Errorf("the result is %+v", r)
	}
	for i, got := range d.deliveries() {
		if got.Deliveries != i+1 || got.Command.ID != "c1" {
			t.Errorf("delivery %d says that it is number %d of %s", i+1, got.Deliveries, got.Command.ID)
		}
	}
	if n := len(d.deliveries()); n != 3 {
		t.Errorf("it was delivered %d times", n)
	}
}

func TestLongHandlingIsNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	o, co := natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true, Lease: 300 * time.Millisecond}
	c, _ := openCommands(t, o, co)
	var d desk
	d.receive(t, c, "slow", onlyStop, func(ctx context.Context, got *natsbus.Delivery) {
		time.Sleep(1200 * time.Millisecond)
		obey(ctx, got)
	})
	cmd := stopOf("slow", "c1")
	sent(t, c, cmd, 5*time.Second)
	if r := result(t, c, cmd); r.Fate != wire.FateEffective || len(d.deliveries()) != 1 {
		t.Errorf("the result is %+v, after %d deliveries", r, len(d.deliveries()))
	}
}

func TestUnknownOpIsLeftToOthers(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	o, co := natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true, Lease: 200 * time.Millisecond}
	c, _ := openCommands(t, o, co)
	var d desk
	stop := d.receive(t, c, "a", onlyStop, obey)
	cmd := stopOf("a", "c1")
	cmd.Op = "defragment"
	if s := sent(t, c, cmd, time.Second); s.Answer != nil || !s.Kept {
		t.Errorf("an op that nobody knows: %+v", s)
	}
	stop()
	newer, _ := openCommands(t, o, co)
	d.receive(t, newer, "a", []string{"defragment"}, obey)
	if r := result(t, c, cmd); r.Fate != wire.FateEffective || len(d.deliveries()) != 1 {
		t.Errorf("the result is %+v, after %d deliveries", r, len(d.deliveries()))
	}
}

func TestUntrustedCommandsAreRefused(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, trusted := wire.SigningKey{ID: "ops1", Private: private}, wire.PublicKeys{"ops1": public}
	_, forged, _ := ed25519.GenerateKey(nil)
	open := serveEmbeddedJetStream(t) // lets anybody in
	o := natsbus.Options{URLs: []string{open.address}}
	for i, c := range []struct {
		name     string
		operator natsbus.CommandOptions
		receiver natsbus.CommandOptions
		fleet    string
		refused  string
	}{
		{"unsigned, no keys, anybody may come", natsbus.CommandOptions{}, natsbus.CommandOptions{}, "", "not signed by a configured key"},
		{"unsigned", natsbus.CommandOptions{}, natsbus.CommandOptions{Trusted: trusted, TrustLoopback: true}, "", "it is not signed"},
		{"signed by another", natsbus.CommandOptions{Key: wire.SigningKey{ID: "ops1", Private: forged}}, natsbus.CommandOptions{Trusted: trusted}, "", "not that of the key"},
		{"signed with an unknown key", natsbus.CommandOptions{Key: wire.SigningKey{ID: "me", Private: forged}}, natsbus.CommandOptions{Trusted: trusted}, "", `key "me"`},
		{"of another fleet", natsbus.CommandOptions{Key: key}, natsbus.CommandOptions{Trusted: trusted, Fleet: "ours"}, "theirs", "another fleet"},
		{"signed", natsbus.CommandOptions{Key: key}, natsbus.CommandOptions{Trusted: trusted, Fleet: "ours"}, "ours", ""},
		{"loopback", natsbus.CommandOptions{}, natsbus.CommandOptions{TrustLoopback: true}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := watchdog.ID(fmt.Sprintf("s%d", i))
			operator, _ := openCommands(t, o, c.operator)
			receiver, _ := openCommands(t, o, c.receiver)
			var d desk
			d.receive(t, receiver, id, onlyStop, obey)
			cmd := stopOf(id, "c1")
			cmd.Fleet = c.fleet
			var s natsbus.Sent
			if !sourcetest.Eventually(10*time.Second, func() bool { s = sent(t, operator, cmd, time.Second); return s.Answer != nil }) {
				t.Fatal("nobody answers")
			}
			if c.refused == "" {
				if r := result(t, operator, cmd); r.Fate != wire.FateEffective {
					t.Errorf("the result is %+v", r)
				}
				return
			}
			if s.Answer.Fate != wire.FateRefused || !strings.Contains(s.Answer.Detail, c.refused) || len(d.deliveries()) > 0 {
				t.Errorf("answered with %+v, handled %d times", s.Answer, len(d.deliveries()))
			}
		})
	}
}

func TestForgedCommandDoesNotSettleTheTrueOne(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	k := serveEmbeddedJetStream(t)
	o := natsbus.Options{URLs: []string{k.address}}
	receiver, _ := openCommands(t, o, natsbus.CommandOptions{Trusted: wire.PublicKeys{"ops1": public}})
	var d desk
	d.receive(t, receiver, "a", onlyStop, obey)
	forger, _ := openCommands(t, o, natsbus.CommandOptions{})
	operator, _ := openCommands(t, o, natsbus.CommandOptions{Key: wire.SigningKey{ID: "ops1", Private: private}})
	cmd := stopOf("a", "c1")
	forged := cmd
	forged.Generation = 9
	sent(t, forger, forged, time.Second)
	sent(t, operator, cmd, 5*time.Second)
	if r := result(t, operator, cmd); r.Fate != wire.FateEffective || r.Generation != 2 {
		t.Errorf("the result is %+v", r)
	}
}

func TestCommandWhoseResultIsForgedIsNotObeyed(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	c, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true, Lease: 200 * time.Millisecond})
	var d desk
	d.receive(t, c, "a", onlyStop, obey)
	first := stopOf("a", "c0")
	sent(t, c, first, 10*time.Second)
	result(t, c, first)
	if !k.put(t, wire.ResultSubject("a", "c1"), []byte("done")) {
		t.Fatal("nothing can be put there")
	}
	sent(t, c, stopOf("a", "c1"), 500*time.Millisecond)
	last := stopOf("a", "c2")
	sent(t, c, last, 10*time.Second)
	result(t, c, last)
	for _, got := range d.deliveries() {
		if got.Command.ID == "c1" {
			t.Error("it was obeyed")
		}
	}
}

func TestCommandsForAUserWhoMayNotAskJetStream(t *testing.T) {
	t.Parallel()
	k := serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), `authorization { users = [ { user: admin, password: a }
		{ user: agent, password: a, permissions: { publish: { allow: ["agent.result.>"] }, subscribe: ["agent.command.>", "_INBOX.>"], allow_responses: true } } ] }`)
	operator, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}, User: "admin", Password: "a"}, natsbus.CommandOptions{})
	agent, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}, User: "agent", Password: "a"}, natsbus.CommandOptions{})
	var d desk
	d.receive(t, agent, "a", onlyStop, obey)
	cmd := stopOf("a", "c1")
	if !sourcetest.Eventually(10*time.Second, func() bool { return sent(t, operator, cmd, time.Second).Answer != nil }) {
		t.Fatal("nobody answers")
	}
	if r := result(t, operator, cmd); r.Fate != wire.FateEffective {
		t.Errorf("the result is %+v", r)
	}
}

// A reply subject is what a stranger says, and the receiver may write to more
// subjects than he.
func TestReceiverWritesToNoSubjectOfAStrangersChoice(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	o := natsbus.Options{URLs: []string{k.address}}
	l, _ := openLedger(t, o, natsbus.LedgerOptions{})
	checked(t, l)
	receiver, _ := openCommands(t, o, natsbus.CommandOptions{TrustLoopback: true})
	var d desk
	d.receive(t, receiver, "a", onlyStop, obey)
	cmd := stopOf("a", "c1")
	payload, err := wire.EncodeCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := wire.Wrap(payload, wire.SigningKey{}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	result(t, receiver, func() wire.Command { // so that the receiver is there
		first := stopOf("a", "c0")
		sent(t, receiver, first, 10*time.Second)
		return first
	}())
	nc, _ := k.admin(t)
	for range 3 {
		if err := nc.PublishMsg(&nats.Msg{Subject: "agent.command.a", Reply: "agent.terminal.a.2", Data: envelope, Header: nats.Header{"Sw-Reply": {"agent.terminal.a.3"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if r := result(t, receiver, cmd); r.Fate != wire.FateEffective {
		t.Errorf("the result is %+v", r)
	}
	for g := watchdog.Generation(2); g <= 3; g++ {
		if r, found, err := l.Record(t.Context(), "a", g); found || g == 3 && err != nil {
			t.Errorf("generation %d has ended: %+v, %v", g, r, err)
		}
	}
}

func TestCommandsSurviveTheServersDeath(t *testing.T) {
	t.Parallel()
	k := serveRealJetStream(t, sourcetest.RealBinary(t, "nats-server"))
	o, co := natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true, Lease: time.Second}
	operator, _ := openCommands(t, o, co)
	supervisor, _ := openCommands(t, o, co)
	var d desk
	d.receive(t, supervisor, "a", onlyStop, obey)
	var commands []wire.Command
	for i := range 10 {
		cmd := stopOf("a", fmt.Sprintf("c%d", i))
		commands = append(commands, cmd)
		if i == 5 {
			k.Kill(t)
			k.Restart(t)
		}
		if !sourcetest.Eventually(20*time.Second, func() bool {
			s, err := operator.Send(within(t, time.Second), cmd)
			return err == nil && !s.Nobody()
		}) {
			t.Fatalf("command %d cannot be sent", i)
		}
	}
	for _, cmd := range commands {
		if r := result(t, operator, cmd); r.Fate != wire.FateEffective {
			t.Errorf("the result of %s is %+v", cmd.ID, r)
		}
	}
	seen := map[string]int{}
	for _, got := range d.deliveries() {
		seen[got.Command.ID]++
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was handled %d times by a receiver that finished it", id, n)
		}
	}
}

func TestCommandsLeaveNothingBehind(t *testing.T) {
	k := serveRealJetStream(t, sourcetest.RealBinary(t, "nats-server"))
	o, co := natsbus.Options{URLs: []string{k.address}}, natsbus.CommandOptions{TrustLoopback: true}
	warm, stopWarm := openCommands(t, o, co)
	sent(t, warm, stopOf("warm", "c0"), time.Second)
	stopWarm()
	before := goleak.IgnoreCurrent()
	c, stop := openCommands(t, o, co)
	var d desk
	stopReceiving := d.receive(t, c, "warm", onlyStop, obey)
	result(t, c, stopOf("warm", "c0"))
	stopReceiving()
	stop()
	goleak.VerifyNone(t, before)
	if _, err := c.Send(within(t, time.Second), stopOf("warm", "c1")); err == nil {
		t.Error("what was closed still sends")
	}
	if _, err := natsbus.OpenCommands(natsbus.Options{ReadOnly: true}, co, clock.System(), nil); !errors.Is(err, natsbus.ErrReadOnly) {
		t.Errorf("commands on a read-only bus: %v", err)
	}
}
