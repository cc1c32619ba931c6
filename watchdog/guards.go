package watchdog

// guards names the protections that the simulation takes out one by one: each
// must then be missed by some seed. Nothing else sets them.
type guards uint16

const (
	guardExecution  guards = 1 << iota // beats of ended or overtaken executions are kept out
	guardOrder                         // an older beat does not overwrite a newer one
	guardSight                         // blindness moves deadlines
	guardBrake                         // correlated silence is held
	guardProof                         // a deadline accuses only once the source has proven itself after it
	guardReopen                        // only a newer beat, and only at once, takes an end back
	guardTombstone                     // what comes after an involuntary end is kept out
	guardStillDue                      // a beat between judging and writing cancels a settlement
	guardNonce                         // a record is ours only if its nonce is
	guardGeneration                    // what concerns a generation changes that generation alone
	guardAuthority                     // nothing is settled by a store that the cluster did not name
	guardTold                          // what is told of a session is told in the order of its times
)

func (t *Tracker) guarded(g guards) bool { return t.without&g == 0 }
