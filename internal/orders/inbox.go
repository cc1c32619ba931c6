package orders

import (
	"context"
	"os"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// Way is what an Inbox takes its commands from.
type Way interface {
	watchdog.CommandInbox
	// Run serves the others, until ctx ends or Close is called.
	Run(ctx context.Context) error
	Close()
	PublishDump(ctx context.Context, d wire.Dump) error
	Refused() watchdog.RefusedCommands // counted by their fault
}

// Inbox is a Way with a goroutine of its own, as guarded sessions take one among
// guard.Options.Commands: Close it after its sessions.
type Inbox struct {
	way   Way
	ended chan struct{}
}

var (
	_ watchdog.CommandInbox = (*Inbox)(nil)
	_ guard.DumpPublisher   = (*Inbox)(nil)
)

// NewInbox runs a way that does not run yet.
func NewInbox(w Way) *Inbox {
	in := &Inbox{way: w, ended: make(chan struct{})}
	go func() {
		defer close(in.ended)
		_ = w.Run(context.Background()) // its only error is a second call
	}()
	return in
}

// Receive hands over the commands to a session, until ctx ends or Close is called.
func (in *Inbox) Receive(ctx context.Context, id watchdog.ID, knows []watchdog.Op, handle func(context.Context, watchdog.Delivery)) error {
	return in.way.Receive(ctx, id, knows, handle)
}

// PublishDump sends the stacks that an operator asked for over the way by which
// he did. A guarded session does so by itself.
func (in *Inbox) PublishDump(ctx context.Context, d guard.Dump) error {
	return in.way.PublishDump(ctx, wire.DumpOf(d.ID, d.BootID, d.Command, os.Getpid(), d.At, d.Text))
}

// Refused counts the commands that were not obeyed, by their fault.
func (in *Inbox) Refused() watchdog.RefusedCommands { return in.way.Refused() }

// Close ends the connection, and every Receive.
func (in *Inbox) Close() {
	in.way.Close()
	<-in.ended
}
