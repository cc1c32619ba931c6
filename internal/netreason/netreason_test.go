package netreason

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestNetwork(t *testing.T) {
	for want, err := range map[string]error{
		"no such host":        &net.DNSError{IsNotFound: true},
		"name look-up failed": &net.DNSError{Err: "server misbehaving"},
		"refused":             &net.OpError{Err: syscall.ECONNREFUSED},
		"unreachable":         syscall.ENETUNREACH,
		TimedOut:              context.DeadlineExceeded,
		"connection lost":     io.ErrUnexpectedEOF,
		"":                    errors.New("anything else"),
	} {
		if got := Network(fmt.Errorf("dial: %w", err)); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestTLS(t *testing.T) {
	for want, err := range map[string]error{
		"the server does not speak it":                          tls.RecordHeaderError{},
		"the certificate is signed by an unknown authority":     x509.UnknownAuthorityError{},
		"the certificate is for another host name":              x509.HostnameError{Certificate: &x509.Certificate{}},
		"the certificate has expired or is not valid yet":       x509.CertificateInvalidError{Reason: x509.Expired},
		"the server wants a certificate of ours that it trusts": errors.New("remote error: tls: certificate required"),
		"handshake failure":                                     errors.New("remote error: tls: handshake failure"),
		"":                                                      errors.New("something else"),
	} {
		if got := TLS(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	got := Short("dial \x1b[31mnats://u:hunter2@h:4222\x07: \n\n " + strings.Repeat("x", 500))
	if strings.Contains(got, "hunter2") || strings.ContainsAny(got, "\x1b\x07\n") || len([]rune(got)) != shortRunes {
		t.Errorf("%q", got)
	}
}
