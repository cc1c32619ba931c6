package watchdog

import "time"

// Verdict is what we say about a session now. Judge alone decides it.
type Verdict uint8

// The verdicts.
const (
	Running Verdict = iota
	Waiting
	Quiet
	Unknown
	Disputed
	Silent
	Stalled
	Wedge
	Restarting
	CrashLoop
	Completed
	Stopped
	Failed // "error"
	Lost
	Expired
	VerdictCount
)

// Attention ranks what needs a person, most urgent first; the groups are those
// of the operator's list. AttentionNone needs nobody.
type Attention uint8

// The ranks of attention. Notice ranks are listed but not counted in the header.
const (
	AttentionAct     Attention = iota // wedged, stalled, crash-loop
	AttentionBadEnd                   // lost, error
	AttentionSuspect                  // silent, disputed, failed action
	AttentionWait                     // a human wait over 15 min, OVERDUE
	AttentionQuiet                    // notice
	AttentionUnknown                  // notice
	AttentionNone
)

// Counted reports whether the header's number includes this rank.
func (a Attention) Counted() bool { return a < AttentionQuiet }

type verdictInfo struct {
	word      string
	attention Attention
	ended     bool
	meaning   string
}

// verdicts is the one table of them: words, ranks and meanings come from here.
var verdicts = [VerdictCount]verdictInfo{
	Running:    {"running", AttentionNone, false, "beats arrive and nothing speaks against it"},
	Waiting:    {"waiting", AttentionNone, false, "it declared a wait that is inside its maximum"},
	Quiet:      {"quiet", AttentionQuiet, false, "beats arrive, but nothing visible changed for the stall timeout; a notice, not an accusation"},
	Unknown:    {"unknown", AttentionUnknown, false, "every source that ever carried it is blind now"},
	Disputed:   {"disputed", AttentionSuspect, false, "two sources contradict each other"},
	Silent:     {"silent", AttentionSuspect, false, "beats stopped"},
	Stalled:    {"stalled", AttentionAct, false, "no work for longer than the stall timeout"},
	Wedge:      {"wedged", AttentionAct, false, "its event loop makes no progress"},
	Restarting: {"restarting", AttentionNone, false, "its supervisor starts it again"},
	CrashLoop:  {"crash-loop", AttentionAct, false, "it failed too often in a row; its supervisor holds it"},
	Completed:  {"completed", AttentionNone, true, "it ended well"},
	Stopped:    {"stopped", AttentionNone, true, "it was stopped"},
	Failed:     {"error", AttentionBadEnd, true, "it ended with an error"},
	Lost:       {"lost", AttentionBadEnd, true, "its runner is gone; it was settled"},
	Expired:    {"expired", AttentionNone, true, "an operator expired it"},
}

// String is the word that stands on the screen, in JSON and in filters.
func (v Verdict) String() string {
	if v < VerdictCount {
		return verdicts[v].word
	}
	return "invalid"
}

// Meaning is one sentence for help.
func (v Verdict) Meaning() string { return verdicts[v].meaning }

// Ended reports whether the generation is over.
func (v Verdict) Ended() bool { return verdicts[v].ended }

// settles reports whether a generation may be due to be settled under this
// verdict: whatever else it is, it becomes silent first.
func (v Verdict) settles() bool {
	return v == Silent || v == Stalled || v == Wedge || v == Completed || v == Failed
}

// VerdictOf reads the word of a verdict.
func VerdictOf(word string) (Verdict, bool) {
	for i := range verdicts {
		if verdicts[i].word == word {
			return Verdict(i), true
		}
	}
	return 0, false
}

// Input is one fact that a verdict rests on.
type Input struct {
	Name      string        // beat, work, change, state, wait, loop_lag, redis_key, terminal ...
	Value     string        // for people and JSON, without its unit
	Unit      string        // s, ms, or empty
	Source    string        // which source, publisher, policy, or observer
	Age       time.Duration // -1 unknown
	Estimated bool
}

// Forecast is what the verdict becomes if nothing arrives, or if something
// named in If does.
type Forecast struct {
	Verdict Verdict
	In      time.Duration // from now; -1 not by time
	If      string        // "nothing arrives", "a beat arrives" ...
}

// Sight is how long a source has been seen, or not seen.
type Sight struct {
	Source Source
	Up     bool
	Since  time.Duration // duration up to now
	Reason string
}

// Evidence is why a verdict was given: the rule, what it looked at, the
// threshold, and what comes next.
type Evidence struct {
	Rule      string // short and stable: "work over stall timeout", "2 beats missed"
	Text      string // one sentence for the WHY column, without a final stop
	Inputs    []Input
	Threshold time.Duration // 0 none
	Next      []Forecast
	Sight     []Sight
	Held      string // why settling is held; empty not held
	Group     int    // how many went silent together; 0 none
}
