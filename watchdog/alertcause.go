package watchdog

import "time"

// AlertCause is what an alert is about.
type AlertCause uint8

// The causes. Those up to CauseOverdue follow from the verdict, and a session has
// one of them at most; the others stand beside it.
const (
	CauseNone AlertCause = iota
	CauseStalled
	CauseWedged
	CauseCrashLoop
	CauseLost
	CauseError
	CauseSilent
	CauseDisputed
	CauseForeign // a foreign terminal record
	CauseHuman
	CauseOverdue

	CauseGroup    // a correlated silence
	CauseCredits  // they run out soon
	CauseAction   // an action failed, or was not effective
	CauseReapRate // too many sessions reaped
	causeCount
)

type causeInfo struct {
	word      string // in keys and JSON
	title     string // that a sentence begins with
	attention Attention
}

// causes is the one table of them.
var causes = [causeCount]causeInfo{
	CauseNone:      {"none", "", AttentionNone},
	CauseStalled:   {"stalled", "STALLED", AttentionAct},
	CauseWedged:    {"wedged", "WEDGED", AttentionAct},
	CauseCrashLoop: {"crash-loop", "CRASH-LOOP", AttentionAct},
	CauseLost:      {"lost", "LOST", AttentionBadEnd},
	CauseError:     {"error", "ERROR", AttentionBadEnd},
	CauseSilent:    {"silent", "SILENT", AttentionSuspect},
	CauseDisputed:  {"disputed", "DISPUTED", AttentionSuspect},
	CauseForeign:   {"foreign-record", "FOREIGN RECORD", AttentionSuspect},
	CauseHuman:     {"human", "HUMAN", AttentionWait},
	CauseOverdue:   {"overdue", "OVERDUE", AttentionWait},
	CauseGroup:     {"group", "", AttentionAct},
	CauseCredits:   {"credits", "CREDITS", AttentionSuspect},
	CauseAction:    {"action", "", AttentionSuspect},
	CauseReapRate:  {"reap-rate", "", AttentionAct},
}

// String is the word of a cause, in keys and JSON.
func (c AlertCause) String() string {
	if c < causeCount {
		return causes[c].word
	}
	return "invalid"
}

// CauseOf reads the word of a cause.
func CauseOf(word string) (AlertCause, bool) {
	for i := range causes {
		if causes[i].word == word {
			return AlertCause(i), true
		}
	}
	return 0, false
}

// Standing is what became of an alert.
type Standing uint8

// The standings of an alert.
const (
	AlertOpen Standing = iota
	AlertAcked
	AlertSnoozed
	AlertMuted
)

var standingNames = [...]string{"open", "ack", "snoozed", "muted"}

// String is the word of a standing.
func (s Standing) String() string {
	if int(s) < len(standingNames) {
		return standingNames[s]
	}
	return "invalid"
}

// StandingOf reads the word of a standing.
func StandingOf(word string) (Standing, bool) {
	for i, name := range standingNames {
		if name == word {
			return Standing(i), true
		}
	}
	return 0, false
}

// Alert is one thing that somebody should look at: a copy for people.
type Alert struct {
	Key        AlertKey
	Cause      AlertCause
	Attention  Attention
	ID         ID            // "" of a group, or of no session
	Generation Generation    // 0 not known, or none
	Verdict    Verdict       // of the session now; of a group Silent
	N          int           // sessions that it is about
	Since      time.Duration // how long it has stood, as far as we saw
	Began      int64         // the same as wall clock, Unix nanoseconds
	Gone       bool          // its cause is over; it stays until it is acknowledged, or until it was stable for long enough
	Text       string        // one whole sentence, with its stop
	Evidence   uint64        // for the note that answers it
	Members    []ID          // of a group: at most 100
	HeldFor    time.Duration // of a group, from now: negative until they beat again or an operator releases it; 0 not held
	Shared     string        // of a group: what its members have in common
	Hosts      []HostCount   // of a group: how many on which host, most first; at most 100

	Standing Standing
	Note     *AlertNote // that answered it; nil: open
}

// HostCount is how many of a group's members run on one host.
type HostCount struct {
	Host string // "" unknown
	N    int
}

// AlertsView is the queue of alerts in a window.
type AlertsView struct {
	Total, Open int // alerts that stand; those that nobody has answered
	Acked       int
	Quiet       int         // snoozed and muted
	List        []Alert     // the first of them, as many as were asked for
	Beside      int         // of Open, those that no verdict tells of: credits, actions, the rate of reaping
	Mutes       []AlertNote // of patterns that hold now, the soonest to end first; at most 100
}
