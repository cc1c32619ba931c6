package httpregistry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// maxConns bounds the connections that are open at once; more are closed.
	maxConns       = 4096
	headerWithin   = 5 * time.Second
	bodyWithin     = 10 * time.Second
	idleWithin     = 2 * time.Minute
	maxHeaderBytes = 16 << 10
	shutWithin     = 2 * time.Second
)

// Listen opens the address that Serve answers on.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --listen, or end what uses it", address, errors.Unwrap(err))
	}
	return l, nil
}

// Serve answers on l until ctx ends. A nil config is plain HTTP. It closes l.
func Serve(ctx context.Context, l net.Listener, config *tls.Config, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: headerWithin, ReadTimeout: bodyWithin, IdleTimeout: idleWithin,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	l = &boundedListener{Listener: l, limit: maxConns}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	stop := context.AfterFunc(ctx, func() {
		shut, cancel := context.WithTimeout(context.Background(), shutWithin)
		defer cancel()
		if srv.Shutdown(shut) != nil {
			_ = srv.Close() // streams do not end by themselves
		}
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// boundedListener closes connections beyond its limit at once, so that a flood
// costs no memory.
type boundedListener struct {
	net.Listener
	limit int64
	open  atomic.Int64
}

// Accept gives the next connection that is within the limit.
func (b *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.limit {
			return &countedConn{Conn: c, open: &b.open}, nil
		}
		b.open.Add(-1)
		_ = c.Close() // there is no room for it
	}
}

type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

// Close counts once.
func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
