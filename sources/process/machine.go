package process

import (
	"fmt"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// phase is where a session is in its life.
type phase uint8

const (
	phaseIdle      phase = iota // nothing runs, nothing is planned
	phaseClearing               // leftovers of a killed supervisor are being ended
	phaseNumbering              // the next generation waits a moment for its number
	phaseRunning
	phaseEnding  // its leader ended, or we are ending it
	phaseWaiting // for a restart
	phaseHeld    // as a crash loop
)

// wish is what is to become of a session once the present run has ended. The
// newest one counts.
type wish uint8

const (
	wishPolicy wish = iota // what the policy says
	wishStop
	wishStart
)

// cause is why we end a run. It stands apart from how the run then ends.
type cause uint8

const (
	causeNone cause = iota // it ended by itself
	causeStop
	causeKill
	causeRestart
	causeStalled // no work, and the policy acts on it
)

// never is a deadline that does not come.
const never = time.Duration(1<<63 - 1)

const (
	// numberPatience is how long a start waits for its number. Afterwards the
	// child runs without: it is worth more than its number.
	numberPatience = 2 * time.Second
	// killPatience is how long the kernel gets to carry out a SIGKILL before
	// survivors are reported.
	killPatience = time.Second
	// killAgain is how often a leader that survives is killed again.
	killAgain = 5 * time.Second
	// restartDump is how long an operator's restart waits for its dump.
	restartDump = 10 * time.Second
	// dumpEcho is how long after a dump the child's output still counts as part
	// of it, and not as work.
	dumpEcho = time.Second
)

// plan is what does not change while a session is supervised.
type plan struct {
	rules   watchdog.RestartRules
	limits  watchdog.RestartLimits
	grace   time.Duration
	stall   time.Duration
	action  config.StallAction
	maxWait time.Duration
	budget  time.Duration // of a dump; 0: no dumps are taken
	first   bool          // an operator's restart takes one first, that the run survives
}

// step is an effect that the machine wants carried out.
type step struct {
	do      stepKind
	reason  CaptureReason // of a dump
	ending  bool          // of a dump
	maybe   bool          // of a dump: it may be that there is none
	outcome watchdog.Outcome
	why     string // of a settlement
}

type stepKind uint8

const (
	stepNumber  stepKind = iota // ask for the number of the next generation
	stepSpawn                   // start the child
	stepTerm                    // SIGTERM to all of it
	stepKill                    // SIGKILL to all of it
	stepAbandon                 // report what survives and go on without it
	stepDump
	stepDropDump
	stepSettle
	stepBeat // say now what is new
	stepKeep // nothing else, but what is kept changed
)

// fleet is what a machine asks of all sessions together.
type fleet interface {
	allow(now time.Duration) (ok bool, until time.Duration, why string)
	failed()
	fine()
}

// machine is the life of one session. It decides and does nothing: what it is
// told comes in by its methods with the time on one monotonic clock, what is to
// be done goes out as steps.
type machine struct {
	plan   plan
	fleet  fleet
	random func() float64 // in [0, 1)

	phase   phase
	next    wish
	stopped bool // somebody stopped it: only an order starts it again, of the next supervisor too
	cause   cause
	chain   watchdog.RestartChain

	started   time.Duration // of the run
	ended     time.Duration // of the last run's leader
	exit      watchdog.Exit // of the last run
	hasExit   bool
	reason    string // of the phase, for people
	restarts  int
	survivors []int // of the last run
	alive     bool  // the leader of the run has not ended
	stuck     bool  // and it survives SIGKILL

	activity time.Duration
	active   bool // has shown any since its start
	waiting  watchdog.Wait
	waitFrom time.Duration
	waitMax  time.Duration
	stalled  bool
	wedged   bool

	dumping  bool
	then     cause         // what follows the dump
	dumpFrom time.Duration // of the newest dump
	echoOver time.Duration

	numberBy, killAt, abandonAt, restartAt, dumpBy time.Duration

	out []step
}

func newMachine(p plan, f fleet, random func() float64) *machine {
	m := &machine{plan: p, fleet: f, random: random, reason: "not started"}
	m.clearDeadlines()
	return m
}

func (m *machine) clearDeadlines() {
	m.numberBy, m.killAt, m.abandonAt, m.restartAt, m.dumpBy = never, never, never, never, never
}

// take gives the steps that were decided since the last call.
func (m *machine) take() []step {
	out := m.out
	m.out = nil
	return out
}

func (m *machine) emit(s step) { m.out = append(m.out, s) }

// wake is when tick has something to do if nothing happens before.
func (m *machine) wake() time.Duration {
	next := min(m.numberBy, m.killAt, m.abandonAt, m.restartAt, m.dumpBy)
	if m.phase == phaseRunning && !m.stalled {
		next = min(next, m.stallAt())
	}
	return next
}

// clearing begins with the leftovers of a supervisor that was killed.
func (m *machine) clearing() { m.phase, m.reason = phaseClearing, "ends what a killed supervisor left" }

// cleared tells that nothing is left of them.
func (m *machine) cleared(now time.Duration) {
	if m.phase != phaseClearing {
		return
	}
	m.phase, m.reason = phaseIdle, "not started"
	switch {
	case m.next == wishStart:
		m.begin(now)
	case m.stopped:
		m.stay()
	case m.chain.Held:
		m.hold()
	}
}

// stay leaves a session down that somebody stopped, over supervisors.
func (m *machine) stay() { m.rest("stopped, and not started again since; restart it to go on") }

// hold keeps a session down that the supervisor before this one held.
func (m *machine) hold() {
	m.phase, m.reason = phaseHeld, "held as a crash loop before this supervisor began; start it by hand"
}

// start is a person's wish, or that of the configuration. It reports whether it
// changes anything.
func (m *machine) start(now time.Duration) bool {
	if m.stopped {
		m.stopped = false
		m.emit(step{do: stepKeep})
	}
	switch m.phase {
	case phaseIdle, phaseHeld:
		m.chain.Reset()
		m.begin(now)
	case phaseWaiting:
		m.begin(now)
	case phaseEnding, phaseClearing:
		was := m.next
		m.next = wishStart
		return was != wishStart
	case phaseNumbering, phaseRunning:
		return false
	}
	return true
}

// restart ends what runs and starts it again, with a dump first if the plan says
// so. Two of them at once are one.
func (m *machine) restart(now time.Duration) bool {
	switch {
	case m.phase != phaseRunning:
		return m.start(now)
	case m.then == causeRestart:
		return true
	}
	m.next = wishStart
	if !m.plan.first {
		m.end(causeRestart, now)
		return true
	}
	m.then, m.reason = causeRestart, "takes a dump before it is stopped for a restart"
	m.dump(CaptureRestart, false, now)
	m.dumpBy = min(m.dumpBy, now+restartDump)
	m.emit(step{do: stepBeat})
	return true
}

// stop is an order: it ends what runs and starts nothing, whatever was planned,
// and holds until somebody starts the session again.
func (m *machine) stop(now time.Duration, kill bool) bool {
	if m.phase == phaseIdle {
		return false
	}
	m.stopped = true
	m.emit(step{do: stepKeep})
	m.down(now, kill)
	return true
}

// down ends what runs and starts nothing.
func (m *machine) down(now time.Duration, kill bool) {
	why := causeStop
	if kill {
		why = causeKill
	}
	switch m.phase {
	case phaseIdle:
	case phaseHeld, phaseWaiting:
		m.rest("stopped")
		m.fleet.fine()
	case phaseNumbering:
		m.rest("stopped before it was started")
		m.emit(step{do: stepSettle, outcome: watchdog.OutcomeStopped, why: m.reason})
	case phaseClearing:
		m.next = wishStop
	case phaseRunning:
		m.next = wishStop
		m.end(why, now)
	case phaseEnding:
		m.next = wishStop
		if kill && m.killAt != never {
			m.kill(now)
		}
	}
}

// rest goes to where nothing runs and nothing is planned.
func (m *machine) rest(reason string) {
	m.clearDeadlines()
	m.phase, m.next, m.reason = phaseIdle, wishPolicy, reason
}

// begin asks for the number of a new generation.
func (m *machine) begin(now time.Duration) {
	m.clearDeadlines()
	m.phase, m.next, m.cause, m.reason = phaseNumbering, wishPolicy, causeNone, "starting"
	m.numberBy = now + numberPatience
	m.emit(step{do: stepNumber})
}

// numbered tells that the number of the generation is known.
func (m *machine) numbered(now time.Duration) {
	if m.phase == phaseNumbering {
		m.spawn(now)
	}
}

func (m *machine) spawn(now time.Duration) {
	m.clearDeadlines()
	m.phase, m.reason = phaseRunning, ""
	m.started, m.activity = now, now
	m.active, m.stalled, m.wedged, m.survivors = false, false, false, nil
	m.alive, m.stuck = true, false
	m.waiting, m.waitMax = watchdog.WaitNone, 0
	m.dumping, m.then, m.dumpFrom, m.echoOver = false, causeNone, never, 0
	m.emit(step{do: stepSpawn})
}

// spawnFailed tells that the command could not be started.
func (m *machine) spawnFailed(now time.Duration, why string) {
	m.exit, m.hasExit, m.ended, m.alive = watchdog.Exit{Code: exitNotStarted}, true, now, false
	m.finish(now, why)
}

// exitNotStarted is what a shell answers for a command that it cannot run.
const exitNotStarted = 127

// end begins to end the run.
func (m *machine) end(why cause, now time.Duration) {
	m.dropDump()
	m.phase, m.cause = phaseEnding, why
	m.reason = endingWords(why)
	if why == causeKill || m.plan.grace <= 0 {
		m.kill(now)
		return
	}
	m.killAt = now + m.plan.grace
	m.emit(step{do: stepTerm})
}

func endingWords(c cause) string {
	switch c {
	case causeStop:
		return "stopping"
	case causeKill:
		return "killing"
	case causeRestart:
		return "stopping for a restart"
	case causeStalled:
		return "stopping: stalled"
	case causeNone:
	}
	return "ended"
}

func (m *machine) kill(now time.Duration) {
	m.killAt = never
	m.abandonAt = now + killPatience
	m.emit(step{do: stepKill})
}

func (m *machine) dropDump() {
	m.then = causeNone
	if m.dumping {
		m.dumping, m.dumpBy = false, never
		m.emit(step{do: stepDropDump})
	}
}

// exited tells that the leader ended. The run ends when nothing of it is left.
func (m *machine) exited(e watchdog.Exit, now time.Duration) {
	m.exit, m.hasExit, m.ended, m.alive, m.stuck = e, true, now, false, false
	m.exit.Ran = now - m.started
	m.exit.Stalled = m.cause == causeStalled
	if m.phase != phaseRunning {
		return
	}
	m.dropDump()
	m.phase, m.reason = phaseEnding, "ended: "+e.String()
	// Who fails may have said where: a panic, a fatal error, a loop watchdog.
	if failed := e.Signal != 0 || e.Code != 0 && e.Code != watchdog.ExitConfig; failed && m.plan.budget > 0 {
		m.emit(step{do: stepDump, reason: CaptureExit, maybe: e.Signal != 0 || e.Code != watchdog.ExitRestart})
	}
	m.killAt = now + m.plan.grace
	m.emit(step{do: stepTerm})
}

// gone tells that nothing of the run is left but survivors, if any.
func (m *machine) gone(survivors []int, now time.Duration) {
	if m.phase != phaseEnding {
		return
	}
	m.survivors = survivors
	m.finish(now, "")
}

// finish settles the run and decides what comes next.
func (m *machine) finish(now time.Duration, why string) {
	m.clearDeadlines()
	outcome, reason := m.verdict(why)
	m.emit(step{do: stepBeat, outcome: outcome, why: reason})
	m.emit(step{do: stepSettle, outcome: outcome, why: reason})
	next := m.next
	switch next {
	case wishStop:
		m.fleet.fine()
		m.rest(reason)
		return
	case wishStart:
		m.restarts++
		m.begin(now)
		return
	case wishPolicy:
	}
	if m.exit.Failed() {
		m.fleet.failed()
	} else {
		m.fleet.fine()
	}
	d := m.chain.Ended(m.exit, m.plan.rules, m.plan.limits, m.random())
	m.next = wishPolicy
	switch {
	case d.Held:
		m.phase, m.reason = phaseHeld, d.Reason
	case d.Restart:
		m.phase, m.reason, m.restartAt = phaseWaiting, reason, now+d.After
	default:
		m.rest(reason)
	}
}

// verdict is how the run ended.
func (m *machine) verdict(why string) (watchdog.Outcome, string) {
	left := ""
	if n := len(m.survivors); n > 0 {
		left = fmt.Sprintf("; %d of its processes survive: %v", n, m.survivors)
	}
	switch {
	case why != "":
		return watchdog.OutcomeError, why
	case m.cause == causeStop:
		return watchdog.OutcomeStopped, "stopped: " + m.exit.String() + left
	case m.cause == causeKill:
		return watchdog.OutcomeStopped, "killed" + left
	case m.cause == causeRestart:
		return watchdog.OutcomeStopped, "stopped for a restart" + left
	case m.cause == causeStalled:
		return watchdog.OutcomeStopped, fmt.Sprintf("stopped after %v without work", m.plan.stall) + left
	case m.exit.Failed():
		return watchdog.OutcomeError, m.exit.String() + left
	}
	return watchdog.OutcomeCompleted, "code 0" + left
}

// tick carries on what is due at now.
func (m *machine) tick(now time.Duration) {
	switch m.phase {
	case phaseNumbering:
		if now >= m.numberBy {
			m.spawn(now)
		}
	case phaseRunning:
		if m.dumping && now >= m.dumpBy {
			m.dropDumpButAct(now)
		}
		if m.phase == phaseRunning && !m.stalled && now >= m.stallAt() {
			m.stall(CaptureStall, now)
		}
	case phaseEnding:
		m.tickEnding(now)
	case phaseWaiting:
		if now >= m.restartAt {
			m.restartDue(now)
		}
	case phaseIdle, phaseClearing, phaseHeld:
	}
}

func (m *machine) tickEnding(now time.Duration) {
	if now >= m.killAt {
		m.kill(now)
	} else if now >= m.abandonAt {
		// A leader that is left is killed again: nothing is settled before it
		// has ended. Anything else is reported.
		m.abandonAt, m.stuck = now+killAgain, m.alive
		m.emit(step{do: stepAbandon})
		m.emit(step{do: stepKill})
	}
}

func (m *machine) restartDue(now time.Duration) {
	ok, until, why := m.fleet.allow(now)
	if ok {
		m.restarts++
		m.begin(now)
		return
	}
	// All that was held does not rise at once.
	m.restartAt = until + time.Duration(m.random()*float64(m.plan.limits.BackoffMin))
	m.reason = "all restarts are held: " + why
}

// stallAt is when the run counts as stalled if it shows no work before.
func (m *machine) stallAt() time.Duration {
	if m.plan.stall <= 0 {
		return never
	}
	return max(m.activity, m.waitFrom+m.waitMax) + m.plan.stall
}

// stall takes a dump, and then does what the policy says.
func (m *machine) stall(why CaptureReason, now time.Duration) {
	m.stalled = true
	m.wedged = m.wedged || why == CaptureWedge
	m.emit(step{do: stepBeat})
	if m.then == causeRestart {
		return // that is about to happen
	}
	m.then = causeNone
	switch m.plan.action {
	case config.StallRestart:
		m.then = causeStalled
	case config.StallStop:
		m.then = causeStalled
		m.next = wishStop
	case config.StallAlert:
	}
	m.dump(why, m.then != causeNone, now)
}

// dump asks for one unless one is being taken.
func (m *machine) dump(why CaptureReason, ending bool, now time.Duration) {
	if m.plan.budget <= 0 {
		m.dropDumpButAct(now)
		return
	}
	if m.dumping {
		return
	}
	m.dumping, m.dumpFrom, m.dumpBy = true, now, now+m.plan.budget
	m.emit(step{do: stepDump, reason: why, ending: ending})
}

// dumpAsked is an operator's wish. It reports whether one is taken.
func (m *machine) dumpAsked(now time.Duration) bool {
	if m.phase != phaseRunning || m.dumping || m.plan.budget <= 0 {
		return false
	}
	m.dump(CaptureAsked, false, now)
	return true
}

// dumped tells that the dump was taken, or that there is none.
func (m *machine) dumped(now time.Duration) {
	if !m.dumping || m.phase != phaseRunning {
		return
	}
	m.dumping, m.dumpBy = false, never
	m.echoOver = now + dumpEcho
	m.act(now)
}

func (m *machine) dropDumpButAct(now time.Duration) {
	then := m.then
	m.dropDump()
	m.then = then
	m.echoOver = now + dumpEcho
	m.act(now)
}

func (m *machine) act(now time.Duration) {
	if m.then == causeRestart || m.then != causeNone && m.stalled {
		m.end(m.then, now)
	}
}

// worked tells of activity at the moment at.
func (m *machine) worked(at, now time.Duration) {
	if m.phase != phaseRunning && m.phase != phaseEnding {
		return
	}
	m.active = true
	m.activity = max(m.activity, min(at, now))
	m.waiting, m.waitMax = watchdog.WaitNone, 0
	if !m.stalled || now >= m.stallAt() {
		return
	}
	m.stalled, m.wedged = false, false
	if m.phase == phaseRunning {
		if m.then != causeRestart {
			m.then, m.next = causeNone, wishPolicy
		}
		m.emit(step{do: stepBeat})
	}
}

// wrote tells of output that came at the moment at. What comes while a dump is
// taken is the dump, and no work, unless it is the first word of a child, which
// is sent no signal before; and a child that found itself wedged takes that back
// itself: its loop may hang while another thread goes on logging.
func (m *machine) wrote(at, now time.Duration) {
	echo := m.active && at >= m.dumpFrom && (m.dumping || at < m.echoOver)
	if echo || m.wedged {
		return
	}
	// A declared wait goes on: "waiting for approval" is no end of it.
	kind, most := m.waiting, m.waitMax
	m.worked(at, now)
	m.waiting, m.waitMax = kind, most
}

// waits tells of a declared wait that starts at now.
func (m *machine) waits(kind watchdog.Wait, most, now time.Duration) {
	if m.phase != phaseRunning {
		return
	}
	m.worked(now, now)
	m.waiting, m.waitFrom, m.waitMax = kind, now, min(most, m.plan.maxWait)
	m.emit(step{do: stepBeat})
}

// saysWedged tells that the child's own watchdog found it without progress.
func (m *machine) saysWedged(now time.Duration) {
	if m.phase != phaseRunning || m.wedged {
		return
	}
	m.stall(CaptureWedge, now)
}

// saysStalled tells that the child publishes of itself that it is stalled.
func (m *machine) saysStalled(now time.Duration) {
	if m.phase == phaseRunning && !m.stalled {
		m.stall(CaptureStall, now)
	}
}

// late tells that we ourselves were stopped or starved for d: nobody is accused
// for a time in which we could not see.
func (m *machine) late(d, now time.Duration) {
	if m.phase == phaseRunning && !m.stalled {
		m.activity = min(m.activity+d, now)
	}
}
