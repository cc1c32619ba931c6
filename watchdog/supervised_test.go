package watchdog

import (
	"testing"
	"time"
)

// A supervisor that begins tells once of what it leaves down: what was stopped,
// or held as a crash loop, before it began. It is known, and can be started
// again, whoever tells of that session first.
func TestWhatASupervisorLeavesDownIsKnown(t *testing.T) {
	for _, c := range []struct {
		name    string
		phase   SupervisorPhase
		outcome Outcome
		want    Verdict
	}{
		{"held as a crash loop", SupervisorCrashLoop, OutcomeError, CrashLoop},
		{"stopped", SupervisorHeld, OutcomeStopped, Stopped},
		{"stopped while it waited for a restart", SupervisorHeld, OutcomeError, Failed},
	} {
		for _, first := range []string{"the supervisor", "the ledger"} {
			r := newRig(t, Policy{}, SourceNATS, SourceLocal).acts()
			supervisor := func() {
				r.apply(Supervised{ID: "a", Generation: 3, Phase: c.phase, Detail: "as it was left", At: r.at.Mono})
			}
			ledger := func() {
				r.apply(HeadSeen{Head: Head{ID: "a", Generation: 3, Ended: true}, At: r.at.Mono})
				r.apply(TerminalSeen{ID: "a", Generation: 3, Outcome: c.outcome, SettledBy: BySupervisor,
					Settled: r.at.Wall - int64(3*time.Minute), At: r.at.Mono})
			}
			if first == "the ledger" {
				ledger()
				supervisor()
			} else {
				supervisor()
				ledger()
			}
			d := r.want("a", c.want)
			if d.Generation != 3 || d.Supervisor != c.phase || d.Can.Not(OpRestart) != "" {
				t.Errorf("%s, first told by %s: #%d, supervisor %d, restart: %q", c.name, first, d.Generation, d.Supervisor, d.Can.Not(OpRestart))
			}
			if c.want.Ended() && d.For != 3*time.Minute {
				t.Errorf("%s, first told by %s: for %v, and it ended 3 minutes ago", c.name, first, d.For)
			}
		}
	}
}
