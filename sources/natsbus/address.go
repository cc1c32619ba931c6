package natsbus

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// maxServers bounds what a cluster may tell us of its members.
const maxServers = 64

// server is one place to dial.
type server struct {
	url     string // with its user, for the client library
	display string // without any user, for people
	tlsName string // the name that its certificate must have; empty: its host
}

// parseServers reads the addresses of the options. dropUser leaves out the
// users in them, for the options name another way to authenticate.
func parseServers(urls []string, dropUser bool) ([]server, error) {
	var out []server
	for _, list := range urls {
		for text := range strings.SplitSeq(list, ",") {
			text = strings.TrimSpace(text)
			if text == "" {
				continue
			}
			s, err := parseServer(text, dropUser)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	if len(out) == 0 {
		return parseServers([]string{DefaultURL}, dropUser)
	}
	return out, nil
}

func parseServer(text string, dropUser bool) (server, error) {
	full := text
	if !strings.Contains(full, "://") {
		full = "nats://" + full
	}
	bad := func(why string) (server, error) {
		return server{}, fmt.Errorf("nats.url: %s %s; write nats://host:4222, or tls://, ws://, wss://, and percent-encode / ? # @ %% in a password",
			termtext.Clean(termtext.RedactURL(text)), why)
	}
	u, err := url.Parse(full)
	if err != nil {
		// Its error quotes the address, and with it perhaps a password.
		return server{}, errors.New("nats.url: is not an address; write nats://host:4222, or tls://, ws://, wss://, and percent-encode / ? # @ % in a password")
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return bad("has a scheme that is none of nats, tls, ws, wss")
	}
	if u.Hostname() == "" {
		return bad("names no host")
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && strings.ContainsAny(u.Hostname(), ":[]%") {
		return bad("has a host that is neither a name nor an address; an IPv6 address stands in [ ]")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), defaultPort(u.Scheme))
	} else if n, err := strconv.Atoi(u.Port()); err != nil || n < 1 || n > 65535 {
		return bad("has a port that is not between 1 and 65535")
	}
	if dropUser {
		u.User = nil
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host}
	return server{url: u.String(), display: termtext.Clean(shown.String())}, nil
}

func defaultPort(scheme string) string {
	switch scheme {
	case "ws":
		return "80"
	case "wss":
		return "443"
	}
	return "4222"
}

// discovered adds the members of a cluster that the server at from told us of
// to those that are known. A member that is told as an address must have a
// certificate for the name that was configured.
func discovered(known []server, from server, urls []string) []server {
	known = slices.Clone(known)
	base, err := url.Parse(from.url)
	if err != nil {
		return known
	}
	for _, text := range urls {
		s, err := parseServer(text, true)
		if err != nil || len(known) >= maxServers {
			continue
		}
		if slices.ContainsFunc(known, func(k server) bool { return k.display == s.display }) {
			continue
		}
		u, err := url.Parse(s.url)
		if err != nil {
			continue
		}
		u.User = base.User
		s.url = u.String()
		if net.ParseIP(u.Hostname()) != nil {
			s.tlsName = from.tlsName
			if s.tlsName == "" && net.ParseIP(base.Hostname()) == nil {
				s.tlsName = base.Hostname()
			}
		}
		known = append(known, s)
	}
	return known
}

// isLoopback reports whether a connection never leaves this machine.
func isLoopback(a net.Addr) bool {
	if a == nil {
		return false
	}
	switch a.Network() {
	case "unix", "pipe":
		return true
	}
	ap, err := netip.ParseAddrPort(a.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
