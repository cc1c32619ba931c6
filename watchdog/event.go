package watchdog

import "time"

// Instant is one moment on three clocks that are read together. Only Mono and
// Boot decide anything; Wall is for people.
type Instant struct {
	Mono time.Duration // stands still while the machine is suspended
	Boot time.Duration // goes on while the machine is suspended
	Wall int64         // Unix nanoseconds; may jump
}

// Clock reads all three clocks. The engine and the sources of one process
// share one.
type Clock interface {
	Now() Instant
}

// Event is anything but a beat that the engine is told. The set is closed.
type Event interface{ event() }

// LinkPhase is what a source's connection does now.
type LinkPhase uint8

// A source that is not configured has no link at all.
const (
	LinkConnecting LinkPhase = iota // first connection not yet made
	LinkUp
	LinkDown // was up, or a try failed
)

var linkPhaseNames = [...]string{"connecting", "up", "down"}

// String is the word shown to people.
func (p LinkPhase) String() string { return linkPhaseNames[p] }

// LinkChanged tells what became of a source's connection. It decides no sight:
// that is RoundTrip's, Denied's and Dropped's share.
type LinkChanged struct {
	Source  Source
	Phase   LinkPhase
	Address string        // redacted; what is dialled
	Origin  string        // where the address came from: default, file, flag, NATS_URL ...
	Detail  string        // last error in short: "refused", "no such host"; or what is subscribed
	Attempt int           // tries since the link was last up
	NextTry time.Duration // Mono of the next try; 0 none planned
	At      time.Duration // Mono
	Warning string        // for people, such as "no TLS", "maxmemory-policy evicts"; empty none
}

// RoundTrip says that a question was put to a source at Sent and answered at
// At. Sight rests on it: 10 s without one and the source is blind.
type RoundTrip struct {
	Source   Source
	Sent, At time.Duration // Mono
	// Keys is how many sessions the answer covered, for a source that is
	// polled; 0 for a bus.
	Keys int
}

// Denied says that a permission error stands on the source's subscription, or
// (with an empty Reason) that it no longer does.
type Denied struct {
	Source Source
	Reason string
	At     time.Duration // Mono
}

// Dropped counts messages of a source that we lost ourselves, by its client's
// buffer or our queue. It makes sessions unknown, never stalled.
type Dropped struct {
	Source Source
	Count  uint64        // lost since the last such event
	At     time.Duration // Mono
}

// Refused counts messages that did not count as beats, by kind.
type Refused struct {
	Source Source
	Counts [RefusalCount]uint64 // since the last such event
	Fields uint64               // wrong optional fields dropped, since the last
	Last   Refusal
	LastID string        // cleaned subject or key of the newest one
	At     time.Duration // Mono
}

// KeyGone says that a key that the store once held was absent from good polls.
type KeyGone struct {
	Source   Source
	ID       ID
	LastSeen time.Duration // Mono of the last poll that found it
	Polls    int           // successive good polls without it: 1, then 2; not repeated after that
	At       time.Duration // Mono
}

// KeyBack says that a key that was gone is there again with the same bytes
// (with new bytes it is a beat).
type KeyBack struct {
	Source Source
	ID     ID
	At     time.Duration // Mono
}

// StoreChanged says that the store behind a source reconnected, restarted or
// changed its topology: absence means nothing for one cadence after it.
type StoreChanged struct {
	Source Source
	Reason string
	At     time.Duration // Mono
}

// SourceAdded says that a source is configured. It comes before all others of
// that source.
type SourceAdded struct {
	Source Source
	At     time.Duration // Mono
}

// Outcome is how a generation ended.
type Outcome uint8

// The outcomes of a terminal record.
const (
	OutcomeNone Outcome = iota
	OutcomeCompleted
	OutcomeError
	OutcomeStopped
	OutcomeLost
	OutcomeExpired
)

var outcomeNames = [...]string{"", "completed", "error", "stopped", "lost", "expired"}

// String is the word of the terminal record.
func (o Outcome) String() string { return outcomeNames[o] }

// TerminalSeen says that the write-once end of a generation was read.
type TerminalSeen struct {
	ID         ID
	Generation Generation
	Outcome    Outcome
	SettledBy  SettledBy
	Writer     string // who wrote it
	Settled    int64  // wall clock of the writer, Unix nanoseconds; 0 unknown
	Reason     string
	Foreign    bool          // does not decode, or is not signed: blocks, and is no outcome
	Overrules  bool          // something foreign stands there, and an operator expired the generation all the same
	At         time.Duration // Mono
}

// ends reports whether the record is an outcome. A foreign one never is.
func (e *TerminalSeen) ends() bool { return e.Outcome != OutcomeNone && !e.Foreign }

// SupervisorPhase is what a supervisor does with a session.
type SupervisorPhase uint8

// Phases that matter to the verdict.
const (
	SupervisorNone SupervisorPhase = iota
	SupervisorRunning
	SupervisorRestarting
	SupervisorCrashLoop
	SupervisorStopping // SIGTERM was sent
	SupervisorHeld     // ended, and nothing starts it again by itself
)

// Supervised tells what a supervisor does with a session now.
type Supervised struct {
	ID         ID
	Generation Generation
	Phase      SupervisorPhase
	Detail     string
	Process    Process
	At         time.Duration // Mono
}

// Process is what a supervisor knows of a child.
type Process struct {
	PID         int           // 0: none runs
	Restarts    int           // of this session, since it was first started
	ExitCode    int           // of the last run; -1: none has ended, or it was a signal
	Signal      string        // that ended the last run: "SIGKILL"; empty none
	NextRestart time.Duration // Mono; 0 none planned
	CPU         float64       // share of one core, of the whole tree; NaN unknown
	RSS         int64         // bytes, of the whole tree; 0 unknown
	Processes   int           // in the tree
	LastLine    string        // last line of standard error, cleaned
	Outlook     *Outlook      // nil: nobody told
}

// Outlook is what an action on a child would reach and bring, as its supervisor
// knows it. Nobody writes to one that was told.
type Outlook struct {
	Members []Member      // of its tree, the command first; at most MembersTold
	Grace   time.Duration // between SIGTERM and SIGKILL; 0: it is killed at once
	// Left of Burst failures within Window may come before it is held as a crash loop.
	Left, Burst int
	Window      time.Duration
	Brake       string // why no restart happens now; empty: none is held back
	Dump        string // how one is taken: "SIGUSR1"; empty: none is
	DumpPauses  bool   // taking one may stop it for a moment
	DumpFirst   bool   // an operator's restart takes one before it ends anything
}

// Member is a process of a child's tree.
type Member struct {
	PID  int
	Name string // as the system has it, cleaned; empty not known
}

// MembersTold is how many processes of a tree are named at most.
const MembersTold = 16

// HeadSeen tells what the ledger holds of a session's newest generation.
type HeadSeen struct {
	Head Head
	At   time.Duration // Mono
}

// FollowedUp says that the ledger has told all that stood in it.
type FollowedUp struct {
	At time.Duration // Mono
}

// Claimed answers the Claim effect: the number of an execution. 0: it could not
// be told whether it is a new one.
type Claimed struct {
	Claim      Claim
	Generation Generation
	At         time.Duration // Mono
}

// SettleFailed says that a settlement was not carried out; the next pass judges
// the generation again.
type SettleFailed struct {
	ID         ID
	Generation Generation
	Reason     string
	At         time.Duration // Mono
}

// LedgerChanged tells whether ends can be settled now.
type LedgerChanged struct {
	Authority Authority
	Ready     bool
	Unnamed   bool          `json:",omitempty"` // nobody ever named one: nothing was settled, and nothing is away
	Reason    string        // why not, and what it would need
	Warning   string        // "a failover can lose the last second"; empty none
	At        time.Duration // Mono
}

// Swept tells how a pass went. A pass that failed has a Reason.
type Swept struct {
	Took    time.Duration
	Settled int
	Failed  int
	Reason  string
	At      time.Duration // Mono
}

// LeaseSeen tells whether the lease that our own publishers renew with every
// beat is held.
type LeaseSeen struct {
	ID         ID
	Generation Generation // 0 not known
	BootID     string
	Held       bool
	At         time.Duration // Mono
}

// BrakeReleased says that an operator lets the held groups be settled.
type BrakeReleased struct {
	By, Reason string
	At         time.Duration // Mono
}

// Wedged says that a loop watchdog found its loop without progress, or (with
// Wedged false) that it moves again.
type Wedged struct {
	ID         ID
	Generation Generation
	Wedged     bool
	Detail     string
	At         time.Duration // Mono
}

// Ticked advances the tracker's clocks. Late is by how much the engine's own
// tick came after it was due: our lateness is a fact like any other, so that a
// recording shows it again.
type Ticked struct {
	Now  Instant
	Late time.Duration
}

func (LinkChanged) event()   {}
func (RoundTrip) event()     {}
func (Denied) event()        {}
func (Dropped) event()       {}
func (Refused) event()       {}
func (KeyGone) event()       {}
func (KeyBack) event()       {}
func (StoreChanged) event()  {}
func (SourceAdded) event()   {}
func (TerminalSeen) event()  {}
func (Supervised) event()    {}
func (Wedged) event()        {}
func (HeadSeen) event()      {}
func (FollowedUp) event()    {}
func (Claimed) event()       {}
func (SettleFailed) event()  {}
func (LedgerChanged) event() {}
func (Swept) event()         {}
func (LeaseSeen) event()     {}
func (BrakeReleased) event() {}
func (Ticked) event()        {}

// HTTPSilent says that a session sent no heartbeat to the registry for its ttl,
// while the same generation beats elsewhere: it is disputed, not reaped.
type HTTPSilent struct {
	ID         ID
	Generation Generation
	Age        time.Duration // since the last heartbeat
	At         time.Duration // Mono
}

func (HTTPSilent) event() {}
