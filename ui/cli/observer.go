package cli

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// beatSource is what the wiring needs of a source that is open.
type beatSource interface {
	Run(ctx context.Context) error // until Close
	Retry()
	Close()
}

// observer is one engine and everything that feeds it. It settles nothing. The
// screen and the one-shot commands watch through the same one.
type observer struct {
	engine   *watchdog.Engine
	clock    watchdog.Clock
	settings *config.Config
	log      *slog.Logger
	ping     bool                 // ask guards to beat whenever NATS comes up
	settling *settling            // reads ends, and settles if this process does; nil: neither
	foreign  func(*watchdog.Beat) // told every beat that a bus brings; nil: nobody is
	spawn    func(func())         // starts a goroutine
	guard    *selfGuard           // watches over the engine; nil: nothing does
	taping   *taping              // keeps what comes in; nil: nothing does
	acting   *acting              // carries out what people ask for; nil: nothing can be acted on
	alerting *alerting            // stands behind the alerts; nil: nobody answers or hears of them

	heard   *natsbus.OutputReader // of sessions that others supervise; nil: no NATS, or read-only
	running sync.WaitGroup        // the sources' Run

	mu      sync.Mutex
	sources []beatSource // open, in order
}

// observerOptions say what is special about an observer.
type observerOptions struct {
	clock watchdog.Clock
	log   *slog.Logger
	tap   watchdog.Tap
	ping  bool // publish agent.ping at each connection, unless read-only
	// settling finds the ledger of what is watched; nil: ends are not looked for.
	settling *settling
	sweeps   bool // what the engine decides is settled
	tapes    bool // keeps what comes in, for trials and recordings
	// spawn starts the observer's goroutines; nil: go. Beside a screen it must
	// give the terminal back when one of them panics.
	spawn func(func())
	// guard watches over the engine; nil: nothing does.
	guard *selfGuard
	// acting carries out what people ask for; nil: nothing can be acted on.
	acting *acting
	// alerting stands behind the alerts; nil: nobody answers or hears of them.
	alerting *alerting
}

// newObserver makes an observer; it connects to nothing before Run.
func newObserver(settings *config.Config, o observerOptions) *observer {
	if o.spawn == nil {
		o.spawn = func(f func()) { go f() }
	}
	engine := watchdog.EngineConfig{Policy: settings.Policy, Clock: o.clock, Tap: o.tap, Acts: actsOf(settings)}
	var carriers []func([]watchdog.Effect)
	if o.settling != nil && o.sweeps {
		engine.Sweeper = o.settling.o.Writer
		carriers = append(carriers, o.settling.effects)
	}
	if o.acting != nil {
		engine.Acts = o.acting.acts()
		carriers = append(carriers, o.acting.operator.Effects)
	}
	if o.alerting != nil {
		carriers = append(carriers, o.alerting.effects)
	}
	engine.Effects = func(effects []watchdog.Effect) {
		for _, carry := range carriers {
			carry(effects)
		}
	}
	tapes := newTaping(settings, &o, &engine)
	out := &observer{
		taping:   tapes,
		spawn:    o.spawn,
		guard:    o.guard,
		engine:   watchdog.NewEngine(engine),
		settling: o.settling,
		clock:    o.clock,
		settings: settings,
		log:      o.log,
		ping:     o.ping && !settings.ReadOnly,
		acting:   o.acting,
	}
	if o.acting != nil {
		o.acting.watch(out.engine)
	}
	if out.alerting = o.alerting; o.alerting != nil {
		o.alerting.watch(out.engine)
	}
	return out
}

// open starts the configured sources. None of them waits for a server. After an
// error some may run; close ends them.
func (o *observer) open() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.settings.NATS; s.Address != config.None {
		inlet := &natsInlet{inlet: o.inlet()}
		bus, err := natsbus.Open(natsOptions(o.settings), inlet, o.clock, o.log)
		if err != nil {
			return err
		}
		if o.ping {
			inlet.up = func() { _ = bus.Ping() } // read-only was excluded
		}
		o.attach(bus)
		if !o.settings.ReadOnly {
			if o.heard, err = natsbus.OpenOutputReader(natsOptions(o.settings), o.clock, o.log); err != nil {
				return err
			}
			o.attach(o.heard)
		}
	}
	if s := o.settings.Redis; s.Address != config.None {
		store, err := redisstore.Open(redisOptions(o.settings), o.inlet(), o.clock, o.log)
		if err != nil {
			return err
		}
		o.attach(store)
	}
	return nil
}

// attach lets a source run until it is closed.
func (o *observer) attach(s beatSource) {
	o.sources = append(o.sources, s)
	o.running.Add(1)
	o.spawn(func() {
		defer o.running.Done()
		if err := s.Run(context.Background()); err != nil {
			o.log.Error("a source ended", "error", err)
		}
	})
}

// inlet hands what a bus brings to the engine, and to whoever supervises.
type inlet struct {
	*watchdog.Engine
	foreign func(*watchdog.Beat) // nil: nobody does
}

func (o *observer) inlet() inlet { return inlet{o.engine, o.foreign} }

// Beats takes in a batch.
func (n inlet) Beats(batch []watchdog.Beat) {
	n.Engine.Beats(batch)
	if n.foreign == nil {
		return
	}
	for i := range batch {
		n.foreign(&batch[i])
	}
}

// natsInlet hands everything of the NATS source to the engine and notices when
// the connection comes up: then guards are asked to beat, so that nobody waits a
// whole interval to be seen.
type natsInlet struct {
	inlet
	up func() // nil: nobody is asked
}

// Post takes in an event.
func (n *natsInlet) Post(ev watchdog.Event) {
	n.inlet.Post(ev)
	if link, ok := ev.(watchdog.LinkChanged); ok && link.Phase == watchdog.LinkUp && n.up != nil {
		n.up()
	}
}

// close ends the sources, the newest first.
func (o *observer) close() {
	o.mu.Lock()
	open := o.sources
	o.sources = nil
	o.mu.Unlock()
	for _, s := range slices.Backward(open) {
		s.Close()
	}
	o.running.Wait()
	o.taping.close(o.log)
}

// retry asks every source again now.
func (o *observer) retry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.sources {
		s.Retry()
	}
	if o.settling != nil {
		o.settling.retry()
	}
}

// started is an observer that runs.
type started struct {
	*observer
	watch  *loopWatch // over the engine; nil: nothing watches
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

// start opens the sources and runs everything until stop. Its error says which
// setting is wrong; then nothing runs.
func (o *observer) start() (*started, error) {
	watch, err := o.guard.over("the engine", reachEngine(o.engine))
	if err != nil {
		return nil, err
	}
	if err := o.open(); err != nil {
		o.close()
		return nil, misconfigured(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &started{observer: o, watch: watch, cancel: cancel, done: make(chan struct{})}
	if o.settling != nil {
		o.running.Add(1)
		o.spawn(func() {
			defer o.running.Done()
			o.settling.run(ctx, o.engine)
		})
	}
	if o.acting != nil {
		o.running.Add(1)
		o.spawn(func() {
			defer o.running.Done()
			o.acting.run(ctx)
		})
	}
	if o.alerting != nil {
		o.running.Add(1)
		o.spawn(func() {
			defer o.running.Done()
			o.alerting.run(ctx)
		})
	}
	o.spawn(func() {
		defer close(s.done)
		defer o.close()
		if err := o.engine.Run(ctx); err != nil && ctx.Err() == nil {
			s.err = fault(err)
		}
	})
	watch.arm()
	return s, nil
}

// stop ends it and waits until everything behind it has ended.
func (s *started) stop() error {
	s.watch.disarm()
	s.cancel()
	<-s.done
	return s.err
}

// natsOptions translates the settings for the NATS source.
func natsOptions(settings *config.Config) natsbus.Options {
	s := settings.NATS
	return natsbus.Options{
		URLs: s.URLs, Origin: s.Origin,
		CredsFile: s.CredsFile, NKeyFile: s.NKeyFile,
		User: s.User, Password: s.Password.Reveal(), Token: s.Token.Reveal(),
		TLS:      natsbus.TLSOptions{CAFile: s.TLS.CAFile, CertFile: s.TLS.CertFile, KeyFile: s.TLS.KeyFile},
		ReadOnly: settings.ReadOnly,
	}
}

// redisOptions translates the settings for the Redis source.
func redisOptions(settings *config.Config) redisstore.Options {
	s := settings.Redis
	return redisstore.Options{
		Addrs: s.Addrs, MasterName: s.MasterName, Cluster: s.Cluster,
		Username: s.Username, Password: s.Password.Reveal(), DB: s.DB,
		TLS: redisstore.TLSOptions{
			Enabled: s.UseTLS,
			CAFile:  s.TLS.CAFile, CertFile: s.TLS.CertFile, KeyFile: s.TLS.KeyFile,
		},
		Origin: s.Origin, PollInterval: s.PollInterval, RedisTTL: settings.Policy.RedisTTL,
		ReadOnly: settings.ReadOnly,
	}
}
