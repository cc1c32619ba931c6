package process

import (
	"context"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Capturer takes stack dumps of sessions. A supervisor asks for one at a time
// for each session, before it acts on a stall, and never extends a deadline of
// its own for it: Capture returns when ctx ends, with what it has.
type Capturer interface {
	Capture(ctx context.Context, want CaptureWant) Capture
}

// CaptureReason is why a dump is taken.
type CaptureReason string

// The reasons for a dump.
const (
	CaptureStall   CaptureReason = "stalled" // no activity for the stall timeout
	CaptureWedge   CaptureReason = "wedged"  // the child said so itself
	CaptureExit    CaptureReason = "exit"    // it ended by itself with a failure: it may have dumped, and has with 75
	CaptureAsked   CaptureReason = "asked"   // by an operator
	CaptureRestart CaptureReason = "restart" // before an operator's restart ends it
)

// CaptureWant is what a supervisor asks of a Capturer.
type CaptureWant struct {
	ID         watchdog.ID
	Generation watchdog.Generation // 0 not known
	Reason     CaptureReason
	Dump       config.Dump

	PID   int    // of the command that was started; its descendants may be the better target
	Start uint64 // its start time in clock ticks since boot, as in /proc/PID/stat; 0 not known

	// Ending says that the process is ended after the capture, whatever the
	// capture does to it.
	Ending bool
	// Exited says that it has ended by itself: only output and dump file are left.
	Exited bool
	// Maybe says that nobody knows whether it dumped: if no dump is found, no
	// record of that is kept.
	Maybe bool
	// Active says that it has shown activity: before that it may not have
	// installed its handlers, and no signal may be sent.
	Active bool

	Output     RawOutput // nil: none is kept
	FileOffset int64     // size of Dump.Mode.File when this generation was started
}

// RawOutput gives the newest output of one generation as the child wrote it,
// stderr and stdout in the order in which they arrived. It is bounded: what is
// older than its capacity is gone.
type RawOutput interface {
	// Mark is the position behind the newest byte.
	Mark() int64
	// Since copies what was written from position mark on, as far as it is
	// still kept. Since(0) is all of it.
	Since(mark int64) []byte
}

// Capture is a dump that was taken, or the record of why there is none.
type Capture struct {
	ID         watchdog.ID
	Generation watchdog.Generation
	Reason     CaptureReason
	At         time.Time // wall clock, for people
	PID        int       // the process that was dumped
	Method     string    // the step that gave Text; empty if none did
	ExitCode   int       // of the tool, if a tool was run
	Text       []byte    // as captured, not cleaned; nil if nothing was
	Truncated  bool
	Format     string // of Text, as internal/stackdump names it; empty: no dump of a known kind
	Verdict    string // what it says of the process; empty: nothing
	Culprit    string // "agent.py:13 call_tool"; empty: none is accused
	Kept       string // its id in the store; empty: it was kept nowhere
	Path       string // where it was kept; empty nowhere
	Steps      []CaptureStep
}

// CaptureStep tells what became of one step of the ladder.
type CaptureStep struct {
	Method string
	Taken  bool
	Detail string // why it was skipped or failed, for people
	Took   time.Duration
}
