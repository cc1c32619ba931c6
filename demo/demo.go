package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// DefaultAgents is the size of the fleet unless told otherwise.
	DefaultAgents = 60
	// MaxAgents is what one process plays without starving who watches.
	MaxAgents = 200_000
	// MinSpeed and MaxSpeed bound how fast the story passes.
	MinSpeed, MaxSpeed = 0.25, 4
)

// The observer's way to Redis is shut for a while in each round, in real time:
// how long a source must be mute before it counts as blind is no setting. A dispute
// is seen before that, and blindness within 20 s, with as much time to spare on a
// busy machine.
const (
	outFrom  = 8500 * time.Millisecond
	outTo    = 25 * time.Second
	outRound = time.Minute
)

// lostAfter is that of the policy: a star that beats every 2 s is lost on the screen
// within the first 20 s. It is longer than silence takes to count.
const lostAfter = 9 * time.Second

// redisOut reports whether the gate is shut.
func redisOut(elapsed time.Duration) bool {
	at := elapsed % outRound
	return at >= outFrom && at < outTo
}

// Options choose the story. The zero value is the default one.
type Options struct {
	Seed   uint64  // the same seed is the same story
	Agents int     // 0: DefaultAgents
	Speed  float64 // seconds of story in a real one; 0: 1
	Logger *slog.Logger
}

// Demo is a fleet that plays.
type Demo struct {
	script *Script
	speed  float64
	bus    *embedded.NATS
	store  *embedded.Redis
	gate   *Gate
	nats   *nats.Conn
	redis  *redis.Client
	boxN   *natsbus.Commands
	boxR   *redisstore.Commands
	troupe *troupe
	dir    string
	boxes  sync.WaitGroup
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
	err    error // of the troupe; read after done
}

func (o Options) withDefaults() (Options, error) {
	if o.Agents == 0 {
		o.Agents = DefaultAgents
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	switch {
	case o.Agents < 1 || o.Agents > MaxAgents:
		return o, fmt.Errorf("a demo of %d agents cannot be played; choose 1 to %d", o.Agents, MaxAgents)
	case !(o.Speed >= MinSpeed && o.Speed <= MaxSpeed):
		return o, fmt.Errorf("a demo at speed %v cannot be played; choose %v to %v", o.Speed, MinSpeed, MaxSpeed)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Start starts both servers on random loopback ports and lets the fleet play
// until Close or until ctx ends. It writes files in a temporary folder alone, which
// Close removes.
func Start(ctx context.Context, o Options) (*Demo, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Demo{speed: o.Speed, script: NewScript(o.Seed, o.Agents, o.Speed), done: make(chan struct{})}
	if err := d.open(o); err != nil {
		close(d.done)
		d.shut()
		return nil, fmt.Errorf("cannot start the demo: %w", err)
	}
	d.troupe = newTroupe(d, o.Logger)
	ctx, d.cancel = context.WithCancel(ctx)
	go func() {
		defer close(d.done)
		if d.err = d.troupe.play(ctx); d.err != nil {
			o.Logger.Error("the demo ended", "error", d.err)
		}
	}()
	return d, nil
}

// open starts the servers and connects the agents.
func (d *Demo) open(o Options) (err error) {
	if d.dir, err = os.MkdirTemp("", "sessionwatch-demo-"); err != nil {
		return fmt.Errorf("it needs a temporary folder: %w; set TMPDIR to one that you may write", err)
	}
	store := filepath.Join(d.dir, "jetstream")
	if d.bus, err = embedded.StartNATS(embedded.NATSOptions{JetStream: true, Volatile: true, StoreDir: store, Logger: o.Logger}); err != nil {
		return err
	}
	if d.store, err = embedded.StartRedis(embedded.RedisOptions{}); err != nil {
		return err
	}
	if d.gate, err = newGate(d.store.Addr()); err != nil {
		return err
	}
	d.nats, err = nats.Connect(d.bus.ClientURL(),
		nats.Name("demo agents"),
		nats.SkipHostLookup(),
		nats.MaxReconnects(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Logger.Warn("demo agents on NATS", "error", err)
		}))
	if err != nil {
		return fmt.Errorf("the agents cannot reach their NATS server: %w", err)
	}
	d.redis = redis.NewClient(&redis.Options{Addr: d.store.Addr(), Protocol: 2, PoolSize: 2, DisableIdentity: true})
	return d.openBoxes(o.Logger)
}

// openBoxes opens what the agents take their commands from. They obey everybody on
// this machine: nobody else reaches their servers.
func (d *Demo) openBoxes(log *slog.Logger) (err error) {
	rules := orders.Rules{TrustLoopback: true, Name: "demo agents"}
	d.boxN, err = natsbus.OpenCommands(natsbus.Options{URLs: []string{d.bus.ClientURL()}}, natsbus.CommandOptions{Rules: rules}, clock.System(), log)
	if err != nil {
		return err
	}
	d.boxR, err = redisstore.OpenCommands(redisstore.Options{URL: d.store.URL()}, redisstore.CommandOptions{Rules: rules}, clock.System(), log)
	if err != nil {
		return err
	}
	for _, run := range []func(context.Context) error{d.boxN.Run, d.boxR.Run} {
		d.boxes.Go(func() {
			if err := run(context.Background()); err != nil {
				log.Error("the agents of the demo take no commands any more", "error", err)
			}
		})
	}
	return nil
}

// Dir is the demo's temporary folder, where whoever watches it may keep files: they
// are removed by Close.
func (d *Demo) Dir() string { return d.dir }

// NATSURL is where the fleet publishes.
func (d *Demo) NATSURL() string { return d.bus.ClientURL() }

// RedisURL is the observer's way to the fleet's Redis. For some time in each
// minute it leads nowhere, so that blindness can be seen.
func (d *Demo) RedisURL() string { return "redis://" + d.gate.Addr() }

// StoreURL is the way to the fleet's Redis that is never shut: for who settles it,
// as a process of its own beside the servers would.
func (d *Demo) StoreURL() string { return d.store.URL() }

// Script is what is played.
func (d *Demo) Script() *Script { return d.script }

// Speed is how many seconds of script pass in a real one.
func (d *Demo) Speed() float64 { return d.speed }

// Lost is how many beats the servers did not take in time.
func (d *Demo) Lost() uint64 { return d.troupe.lost.Load() }

// Policy is what to watch the fleet with: short times, so that everything can
// be seen within seconds.
func (d *Demo) Policy() watchdog.Policy {
	real := func(script time.Duration) time.Duration {
		return time.Duration(float64(script) / d.speed).Round(time.Millisecond)
	}
	crowd := d.script.Interval()
	p := watchdog.Policy{
		HeartbeatInterval: real(crowd),
		RedisTTL:          d.redisTTL(),
		StallTimeout:      real(stallAfter(crowd)),
		LoopLagLimit:      real(5 * time.Second),
		LostAfter:         real(lostAfter),
		SweepInterval:     real(10 * time.Second),
		BrakeHold:         real(time.Minute),
	}
	if crowd != calmInterval {
		p.Overrides = d.overrides(real)
	}
	return p.WithDefaults()
}

// stallAfter is the stall timeout of a crowd that beats so often: whole seconds,
// so that it reads the same wherever it is shown, and longer than silence takes
// to count (2.4 intervals), so that who falls silent does not look stalled first.
func stallAfter(interval time.Duration) time.Duration {
	return max(stallTimeout, (5*interval/2 + time.Second - 1).Truncate(time.Second))
}

// overrides give the stars that do not say it their own times, where the crowd
// is so large that it beats too seldom for the story.
func (d *Demo) overrides(real func(time.Duration) time.Duration) []watchdog.Override {
	var out []watchdog.Override
	for _, a := range d.script.Agents() {
		if a.Star() && a.Voice != Guarded && a.Interval < d.script.Interval() {
			out = append(out, watchdog.Override{Match: a.ID, StallTimeout: real(stallTimeout), HeartbeatInterval: real(a.Interval)})
		}
	}
	return out
}

// redisTTL is how long a key lives, in real time: longer than the longest
// interval between two beats.
func (d *Demo) redisTTL() time.Duration {
	crowd := float64(d.script.Interval()) / d.speed
	return max(25*time.Second, time.Duration(2.5*crowd).Round(time.Second))
}

// Close ends the fleet and its servers and waits for both. It may be called
// more than once.
func (d *Demo) Close() error {
	d.once.Do(func() {
		d.cancel()
		<-d.done
		d.shut()
	})
	return d.err
}

// shut closes what was opened, the clients before their servers.
func (d *Demo) shut() {
	if d.boxN != nil {
		d.boxN.Close()
	}
	if d.boxR != nil {
		d.boxR.Close()
	}
	d.boxes.Wait()
	if d.nats != nil {
		d.nats.Close()
	}
	if d.redis != nil {
		if err := d.redis.Close(); err != nil && !errors.Is(err, redis.ErrClosed) && d.err == nil {
			d.err = err
		}
	}
	if d.gate != nil {
		d.gate.Close()
	}
	if d.store != nil {
		d.store.Close()
	}
	if d.bus != nil {
		d.bus.Close()
	}
	if d.dir != "" {
		if err := os.RemoveAll(d.dir); err != nil && d.err == nil {
			d.err = fmt.Errorf("the temporary folder of the demo is left: %w", err)
		}
	}
}
