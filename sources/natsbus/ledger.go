package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// LedgerOptions say how a Ledger behaves.
type LedgerOptions struct {
	// Seal signs what is written and says what is believed.
	Seal wire.Seal
	// Replicas of what is created; 0 is 1. 3 or 5 survive the loss of a server
	// of a cluster.
	Replicas int
}

// Ledger keeps the ends of generations in the stream SW_TERMINAL, which takes
// one message for each and never another, and heads in the KV bucket SW_HEADS.
// It is a watchdog.Ledger and a watchdog.Marker.
//
// What it needs is created by the first Check, in an order that lets nothing be
// made silently a second time: SW_META, SW_HEADS, SW_TERMINAL. The identity of
// the authority is the moment at which the server created SW_TERMINAL.
//
// With Options.ReadOnly it creates and writes nothing.
type Ledger struct {
	js      *jetStream
	options LedgerOptions
	status  atomic.Pointer[ledgerStatus]

	reconcile time.Duration // reconcileEvery

	// busy is held by who checks; it guards what follows.
	busy    chan struct{}
	expect  watchdog.Authority
	checked *conn // the connection on which the last check passed
	probed  *conn // the connection on which the self-test passed
	known   ledgerState

	telling chan struct{} // held by who changes the outbox's cursor, or reads it
	skipped spans         // what is no record of ours; guarded by telling
	junk    spans         // what can be nobody's; likewise
}

// ledgerStatus is what is told of the last check that passed.
type ledgerStatus struct{ identity, warning string }

// OpenLedger makes a Ledger. Like Open it checks the options and leaves the
// network alone. A nil log drops what would be logged.
func OpenLedger(o Options, lo LedgerOptions, clock watchdog.Clock, log *slog.Logger) (*Ledger, error) {
	js, err := newJetStream(o, "ledger", clock, log)
	if err != nil {
		return nil, err
	}
	l := &Ledger{js: js, options: lo, reconcile: reconcileEvery, busy: make(chan struct{}, 1), telling: make(chan struct{}, 1)}
	l.status.Store(&ledgerStatus{})
	return l, nil
}

// Run connects, stays connected, and returns nil when ctx ends or Close is
// called. It may be called once.
func (l *Ledger) Run(ctx context.Context) error { return l.js.run(ctx) }

// Close ends Run and every call, and waits for Run.
func (l *Ledger) Close() { l.js.close() }

// Link is what there is to tell of the ledger's connection.
func (l *Ledger) Link() watchdog.LinkChanged { return *l.js.link.latest.Load() }

// Expect says which authority another bus names, before the first Check. With a
// name there, or one of its own in the bucket SW_META, a stream that is not there
// has vanished and is never made anew.
func (l *Ledger) Expect(a watchdog.Authority) {
	l.busy <- struct{}{}
	defer func() { <-l.busy }()
	l.expect = a
}

// Authority is jetstream, with an identity once a Check has passed.
func (l *Ledger) Authority() watchdog.Authority {
	return watchdog.Authority{Name: watchdog.AuthorityJetStream, Identity: l.status.Load().identity}
}

// Warning says what may be lost although all is well; empty if nothing. It is
// known after Check.
func (l *Ledger) Warning() string { return l.status.Load().warning }

// durability says what a crash can cost.
func durability(c *conn, replicas int) string {
	if replicas > 1 || c.nc.ConnectedServerName() == embeddedServer {
		return ""
	}
	return "one NATS server keeps the ends, and whether it syncs each write to disk cannot be told: set sync_interval: always in its jetstream {}, or a crash of its host can lose the last two minutes"
}

// embeddedServer is the name of our own embedded server, which syncs always.
const embeddedServer = "sessionwatch-embedded"

// WriteOnce writes the terminal record of a generation unless there is one.
func (l *Ledger) WriteOnce(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	payload, err := l.options.Seal.Record(r)
	if err != nil {
		return watchdog.Record{}, err
	}
	c, err := l.writable(ctx)
	if err != nil {
		return watchdog.Record{}, err
	}
	// The condition holds even where somebody has just made the stream let go of
	// what stands.
	_, err = l.js.store(ctx, c, wire.TerminalStream, wire.TerminalSubject(r.ID, r.Generation), payload, lastSequence(0))
	switch {
	case err == nil:
		return l.options.Seal.Open(r.ID, r.Generation, payload)
	case neverSent(err):
		return watchdog.Record{}, away(err)
	}
	// Either another record stands, or nobody knows: the leader does.
	var (
		stands  watchdog.Record
		found   bool
		readErr error
	)
	overBreaks(ctx, func() error {
		stands, found, readErr = l.Record(ctx, r.ID, r.Generation)
		return readErr
	})
	switch {
	case errors.Is(readErr, watchdog.ErrForeignRecord) || found:
		return stands, readErr
	}
	// An error of the reading is no answer about the writing.
	return watchdog.Record{}, fmt.Errorf("%w: the end of %s#%d was written and not confirmed: %v", watchdog.ErrUnknown, r.ID, r.Generation, plainly(err))
}

// Record reads the terminal record of one generation from the stream's leader.
func (l *Ledger) Record(ctx context.Context, id watchdog.ID, g watchdog.Generation) (watchdog.Record, bool, error) {
	if !wire.ValidID(id) || g == 0 {
		return watchdog.Record{}, false, fmt.Errorf("%q#%d is no generation", id, g)
	}
	c, err := l.ready(ctx)
	if err != nil {
		return watchdog.Record{}, false, err
	}
	m, found, err := l.js.message(ctx, c, wire.TerminalStream, sought{Last: wire.TerminalSubject(id, g)})
	if err != nil {
		return watchdog.Record{}, false, away(err)
	}
	if !found {
		return watchdog.Record{}, false, nil
	}
	r, err := l.options.Seal.Open(id, g, m.Data)
	return r, err == nil, err
}

// Head reads the newest generation of a session from the bucket's leader.
func (l *Ledger) Head(ctx context.Context, id watchdog.ID) (watchdog.Head, watchdog.Revision, error) {
	if err := checkID(id); err != nil {
		return watchdog.Head{}, "", err
	}
	c, err := l.ready(ctx)
	if err != nil {
		return watchdog.Head{}, "", err
	}
	m, found, err := l.head(ctx, c, id)
	if err != nil {
		return watchdog.Head{}, "", away(err)
	}
	if !found {
		return watchdog.Head{}, "", nil
	}
	rev := watchdog.Revision(strconv.FormatUint(m.Sequence, 10))
	if isGrave(m) {
		return watchdog.Head{}, rev, nil
	}
	h, err := wire.DecodeHead(id, m.Data)
	return h, rev, err
}

func (l *Ledger) head(ctx context.Context, c *conn, id watchdog.ID) (stored, bool, error) {
	return l.js.message(ctx, c, wire.BucketStream(wire.HeadsBucket), sought{Last: headSubject(id)})
}

func headSubject(id watchdog.ID) string {
	return wire.BucketSubject(wire.HeadsBucket, wire.BucketKey(id))
}

// isGrave reports whether an entry of a KV bucket says that its key was deleted.
func isGrave(m stored) bool { return bytes.Contains(m.Header, []byte("KV-Operation:")) }

// SwapHead replaces a head that is still at rev.
func (l *Ledger) SwapHead(ctx context.Context, h watchdog.Head, rev watchdog.Revision) (watchdog.Revision, error) {
	payload, err := wire.EncodeHead(h)
	if err != nil {
		return "", err
	}
	at := uint64(0)
	if rev != "" {
		if at, err = strconv.ParseUint(string(rev), 10, 64); err != nil {
			return "", fmt.Errorf("%q is no revision of this ledger: %w", rev, err)
		}
	}
	c, err := l.writable(ctx)
	if err != nil {
		return "", err
	}
	seq, err := l.js.store(ctx, c, wire.BucketStream(wire.HeadsBucket), headSubject(h.ID), payload, lastSequence(at))
	switch {
	case err == nil:
		return watchdog.Revision(strconv.FormatUint(seq, 10)), nil
	case isFault(err, faultWrongSequence):
		return "", watchdog.ErrConflict
	case neverSent(err):
		return "", away(err)
	}
	// Nobody knows. The leader does if the head is what we wrote.
	var m stored
	overBreaks(ctx, func() error {
		c, err := l.ready(ctx)
		if err == nil {
			m, _, err = l.head(ctx, c, h.ID)
		}
		return err
	})
	if m.Sequence > at && bytes.Equal(m.Data, payload) {
		return watchdog.Revision(strconv.FormatUint(m.Sequence, 10)), nil
	}
	return "", fmt.Errorf("%w: the head of %s was written and not confirmed: %v", watchdog.ErrUnknown, h.ID, plainly(err))
}

// neverSent reports whether a write that failed surely stored nothing.
func neverSent(err error) bool {
	var denied *deniedError
	return errors.Is(err, errNoStream) || errors.As(err, &denied)
}

// away says that nothing is settled, and why.
func away(err error) error {
	return fmt.Errorf("%w: %w", watchdog.ErrAuthorityAway, plainly(err))
}

// overBreaks reads what is not known until it is not the connection that fails,
// or ctx ends.
func overBreaks(ctx context.Context, read func() error) {
	for {
		err := read()
		if !errors.Is(err, nats.ErrConnectionClosed) || ctx.Err() != nil {
			return
		}
		pause(ctx, 50*time.Millisecond) // the link is about to find out
	}
}

// plainly puts the errors of the client library into words.
func plainly(err error) error {
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrConnectionClosed) {
		return &worded{reason(err), err}
	}
	return err
}

// worded is an error with words of our own.
type worded struct {
	words string
	err   error
}

func (w *worded) Error() string { return w.words }
func (w *worded) Unwrap() error { return w.err }
