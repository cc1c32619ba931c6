package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// printer is a publisher for people: it prints each state that is new.
type printer struct {
	mu   sync.Mutex
	last string
}

func (p *printer) Publish(_ context.Context, m guard.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%s: %s", m.Beat.ID, m.Beat.State)
	if line != p.last {
		p.last = line
		fmt.Println(line)
	}
	return nil
}

// A session begins before the work and ends with it. Real publishers are
// natsbus.OpenGuard and redisstore.OpenGuard.
func ExampleStart() {
	s, ctx, err := guard.Start(context.Background(), guard.Options{
		ID:         "indexer",
		Publishers: []guard.Publisher{&printer{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	for chunk := 1; chunk <= 3 && ctx.Err() == nil; chunk++ {
		s.SetTask(fmt.Sprintf("chunk %d/3", chunk))
		for range 1000 { // tokens
			s.Touch()
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Complete()
	// Output:
	// indexer: running
	// indexer: completed
}

// A wait that is declared is no stall. Its answer is refused if the session was
// stopped meanwhile.
func ExampleSession_Wait() {
	s, ctx, err := guard.Start(context.Background(), guard.Options{ID: "deploy"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	answers := make(chan string)
	ask := func() error {
		end, err := s.Wait(watchdog.WaitHuman, time.Hour)
		if err != nil {
			return err
		}
		var answer string
		select {
		case answer = <-answers:
		case <-ctx.Done():
		}
		if err := end(); err != nil {
			return err
		}
		fmt.Println("the answer is", answer)
		return nil
	}

	go func() { answers <- "yes" }()
	fmt.Println(ask())
	time.AfterFunc(10*time.Millisecond, func() { s.Stop("an operator wants the machine") })
	fmt.Println(errors.Is(ask(), guard.ErrStopped))
	// Output:
	// the answer is yes
	// <nil>
	// true
}

// systemClock is the clock of a process; internal/clock has a better one.
type systemClock struct{}

func (systemClock) Now() watchdog.Instant { return watchdog.Instant{Wall: time.Now().UnixNano()} }

// An operator stops a session: its context is cancelled, and the command is
// effective when the session has ended. Real inboxes are natsbus.OpenInbox and
// redisstore.OpenInbox.
func ExampleOptions_commands() {
	commands := watchdog.NewLocalCommands(watchdog.LocalCommandOptions{Name: "indexer@eu1", Clock: systemClock{}})
	defer commands.Close()
	s, ctx, err := guard.Start(context.Background(), guard.Options{ID: "indexer", Commands: []watchdog.CommandInbox{commands}})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { // the work
		<-ctx.Done()
		s.Fail(context.Cause(ctx))
		s.Close()
	}()

	stop := watchdog.Command{
		ID: "01J", Op: watchdog.OpStop, Session: "indexer", BootID: s.BootID(), Reason: "wedged", IssuedBy: "ops1", Expires: time.Now().Add(time.Minute),
	}
	for {
		answer, err := commands.Carry(context.Background(), stop, nil)
		if errors.Is(err, watchdog.ErrNobody) { // it does not listen yet
			time.Sleep(time.Millisecond)
			continue
		}
		fmt.Println(answer.Fate, err)
		fmt.Println(answer.Detail)
		break
	}
	// Output:
	// effective <nil>
	// it has ended: stopped by ops1: wedged
}

// A budget warns once, then stops the work.
func ExampleBudget() {
	budget, err := guard.NewBudget(1, func(spent, max float64) {
		fmt.Printf("%.2f of %.2f credits are spent\n", spent, max)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, ctx, err := guard.Start(context.Background(), guard.Options{ID: "batch", Budget: budget})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	for call := 1; ; call++ {
		if err := budget.Spend(0.3); err != nil {
			fmt.Printf("call %d: %v\n", call, errors.Is(err, guard.ErrBudget))
			break
		}
	}
	fmt.Println(errors.Is(context.Cause(ctx), guard.ErrBudget))
	// Output:
	// 0.90 of 1.00 credits are spent
	// call 4: true
	// true
}

// A loop is watched from the outside. This one only tells; without DumpOnly the
// process would end with exit code 75.
func ExampleLoop() {
	events := make(chan func(), 16)
	done := make(chan struct{})
	wedged, recovered := make(chan struct{}), make(chan struct{})

	loop, err := guard.NewLoop(guard.LoopOptions{
		Name: "the agent's loop",
		Post: func(ack func()) bool {
			select {
			case events <- ack:
				return true
			case <-done: // a loop that has ended is not wedged
				return false
			}
		},
		Interval:  100 * time.Millisecond,
		Strikes:   3,
		DumpOnly:  true,
		Dump:      io.Discard,
		OnWedge:   func(time.Duration) { close(wedged) },
		OnRecover: func() { close(recovered) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for {
			select {
			case f := <-events:
				f()
			case <-done:
				return
			}
		}
	}()

	loop.Arm()
	events <- func() { <-wedged } // something blocks the loop
	<-wedged
	fmt.Println("wedged")
	<-recovered
	fmt.Println("recovered:", !loop.Wedged())

	loop.Disarm() // first at shutdown
	close(done)
	// Output:
	// wedged
	// recovered: true
}
