package recording

import (
	"errors"
	"io"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// Grid is how far apart the ticks of a replay are, like those of an engine.
	Grid = 100 * time.Millisecond
	// maxFill is the longest stretch of recorded time that is filled with
	// ticks: what is longer is a hole, crossed in one step.
	maxFill = 5 * time.Minute
)

// input is one thing that a tracker is told.
type input struct {
	at    time.Duration // Mono of the replay when it is told
	beats []watchdog.Beat
	event watchdog.Event // nil: beats
}

// maxBatch is how many beats are told at once, as by an engine's sources.
const maxBatch = 256

// timeline turns the entries of a recording into what a tracker was told, with
// the ticks that the recorder thinned. It is what a Replay and a Player share,
// and depends on nothing but the file.
type timeline struct {
	r       *Reader
	now     watchdog.Instant // of the last tick told
	before  watchdog.Instant // of the tick before it
	pending *Entry           // read, not yet told
	gaps    []Gap
	entries int
}

func newTimeline(r *Reader) *timeline {
	return &timeline{r: r, now: r.Header().Started}
}

// next gives the next input; io.EOF at the end.
func (t *timeline) next() (input, error) {
	for {
		e, err := t.peek()
		if err != nil {
			return input{}, err
		}
		if tick, ok := t.fill(e); ok {
			return input{at: t.now.Mono, event: tick}, nil
		}
		switch e.Kind {
		case KindGap:
			t.gaps = append(t.gaps, e.Gap)
			t.take()
		case KindBeat:
			return t.beats()
		case KindEvent:
			t.take()
			if tick, ok := e.Event.(watchdog.Ticked); ok {
				t.before, t.now = t.now, tick.Now
			}
			return input{at: t.now.Mono, event: e.Event}, nil
		}
	}
}

func (t *timeline) peek() (*Entry, error) {
	if t.pending != nil {
		return t.pending, nil
	}
	e, err := t.r.Next()
	if err != nil {
		return nil, err
	}
	t.pending = &e
	return t.pending, nil
}

func (t *timeline) take() {
	t.entries++
	t.pending = nil
}

// fill gives the tick that comes before e, if there is one: the clock ticks on
// its grid up to the reading that e tells, but not while the engine was held
// up and told us so by a late tick.
func (t *timeline) fill(e *Entry) (watchdog.Ticked, bool) {
	until, exact := e.Clock, true
	if tick, ok := e.Event.(watchdog.Ticked); ok {
		until, exact = tick.Now.Mono-tick.Late, false
	}
	gap := until - t.now.Mono
	switch {
	case gap <= 0, !exact && gap <= Grid, gap > maxFill && !exact:
		return watchdog.Ticked{}, false
	case gap > maxFill:
		t.move(gap)
	default:
		t.move(min(Grid, gap))
	}
	return watchdog.Ticked{Now: t.now}, true
}

// move lets all three clocks go on together: where they did not, the recorder
// kept the ticks on both sides.
func (t *timeline) move(d time.Duration) {
	t.before = t.now
	t.now.Mono += d
	t.now.Boot += d
	t.now.Wall += int64(d)
}

// beats gathers the beats that follow each other without a tick between them.
func (t *timeline) beats() (input, error) {
	var batch []watchdog.Beat
	for len(batch) < maxBatch {
		e, err := t.peek()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return input{}, err
		}
		if e.Kind != KindBeat || e.Clock > t.now.Mono {
			break
		}
		batch = append(batch, e.Beat)
		t.take()
	}
	return input{at: t.now.Mono, beats: batch}, nil
}
