package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// trialRig tells a trial what an engine would be told.
type trialRig struct {
	t     *testing.T
	trial *Trial
	at    Instant
	blind bool
}

func newTrialRig(t *testing.T, now Policy, words string) *trialRig {
	t.Helper()
	would, err := ParseTrial(now, words)
	if err != nil {
		t.Fatal(err)
	}
	start := Instant{Mono: 5 * time.Second, Boot: 90 * time.Second, Wall: 1_800_000_000e9}
	r := &trialRig{t: t, trial: NewTrial(now.WithDefaults(), would, start), at: start}
	r.trial.Apply(SourceAdded{Source: SourceNATS, At: start.Mono})
	return r
}

// run lets time pass; every is called each second with the seconds since the
// start.
func (r *trialRig) run(d time.Duration, every func(sec int)) {
	for end := r.at.Mono + d; r.at.Mono < end; {
		r.at.Mono += tickLength
		r.at.Boot += tickLength
		r.at.Wall += int64(tickLength)
		if !r.blind {
			r.trial.Apply(RoundTrip{Source: SourceNATS, Sent: r.at.Mono, At: r.at.Mono})
		}
		if every != nil && r.at.Mono%time.Second == 0 {
			every(int((r.at.Mono - 5*time.Second) / time.Second))
		}
		r.trial.Apply(Ticked{Now: r.at})
	}
}

func (r *trialRig) beat(id string, uptime int, change ...func(*Beat)) {
	b := beat(id, int64(uptime), append([]func(*Beat){func(b *Beat) { b.Interval, b.Idle = 30*time.Second, time.Second }}, change...)...)
	b.Received = r.at.Mono
	r.trial.ApplyBeats([]Beat{b})
}

// said sums up a result: "stalled a now recovered 1m00, would not".
func said(res *TrialResult) []string {
	var out []string
	one := func(r *TrialRaise) string {
		if r == nil {
			return "not"
		}
		return r.End.String() + " " + FormatAge(r.Lasted())
	}
	for i := range res.Raised {
		k := &res.Raised[i]
		out = append(out, fmt.Sprintf("%s %s#%d: now %s, would %s", k.Verdict, k.ID, k.Generation, one(k.Now), one(k.Would)))
	}
	return out
}

func TestTrialOfALongerStallTimeout(t *testing.T) {
	r := newTrialRig(t, Policy{}, "stall_timeout=10m")
	r.run(30*time.Minute, func(sec int) {
		if sec%30 != 0 {
			return
		}
		idle := func(from, to int) func(*Beat) { // works but for one pause
			return func(b *Beat) {
				if b.Idle = time.Second; sec >= from && sec < to {
					b.Idle = time.Duration(sec-from) * time.Second
				}
			}
		}
		r.beat("short", sec, idle(300, 300+7*60))
		r.beat("long", sec, idle(300, 300+15*60))
		r.beat("ever", sec, idle(900, 1<<20))
	})
	res := r.trial.Result()
	want := []string{
		"stalled long#1: now recovered 10m, would recovered 5m00",
		"stalled short#1: now recovered 2m00, would not",
		"stalled ever#1: now open 10m, would open 5m00",
	}
	if diff := cmp.Diff(want, said(&res)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantRows := []TrialVerdict{{Verdict: Stalled, Now: TrialCount{3, 2}, Would: TrialCount{2, 1}, Gone: 1}}
	if diff := cmp.Diff(wantRows, res.Verdicts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"stall_timeout 5m > 10m"}, res.Changes); diff != "" {
		t.Error(diff)
	}
	if res.Sessions != 3 || res.To.Mono-res.From.Mono != 30*time.Minute {
		t.Errorf("%d sessions in %v", res.Sessions, res.To.Mono-res.From.Mono)
	}
}

// TestTrialOfAnImpatientLoss: who is called lost and beats again was not lost.
func TestTrialOfAnImpatientLoss(t *testing.T) {
	r := newTrialRig(t, Policy{LostAfter: 10 * time.Minute}, "lost_after=90s")
	r.run(30*time.Minute, func(sec int) {
		if sec%30 != 0 {
			return
		}
		r.beat("busy", sec, func(b *Beat) { b.BootID = []byte("b0") })
		if sec < 300 || sec > 540 {
			r.beat("napping", sec, func(b *Beat) { b.BootID = []byte("b1") })
		}
		if sec < 600 {
			r.beat("gone", sec, func(b *Beat) { b.BootID = []byte("b2") })
		}
		if sec > 660 {
			r.beat("gone", sec-660, func(b *Beat) { b.BootID = []byte("b3") }) // somebody started it again
		}
	})
	res := r.trial.Result()
	want := []string{
		"silent napping#1: now recovered 3m48, would went on 18s",
		"lost napping#1: now not, would recovered 3m30",
		"silent gone#1: now acted on 48s, would went on 18s",
		"lost gone#1: now not, would acted on 30s",
	}
	if diff := cmp.Diff(want, said(&res)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTrialTakesNoEndOfThePolicyForGiven: an end that a sweeper wrote under the
// policy in force is judged anew; one that somebody decided stands.
func TestTrialTakesNoEndOfThePolicyForGiven(t *testing.T) {
	r := newTrialRig(t, Policy{}, "lost_after=10m")
	end := func(id string, by SettledBy, outcome Outcome) {
		r.trial.Apply(TerminalSeen{ID: ID(id), Generation: 3, Outcome: outcome, SettledBy: by, At: r.at.Mono})
	}
	for _, id := range []string{"swept", "stopped"} {
		r.trial.Apply(HeadSeen{Head: Head{ID: ID(id), Generation: 3, Executions: []Execution{{Generation: 3, BootID: "b"}}}, At: r.at.Mono})
	}
	r.trial.Apply(FollowedUp{At: r.at.Mono})
	r.run(10*time.Minute, func(sec int) {
		switch {
		case sec == 401:
			end("swept", BySweeper, OutcomeLost)
			end("stopped", ByOperator, OutcomeStopped)
		case sec%30 == 0 && sec < 300:
			r.beat("swept", sec, func(b *Beat) { b.BootID = []byte("b") })
			r.beat("stopped", sec, func(b *Beat) { b.BootID = []byte("b") })
		case sec%30 == 0 && sec > 540:
			r.beat("swept", sec, func(b *Beat) { b.BootID = []byte("b") })
		}
	})
	res := r.trial.Result()
	want := []string{
		"silent stopped#3: now went on 18s, would acted on 59s",
		"silent swept#3: now went on 18s, would recovered 3m48",
		"lost stopped#3: now open 4m00, would not",
		"lost swept#3: now recovered 3m30, would not",
	}
	if diff := cmp.Diff(want, said(&res)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTrialOfTheSamePolicyFindsNothing: whatever comes in, blindness included.
func TestTrialOfTheSamePolicyFindsNothing(t *testing.T) {
	r := newTrialRig(t, Policy{}, "stall_timeout=5m")
	all := func(sec int) {
		if sec%30 != 0 {
			return
		}
		for i := range 30 {
			if i%7 == 0 && sec > 400 && sec < 900 || i%5 == 0 && sec > 1500 {
				continue
			}
			r.beat(fmt.Sprint("s", i), sec, func(b *Beat) { b.Idle = time.Duration(sec%(60*(i+1))) * time.Second })
		}
	}
	r.run(15*time.Minute, all)
	r.blind = true
	r.run(2*time.Minute, nil)
	r.blind = false
	r.run(20*time.Minute, all)
	res := r.trial.Result()
	if res.Differences() != 0 || len(res.Raised) == 0 || len(res.Changes) != 0 {
		t.Errorf("%d differences, changes %v:\n%s", res.Differences(), res.Changes, strings.Join(said(&res), "\n"))
	}
	if total := res.Total(); total.Now != total.Would {
		t.Errorf("the same policy counts otherwise: %+v", total)
	}
}

// TestTrialSaysWhereThePolicyDoesNotDecide: a threshold that sessions declare is
// theirs, until a pattern is named.
func TestTrialSaysWhereThePolicyDoesNotDecide(t *testing.T) {
	play := func(words string) TrialResult {
		r := newTrialRig(t, Policy{}, words)
		r.run(20*time.Minute, func(sec int) {
			if sec%30 == 0 {
				r.beat("a", sec, func(b *Beat) { b.Idle, b.StallTimeout = time.Duration(sec)*time.Second, 5*time.Minute })
			}
		})
		return r.trial.Result()
	}
	res := play("stall_timeout=10m")
	if diff := cmp.Diff([]TrialOwn{{Name: "stall_timeout", From: "declared", Sessions: 1}}, res.Own); diff != "" {
		t.Error(diff)
	}
	if res.Differences() != 0 {
		t.Errorf("the policy decided for a session that declares its own: %v", said(&res))
	}
	res = play("a*:stall_timeout=30m")
	if diff := cmp.Diff([]string{"stalled a#1: now open 15m, would not"}, said(&res)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a*: stall_timeout 30m"}, res.Changes); diff != "" {
		t.Error(diff)
	}
}

// TestTrialCountsGroupsOnce: many that fall silent together are one alert.
func TestTrialCountsGroupsOnce(t *testing.T) {
	r := newTrialRig(t, Policy{}, "silent_after_missed=6")
	r.run(15*time.Minute, func(sec int) {
		for i := range 40 {
			if sec%30 == 0 && (i >= 10 || sec < 300 || sec > 420) {
				r.beat(fmt.Sprint("s", i), sec)
			}
		}
	})
	res := r.trial.Result()
	if res.GroupsNow != 1 || res.GroupsWould != 0 {
		t.Errorf("%d groups now, %d would; want 1 and 0", res.GroupsNow, res.GroupsWould)
	}
	if total := res.Total(); total.Gone != 10 || total.Now.Recovered != 10 {
		t.Errorf("%+v", total)
	}
}

func TestParseTrial(t *testing.T) {
	p, err := ParseTrial(Policy{Overrides: []Override{{Match: "x"}}}, "stall_timeout=10m, policy.lost_after=3m quiet=stalled user:42:*:stall_timeout=1h silent_after_missed=3 brake_share=0.5")
	if err != nil {
		t.Fatal(err)
	}
	if p.StallTimeout != 10*time.Minute || p.LostAfter != 3*time.Minute || p.Quiet != QuietStalled || p.SilentAfterMissed != 3 || p.BrakeShare != 0.5 {
		t.Errorf("%+v", p)
	}
	if diff := cmp.Diff([]Override{{Match: "user:42:*", StallTimeout: time.Hour}, {Match: "x"}}, p.Overrides); diff != "" {
		t.Error(diff)
	}
	for words, want := range map[string]string{
		"":                          "no threshold is named",
		"stall_timeout":             "has no value",
		"stall_timeout=":            "has no value",
		"stall_timeout=10":          "has no unit; write 10s",
		"stall_timeout=-1s":         "is not above 0",
		"stall_timeout=x":           "not a duration",
		"stall_timeout=20000h":      "over a year",
		"stall=10m":                 `"stall" is no threshold that can be tried; there are stall_timeout, quiet`,
		"sweep_batch=5":             "is no threshold that can be tried",
		"quiet=loud":                "not one of notice, stalled, ignore",
		"lost_after_missed=0":       "not a whole number of at least 1",
		"brake_share=2":             "not a share above 0",
		"batch-*:lost_after=3m":     "holds for all sessions",
		":stall_timeout=3m":         "no pattern before its colon",
		"[:stall_timeout=3m":        "is not a pattern",
		"heartbeat_interval=2m":     "must exceed",
		"quiet=loud stall_timeout=": "has no value",
	} {
		_, err := ParseTrial(DefaultPolicy(), words)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
	}
}

func FuzzParseTrial(f *testing.F) {
	for _, words := range []string{"stall_timeout=10m", "a:b:quiet=stalled", "=:=", "brake_share=NaN", "[:quiet=ignore"} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, words string) {
		p, err := ParseTrial(DefaultPolicy(), words)
		if err == nil && len(p.Validate()) > 0 {
			t.Errorf("%q gives a policy that is not valid: %v", words, p.Validate())
		}
	})
}
