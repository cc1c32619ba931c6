package watchdog

import (
	"fmt"
	"testing"
	"time"
)

// A five-field producer is expired in its first seconds and beats on: nothing but
// its uptime, in whole seconds, tells its beats from those of a new run, and it is
// taken for none. A run that is started later is one.
func TestWhoIsExpiredInItsFirstSecondIsNoNewRun(t *testing.T) {
	for first := time.Duration(0); first < time.Second; first += tickLength { // after its start
		for expired := tickLength; expired < 2*time.Second; expired += 3 * tickLength { // after its first beat
			for _, pace := range []time.Duration{2 * tickLength, 5 * tickLength, 10 * tickLength} {
				t.Run(fmt.Sprintf("%v %v %v", first, expired, pace), func(t *testing.T) {
					r := newRig(t, Policy{}, SourceNATS).acts()
					for age := first; age < 15*time.Second; age += tickLength {
						if (age-first)%pace == 0 {
							r.send(beat("five", int64(age/time.Second)))
						}
						if age-first == expired {
							r.apply(TerminalSeen{ID: "five", Outcome: OutcomeExpired, SettledBy: ByOperator, Settled: r.at.Wall, At: r.at.Mono})
						}
						r.run(tickLength, nil)
					}
					r.want("five", Expired)
					r.run(2*time.Second, nil)
					r.send(beat("five", 1))
					if d := r.detail("five"); d.Terminal != nil {
						t.Errorf("a new run is %v", d.Verdict)
					}
				})
			}
		}
	}
}
