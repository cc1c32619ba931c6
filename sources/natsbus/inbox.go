package natsbus

import (
	"context"
	"log/slog"
	"os"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// Inbox is where guarded sessions get operators' commands from, as one of
// guard.Options.Commands. It may serve any number of sessions of a process.
//
// Whom it obeys, CommandOptions say: set Trusted to the operators' public keys by
// their ids. Without them it obeys whoever the server let in, if that demands
// authentication.
type Inbox struct {
	commands *Commands
	ended    chan struct{}
}

var (
	_ watchdog.CommandInbox = (*Inbox)(nil)
	_ guard.DumpPublisher   = (*Inbox)(nil)
)

// OpenInbox makes an Inbox that connects in the background. It checks the options
// and does not wait for the network; without an address it takes NATS_URL.
// Options that are read-only are refused. A nil log drops what would be logged.
// Close it after its sessions.
func OpenInbox(o Options, co CommandOptions, log *slog.Logger) (*Inbox, error) {
	if url := os.Getenv(URLVariable); len(o.URLs) == 0 && url != "" {
		o.URLs, o.Origin = []string{url}, URLVariable
	}
	c, err := OpenCommands(o, co, clock.System(), log)
	if err != nil {
		return nil, err
	}
	in := &Inbox{commands: c, ended: make(chan struct{})}
	go func() {
		defer close(in.ended)
		_ = c.Run(context.Background()) // its only error is a second call
	}()
	return in, nil
}

// String is what logs call it, without a password.
func (in *Inbox) String() string { return "commands from NATS " + in.commands.Link().Address }

// Receive hands over the commands to a session, until ctx ends or Close is called.
func (in *Inbox) Receive(ctx context.Context, id watchdog.ID, knows []watchdog.Op, handle func(context.Context, watchdog.Delivery)) error {
	return in.commands.Receive(ctx, id, knows, handle)
}

// PublishDump sends the stacks that an operator asked for over the bus by which
// he did. A guarded session does so by itself.
func (in *Inbox) PublishDump(ctx context.Context, d guard.Dump) error {
	return in.commands.PublishDump(ctx, wire.DumpOf(d.ID, d.BootID, d.Command, os.Getpid(), d.At, d.Text))
}

// Refused counts the commands that were not obeyed, by their fault.
func (in *Inbox) Refused() watchdog.RefusedCommands { return in.commands.Refused() }

// Close ends the connection.
func (in *Inbox) Close() {
	in.commands.Close()
	<-in.ended
}
