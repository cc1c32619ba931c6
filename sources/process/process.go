package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Engine is told of beats and events: the local engine. Its methods must not
// block.
type Engine interface {
	Beats([]watchdog.Beat)
	Post(watchdog.Event)
}

// Publisher takes a beat to a bus. Publish must not block, and the beat and its
// bytes are valid until it returns. A beat that says "stalled" does not renew
// what expires by itself.
type Publisher interface {
	Publish(b *watchdog.Beat)
}

// Options say what to supervise and whom to tell. Only Clock is required.
type Options struct {
	Sessions []config.Session
	Guard    config.RestartGuard // the zero value means the defaults of the file
	MaxWait  time.Duration       // caps what a child declares; 0: 24 h

	Clock watchdog.Clock
	Log   *slog.Logger // nil: discarded

	Engine     Engine        // nil: nobody looks
	Publishers []Publisher   // each is given every beat
	Interval   time.Duration // of beats; 0: 30 s
	// Takes are the commands that whoever runs the supervisor receives over a bus
	// and carries out, as the beats say; empty: none are received.
	Takes  watchdog.OpSet
	Host   string // in beats; empty: that of the machine
	Writer string // in terminal records: "run@eu1-01/812"; empty: "supervisor@host/pid"

	// ByHand says that whoever started this process means to start its sessions:
	// one that was stopped runs again, and one that an earlier supervisor held as
	// a crash loop once more, and is held again at its next failure.
	ByHand bool

	Ends     Ends     // nil: generations are counted here and settled nowhere
	Capturer Capturer // nil: no dumps are taken
	Store    Store    // nil: nothing survives this process

	// HeartbeatURL is where a child may beat over HTTP; empty: nowhere.
	// HeartbeatToken gives the token of a generation (0: not known yet).
	HeartbeatURL   string
	HeartbeatToken func(id watchdog.ID, g watchdog.Generation) string

	// OnLine is told each line of output in its order, and OnCapture each dump.
	// Who takes long in OnLine slows the child, and nothing else; it must not take
	// for ever.
	OnLine    func(id watchdog.ID, l Line)
	OnCapture func(c Capture)

	OutputBytes int // kept of the lines of one session; 0: 1 MiB
	RawBytes    int // kept of the bytes of one generation, for its dumps; 0: 2 MiB

	// RuntimeDir holds the notify sockets; it is made (0700). Empty: a new one
	// among the temporary files. Its path must be short: a socket's has at most
	// 100 bytes.
	RuntimeDir string

	random  func() float64 // tests
	sample  time.Duration  // tests; 0: 5 s
	cgroups *cgroups       // tests; nil: those that can be had
}

// Errors of orders. They are sentences for people.
var (
	ErrUnknownSession  = errors.New("no such session is supervised here")
	ErrNotRunning      = errors.New("it does not run")
	ErrOtherGeneration = errors.New("another generation runs by now; nothing was done to it")
	ErrClosed          = errors.New("the supervisor has ended")
	ErrDumpRefused     = errors.New("no dump can be taken: one is being taken already, or dump.mode is none")
	ErrSurvives        = errors.New("it survives SIGKILL, so it cannot be said to have stopped; look at what it waits for in the kernel")
)

// Target names a session. A Generation other than 0 pins an order to it: it
// never touches one that was started after the order was given.
type Target struct {
	ID         watchdog.ID
	Generation watchdog.Generation
}

// Supervisor runs sessions. Its methods may be called from any goroutine, before
// Run too: they take effect once it runs.
type Supervisor struct {
	opts    Options
	log     *slog.Logger
	mono    func() time.Duration
	units   []*unit // in the order of the configuration
	byID    map[watchdog.ID]*unit
	spawner *spawner
	table   *processTable
	groups  *cgroups // nil: none can be made here
	boot    string   // of the machine
	dir     string   // of the notify sockets
	ownsDir bool

	fleetMu sync.Mutex
	fleet   *watchdog.FleetGuard

	saveMu sync.Mutex
	absent map[watchdog.ID]SessionState // saved, and no longer configured
	unkept time.Time                    // when it was said that the state cannot be saved; zero: it can

	life sync.Mutex
	ran  bool
	done chan struct{}
}

// Defaults of Options.
const (
	defaultInterval = 30 * time.Second
	defaultMaxWait  = 24 * time.Hour
	defaultOutput   = 1 << 20
	defaultRaw      = 2 << 20
	sampleEvery     = 5 * time.Second
	sightEvery      = 2 * time.Second
)

// New checks the options and makes a Supervisor. Nothing is started before Run.
func New(o Options) (*Supervisor, error) {
	o.defaults()
	limits, fleet := limitsOf(o.Guard)
	if err := errors.Join(limits.Validate(), fleet.Validate()); err != nil {
		return nil, err
	}
	s := &Supervisor{opts: o, log: o.Log, mono: clock.MonoOf(o.Clock), byID: map[watchdog.ID]*unit{},
		fleet: watchdog.NewFleetGuard(fleet), absent: map[watchdog.ID]SessionState{},
		done: make(chan struct{})}
	var errs []error
	for i := range o.Sessions {
		c := &o.Sessions[i]
		id := watchdog.ID(c.ID)
		switch {
		case c.ID == "":
			errs = append(errs, fmt.Errorf("sessions: the one that runs %q has no id; give it one", strings.Join(c.Command, " ")))
		case s.byID[id] != nil:
			errs = append(errs, fmt.Errorf("sessions: two have the id %q; rename one", c.ID))
		case len(c.Command) == 0 || c.Command[0] == "":
			errs = append(errs, fmt.Errorf("sessions: %s has no command; give [program, arguments]", c.ID))
		default:
			u := newUnit(s, *c, limits)
			s.units, s.byID[id] = append(s.units, u), u
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Guard == (config.RestartGuard{}) {
		o.Guard = config.RestartGuard{Burst: 3, Window: time.Minute, BackoffMin: time.Second, BackoffMax: time.Minute,
			Fleet: config.FleetGuard{PerHour: 40, Failing: 0.5, Hold: 2 * time.Minute}}
	}
	set(&o.MaxWait, defaultMaxWait)
	set(&o.Interval, defaultInterval)
	set(&o.OutputBytes, defaultOutput)
	set(&o.RawBytes, defaultRaw)
	set(&o.sample, sampleEvery)
	if o.Host == "" {
		o.Host, _ = os.Hostname()
	}
	if o.Writer == "" {
		o.Writer = fmt.Sprintf("supervisor@%s/%d", o.Host, os.Getpid())
	}
	if o.Store == nil {
		o.Store = memoryStore{}
	}
	if o.random == nil {
		o.random = rand.Float64
	}
}

func set[T int | time.Duration](dst *T, def T) {
	if *dst <= 0 {
		*dst = def
	}
}

func limitsOf(g config.RestartGuard) (watchdog.RestartLimits, watchdog.FleetLimits) {
	return watchdog.RestartLimits{Burst: g.Burst, Window: g.Window, BackoffMin: g.BackoffMin, BackoffMax: g.BackoffMax},
		watchdog.FleetLimits{PerHour: g.Fleet.PerHour, Failing: g.Fleet.Failing, Hold: g.Fleet.Hold, Window: g.Window}
}

// Run ends what an earlier supervisor left, starts every session that nobody
// stopped and no guard holds, and returns when ctx has ended and nothing of them is left. It may be
// called once.
func (s *Supervisor) Run(ctx context.Context) error {
	s.life.Lock()
	if s.ran {
		s.life.Unlock()
		return errors.New("process: Run was called twice on one Supervisor")
	}
	s.ran = true
	s.life.Unlock()
	defer close(s.done)
	state, err := s.opts.Store.Load()
	if err != nil {
		return err
	}
	if err := s.openDir(); err != nil {
		return err
	}
	defer s.closeDir()
	s.spawner, s.table = newSpawner(), newProcessTable()
	if s.groups = s.opts.cgroups; s.groups == nil {
		s.groups = openCgroups()
	}
	defer s.groups.close()
	defer s.table.close()
	defer s.spawner.close()
	s.restore(state)
	s.announce()

	var units, others sync.WaitGroup
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	for _, u := range s.units {
		units.Go(func() { u.run(ctx) })
		others.Go(func() { u.keeper.run(background) })
	}
	for id, left := range s.absent {
		others.Go(func() { s.clearAbsent(background, id, left) })
	}
	others.Go(func() { s.watch(background) })
	units.Wait()
	cancel()
	others.Wait()
	return nil
}

const socketsPrefix = "sessionwatch-"

func (s *Supervisor) openDir() error {
	s.dir = s.opts.RuntimeDir
	if s.dir == "" {
		dir, err := os.MkdirTemp("", socketsPrefix)
		if err != nil {
			return fmt.Errorf("no directory for the notify sockets can be made: %w; set TMPDIR", err)
		}
		s.dir, s.ownsDir = dir, true
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("no directory for the notify sockets can be made: %w; set data_dir", err)
	}
	return nil
}

func (s *Supervisor) closeDir() {
	if s.ownsDir {
		_ = os.RemoveAll(s.dir)
	}
}

// announce makes the supervisor a source of the engine.
func (s *Supervisor) announce() {
	now := s.mono()
	s.post(watchdog.SourceAdded{Source: watchdog.SourceLocal, At: now})
	s.post(watchdog.LinkChanged{Source: watchdog.SourceLocal, Phase: watchdog.LinkUp, Address: "this machine",
		Origin: "sessions", Detail: fmt.Sprintf("%d supervised", len(s.units)), At: now})
	s.post(watchdog.RoundTrip{Source: watchdog.SourceLocal, Sent: now, At: now})
}

func (s *Supervisor) post(e watchdog.Event) {
	if s.opts.Engine != nil {
		s.opts.Engine.Post(e)
	}
}

// watch proves that we see, and measures what the children use.
func (s *Supervisor) watch(ctx context.Context) {
	sight := time.NewTicker(sightEvery)
	defer sight.Stop()
	sample := time.NewTicker(s.opts.sample)
	defer sample.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sight.C:
			now := s.mono()
			s.post(watchdog.RoundTrip{Source: watchdog.SourceLocal, Sent: now, At: now})
		case <-sample.C:
			s.measure()
		}
	}
}

func (s *Supervisor) measure() {
	var runs []run
	for _, u := range s.units {
		if c := u.child.Load(); c != nil {
			runs = append(runs, run{c.pid, c.mark, c.group.pids()})
		}
	}
	used := s.table.sample(runs) // also without any: it reaps what ended late
	for _, u := range s.units {
		if c := u.child.Load(); c != nil {
			if usage, ok := used[c.pid]; ok {
				u.usage.Store(&usage)
				u.nudge()
			}
		}
	}
}

// Sessions tells how all sessions are, in the order of the configuration.
func (s *Supervisor) Sessions() []Status {
	out := make([]Status, len(s.units))
	for i, u := range s.units {
		out[i] = u.snapshot()
	}
	return out
}

// Session tells how one session is.
func (s *Supervisor) Session(id watchdog.ID) (Status, error) {
	u, err := s.unit(id)
	if err != nil {
		return Status{}, err
	}
	return u.snapshot(), nil
}

// Logs gives up to most lines of output whose Seq is at least from, oldest
// first; with a negative from the newest ones. All lines are safe to show.
func (s *Supervisor) Logs(id watchdog.ID, from int64, most int) ([]Line, error) {
	u, err := s.unit(id)
	if err != nil {
		return nil, err
	}
	return u.output.lines(from, max(most, 0)), nil
}

func (s *Supervisor) unit(id watchdog.ID) (*unit, error) {
	if u := s.byID[id]; u != nil {
		return u, nil
	}
	return nil, fmt.Errorf("%s: %w", id, ErrUnknownSession)
}

// Start starts a session that does not run, whatever held it, and forgets its
// failures. One that runs already is left alone.
func (s *Supervisor) Start(id watchdog.ID) error {
	u, err := s.unit(id)
	if err != nil {
		return err
	}
	return u.tell(func(now time.Duration) { u.machine.start(now) })
}

// Stop ends what runs with SIGTERM, and after the grace with SIGKILL, and lets
// nothing start again by itself, in a later supervisor neither. It returns once the end is verified; its Status
// names what survives. ErrSurvives, or the error of ctx, say that it is not.
func (s *Supervisor) Stop(ctx context.Context, t Target) (Status, error) {
	return s.stop(ctx, t, false)
}

// Kill is Stop without the grace.
func (s *Supervisor) Kill(ctx context.Context, t Target) (Status, error) { return s.stop(ctx, t, true) }

func (s *Supervisor) stop(ctx context.Context, t Target, kill bool) (Status, error) {
	u, err := s.unit(t.ID)
	if err != nil {
		return Status{}, err
	}
	if err := u.order(ctx, t.Generation, func(now time.Duration) error {
		if !u.machine.stop(now, kill) {
			return ErrNotRunning
		}
		return nil
	}); err != nil {
		return u.snapshot(), err
	}
	return u.await(ctx, func(st *Status) bool { return st.settled })
}

// Restart ends what runs, verifies that, and starts it again; what does not run
// is started. Two at once are one. It returns once the new run has begun.
func (s *Supervisor) Restart(ctx context.Context, t Target) (Status, error) {
	u, err := s.unit(t.ID)
	if err != nil {
		return Status{}, err
	}
	var before string
	if err := u.order(ctx, t.Generation, func(now time.Duration) error {
		before = u.bootID
		u.machine.restart(now)
		return nil
	}); err != nil {
		return u.snapshot(), err
	}
	return u.await(ctx, func(st *Status) bool {
		return st.BootID != before && st.PID > 0 || st.settled
	})
}

// Dump takes a stack dump of what runs.
func (s *Supervisor) Dump(ctx context.Context, t Target) (Capture, error) {
	u, err := s.unit(t.ID)
	if err != nil {
		return Capture{}, err
	}
	answer := make(chan Capture, 1)
	if err := u.order(ctx, t.Generation, func(now time.Duration) error {
		if u.machine.phase != phaseRunning {
			return ErrNotRunning
		}
		if !u.machine.dumpAsked(now) {
			return ErrDumpRefused
		}
		u.asked = append(u.asked, answer)
		return nil
	}); err != nil {
		return Capture{}, err
	}
	select {
	case c := <-answer:
		return c, nil
	case <-ctx.Done():
		return Capture{}, ctx.Err()
	case <-u.done:
		return Capture{}, ErrClosed
	}
}

// Wait returns when a session has run, does not run now, and nothing will start
// it again by itself. One that was held before this supervisor began returns at
// once: Start it first.
func (s *Supervisor) Wait(ctx context.Context, id watchdog.ID) (Status, error) {
	u, err := s.unit(id)
	if err != nil {
		return Status{}, err
	}
	return u.await(ctx, func(st *Status) bool {
		return st.settled && (st.Runs > 0 || st.Phase == watchdog.SupervisorCrashLoop)
	})
}

// Heartbeat takes in a heartbeat that a child sent over HTTP: proof of work, and
// what it says of its task, credits and waits. The beat's bytes are copied.
func (s *Supervisor) Heartbeat(b *watchdog.Beat) error {
	u, err := s.unit(watchdog.ID(b.ID))
	if err != nil {
		return err
	}
	said := saidBy(b)
	return u.order(context.Background(), b.Generation, func(now time.Duration) error {
		if u.machine.phase != phaseRunning && u.machine.phase != phaseEnding {
			return ErrNotRunning
		}
		u.take(said, now)
		return nil
	})
}

// ForeignBeat tells that a beat of a session came over a bus. If it is of the
// child itself, ours stop until it has been quiet for three intervals, and its
// own word on its work counts. The wiring calls it for every beat of our ids;
// our own are known by their boot id. It does not block for long and keeps no
// bytes.
func (s *Supervisor) ForeignBeat(b *watchdog.Beat) {
	u := s.byID[watchdog.ID(b.ID)]
	if u == nil {
		return
	}
	said, boot, g := saidBy(b), string(b.BootID), b.Generation
	_ = u.tell(func(now time.Duration) { u.foreign(said, boot, g, now) })
}

// Ping asks for a beat of every session that runs, spread over a second, and no
// more than one a second. Whoever asks is answered after it asked: of a crowd
// that asks one after the other, the last one too.
func (s *Supervisor) Ping() {
	for _, u := range s.units {
		if u.pinged.Swap(true) {
			continue // a beat that answers is on its way
		}
		_ = u.tell(func(now time.Duration) {
			delay := time.Duration(s.opts.random() * float64(time.Second))
			u.nextBeat = min(u.nextBeat, max(now+delay, u.answered+time.Second))
		})
	}
}

// fleetOf is the fleet as one session sees it.
type fleetOf struct {
	s  *Supervisor
	id watchdog.ID
}

func (f fleetOf) allow(now time.Duration) (bool, time.Duration, string) {
	f.s.fleetMu.Lock()
	defer f.s.fleetMu.Unlock()
	_, _, was := f.s.fleet.Held(now)
	if f.s.fleet.Allow(f.id, now, len(f.s.units)) {
		return true, 0, ""
	}
	until, why, _ := f.s.fleet.Held(now)
	if !was {
		f.s.log.Warn("all restarts are held", "reason", why, "for", until-now)
	}
	return false, until, why
}

func (f fleetOf) failed() {
	f.s.fleetMu.Lock()
	defer f.s.fleetMu.Unlock()
	f.s.fleet.Failed(f.id)
}

func (f fleetOf) fine() {
	f.s.fleetMu.Lock()
	defer f.s.fleetMu.Unlock()
	f.s.fleet.Forget(f.id)
}

// Held reports whether the restarts of all sessions are held, for how long yet,
// and why.
func (s *Supervisor) Held() (left time.Duration, why string, held bool) {
	s.fleetMu.Lock()
	defer s.fleetMu.Unlock()
	now := s.mono()
	until, why, held := s.fleet.Held(now)
	return max(until-now, 0), why, held
}
