package ui

import (
	"context"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Feed is where a screen's windows come from: the local engine, a replay, or
// the view of a serve. None of its methods blocks but where it says so.
type Feed interface {
	// Ask replaces the wanted window. Its answer, and a new one whenever
	// something changed (ten a second at most, and once a second as ages
	// move), comes out of Windows.
	Ask(watchdog.Ask)
	// Windows gives the newest answer; one that was not read is replaced.
	// It is closed when the feed ends.
	Windows() <-chan watchdog.Window
	// Retry asks every source again now.
	Retry()
	// About says what is being watched.
	About() About
	// Children gives what can be read of the sessions that are supervised behind
	// it; nil: none are.
	Children() Children
	// Release lets sessions be settled that went silent together and are held,
	// and says how many. It may take long: it runs off the screen's goroutine.
	Release(ctx context.Context, reason string) (int, error)
	// Do asks for an action and gives what became of it at once: requested, or
	// refused with the reason. What comes of it later stands in Window.Actions. A
	// command without an id is given one; the same id asks once. It may take long:
	// it runs off the screen's goroutine. An error says that it was not asked for,
	// or that this is not known.
	Do(ctx context.Context, c watchdog.Command) (watchdog.Action, error)
	// Note writes what an operator says of an alert where colleagues see it. An
	// author is added if none is named. It may take long: it runs off the screen's
	// goroutine.
	Note(ctx context.Context, n watchdog.AlertNote) error
	// Close ends the feed and everything behind it.
	Close()
}

// Children reads the output and the dumps of supervised sessions. Its methods
// may take long: they run off the screen's goroutine.
type Children interface {
	// Logs gives up to most lines from a sequence number on, oldest first; from
	// a negative one the newest.
	Logs(ctx context.Context, id watchdog.ID, from int64, most int) ([]LogLine, error)
	// Dumps lists captures, the newest first; of all sessions if id is empty.
	Dumps(ctx context.Context, id watchdog.ID) ([]DumpEntry, error)
	// Dump reads the text of one.
	Dump(ctx context.Context, name string) ([]byte, error)
}

// LogLine is one line of output, safe to show.
type LogLine struct {
	Seq        int64
	At         time.Time
	Generation watchdog.Generation // 0 not known when it was written
	Stream     string              // stdout, stderr
	Text       string
	Partial    bool // it has not ended yet
}

// DumpEntry is one capture.
type DumpEntry struct {
	Name       string // names it among all
	ID         watchdog.ID
	Generation watchdog.Generation // 0 not known
	At         time.Time
	Reason     string
	Method     string // empty: nothing was had
	Bytes      int64
	Truncated  bool
	Format     string
	Verdict    string
	Culprit    string
	LoopThread string // where its event loop runs, as was configured; empty: recognised
}

// About is what the header says of a feed.
type About struct {
	Name     string // context name, "local", name of a recording
	Demo     bool   // a lasting DEMO badge
	ReadOnly bool
	Replay   Replay // nil: live
	// Length is the recorded time of a replay; 0: not known, or not yet.
	Length time.Duration
	// Elsewhere says that the engine runs in another process: its feed tells when
	// nothing comes from there, and that is no fault of ours.
	Elsewhere bool
	// Trial judges what was seen by other thresholds; nil: that cannot be done here.
	Trial Trier
	// Shift sums up what happened for who comes next; nil: nobody can.
	Shift Shift
	// Recorder records what comes in; nil: it does not come in here.
	Recorder Recorder
	// Output listens to sessions that nobody behind the feed supervises; nil: that
	// cannot be done, because of NoOutput.
	Output   Output
	NoOutput string
	Late     Late   // what is kept of the quarantine; nil: nothing
	Sweeper  string // who settles: "this screen", "serve@host"; empty nobody
	Operator string // as whom actions are audited; empty not known
	// Hooks is the command that is run for an expired session, by whoever settles;
	// empty: none that is known of.
	Hooks []string
	// Supervised are the sessions that run behind the feed and end with it.
	Supervised []watchdog.ID
}

// Replay steers a recording.
type Replay interface {
	Pause()
	Resume()
	Paused() bool
	Step(n int)
	SetSpeed(x float64)
	Speed() float64
	// End reports whether nothing comes any more, and what is wrong with that
	// end; empty: nothing.
	End() (reached bool, wrong string)
}

// Target names what to open.
type Target struct {
	Kind    TargetKind
	NATS    string   // address; empty: as configured; "-" none
	Redis   string   // likewise
	Context string   // name in the configuration
	File    string   // recording
	Command []string // to run as a session
	Speed   float64  // of a recording or a demo; 0: the host's choice
	Seed    uint64
	Agents  int
}

// TargetKind is a kind of place to open.
type TargetKind uint8

// The kinds of target that the first-run page offers.
const (
	TargetConfigured TargetKind = iota // what configuration and environment name
	TargetDemo
	TargetBus // embedded servers for local agents, and attached to them
	TargetRecording
	TargetRun // a command, supervised by this process
)

// Host opens feeds: the wiring, seen from the screen. Open may take long and
// runs off the screen's goroutine.
type Host interface {
	Open(ctx context.Context, t Target) (Feed, error)
	Contexts() []string // named in the configuration; it does not wait
}
