package httpregistry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Ends is what the registry asks of the terminal ledger and of whoever settles.
type Ends interface {
	// Head reads the newest generation; the zero Head if there is none.
	Head(ctx context.Context, id watchdog.ID) (watchdog.Head, error)
	// Record reads one end from where decisions are made.
	Record(ctx context.Context, id watchdog.ID, g watchdog.Generation) (watchdog.Record, bool, error)
	// Claim gives the number of an execution, create-only.
	Claim(ctx context.Context, c watchdog.Claim) (watchdog.Generation, error)
	// Settle writes an end once and gives the record that stands; ours reports
	// whether it is this one.
	Settle(ctx context.Context, r watchdog.Record) (stands watchdog.Record, ours bool, err error)
}

// Sink is told what the registry sees. Neither call may block.
type Sink interface {
	Beats(batch []watchdog.Beat)
	Post(ev watchdog.Event)
}

// Sight is what the rest of the engine knows of a session that is due.
type Sight struct {
	Elsewhere string // the same generation beats there; empty: nowhere
	Held      string // why settling it is held; empty: it is not
}

// Watch asks the engine about a session before it is reaped.
type Watch interface {
	Sight(ctx context.Context, id watchdog.ID, g watchdog.Generation) (Sight, error)
}

// Defaults of the pattern.
const (
	DefaultInterval       = 15 * time.Second
	DefaultTTL            = 45 * time.Second
	DefaultReapInterval   = 15 * time.Second
	DefaultReleaseTimeout = 10 * time.Second
	// storeTimeout bounds one question to a store or a ledger.
	storeTimeout = 3 * time.Second
)

// Options say how to run a registry. Store, Ends, Sink, Watch, Clock and Token
// are needed.
type Options struct {
	Store Store
	Ends  Ends
	Sink  Sink
	Watch Watch
	Clock watchdog.Clock
	Token string // of the fleet; at least 16 characters

	Interval       time.Duration // expected between heartbeats
	TTL            time.Duration // of a hash; at least 3 x Interval
	ReapInterval   time.Duration
	Release        []string // argv of the release hook; empty none
	ReleaseTimeout time.Duration
	// Hook runs the release hook in the place of Release, if others run it too.
	Hook    *Releaser
	Writer  string // who settles: "serve@eu1-01/812"
	Address string // where it listens, for people

	// Audit appends one entry to the audit file, as a line of JSON. nil: none is kept.
	Audit func(entry any) error
	// Alert is told when more is reaped than is normal. nil: nobody is.
	Alert func(text string)
	// Cancel delivers the stops that POST /sessions/<id>/cancel asks for. nil:
	// they are answered with 503 and the reason.
	Cancel Canceler
	Logger *slog.Logger
}

// WithDefaults fills in what is zero.
func (o Options) WithDefaults() Options {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&o.Interval, DefaultInterval)
	set(&o.TTL, DefaultTTL)
	set(&o.ReapInterval, DefaultReapInterval)
	set(&o.ReleaseTimeout, DefaultReleaseTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate gives a sentence for each fault.
func (o *Options) Validate() error {
	var faults []error
	if o.Interval <= 0 || o.ReapInterval <= 0 || o.ReleaseTimeout <= 0 {
		faults = append(faults, errors.New("registry: interval, reap_interval and release_timeout must be above 0; give durations such as 15s"))
	}
	if o.TTL < 3*o.Interval {
		faults = append(faults, fmt.Errorf("registry.ttl: %v is under 3 x registry.interval (%v); give %v or more (5 x across zones)", o.TTL, o.Interval, 3*o.Interval))
	}
	if len(o.Token) < minToken {
		faults = append(faults, fmt.Errorf("registry.token_file: the token has %d characters; give at least %d", len(o.Token), minToken))
	}
	return errors.Join(faults...)
}

// Registry answers heartbeats and reaps who stops sending them.
type Registry struct {
	o       Options
	tokens  tokens
	heads   headCache
	rate    reapRate
	hook    *Releaser
	metrics *metrics
	started time.Time
	reaper  reaper
}

// New makes a registry; nothing happens before its Handler is asked or Run is
// called.
func New(o Options) (*Registry, error) {
	o = o.WithDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Registry{o: o, tokens: tokens{secret: []byte(o.Token)}, started: wall(o.Clock)}
	r.heads.known = map[watchdog.ID]cachedHead{}
	if r.hook = o.Hook; r.hook == nil {
		r.hook = NewReleaser(o.Release, o.ReleaseTimeout, o.Clock, o.Logger)
	}
	r.metrics = newMetrics()
	r.reaper.settled = map[watchdog.ID]watchdog.Generation{}
	r.reaper.openSince = r.started
	return r, nil
}

// wall is our clock as people read it: what last_seen is written in.
func wall(c watchdog.Clock) time.Time { return time.Unix(0, c.Now().Wall) }
