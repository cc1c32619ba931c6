//go:build unix

package natsbus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func realCommands(t *testing.T) sourcetest.CommandHarness {
	binary := sourcetest.RealBinary(t, "nats-server")
	return sourcetest.CommandHarness{Keeps: true, Recounts: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		k := serveRealJetStream(t, binary)
		return &realCommandBus{commandBus{keeper: k.keeper, kept: true}, k}
	}}
}

func TestCommandsOverRealJetStream(t *testing.T) {
	t.Parallel()
	sourcetest.RunCommands(t, realCommands(t))
}

func TestCommandsLeaveNothingBehind(t *testing.T) {
	sourcetest.RunCommandsLeaveNothing(t, realCommands(t))
}

func TestCommandsOverEmbeddedJetStream(t *testing.T) {
	t.Parallel()
	sourcetest.RunCommands(t, sourcetest.CommandHarness{Keeps: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		return &commandBus{keeper: serveEmbeddedJetStream(t).keeper, kept: true}
	}})
}

func TestCommandsWithoutJetStream(t *testing.T) {
	t.Parallel()
	sourcetest.RunCommands(t, sourcetest.CommandHarness{Authenticated: true, Serve: func(t testing.TB) sourcetest.CommandBus {
		return &commandBus{keeper: keeper{serveEmbedded(t).Address()}, user: "producer", password: "p"}
	}})
}

// commandBus is a NATS server that carries commands.
type commandBus struct {
	keeper
	user, password string
	kept           bool
}

func (b *commandBus) options() natsbus.Options {
	return natsbus.Options{URLs: []string{b.address}, User: b.user, Password: b.password}
}

func (b *commandBus) Open(t testing.TB, r orders.Rules) (sourcetest.Commands, func()) {
	t.Helper()
	return openCommands(t, b.options(), r)
}

func (b *commandBus) OpenLater(t testing.TB, r orders.Rules, by time.Duration) (sourcetest.Commands, func()) {
	t.Helper()
	return openCommandsBy(t, b.options(), r, sourcetest.Ahead{Clock: clock.System(), By: by})
}

func (b *commandBus) put(t testing.TB, subject string, data []byte) {
	t.Helper()
	nc, err := nats.Connect(b.address, nats.UserInfo(b.user, b.password), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := errors.Join(nc.Publish(subject, data), nc.Flush()); err != nil {
		t.Fatal(err)
	}
}

func (b *commandBus) PutCommand(t testing.TB, id watchdog.ID, envelope []byte) {
	t.Helper()
	b.put(t, wire.CommandSubject(id), envelope)
}

func (b *commandBus) PutResult(t testing.TB, id watchdog.ID, command string, stored []byte) bool {
	t.Helper()
	b.put(t, wire.ResultSubject(id, command), stored)
	return b.kept
}

type realCommandBus struct {
	commandBus
	server *realKeeper
}

func (b *realCommandBus) Kill(t testing.TB)    { b.server.Kill(t) }
func (b *realCommandBus) Restart(t testing.TB) { b.server.Restart(t) }

func openCommands(t testing.TB, o natsbus.Options, r orders.Rules) (*natsbus.Commands, func()) {
	t.Helper()
	return openCommandsBy(t, o, r, clock.System())
}

func openCommandsBy(t testing.TB, o natsbus.Options, r orders.Rules, c watchdog.Clock) (*natsbus.Commands, func()) {
	t.Helper()
	var log sourcetest.Log
	opened, err := natsbus.OpenCommands(o, natsbus.CommandOptions{Rules: r}, c, log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	return opened, sourcetest.Run(t, opened, &log)
}

// carried sends a command until somebody is there, and gives its result.
func carried(t *testing.T, c *natsbus.Commands, cmd watchdog.Command) watchdog.Answer {
	t.Helper()
	var (
		a   watchdog.Answer
		err error
	)
	if !sourcetest.Eventually(time.Minute, func() bool { a, err = c.Carry(within(t, time.Minute), cmd, nil); return err == nil }) {
		t.Fatal(err)
	}
	return a
}

func TestReadOnlyBusCarriesNoCommand(t *testing.T) {
	if _, err := natsbus.OpenCommands(natsbus.Options{ReadOnly: true}, natsbus.CommandOptions{}, clock.System(), nil); !errors.Is(err, natsbus.ErrReadOnly) {
		t.Errorf("commands on a read-only bus: %v", err)
	}
}

func TestCommandsForAUserWhoMayNotAskJetStream(t *testing.T) {
	t.Parallel()
	k := serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), `authorization { users = [ { user: admin, password: a }
		{ user: agent, password: a, permissions: { publish: { allow: ["agent.result.>"] }, subscribe: ["agent.command.>", "_INBOX.>"], allow_responses: true } } ] }`)
	operator, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}, User: "admin", Password: "a"}, orders.Rules{Name: "ops"})
	agent, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}, User: "agent", Password: "a"}, orders.Rules{Name: "agent"})
	var d sourcetest.Desk
	d.Receive(t, agent, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	if !sourcetest.Eventually(time.Minute, func() bool {
		probe := sourcetest.CarryOn(t, operator, sourcetest.CommandTo("a", fmt.Sprintf("probe-%d", time.Now().UnixNano())))
		return sourcetest.Eventually(10*time.Second, func() bool { return probe.Heard(watchdog.FateDelivered) })
	}) {
		t.Fatal("the agent never hears of a command")
	}
	if a := carried(t, operator, sourcetest.CommandTo("a", "c1")); a.Fate != watchdog.FateEffective || a.By != "agent" {
		t.Errorf("the result is %+v", a)
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
	rules := orders.Rules{TrustLoopback: true}
	receiver, _ := openCommands(t, o, rules)
	var d sourcetest.Desk
	d.Receive(t, receiver, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	carried(t, receiver, sourcetest.CommandTo("a", "c0")) // so that it is there
	envelope, err := rules.Seal(sourcetest.CommandTo("a", "c1"))
	if err != nil {
		t.Fatal(err)
	}
	nc, _ := k.admin(t)
	for range 3 {
		if err := nc.PublishMsg(&nats.Msg{Subject: "agent.command.a", Reply: "agent.terminal.a.2", Data: envelope, Header: nats.Header{"Sw-Reply": {"agent.terminal.a.3"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if a := carried(t, receiver, sourcetest.CommandTo("a", "c1")); a.Fate != watchdog.FateEffective {
		t.Errorf("the result is %+v", a)
	}
	for g := watchdog.Generation(2); g <= 3; g++ {
		if r, found, err := l.Record(t.Context(), "a", g); found || g == 3 && err != nil {
			t.Errorf("generation %d has ended: %+v, %v", g, r, err)
		}
	}
}

// Somebody deletes what keeps commands, under who receives and who sends: both
// find that out, and what is sent then is obeyed, once.
func TestStreamsOfCommandsThatVanishAreMadeAnew(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	o := natsbus.Options{URLs: []string{k.address}}
	operator, _ := openCommands(t, o, orders.Rules{TrustLoopback: true, Name: "ops"})
	receiver, _ := openCommands(t, o, orders.Rules{TrustLoopback: true, Name: "run"})
	var d sourcetest.Desk
	d.Receive(t, receiver, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	carried(t, operator, sourcetest.CommandTo("a", "c1"))
	_, js := k.admin(t)
	for i, gone := range [][]string{{wire.CommandsStream}, {wire.ResultsStream}, {wire.CommandsStream, wire.ResultsStream}} {
		for _, stream := range gone {
			if err := js.DeleteStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
		}
		id := fmt.Sprintf("after-%d", i)
		if a := carried(t, operator, sourcetest.CommandTo("a", id)); a.Fate != watchdog.FateEffective || a.By != "run" || d.Handed(id) != 1 {
			t.Errorf("without %v: %+v, handed over %d times", gone, a, d.Handed(id))
		}
	}
	if n := d.Handed("c1"); n != 1 {
		t.Errorf("what was finished before was handed over %d times", n)
	}
}

// The same while no receiver is there: what is sent then is kept for it.
func TestCommandWaitsForItsReceiverInAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	operator, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}}, orders.Rules{TrustLoopback: true, Name: "ops"})
	kept := func(id string) *sourcetest.Carried {
		s := sourcetest.CarryOn(t, operator, sourcetest.CommandTo("a", id))
		if !sourcetest.Eventually(time.Minute, func() bool { return s.Heard(watchdog.FateRequested) }) {
			t.Errorf("%s is not kept", id)
		}
		return s
	}
	kept("before")
	_, js := k.admin(t)
	if err := js.DeleteStream(t.Context(), wire.CommandsStream); err != nil {
		t.Fatal(err)
	}
	s := kept("after")
	receiver, _ := openCommands(t, natsbus.Options{URLs: []string{k.address}}, orders.Rules{TrustLoopback: true, Name: "run"})
	var d sourcetest.Desk
	d.Receive(t, receiver, "a", sourcetest.OnlyStop(), sourcetest.Obey)
	if a, err := s.Result(t, time.Minute); err != nil || a.Fate != watchdog.FateEffective {
		t.Errorf("%+v, %v", a, err)
	}
}
