package recording

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Engine is what a Player plays to: a watchdog.Engine without a clock, whose
// time is what it is told. Look answers when everything before is applied.
type Engine interface {
	Beats([]watchdog.Beat)
	Post(watchdog.Event)
	Look(context.Context, watchdog.Ask) (watchdog.Window, error)
}

const (
	// StepLength is how much recorded time one step covers.
	StepLength = time.Second
	// MinSpeed and MaxSpeed bound the speed of a Player.
	MinSpeed, MaxSpeed = 0.01, 1000

	// maxBehind is how far, in real time, a player may fall behind before it
	// lets its clock wait: after a suspend it goes on where it was.
	maxBehind = time.Second
	// maxAhead is how many inputs the engine may have in its queue: it must
	// never have to merge or drop what a recording holds.
	maxAhead = 512
)

// PlayerOptions say how a Player plays.
type PlayerOptions struct {
	Speed  float64 // recorded seconds for each real one; 0 means 1
	Paused bool    // wait for Resume or Step
	// Rewind gives the recording from its start and a fresh engine for it. It
	// is called off the screen's goroutine, by Run, which leaves both of the
	// old ones to the caller. Without it a player only goes forward.
	Rewind func(context.Context) (*Reader, Engine, error)
	// AtEnd is called by Run whenever the player has come to the end, and all
	// of it is applied; nil: nobody wants to know. It must not block.
	AtEnd func()
}

// Player plays a recording to an engine in real time. Its controls may be used
// from any goroutine and do not block; Run does the work.
type Player struct {
	rewind func(context.Context) (*Reader, Engine, error)
	atEnd  func()
	engine Engine    // Run's
	line   *timeline // Run's
	ahead  int       // Run's: inputs since the engine last answered

	changed chan struct{} // one slot: a control was used

	mu      sync.Mutex
	paused  bool
	speed   float64
	head    time.Duration // Mono up to which to play, as of since
	since   time.Time
	seeking bool // play up to head without waiting
	at      watchdog.Instant
	started watchdog.Instant
	ended   bool
	gaps    int
	note    string
	fault   error // why it could not be read on
}

// NewPlayer is ready to play r to engine from the beginning.
func NewPlayer(r *Reader, engine Engine, o PlayerOptions) *Player {
	started := r.Header().Started
	p := &Player{
		rewind: o.Rewind, atEnd: o.AtEnd, engine: engine, line: newTimeline(r),
		changed: make(chan struct{}, 1),
		paused:  o.Paused, speed: 1, head: started.Mono, at: started, started: started,
	}
	if o.Speed != 0 {
		p.SetSpeed(o.Speed)
	}
	return p
}

// Pause holds the recorded time.
func (p *Player) Pause() { p.control(func() { p.paused = true }) }

// Resume lets it go on.
func (p *Player) Resume() { p.control(func() { p.paused = false }) }

// Paused reports whether the recorded time is held.
func (p *Player) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Step pauses and moves by n times StepLength; back only if the player can
// rewind.
func (p *Player) Step(n int) {
	p.control(func() {
		p.paused = true
		// Steps that follow each other quickly add up.
		from := p.at.Mono
		if p.seeking {
			from = p.head
		}
		p.seek(from + time.Duration(n)*StepLength)
	})
}

// Seek moves to a recorded time since the start, without a pause between; back
// only if the player can rewind.
func (p *Player) Seek(offset time.Duration) {
	p.control(func() { p.seek(p.started.Mono + offset) })
}

func (p *Player) seek(to time.Duration) {
	to = max(to, p.started.Mono)
	if to < p.at.Mono && p.rewind == nil {
		return
	}
	p.head, p.seeking = to, true
}

// SetSpeed sets how many recorded seconds pass in a real one, within MinSpeed
// and MaxSpeed.
func (p *Player) SetSpeed(x float64) {
	if math.IsNaN(x) {
		return
	}
	p.control(func() { p.speed = min(max(x, MinSpeed), MaxSpeed) })
}

// Speed is how many recorded seconds pass in a real one.
func (p *Player) Speed() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.speed
}

// Progress is how far a player is.
type Progress struct {
	At     watchdog.Instant // the recorded moment that is shown
	Offset time.Duration    // since the start of the recording
	Ended  bool             // nothing comes any more
	Gaps   int              // that the recorder left, so far
	Note   string           // see Reader.Note
}

// Progress says how far the player is.
func (p *Player) Progress() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Progress{At: p.at, Offset: p.at.Mono - p.started.Mono, Ended: p.ended, Gaps: p.gaps, Note: p.note}
}

// End reports whether nothing comes any more, and what is wrong with that end:
// the recording cannot be read on, or breaks off. Empty: nothing.
func (p *Player) End() (reached bool, wrong string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.ended:
		return false, ""
	case p.fault != nil:
		return true, p.fault.Error()
	}
	return true, p.note
}

// control changes what the player shall do and wakes Run.
func (p *Player) control(change func()) {
	p.mu.Lock()
	p.anchor(time.Now())
	change()
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// anchor brings head up to now.
func (p *Player) anchor(now time.Time) {
	if !p.paused && !p.seeking && !p.since.IsZero() {
		p.head += time.Duration(float64(now.Sub(p.since)) * p.speed)
	}
	p.since = now
}

// Run plays until ctx ends, and stays at the end of the recording until then:
// what is shown there stays, and a player that can rewind goes back from there.
// Its error names the line of a recording that cannot be read on, which ends it
// too.
func (p *Player) Run(ctx context.Context) error {
	p.mu.Lock()
	p.since = time.Now()
	p.mu.Unlock()
	var in *input
	for {
		if in == nil {
			next, err := p.line.next()
			switch {
			case errors.Is(err, io.EOF):
				p.settle(ctx, true)
			case err != nil:
				p.mu.Lock()
				p.fault = err
				p.mu.Unlock()
				p.settle(ctx, true)
				return err
			default:
				in = &next
			}
		}
		back, err := p.await(ctx, in)
		switch {
		case err != nil:
			return nil // ctx ended, which is how a player ends
		case back:
			if err := p.goBack(ctx); err != nil {
				return err
			}
			in = nil
			continue
		}
		p.deliver(ctx, in)
		in = nil
	}
}

// await returns when in is due (never, if it is nil), or when the player must
// go back to reach what is wanted.
func (p *Player) await(ctx context.Context, in *input) (back bool, err error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, due, back := p.due(in)
		if due || back {
			return back, ctx.Err()
		}
		if wait < 0 {
			p.settle(ctx, in == nil)
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-p.changed:
		case <-timer.C:
		}
	}
}

// due says whether in is to be told now, how long until then (negative: not by
// time), or whether what is wanted lies behind.
func (p *Player) due(in *input) (wait time.Duration, due, back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.anchor(now)
	if p.seeking && p.head < p.at.Mono {
		return 0, false, true
	}
	if in == nil {
		p.seeking, p.head = false, p.at.Mono
		return -1, false, false
	}
	left := in.at - p.head
	if left <= 0 {
		if behind := time.Duration(float64(maxBehind) * p.speed); !p.seeking && -left > behind {
			p.head = in.at
		}
		return 0, true, false
	}
	p.seeking = false
	if p.paused {
		return -1, false, false
	}
	return max(time.Duration(float64(left)/p.speed), time.Millisecond), false, false
}

// deliver tells the engine one input. It waits for an engine that falls
// behind, so that no queue ever has to merge or drop.
func (p *Player) deliver(ctx context.Context, in *input) {
	if in.event == nil {
		p.engine.Beats(in.beats)
		p.ahead += len(in.beats)
	} else {
		p.engine.Post(in.event)
		p.ahead++
	}
	if p.ahead >= maxAhead {
		p.settle(ctx, false)
	}
	p.mu.Lock()
	p.at.Mono = max(p.at.Mono, in.at)
	if tick, ok := in.event.(watchdog.Ticked); ok {
		p.at = tick.Now
	}
	p.gaps = len(p.line.gaps)
	p.mu.Unlock()
}

// settle waits until the engine applied everything.
func (p *Player) settle(ctx context.Context, ended bool) {
	if p.ahead > 0 {
		// The only error is the end of ctx or of the engine; Run meets both.
		_, _ = p.engine.Look(ctx, watchdog.Ask{})
		p.ahead = 0
	}
	p.mu.Lock()
	arrived := ended && !p.ended
	p.ended, p.note, p.gaps = ended, p.line.r.Note(), len(p.line.gaps)
	p.mu.Unlock()
	if arrived && p.atEnd != nil {
		p.atEnd()
	}
}

func (p *Player) goBack(ctx context.Context) error {
	r, engine, err := p.rewind(ctx)
	if err != nil {
		return err
	}
	p.line, p.engine, p.ahead = newTimeline(r), engine, 0
	p.mu.Lock()
	p.at, p.ended = p.started, false
	p.mu.Unlock()
	return nil
}
