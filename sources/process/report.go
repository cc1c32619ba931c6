package process

import (
	"bytes"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"syscall"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Status is how a session is now.
type Status struct {
	ID         watchdog.ID
	Command    []string
	Generation watchdog.Generation // of the present or last run; 0 not known yet
	BootID     string              // of the same; empty: never started
	Phase      watchdog.SupervisorPhase
	Detail     string // why, for people

	PID         int       // 0: nothing runs
	Started     time.Time // of the present or last run
	Runs        int       // that were begun, in the life of this supervisor
	Restarts    int       // since the session was first started, over supervisors
	LastExit    watchdog.Exit
	NextRestart time.Duration // on the monotonic clock; 0 none planned
	Survivors   []int         // of the last run: its processes that could not be ended

	Stalled, Wedged bool
	Waiting         watchdog.Wait
	Activity        time.Duration // on the monotonic clock, of the present run
	Foreign         bool          // the child beats for itself

	CPU       float64 // share of one core, of all its processes; NaN unknown
	RSS       int64   // bytes, of all its processes; 0 unknown
	Processes int
	Refused   uint64 // notify messages that were not of the child

	settled    bool // nothing runs, and nothing starts by itself
	unkillable bool
}

// ExitCode is what a shell would answer for the last run: its code, or 128 and
// the number of the signal that ended it; 0 if none has ended.
func (st *Status) ExitCode() int { return st.LastExit.Code }

func (u *unit) snapshot() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status
}

// phase is the machine's in the words of the engine.
func (u *unit) phase() watchdog.SupervisorPhase {
	m := u.machine
	switch m.phase {
	case phaseRunning:
		return watchdog.SupervisorRunning
	case phaseEnding:
		return watchdog.SupervisorStopping
	case phaseWaiting:
		return watchdog.SupervisorRestarting
	case phaseNumbering, phaseClearing:
		if m.hasExit || m.phase == phaseClearing {
			return watchdog.SupervisorRestarting
		}
		return watchdog.SupervisorRunning
	case phaseHeld:
		return watchdog.SupervisorCrashLoop
	case phaseIdle:
	}
	if m.hasExit || u.runs > 0 || m.stopped {
		return watchdog.SupervisorHeld
	}
	return watchdog.SupervisorNone
}

// report makes the status anew, and tells who waits for it, the engine and the
// state.
func (u *unit) report(now time.Duration) {
	m := u.machine
	st := Status{ID: u.id, Command: u.conf.Command, Generation: u.generation, BootID: u.bootID, Phase: u.phase(), Detail: m.reason,
		Started: u.begun, Runs: u.runs, Restarts: m.restarts, LastExit: m.exit, Survivors: m.survivors,
		Stalled: m.stalled, Wedged: m.wedged, Waiting: m.waiting, Activity: m.activity, Foreign: now < u.foreignUntil,
		CPU: math.NaN(), settled: m.phase == phaseIdle || m.phase == phaseHeld, unkillable: m.stuck}
	if m.phase != phaseRunning {
		st.Stalled, st.Wedged, st.Waiting = false, false, watchdog.WaitNone
	}
	if c := u.child.Load(); c != nil {
		st.PID = c.pid
		if used := u.usage.Load(); used != nil {
			st.CPU, st.RSS, st.Processes = used.cpu, used.rss, used.processes
		}
	}
	if m.phase == phaseWaiting {
		st.NextRestart = m.restartAt
	}
	if u.notify != nil {
		st.Refused = u.notify.refused.Load()
	}
	u.mu.Lock()
	changed := !sameStatus(&u.status, &st)
	u.status = st
	if changed {
		close(u.changed)
		u.changed = make(chan struct{})
	}
	u.mu.Unlock()
	u.tellEngine(&st, now)
	u.keep()
}

// sameStatus compares without what changes all the time.
func sameStatus(a, b *Status) bool {
	return a.Phase == b.Phase && a.PID == b.PID && a.Generation == b.Generation && a.BootID == b.BootID && a.Detail == b.Detail &&
		a.Runs == b.Runs && a.settled == b.settled && a.unkillable == b.unkillable && a.Stalled == b.Stalled && a.Wedged == b.Wedged &&
		a.Waiting == b.Waiting && a.Foreign == b.Foreign && slices.Equal(a.Survivors, b.Survivors)
}

func (u *unit) tellEngine(st *Status, now time.Duration) {
	p := watchdog.Process{PID: st.PID, Restarts: st.Restarts, ExitCode: -1, NextRestart: st.NextRestart,
		CPU: st.CPU, RSS: st.RSS, Processes: st.Processes, LastLine: u.output.last(), Outlook: u.outlook(now)}
	if u.machine.hasExit {
		if sig := st.LastExit.Signal; sig != 0 {
			p.Signal = unix.SignalName(syscall.Signal(sig))
		} else {
			p.ExitCode = st.LastExit.Code
		}
	}
	e := watchdog.Supervised{ID: u.id, Generation: u.generation, Phase: st.Phase, Detail: st.Detail, Process: p, At: now}
	was := u.told
	was.At = now
	if !sameNaN(was.Process.CPU, p.CPU) || !sameOutlook(was.Process.Outlook, p.Outlook) || without(was) != without(e) {
		// The moment is that of the phase, as long as nothing but the process changes.
		if u.told.Phase == e.Phase && u.told.Generation == e.Generation && u.told.Detail == e.Detail && u.told.At > 0 {
			e.At = u.told.At
		}
		u.told = e
		u.sup.post(e)
	}
	if wedged := u.machine.wedged && u.machine.phase == phaseRunning; wedged != u.saidWedged {
		u.saidWedged = wedged
		u.sup.post(watchdog.Wedged{ID: u.id, Generation: u.generation, Wedged: wedged, Detail: "its own watchdog says so", At: now})
	}
}

func sameNaN(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// without is e without what is compared by itself: a number that may be none,
// which equals nothing, and what is pointed to.
func without(e watchdog.Supervised) watchdog.Supervised {
	e.Process.CPU, e.Process.Outlook = 0, nil
	return e
}

// beatDue beats if it is time.
func (u *unit) beatDue(now time.Duration) {
	if now >= u.nextBeat {
		u.beat(now)
		return
	}
	u.tellWork(now)
}

// tellWork lets the engine of this process see work as it is done, once a second
// at most. The buses hear of it with the next beat.
func (u *unit) tellWork(now time.Duration) {
	m := u.machine
	if u.sup.opts.Engine == nil || m.phase != phaseRunning || now < u.foreignUntil || u.seq == 0 ||
		m.activity <= u.toldWork || now-u.toldAt < slowest || m.stalled {
		return
	}
	b := u.newBeat(now)
	b.StateText = []byte(b.State.String())
	u.sup.opts.Engine.Beats([]watchdog.Beat{*b})
}

// beat says that the session lives, unless the child does so itself.
func (u *unit) beat(now time.Duration) {
	m := u.machine
	if u.pinged.Swap(false) { // any beat answers a ping, and where none is due nobody does
		u.answered = now
	}
	if m.phase != phaseRunning && m.phase != phaseEnding {
		u.nextBeat = never
		return
	}
	u.nextBeat = now + u.sup.opts.Interval
	if now < u.foreignUntil {
		u.nextBeat = min(u.nextBeat, u.foreignUntil)
		return
	}
	b := u.newBeat(now)
	if m.stalled {
		b.State = watchdog.StateStalled
	}
	u.publish(b)
}

// endBeat is the last one of a run. It has the outcome's own word where the wire
// format has none: "stopped" is an end of ours, which the ledger tells.
func (u *unit) endBeat(outcome watchdog.Outcome, why string, now time.Duration) {
	u.nextBeat = never
	if now < u.foreignUntil || u.seq == 0 {
		return
	}
	b := u.newBeat(now)
	b.StateText = []byte(outcome.String())
	b.State = watchdog.StateOf(b.StateText)
	b.WaitingFor, b.WaitingMax = watchdog.WaitNone, 0
	b.Message = []byte(why)
	u.publish(b)
}

func (u *unit) newBeat(now time.Duration) *watchdog.Beat {
	m := u.machine
	b := new(watchdog.Beat)
	b.Reset()
	b.Source, b.Received, b.ID = watchdog.SourceLocal, now, []byte(u.id)
	b.State = watchdog.StateRunning
	b.Uptime = int64(max(now-m.started, 0) / time.Second)
	b.Credits, b.Task, b.Message = u.said.credits, bytes.Clone(u.said.task), bytes.Clone(u.said.message)
	b.Generation, b.BootID = u.generation, []byte(u.bootID)
	b.Seq = u.seq
	u.seq++
	b.Idle = max(now-m.activity, 0)
	u.toldWork, u.toldAt = m.activity, now
	b.Interval, b.StallTimeout = u.sup.opts.Interval, m.plan.stall
	b.WaitingFor, b.WaitingMax = m.waiting, m.waitMax
	if m.waiting != watchdog.WaitNone {
		// A reader counts the maximum from when it hears of the wait.
		b.WaitingMax = max(m.waitFrom+m.waitMax-now, time.Second)
	}
	b.Host = []byte(u.sup.opts.Host)
	b.Takes, b.TakesSaid = u.sup.opts.Takes, u.sup.opts.Takes != 0
	if c := u.child.Load(); c != nil {
		b.PID = int64(c.pid)
	}
	if m.phase == phaseEnding {
		b.Message = []byte(m.reason)
	} else if u.stopsItself {
		b.Message = []byte("stopping by itself")
	}
	return b
}

func (u *unit) publish(b *watchdog.Beat) {
	if b.StateText == nil {
		b.StateText = []byte(b.State.String())
	}
	if u.sup.opts.Engine != nil {
		u.sup.opts.Engine.Beats([]watchdog.Beat{*b})
	}
	for _, p := range u.sup.opts.Publishers {
		p.Publish(b)
	}
}

// noticed takes in a message of the notify protocol.
func (u *unit) noticed(n notice, now time.Duration) {
	m := u.machine
	if m.phase != phaseRunning && m.phase != phaseEnding {
		return
	}
	fresh := false
	if n.status != nil && string(u.said.task) != *n.status {
		u.said.task, fresh = []byte(*n.status), true
		if *n.status == "" {
			u.said.task = nil
		}
	}
	if !math.IsNaN(n.credits) && u.said.credits != n.credits {
		u.said.credits, fresh = n.credits, true
	}
	u.stopsItself = u.stopsItself || n.stopping
	switch {
	case n.wedged:
		m.saysWedged(now)
	case n.extend > 0:
		m.waits(watchdog.WaitOther, n.extend, now)
	case n.activity():
		m.worked(now, now)
	}
	u.sooner(fresh, now)
}

// freshBeat is how soon a beat follows news of a child: many of them in a row
// become one.
const freshBeat = 500 * time.Millisecond

func (u *unit) sooner(fresh bool, now time.Duration) {
	if fresh {
		u.nextBeat = min(u.nextBeat, now+freshBeat)
	}
}

// take takes in what a child says of itself by a heartbeat.
func (u *unit) take(s said, now time.Duration) {
	fresh := false
	if s.task != nil && !bytes.Equal(s.task, u.said.task) {
		u.said.task, fresh = s.task, true
	}
	if !math.IsNaN(s.credits) && s.credits != u.said.credits {
		u.said.credits, fresh = s.credits, true
	}
	if s.message != nil {
		u.said.message = s.message
	}
	u.work(s, now)
	u.sooner(fresh, now)
}

// work is what a beat says of work.
func (u *unit) work(s said, now time.Duration) {
	m := u.machine
	switch {
	case s.state == watchdog.StateStalled:
		m.saysStalled(now)
	case s.waiting != watchdog.WaitNone:
		if m.waiting != s.waiting {
			m.waits(s.waiting, s.waitMax, now)
		}
	case s.idle >= 0:
		m.worked(now-s.idle, now)
	default:
		m.worked(now, now)
	}
}

// foreign takes in a beat that came over a bus.
func (u *unit) foreign(s said, boot string, g watchdog.Generation, now time.Duration) {
	m := u.machine
	if boot == u.bootID && boot != "" || m.phase != phaseRunning && m.phase != phaseEnding {
		return
	}
	if g > 0 && u.generation > 0 && g != u.generation {
		return // a late beat of another run
	}
	if now >= u.foreignUntil && u.seq > 0 {
		u.handOver(s, now)
	}
	u.foreignUntil = now + 3*u.sup.opts.Interval
	u.nextBeat = u.foreignUntil
	u.work(s, now)
}

// handOver is our last beat before those of the child itself. It says what the
// child said, and that we no longer know when it last worked: else an observer
// would go on counting from what we told before, which nothing renews.
func (u *unit) handOver(s said, now time.Duration) {
	b := u.newBeat(now)
	b.Idle, b.WaitingFor, b.WaitingMax = -1, watchdog.WaitNone, 0
	b.Task, b.Credits, b.Message = s.task, s.credits, s.message
	if s.uptime >= 0 {
		b.Uptime = min(b.Uptime, s.uptime) // else the child's next beats would look older than this one
	}
	if s.state == watchdog.StateStalled {
		b.State = watchdog.StateStalled
	}
	u.publish(b)
}
