package watchdog

import "time"

// Effect is what the tracker wants done or told. The set is closed; whoever
// carries an effect out reports back with an Event.
type Effect interface{ effect() }

// Changed tells that a verdict changed.
type Changed struct{ Transition }

// SightLost tells that a source went blind, At its last proof of sight.
type SightLost struct {
	Source Source
	Reason string
	At     Instant
}

// SightBack tells that a source is seen again.
type SightBack struct {
	Source Source
	At     Instant
}

// Grouped tells that sessions went silent together: one alert for all of them.
type Grouped struct {
	N  int
	At Instant
}

// Ungrouped tells that a group is over.
type Ungrouped struct {
	N      int
	Reason string
	At     Instant
}

// Settle asks for the terminal record of a generation. Whoever carries it out
// asks Tracker.StillDue first: a beat that came meanwhile cancels it.
type Settle struct {
	ID         ID
	Generation Generation
	Outcome    Outcome
	By         SettledBy
	Reason     string
	Verdict    Verdict
	Evidence   Evidence
	Heard      time.Duration // Mono of its last beat when it was judged: proof that none came since
}

// Number asks the ledger for the number of an execution.
type Number struct{ Claim }

// Sweep asks for a pass: check the authority, repair what a crash left.
type Sweep struct{ At Instant }

// QuarantineLate asks to keep what came after an involuntary end.
type QuarantineLate struct{ Late }

func (Settle) effect()         {}
func (Number) effect()         {}
func (Sweep) effect()          {}
func (QuarantineLate) effect() {}

func (Changed) effect()   {}
func (SightLost) effect() {}
func (SightBack) effect() {}
func (Grouped) effect()   {}
func (Ungrouped) effect() {}
