//go:build unix

package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// oneFateEach is the figure of the fault table: the bus is killed between what is
// published and its acknowledgement, while receivers stay, come late, die with
// commands in their hands, or never come.
func oneFateEach(t *testing.T, h CommandHarness) {
	b := h.Serve(t)
	bus, mortal := b.(Mortal)
	if !h.Keeps || !mortal {
		t.Skip("this way keeps nothing over the death of its bus")
	}
	commands, kills, receivers, deaths := 10, 1, 5, 1
	if Soaking() {
		commands, kills, receivers, deaths = 500, 20, 50, 3
	}
	f := &fallible{obeyed: map[string][]string{}, dead: map[string]bool{}}
	defer f.heirs.Wait()
	for i := range receivers {
		switch kindOf(i) {
		case stays:
			f.receive(t, b, i, 0, 0)
		case dies:
			f.receive(t, b, i, 0, deaths)
		}
	}
	operator := h.open(t, b, "ops")
	var on []*Carried
	every := max(1, commands/kills)
	for i := range commands {
		on = append(on, CarryOn(t, operator, CommandTo(receiverName(i%receivers), fmt.Sprintf("c%d", i))))
		if i%every == every/2 {
			time.Sleep(rand.N(300 * time.Millisecond)) // so that it hits any step
			bus.Kill(t)
			bus.Restart(t)
		}
	}
	for i := range receivers {
		if kindOf(i) == comesLate {
			f.receive(t, b, i, 0, 0)
		}
	}
	f.judge(t, h, b, operator, on, receivers)
	f.mu.Lock()
	defer f.mu.Unlock()
	keeps := ""
	if h.Forgets {
		keeps = " that keeps nothing"
	}
	Figure(t, "20, 21", fmt.Sprintf("%s%s killed %d times between publish and ack, %d commands to %d receivers: some away, some dying with commands in hands",
		operator.WayName(), keeps, kills, commands, receivers), "one final state each, nothing obeyed twice by one receiver",
		fmt.Sprintf("%v; %d receivers died; %d obeyed again by their heirs, %d of them without a word of it", f.fates, len(f.dead), f.again, f.untold))
}

// What becomes of a receiver.
const (
	stays = iota
	dies  // with a command in its hands; an heir comes
	comesLate
	neverComes
)

func kindOf(receiver int) int { return []int{stays, dies, comesLate, stays, neverComes}[receiver%5] }

func receiverName(i int) watchdog.ID { return watchdog.ID(fmt.Sprintf("a%d", i)) }

// fallible are receivers that fail, and what they did.
type fallible struct {
	mu     sync.Mutex
	obeyed map[string][]string // by command: the processes that did what it asks for
	dead   map[string]bool     // processes that died
	heirs  sync.WaitGroup
	fates  map[watchdog.Fate]int
	again  int // how many commands were obeyed again by an heir
	untold int // and how many of these do not say so
}

// receive opens the process of a receiver. It dies, and its heirs after it, with
// the first command that they get, while deaths are left.
func (f *fallible) receive(t testing.TB, b CommandBus, receiver, life, deaths int) {
	r := trusting(fmt.Sprintf("run-%d/%d", receiver, life))
	r.Lease = shortLease
	c, stop := b.Open(t, r)
	dying := make(chan struct{})
	die := sync.OnceFunc(func() {
		f.mu.Lock()
		f.dead[r.Name] = true
		f.mu.Unlock()
		close(dying)
	})
	var d Desk
	stopReceiving := d.Receive(t, c, receiverName(receiver), OnlyStop(), func(ctx context.Context, got watchdog.Delivery) {
		f.mu.Lock()
		id := got.Command().ID
		f.obeyed[id] = append(f.obeyed[id], r.Name)
		f.mu.Unlock()
		_ = got.Acknowledge(ctx, "it is told to stop")
		if deaths > 0 {
			die()
			<-ctx.Done()
			return
		}
		_, _ = got.Finish(ctx, watchdog.FateEffective, "exit status 0")
	})
	if deaths == 0 {
		return
	}
	f.heirs.Go(func() {
		select {
		case <-dying:
		case <-t.Context().Done():
			return
		}
		go stop()
		stopReceiving()
		stop()
		f.receive(t, b, receiver, life+1, deaths-1)
	})
}

// judge waits for every fate and holds it against what was done.
func (f *fallible) judge(t *testing.T, h CommandHarness, b CommandBus, operator Commands, on []*Carried, receivers int) {
	f.fates = map[watchdog.Fate]int{}
	reader := h.open(t, b, "reader")
	other := func(i int) watchdog.Answer {
		c := CommandTo(receiverName(i%receivers), fmt.Sprintf("c%d", i))
		return watchdog.Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: watchdog.FateTimedOut, Detail: "another", By: "reader", At: c.At}
	}
	for i := range on { // who asked decides how long is waited for those who never come
		if kindOf(i%receivers) == neverComes {
			mine := other(i)
			mine.Detail, mine.By = "nothing was heard", "ops"
			var err error
			if !Eventually(3*h.Patience, func() bool { // one that comes back reads its data first
				_, err = operator.Conclude(t.Context(), mine)
				return !errors.Is(err, watchdog.ErrUnknown) && !errors.Is(err, watchdog.ErrAuthorityAway)
			}) || err != nil {
				t.Errorf("command %d to nobody: %v", i, err)
			}
		}
	}
	for i, s := range on {
		a, err := s.Result(t, 6*h.Patience)
		if err != nil {
			t.Errorf("command %d: %v", i, err)
			continue
		}
		f.fates[a.Fate]++
		if wrong := f.wrong(h, a); wrong != "" {
			t.Errorf("command %d: %s; its result is %+v", i, wrong, a)
		}
		if h.Forgets {
			continue
		}
		stands, err := reader.Conclude(t.Context(), other(i)) // whoever else would conclude it learns the same
		if saysBefore(a) {                                    // which the sender may know alone
			stands.Detail = a.Detail
		}
		if err != nil || stands != a {
			t.Errorf("command %d: %v, its result is %+v to one and %+v to another", i, err, a, stands)
		}
	}
	if f.fates[watchdog.FateEffective] < len(on)/2 {
		t.Errorf("the fates are %v", f.fates)
	}
	if !h.Forgets {
		f.nothingOpen(t, h, b, receivers)
	}
}

// wrong says what is wrong with a result; empty: nothing.
func (f *fallible) wrong(h CommandHarness, a watchdog.Answer) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	by, alive := map[string]int{}, 0
	for _, process := range f.obeyed[a.Command] {
		by[process]++
		if !f.dead[process] {
			alive++
		}
		if by[process] > 1 {
			return process + " obeyed it twice"
		}
	}
	if len(by) > 1 {
		f.again++
	}
	switch {
	case alive > 1:
		return fmt.Sprintf("several obeyed it: %v", f.obeyed[a.Command])
	case alive == 1 && a.Fate != watchdog.FateEffective, len(by) == 0 && a.Fate == watchdog.FateEffective:
		return fmt.Sprintf("it was obeyed by %v", f.obeyed[a.Command])
	case len(by) > 1 && a.Fate == watchdog.FateEffective && !h.Forgets && !saysBefore(a):
		// Nobody is left who knows if the bus died with the receiver.
		f.untold++
		if !h.Recounts {
			return "that another may have obeyed it is not said"
		}
	}
	return ""
}

func saysBefore(a watchdog.Answer) bool {
	return strings.Contains(a.Detail, "it had been delivered before")
}

// nothingOpen reads everything that the bus keeps as somebody new, and obeys it
// all: nothing is left to obey.
func (f *fallible) nothingOpen(t *testing.T, h CommandHarness, b CommandBus, receivers int) {
	c := h.open(t, b, "auditor")
	desks, on := make([]Desk, receivers), make([]*Carried, receivers)
	for i := range receivers {
		desks[i].Receive(t, c, receiverName(i), []watchdog.Op{watchdog.OpStop, watchdog.OpDump}, Obey)
		last := CommandTo(receiverName(i), "last")
		last.Op = watchdog.OpDump
		on[i] = CarryOn(t, c, last)
	}
	for i := range receivers {
		a, err := on[i].Result(t, 3*h.Patience)
		if err != nil {
			t.Fatal(err)
		}
		wantFate(t, a, watchdog.FateEffective)
		if desks[i].Handed("") != 1 {
			t.Errorf("%s: still open were %+v", a.Session, desks[i].got)
		}
	}
}
