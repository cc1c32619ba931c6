package natsbus

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

func TestParseServers(t *testing.T) {
	for _, c := range []struct {
		name     string
		urls     []string
		dropUser bool
		want     []server
	}{
		{"none", nil, false, []server{{url: "nats://localhost:4222", display: "nats://localhost:4222"}}},
		{"bare", []string{"h"}, false, []server{{url: "nats://h:4222", display: "nats://h:4222"}}},
		{"bare with port", []string{" h:1 "}, false, []server{{url: "nats://h:1", display: "nats://h:1"}}},
		{"IPv6", []string{"tls://[::1]"}, false, []server{{url: "tls://[::1]:4222", display: "tls://[::1]:4222"}}},
		{"web sockets", []string{"ws://h,wss://h"}, false, []server{{url: "ws://h:80", display: "ws://h:80"}, {url: "wss://h:443", display: "wss://h:443"}}},
		{"list, twice the same", []string{"a,b", "a"}, false, []server{{url: "nats://a:4222", display: "nats://a:4222"}, {url: "nats://b:4222", display: "nats://b:4222"}}},
		{"user", []string{"nats://u:p@h"}, false, []server{{url: "nats://u:p@h:4222", display: "nats://h:4222"}}},
		{"token", []string{"t0ken@h"}, false, []server{{url: "nats://t0ken@h:4222", display: "nats://h:4222"}}},
		{"user given elsewhere", []string{"nats://u:p@h"}, true, []server{{url: "nats://h:4222", display: "nats://h:4222"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseServers(c.urls, c.dropUser)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(server{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDiscoveredServers(t *testing.T) {
	seeds := []server{{url: "tls://u:p@nats.example:4222", display: "tls://nats.example:4222"}}
	got := discovered(seeds, seeds[0], []string{"tls://10.0.0.2:4222", "tls://nats.example:4222", "tls://two.example:4222", "::bad"})
	want := append(seeds[:1:1],
		server{url: "tls://u:p@10.0.0.2:4222", display: "tls://10.0.0.2:4222", tlsName: "nats.example"},
		server{url: "tls://u:p@two.example:4222", display: "tls://two.example:4222"})
	if d := cmp.Diff(want, got, cmp.AllowUnexported(server{})); d != "" {
		t.Error(d)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("nats://10.0.%d.%d:4222", i/250, i%250))
	}
	if n := len(discovered(seeds, seeds[0], many)); n != maxServers {
		t.Errorf("%d servers are kept, want %d", n, maxServers)
	}
}

func TestPickReturnsToTheConfiguredServers(t *testing.T) {
	l := &link{plan: &plan{seeds: []server{{url: "a"}, {url: "b"}}}}
	pick := func(n int) (out string) {
		for range n {
			s, last := l.pick()
			out += s.url
			if last {
				out += "|"
			}
		}
		return out
	}
	if got := pick(4); got != "ab|ab|" {
		t.Errorf("without others: %s", got)
	}
	l.found = []server{{url: "x"}, {url: "y"}, {url: "z"}}
	l.tries = 0
	if got := pick(12); got != "axby|azbx|ayb"+"z|" {
		t.Errorf("with members of the cluster: %s", got)
	}
}

func TestBackoffStaysInBounds(t *testing.T) {
	for rounds := range 20 {
		for range 200 {
			if d := backoff(rounds); d < 500*time.Millisecond || d > 5*time.Second {
				t.Fatalf("round %d waits %v", rounds, d)
			}
		}
	}
	seen := map[time.Duration]bool{}
	for range 50 {
		seen[backoff(5)] = true
	}
	if len(seen) < 10 {
		t.Errorf("50 waits take %d values: a fleet would come back in step", len(seen))
	}
}

func TestReasonsAreShort(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true, Name: "h"}}, "no such host"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true, Name: "h"}}, "timed out"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving"}}, "name look-up failed"},
		{os.NewSyscallError("connect", syscall.EHOSTUNREACH), "unreachable"},
		{context.DeadlineExceeded, "timed out"},
		{nats.ErrTimeout, "timed out"},
		{io.EOF, "connection lost"},
		{nats.ErrStaleConnection, "no answer to ping"},
		{errNoAnswer, "no answer to ping"},
		{nats.ErrNoInfoReceived, "not a NATS server"},
		{nats.ErrAuthorization, "authentication refused: the server does not know this user, password, token or key"},
		{nats.ErrAuthExpired, "authentication refused: the credentials have expired"},
		{nats.ErrSecureConnWanted, "TLS: the server does not speak it, and it is demanded"},
		{fmt.Errorf("%w: %w", nats.ErrTLS, x509.UnknownAuthorityError{}), "TLS: the certificate is signed by an unknown authority"},
		{errors.New("remote error: tls: certificate required"), "TLS: the server wants a certificate of ours that it trusts"},
		{errors.New("nats: something \x1b[31mnew\r\n at nats://u:hunter2@h:1"), "something new at nats://u:***@h:1"},
		{errors.New(strings.Repeat("x", 500)), strings.Repeat("x", 99) + "…"},
	} {
		if got := reason(c.err); got != c.want {
			t.Errorf("reason(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}

// FuzzParseServer holds two promises for whatever stands in a configuration:
// no user is ever shown, and what is accepted can be dialled.
func FuzzParseServer(f *testing.F) {
	for _, seed := range []string{"nats://h:1", "u:p@h", "tls://[::1]:4222", "nats://u:p/w@h", "://", "nats://h:0", "ws://a,b", "h:4222@", "nats://\x1b]0;x\x07@h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseServer(text, false)
		if err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("%q: the error holds a control character", text)
			}
			return
		}
		if strings.Contains(s.display, "@") {
			t.Errorf("%q is shown as %q", text, s.display)
		}
		if again, err := parseServer(s.url, false); err != nil || again.display != s.display {
			t.Errorf("%q became %q, which reads as %+v, %v", text, s.url, again, err)
		}
		if _, _, err := net.SplitHostPort(s.display[strings.Index(s.display, "://")+3:]); err != nil {
			t.Errorf("%q is dialled as %q: %v", text, s.display, err)
		}
	})
}
