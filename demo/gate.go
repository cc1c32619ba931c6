package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Gate is the observer's way to a server: it passes bytes on, and while it is
// shut it passes nothing, like a network that drops packets. Connections stay
// as they are.
type Gate struct {
	target   string
	listener net.Listener
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

// newGate listens on a random loopback port for connections to target.
func newGate(target string) (*Gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen on loopback: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Gate{target: target, listener: listener, cancel: cancel, open: make(chan struct{})}
	close(g.open)
	g.wg.Go(func() { g.accept(ctx) })
	return g, nil
}

// Addr is where the gate listens.
func (g *Gate) Addr() string { return g.listener.Addr().String() }

// Set opens or shuts the gate.
func (g *Gate) Set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

// Close ends all connections and waits for them.
func (g *Gate) Close() {
	g.cancel()
	_ = g.listener.Close()
	g.wg.Wait()
}

func (g *Gate) accept(ctx context.Context) {
	for {
		conn, err := g.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		g.wg.Go(func() { g.serve(ctx, conn) })
	}
}

// serve carries one connection until either side ends it.
func (g *Gate) serve(ctx context.Context, observer net.Conn) {
	defer observer.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.target)
	if err != nil {
		return
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = observer.Close()
		_ = server.Close()
	})
	defer stop()

	var wg sync.WaitGroup
	wg.Go(func() { defer cancel(); g.carry(ctx, server, observer) })
	wg.Go(func() { defer cancel(); g.carry(ctx, observer, server) })
	wg.Wait()
}

func (g *Gate) carry(ctx context.Context, to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !g.wait(ctx) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns true once the gate is open, false when ctx ends first.
func (g *Gate) wait(ctx context.Context) bool {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return true
	case <-ctx.Done():
		return false
	}
}
