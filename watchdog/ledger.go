package watchdog

import (
	"context"
	"errors"
	"time"
)

// Authority names the one store that decides the ends of a cluster. It is
// written create-only to every bus before the first settlement, and is never
// switched at run time.
type Authority struct {
	Name     string `json:"name"`     // jetstream, redis, file, memory
	Identity string `json:"identity"` // which instance of it; another one is another cluster
}

// Answers of a Ledger that are decisions, not faults.
var (
	// ErrConflict: the head changed since it was read. Read it again.
	ErrConflict = errors.New("the head changed meanwhile")
	// ErrForeignRecord: the terminal subject of the generation holds something
	// that does not decode or is not signed. It blocks settlement and is no outcome.
	ErrForeignRecord = errors.New("a foreign terminal record stands in the way")
	// ErrUnknown: whether the write took effect is not known. Read again.
	ErrUnknown = errors.New("it is not known whether the write took effect")
	// ErrAuthorityAway: the store that decides cannot be reached now, or is not
	// the one that the cluster named. Nothing is settled meanwhile.
	ErrAuthorityAway = errors.New("the ledger's authority is away")
)

// Revision is the version of a head as its store counts it; empty: there is no
// head yet.
type Revision string

// Ledger is where the end of every generation is written once, and where the
// numbers of generations are given out. Every implementation passes the
// conformance suite of sources/sourcetest; none of its calls may outlive ctx.
//
// All decisions about heads are the pure functions of Head; a Ledger only keeps
// them with compare-and-set.
type Ledger interface {
	// Authority says which store this is. Its identity is known after Check.
	Authority() Authority

	// Check looks at identity, configuration and sequence of the store, and
	// proves with a compare-and-set of its own that it decides. It is called at
	// start, after every reconnect and before every pass. Its error says why
	// nothing may be settled now, and what to do; it wraps ErrAuthorityAway.
	Check(ctx context.Context) error

	// WriteOnce writes the terminal record of (r.ID, r.Generation) unless there
	// is one, and gives the record that stands. It is ours if its nonce is.
	// With the same nonce again it answers the same. ErrForeignRecord,
	// ErrUnknown (nothing may be concluded) and ErrAuthorityAway may be wrapped.
	WriteOnce(ctx context.Context, r Record) (Record, error)

	// Record reads the terminal record of one generation from where decisions
	// are made, never from a stale copy. found is false if there is none.
	Record(ctx context.Context, id ID, g Generation) (r Record, found bool, err error)

	// Head reads the newest generation of a session, likewise.
	Head(ctx context.Context, id ID) (Head, Revision, error)

	// SwapHead replaces a head that is still at rev (empty: there is none yet),
	// or answers ErrConflict.
	SwapHead(ctx context.Context, h Head, rev Revision) (Revision, error)

	// Follow tells every head and record that there is, and each new one, as
	// HeadSeen and TerminalSeen, until ctx ends. What was told before a break
	// of the connection may be told again. It tells FollowedUp once everything
	// that stood there at the start has been told, and again after each break.
	Follow(ctx context.Context, post func(Event)) error

	// Outbox gives up to limit records whose projections and notifications are
	// not known to be done, oldest first: what a crash left.
	Outbox(ctx context.Context, limit int) ([]Record, error)

	// Told takes a record out of the outbox.
	Told(ctx context.Context, r Record) error
}

// Marker is where a bus keeps the name of its cluster's authority.
type Marker interface {
	// ReadAuthority gives the name that stands; found is false if there is none.
	// An error means that it cannot be told.
	ReadAuthority(ctx context.Context) (a Authority, found bool, err error)
	// CreateAuthority writes a unless a name stands already, and gives the one
	// that stands.
	CreateAuthority(ctx context.Context, a Authority) (Authority, error)
	// MarkerName is how people call this place: "NATS", "Redis".
	MarkerName() string
}

// Projection is a store that shows ends beside the ledger: registry hashes,
// liveness keys, the copy in Redis, release hooks, history, notifications.
// Project may be called again with the same record, by anybody, at any time.
type Projection interface {
	Project(ctx context.Context, r Record) error
	ProjectionName() string
}

// Late is a beat or output that came after the involuntary end of its
// generation: kept, hidden by default, never shown as life.
type Late struct {
	ID         ID
	Generation Generation
	Raw        []byte // the original
	Source     Source
	At         time.Time     // wall clock of the receiver
	LateBy     time.Duration // since the end
	MaybeNew   bool          // it could be of a new run: nothing in it tells
}

// Quarantine keeps what came late: 7 days, 10,000 a session.
type Quarantine interface {
	Keep(ctx context.Context, l Late) error
}
