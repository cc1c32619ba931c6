//go:build unix

package sourcetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Leases of the cases that wait for one to run out, and of those in which an heir
// or a renewal has to be in time. A machine that does much else may be late by a
// second.
const (
	shortLease  = time.Second
	renewsLease = 2 * time.Second
)

func waitsForReceiver(t *testing.T, h CommandHarness) {
	if !h.Keeps {
		t.Skip("this way keeps nothing")
	}
	b := h.Serve(t)
	operator := h.open(t, b, "ops")
	s := CarryOn(t, operator, CommandTo("late", "c1"))
	if !Eventually(h.Patience, func() bool { return s.Heard(watchdog.FateRequested) }) {
		t.Fatalf("that it is kept was never heard: %+v", s.Words())
	}
	if m, ok := b.(Mortal); ok {
		m.Kill(t)
		m.Restart(t)
	}
	var d Desk
	d.Receive(t, h.open(t, b, "run"), "late", OnlyStop(), Obey)
	a, err := s.Result(t, 3*h.Patience)
	if err != nil {
		t.Fatal(err)
	}
	wantFate(t, a, watchdog.FateEffective)
	if d.Handed("c1") != 1 {
		t.Errorf("it was handed over %d times", d.Handed("c1"))
	}
}

// A receiver dies with a command in its hands.
func comesAgain(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	operator := h.open(t, b, "ops")
	r := trusting("dying")
	r.Lease = renewsLease
	dying, kill := b.Open(t, r)
	taken := make(chan struct{})
	var first, second Desk
	stop := first.Receive(t, dying, "a", OnlyStop(), func(ctx context.Context, d watchdog.Delivery) {
		_ = d.Acknowledge(ctx, "")
		close(taken)
		<-ctx.Done() // until its process ends
	})
	s := h.begin(t, operator, CommandTo("a", "c1"))
	<-taken
	go kill()
	stop()
	r.Name = "heir"
	heir, _ := b.Open(t, r)
	second.Receive(t, heir, "a", OnlyStop(), Obey)
	a, err := s.Result(t, 3*h.Patience)
	if err != nil {
		t.Fatal(err)
	}
	wantFate(t, a, watchdog.FateEffective)
	if a.By != "heir" || first.Handed("c1") != 1 || second.Handed("c1") != 1 {
		t.Errorf("it was done by %q, after %d and %d deliveries", a.By, first.Handed("c1"), second.Handed("c1"))
	}
	if h.Keeps && !saysBefore(a) {
		t.Errorf("that another had it, and may have obeyed it, is not said: %q", a.Detail)
	}
}

func undeliverable(t *testing.T, h CommandHarness) {
	r := trusting("deaf")
	r.Lease = shortLease
	b := h.Serve(t)
	c, _ := b.Open(t, r)
	var d Desk
	d.Receive(t, c, "deaf", OnlyStop(), func(context.Context, watchdog.Delivery) {})
	a := h.carry(t, c, CommandTo("deaf", "c1"))
	wantFate(t, a, watchdog.FateUndeliverable)
	// A delivery that comes late may meet the one before: internal/orders counts
	// them in simulated time.
	if n := d.Handed("c1"); n < 1 || n > 3 {
		t.Errorf("it was handed over %d times, want 3", n)
	}
}

func heldWhileHandled(t *testing.T, h CommandHarness) {
	r := trusting("slow")
	r.Lease = renewsLease
	b := h.Serve(t)
	c, _ := b.Open(t, r)
	other, _ := b.Open(t, r)
	var d, e Desk
	let := make(chan struct{})
	slow := func(ctx context.Context, got watchdog.Delivery) {
		<-let
		Obey(ctx, got)
	}
	stop := d.Receive(t, c, "slow", OnlyStop(), slow)
	s := h.begin(t, c, CommandTo("slow", "c1"))
	if !Eventually(h.Patience, func() bool { return d.Handed("c1") == 1 }) {
		t.Fatal("it was never handed over")
	}
	if h.Keeps { // then two processes share what is kept
		e.Receive(t, other, "slow", OnlyStop(), slow)
	}
	time.AfterFunc(2*r.Lease, func() { close(let) })
	a, err := s.Result(t, 3*h.Patience)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	wantFate(t, a, watchdog.FateEffective)
	if d.Handed("c1")+e.Handed("c1") != 1 {
		t.Errorf("it was handed over %d times, and %d elsewhere", d.Handed("c1"), e.Handed("c1"))
	}
}

func survivesPanic(t *testing.T, h CommandHarness) {
	r := trusting("run")
	r.Lease = shortLease
	c, _ := h.Serve(t).Open(t, r)
	var d Desk
	var once sync.Once
	d.Receive(t, c, "a", OnlyStop(), func(ctx context.Context, got watchdog.Delivery) {
		once.Do(func() { panic("a nil map") })
		Obey(ctx, got)
	})
	wantFate(t, h.carry(t, c, CommandTo("a", "c1")), watchdog.FateEffective)
	if d.Handed("c1") != 2 {
		t.Errorf("it was handed over %d times", d.Handed("c1"))
	}
}

func expires(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	c := h.open(t, b, "run")
	var d Desk
	d.Receive(t, c, "a", OnlyStop(), Obey)
	old := CommandTo("a", "c1")
	old.Expires = time.Now().Add(-time.Hour)
	wantFate(t, h.carry(t, c, old), watchdog.FateTimedOut)
	refused := c.Refused()
	if d.Handed("") > 0 || refused.Of(watchdog.CommandExpired) != 1 {
		t.Errorf("it was handed over %d times; refused: %v", d.Handed(""), refused)
	}
}

// A receiver comes back after a day, and runs another execution by then.
func notADayLater(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	later, ok := b.(CommandLater)
	if !h.Keeps || !ok {
		t.Skip("this way keeps nothing")
	}
	operator := h.open(t, b, "ops")
	expired, patient := CommandTo("a", "expired"), CommandTo("a", "patient")
	patient.Expires = patient.At.Add(48 * time.Hour)
	on := []*Carried{CarryOn(t, operator, expired), CarryOn(t, operator, patient)}
	for _, s := range on {
		if !Eventually(h.Patience, func() bool { return s.Heard(watchdog.FateRequested) }) {
			t.Fatalf("that it is kept was never heard: %+v", s.Words())
		}
	}
	receiver, _ := later.OpenLater(t, trusting("run"), 24*time.Hour)
	var d Desk
	touched := false
	d.Receive(t, receiver, "a", OnlyStop(), func(ctx context.Context, got watchdog.Delivery) {
		c := got.Command()
		if why, ok := c.Meant(3, ""); !ok {
			_, _ = got.Finish(ctx, watchdog.FateLostRace, why)
			return
		}
		touched = true
		Obey(ctx, got)
	})
	for i, want := range []watchdog.Fate{watchdog.FateTimedOut, watchdog.FateLostRace} {
		a, err := on[i].Result(t, 3*h.Patience)
		if err != nil {
			t.Fatal(err)
		}
		wantFate(t, a, want)
	}
	if refused := receiver.Refused(); d.Handed("expired") > 0 || touched || refused.Of(watchdog.CommandExpired) != 1 {
		t.Errorf("what had expired was handed over %d times; #3 was touched: %v; refused: %v", d.Handed("expired"), touched, refused)
	}
}

func leavesUnknownOps(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	operator := h.open(t, b, "ops")
	r := trusting("older")
	r.Lease = shortLease // what it leaves comes again to it
	older, _ := b.Open(t, r)
	var d, e Desk
	stop := d.Receive(t, older, "a", OnlyStop(), Obey)
	wantFate(t, h.carry(t, operator, CommandTo("a", "c0")), watchdog.FateEffective)
	cmd := CommandTo("a", "c1")
	cmd.Op = "defragment"
	s := CarryOn(t, operator, cmd)
	if h.Keeps && !Eventually(h.Patience, func() bool { return s.Heard(watchdog.FateRequested) }) {
		t.Fatal("it is not kept")
	}
	wantFate(t, h.carry(t, operator, CommandTo("a", "c2")), watchdog.FateEffective) // so it was looked at
	if s.Heard(watchdog.FateDelivered) || s.Heard(watchdog.FateAcknowledged) || d.Handed("c1") > 0 {
		t.Errorf("an op that nobody knows: %+v", s.Words())
	}
	refused := older.Refused()
	if refused.Total() > 0 {
		t.Errorf("counted as refused: %v", refused)
	}
	stop()
	newer := h.open(t, b, "newer")
	e.Receive(t, newer, "a", []watchdog.Op{watchdog.OpStop, "defragment"}, Obey)
	if h.Keeps {
		if a, err := s.Result(t, 3*h.Patience); err != nil || a.Fate != watchdog.FateEffective || a.By != "newer" {
			t.Errorf("the newer receiver: %+v, %v", a, err)
		}
	} else {
		wantFate(t, h.carry(t, operator, cmd), watchdog.FateEffective)
	}
	if e.Handed("c0")+e.Handed("c2") > 0 || e.Handed("c1") != 1 {
		t.Errorf("the newer receiver was handed %+v", e.got)
	}
}

func oneResult(t *testing.T, h CommandHarness) {
	if !h.Keeps {
		t.Skip("this way keeps no results")
	}
	b := h.Serve(t)
	ways := []Commands{h.open(t, b, "one"), h.open(t, b, "two")}
	for round := range 4 {
		id := fmt.Sprintf("c%d", round)
		var d Desk
		raced := make(chan watchdog.Answer, 3)
		stop := d.Receive(t, ways[0], "a", OnlyStop(), func(ctx context.Context, got watchdog.Delivery) {
			a, err := got.Finish(ctx, watchdog.FateEffective, "by the receiver")
			if err != nil {
				t.Error(err)
			}
			raced <- a
		})
		s := CarryOn(t, ways[1], CommandTo("a", id))
		for i, w := range ways {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
				defer cancel()
				a, err := w.Conclude(ctx, watchdog.Answer{Command: id, Session: "a", Generation: 2, Fate: watchdog.FateTimedOut, Detail: fmt.Sprint("by sender ", i), At: time.Now()})
				if err != nil {
					t.Error(err)
				}
				raced <- a
			}()
		}
		stands, err := s.Result(t, h.Patience)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 + d.Handed(id) {
			if a := <-raced; a != stands {
				t.Errorf("%s: one learnt %+v, another %+v", id, a, stands)
			}
		}
		stop()
	}
}

// RunCommandsLeaveNothing proves that a way that was closed leaves no goroutine. It
// runs alone, and against a bus that is another process.
func RunCommandsLeaveNothing(t *testing.T, h CommandHarness) {
	if h.Patience == 0 {
		h.Patience = 20 * time.Second
	}
	b := h.Serve(t)
	run := func(name, id string) {
		c, stop := b.Open(t, trusting(name))
		var d Desk
		stopReceiving := d.Receive(t, c, "a", OnlyStop(), Obey)
		wantFate(t, h.carry(t, c, CommandTo("a", id)), watchdog.FateEffective)
		go stop()
		stopReceiving()
		stop()
		if _, err := c.Carry(t.Context(), CommandTo("a", id+"-late"), nil); err == nil {
			t.Error("what was closed still carries")
		}
	}
	run("warm", "c0")
	mine := goleak.IgnoreCurrent()
	run("counted", "c1")
	goleak.VerifyNone(t, mine)
}
