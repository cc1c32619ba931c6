package watchdog

import "time"

// Head is the newest generation of a session as the ledger keeps it.
type Head struct {
	ID         ID
	Generation Generation  // 0: there is none yet
	Ended      bool        // its terminal record stands
	Executions []Execution // newest first, the head's own among them; MaxExecutions at most
	// Overruled are the ends that operators gave to generations at whose place
	// something foreign stands, newest first; MaxExecutions at most.
	Overruled []Overruling

	// What a sweeper that was not there needs to judge it.
	Cadence time.Duration // 0 not known
	Sources SourceSet     // that carried it
}

// Overruling is the end of a generation that no record can be written for: an
// operator expired it although a foreign one stands at its place. That stays
// there, and is its outcome as little as before.
type Overruling struct {
	Generation Generation
	Writer     string // who wrote it
	Nonce      string // of this attempt
	Reason     string
	At         time.Time // wall clock of the writer
}

// record is the end that an overruling is.
func (o *Overruling) record(id ID) Record {
	return Record{ID: id, Generation: o.Generation, Outcome: OutcomeExpired, SettledBy: ByOperator,
		Writer: o.Writer, Nonce: o.Nonce, Reason: o.Reason, At: o.At}
}

// MaxExecutions is how many executions, and how many overrulings, a head
// remembers.
const MaxExecutions = 8

// Execution maps what a publisher says of itself to the number of its
// generation.
type Execution struct {
	Generation Generation
	BootID     string    // empty: a publisher that has none
	Start      time.Time // estimate, wall clock of who claimed it; zero unknown
	Supervised bool      // a supervisor started it: beats without a number are its
}

// Claim asks for the number of an execution.
type Claim struct {
	ID         ID
	BootID     string
	Start      time.Time  // estimate on our wall clock; zero unknown
	Generation Generation // that the publisher names; 0 none
	New        bool       // a supervisor or POST /sessions: always the next number
	// First says that the claimer knows of no other execution of the session: a
	// later start than the open head's may then be that of a beat that came late.
	First bool
	// After is a generation that the claimer saw end or be overtaken before this
	// execution: its number is higher. 0: it saw none.
	After Generation
	// Knew is the head's number as the claimer knew it when it last heard the
	// execution: what beats on after that goes on beside it, or after it. 0: it
	// knew of none.
	Knew    Generation
	Cadence time.Duration
	Sources SourceSet
}
