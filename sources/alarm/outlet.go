package alarm

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// waitingMost is how many alerts wait as they are; more are counted.
	waitingMost = 256
	// fewWait is up to how many waiting alerts are told one by one.
	fewWait = 5
	// complainEvery is how often a failure is logged at most.
	complainEvery = time.Minute
)

// pace is how often an outlet may tell: burst at once, then one every so long.
type pace struct {
	burst int
	every time.Duration
}

// outlet is one way to tell people.
type outlet struct {
	name            string
	leaves          bool // the house: it may be heard by somebody who sees no screen
	send            func(context.Context, wire.Alarm) error
	turns           *rate.Limiter
	cluster, writer string
	failed          func(outlet, text string)
	log             *slog.Logger
	bell            chan struct{}

	mu      sync.Mutex
	waiting []watchdog.Raise
	over    int // that came when too many waited

	// Of the goroutine of run.
	failing    int       // tellings that failed in a row
	complained time.Time // when that was last logged
}

func newOutlet(name string, p pace, send func(context.Context, wire.Alarm) error, o *Options) *outlet {
	return &outlet{name: name, send: send, turns: rate.NewLimiter(rate.Every(p.every), p.burst),
		cluster: o.Cluster, writer: o.Writer, failed: o.Failed, log: o.Logger, bell: make(chan struct{}, 1)}
}

// take takes an alert in.
func (o *outlet) take(r watchdog.Raise) {
	o.mu.Lock()
	if len(o.waiting) < waitingMost {
		o.waiting = append(o.waiting, r)
	} else {
		o.over++
	}
	o.mu.Unlock()
	select {
	case o.bell <- struct{}{}:
	default:
	}
}

// run tells until ctx ends. A panic costs one telling.
func (o *outlet) run(ctx context.Context) {
	defer o.leave()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.bell:
		}
		for o.pending() > 0 {
			spare := o.turns.Allow()
			if !spare && o.turns.Wait(ctx) != nil {
				return
			}
			o.tell(ctx, o.next(!spare))
			if ctx.Err() != nil {
				return
			}
		}
	}
}

func (o *outlet) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

// next takes one alert, or all of them if there are many or the turn was long
// awaited.
func (o *outlet) next(all bool) wire.Alarm {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !all && len(o.waiting) <= fewWait && o.over == 0 {
		first := o.waiting[0]
		o.waiting = o.waiting[1:]
		return wire.NewAlarm([]watchdog.Raise{first}, 0)
	}
	m := wire.NewAlarm(o.waiting, o.over)
	o.waiting, o.over = nil, 0
	return m
}

func (o *outlet) tell(ctx context.Context, m wire.Alarm) {
	m.ID, m.At, m.Cluster, m.Writer = rand.Text(), time.Now(), o.cluster, o.writer
	err := o.guarded(ctx, m)
	switch {
	case err == nil:
		if o.failing > 0 {
			o.log.Info("alerts are told again", "by", o.name, "failed_before", o.failing)
			o.say("")
		}
		o.failing = 0
	case ctx.Err() != nil:
	default:
		o.complain(m, err)
	}
}

func (o *outlet) guarded(ctx context.Context, m wire.Alarm) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	return o.send(ctx, m)
}

// complain says that an alarm was not told: to the screen at first, to the log
// now and then.
func (o *outlet) complain(m wire.Alarm, err error) {
	if o.failing++; o.failing == 1 {
		o.say(err.Error())
	}
	if now := time.Now(); o.complained.IsZero() || now.Sub(o.complained) >= complainEvery {
		o.complained = now
		o.log.Error("alerts were not told", "by", o.name, "error", err, "in_a_row", o.failing, "alerts", len(m.Raised)+m.More, "text", m.Text())
	}
}

func (o *outlet) say(text string) {
	if o.failed != nil {
		o.failed(o.name, text)
	}
}

// leave logs what nobody was told.
func (o *outlet) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.waiting) + o.over; n > 0 {
		o.log.Warn("alerts were not told any more, since this process ends", "by", o.name, "count", n)
	}
}
