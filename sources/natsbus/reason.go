package natsbus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
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
	return short(strings.TrimPrefix(err.Error(), "nats: "))
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
	var (
		lookup *net.DNSError
		timed  net.Error
	)
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "no such host"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	case errors.As(err, &timed) && timed.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "timed out"
	case errors.As(err, &lookup):
		return "name look-up failed"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "connection lost"
	}
	return ""
}

func tlsReason(err error) string {
	var (
		record  tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server does not speak it, and it is demanded"
	case errors.As(err, &record):
		return "the server does not speak it"
	case errors.As(err, &unknown):
		return "the certificate is signed by an unknown authority"
	case errors.As(err, &host):
		return "the certificate is for another host name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	}
	text := err.Error()
	i := strings.LastIndex(text, "tls: ")
	switch {
	case i >= 0 && (strings.Contains(text, "certificate required") || strings.Contains(text, "bad certificate")):
		return "the server wants a certificate of ours that it trusts"
	case i >= 0:
		return short(text[i+len("tls: "):])
	case errors.Is(err, nats.ErrTLS):
		return short(strings.TrimPrefix(text, nats.ErrTLS.Error()+": "))
	}
	return ""
}

// short makes text that may come from a server safe and fit for a header.
func short(text string) string {
	text = strings.Join(strings.Fields(termtext.Clean(termtext.RedactURL(text))), " ")
	const limit = 100
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}

// isSubscriptionDenied reports whether an error of the server stands on what we
// subscribed, not on what we published.
func isSubscriptionDenied(err error) bool {
	return errors.Is(err, nats.ErrMaxSubscriptionsExceeded) ||
		errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), "for subscription")
}
