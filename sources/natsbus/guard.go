package natsbus

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// URLVariable names the environment variable that a Guard takes its address from
// unless it is given one.
const URLVariable = "NATS_URL"

// Guard sends the beats of guarded sessions and hears who asks for one: it is a
// guard.Publisher, and may serve any number of sessions of a process. When a
// connection that was lost is made anew, every session beats soon.
type Guard struct {
	pub   *Publisher
	ended chan struct{}
}

var (
	_ guard.Publisher = (*Guard)(nil)
	_ guard.Pinger    = (*Guard)(nil)
)

// OpenGuard makes a Guard that connects in the background. It checks the options
// and does not wait for the network; without an address it takes NATS_URL.
// Options that are read-only are refused. A nil log drops what would be logged.
// Close it after its sessions.
func OpenGuard(o Options, log *slog.Logger) (*Guard, error) {
	if url := os.Getenv(URLVariable); len(o.URLs) == 0 && url != "" {
		o.URLs, o.Origin = []string{url}, URLVariable
	}
	pub, err := OpenPublisher(o, clock.System(), log)
	if err != nil {
		return nil, err
	}
	pub.pings = &pings{listeners: map[int]func(){}}
	g := &Guard{pub: pub, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		_ = pub.Run(context.Background()) // its only error is a second call
	}()
	return g, nil
}

// String is what logs call it, without a password.
func (g *Guard) String() string { return "NATS " + g.pub.Link().Address }

// Close ends the connection.
func (g *Guard) Close() {
	g.pub.Close()
	<-g.ended
}

// Publish sends one beat and returns when the server has it.
func (g *Guard) Publish(ctx context.Context, m guard.Message) error {
	encode := wire.AppendBeat
	if m.Plain {
		encode = wire.AppendPlainBeat
	}
	return g.pub.PublishNow(ctx, watchdog.ID(m.Beat.ID), encode(nil, m.Beat))
}

// OnPing calls f when somebody asks all agents to beat, and when the connection
// is back after a loss.
func (g *Guard) OnPing(f func()) (remove func()) { return g.pub.pings.add(f) }

// pings are those who want to hear of pings. A nil one hears none.
type pings struct {
	mu        sync.Mutex
	listeners map[int]func()
	added     int
	connected bool // once at least
}

func (p *pings) add(f func()) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.added++
	n := p.added
	p.listeners[n] = f
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, n)
	}
}

// subscribe takes pings from a new connection.
func (p *pings) subscribe(c *conn) error {
	if p == nil {
		return nil
	}
	_, err := c.nc.Subscribe(wire.PingSubject, func(*nats.Msg) { p.tell() })
	return err
}

// proved is told of every connection that works.
func (p *pings) proved() {
	if p == nil {
		return
	}
	p.mu.Lock()
	again := p.connected
	p.connected = true
	p.mu.Unlock()
	if again {
		p.tell()
	}
}

// tell calls everybody; none of them blocks.
func (p *pings) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.listeners {
		f()
	}
}
