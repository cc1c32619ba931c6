package cli

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// store is a bus that can hold the ledger, and the name of whoever does.
type store struct {
	watchdog.Ledger
	watchdog.Marker
	origin string // of its address
	hosts  string // the address
	run    func() // until shut; nil: it needs none
	shut   func()
	up     func(context.Context) bool // somebody answers there
}

// ledgerStores are the buses that are configured, as places for the ledger. Which
// of them holds it is chosen once; see choose.
type ledgerStores struct {
	o        settlingOptions
	settings *config.Config
	seal     wire.Seal
	reads    bool // nothing is written, nor made on a bus

	nats, redis *store           // nil: not configured
	conn        *redisstore.Conn // behind redis
	optional    []*store         // left out: only a default names them, and nobody answers there
	running     sync.WaitGroup
}

// openLedgerStores opens the stores that are configured; it waits for none.
func openLedgerStores(settings *config.Config, seal wire.Seal, o settlingOptions, reads bool) (*ledgerStores, error) {
	l := &ledgerStores{o: o, settings: settings, seal: seal, reads: reads}
	if err := errors.Join(l.openNATS(), l.openRedis()); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// connect keeps them connected until close.
func (l *ledgerStores) connect() {
	for _, st := range l.all() {
		if st.run == nil {
			continue
		}
		l.running.Add(1)
		l.o.spawn(func() {
			defer l.running.Done()
			st.run()
		})
	}
}

// close ends the connections, and waits for that.
func (l *ledgerStores) close() {
	for _, st := range l.all() {
		st.shut()
	}
	l.running.Wait()
}

func (l *ledgerStores) openNATS() error {
	n := l.settings.NATS
	if n.Address == config.None {
		return nil
	}
	options := natsOptions(l.settings)
	options.ReadOnly = l.reads
	ledger, err := natsbus.OpenLedger(options, natsbus.LedgerOptions{Seal: l.seal}, l.o.clock, l.o.log)
	if err != nil {
		return err
	}
	l.nats = &store{Ledger: ledger, Marker: ledger, origin: n.Origin, hosts: n.Address, shut: ledger.Close,
		run: func() {
			if err := ledger.Run(context.Background()); err != nil {
				l.o.log.Error("the ledger's connection to NATS ended", "error", err)
			}
		},
		up: func(context.Context) bool { return ledger.Link().Phase == watchdog.LinkUp }}
	return nil
}

func (l *ledgerStores) openRedis() (err error) {
	r := l.settings.Redis
	if r.Address == config.None {
		return nil
	}
	options := redisOptions(l.settings)
	options.ReadOnly = l.reads
	if l.conn, err = redisstore.OpenConn(options, l.o.clock, l.o.log); err != nil {
		return err
	}
	marker := l.conn.Marker()
	l.redis = &store{Ledger: l.conn.Ledger(l.seal), Marker: marker, origin: r.Origin, hosts: r.Address, shut: l.conn.Close,
		up: func(ctx context.Context) bool {
			_, _, err := marker.ReadAuthority(ctx)
			return err == nil
		}}
	return nil
}

func (l *ledgerStores) all() []*store {
	var out []*store
	for _, st := range []*store{l.redis, l.nats} {
		if st != nil {
			out = append(out, st)
		}
	}
	return out
}

// dropOptional leaves out the buses that only a default names and that nobody
// answers at: a machine without servers settles in its own file.
func (l *ledgerStores) dropOptional(ctx context.Context, waited time.Duration) {
	if l.o.File == nil || l.reads {
		return
	}
	for _, st := range l.all() {
		if st.origin != defaultOrigin || l.isOptional(st) {
			continue
		}
		if l.o.Alone && refuses(ctx, st.hosts) || waited >= lookAround && !st.up(ctx) {
			l.optional = append(l.optional, st)
		}
	}
}

// refuses reports whether nobody listens at an address, which is certain.
func refuses(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return false
}

// defaultOrigin is where an address comes from that nobody set.
const defaultOrigin = "default"

func (l *ledgerStores) isOptional(st *store) bool { return slices.Contains(l.optional, st) }

// present are the stores that count.
func (l *ledgerStores) present() []*store {
	var out []*store
	for _, st := range l.all() {
		if !l.isOptional(st) {
			out = append(out, st)
		}
	}
	return out
}

// markers are those of the stores that count.
func (l *ledgerStores) markers() []watchdog.Marker {
	var out []watchdog.Marker
	for _, st := range l.present() {
		out = append(out, st.Marker)
	}
	return out
}

// nameable are the markers that can keep a name: that of a NATS without JetStream
// cannot.
func (l *ledgerStores) nameable() []watchdog.Marker {
	var out []watchdog.Marker
	for _, m := range l.markers() {
		ctx, cancel := context.WithTimeout(context.Background(), readMarks)
		_, _, err := m.ReadAuthority(ctx)
		cancel()
		if !errors.Is(err, natsbus.ErrNoJetStream) {
			out = append(out, m)
		}
	}
	return out
}

// projections are the places that show an end beside the ledger.
func (l *ledgerStores) projections(ledger watchdog.Ledger) []watchdog.Projection {
	out := l.o.Projections
	if l.redis != nil && !l.isOptional(l.redis) {
		out = append(out, l.conn.LivenessEnd(ledger), l.conn.RegistryEnd(ledger))
		if ledger != l.redis.Ledger {
			out = append(out, l.conn.RecordCopy(l.seal))
		}
	}
	return out
}

// awaitOptional gives the first of those that were left out that somebody answers
// at after all; nil: ctx has ended.
func (l *ledgerStores) awaitOptional(ctx context.Context) *store {
	ticker := time.NewTicker(chooseAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, st := range l.optional {
			if st.up(ctx) {
				return st
			}
		}
	}
}
