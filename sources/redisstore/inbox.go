package redisstore

import (
	"log/slog"
	"os"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/orders"
)

// Inbox is where guarded sessions get operators' commands from, as one of
// guard.Options.Commands. It may serve any number of sessions of a process,
// until Close; Refused counts the commands that it did not obey.
//
// Whom it obeys, CommandOptions say: set Trusted to the operators' public keys by
// their ids. Without them it obeys whoever the server let in, if that lets in
// nobody who has not proved who he is.
type Inbox struct {
	*orders.Inbox
	commands *Commands
}

// OpenInbox makes an Inbox. It checks the options and leaves the network alone
// until it is used; without an address it takes REDIS_URL. Options that
// are read-only are refused. A nil logger drops what would be logged. Close it
// after its sessions.
func OpenInbox(o Options, co CommandOptions, logger *slog.Logger) (*Inbox, error) {
	if url := os.Getenv(URLVariable); o.URL == "" && len(o.Addrs) == 0 && url != "" {
		o.URL, o.Origin = url, URLVariable
	}
	co.Rules = co.OfGuard()
	c, err := OpenCommands(o, co, clock.System(), logger)
	if err != nil {
		return nil, err
	}
	return &Inbox{orders.NewInbox(c), c}, nil
}

// String is what logs call it, without a password.
func (in *Inbox) String() string { return "commands from Redis " + in.commands.Address() }
