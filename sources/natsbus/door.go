package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// errClosed is the answer of what was closed.
var errClosed = errors.New("it was closed here")

// door lets callers on other goroutines through to a link's connection, while
// there is one.
type door struct {
	mu    sync.Mutex
	conn  *conn         // nil: none
	ready chan struct{} // closed while there is a connection
	quit  chan struct{} // closed for good
	over  bool
}

func newDoor() *door { return &door{ready: make(chan struct{}), quit: make(chan struct{})} }

// open lets callers through to c.
func (d *door) open(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = c
	close(d.ready)
}

// shut is for when the connection is gone. A door that is shut stays so.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		d.conn, d.ready = nil, make(chan struct{})
	}
}

// lock shuts for good.
func (d *door) lock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.over = true
		close(d.quit)
	}
}

// now is the connection; nil if there is none.
func (d *door) now() *conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn
}

// await gives the connection once there is one, until ctx ends. Its error says
// why there is none, in the words of l.
func (d *door) await(ctx context.Context, l *link) (*conn, error) {
	for {
		d.mu.Lock()
		c, ready := d.conn, d.ready
		d.mu.Unlock()
		select {
		case <-d.quit:
			return nil, errClosed
		default:
		}
		if c != nil {
			return c, nil
		}
		select {
		case <-ready:
		case <-d.quit:
		case <-ctx.Done():
			now := l.latest.Load()
			why := now.Detail
			if why == "" {
				why = "not connected yet"
			}
			return nil, fmt.Errorf("%s: %s", now.Address, why)
		}
	}
}
