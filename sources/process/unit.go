package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// unit carries out what a machine decides. Everything but what is said to be
// shared belongs to its goroutine.
type unit struct {
	sup     *Supervisor
	id      watchdog.ID
	conf    config.Session
	machine *machine
	keeper  *keeper
	output  *output
	logFile *logFile
	notify  *notifySocket

	inbox  chan func(now time.Duration)
	poke   chan struct{} // something shared changed
	done   chan struct{}
	child  atomic.Pointer[child]        // shared
	usage  atomic.Pointer[usageOf]      // shared; of the child
	saved  atomic.Pointer[SessionState] // shared; what is to be kept of it
	wrote  atomic.Int64                 // shared: Mono of the newest output
	pinged atomic.Bool                  // shared: a ping came, and no beat since
	eager  atomic.Bool                  // shared: output matters at once, because we are stalled

	// Of the present or last run.
	bootID      string
	generation  watchdog.Generation
	begun       time.Time
	raw         *rawTail
	fileOffset  int64 // of the dump file
	seq         int64
	said        said
	stopsItself bool // STOPPING=1

	runs         int           // that were begun, in the life of this supervisor
	heard        time.Duration // newest output that the machine knows
	nextBeat     time.Duration
	answered     time.Duration // the last beat that answered a ping
	toldWork     time.Duration // the activity of the last beat
	toldAt       time.Duration // when that beat was
	foreignUntil time.Duration
	sleepUntil   time.Duration
	saidWedged   bool
	told         watchdog.Supervised
	left         *RunState // of a supervisor that was killed
	cancelDump   context.CancelFunc
	tasks        sync.WaitGroup // captures, clearing
	asked        []chan Capture

	mu      sync.Mutex // guards the two below
	status  Status
	changed chan struct{}
}

// said is what a child tells of itself, in whatever protocol.
type said struct {
	task    []byte // nil none
	credits float64
	message []byte
	uptime  int64 // s; -1 not told

	state   watchdog.State
	idle    time.Duration // -1 not told
	waiting watchdog.Wait
	waitMax time.Duration
}

func saidBy(b *watchdog.Beat) said {
	return said{task: bytes.Clone(b.Task), credits: b.Credits, message: bytes.Clone(b.Message), uptime: b.Uptime,
		state: b.State, idle: b.Idle, waiting: b.WaitingFor, waitMax: b.WaitingMax}
}

func newUnit(s *Supervisor, c config.Session, limits watchdog.RestartLimits) *unit {
	u := &unit{sup: s, id: watchdog.ID(c.ID), conf: c,
		inbox: make(chan func(time.Duration), 64), poke: make(chan struct{}, 1), done: make(chan struct{}),
		nextBeat: never, answered: -time.Second, foreignUntil: -1, changed: make(chan struct{})}
	p := plan{
		rules:  watchdog.RestartRules{Policy: policyOf(c.Restart), ExitCodes: c.RestartExitCodes},
		limits: limits, grace: c.StopGrace, stall: c.StallTimeout, action: c.StallAction, maxWait: s.opts.MaxWait,
	}
	if s.opts.Capturer != nil && c.Dump.Mode.Kind != config.DumpNone {
		// A capture keeps its own budget; ours ends one that does not.
		p.budget = c.Dump.Budget + time.Second
		p.first = !endsIt(c.Dump.Mode)
	}
	u.machine = newMachine(p, fleetOf{s, u.id}, s.opts.random)
	u.keeper = newKeeper(s, u.id)
	u.keeper.told = func(e Execution) {
		_ = u.tell(func(now time.Duration) { u.numbered(e, now) })
	}
	u.output = newOutput(s.opts.OutputBytes, s.opts.RawBytes, u.line)
	u.saved.Store(new(SessionState))
	u.status = Status{ID: u.id, Command: c.Command, Phase: watchdog.SupervisorNone, Detail: u.machine.reason}
	return u
}

func policyOf(r config.Restart) watchdog.RestartPolicy {
	switch r {
	case config.RestartAlways:
		return watchdog.RestartAlways
	case config.RestartNever:
		return watchdog.RestartNever
	case config.RestartOnFailure:
	}
	return watchdog.RestartOnFailure
}

func newKeeper(s *Supervisor, id watchdog.ID) *keeper {
	return &keeper{id: id, ends: s.opts.Ends, writer: s.opts.Writer, cadence: s.opts.Interval, log: s.log,
		changed: s.save, told: func(Execution) {}, wake: make(chan struct{}, 1),
		settled: func(r watchdog.Record) {
			s.post(watchdog.TerminalSeen{ID: r.ID, Generation: r.Generation, Outcome: r.Outcome, SettledBy: r.SettledBy,
				Writer: r.Writer, Settled: r.At.UnixNano(), Reason: r.Reason, At: s.mono()})
		}}
}

// tell has f run on the unit's goroutine. It waits for room only.
func (u *unit) tell(f func(now time.Duration)) error {
	select {
	case u.inbox <- f:
		return nil
	case <-u.done:
		return ErrClosed
	}
}

// order has f run if the generation that runs is the wanted one, and waits for
// its answer.
func (u *unit) order(ctx context.Context, g watchdog.Generation, f func(now time.Duration) error) error {
	answer := make(chan error, 1)
	if err := u.tell(func(now time.Duration) {
		if g > 0 && u.generation != g {
			answer <- fmt.Errorf("%s is at generation %d, not %d: %w", u.id, u.generation, g, ErrOtherGeneration)
			return
		}
		err := f(now)
		u.carryOut(now) // so that who waits for what follows sees it begun
		answer <- err
	}); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-u.done:
		return ErrClosed
	}
}

// await returns when ok holds.
func (u *unit) await(ctx context.Context, ok func(*Status) bool) (Status, error) {
	for {
		u.mu.Lock()
		st, changed := u.status, u.changed
		u.mu.Unlock()
		switch {
		case ok(&st):
			return st, nil
		case st.unkillable:
			return st, ErrSurvives
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return st, ctx.Err()
		case <-u.done:
			if st = u.snapshot(); ok(&st) {
				return st, nil
			}
			return st, ErrClosed
		}
	}
}

func (u *unit) nudge() {
	select {
	case u.poke <- struct{}{}:
	default:
	}
}

// slowest is the longest sleep of a unit: by it our own lateness is seen.
const slowest = time.Second

// run lives until ctx ends and nothing of the session is left.
func (u *unit) run(ctx context.Context) {
	defer close(u.done)
	defer u.close()
	u.open()
	u.wakeUp(ctx)
	stopping := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	u.sleepUntil = u.sup.mono()
	for {
		now := u.sup.mono()
		if late := now - u.sleepUntil; late > slowest {
			u.machine.late(late, now)
		}
		u.hear(now)
		u.machine.tick(now)
		u.carryOut(now)
		u.beatDue(now)
		if stopping == nil && u.atRest() {
			return
		}
		wait := max(min(u.machine.wake(), u.nextBeat, now+slowest)-now, 0)
		u.sleepUntil = now + wait
		timer.Reset(wait)
		select {
		case f := <-u.inbox:
			f(u.sup.mono())
		case <-u.poke:
		case <-timer.C:
		case <-stopping:
			stopping = nil
			u.shutDown(u.sup.mono())
		}
	}
}

// wakeUp ends what a killed supervisor left, and then starts the session unless
// it was stopped or is held.
func (u *unit) wakeUp(ctx context.Context) {
	switch {
	case u.left != nil:
		u.machine.clearing()
		if !u.machine.chain.Held && !u.machine.stopped {
			u.machine.next = wishStart
		}
		left := *u.left
		u.tasks.Go(func() {
			u.sup.clear(ctx, u.id, u.keeper, left, u.conf.StopGrace)
			if ctx.Err() == nil {
				_ = u.tell(func(now time.Duration) { u.left = nil; u.machine.cleared(now) })
			}
		})
	case u.machine.stopped:
		u.machine.stay()
	case u.machine.chain.Held:
		u.machine.hold()
	default:
		u.machine.begin(u.sup.mono()) // the chain of failures goes on
	}
}

// shutDown stops what runs; what waits or is held keeps its place for the next
// supervisor.
func (u *unit) shutDown(now time.Duration) {
	switch u.machine.phase {
	case phaseRunning, phaseEnding, phaseNumbering:
		u.machine.down(now, false)
	case phaseIdle, phaseClearing, phaseWaiting, phaseHeld:
	}
}

func (u *unit) atRest() bool {
	switch u.machine.phase {
	case phaseRunning, phaseEnding, phaseNumbering:
		return false
	case phaseIdle, phaseClearing, phaseWaiting, phaseHeld:
	}
	return true
}

func (u *unit) open() {
	if u.conf.LogFile != "" {
		var err error
		if u.logFile, err = openLogFile(u.conf.LogFile, u.sup.log); err != nil {
			u.sup.log.Error("a session's output goes to no file", "session", u.id, "error", err)
		}
	}
	name := fmt.Sprintf("n%d.sock", indexOf(u.sup.units, u))
	var err error
	u.notify, err = openNotify(u.sup.dir, name, u.mine, func(n notice) {
		_ = u.tell(func(now time.Duration) { u.noticed(n, now) })
	})
	if err != nil {
		u.sup.log.Error("a session has no notify socket", "session", u.id, "error", err)
	}
}

func indexOf(units []*unit, u *unit) int {
	for i := range units {
		if units[i] == u {
			return i
		}
	}
	return -1
}

func (u *unit) close() {
	if u.cancelDump != nil {
		u.cancelDump()
	}
	u.tasks.Wait()
	if u.notify != nil {
		u.notify.close()
	}
	if u.logFile != nil {
		u.logFile.close()
	}
	u.sup.save()
}

// mine reports whether a process is of the child that runs now.
func (u *unit) mine(pid int) bool {
	c := u.child.Load()
	return c != nil && u.sup.table.belongs(pid, c.pid, c.mark)
}

// line is told each line, in their order, by the goroutines that drain.
func (u *unit) line(l Line) {
	if u.logFile != nil {
		u.logFile.write(l.Text)
	}
	if u.sup.opts.OnLine != nil {
		u.sup.opts.OnLine(u.id, l)
	}
}

// read is told each chunk of output, by the goroutines that drain.
func (u *unit) read(s Stream, chunk []byte) {
	u.wrote.Store(int64(u.sup.mono()))
	u.output.write(s, chunk, time.Now())
	if u.eager.Load() {
		u.nudge()
	}
}

// hear tells the machine of output since the last time.
func (u *unit) hear(now time.Duration) {
	if at := time.Duration(u.wrote.Load()); at > u.heard {
		u.heard = at
		u.machine.wrote(at, now)
	}
}

// carryOut does what the machine decided, until it decides nothing more, and
// tells what changed by it.
func (u *unit) carryOut(now time.Duration) {
	changed := false
	for steps := u.machine.take(); len(steps) > 0; steps = u.machine.take() {
		changed = true
		for _, s := range steps {
			u.do(s, now)
		}
	}
	u.eager.Store(u.machine.stalled)
	u.report(now)
	if changed {
		u.sup.save()
	}
}

func (u *unit) do(s step, now time.Duration) {
	c := u.child.Load()
	switch s.do {
	case stepNumber:
		u.number()
	case stepSpawn:
		u.spawn(now)
	case stepTerm:
		if c != nil {
			c.terminate()
		}
	case stepKill:
		if c != nil {
			c.destroy()
		}
	case stepAbandon:
		if c != nil {
			c.giveUp()
		}
	case stepDump:
		u.capture(s)
	case stepDropDump:
		if u.cancelDump != nil {
			u.cancelDump()
		}
	case stepSettle:
		u.keeper.end(u.bootID, s.outcome, s.why, time.Now())
	case stepBeat:
		if s.outcome != watchdog.OutcomeNone {
			u.endBeat(s.outcome, s.why, now)
		} else {
			u.beat(now)
		}
	case stepKeep: // carryOut does
	}
}

// number begins an execution. Its boot id is also the mark of its processes.
func (u *unit) number() {
	u.bootID, u.generation, u.begun = strings.ToLower(rand.Text()[:16]), 0, time.Now()
	u.seq, u.said, u.stopsItself = 0, said{credits: math.NaN(), idle: -1}, false
	u.foreignUntil = -1
	u.usage.Store(nil)
	u.runs++
	u.keeper.add(Execution{BootID: u.bootID, Started: u.begun, Nonce: rand.Text()})
}

func (u *unit) numbered(e Execution, now time.Duration) {
	if e.BootID != u.bootID {
		return
	}
	u.generation = e.Generation
	u.output.number(e.Generation)
	u.machine.numbered(now)
	if u.machine.phase == phaseRunning && u.child.Load() != nil {
		u.beat(now)
	}
}

func (u *unit) spawn(now time.Duration) {
	u.keep()
	u.sup.save() // before there is anything to be found again
	u.raw = u.output.begin(u.generation)
	u.fileOffset = 0
	if f := u.conf.Dump.Mode.File; f != "" {
		if info, err := os.Stat(f); err == nil {
			u.fileOffset = info.Size()
		}
	}
	g := greeting{id: u.id, generation: u.generation, mark: u.bootID}
	if u.notify != nil {
		g.notify = u.notify.path
	}
	if o := &u.sup.opts; o.HeartbeatURL != "" && o.HeartbeatToken != nil {
		g.url, g.token = o.HeartbeatURL, o.HeartbeatToken(u.id, u.generation)
	}
	c, err := startChild(u.sup.spawner, u.sup.table, command{argv: u.conf.Command, dir: u.conf.Dir,
		env: environment(os.Environ(), u.conf.Env, g), pty: u.conf.PTY, mark: u.bootID, group: u.sup.groups.group(u.bootID)}, u.read)
	if err != nil {
		u.sup.log.Error("a session cannot be started", "session", u.id, "error", err)
		u.machine.spawnFailed(now, err.Error())
		return
	}
	u.child.Store(c)
	go u.watch(c)
	u.beat(now)
}

// watch follows a child to its end.
func (u *unit) watch(c *child) {
	survivors := c.watch(func(e watchdog.Exit) {
		_ = u.tell(func(now time.Duration) {
			u.hear(now)
			u.machine.exited(e, now)
		})
	})
	u.output.end(time.Now())
	_ = u.tell(func(now time.Duration) {
		u.child.Store(nil)
		u.machine.gone(survivors, now)
	})
}

// capture takes a dump on a goroutine of its own.
func (u *unit) capture(s step) {
	want := CaptureWant{ID: u.id, Generation: u.generation, Reason: s.reason, Dump: u.conf.Dump,
		Ending: s.ending, Exited: s.reason == CaptureExit, Maybe: s.maybe, Active: u.machine.active,
		Output: u.raw, FileOffset: u.fileOffset}
	if c := u.child.Load(); c != nil {
		want.PID, want.Start = c.pid, c.start
	}
	ctx, cancel := context.WithTimeout(context.Background(), u.machine.plan.budget)
	u.cancelDump = cancel
	asked := u.asked
	u.asked = nil
	u.tasks.Go(func() {
		defer cancel()
		got := u.sup.opts.Capturer.Capture(ctx, want)
		if u.sup.opts.OnCapture != nil {
			u.sup.opts.OnCapture(got)
		}
		for _, a := range asked {
			a <- got
		}
		if ctx.Err() != nil || want.Exited {
			return // dropped, and the machine has gone on
		}
		select {
		case u.inbox <- u.machine.dumped:
		case <-ctx.Done():
		}
	})
}
