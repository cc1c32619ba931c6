package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// deliverWithin bounds the delivery of one beat to one server.
const deliverWithin = 3 * time.Second

// beating is what the beat command was asked to say.
type beating struct {
	flags
	id      string
	task    string
	state   string
	credits float64
	message string
	every   time.Duration
}

func (a *app) beatCommand() *cobra.Command {
	b := beating{}
	c := &cobra.Command{
		Use:   "beat ID",
		Short: "Send a beat, for trying things out and for shell scripts",
		Long: `Send one beat for session ID to every configured server, and say where it arrived.

With --every it beats until interrupted and then ends the session well, with a
last beat whose state is completed. Exit code 1: it arrived nowhere.`,
		Example: `  sessionwatch beat hello --task "it works"
  sessionwatch beat nightly --task "step 3/7" --every 30s`,
		Args:    cobra.ExactArgs(1),
		GroupID: groupTry,
		RunE: func(c *cobra.Command, args []string) error {
			b.id = args[0]
			switch given := c.Flags().Changed("credits"); {
			case !given:
				b.credits = math.NaN()
			case math.IsNaN(b.credits) || math.IsInf(b.credits, 0):
				return &usageError{errors.New("--credits must be a finite number")}
			}
			if c.Flags().Changed("every") && b.every < minEvery {
				return &usageError{fmt.Errorf("--every %v is too short; give at least %v", b.every, minEvery)}
			}
			return a.beat(c, &b)
		},
	}
	a.addSources(c, &b.flags)
	set := c.Flags()
	set.StringVar(&b.task, "task", "", "what it works on, as `TEXT`")
	set.StringVar(&b.state, "state", "running", "`STATE` to publish: running, stalled, completed, error or any other text")
	set.Float64Var(&b.credits, "credits", 0, "credits that remain")
	set.StringVar(&b.message, "message", "", "a `TEXT` for people")
	set.DurationVar(&b.every, "every", 0, "beat again and again at this interval, until interrupted")
	completeWith(c, "state", func() []string { return []string{"running", "stalled", "completed", "error"} })
	return c
}

// minEvery keeps a trial from flooding a bus.
const minEvery = 100 * time.Millisecond

func (b *beating) check() error {
	switch {
	case !wire.Mintable(b.id):
		return &usageError{fmt.Errorf("%q cannot be a new session id; use 1 to 128 letters, digits, _ and -, beginning with a letter or digit", clean(b.id))}
	case b.state == "":
		return &usageError{errors.New("--state is empty; give running, stalled, completed, error or any other text")}
	}
	return nil
}

func (a *app) beat(c *cobra.Command, b *beating) error {
	if err := b.check(); err != nil {
		return err
	}
	settings, err := a.settings(c, &b.flags, false)
	if err != nil {
		return err
	}
	if settings.ReadOnly {
		return badNews(fmt.Errorf("read_only is set (%s), so nothing is published", settings.Origin("read_only")))
	}
	log, closeLog, err := openLog(settings.LogFile)
	if err != nil {
		return misconfigured(err)
	}
	defer closeLog.Close()
	mouth, err := openMouth(settings, b.every, log)
	if err != nil {
		return misconfigured(err)
	}
	defer mouth.close()
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	if b.every == 0 {
		return a.tellDelivery(mouth.say(ctx, b.beat(0, 0)), true)
	}
	return a.beatOn(ctx, mouth, b)
}

// beatOn beats until ctx ends, then once more to end the session well.
func (a *app) beatOn(ctx context.Context, m *mouth, b *beating) error {
	began := time.Now()
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	a.note("beating as %s every %s; interrupt to end it", b.id, spell(b.every))
	last := ""
	for seq := int64(0); ; seq++ {
		results := m.say(ctx, b.beat(time.Since(began), seq))
		if text := summarize(results); text != last && ctx.Err() == nil {
			last = text
			_ = a.tellDelivery(results, false)
		}
		select {
		case <-ctx.Done():
			end := b.beat(time.Since(began), seq+1)
			end.State, end.StateText = watchdog.StateCompleted, []byte("completed")
			return a.tellDelivery(m.say(context.Background(), end), true)
		case <-tick.C:
		}
	}
}

// beat makes the beat that is due after up.
func (b *beating) beat(up time.Duration, seq int64) *watchdog.Beat {
	out := new(watchdog.Beat)
	out.Reset()
	out.ID = []byte(b.id)
	out.StateText = []byte(b.state)
	out.State = watchdog.StateOf(out.StateText)
	out.Credits = b.credits
	if b.task != "" {
		out.Task = []byte(b.task)
	}
	if b.message != "" {
		out.Message = []byte(b.message)
	}
	if host, err := os.Hostname(); err == nil {
		out.Host = []byte(host)
	}
	if b.every > 0 {
		// One that beats once has no uptime of its own and keeps no rhythm.
		out.Uptime, out.Seq, out.Interval = int64(up/time.Second), seq, b.every
		out.BootID = fmt.Appendf(nil, "%x-%x", os.Getpid(), time.Now().Add(-up).Unix())
		out.PID = int64(os.Getpid())
	}
	return out
}

// delivery is what became of one beat at one server.
type delivery struct {
	to  ear
	err error
}

// publisher is one server that takes beats.
type publisher interface {
	Run(ctx context.Context) error
	PublishNow(ctx context.Context, id watchdog.ID, payload []byte) error
	Close()
}

// ear is a server that listens, as people call it.
type ear struct {
	publisher
	name    string
	address string
}

// mouth says beats to every configured server.
type mouth struct{ ears []ear }

// openMouth opens the publishers. Keys outlive two beats at least.
func openMouth(settings *config.Config, every time.Duration, log *slog.Logger) (*mouth, error) {
	m := new(mouth)
	if address := settings.NATS.Address; address != config.None {
		p, err := natsbus.OpenPublisher(natsOptions(settings), clock.System(), log)
		if err != nil {
			return nil, err
		}
		m.ears = append(m.ears, listening(p, "NATS", address))
	}
	if address := settings.Redis.Address; address != config.None {
		ttl := max(settings.Publish.RedisTTL, 2*every)
		p, err := redisstore.OpenPublisher(redisOptions(settings), ttl, clock.System(), log)
		if err != nil {
			m.close()
			return nil, err
		}
		m.ears = append(m.ears, listening(p, "Redis", address))
	}
	return m, nil
}

// listening lets a publisher connect.
func listening(p publisher, name, address string) ear {
	go func() { _ = p.Run(context.Background()) }() // ended by Close, which waits
	return ear{p, name, address}
}

func (m *mouth) close() {
	for _, e := range m.ears {
		e.Close()
	}
}

// say delivers a beat to all servers at once and waits for their answers.
func (m *mouth) say(ctx context.Context, b *watchdog.Beat) []delivery {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	payload := wire.AppendBeat(nil, b)
	out := make([]delivery, len(m.ears))
	var all sync.WaitGroup
	for i, e := range m.ears {
		all.Go(func() { out[i] = delivery{e, e.PublishNow(ctx, watchdog.ID(b.ID), payload)} })
	}
	all.Wait()
	return out
}

// summarize is what a delivery looks like; it changes when something does.
func summarize(results []delivery) string {
	var text string
	for _, r := range results {
		text += fmt.Sprintf("%s %t;", r.to.name, r.err == nil)
	}
	return text
}

// tellDelivery prints what became of a beat. With final, having arrived nowhere
// is bad news.
func (a *app) tellDelivery(results []delivery, final bool) error {
	arrived := 0
	for _, r := range results {
		if r.err != nil {
			a.note("not delivered to %s: %v", r.to.name, r.err)
			continue
		}
		arrived++
		if _, err := fmt.Fprintf(a.env.Stdout, "delivered to %s %s\n", r.to.name, clean(r.to.address)); err != nil && final {
			return a.say(err)
		}
	}
	switch {
	case len(results) == 0:
		return badNews(errors.New("no server is configured; give --nats or --redis"))
	case arrived == 0 && final:
		a.note("the beat arrived nowhere; \"sessionwatch bus\" starts servers for a try")
		return exitWith(exitBadNews)
	}
	return nil
}
