package redisstore

import (
	"context"
	"fmt"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Marker is where this Redis names its cluster's authority, which may be
// another store.
type Marker struct{ conn *Conn }

// Marker is the marker in this Redis.
func (c *Conn) Marker() *Marker { return &Marker{conn: c} }

// MarkerName is how people call this place.
func (m *Marker) MarkerName() string { return watchdog.SourceRedis.Title() }

// ReadAuthority gives the name that stands.
func (m *Marker) ReadAuthority(ctx context.Context) (watchdog.Authority, bool, error) {
	var text []byte
	var found bool
	err := m.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		text, found, err = read(ctx, c, wire.AuthorityKey)
		return err
	})
	if err != nil {
		return watchdog.Authority{}, false, fmt.Errorf("%s: %s cannot be read: %s", m.conn.target.display, wire.AuthorityKey, explain(err, "GETRANGE").words)
	}
	if !found {
		return watchdog.Authority{}, false, nil
	}
	a, err := wire.DecodeAuthority(text)
	return a, err == nil, err
}

// CreateAuthority writes a unless a name stands already, and gives the one that
// stands.
func (m *Marker) CreateAuthority(ctx context.Context, a watchdog.Authority) (watchdog.Authority, error) {
	text, err := wire.EncodeAuthority(a)
	if err != nil {
		return watchdog.Authority{}, err
	}
	err = m.conn.write(ctx, func(ctx context.Context, c *client) error {
		return c.SetNX(ctx, wire.AuthorityKey, text, 0).Err()
	})
	if err != nil {
		return watchdog.Authority{}, fmt.Errorf("%s: the authority cannot be named in %s: %w", m.conn.target.display, wire.AuthorityKey, err)
	}
	standing, found, err := m.ReadAuthority(ctx)
	if err == nil && !found {
		err = fmt.Errorf("%s does not hold %s, which was just written; it may evict or expire it", m.conn.target.display, wire.AuthorityKey)
	}
	return standing, err
}
