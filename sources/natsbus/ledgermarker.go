package natsbus

import (
	"context"
	"errors"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// MarkerName is how people call this place.
func (l *Ledger) MarkerName() string { return watchdog.SourceNATS.Title() }

// ReadAuthority reads the name that stands in the bucket SW_META. ErrNoJetStream
// says that this server can hold none.
func (l *Ledger) ReadAuthority(ctx context.Context) (watchdog.Authority, bool, error) {
	c, err := l.js.door.await(ctx, l.js.link)
	if err != nil {
		return watchdog.Authority{}, false, err
	}
	return l.marker(ctx, c)
}

func (l *Ledger) marker(ctx context.Context, c *conn) (watchdog.Authority, bool, error) {
	m, found, err := l.js.message(ctx, c, metaStream, sought{Last: metaSubject(wire.MetaAuthority)})
	if isFault(err, faultNoStream) || err == nil && (!found || isGrave(m)) {
		return watchdog.Authority{}, false, nil
	}
	if err != nil {
		return watchdog.Authority{}, false, plainly(err)
	}
	a, err := wire.DecodeAuthority(m.Data)
	return a, err == nil, err
}

// CreateAuthority writes a name unless one stands, and gives the one that does.
func (l *Ledger) CreateAuthority(ctx context.Context, a watchdog.Authority) (watchdog.Authority, error) {
	payload, err := wire.EncodeAuthority(a)
	if err != nil {
		return watchdog.Authority{}, err
	}
	if l.js.plan.ReadOnly {
		return watchdog.Authority{}, ErrReadOnly
	}
	c, err := l.js.door.await(ctx, l.js.link)
	if err != nil {
		return watchdog.Authority{}, err
	}
	if err := l.createBucket(ctx, c, wire.MetaBucket); err != nil {
		return watchdog.Authority{}, plainly(err)
	}
	_, err = l.js.store(ctx, c, metaStream, metaSubject(wire.MetaAuthority), payload, lastSequence(0))
	if neverSent(err) {
		return watchdog.Authority{}, plainly(err)
	}
	stands, found, readErr := l.marker(ctx, c)
	if readErr != nil || !found {
		return watchdog.Authority{}, errors.Join(errors.New("whether the authority was named is not known"), err, readErr)
	}
	return stands, nil
}

var metaStream = wire.BucketStream(wire.MetaBucket)

func metaSubject(key string) string { return wire.BucketSubject(wire.MetaBucket, key) }
