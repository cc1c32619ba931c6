package natsbus

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Limits of one connection.
const (
	dialWithin   = 2 * time.Second // name look-up included
	greetWithin  = 2 * time.Second // TLS and authentication included
	answerWithin = 10 * time.Second
	// writeWithin bounds how long a full socket may hold the client's lock.
	writeWithin = 5 * time.Second
)

// conn is one connection from its first byte to its last. It never comes back.
type conn struct {
	nc       *nats.Conn
	raw      net.Conn
	server   server
	warning  string
	mono     func() time.Duration
	closed   <-chan struct{} // the client library has given it up
	trouble  <-chan error    // errors of the server that leave it open
	lastAuth error           // owned by the link's goroutine
}

// connect dials and greets one server. It returns soon after ctx ends,
// whatever the network does.
func (p *plan) connect(ctx context.Context, s server, mono func() time.Duration) (*conn, error) {
	secret, err := p.secrets()
	if err != nil {
		return nil, err
	}
	d := &dialer{ctx: func() context.Context { return ctx }, dial: p.dial}
	closed := make(chan struct{})
	trouble := make(chan error, 64)
	o := p.clientOptions(s, secret)
	o.CustomDialer = d
	o.ClosedCB = func(*nats.Conn) { close(closed) }
	o.DisconnectedErrCB = func(*nats.Conn, error) {}
	// Without a handler of ours the library writes to stderr: the screen.
	o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case trouble <- err:
		default: // the link has 64 others to read; this one tells nothing new
		}
	}
	nc, err := o.Connect()
	release := d.release()
	if err != nil {
		release()
		return nil, d.explain(ctx, err)
	}
	c := &conn{nc: nc, raw: d.conn, server: s, mono: mono, closed: closed, trouble: trouble}
	// From here on the link closes the connection itself.
	if !release() {
		c.close()
		return nil, ctx.Err()
	}
	c.warning = c.transportWarning()
	return c, nil
}

func (p *plan) clientOptions(s server, secret secrets) nats.Options {
	o := nats.GetDefaultOptions()
	o.Servers = []string{s.url}
	o.Name = p.Name
	o.AllowReconnect = false // a link makes its connections itself, see the package comment
	o.ReconnectBufSize = -1
	o.NoRandomize = true
	o.SkipHostLookup = true // our dialer looks up, within its limit
	o.Timeout = greetWithin
	o.PingInterval = 5 * time.Second
	o.MaxPingsOut = 2
	o.FlusherTimeout = writeWithin
	o.User, o.Password, o.Token = p.User, secret.password, secret.token
	if secret.key != nil {
		o.SignatureCB = secret.key.Sign
		if secret.jwt != "" {
			o.UserJWT = func() (string, error) { return secret.jwt, nil }
		} else if public, err := secret.key.PublicKey(); err == nil {
			o.Nkey = public
		}
	}
	if secret.tls != nil || strings.HasPrefix(s.url, "tls:") || strings.HasPrefix(s.url, "wss:") {
		o.Secure = true
	}
	o.TLSConfig = secret.tls
	if o.TLSConfig == nil {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if s.tlsName != "" {
		o.TLSConfig.ServerName = s.tlsName
	}
	return o
}

// dialer is the library's way to the network: every dial, name look-up
// included, has one limit and ends with the link. It remembers what went wrong,
// for the library turns "connection refused" into "no servers available".
type dialer struct {
	ctx  func() context.Context
	dial dialFunc

	mu     sync.Mutex
	conn   net.Conn
	failed error
	stop   func() bool
}

// Dial is called by the library with its lock held.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx(), dialWithin)
	defer cancel()
	c, err := d.dial(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = err
	if err != nil {
		return nil, err
	}
	if d.stop != nil { // a second server of one try
		d.stop()
	}
	d.conn = c
	// The greeting has a limit of its own, but must not outlast the link.
	d.stop = context.AfterFunc(d.ctx(), func() { _ = c.Close() })
	return c, nil
}

// release gives a function that ends the dialer's hold on the connection; it
// reports whether the connection was still untouched.
func (d *dialer) release() func() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop == nil {
		return func() bool { return true }
	}
	return d.stop
}

func (d *dialer) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	return err
}

// transportWarning says what is wrong with the way to the server.
func (c *conn) transportWarning() string {
	if _, err := c.nc.TLSConnectionState(); err == nil {
		return ""
	}
	if u, err := url.Parse(c.nc.ConnectedUrl()); err == nil && u.Scheme == "wss" {
		return ""
	}
	if isLoopback(c.raw.RemoteAddr()) {
		return ""
	}
	return "no TLS"
}

// roundTrip puts a question to the server and waits for the answer. All that
// was sent before has been read by the server then, and all that it said before
// has been read by us.
func (c *conn) roundTrip(ctx context.Context, within time.Duration) (sent, at time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sent = c.mono()
	err = c.nc.FlushWithContext(limited)
	at = c.mono()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errNoAnswer
	}
	return sent, at, err
}

// whyClosed tells what ended a connection that the library has given up.
func (c *conn) whyClosed() error {
	if c.lastAuth != nil {
		return c.lastAuth
	}
	if err := c.nc.LastError(); err != nil {
		return err
	}
	return nats.ErrConnectionClosed
}

// close ends it. The socket goes first: the library wants to write to it before
// it lets go, and a server that hangs reads nothing.
func (c *conn) close() {
	_ = c.raw.Close()
	c.nc.Close()
}
