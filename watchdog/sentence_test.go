package watchdog

import (
	"testing"
	"time"
)

// whyWidth is what the smallest full screen, 80 columns wide, has for WHY: what
// a sentence has to say must stand in its first so many characters.
const whyWidth = 30

func TestSentencesSayItInTheRoomThereIs(t *testing.T) {
	const now = time.Hour
	th := Thresholds{Policy: &Policy{MaxWait: 24 * time.Hour, SilentAfterMissed: 2}, Interval: 30 * time.Second, StallTimeout: 5 * time.Minute}
	ago := func(d time.Duration) time.Duration { return now - d }
	fits := map[string]struct {
		rule ruleID
		f    Facts
	}{
		"HUMAN past max 5s, no work 26s": {ruleWaitOver, Facts{Waiting: WaitHuman, WaitMax: 5 * time.Second, WorkKnown: true, LastWork: ago(26 * time.Second)}},
		"tool past max 5m, no work seen": {ruleWaitOver, Facts{Waiting: WaitTool, WaitMax: 5 * time.Minute}},
		"NATS beat 1m05 old, Redis 0s":   {ruleBusDisputed, Facts{LastBeat: now, LastBy: [sourceCount]time.Duration{SourceNATS: ago(65 * time.Second), SourceRedis: now}}},
		"Redis beat 19m old, NATS 1m05":  {ruleBusDisputed, Facts{LastBeat: ago(65 * time.Second), LastBy: [sourceCount]time.Duration{SourceNATS: ago(65 * time.Second), SourceRedis: ago(19 * time.Minute)}}},
		"2 beats missed, 1 of 400, HELD": {ruleBeatsMissed, Facts{LastBeat: ago(70 * time.Second), Group: 400, Held: "400 together"}},
		"blind 41s; last beat 1m02 ago":  {ruleBlind, Facts{LastBeat: ago(62 * time.Second)}},
		"exit status 1: schema mismatch": {ruleEndBeat, Facts{State: StateError, EndedAt: ago(time.Second), Message: "exit status 1: schema mismatch in orders.parquet"}},
		"publisher says error, 18s ago":  {ruleEndBeat, Facts{State: StateError, EndedAt: ago(18 * time.Second)}},
		"3 beats missed; settled by run": {ruleTerminal, Facts{Terminal: TerminalSeen{Outcome: OutcomeLost, SettledBy: "run@eu1", Reason: "3 beats missed"}}},
		"settled lost by reaper":         {ruleTerminal, Facts{Terminal: TerminalSeen{Outcome: OutcomeLost, SettledBy: "reaper"}}},
		"publisher says stalled":         {rulePublisherStalled, Facts{LastBeat: now}},
	}
	for want, c := range fits {
		d := decision{rule: c.rule, since: ago(41 * time.Second)}
		got := sentence(&d, &c.f, &th, &View{}, now)
		if got[:min(len(got), whyWidth)] != want {
			t.Errorf("%s reads %q, cut to %q", ruleNames[c.rule], got, got[:min(len(got), whyWidth)])
		}
	}
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 2002: "2,002", 1_234_567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := FormatCount(n); got != want {
			t.Errorf("%d is %q, not %q", n, got, want)
		}
	}
}
