package alarm

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// DefaultTimeout is the time limit of a webhook or a command.
const DefaultTimeout = 5 * time.Second

// Options say how people are told. What is not set is no way.
type Options struct {
	// Bell rings the terminal once. It must not block.
	Bell func()
	// Desktop shows a notice on the desktop of whoever looks at the terminal. It
	// must not block.
	Desktop func(title, text string)
	Webhook string        // http or https URL; its path is a secret
	Command []string      // argv
	Timeout time.Duration // of one try of the webhook, and of the command; 0: 5 s

	Cluster string // what is watched, as people call it
	Writer  string // who tells, as in records; empty unknown
	Environ []string
	// Failed is told when an outlet begins to fail, and, with an empty text, that
	// it works again. It must not block. nil: nobody is.
	Failed func(outlet, text string)
	Logger *slog.Logger // nil: nowhere
}

// Alarm tells of alerts that open. Its methods may be called from any goroutine.
type Alarm struct {
	outlets []*outlet
}

// New checks the options. The alarm tells nothing before Run.
func New(o Options) (*Alarm, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Timeout < 0 {
		return nil, errors.New("alerts.timeout: is not above 0")
	}
	a := &Alarm{}
	add := func(name string, p pace, send func(context.Context, wire.Alarm) error) *outlet {
		out := newOutlet(name, p, send, &o)
		a.outlets = append(a.outlets, out)
		return out
	}
	if o.Bell != nil {
		add("bell", pace{burst: 3, every: time.Second}, func(context.Context, wire.Alarm) error { o.Bell(); return nil })
	}
	if o.Desktop != nil {
		add("desktop notice", pace{burst: 3, every: 5 * time.Second}, func(_ context.Context, m wire.Alarm) error {
			o.Desktop(titleOf(o.Cluster), m.Text())
			return nil
		})
	}
	if o.Webhook != "" {
		hook, err := newWebhook(o.Webhook, o.Timeout)
		if err != nil {
			return nil, err
		}
		add("webhook", hookPace(), hook.send).leaves = true
	}
	if len(o.Command) > 0 {
		add("command", hookPace(), newCommand(&o).send).leaves = true
	}
	return a, nil
}

// hookPace bounds what leaves the house: ten at once, then ten a minute.
func hookPace() pace { return pace{burst: 10, every: 6 * time.Second} }

func titleOf(cluster string) string {
	if cluster == "" {
		return "sessionwatch"
	}
	return "sessionwatch " + cluster
}

// Ways lists the outlets by name.
func (a *Alarm) Ways() []string {
	var out []string
	for _, o := range a.outlets {
		out = append(out, o.name)
	}
	return out
}

// Raise tells of an alert that opened. One that stood already when we first looked
// rings nowhere: whoever has just opened a screen sees it. It never blocks.
func (a *Alarm) Raise(r watchdog.Raise) {
	if r.Alert.Standing != watchdog.AlertOpen {
		return // somebody has answered it
	}
	for _, o := range a.outlets {
		if !r.Found || o.leaves {
			o.take(r)
		}
	}
}

// Run tells until ctx ends, and returns when nothing of it runs.
func (a *Alarm) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, o := range a.outlets {
		all.Go(func() { o.run(ctx) })
	}
	all.Wait()
}
