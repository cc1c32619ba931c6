package watchdog

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

func (Changed) effect()   {}
func (SightLost) effect() {}
func (SightBack) effect() {}
func (Grouped) effect()   {}
func (Ungrouped) effect() {}
