package process

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"runtime"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/stackdump"
	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// LadderOptions are the surroundings of a [Ladder].
type LadderOptions struct {
	Store    *DumpStore                                     // nil: captures are kept nowhere
	Describe func(text []byte, loopThread string) DumpFacts // nil: internal/stackdump does
	Tool     func(name string) (path string, err error)     // nil: searched in PATH
	Log      *slog.Logger                                   // nil: discarded
	Busy     int                                            // captures at a time; 0: one for each processor, 2 at least
}

// Ladder is the [Capturer] that takes the best dump that a runtime allows, and
// never harms a process that is to live on. It climbs from what is safe to what
// is not: the kernel's view of every thread; then what the runtime itself
// offers; then native stacks; and only if the process is ended anyway, and
// nothing of its runtime was had, a signal that ends it.
//
// No signal but that last one is sent to a process that does not catch it, that
// is stopped, or that has shown no activity yet.
type Ladder struct {
	opts LadderOptions
	busy chan struct{}
}

// NewLadder makes a ladder. It starts nothing.
func NewLadder(opts LadderOptions) *Ladder {
	if opts.Tool == nil {
		opts.Tool = exec.LookPath
	}
	if opts.Describe == nil {
		opts.Describe = describeDump
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Busy <= 0 {
		opts.Busy = max(2, runtime.NumCPU())
	}
	return &Ladder{opts: opts, busy: make(chan struct{}, opts.Busy)}
}

// Capture takes a dump within dump.budget, and returns when ctx ends with what
// it has by then. A capture that yields nothing is kept too: it tells why.
func (l *Ladder) Capture(ctx context.Context, want CaptureWant) Capture {
	if want.Dump.Mode.Kind == "" {
		want.Dump = new(config.Config).DefaultSession().Dump
	}
	c := &capturing{ladder: l, want: want, begun: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, want.Dump.Budget)
	defer cancel()
	if want.Dump.Mode.Kind == config.DumpNone {
		c.skip("any", "dump.mode is none")
		return c.capture()
	}
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
		if want.Exited {
			c.afterExit(ctx)
		} else {
			c.climb(ctx)
		}
	case <-ctx.Done():
		c.skip("any", "other captures took all the time there was")
	}
	got := c.capture()
	if want.Maybe && (len(c.parts) == 0 || got.Verdict == string(stackdump.NotADump)) {
		return got // a traceback stands in the output, where everybody looks
	}
	return l.keep(got, c)
}

// keep stores a capture. That it could not be stored is told in its steps and
// logged here; the capture is as good without.
func (l *Ladder) keep(got Capture, c *capturing) Capture {
	if l.opts.Store == nil {
		return got
	}
	header := c.header(got)
	path, err := l.opts.Store.Save(header, got.Text, c.want.Dump.Keep)
	if err != nil {
		l.opts.Log.Error("a dump could not be kept", "session", c.want.ID, "error", err)
		got.Steps = append(got.Steps, CaptureStep{Method: "store", Detail: err.Error()})
		return got
	}
	got.Path, got.Kept = path, header.ID
	return got
}

// grade orders what was taken: the best stands first and is described.
type grade int

const (
	gradeKernel  grade = iota // states of threads, without functions of the program
	gradeNative               // native stacks
	gradeRuntime              // the runtime's own stacks
)

// rung is one step of the ladder for one target.
type rung struct {
	method string
	grade  grade
	ends   bool          // it ends the process
	skip   func() string // why it may not be taken; empty: it may
	take   func(ctx context.Context, limit int64) (taking, error)
}

// taking is what a rung yielded.
type taking struct {
	text []byte
	exit *int // status of the tool that was run
	cut  bool // more was said than is kept
	note string
}

// part is one taking within a capture.
type part struct {
	DumpPart
	grade grade
	text  []byte
}

// capturing is one capture under way.
type capturing struct {
	ladder *Ladder
	want   CaptureWant
	begun  time.Time

	tree   []processStat
	target candidate // pid 0: none was found
	parts  []part
	steps  []CaptureStep

	inspector string // address of Node's debugger, once it is known
	died      string // the rung at which the target ended
}

func (c *capturing) skip(method, why string) {
	c.steps = append(c.steps, CaptureStep{Method: method, Detail: why})
}

// climb takes the ladder for a living process.
func (c *capturing) climb(ctx context.Context) {
	if err := c.find(); err != nil {
		c.skip("target", err.Error())
		if len(c.tree) == 0 {
			return
		}
	}
	c.try(ctx, c.kernelRung(), 1)
	if c.target.pid == 0 {
		return
	}
	for _, r := range c.runtimeRungs() {
		c.attempt(ctx, r)
	}
	for _, r := range c.nativeRungs() {
		c.attempt(ctx, r)
	}
	for _, r := range c.lastRungs() {
		c.attempt(ctx, r)
	}
	c.again(ctx)
}

// find reads the tree and chooses the target.
func (c *capturing) find() error {
	tree, err := readTree(c.want.PID)
	if err != nil {
		return err
	}
	root := tree[0]
	if root.pid == c.want.PID && c.want.Start != 0 && root.start != c.want.Start {
		return fmt.Errorf("process %d is gone: its number is another one's now", c.want.PID)
	}
	c.tree = tree
	target, err := chooseTarget(tree, c.want.Dump.Target)
	if err != nil {
		return err
	}
	c.target = target
	return nil
}

// alive says what has become of the target since it was chosen; empty if it is
// still there.
func (c *capturing) alive() string {
	now, err := readStat(c.target.pid)
	if err != nil || now.start != c.target.start || now.ended() {
		return "the process is gone"
	}
	c.target.state = now.state
	return ""
}

// attempt takes a rung if it may and need be taken.
func (c *capturing) attempt(ctx context.Context, r rung) {
	best := c.best()
	switch {
	case best != nil && best.grade == gradeRuntime && (r.grade == gradeRuntime || !c.nativeAlways()),
		best != nil && best.grade == gradeNative && r.grade == gradeNative:
		c.skip(r.method, best.Method+" gave a dump")
		return
	}
	if why := c.alive(); why != "" {
		c.skip(r.method, why)
		return
	}
	if why := r.skip(); why != "" {
		c.skip(r.method, why)
		return
	}
	c.try(ctx, r, 1)
}

func (c *capturing) nativeAlways() bool { return c.want.Dump.Native == config.NativeAlways }

// best is the best part so far; nil if there is none.
func (c *capturing) best() *part {
	var best *part
	for i := range c.parts {
		if best == nil || c.parts[i].grade > best.grade {
			best = &c.parts[i]
		}
	}
	return best
}

// try takes a rung within dump.timeout and records what came of it. No rung may
// take more than half of the time that is left: what comes after it must have
// some, too.
func (c *capturing) try(ctx context.Context, r rung, sample int) bool {
	if ctx.Err() != nil {
		c.skip(r.method, "no time was left")
		return false
	}
	limit := c.want.Dump.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	got, err := c.guarded(ctx, r)
	step := CaptureStep{Method: r.method, Taken: err == nil, Took: time.Since(began), Detail: got.note}
	if err != nil {
		step.Detail = termtext.Clean(joined(err.Error(), got.note))
	}
	switch {
	case r.ends:
		c.died = r.method
	case c.target.pid != 0 && c.died == "" && c.alive() != "":
		c.died = r.method
		step.Detail = joined(step.Detail, "the process ended meanwhile")
	}
	c.steps = append(c.steps, step)
	if err != nil {
		return false
	}
	c.parts = append(c.parts, part{grade: r.grade, text: got.text, DumpPart: DumpPart{
		Method: r.method, Sample: sample, At: WireTime{began.UTC()}, ExitCode: got.exit, Truncated: got.cut,
	}})
	return true
}

// guarded takes a rung. What it reads is hostile, and a fault in reading it must
// not end the supervisor.
func (c *capturing) guarded(ctx context.Context, r rung) (got taking, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.ladder.opts.Log.Error("a step of a dump failed by a fault of ours", "session", c.want.ID, "step", r.method, "panic", p)
			got, err = taking{}, fmt.Errorf("it failed by a fault of ours: %v", p)
		}
	}()
	return r.take(ctx, c.want.Dump.MaxBytes)
}

// again takes the further samples: the kernel's view and the best living rung,
// so that a reader can tell what moved.
func (c *capturing) again(ctx context.Context) {
	best := c.best()
	if best == nil || c.died != "" || c.alive() != "" {
		return
	}
	rungs := append(c.runtimeRungs(), c.nativeRungs()...)
	method := best.Method
	for sample := 2; sample <= c.want.Dump.Samples; sample++ {
		select {
		case <-time.After(c.want.Dump.Interval):
		case <-ctx.Done():
			c.skip(fmt.Sprintf("sample %d", sample), "no time was left")
			return
		}
		if why := c.alive(); why != "" {
			c.skip(fmt.Sprintf("sample %d", sample), why)
			return
		}
		c.try(ctx, c.kernelRung(), sample)
		for _, r := range rungs {
			if r.method != method || method == methodFile { // what stands in a file stands there still
				continue
			}
			if why := r.skip(); why != "" {
				c.skip(r.method, why)
			} else {
				c.try(ctx, r, sample)
			}
		}
	}
}
