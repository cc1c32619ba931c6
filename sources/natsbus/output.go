package natsbus

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How output goes out. Nothing is queued: lines are read, while somebody
// listens, from where they are kept anyway, and what is overtaken there is
// counted and left out.
const (
	outputPause  = 200 * time.Millisecond
	outputNewest = 200 // lines that are kept and sent first
	outputAtOnce = 500 // lines of one session in one pause
	outputWishes = 64  // that may wait
)

// OutputLines gives up to most lines of a session from Seq from on, oldest
// first; from a negative one the newest. Lines that have not ended are left out.
type OutputLines func(id watchdog.ID, from int64, most int) []wire.OutputLine

// Output sends what supervised sessions write to whoever listens, while somebody
// does: a wish on a session's subject holds for wire.OutputHold.
type Output struct {
	link   *link
	life   lifetime.Run
	log    *slog.Logger
	ids    []watchdog.ID
	by     string
	read   OutputLines
	mono   func() time.Duration
	wishes chan outputWish
}

type outputWish struct {
	id     watchdog.ID
	conn   *conn
	reply  string
	newest bool
}

// outgoing is one session that somebody listens to.
type outgoing struct {
	conn  *conn
	until time.Duration
	next  int64 // Seq; negative: the newest lines first
}

// OpenOutput makes an Output for sessions that read gives the lines of; by names
// this process. Like Open it checks the options and leaves the network alone.
func OpenOutput(o Options, ids []watchdog.ID, by string, read OutputLines, clocks watchdog.Clock, log *slog.Logger) (*Output, error) {
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	out := &Output{log: orDiscard(log), ids: ids, by: by, read: read, mono: clock.MonoOf(clocks), wishes: make(chan outputWish, outputWishes)}
	out.link = newLink(p, out.mono, out.log, out, "output on demand", func(watchdog.LinkChanged) {})
	return out, nil
}

// Run connects, sends, and returns nil when ctx ends or Close is called. It may
// be called once.
func (o *Output) Run(ctx context.Context) error {
	ctx, finish, err := o.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.send(ctx)
	}()
	o.link.run(ctx)
	<-done
	return nil
}

// Close ends Run and waits for it.
func (o *Output) Close() { o.life.End() }

// send is the one goroutine that reads and sends.
func (o *Output) send(ctx context.Context) {
	wanted := map[watchdog.ID]*outgoing{}
	tick := time.NewTicker(outputPause)
	defer tick.Stop()
	tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-o.wishes:
			if len(wanted) == 0 {
				tick.Reset(outputPause)
			}
			o.grant(wanted, w)
		case <-tick.C:
			now := o.mono()
			for id, out := range wanted {
				if now > out.until || !o.sendOne(id, out) {
					delete(wanted, id)
				}
			}
			if len(wanted) == 0 {
				tick.Stop()
			}
		}
	}
}

// grant begins, or goes on, to send, and answers who asked.
func (o *Output) grant(wanted map[watchdog.ID]*outgoing, w outputWish) {
	out := wanted[w.id]
	if out == nil || out.conn != w.conn || w.newest {
		out = &outgoing{conn: w.conn, next: -1}
		wanted[w.id] = out
	}
	out.until = o.mono() + wire.OutputHold
	if w.reply != "" {
		answer, err := json.Marshal(wire.OutputHeld{Session: w.id, By: o.by, HeldSecs: wire.OutputHold.Seconds()})
		if err == nil {
			_ = w.conn.nc.Publish(w.reply, answer) // who asked may be gone
		}
	}
	o.sendOne(w.id, out)
}

// sendOne sends what is new of a session, and reports whether its connection
// still stands.
func (o *Output) sendOne(id watchdog.ID, out *outgoing) bool {
	newest := out.next < 0
	most := outputAtOnce
	if newest {
		most = outputNewest
	}
	lines := o.read(id, out.next, most)
	for i := range lines {
		l := lines[i]
		l.Session, l.By, l.Newest = id, o.by, newest && i == 0
		if out.next > 0 {
			l.Dropped = max(l.Seq-out.next, 0)
		}
		out.next = l.Seq + 1
		payload, err := wire.EncodeOutput(l)
		if err != nil {
			continue
		}
		if out.conn.nc.Publish(wire.OutputSubject(id), payload) != nil {
			return false
		}
	}
	if len(lines) == outputAtOnce { // it writes faster than we send: go on at the end
		if last := o.read(id, -1, outputNewest); len(last) > 0 && last[0].Seq > out.next {
			skipped := last[0].Seq - out.next
			o.log.Debug("output was left out: it comes faster than it is sent", "session", id, "lines", skipped)
			l := last[0]
			l.Session, l.By, l.Dropped = id, o.by, skipped
			out.next = l.Seq + 1
			if payload, err := wire.EncodeOutput(l); err == nil {
				return out.conn.nc.Publish(wire.OutputSubject(id), payload) == nil
			}
		}
	}
	return true
}

// up listens for wishes on a new connection.
func (o *Output) up(c *conn) error {
	for _, id := range o.ids {
		_, err := c.nc.Subscribe(wire.OutputWantSubject(id), func(m *nats.Msg) {
			var wish wire.OutputWish
			_ = json.Unmarshal(m.Data, &wish) // any payload is a wish
			select {
			case o.wishes <- outputWish{id, c, m.Reply, wish.Newest}:
			default: // as many wait already; who wants it asks again
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *Output) proved(*conn)                          {}
func (o *Output) answered(time.Duration, time.Duration) {}
func (o *Output) troubled(_ *conn, err error) error {
	o.log.Warn("the NATS server complains about output on demand", "error", netreason.Short(err.Error()))
	return nil
}
func (o *Output) tick(context.Context, *conn) error    { return nil }
func (o *Output) retried(context.Context, *conn) error { return nil }
func (o *Output) down()                                {}
