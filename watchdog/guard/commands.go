package guard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// receiveAgain is how long a session waits before it listens again for commands
// after that was interrupted.
const receiveAgain = 5 * time.Second

// Dump is what an operator asked for: the stacks of all goroutines, as text.
type Dump struct {
	ID      watchdog.ID
	BootID  string
	Command string    // the command's id
	Reason  string    // as the operator gave it
	At      time.Time // wall clock
	Text    []byte
}

// A DumpPublisher takes dumps to where operators read them. It may wait until
// ctx ends.
type DumpPublisher interface {
	PublishDump(ctx context.Context, d Dump) error
}

// takes are the commands that a session carries out.
func (o *Options) takes() []watchdog.Op {
	if len(o.Commands) == 0 {
		return nil
	}
	ops := []watchdog.Op{watchdog.OpStop, watchdog.OpDump}
	if o.OnKill != nil {
		ops = append(ops, watchdog.OpKill)
	}
	if o.OnRestart != nil {
		ops = append(ops, watchdog.OpRestart)
	}
	return ops
}

// receive listens for commands until the session ends, and then until what was
// begun is answered. Whatever becomes of the bus costs the agent nothing.
func (s *Session) receive() {
	if len(s.o.Commands) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-s.over
		cancel()
	}()
	for _, in := range s.o.Commands {
		s.receiving.Go(func() {
			for ctx.Err() == nil {
				s.receiveFrom(ctx, in)
				again := time.NewTimer(receiveAgain)
				select {
				case <-again.C:
				case <-ctx.Done():
				}
				again.Stop()
			}
		})
	}
}

func (s *Session) receiveFrom(ctx context.Context, in watchdog.CommandInbox) {
	defer func() {
		if v := recover(); v != nil {
			s.o.Logger.Error("receiving commands panicked; it is tried again", "session", string(s.o.ID), "panic", v)
		}
	}()
	dumps := s.o.Dumps
	if back, ok := in.(DumpPublisher); ok && dumps == nil {
		dumps = back
	}
	handle := func(ctx context.Context, d watchdog.Delivery) { s.obey(ctx, d, dumps) }
	if err := in.Receive(ctx, s.o.ID, s.o.takes(), handle); err != nil && ctx.Err() == nil {
		s.o.Logger.Warn("commands are not received; it is tried again", "session", string(s.o.ID), "error", err)
	}
}

// obey carries one command out. It returns when there is nothing more to tell.
// dumps takes the stacks; nil: standard error does.
func (s *Session) obey(ctx context.Context, d watchdog.Delivery, dumps DumpPublisher) {
	ctx = context.WithoutCancel(ctx) // the end of the session is what is told
	c := d.Command()
	s.o.Logger.Info("an operator's command came", "session", string(s.o.ID), "op", string(c.Op), "by", c.IssuedBy, "reason", c.Reason)
	if why, ok := c.Meant(0, s.boot); !ok {
		f := watchdog.FateLostRace
		if c.BootID == "" {
			f = watchdog.FateRefused
		}
		s.answer(ctx, d, f, why)
		return
	}
	switch c.Op {
	case watchdog.OpStop:
		s.acknowledge(ctx, d, "its work is told to stop")
		s.stop("stopped by "+cmp.Or(c.IssuedBy, "an operator"), c.Reason, s.stopper(c))
		s.tellEnd(ctx, d)
	case watchdog.OpKill:
		s.acknowledge(ctx, d, "")
		s.called(ctx, d, s.o.OnKill)
	case watchdog.OpRestart:
		s.acknowledge(ctx, d, "")
		s.called(ctx, d, s.o.OnRestart)
	case watchdog.OpDump:
		s.acknowledge(ctx, d, "")
		s.dump(ctx, d, dumps)
	default:
		s.answer(ctx, d, watchdog.FateRefused, "this agent does not take this command")
	}
}

// stopper is what ends the work.
func (s *Session) stopper(c watchdog.Command) func() {
	if s.o.OnStop == nil {
		return func() { s.cancel(ErrStopped) }
	}
	return func() {
		defer func() {
			if v := recover(); v != nil {
				s.o.Logger.Error("OnStop panicked; the context of the work is cancelled instead", "session", string(s.o.ID), "panic", v)
				s.cancel(ErrStopped)
			}
		}()
		s.o.OnStop(c)
	}
}

// called lets the agent end itself.
func (s *Session) called(ctx context.Context, d watchdog.Delivery, f func(watchdog.Command) error) {
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("the agent's own function panicked: %v", v)
			}
		}()
		return f(d.Command())
	}()
	if err != nil {
		s.answer(ctx, d, watchdog.FateIneffective, err.Error())
		return
	}
	s.tellEnd(ctx, d)
}

// tellEnd waits for the end of the session and tells how it came.
func (s *Session) tellEnd(ctx context.Context, d watchdog.Delivery) {
	<-s.over
	s.mu.Lock()
	end, message := s.end, s.message
	s.mu.Unlock()
	if end == watchdog.StateCompleted {
		s.answer(ctx, d, watchdog.FateLostRace, "its work was done before it stopped: completed")
		return
	}
	detail := "it has ended"
	if message != "" {
		detail += ": " + message
	}
	s.answer(ctx, d, watchdog.FateEffective, detail)
}

// dump takes the stacks and sends them where operators read them; without such a
// place they go to standard error.
func (s *Session) dump(ctx context.Context, d watchdog.Delivery, dumps DumpPublisher) {
	c := d.Command()
	dump := Dump{ID: s.o.ID, BootID: s.boot, Command: c.ID, Reason: c.Reason, At: time.Now().UTC(), Text: stacks()}
	detail := fmt.Sprintf("%d goroutines, %d bytes", bytes.Count(dump.Text, []byte("\ngoroutine "))+1, len(dump.Text))
	limited, cancel := context.WithTimeout(ctx, dumpSendWithin)
	defer cancel()
	if dumps == nil {
		header := fmt.Sprintf("=== %s: %s asks for the stacks of all goroutines (pid %d)\n", dump.At.Format("2006-01-02T15:04:05.000Z"), cmp.Or(c.IssuedBy, "an operator"), os.Getpid())
		text := append([]byte(header), dump.Text...)
		if !within(dumpWithin, func() { _ = writeAll(os.Stderr, append(text, "=== end of the stacks\n\n"...)) }) {
			s.answer(ctx, d, watchdog.FateIneffective, detail+"; standard error does not drain")
			return
		}
		s.answer(ctx, d, watchdog.FateEffective, detail+", on the agent's standard error")
		return
	}
	err := fmt.Errorf("it did not end within %v", dumpSendWithin)
	sent := make(chan error, 1)
	if within(dumpSendWithin, func() { sent <- dumps.PublishDump(limited, dump) }) {
		select {
		case err = <-sent:
		default:
			err = fmt.Errorf("the publisher of dumps panicked")
		}
	}
	if err != nil {
		s.answer(ctx, d, watchdog.FateIneffective, detail+", which could not be sent: "+err.Error())
		return
	}
	s.answer(ctx, d, watchdog.FateEffective, detail)
}

// dumpSendWithin is how long a dump may take to leave.
const dumpSendWithin = 30 * time.Second

func (s *Session) acknowledge(ctx context.Context, d watchdog.Delivery, detail string) {
	ctx, cancel := context.WithTimeout(ctx, s.o.FlushTimeout)
	defer cancel()
	_ = d.Acknowledge(ctx, detail) // a word on the way; the result follows
}

func (s *Session) answer(ctx context.Context, d watchdog.Delivery, f watchdog.Fate, detail string) {
	ctx, cancel := context.WithTimeout(ctx, s.o.FlushTimeout)
	defer cancel()
	if _, err := d.Finish(ctx, f, detail); err != nil {
		s.o.Logger.Warn("the result of a command could not be told", "session", string(s.o.ID), "command", d.Command().ID, "fate", f.String(), "error", err)
	}
}
