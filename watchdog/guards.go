package watchdog

// guards names the protections that the simulation takes out one by one: each
// must then be missed by some seed. Nothing else sets them.
type guards uint8

const (
	guardExecution guards = 1 << iota // beats of ended or overtaken executions are kept out
	guardOrder                        // an older beat does not overwrite a newer one
	guardSight                        // blindness moves deadlines
	guardBrake                        // correlated silence is held
	guardProof                        // a deadline accuses only once the source has proven itself after it
	guardReopen                       // only a newer beat, and only at once, takes an end back
)

func (t *Tracker) guarded(g guards) bool { return t.without&g == 0 }
