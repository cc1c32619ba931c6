package orders

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Rules say how commands are sent and taken. The zero value sends them unsigned
// and takes those that come over a server that demands authentication.
type Rules struct {
	Key           wire.SigningKey // signs what is sent
	Trusted       wire.PublicKeys // if there are any, only what they signed is taken
	TrustLoopback bool            // take unsigned ones from a server on this machine
	// Fleet gives the identity of the authority that is known here; commands of
	// another one are refused. Nil, empty: any.
	Fleet func() string

	Lease         time.Duration // after which a command that was not finished is delivered again; 60 s if 0
	MaxDeliveries int           // 3 if 0
	Name          string        // who we are in results, see ProcessName
	// Refused is told of each command that is not obeyed, besides what is counted
	// and logged; nil: nobody is. It must not block.
	Refused func(watchdog.RefusedCommand)
}

// WithDefaults fills in what is not set.
func (r Rules) WithDefaults() Rules {
	if r.Lease <= 0 {
		r.Lease = 60 * time.Second
	}
	if r.MaxDeliveries <= 0 {
		r.MaxDeliveries = 3
	}
	return r
}

// ProcessName is who this process is in results and records, by its part in them:
// "run@eu1-02/4700".
func ProcessName(part string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s@%s/%d", part, host, os.Getpid())
}

// OfGuard gives a guarded process its name in results, unless it has one.
func (r Rules) OfGuard() Rules {
	r.Name = cmp.Or(r.Name, ProcessName("guard"))
	return r
}

// fault says why a command is not obeyed; nil: it is.
func (r *Rules) fault(e wire.Envelope, p *Parcel) (watchdog.CommandFault, error) {
	switch {
	case len(r.Trusted) > 0:
		err := e.Verify(r.Trusted)
		if e.Signature == nil {
			return watchdog.CommandUnsigned, err
		}
		return watchdog.CommandSignature, err
	case p.Authenticated, r.TrustLoopback && p.Loopback:
		return 0, nil
	}
	return watchdog.CommandUnsigned, errNotTrusted
}

var errNotTrusted = errors.New("it is not signed by a configured key, and the server lets anybody in: set commands.public_keys, let the server demand authentication, or set commands.trust_loopback for one on this machine")

// otherFleet reports whether a command is for a fleet that is not ours.
func (r *Rules) otherFleet(c *watchdog.Command) bool {
	if r.Fleet == nil || c.Fleet == "" {
		return false
	}
	ours := r.Fleet()
	return ours != "" && c.Fleet != ours
}

// Seal writes a command as it is sent.
func (r *Rules) Seal(c watchdog.Command) ([]byte, error) {
	payload, err := wire.EncodeCommand(c)
	if err != nil {
		return nil, err
	}
	return wire.Wrap(payload, r.Key).Encode()
}
