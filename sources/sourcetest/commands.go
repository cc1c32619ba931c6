//go:build unix

package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// Commands is a way of commands, and where they come out of it.
type Commands interface {
	watchdog.CommandWay
	watchdog.CommandInbox
	// Refused counts what was not obeyed.
	Refused() watchdog.RefusedCommands
}

// CommandBus is what carries commands: a server, this process. What else can be
// done to it, it shows by Mortal and CommandRogue.
type CommandBus interface {
	// Open opens the way as one more process would, and runs it. stop ends it and
	// returns when nothing of it runs.
	Open(t testing.TB, r orders.Rules) (c Commands, stop func())
}

// CommandLater is a CommandBus that can be opened by a process whose clock is
// ahead: as if its receiver had been away that long.
type CommandLater interface {
	OpenLater(t testing.TB, r orders.Rules, by time.Duration) (c Commands, stop func())
}

// CommandRogue is a CommandBus on which a stranger may put anything.
type CommandRogue interface {
	// PutCommand sends an envelope to the receivers of a session, as often as it
	// is called.
	PutCommand(t testing.TB, id watchdog.ID, envelope []byte)
	// PutResult writes something where the result of a command belongs. False
	// says that the bus keeps no results.
	PutResult(t testing.TB, id watchdog.ID, command string, stored []byte) bool
}

// CommandHarness is what the suite needs to know of a way of commands.
type CommandHarness struct {
	// Serve starts an empty bus. Unless Authenticated it lets anybody in, from
	// this machine alone.
	Serve func(t testing.TB) CommandBus
	// Keeps says that a command waits for its receiver, and that its one result
	// stands.
	Keeps bool
	// Authenticated says that whoever comes has proved who he is.
	Authenticated bool
	// Local says that nobody but this process can reach it, so that there is
	// nothing to distrust.
	Local bool
	// Forgets says that what it keeps is gone when it is killed.
	Forgets bool
	// Recounts says that it may forget how often it delivered a command when it is
	// killed.
	Recounts bool
	// Alone says that Serve empties one bus for each case.
	Alone bool
	// Patience is how long a change may take; 20 s if it is 0.
	Patience time.Duration
}

// RunCommands proves that a way of commands keeps the promises of
// watchdog.CommandWay, CommandInbox and Delivery.
func RunCommands(t *testing.T, h CommandHarness) {
	if h.Patience == 0 {
		h.Patience = 20 * time.Second
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, CommandHarness)
	}{
		// Those that wait long come first, so that the others run meanwhile.
		{"is not delivered again while it is handled", heldWhileHandled},
		{"has one fate each while the bus dies", oneFateEach},
		{"is undeliverable after the last delivery", undeliverable},
		{"comes again after its receiver died", comesAgain},
		{"is obeyed once", obeyedOnce},
		{"tells every word on the way in order", tellsWords},
		{"finds nobody", findsNobody},
		{"keeps sessions apart", keepsCommandsApart},
		{"waits for its receiver", waitsForReceiver},
		{"survives a handler that panics", survivesPanic},
		{"expires", expires},
		{"is not obeyed a day later", notADayLater},
		{"leaves an unknown op to others", leavesUnknownOps},
		{"refuses what is not trusted", refusesUntrusted},
		{"refuses a replay, after a restart too", refusesReplay},
		{"is not settled by a forgery", outlivesForgery},
		{"passes what cannot be read", passesUnreadable},
		{"is not obeyed if its result was forged", distrustsForgedResult},
		{"has one result that all learn", oneResult},
		{"stops a guarded session", stopsGuarded},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !h.Alone {
				t.Parallel()
			}
			c.run(t, h)
		})
	}
}

// trusting takes unsigned commands from this machine.
func trusting(name string) orders.Rules { return orders.Rules{TrustLoopback: true, Name: name} }

// CommandTo is a stop that is pinned to generation 2.
func CommandTo(id watchdog.ID, command string) watchdog.Command {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return watchdog.Command{ID: command, Op: watchdog.OpStop, Session: id, Generation: 2, Reason: "wedged", IssuedBy: "ops1@host", At: now, Expires: now.Add(watchdog.CommandTTL)}
}

// Desk is a receiver that remembers which commands it was handed.
type Desk struct {
	mu  sync.Mutex
	got []watchdog.Command
}

// Handed is how often a command was handed over; empty counts all.
func (d *Desk) Handed(command string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.got {
		if command == "" || c.ID == command {
			n++
		}
	}
	return n
}

// Receive takes commands until the test ends or stop is called, which waits.
func (d *Desk) Receive(t testing.TB, in watchdog.CommandInbox, id watchdog.ID, knows []watchdog.Op, handle func(context.Context, watchdog.Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = in.Receive(ctx, id, knows, func(ctx context.Context, got watchdog.Delivery) {
			d.mu.Lock()
			d.got = append(d.got, got.Command())
			d.mu.Unlock()
			handle(ctx, got)
		})
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

// OnlyStop is what most receivers of the suite know.
func OnlyStop() []watchdog.Op { return []watchdog.Op{watchdog.OpStop} }

// Obey takes a command and finishes it.
func Obey(ctx context.Context, d watchdog.Delivery) {
	_ = d.Acknowledge(ctx, "it is told to stop")
	_, _ = d.Finish(ctx, watchdog.FateEffective, "exit status 0 after 1.2 s")
}

// Carried is a command on its way.
type Carried struct {
	mu    sync.Mutex
	words []watchdog.Answer
	done  chan struct{}
	a     watchdog.Answer
	err   error
}

// CarryOn sends a command and lets the test go on.
func CarryOn(t testing.TB, w watchdog.CommandWay, c watchdog.Command) *Carried {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Carried{done: make(chan struct{})}
	t.Cleanup(func() { cancel(); <-s.done })
	go func() {
		defer close(s.done)
		s.a, s.err = w.Carry(ctx, c, func(a watchdog.Answer) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.words = append(s.words, a)
		})
	}()
	return s
}

// Words are those on the way, until now.
func (s *Carried) Words() []watchdog.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]watchdog.Answer(nil), s.words...)
}

// Heard reports whether a fate was heard on the way.
func (s *Carried) Heard(f watchdog.Fate) bool {
	for _, a := range s.Words() {
		if a.Fate == f {
			return true
		}
	}
	return false
}

// Result waits for what became of it.
func (s *Carried) Result(t testing.TB, within time.Duration) (watchdog.Answer, error) {
	t.Helper()
	select {
	case <-s.done:
		return s.a, s.err
	case <-time.After(within):
		t.Fatalf("no result came within %v; heard: %+v", within, s.Words())
		return watchdog.Answer{}, nil
	}
}

// begin sends a command until something is heard of it: a way that keeps nothing
// finds nobody before the receiver is there.
func (h CommandHarness) begin(t testing.TB, w watchdog.CommandWay, c watchdog.Command) *Carried {
	t.Helper()
	for began := time.Now(); ; {
		s := CarryOn(t, w, c)
		over := false
		if !Eventually(h.Patience, func() bool {
			select {
			case <-s.done:
				over = true
			default:
			}
			return over || len(s.Words()) > 0
		}) {
			t.Fatalf("nothing was heard of command %s", c.ID)
		}
		switch {
		case !over || s.err == nil:
			return s
		case !errors.Is(s.err, watchdog.ErrNobody) || h.Keeps || time.Since(began) > h.Patience:
			t.Fatalf("command %s was not carried: %v", c.ID, s.err)
		}
	}
}

// carry sends a command and waits for its result.
func (h CommandHarness) carry(t testing.TB, w watchdog.CommandWay, c watchdog.Command) watchdog.Answer {
	t.Helper()
	a, err := h.begin(t, w, c).Result(t, 3*h.Patience)
	if err != nil {
		t.Fatalf("command %s was not carried: %v", c.ID, err)
	}
	return a
}

func (h CommandHarness) open(t testing.TB, b CommandBus, name string) Commands {
	t.Helper()
	c, _ := b.Open(t, trusting(name))
	return c
}

func wantFate(t testing.TB, a watchdog.Answer, f watchdog.Fate) {
	t.Helper()
	if a.Fate != f {
		t.Errorf("the result is %q of %q by %q, want %q: %s", a.Fate, a.Command, a.By, f, a.Detail)
	}
}

func obeyedOnce(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	operator, supervisor := h.open(t, b, "ops"), h.open(t, b, "run@here/1")
	var d Desk
	d.Receive(t, supervisor, "team.a:7", OnlyStop(), Obey)
	cmd := CommandTo("team.a:7", "c1")
	for range 3 { // the same again is the same
		a := h.carry(t, operator, cmd)
		wantFate(t, a, watchdog.FateEffective)
		if a.Detail != "exit status 0 after 1.2 s" || a.By != "run@here/1" || a.Generation != 2 || a.Session != cmd.Session {
			t.Errorf("the result is %+v", a)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.got) != 1 || d.got[0] != cmd {
		t.Errorf("it was handed over %d times: %+v, want once %+v", len(d.got), d.got, cmd)
	}
}

func tellsWords(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	operator, supervisor := h.open(t, b, "ops"), h.open(t, b, "run@here/1")
	more, begun := make(chan struct{}), make(chan struct{})
	var d Desk
	d.Receive(t, supervisor, "a", OnlyStop(), func(ctx context.Context, got watchdog.Delivery) {
		_ = got.Acknowledge(ctx, "SIGTERM was sent")
		close(begun)
		<-more
		_ = got.Acknowledge(ctx, "SIGKILL was sent")
		<-more
		_, _ = got.Finish(ctx, watchdog.FateIneffective, "it survives")
	})
	s := h.begin(t, operator, CommandTo("a", "c1"))
	<-begun
	for _, detail := range []string{"SIGTERM was sent", "SIGKILL was sent"} {
		if !Eventually(h.Patience, func() bool {
			words := s.Words()
			return len(words) > 0 && words[len(words)-1].Fate == watchdog.FateAcknowledged && words[len(words)-1].Detail == detail
		}) {
			t.Fatalf("%q was never heard: %+v", detail, s.Words())
		}
		more <- struct{}{}
	}
	a, err := s.Result(t, h.Patience)
	if err != nil {
		t.Fatal(err)
	}
	wantFate(t, a, watchdog.FateIneffective)
	last := watchdog.FateNone
	for _, w := range s.Words() {
		if w.Fate < last || w.Fate.Final() {
			t.Errorf("the words come as %+v", s.Words())
		}
		last = w.Fate
		if w.Fate >= watchdog.FateDelivered && w.By != "run@here/1" {
			t.Errorf("%s is said by %q", w.Fate, w.By)
		}
	}
	if !s.Heard(watchdog.FateDelivered) || h.Keeps && !s.Heard(watchdog.FateRequested) {
		t.Errorf("heard were %+v", s.Words())
	}
}

func findsNobody(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	operator := h.open(t, b, "ops")
	s := CarryOn(t, operator, CommandTo("nobody", "c1"))
	if !h.Keeps {
		if _, err := s.Result(t, 2*h.Patience); !errors.Is(err, watchdog.ErrNobody) {
			t.Errorf("a command to nobody: %v", err)
		}
		return
	}
	if !Eventually(h.Patience, func() bool { return s.Heard(watchdog.FateRequested) }) {
		t.Fatalf("that it is kept was never heard: %+v", s.Words())
	}
	// Who asked decides how long is waited, and what became of it then.
	mine := watchdog.Answer{Command: "c1", Session: "nobody", Generation: 2, Fate: watchdog.FateTimedOut, Detail: "nothing was heard", By: "ops", At: time.Now().UTC().Truncate(time.Millisecond)}
	stands, err := operator.Conclude(t.Context(), mine)
	if err != nil || stands != mine {
		t.Errorf("%v, got %+v, want %+v", err, stands, mine)
	}
	a, err := s.Result(t, h.Patience)
	if err != nil {
		t.Fatal(err)
	}
	wantFate(t, a, watchdog.FateTimedOut)
	var d Desk
	d.Receive(t, h.open(t, b, "late"), "nobody", OnlyStop(), Obey)
	a = h.carry(t, operator, CommandTo("nobody", "c2"))
	wantFate(t, a, watchdog.FateEffective)
	if d.Handed("c1") > 0 {
		t.Error("a command was obeyed after its result stood")
	}
}

// stopsGuarded is an agent that embeds a guard: its stop is effective when it has
// ended, and a dump says how big it is.
func stopsGuarded(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	operator := h.open(t, b, "ops")
	for round, finishes := range []bool{false, true} {
		id := watchdog.ID(fmt.Sprintf("agent-%d", round))
		inbox, stopInbox := b.Open(t, trusting(string(id)))
		dumps := make(dumpTray, 1)
		s, ctx, err := guard.Start(t.Context(), guard.Options{ID: id, Commands: []watchdog.CommandInbox{inbox}, Dumps: dumps})
		if err != nil {
			t.Fatal(err)
		}
		dump := CommandTo(id, "dump")
		dump.Op, dump.Generation, dump.BootID = watchdog.OpDump, 0, s.BootID()
		wantFate(t, h.carry(t, operator, dump), watchdog.FateEffective)
		select {
		case d := <-dumps:
			if len(d.Text) == 0 || d.Command != "dump" {
				t.Errorf("the dump is %+v", d)
			}
		case <-time.After(h.Patience):
			t.Fatal("no dump came")
		}
		other := CommandTo(id, "other")
		other.BootID = "another"
		wantFate(t, h.carry(t, operator, other), watchdog.FateLostRace)
		if ctx.Err() != nil {
			t.Error("a command for another execution stopped this one")
		}
		stop := CommandTo(id, "stop")
		stop.Generation, stop.BootID = 0, s.BootID()
		on := h.begin(t, operator, stop)
		select {
		case <-ctx.Done():
		case <-time.After(h.Patience):
			t.Fatal("its work is not told to stop")
		}
		if !Eventually(h.Patience, func() bool { return on.Heard(watchdog.FateAcknowledged) }) {
			t.Errorf("that it is carried out was never heard: %+v", on.Words())
		}
		want := watchdog.FateEffective
		if finishes {
			s.Complete()
			want = watchdog.FateLostRace
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		stopInbox()
		a, err := on.Result(t, h.Patience)
		if err != nil {
			t.Fatal(err)
		}
		wantFate(t, a, want)
		if a.By != string(id) {
			t.Errorf("it is said by %q", a.By)
		}
	}
}

// dumpTray takes dumps.
type dumpTray chan guard.Dump

// PublishDump puts one into the tray.
func (d dumpTray) PublishDump(_ context.Context, dump guard.Dump) error {
	d <- dump
	return nil
}

func keepsCommandsApart(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	operator, supervisor := h.open(t, b, "ops"), h.open(t, b, "run")
	ids := []watchdog.ID{"a", "a.b", "a.b.c", "a:b", "日本"}
	desks := map[watchdog.ID]*Desk{}
	for _, id := range ids {
		desks[id] = &Desk{}
		desks[id].Receive(t, supervisor, id, OnlyStop(), Obey)
	}
	for i, id := range ids {
		a := h.carry(t, operator, CommandTo(id, fmt.Sprintf("c%d", i)))
		wantFate(t, a, watchdog.FateEffective)
	}
	for i, id := range ids {
		if d := desks[id]; d.Handed("") != 1 || d.Handed(fmt.Sprintf("c%d", i)) != 1 {
			t.Errorf("%s was handed %+v", id, d.got)
		}
	}
}

// Ahead is a clock whose wall time is ahead of another's.
type Ahead struct {
	watchdog.Clock
	By time.Duration
}

// Now is ahead by the wall alone.
func (a Ahead) Now() watchdog.Instant {
	now := a.Clock.Now()
	now.Wall += int64(a.By)
	return now
}
