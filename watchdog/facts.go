package watchdog

import "time"

// Thresholds are the policy as it applies to one session, overrides included.
type Thresholds struct {
	*Policy
	StallTimeout time.Duration
	StallFrom    string // override, declared, policy
	Interval     time.Duration
	IntervalFrom string // override, declared, learned, policy; only policy leaves the cadence unknown
	Quiet        QuietMode
}

// CadenceKnown reports whether it is known how often the publisher beats.
func (th *Thresholds) CadenceKnown() bool { return th.IntervalFrom != fromPolicy }

// Where a threshold came from.
const (
	fromOverride = "override"
	fromDeclared = "declared"
	fromLearned  = "learned"
	fromPolicy   = "policy"
)

// Facts are all that Judge looks at for one session. Times are Mono; never
// stands for what has not happened.
type Facts struct {
	Generation Generation
	State      State
	StateText  string        // filled in where words are wanted, as Message is
	Message    string        // what the publisher said with its last beat
	StateSince time.Duration // first beat of the present state
	EndedAt    time.Duration // a completed or error beat; never
	MaybeNew   bool          // beats since its end could be of a new execution: nothing in them tells

	Terminal   TerminalSeen // Outcome none and not Foreign: there is none
	Supervised Supervised

	WedgedAt time.Duration // a loop watchdog said so; never
	LoopLag  time.Duration // -1 not published

	Carried  SourceSet
	LastBeat time.Duration
	LastBy   [sourceCount]time.Duration // last beat by each source
	// SameBytes says that what is published may not have changed since Redis
	// brought a beat, so that an unchanged key is no silence.
	SameBytes bool
	// RedisAhead says that Redis brought what was written after the last beat by
	// NATS. A copy that a poll found may be as old as the poll before it.
	RedisAhead bool
	BeatKind   AgeKind
	Missing    time.Duration // to add to the age of LastBeat: the estimated age at first sight

	KeyHeld     bool          // the store held this generation's key
	KeyPolls    int           // successive good polls without it
	KeySeen     time.Duration // last poll that found it
	KeyGoneAt   time.Duration
	NATSRunning int           // NATS beats saying running after KeySeen, up to 2
	HTTPSilent  time.Duration // since when its heartbeats by HTTP are missing while others carry it; 0 they are not

	WorkKnown  bool
	LastWork   time.Duration
	Shown      bool          // a task or credits were shown at all
	LastChange time.Duration // last visible change; never: none since FirstSeen
	FirstSeen  time.Duration // of this generation

	Waiting   Wait
	WaitSince time.Duration
	WaitMax   time.Duration // 0 not declared

	Group int // how many went silent together with it; 0 none
	Held  string

	// Unheard says that it is known from the ledger, or from its supervisor, and
	// has not been heard since: LastBeat is when that was told.
	Unheard   bool
	BootID    bool // its publisher names its process
	boot      string
	Declared  bool          // its publisher says how often it beats
	Overtaken Generation    // a newer number that the ledger knows; 0 none
	LeaseHeld time.Duration // last sight of its lease; never
	LeaseGone time.Duration // its lease, which was held, went; never
	NoticedAt time.Duration // when its silence was noticed, which may be after it began; 0 not
	Trouble   string        // why it could not be settled the last time
}

// View is how well the observer sees: the part of the facts that all sessions
// share.
type View struct {
	Sighted   SourceSet
	Blindness func(SourceSet) *Blindness
	StoreAt   [sourceCount]time.Duration // last reconnect, restart or change of topology; never
	Heard     [sourceCount]time.Duration // up to when each source is proven to have told us all; never
	Score     int                        // self-health; deadlines x (1 + Score)
	Sweeper   string                     // who settles; empty nobody

	LedgerReady  bool   // ends can be written
	LedgerReason string // why not, and what it would need

	uncarried Blindness // of sessions that no source carries: there is none
}

func (v *View) blindness(set SourceSet) *Blindness {
	if set == 0 || v.Blindness == nil {
		return &v.uncarried
	}
	return v.Blindness(set)
}

// moved is the deadline at, which counts from since, as blindness moved it.
func (v *View) moved(set SourceSet, since, at, grace time.Duration) time.Duration {
	return at + v.blindness(set).Extension(since, at, grace)
}

// proven reports whether a source of set is proven to have told us all up to
// at, a deadline of a session that beat last at since. A deadline that has
// passed on our clock accuses nobody before that: the link may be down already
// without our having noticed. A source that was interrupted meanwhile, while
// another one of the set was not, proves it only as late as if it were alone.
func (v *View) proven(set SourceSet, at, since, grace time.Duration) bool {
	shared := v.blindness(set).Within(since, at, grace)
	for src, heard := range v.Heard {
		if !set.Has(Source(src)) || heard < at {
			continue
		}
		own := v.blindness(Source(src).Set())
		if own.Open() && own.Since() < at {
			continue // it came back in the midst of something that we cannot measure yet
		}
		if heard >= at+own.Within(since, at, grace)-shared {
			return true
		}
	}
	return set == 0
}

func (v *View) stretch(d time.Duration) time.Duration { return d * time.Duration(1+v.Score) }
