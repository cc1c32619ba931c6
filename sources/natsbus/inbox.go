package natsbus

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
// their ids. Without them it obeys whoever the server let in, if that demands
// authentication.
type Inbox struct {
	*orders.Inbox
	commands *Commands
}

// OpenInbox makes an Inbox that connects in the background. It checks the options
// and does not wait for the network; without an address it takes NATS_URL.
// Options that are read-only are refused. A nil log drops what would be logged.
// Close it after its sessions.
func OpenInbox(o Options, co CommandOptions, log *slog.Logger) (*Inbox, error) {
	if url := os.Getenv(URLVariable); len(o.URLs) == 0 && url != "" {
		o.URLs, o.Origin = []string{url}, URLVariable
	}
	co.Rules = co.OfGuard()
	c, err := OpenCommands(o, co, clock.System(), log)
	if err != nil {
		return nil, err
	}
	return &Inbox{orders.NewInbox(c), c}, nil
}

// String is what logs call it, without a password.
func (in *Inbox) String() string { return "commands from NATS " + in.commands.Link().Address }
