package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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

// settlingOptions say who settles, and with what.
type settlingOptions struct {
	// Writer is who we are in records; empty: this process only reads ends.
	Writer string
	// File is the ledger of a process without a bus; nil: it has none.
	File watchdog.Ledger
	// Projections and Quarantine stand beside those of the buses.
	Projections []watchdog.Projection
	Quarantine  watchdog.Quarantine
	// Alone is a process that somebody waits for: it takes the local file at once
	// when the buses that nobody configured refuse it, and waits for no server
	// that may be starting.
	Alone bool

	clock watchdog.Clock
	log   *slog.Logger
	spawn func(func())
}

// settling finds the one store that decides the ends of what is watched, tells
// the engine what stands in it, and, if this process settles, carries out what
// the engine decides. It is chosen once and never switched.
type settling struct {
	o        settlingOptions
	settings *config.Config
	seal     wire.Seal
	post     func(watchdog.Event)
	due      func(watchdog.Settle) bool

	nats, redis *store           // nil: not configured
	conn        *redisstore.Conn // behind redis
	optional    []*store
	running     sync.WaitGroup

	// spare says that a settlement is another's to make; nil: none is.
	spare   atomic.Pointer[func(watchdog.Settle) bool]
	settler atomic.Pointer[watchdog.Settler]
	ledger  atomic.Pointer[chosenLedger]
	settles chan struct{}          // closed once there is a settler
	reason  atomic.Pointer[string] // why nothing can be settled yet
	blocked atomic.Bool            // a bus came up that was away when the ledger was chosen
	retried chan struct{}
	told    watchdog.LedgerChanged
}

type chosenLedger struct{ watchdog.Ledger }

const (
	// lookAround is how long a bus that nobody configured has to answer before
	// the local file is taken.
	lookAround = 2 * time.Second
	// chooseAgain is how often an authority that could not be chosen is tried.
	chooseAgain = 2 * time.Second
	// readMarks bounds one look at what the buses say of the authority.
	readMarks = 3 * time.Second
)

// settledEngine is what a settling tells, and asks.
type settledEngine interface {
	Post(ev watchdog.Event)
	StillDue(s watchdog.Settle) bool
}

// newSettling opens the stores that are configured; it waits for none.
func newSettling(settings *config.Config, o settlingOptions) (*settling, error) {
	seal, err := sealOf(settings)
	if err != nil {
		return nil, err
	}
	s := &settling{o: o, settings: settings, seal: seal, retried: make(chan struct{}, 1), settles: make(chan struct{})}
	waiting := "the ledger was not chosen yet"
	s.reason.Store(&waiting)
	if err := errors.Join(s.openNATS(), s.openRedis()); err != nil {
		s.shut()
		return nil, err
	}
	return s, nil
}

// reads reports whether this process settles nothing.
func (s *settling) reads() bool { return s.o.Writer == "" || s.settings.ReadOnly }

func (s *settling) openNATS() error {
	n := s.settings.NATS
	if n.Address == config.None {
		return nil
	}
	options := natsOptions(s.settings)
	options.ReadOnly = s.reads()
	l, err := natsbus.OpenLedger(options, natsbus.LedgerOptions{Seal: s.seal}, s.o.clock, s.o.log)
	if err != nil {
		return err
	}
	s.nats = &store{Ledger: l, Marker: l, origin: n.Origin, hosts: n.Address, shut: l.Close,
		run: func() {
			if err := l.Run(context.Background()); err != nil {
				s.o.log.Error("the ledger's connection to NATS ended", "error", err)
			}
		},
		up: func(context.Context) bool { return l.Link().Phase == watchdog.LinkUp }}
	return nil
}

func (s *settling) openRedis() (err error) {
	r := s.settings.Redis
	if r.Address == config.None {
		return nil
	}
	options := redisOptions(s.settings)
	options.ReadOnly = s.reads()
	if s.conn, err = redisstore.OpenConn(options, s.o.clock, s.o.log); err != nil {
		return err
	}
	marker := s.conn.Marker()
	s.redis = &store{Ledger: s.conn.Ledger(s.seal), Marker: marker, origin: r.Origin, hosts: r.Address, shut: s.conn.Close,
		up: func(ctx context.Context) bool {
			_, _, err := marker.ReadAuthority(ctx)
			return err == nil
		}}
	return nil
}

func (s *settling) shut() {
	for _, st := range s.stores() {
		st.shut()
	}
}

// writerName is who a process is in records: "serve@eu1-01/812".
func writerName(command string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s@%s/%d", command, host, os.Getpid())
}

// effects carries out what the engine decides. It is EngineConfig.Effects.
func (s *settling) effects(effects []watchdog.Effect) {
	if t := s.settler.Load(); t != nil && !s.blocked.Load() {
		t.Effects(effects)
	}
}

// retry tries at once to choose a ledger.
func (s *settling) retry() {
	select {
	case s.retried <- struct{}{}:
	default:
	}
}

// run keeps the stores connected until ctx ends.
func (s *settling) run(ctx context.Context, engine settledEngine) {
	s.post, s.due = engine.Post, engine.StillDue
	for _, st := range s.stores() {
		if st.run != nil {
			s.goes(st.run)
		}
	}
	defer s.running.Wait()
	defer s.shut()
	began := s.o.clock.Now().Mono
	for {
		name, why := s.choose(ctx, s.o.clock.Now().Mono-began)
		if ctx.Err() != nil {
			return
		}
		if name != "" {
			s.work(ctx, s.open(name))
			return
		}
		s.wait(why)
		select {
		case <-ctx.Done():
			return
		case <-s.retried:
		case <-time.After(chooseAgain):
		}
	}
}

func (s *settling) goes(f func()) {
	s.running.Add(1)
	s.o.spawn(func() {
		defer s.running.Done()
		f()
	})
}

func (s *settling) stores() []*store {
	var out []*store
	for _, st := range []*store{s.redis, s.nats} {
		if st != nil {
			out = append(out, st)
		}
	}
	return out
}

// wait says why nothing can be settled yet.
func (s *settling) wait(why string) {
	s.reason.Store(&why)
	s.tell(watchdog.LedgerChanged{Reason: why})
}

// tell passes a change on once.
func (s *settling) tell(ev watchdog.LedgerChanged) {
	if ev == s.told {
		return
	}
	s.told = ev
	ev.At = s.o.clock.Now().Mono
	s.post(ev)
}

// choose asks the buses which store decides; empty: none yet, and why.
func (s *settling) choose(ctx context.Context, waited time.Duration) (name, why string) {
	ctx, cancel := context.WithTimeout(ctx, readMarks)
	defer cancel()
	s.dropOptional(ctx, waited)
	var markers []watchdog.Marker
	for _, st := range s.present() {
		markers = append(markers, st.Marker)
	}
	marks := watchdog.ReadMarks(ctx, markers)
	s.expect(marks)
	contenders := []watchdog.Contender{
		s.contender(watchdog.AuthorityJetStream, s.nats, &marks),
		s.contender(watchdog.AuthorityRedis, s.redis, &marks),
		{Name: watchdog.AuthorityFile, Configured: s.o.File != nil},
	}
	if s.reads() {
		return s.onlyNamed(marks)
	}
	choice := watchdog.ChooseAuthority(string(s.settings.Ledger), contenders, marks)
	return choice.Name, choice.Reason
}

// expect tells the ledger on NATS what another bus names: a stream that is named
// and not there has vanished, and is never made anew.
func (s *settling) expect(marks []watchdog.Mark) {
	if s.nats == nil {
		return
	}
	for _, m := range marks {
		if m.Found {
			s.nats.Ledger.(*natsbus.Ledger).Expect(m.Authority)
		}
	}
}

// onlyNamed is the choice of a process that reads: what is named, or nothing.
// Who may not read the name on NATS still hears what ends from now on.
func (s *settling) onlyNamed(marks []watchdog.Mark) (name, why string) {
	why = "no authority is named on these buses yet: nothing was ever settled"
	for _, m := range marks {
		switch {
		case m.Err == nil && m.Found:
			return m.Authority.Name, ""
		case m.Err != nil:
			why = m.Place + ": " + m.Err.Error()
		}
	}
	if s.nats != nil && s.nats.up(context.Background()) && slices.ContainsFunc(marks, func(m watchdog.Mark) bool {
		return m.Place == s.nats.MarkerName() && m.Err != nil && !errors.Is(m.Err, natsbus.ErrNoJetStream)
	}) {
		return watchdog.AuthorityJetStream, ""
	}
	return "", why
}

// contender is what is known of a store. A bus that can keep nothing at all is
// no place for a name either.
func (s *settling) contender(name string, st *store, marks *[]watchdog.Mark) watchdog.Contender {
	c := watchdog.Contender{Name: name, Configured: st != nil && !s.isOptional(st)}
	if !c.Configured {
		return c
	}
	kept := (*marks)[:0]
	for _, m := range *marks {
		switch {
		case m.Place != st.MarkerName():
			kept = append(kept, m)
		case errors.Is(m.Err, natsbus.ErrNoJetStream):
			c.Impossible = m.Err.Error()
		default:
			if m.Err != nil {
				c.Away = m.Err.Error()
			}
			kept = append(kept, m)
		}
	}
	*marks = kept
	return c
}

// dropOptional leaves out the buses that only a default names and that nobody
// answers at: a machine without servers settles in its own file.
func (s *settling) dropOptional(ctx context.Context, waited time.Duration) {
	if s.o.File == nil || s.reads() {
		return
	}
	for _, st := range s.stores() {
		if st.origin != defaultOrigin || s.isOptional(st) {
			continue
		}
		if s.o.Alone && refuses(ctx, st.hosts) || waited >= lookAround && !st.up(ctx) {
			s.optional = append(s.optional, st)
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

func (s *settling) isOptional(st *store) bool { return slices.Contains(s.optional, st) }

// present are the stores that count.
func (s *settling) present() []*store {
	var out []*store
	for _, st := range s.stores() {
		if !s.isOptional(st) {
			out = append(out, st)
		}
	}
	return out
}

func (s *settling) open(name string) watchdog.Ledger {
	switch name {
	case watchdog.AuthorityJetStream:
		return s.nats.Ledger
	case watchdog.AuthorityRedis:
		return s.redis.Ledger
	}
	return s.o.File
}

// work follows the ledger, and settles with it if this process does.
func (s *settling) work(ctx context.Context, ledger watchdog.Ledger) {
	s.ledger.Store(&chosenLedger{ledger})
	s.goes(func() {
		for ctx.Err() == nil {
			if err := ledger.Follow(ctx, s.post); err != nil && ctx.Err() == nil {
				s.o.log.Warn("the ledger cannot be followed", "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(chooseAgain):
			}
		}
	})
	if s.reads() {
		s.tell(watchdog.LedgerChanged{Authority: ledger.Authority(), Ready: true})
		<-ctx.Done()
		return
	}
	if err := s.seal.Usable(); err != nil {
		why := err.Error()
		s.reason.Store(&why)
		s.o.log.Warn("this process settles nothing", "reason", why)
		s.tell(watchdog.LedgerChanged{Authority: ledger.Authority(), Reason: why})
		<-ctx.Done()
		return
	}
	var markers []watchdog.Marker
	for _, st := range s.present() {
		markers = append(markers, st.Marker)
	}
	settler := watchdog.NewSettler(watchdog.SettlerConfig{
		Ledger: ledger, Markers: s.canKeep(markers), Projections: s.projections(ledger), Quarantine: s.o.Quarantine,
		Writer: s.o.Writer, Why: wire.EncodeEvidence, StillDue: s.stillDue, Post: s.post,
		Clock: s.o.clock, Log: s.o.log, Policy: s.settings.Policy,
	})
	s.settler.Store(settler)
	close(s.settles)
	if len(s.optional) > 0 {
		s.goes(func() { s.guardOptional(ctx) })
	}
	_ = settler.Run(ctx) // ends with ctx
}

// stillDue is asked right before a write.
func (s *settling) stillDue(e watchdog.Settle) bool {
	if spare := s.spare.Load(); spare != nil && (*spare)(e) {
		return false
	}
	return s.due(e)
}

// canKeep leaves out a NATS without JetStream: it can keep no name.
func (s *settling) canKeep(markers []watchdog.Marker) []watchdog.Marker {
	var out []watchdog.Marker
	for _, m := range markers {
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
func (s *settling) projections(ledger watchdog.Ledger) []watchdog.Projection {
	out := s.o.Projections
	if s.redis != nil && !s.isOptional(s.redis) {
		out = append(out, s.conn.LivenessEnd(ledger), s.conn.RegistryEnd(ledger))
		if ledger != s.redis.Ledger {
			out = append(out, s.conn.RecordCopy(s.seal))
		}
	}
	return out
}

// guardOptional stops settling for others when a bus comes up that nobody
// answered at when the local file was chosen: another process may settle there.
func (s *settling) guardOptional(ctx context.Context) {
	ticker := time.NewTicker(chooseAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, st := range s.optional {
			if !st.up(ctx) {
				continue
			}
			s.blocked.Store(true)
			s.wait(st.MarkerName() + " came up after this process had chosen its own file as ledger; restart it to settle there")
			return
		}
	}
}

// ready gives the settler, or why there is none.
func (s *settling) ready() (*watchdog.Settler, error) {
	if t := s.settler.Load(); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s", watchdog.ErrAuthorityAway, *s.reason.Load())
}

// Claim asks the ledger for the number of an execution.
func (s *settling) Claim(ctx context.Context, c watchdog.Claim) (watchdog.Generation, error) {
	t, err := s.ready()
	if err != nil {
		return 0, err
	}
	return t.Claim(ctx, c)
}

// Settle writes an end once, and gives the record that stands.
func (s *settling) Settle(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	t, err := s.ready()
	if err != nil {
		return watchdog.Record{}, err
	}
	return t.Settle(ctx, r)
}

// chosen gives the ledger to read from.
func (s *settling) chosen() (watchdog.Ledger, error) {
	if l := s.ledger.Load(); l != nil {
		return l.Ledger, nil
	}
	return nil, fmt.Errorf("%w: %s", watchdog.ErrAuthorityAway, *s.reason.Load())
}
