package recording

import (
	"errors"
	"io"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Tracker is what a recording is told to: that of Header.NewTracker, or one
// with another policy, for a trial.
type Tracker interface {
	ApplyBeats([]watchdog.Beat)
	Apply(watchdog.Event) []watchdog.Effect
}

// ReplayOptions say how far a replay goes. The zero value goes to the end.
type ReplayOptions struct {
	// Until is recorded time since the start, rounded down to a tick; 0 means
	// the end.
	Until time.Duration
	// Stop ends the replay with ErrStopped once it is closed; nil: nothing does.
	Stop <-chan struct{}
	// Gently makes it rest as long as it works, so that it takes half of a core.
	Gently bool
	// Effects gets what the tracker answers, if it is set. Nothing acts on it.
	Effects func([]watchdog.Effect)
}

// ErrStopped says that a replay was ended before its end.
var ErrStopped = errors.New("the replay was given up")

// stopEvery is after how many inputs a replay looks whether to stop.
const stopEvery = 1024

// Result says what a replay went through.
type Result struct {
	At      watchdog.Instant // the last clock reading
	Entries int
	Gaps    []Gap  // what the recorder had lost
	Note    string // what is odd about the file and tolerated; empty nothing
}

// Replay tells a recording to a tracker, at once and in the caller's
// goroutine. The same recording and policy always lead to the same windows.
func Replay(r *Reader, tracker Tracker, o ReplayOptions) (Result, error) {
	line := newTimeline(r)
	until := r.Header().Started.Mono + o.Until
	rested := time.Now()
	for n := 0; ; n++ {
		if n%stopEvery == 0 {
			if o.Gently && n > 0 {
				time.Sleep(time.Since(rested))
				rested = time.Now()
			}
			if stopped(o.Stop) {
				return line.result(), ErrStopped
			}
		}
		in, err := line.next()
		switch {
		case errors.Is(err, io.EOF):
			return line.result(), nil
		case err != nil:
			return line.result(), err
		case o.Until > 0 && in.at > until:
			res := line.result()
			res.At = line.before
			return res, nil
		case in.event == nil:
			tracker.ApplyBeats(in.beats)
			continue
		}
		if effects := tracker.Apply(in.event); o.Effects != nil && len(effects) > 0 {
			o.Effects(effects)
		}
	}
}

func stopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false // a nil channel is never ready
	}
}

func (t *timeline) result() Result {
	return Result{At: t.now, Entries: t.entries, Gaps: t.gaps, Note: t.r.Note()}
}
