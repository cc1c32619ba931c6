package natsbus

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
)

// errNoAnswer says that a ping was not answered in time.
var errNoAnswer = errors.New("no answer to ping")

// reason puts an error into few words, for the header of a screen. What a
// server said is cleaned and cut; no secret is ever part of it.
func reason(err error) string {
	if words := authReason(err); words != "" {
		return "authentication refused: " + words
	}
	if words := tlsReason(err); words != "" {
		return "TLS: " + words
	}
	if words := networkReason(err); words != "" {
		return words
	}
	switch {
	case errors.Is(err, errNoAnswer), errors.Is(err, nats.ErrStaleConnection):
		return "no answer to ping"
	case errors.Is(err, nats.ErrNoInfoReceived):
		return "not a NATS server"
	case errors.Is(err, nats.ErrMaxConnectionsExceeded), errors.Is(err, nats.ErrMaxAccountConnectionsExceeded):
		return "the server has too many connections"
	case errors.Is(err, nats.ErrConnectionClosed):
		return "connection lost"
	}
	return netreason.Short(strings.TrimPrefix(err.Error(), "nats: "))
}

func authReason(err error) string {
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return "the server does not know this user, password, token or key"
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAccountAuthExpired):
		return "the credentials have expired"
	case errors.Is(err, nats.ErrAuthRevoked):
		return "the credentials were revoked"
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return "the server takes no keys"
	case strings.Contains(strings.ToLower(err.Error()), "authentication timeout"):
		return "the server waited for credentials"
	}
	return ""
}

func networkReason(err error) string {
	if errors.Is(err, nats.ErrTimeout) {
		return netreason.TimedOut
	}
	return netreason.Network(err)
}

func tlsReason(err error) string {
	switch words := netreason.TLS(err); {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server does not speak it, and it is demanded"
	case words != "":
		return words
	case errors.Is(err, nats.ErrTLS):
		return netreason.Short(strings.TrimPrefix(err.Error(), nats.ErrTLS.Error()+": "))
	}
	return ""
}

// isSubscriptionDenied reports whether an error of the server stands on what we
// subscribed, not on what we published.
func isSubscriptionDenied(err error) bool {
	return errors.Is(err, nats.ErrMaxSubscriptionsExceeded) ||
		errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), "for subscription")
}
