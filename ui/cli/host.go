package cli

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/sessionwatch/sessionwatch/demo"
	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/ui"
)

// roleDemo is how records and audit lines name the screen of a demo.
const roleDemo = "demo"

// host opens what a screen wants to see: the wiring, seen from the screen.
type host struct {
	// load reads the configuration as it was at start, with a context and
	// addresses over it.
	load     func(context string, over ...config.Flag) (*config.Config, error)
	contexts []string
	first    string // the context that the command line named
	log      *slog.Logger
	// station opens what this process supervises besides looking; nil: it looks.
	station func(*config.Config) (*station, error)
	// supervises says that the sessions of the configuration are run here, unless
	// a serve does that.
	supervises bool
	// serve reaches the serve to look through; nil, nil: there is none.
	serve func(context.Context, *config.Config) (*serveview.Client, error)
	spawn func(func()) // starts a goroutine that gives the terminal back if it panics
	guard *selfGuard   // watches over the engine; nil: nothing does
	rings ringer       // of the terminal
}

// Contexts lists the clusters that the configuration names.
func (h *host) Contexts() []string { return h.contexts }

// Open opens a feed. It reads files and starts servers, and waits for no network.
func (h *host) Open(ctx context.Context, t ui.Target) (ui.Feed, error) {
	var feed ui.Feed
	var err error
	switch t.Kind {
	case ui.TargetDemo:
		feed, err = h.openDemo(t)
	case ui.TargetBus:
		feed, err = h.openBus()
	case ui.TargetRun:
		feed, err = h.openRun(t)
	case ui.TargetRecording:
		if t.File == "" && t.Speed == 0 {
			t.Speed = nightSpeed
		}
		feed, err = openReplay(t.File, t.Speed, h.spawn)
	default:
		feed, err = h.openConfigured(ctx, t)
	}
	if err != nil {
		h.log.Error("cannot open", "kind", int(t.Kind), "error", err)
		return nil, err
	}
	if ctx.Err() != nil { // nobody waits for it any more
		feed.Close()
		return nil, ctx.Err()
	}
	return feed, nil
}

func (h *host) openConfigured(ctx context.Context, t ui.Target) (ui.Feed, error) {
	var over []config.Flag
	if t.NATS != "" {
		over = append(over, config.Flag{Name: "the NATS address", Key: "nats.url", Value: t.NATS})
	}
	if t.Redis != "" {
		over = append(over, config.Flag{Name: "the Redis address", Key: "redis.url", Value: t.Redis})
	}
	settings, err := h.load(t.Context, over...)
	if err != nil {
		return nil, err
	}
	if err := settings.ReadSecrets(); err != nil {
		return nil, err
	}
	if h.station != nil {
		s, err := h.station(settings)
		if err != nil {
			return nil, err
		}
		return h.supervised(settings, s), nil
	}
	if h.serve != nil && len(over) == 0 && t.Context == h.first {
		client, err := h.serve(ctx, settings)
		if err != nil {
			return nil, err
		}
		if client != nil {
			about, err := client.About(ctx)
			if err == nil {
				return h.openServe(settings, client, about), nil
			}
			client.Close()
			return nil, err
		}
	}
	if h.supervises && len(settings.Sessions) > 0 && !settings.ReadOnly && t.Context == h.first {
		s, err := openStation(settings, stationOptions{role: "screen", tapes: true, db: "screen.db", state: "screen.json",
			sessions: settings.Sessions, log: h.log, spawn: h.spawn, guard: h.guard, ringer: h.rings})
		if err != nil {
			return nil, err
		}
		return h.supervised(settings, s), nil
	}
	return h.watch(settings, ui.About{Name: nameOf(settings), ReadOnly: settings.ReadOnly})
}

// nameOf is how the header calls what the configuration names.
func nameOf(settings *config.Config) string {
	if settings.Context != "" {
		return settings.Context
	}
	return "local"
}

func (h *host) openDemo(t ui.Target) (ui.Feed, error) {
	fleet, err := demo.Start(context.Background(), demo.Options{Seed: t.Seed, Agents: t.Agents, Speed: t.Speed, Logger: h.log})
	if err != nil {
		return nil, err
	}
	settings, err := demoSettings(fleet)
	if err != nil {
		_ = fleet.Close() // the first fault is the one to tell
		return nil, err
	}
	// Whoever settles is not behind the gate that blinds the observer.
	ends, err := bareSettings("demo", fleet.NATSURL(), fleet.StoreURL())
	if err != nil {
		_ = fleet.Close()
		return nil, err
	}
	ends.Policy = settings.Policy
	return h.watchSettling(settings, ends, ui.About{Name: "demo", Demo: true, Sweeper: "this demo"}, func() { _ = fleet.Close() })
}

// demoSettings watch a demo by its own policy and by nothing that the user set, and
// keep their files where the demo removes them.
func demoSettings(fleet *demo.Demo) (*config.Config, error) {
	settings, err := bareSettings("demo", fleet.NATSURL(), fleet.RedisURL())
	if err != nil {
		return nil, err
	}
	settings.Policy, settings.DataDir = fleet.Policy(), filepath.Join(fleet.Dir(), "data")
	settings.Commands.TrustLoopback = true
	return settings, nil
}

func (h *host) openBus() (ui.Feed, error) {
	servers, err := startBus(natsPort, redisPort, h.log)
	if err != nil {
		return nil, err
	}
	settings, err := h.load("",
		config.Flag{Name: "bus", Key: "nats.url", Value: servers.nats.ClientURL()},
		config.Flag{Name: "bus", Key: "redis.url", Value: servers.redis.URL()})
	if err != nil {
		servers.close()
		return nil, err
	}
	return h.watch(settings, ui.About{Name: "bus", ReadOnly: settings.ReadOnly}, servers.close)
}

// bareSettings are the defaults, pointed at two servers.
func bareSettings(origin, natsURL, redisURL string) (*config.Config, error) {
	return config.Load(config.Options{
		Path:   config.None,
		Getenv: func(string) string { return "" },
		Flags: []config.Flag{
			{Name: origin, Key: "nats.url", Value: natsURL},
			{Name: origin, Key: "redis.url", Value: redisURL},
		},
	})
}

// observe starts an observer that reads what ends, and writes an end that somebody
// asks for. That of a demo, whose ends are written where ends says, settles them
// all: the fleet is its own.
func (h *host) observe(settings, ends *config.Config) (*started, error) {
	demo := ends != nil
	o := observerOptions{clock: clock.System(), log: h.log, ping: true, tapes: true, spawn: h.spawn, guard: h.guard}
	acts := actingOptions{role: "screen", clock: o.clock, log: h.log, spawn: h.spawn}
	if demo {
		acts.role, o.sweeps = roleDemo, true
	} else {
		ends = settings
	}
	var err error
	if o.settling, err = newSettling(ends, settlingOptions{Writer: orders.ProcessName(acts.role), OnDemand: !demo, clock: o.clock, log: h.log, spawn: h.spawn}); err != nil {
		return nil, misconfigured(err)
	}
	acts.settling = o.settling
	if !settings.ReadOnly {
		o.acting = newActing(settings, acts)
	}
	o.alerting, err = newAlerting(settings, alertingOptions{demo: demo, ringer: h.rings, writer: orders.ProcessName("screen"), clock: o.clock, log: h.log, spawn: h.spawn})
	if err != nil {
		return nil, misconfigured(err)
	}
	s, err := newObserver(settings, o).start()
	if err != nil {
		o.alerting.boards.shut()
	}
	return s, err
}

// watch attaches an observer. What behind holds is ended after it, or at once if
// there is an error.
func (h *host) watch(settings *config.Config, about ui.About, behind ...func()) (ui.Feed, error) {
	return h.watchSettling(settings, nil, about, behind...)
}

// watchSettling attaches an observer that settles, too, as ends says; nil: it only
// reads what ends.
func (h *host) watchSettling(settings, ends *config.Config, about ui.About, behind ...func()) (ui.Feed, error) {
	watching, err := h.observe(settings, ends)
	if err != nil {
		for _, end := range behind {
			end()
		}
		return nil, err
	}
	about.Output, about.NoOutput = watching.output()
	about.Operator, about.Hooks = operatorName(), settings.Registry.Release
	return &engineFeed{watching: watching, about: about, behind: behind}, nil
}
