// Package netreason puts the errors of a connection into few words, for the
// header of a screen: the same words for the same trouble, whatever the server.
// It knows the network and TLS; what a server itself answers is its source's.
package netreason

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// TimedOut is the word for an answer that did not come in time.
const TimedOut = "timed out"

// Network is the word for an error below TLS; empty if it is none.
func Network(err error) string {
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
	case errors.As(err, &timed) && timed.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.As(err, &lookup):
		return "name look-up failed"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "connection lost"
	}
	return ""
}

// TLS says what is wrong with a handshake or a certificate; empty if err has
// nothing to do with them.
func TLS(err error) string {
	var (
		record  tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
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
	case i < 0:
		return ""
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"):
		return "the server wants a certificate of ours that it trusts"
	}
	return Short(text[i+len("tls: "):])
}

// shortRunes is as much of a foreign text as a header has room for.
const shortRunes = 100

// Short makes text that may come from a server safe, free of secrets, and short.
func Short(text string) string {
	text = strings.Join(strings.Fields(termtext.Clean(termtext.RedactURL(text))), " ")
	if r := []rune(text); len(r) > shortRunes {
		return string(r[:shortRunes-1]) + "…"
	}
	return text
}
