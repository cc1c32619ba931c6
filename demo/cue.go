package demo

import (
	"math"
	"time"
)

// What an agent does after something was done to it, in script time.
const (
	restartPause = 700 * time.Millisecond // between two executions
	shortestAway = 15 * time.Second       // of one that was stopped
	calmFor      = Loop                   // a new execution is in no trouble for so long
	lateFor      = 10 * time.Second       // it does not know that it was settled
)

// cue is what was done to an agent beside the script, by operators or by whoever
// settled its execution: it turns what the script says into what it says now. It
// holds from the first time that something was done until the end of the demo.
type cue struct {
	run   int           // the execution that is current, or was until it ended
	over  bool          // it has ended, and the next one begins at back
	back  time.Duration // script time
	began time.Duration // of run, if it began beside the script
	calm  time.Duration // until when it is in no trouble
	base  int           // the script's run that stands for run; 0: not chosen yet
	own   bool          // run began beside the script
}

// at is what agent i says at t. Its calls go forward in time.
func (c *cue) at(s *Script, i int, t time.Duration) Moment {
	if c.over && t >= c.back {
		*c = cue{run: c.run + 1, began: t, calm: t + calmFor, own: true}
	}
	if c.over {
		return Moment{Run: c.run, State: "running", Credits: math.NaN()}
	}
	var m Moment
	if t < c.calm {
		m = s.Calm(i, t)
	} else {
		m = s.At(i, t)
		if c.base == 0 {
			c.base = m.Run
		}
		if m.Run != c.base { // the script has begun the next one itself
			c.run, c.base, c.own = c.run+m.Run-c.base, m.Run, false
		}
	}
	m.Run = c.run
	if c.own {
		m.Uptime = t - c.began
		m.Idle = min(m.Idle, m.Uptime)
		m.Credits = s.agents[i].work.credits(m.Uptime - m.Idle)
	}
	return m
}

// end ends the current execution, which said m last; the next one begins at back.
func (c *cue) end(m *Moment, back time.Duration) {
	*c = cue{run: m.Run, over: true, back: back}
}

// nextLoop is the begin of the next round of the story that leaves one who was
// stopped away for long enough to be seen.
func nextLoop(t time.Duration) time.Duration {
	return (t + shortestAway + Loop).Truncate(Loop)
}
