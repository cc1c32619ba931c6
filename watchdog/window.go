package watchdog

import (
	"cmp"
	"strings"
	"time"
)

// Candidate is what a filter or a sort key sees of one session. Its byte slices
// point into the store and are valid during the call only.
type Candidate struct {
	ID, Task, State, Host, Agent []byte

	Generation Generation
	Verdict    Verdict
	Attention  Attention
	For        time.Duration // since the verdict began
	BeatAge    time.Duration // -1 unknown
	WorkAge    time.Duration // age of work if WorkKnown, else of the last visible change; -1 unknown
	WorkKnown  bool
	Uptime     time.Duration // -1 unknown
	Credits    float64       // NaN unknown
	Waiting    Wait
	Sources    SourceSet // that carried its generation
}

// Key is a sort key: Num first, then Text; the id breaks ties.
type Key struct {
	Num  float64
	Text string
}

// Ask is the one window that a screen or a command wants to see. A zero Height
// asks for the counts alone; a negative one for every match.
type Ask struct {
	Seq           uint64                // comes back in the answer
	Match         func(*Candidate) bool // nil matches all
	Sort          func(*Candidate) Key  // nil: what needs attention first, the rest by id
	Query, SortBy string                // Match and Sort in words, for an engine in another process
	Invert        bool
	OnlyAttention bool
	KeepEnded     bool // good ends older than CompletedLinger too

	Anchor ID  // the window is placed so that this session stays visible; "" none
	Offset int // wanted first row; moved to keep Anchor visible
	Height int

	Focus   ID   // session that Window.Focus explains; "" none
	Payload bool // Window.Payloads of Focus too

	Events   int // how many of the latest events are wanted; 0: a few
	EventsOf ID  // of one session alone; "" of all

	Actions int // how many of the latest actions are wanted; 0: actionsShown

	Picked []ID // sessions of which Window.Picked tells whether they can be acted on
	Alerts int  // how many of the queue of alerts are wanted; 0: counts alone
}

// Window is the answer: a copy that nobody else writes.
type Window struct {
	AskSeq  uint64
	Now     Instant
	Started Instant // when the engine began to watch

	Fleet  Fleet
	Ledger LedgerView
	Links  []Link // configured sources in display order
	Self   Self
	Groups []Group // correlated silences, newest first
	Alerts AlertsView
	Events []Transition // the fleet's latest, newest first
	// Actions are those that were asked for here, newest first.
	Actions []Action
	// RefusedCommands counts those that receivers in this process did not obey.
	RefusedCommands RefusedCommands
	// Picked are those of Ask.Picked that are known, in their order.
	Picked []Picked

	Rows    []Row
	Offset  int // of Rows[0] in the matched order
	Matched int
	Total   int // sessions known
	Anchor  int // position of Ask.Anchor in the matched order; -1 not there

	// NextAttention and PrevAttention are the ids that "n" and "N" lead to from
	// the anchor, around the end; "" if nothing needs attention.
	NextAttention, PrevAttention ID

	Focus *Detail // nil: no such session
	// Payloads are the messages that came for Ask.Focus since it is in focus, the
	// newest first: one of each source, and the last one of each that was refused.
	Payloads []Payload
}

// Fleet counts sessions.
type Fleet struct {
	ByVerdict [VerdictCount]int
	Live      int // not ended
	NeedYou   int // counted ranks of attention that nobody has answered
	Answered  int // likewise, whose alert somebody acknowledged, snoozed or muted
	// Past are those of ByVerdict whose bad end was acknowledged and has left the
	// list of what needs attention.
	Past    [VerdictCount]int
	Human   int // human waits that need attention
	Overdue int
	// Assessed of Live are those whose work can be judged already: WORK known,
	// a visible change seen, or watched for a whole stall timeout.
	Assessed int
	// LastTrouble is the Mono of the last moment at which something needed
	// attention; negative: never.
	LastTrouble time.Duration
	LateBeats   uint64 // beats of ended or overtaken executions
}

// Link is a configured source and how well we see it.
type Link struct {
	Source  Source
	Phase   LinkPhase
	Address string
	Origin  string
	Detail  string
	Attempt int
	NextTry time.Duration // from now; 0 none planned
	Warning string

	Sighted       bool
	Reason        string        // why not sighted
	Since         time.Duration // duration of the present sight or blindness
	LastTrip      time.Duration // age of the last round trip; -1 never
	RTT           time.Duration
	Keys          int
	Beats         uint64 // accepted from it
	Dropped       uint64
	Refused       [RefusalCount]uint64
	Fields        uint64 // optional fields dropped
	LastRefusal   Refusal
	LastRefusalID string
}

// RefusedTotal sums the refusals of every kind.
func (l Link) RefusedTotal() uint64 {
	var n uint64
	for _, c := range l.Refused {
		n += c
	}
	return n
}

// LedgerView is how well ends can be settled.
type LedgerView struct {
	Known     bool // a ledger was opened at all
	Authority Authority
	Ready     bool
	Read      bool   // it has told all that stood in it
	Unnamed   bool   // nobody ever named one: nothing was settled, and nothing is away
	Reason    string // why not, and what it would need
	Warning   string

	Sweeping bool          // this process settles
	LastPass time.Duration // age of the last good pass; -1: none yet
	Overdue  bool          // over 2 sweep intervals + 10 s
	PassWhy  string        // why the last pass was not good; empty it was
	Settled  uint64        // by this process
	Waiting  int           // generations that are due and wait for the ledger, or for a number
	Late     uint64        // beats in quarantine since we watch
}

// Self is how well the observer itself does.
type Self struct {
	Lag       time.Duration // lateness of the last tick
	Score     int           // 0 healthy; deadlines x (1 + Score)
	Drops     uint64
	Coalesced uint64 // beats merged in our own queue; nothing is lost by it
	Shed      uint64 // unknown ids beyond the limits
	Queue     int
	Oldest    time.Duration // how long the oldest waited that is not applied yet; 0 none
	Beats     uint64
	Suspended time.Duration // total time this machine slept while we watched
}

// Group is a correlated silence: many that stopped together.
type Group struct {
	N       int
	Of      int           // live at that time
	Began   time.Duration // Mono
	HeldFor time.Duration // from now; negative: until they beat again or an operator releases it
	Shared  string        // "all on eu2-*", "all NATS only" ...; empty unknown
	// Released says who let it go, and why: HeldFor is 0 then. Empty: nobody.
	Released string
	Members  []ID // at most 100
}

// Transition is one event: a change of a verdict, or what else its Kind says.
type Transition struct {
	ID         ID
	Generation Generation
	From, To   Verdict
	New        bool    // first sight: From means nothing
	Kind       string  // "": a change of verdict; else what happened: settled, numbered, sight, group, ledger, supervisor
	At         Instant // a verdict: when it began; when it came back, if it had been left meanwhile
	Text       string
}

// Row is one line of the table.
type Row struct {
	ID         ID
	Generation Generation
	Verdict    Verdict
	Attention  Attention
	For        time.Duration // since the verdict began, as far as we saw
	State      string        // as published
	BeatAge    time.Duration // -1 unknown
	BeatKind   AgeKind
	WorkAge    time.Duration // -1 unknown; see WorkKnown
	WorkKnown  bool          // false: WorkAge is the age of the last visible change
	WorkBound  bool          // WorkAge is a lower bound: no change was seen since we watch
	Uptime     time.Duration // -1 unknown; goes on since the last beat while it lives
	UptimeSaid time.Duration // as the last beat said it, in whole seconds; -1 unknown
	Credits    float64       // NaN none
	Task       string
	Waiting    Wait
	WaitMax    time.Duration // capped maximum of the wait; 0 none
	Overdue    bool
	Agent      string
	Host       string
	Sources    SourceSet // that carried this generation
	Seeing     SourceSet // that see it now
	Why        string    // Evidence.Text
	Held       bool      // it went silent together with others, and settling is held
	Standing   Standing  // of the alert that tells of its verdict; open if there is none
	AnsweredBy string    // who answered that alert
	Progress   Progress
}

// Progress is read from a task such as "chunk 47/200".
type Progress struct {
	Known     bool
	Done, Of  int64
	PerMinute float64       // NaN unknown
	ETA       time.Duration // -1 unknown
	WasPerMin float64       // before the last change stopped; NaN unknown
}

// HistoryPoints is the length of the history rings; HistoryStep the time that
// one point covers: 10 minutes in all.
const (
	HistoryPoints = 60
	HistoryStep   = 10 * time.Second
)

// Detail is everything about one session.
type Detail struct {
	Row
	Evidence Evidence

	BootID       string
	Seq          int64 // -1 not given
	PID          int64
	Message      string
	Cadence      time.Duration // 0 unknown
	CadenceFrom  string        // declared, override, learned, unknown
	StallTimeout time.Duration
	StallFrom    string        // declared, override, policy
	Interval     time.Duration // published; 0 not
	LoopLag      time.Duration // -1 not given
	FirstSeen    time.Duration // age of our first sight of it
	Watched      time.Duration // of this generation
	LateBeats    uint64
	Terminal     *TerminalView   // nil: no record stands
	Supervisor   SupervisorPhase // SupervisorNone: nobody here supervises it
	SuperDetail  string
	Process      *Process      // of a supervised child; nil none. NextRestart is from now
	TaskSince    time.Duration // age of the last change of the task; -1 none seen
	// Alert is the first alert about it: of its verdict, of its group, or another
	// one; nil: none stands.
	Alert *Alert

	BurnPerMin    float64       // credits per minute, NaN unknown
	WasBurnPerMin float64       // before the last work; NaN unknown
	CreditsLeft   time.Duration // until they run out at this burn; -1 unknown

	// Beats and Work hold one count (0 to 15) for each HistoryStep, oldest
	// first; HistorySince is how much of it we watched.
	Beats, Work  [HistoryPoints]uint8
	HistorySince time.Duration

	Can Can
}

// TerminalView is the record that ended a generation.
type TerminalView struct {
	Outcome   Outcome
	SettledBy SettledBy
	Writer    string
	Reason    string
	Settled   int64 // wall clock of the writer, Unix nanoseconds; 0 unknown
	Foreign   bool
	Overrules bool // something foreign stands there, and an operator expired the generation all the same
}

// Can says which actions are possible on a session now, and why not. The zero
// value allows nothing.
type Can struct {
	May OpSet
	// Would is what the session itself could take, were we allowed to ask and able
	// to: it tells something even of a view that is read-only.
	Would OpSet
	// Against holds the reason for each of Ops that is not possible, in their order.
	Against [opCount]string
}

// Not gives the reason for which op is not possible; empty: it is.
func (c *Can) Not(op Op) string {
	i := op.index()
	switch {
	case i < 0:
		return "there is no such action"
	case c.May.Has(op):
		return ""
	}
	return cmp.Or(c.Against[i], "nobody takes commands for it")
}

// Allow makes ops possible.
func (c *Can) Allow(ops ...Op) {
	for _, op := range ops {
		c.May |= op.bit()
	}
}

// Deny says why ops are not possible.
func (c *Can) Deny(why string, ops ...Op) {
	for _, op := range ops {
		if i := op.index(); i >= 0 {
			c.May &^= op.bit()
			c.Against[i] = why
		}
	}
}

// WhyNot tells every reason once, with the ops that it holds for unless nothing is
// possible for that one reason. Empty: everything is possible.
func (c *Can) WhyNot() string {
	var reasons []string
	words := map[string][]string{}
	for _, op := range Ops() {
		if why := c.Not(op); why != "" {
			if words[why] == nil {
				reasons = append(reasons, why)
			}
			words[why] = append(words[why], string(op))
		}
	}
	for i, why := range reasons {
		if len(words[why]) < opCount {
			reasons[i] = strings.Join(words[why], ", ") + ": " + why
		}
	}
	return strings.Join(reasons, "; ")
}
