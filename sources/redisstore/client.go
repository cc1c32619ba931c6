package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Limits of one question. They hold whatever the server does, a stopped one too.
const (
	dialLimit = 2 * time.Second // look-up, connect and TLS handshake together
	ioLimit   = 2 * time.Second // one write, and the reading of one answer

	// poolRoom is larger than the number of failures after which a client is
	// replaced: once as many dials failed as its pool has room for, go-redis
	// dials in the background and answers with the stored error meanwhile.
	poolRoom    = 1024
	replaceAt   = poolRoom / 2
	maxSockets  = 4 // of one server; the owner uses one, a one-shot publish another
	maxRedirect = 2
)

// client is one connection to a Redis: a single server, the master behind
// sentinels, or a Cluster.
type client struct {
	redis.UniversalClient
	target  *target
	cluster *redis.ClusterClient // nil unless a Cluster
	dials   dialCounter
	over    <-chan struct{} // ends its dials: go-redis dials under contexts of its own
	cancel  context.CancelFunc
}

// node is one master.
type node struct {
	addr string
	*redis.Client
}

// dialCounter counts successful dials of each address, so that a reconnect that
// the library makes silently is still noticed.
type dialCounter struct {
	mu     sync.Mutex
	byAddr map[string]int
}

func (d *dialCounter) add(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byAddr == nil {
		d.byAddr = make(map[string]int)
	}
	d.byAddr[addr]++
}

func (d *dialCounter) of(addr string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byAddr[addr]
}

// total is the number of connections ever made.
func (d *dialCounter) total() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, c := range d.byAddr {
		n += c
	}
	return n
}

// newClient makes a client without touching the network. It closes when ctx
// ends, which also ends every question under way.
func newClient(ctx context.Context, t *target, logger *slog.Logger) *client {
	// The library writes to stderr, which is somebody's screen, unless told
	// otherwise before its first client exists.
	redis.SetLogger(libraryLog{logger, t.password})
	c := &client{target: t}
	ctx, c.cancel = context.WithCancel(ctx)
	c.over = ctx.Done()
	switch {
	case t.Cluster:
		c.cluster = redis.NewClusterClient(c.clusterOptions())
		c.UniversalClient = c.cluster
	case t.MasterName != "":
		c.UniversalClient = redis.NewFailoverClient(c.failoverOptions())
	default:
		c.UniversalClient = redis.NewClient(c.singleOptions())
	}
	context.AfterFunc(ctx, func() { _ = c.UniversalClient.Close() })
	return c
}

// singleOptions, like the two below, name no client and select no library:
// a user who may only read keys may not do that.
func (c *client) singleOptions() *redis.Options {
	t := c.target
	return &redis.Options{
		Network: t.network, Addr: t.seeds()[0], Username: t.username, Password: t.password, DB: t.db,
		Protocol: 2, Dialer: c.dial,
		MaxRetries: -1, DialTimeout: dialLimit, DialerRetries: 1, ReadTimeout: ioLimit, WriteTimeout: ioLimit,
		ContextTimeoutEnabled: true, PoolSize: poolRoom, MaxActiveConns: t.socketLimit(), PipelinePoolSize: -1,
		ConnMaxIdleTime: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (c *client) failoverOptions() *redis.FailoverOptions {
	t := c.target
	return &redis.FailoverOptions{
		MasterName: t.MasterName, SentinelAddrs: t.seeds(),
		SentinelUsername: t.SentinelUsername, SentinelPassword: t.SentinelPassword,
		Username: t.username, Password: t.password, DB: t.db,
		Protocol: 2, Dialer: c.dial,
		MaxRetries: -1, DialTimeout: dialLimit, DialerRetries: 1, ReadTimeout: ioLimit, WriteTimeout: ioLimit,
		ContextTimeoutEnabled: true, PoolSize: poolRoom, MaxActiveConns: t.socketLimit(), PipelinePoolSize: -1,
		ConnMaxIdleTime: -1, DisableIdentity: true,
	}
}

func (c *client) clusterOptions() *redis.ClusterOptions {
	t := c.target
	return &redis.ClusterOptions{
		Addrs: t.seeds(), Username: t.username, Password: t.password,
		Protocol: 2, Dialer: c.dial,
		MaxRedirects: maxRedirect, MaxRetries: -1, MinRetryBackoff: -1, MaxRetryBackoff: -1,
		DialTimeout: dialLimit, DialerRetries: 1, ReadTimeout: ioLimit, WriteTimeout: ioLimit,
		ContextTimeoutEnabled: true, PoolSize: poolRoom, MaxActiveConns: t.socketLimit(), PipelinePoolSize: -1,
		ConnMaxIdleTime: -1, DisableIdentity: true, ClusterStateReloadInterval: 5 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// dial connects within dialLimit, name look-up and TLS handshake included.
func (c *client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	go func() {
		select {
		case <-c.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if c.target.tls != nil {
		config := c.target.tls.Clone()
		if config.ServerName == "" || c.target.Cluster || c.target.MasterName != "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			if errors.Is(err, context.DeadlineExceeded) {
				err = errNoHandshake
			}
			return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
		}
		conn = secured
	}
	c.dials.add(addr)
	return conn, nil
}

// masters lists the servers to ask, sorted by address.
func (c *client) masters(ctx context.Context) ([]node, error) {
	if c.cluster == nil {
		single := c.UniversalClient.(*redis.Client)
		return []node{{addr: single.Options().Addr, Client: single}}, nil
	}
	var (
		mu    sync.Mutex
		nodes []node
	)
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, m *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node{addr: m.Options().Addr, Client: m})
		return nil
	})
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.addr, b.addr) })
	return nodes, err
}

// connections is how many connections to a node were ever made. Those to
// sentinels are not connections to a node.
func (c *client) connections(n node) int {
	switch {
	case c.cluster != nil:
		return c.dials.of(n.addr)
	case c.target.MasterName != "":
		count := c.dials.total()
		for _, sentinel := range c.target.Addrs {
			count -= c.dials.of(sentinel)
		}
		return count
	}
	return c.dials.total()
}

// Close ends every question under way.
func (c *client) Close() {
	c.cancel()
	_ = c.UniversalClient.Close()
}

// libraryLog takes what go-redis would print.
type libraryLog struct {
	logger   *slog.Logger
	password string
}

func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	text := fmt.Sprintf(format, args...)
	if l.password != "" {
		text = strings.ReplaceAll(text, l.password, "***")
	}
	l.logger.Debug("go-redis", "text", text)
}
