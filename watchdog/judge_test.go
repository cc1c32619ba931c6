package watchdog

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
)

// The moment at which every case is judged, and a policy that divides well.
const (
	judgedAt = 10 * time.Hour
	ns       = time.Nanosecond
)

// scene is what Judge looks at. It begins as a healthy five-field session that
// both buses carry and see.
type scene struct {
	f     Facts
	th    Thresholds
	v     View
	blind map[SourceSet]*Blindness
}

func newScene() *scene {
	p := DefaultPolicy()
	s := &scene{
		f: Facts{
			State: StateRunning, StateText: "running", StateSince: judgedAt - time.Hour, EndedAt: never, WedgedAt: never, LoopLag: -1,
			Carried: SourceNATS.Set() | SourceRedis.Set(), LastBeat: judgedAt - 5*time.Second,
			LastBy:  [sourceCount]time.Duration{judgedAt - 5*time.Second, judgedAt - 5*time.Second, never, never},
			KeySeen: never, KeyGoneAt: never, Shown: true, LastChange: judgedAt - time.Minute, FirstSeen: judgedAt - time.Hour,
		},
		th: Thresholds{Policy: &p, StallTimeout: p.StallTimeout, StallFrom: fromPolicy,
			Interval: p.HeartbeatInterval, IntervalFrom: fromPolicy, Quiet: p.Quiet},
		v: View{Sighted: SourceNATS.Set() | SourceRedis.Set(),
			StoreAt: [sourceCount]time.Duration{never, never, never, never},
			Heard:   [sourceCount]time.Duration{judgedAt, judgedAt, judgedAt, judgedAt}},
		blind: map[SourceSet]*Blindness{},
	}
	s.v.Blindness = func(set SourceSet) *Blindness {
		if s.blind[set] == nil {
			s.blind[set] = &Blindness{}
		}
		return s.blind[set]
	}
	return s
}

func (s *scene) judge() (Verdict, Evidence) { return Judge(&s.f, &s.th, &s.v, judgedAt) }

// Every change of a scene that a case is made of.
type change func(*scene)

func beatAgo(d time.Duration) change {
	return func(s *scene) {
		s.f.LastBeat = judgedAt - d
		s.f.LastBy[SourceNATS], s.f.LastBy[SourceRedis] = s.f.LastBeat, s.f.LastBeat
	}
}
func work(d time.Duration) change {
	return func(s *scene) { s.f.WorkKnown, s.f.LastWork = true, judgedAt-d }
}
func changed(d time.Duration) change { return func(s *scene) { s.f.LastChange = judgedAt - d } }
func carried(by ...Source) change {
	return func(s *scene) {
		s.f.Carried = 0
		for _, src := range by {
			s.f.Carried |= src.Set()
		}
		for src := range s.f.LastBy {
			if !s.f.Carried.Has(Source(src)) {
				s.f.LastBy[src] = never
			}
		}
	}
}
func state(text string) change {
	return func(s *scene) { s.f.State, s.f.StateText = StateOf([]byte(text)), text }
}
func waits(w Wait, ago, most time.Duration) change {
	return func(s *scene) { s.f.Waiting, s.f.WaitSince, s.f.WaitMax = w, judgedAt-ago, most }
}
func terminal(o Outcome) change {
	return func(s *scene) {
		s.f.Terminal = TerminalSeen{Outcome: o, SettledBy: "sweeper", Reason: "3 beats missed", At: judgedAt - time.Minute}
	}
}
func foreign(s *scene) {
	s.f.Terminal = TerminalSeen{Outcome: OutcomeLost, Foreign: true, At: judgedAt - time.Minute}
}
func endBeat(text string) change {
	return func(s *scene) { state(text)(s); s.f.EndedAt = judgedAt - time.Minute }
}
func supervised(p SupervisorPhase) change {
	return func(s *scene) {
		s.f.Supervised = Supervised{Phase: p, Detail: "3 exits in 52s, code 1; held", At: judgedAt - time.Minute}
	}
}
func wedged(s *scene)            { s.f.WedgedAt = judgedAt - time.Minute }
func lag(d time.Duration) change { return func(s *scene) { s.f.LoopLag = d } }
func keyGone(polls, running int) change {
	return func(s *scene) {
		s.f.KeyHeld, s.f.KeyPolls, s.f.NATSRunning, s.f.KeyGoneAt = true, polls, running, judgedAt-4*time.Second
		s.f.KeySeen = judgedAt - 6*time.Second
	}
}
func silentBy(src Source, d time.Duration) change {
	return func(s *scene) { s.f.LastBy[src], s.f.RedisAhead = judgedAt-d, true }
}
func unsighted(for_ time.Duration, sources ...Source) change {
	return func(s *scene) {
		var gone SourceSet
		for _, src := range sources {
			gone |= src.Set()
		}
		s.v.Sighted &^= gone
		for set := SourceSet(1); set < 1<<sourceCount; set++ {
			if set&s.v.Sighted == 0 && set&gone != 0 {
				s.v.Blindness(set).Begin(judgedAt - for_)
			}
		}
	}
}
func wasBlind(from, to time.Duration) change { // ago
	return func(s *scene) {
		for set := SourceSet(1); set < 1<<sourceCount; set++ {
			s.v.Blindness(set).Add(judgedAt-from, judgedAt-to)
		}
	}
}
func score(n int) change                { return func(s *scene) { s.v.Score = n } }
func quiet(q QuietMode) change          { return func(s *scene) { s.th.Quiet = q } }
func stallAfter(d time.Duration) change { return func(s *scene) { s.th.StallTimeout = d } }
func interval(d time.Duration, from string) change {
	return func(s *scene) { s.th.Interval, s.th.IntervalFrom = d, from }
}
func storeChanged(d time.Duration) change {
	return func(s *scene) { s.v.StoreAt[SourceRedis] = judgedAt - d }
}
func heard(d time.Duration) change {
	return func(s *scene) {
		for i := range s.v.Heard {
			s.v.Heard[i] = judgedAt - d
		}
	}
}
func shownNothing(s *scene) { s.f.Shown = false }

// TestJudge goes through every row of the table and its boundaries.
func TestJudge(t *testing.T) {
	const m = time.Minute
	for name, c := range map[string]struct {
		want Verdict
		rule string
		are  []change
	}{
		"healthy":                 {Running, "nothing speaks against it", nil},
		"free text":               {Running, "nothing speaks against it", []change{state("thinking"), changed(time.Hour)}},
		"record completed":        {Completed, "terminal record", []change{terminal(OutcomeCompleted)}},
		"record error":            {Failed, "terminal record", []change{terminal(OutcomeError)}},
		"record stopped":          {Stopped, "terminal record", []change{terminal(OutcomeStopped)}},
		"record lost":             {Lost, "terminal record", []change{terminal(OutcomeLost)}},
		"record expired":          {Expired, "terminal record", []change{terminal(OutcomeExpired)}},
		"record over end beat":    {Stopped, "terminal record", []change{terminal(OutcomeStopped), endBeat("completed")}},
		"end beat completed":      {Completed, "publisher ended", []change{endBeat("completed")}},
		"end beat error":          {Failed, "publisher ended", []change{endBeat("error")}},
		"supervisor crash loop":   {CrashLoop, "supervisor", []change{supervised(SupervisorCrashLoop)}},
		"supervisor restarts":     {Restarting, "supervisor", []change{supervised(SupervisorRestarting)}},
		"supervisor runs":         {Running, "nothing speaks against it", []change{supervised(SupervisorRunning)}},
		"all sources blind":       {Unknown, "every source that carried it is blind", []change{unsighted(41*time.Second, SourceNATS, SourceRedis)}},
		"one of two blind":        {Running, "nothing speaks against it", []change{unsighted(m, SourceNATS)}},
		"its only one blind":      {Unknown, "every source that carried it is blind", []change{carried(SourceNATS), unsighted(m, SourceNATS)}},
		"another one blind":       {Running, "nothing speaks against it", []change{carried(SourceNATS), unsighted(m, SourceRedis)}},
		"loop watchdog":           {Wedge, "loop watchdog", []change{wedged}},
		"loop lag at the limit":   {Running, "nothing speaks against it", []change{lag(15 * time.Second)}},
		"loop lag over it":        {Wedge, "loop lag over limit", []change{lag(15*time.Second + ns)}},
		"publisher stalled":       {Stalled, "publisher says stalled", []change{state("stalled")}},
		"stalled and then quiet":  {Stalled, "publisher says stalled", []change{state("stalled"), beatAgo(time.Hour)}},
		"just not silent":         {Running, "nothing speaks against it", []change{beatAgo(72*time.Second - ns)}},
		"silent":                  {Silent, "2 beats missed", []change{beatAgo(72 * time.Second)}},
		"silent for long":         {Silent, "120 beats missed", []change{beatAgo(time.Hour)}},
		"declared interval":       {Silent, "2 beats missed", []change{interval(10*time.Second, fromDeclared), beatAgo(24 * time.Second)}},
		"declared, not yet":       {Running, "nothing speaks against it", []change{interval(10*time.Second, fromDeclared), beatAgo(24*time.Second - ns)}},
		"three missed by policy":  {Running, "nothing speaks against it", []change{func(s *scene) { s.th.SilentAfterMissed = 3 }, beatAgo(108*time.Second - ns)}},
		"three missed, silent":    {Silent, "3 beats missed", []change{func(s *scene) { s.th.SilentAfterMissed = 3 }, beatAgo(108 * time.Second)}},
		"key gone, Redis alone":   {Silent, "key gone, no other source", []change{carried(SourceRedis), keyGone(2, 0)}},
		"key gone once":           {Running, "nothing speaks against it", []change{carried(SourceRedis), keyGone(1, 0)}},
		"key gone, store new":     {Running, "nothing speaks against it", []change{carried(SourceRedis), keyGone(2, 0), storeChanged(30*time.Second - ns)}},
		"key gone, store settled": {Silent, "key gone, no other source", []change{carried(SourceRedis), keyGone(2, 0), storeChanged(30 * time.Second)}},

		"waits":                   {Waiting, "declared wait", []change{waits(WaitTool, time.Hour, 2*time.Hour)}},
		"just inside its maximum": {Waiting, "declared wait", []change{waits(WaitTool, time.Hour, time.Hour+ns)}},
		"overdue":                 {Waiting, "declared wait overdue", []change{waits(WaitTool, time.Hour, time.Hour)}},
		"overdue to the last":     {Waiting, "declared wait overdue", []change{waits(WaitTool, time.Hour+5*m-ns, time.Hour)}},
		"wait over":               {Stalled, "wait over, no work since", []change{waits(WaitTool, time.Hour+5*m, time.Hour)}},
		"wait capped":             {Waiting, "declared wait overdue", []change{func(s *scene) { s.th.MaxWait = time.Hour }, waits(WaitHuman, time.Hour, 1000*time.Hour)}},
		"wait without maximum":    {Waiting, "declared wait", []change{waits(WaitOther, 9*time.Hour, 0)}},
		"silent while waiting":    {Silent, "2 beats missed", []change{waits(WaitHuman, time.Hour, 2*time.Hour), beatAgo(72 * time.Second)}},
		"no work while waiting":   {Waiting, "declared wait", []change{waits(WaitHuman, time.Hour, 2*time.Hour), work(time.Hour)}},

		"work at the limit":       {Stalled, "work over stall timeout", []change{work(5 * m), beatAgo(0)}},
		"work just not":           {Running, "nothing speaks against it", []change{work(5*m - ns), beatAgo(0)}},
		"work, between beats":     {Stalled, "work over stall timeout", []change{work(5 * m), beatAgo(29 * time.Second)}},
		"work just not, told old": {Running, "nothing speaks against it", []change{work(5*m - ns), beatAgo(29 * time.Second)}},
		"work, told when fine":    {Running, "nothing speaks against it", []change{stallAfter(m), work(m + 36*time.Second - 2*ns), beatAgo(36*time.Second - ns)}},
		"work, and a beat due":    {Stalled, "work over stall timeout", []change{stallAfter(m), work(m + 36*time.Second - ns), beatAgo(36 * time.Second)}},
		"work, own timeout":       {Running, "nothing speaks against it", []change{work(19 * m), stallAfter(20 * m)}},
		"work, free text":         {Stalled, "work over stall timeout", []change{work(5 * m), state("thinking"), beatAgo(0)}},
		"work known, no change":   {Running, "nothing speaks against it", []change{work(m), changed(time.Hour)}},
		"key disputed":            {Disputed, "bus says running, key gone", []change{keyGone(2, 2)}},
		"key gone, one beat":      {Running, "nothing speaks against it", []change{keyGone(2, 1)}},
		"key gone in one poll":    {Running, "nothing speaks against it", []change{keyGone(1, 2)}},
		"never had a key":         {Running, "nothing speaks against it", []change{keyGone(2, 2), func(s *scene) { s.f.KeyHeld = false }}},
		"NATS alone":              {Running, "nothing speaks against it", []change{keyGone(2, 2), carried(SourceNATS)}},
		"disputed, store new":     {Running, "nothing speaks against it", []change{keyGone(2, 2), storeChanged(30*time.Second - ns)}},
		"disputed, store settled": {Disputed, "bus says running, key gone", []change{keyGone(2, 2), storeChanged(30 * time.Second)}},
		"disputed, Redis blind":   {Running, "nothing speaks against it", []change{keyGone(2, 2), unsighted(2*time.Second, SourceRedis)}},
		"NATS fell silent":        {Disputed, "fresh on one source, silent on another", []change{silentBy(SourceNATS, 72*time.Second)}},
		"NATS silent, old copy":   {Running, "nothing speaks against it", []change{silentBy(SourceNATS, 72*time.Second), func(s *scene) { s.f.RedisAhead = false }}},
		"NATS just not":           {Running, "nothing speaks against it", []change{silentBy(SourceNATS, 72*time.Second-ns)}},
		"NATS silent, but blind":  {Running, "nothing speaks against it", []change{silentBy(SourceNATS, 72*time.Second), unsighted(m, SourceNATS)}},
		"Redis fell silent":       {Disputed, "fresh on one source, silent on another", []change{silentBy(SourceRedis, 72*time.Second)}},
		"Redis, the same bytes":   {Running, "nothing speaks against it", []change{silentBy(SourceRedis, time.Hour), func(s *scene) { s.f.SameBytes = true }}},
		"foreign record":          {Disputed, "foreign terminal record", []change{foreign}},

		"no change":               {Quiet, "no visible change", []change{changed(5 * m), beatAgo(0)}},
		"just changed":            {Running, "nothing speaks against it", []change{changed(5*m - ns), beatAgo(0)}},
		"change, a beat due":      {Quiet, "no visible change", []change{changed(5*m + 36*time.Second - ns), beatAgo(36 * time.Second)}},
		"never changed":           {Quiet, "no visible change", []change{changed(0), func(s *scene) { s.f.LastChange, s.f.FirstSeen = never, judgedAt-5*m }, beatAgo(0)}},
		"shows nothing at all":    {Running, "nothing speaks against it", []change{changed(time.Hour), shownNothing}},
		"quiet is ignored":        {Running, "nothing speaks against it", []change{changed(time.Hour), quiet(QuietIgnore)}},
		"quiet counts as stalled": {Stalled, "no visible change, policy says stalled", []change{changed(5 * m), quiet(QuietStalled), beatAgo(0)}},

		"starved, not yet":        {Running, "nothing speaks against it", []change{score(1), beatAgo(144*time.Second - ns)}},
		"starved, silent":         {Silent, "4 beats missed", []change{score(1), beatAgo(144 * time.Second)}},
		"starved to the most":     {Running, "nothing speaks against it", []change{score(MaxHealthScore), beatAgo(8*72*time.Second - ns)}},
		"starved, stalled":        {Running, "nothing speaks against it", []change{score(1), work(10*m - ns)}},
		"not proven yet":          {Running, "nothing speaks against it", []change{beatAgo(80 * time.Second), heard(8*time.Second + ns)}},
		"proven":                  {Silent, "2 beats missed", []change{beatAgo(80 * time.Second), heard(8 * time.Second)}},
		"after blindness":         {Running, "nothing speaks against it", []change{beatAgo(72*time.Second + 20*time.Second + 30*time.Second - ns), wasBlind(m, 40*time.Second)}},
		"grace of blindness over": {Silent, "4 beats missed", []change{beatAgo(72*time.Second + 20*time.Second + 30*time.Second), wasBlind(m, 40*time.Second)}},
		"blind before its beat":   {Silent, "2 beats missed", []change{beatAgo(72 * time.Second), wasBlind(3*m, 2*m)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			for _, is := range c.are {
				is(s)
			}
			v, e := s.judge()
			if v != c.want || e.Rule != c.rule {
				t.Errorf("%v by %q (%s), want %v by %q", v, e.Rule, e.Text, c.want, c.rule)
			}
			checkEvidence(t, v, e)
		})
	}
}

// rows are facts that each satisfy one row of the table, top row first.
var rows = []struct {
	name string
	rule ruleID
	are  change
}{
	{"supervisor", ruleSupervisor, supervised(SupervisorCrashLoop)},
	{"terminal record", ruleTerminal, terminal(OutcomeStopped)},
	{"end beat", ruleEndBeat, func(s *scene) { s.f.EndedAt = judgedAt - time.Minute }},
	{"blind", ruleBlind, unsighted(2*time.Second, SourceNATS, SourceRedis)},
	{"loop watchdog", ruleLoopWatchdog, wedged},
	{"loop lag", ruleLoopLag, lag(time.Minute)},
	{"publisher stalled", rulePublisherStalled, state("stalled")},
	{"silent", ruleBeatsMissed, beatAgo(2 * time.Minute)},
	{"overdue", ruleOverdue, waits(WaitTool, time.Hour, time.Hour)},
	{"no work", ruleWorkStalled, work(time.Hour)},
	{"key disputed", ruleKeyDisputed, keyGone(2, 2)},
	{"bus disputed", ruleBusDisputed, silentBy(SourceRedis, time.Hour)},
	{"quiet", ruleQuiet, changed(time.Hour)},
}

// TestTheUpperRowWins sets up every two rows at once.
func TestTheUpperRowWins(t *testing.T) {
	for i, upper := range rows {
		for _, lower := range rows[i:] {
			s := newScene()
			lower.are(s)
			upper.are(s)
			v, e := s.judge()
			want := ruleNames[upper.rule]
			if upper.rule == ruleBeatsMissed {
				want = "4 beats missed"
			}
			if e.Rule != want {
				t.Errorf("%s and %s: %v by %q (%s)", upper.name, lower.name, v, e.Rule, e.Text)
			}
			checkEvidence(t, v, e)
		}
	}
}

// checkEvidence holds what is said against what any evidence must be.
func checkEvidence(t *testing.T, v Verdict, e Evidence) {
	t.Helper()
	if v != Running && e.Text == "" {
		t.Errorf("%v by %q is not explained", v, e.Rule)
	}
	if len(e.Text) > 80 || strings.HasSuffix(e.Text, ".") || strings.ContainsFunc(e.Text, unicode.IsControl) {
		t.Errorf("text %q", e.Text)
	}
	if len(e.Inputs) == 0 || len(e.Next) == 0 && !v.Ended() {
		t.Errorf("%v: %d inputs, next %v", v, len(e.Inputs), e.Next)
	}
	for _, in := range e.Inputs {
		if in.Name == "" || in.Source == "" || in.Age < -1 {
			t.Errorf("input %+v", in)
		}
	}
	byTime := true
	for i, next := range e.Next {
		if next.If == "" || next.Verdict == v && v != Silent {
			t.Errorf("%v: next %+v", v, next)
		}
		if next.In >= 0 && (!byTime || i > 0 && next.In < e.Next[i-1].In) {
			t.Errorf("not in the order of time: %v", e.Next)
		}
		byTime = next.In >= 0
	}
}

// TestForecastComesTrue lets the time pass that the first forecast names, and
// judges again.
func TestForecastComesTrue(t *testing.T) {
	for name, are := range map[string][]change{
		"healthy":        nil,
		"work known":     {work(time.Minute)},
		"fast":           {work(4*time.Minute + 50*time.Second)},
		"about to quiet": {changed(5*time.Minute - time.Second)},
		"quiet":          {changed(6 * time.Minute)},
		"waits":          {waits(WaitTool, time.Minute, time.Hour)},
		"starved":        {score(3)},
		"was blind":      {wasBlind(4*time.Second, time.Second)},
		"no work":        {work(time.Hour)},
	} {
		s := newScene()
		for _, is := range are {
			is(s)
		}
		_, e := s.judge()
		first := e.Next[0]
		then := judgedAt + first.In
		s.v.Heard = [sourceCount]time.Duration{then, then, then, then}
		if v, _ := Judge(&s.f, &s.th, &s.v, then); v != first.Verdict {
			t.Errorf("%s: %v after %v, forecast %v", name, v, first.In, e.Next)
		}
		if before, _ := s.judge(); true {
			if v, _ := Judge(&s.f, &s.th, &s.v, then-ns); v != before {
				t.Errorf("%s: %v already before", name, v)
			}
		}
	}
}

// TestSilenceSaysWhenAndByWhomItIsSettled: or that nobody does, or why not.
func TestSilenceSaysWhenAndByWhomItIsSettled(t *testing.T) {
	silent := []change{interval(30*time.Second, fromDeclared), beatAgo(84 * time.Second)}
	for _, c := range []struct {
		name, text, next string
		are              change
	}{
		{"swept", "2 beats missed; lost in 6s", "settled by serve@x", func(s *scene) { s.v.Sweeper, s.v.LedgerReady, s.f.Generation = "serve@x", true, 1 }},
		{"nobody", "2 beats missed; nobody here sweeps", "nobody here sweeps", func(*scene) {}},
		{"unknown cadence", "2 beats missed; cadence unknown, never lost by itself", "never lost by itself", interval(30*time.Second, fromPolicy)},
		{"held", "2 beats missed, 1 of 400, HELD", "held: why", func(s *scene) { s.f.Group, s.f.Held = 400, "why" }},
		{"held with those that are settled", "2 beats missed, 1 of 400; cadence unknown, never lost by itself", "never lost by itself", func(s *scene) {
			interval(30*time.Second, fromPolicy)(s)
			s.f.Group, s.f.Held = 400, "why"
		}},
		{"held, by Redis alone", "2 beats missed, 1 of 400; seen by Redis alone, never lost by itself", "never lost by itself", func(s *scene) {
			s.f.Carried, s.f.LeaseGone = SourceRedis.Set(), never
			s.f.Group, s.f.Held = 400, "why"
		}},
	} {
		s := newScene()
		for _, is := range append(silent[:2:2], c.are) {
			is(s)
		}
		_, e := s.judge()
		if e.Text != c.text || !strings.Contains(fmt.Sprint(e.Next), c.next) {
			t.Errorf("%s: %q, next %v", c.name, e.Text, e.Next)
		}
	}
}

// TestOverridesAndWhatThePublisherSays: override over declared over learned over
// policy, and the first override that gives a value wins.
func TestOverridesAndWhatThePublisherSays(t *testing.T) {
	p := Policy{Overrides: []Override{
		{Match: "batch-*", Quiet: QuietNotice},
		{Match: "*-slow", StallTimeout: 20 * time.Minute, HeartbeatInterval: time.Minute},
		{Match: "batch-*", StallTimeout: time.Minute, Quiet: QuietIgnore},
		{Match: "loud-*", Quiet: QuietStalled},
	}}
	for _, c := range []struct {
		id, stall, interval string
		quiet               QuietMode
		declares            bool
	}{
		{"other", "5m0s policy", "30s policy", QuietNotice, false},
		{"other2", "7m0s declared", "3s declared", QuietNotice, true},
		{"batch-1", "1m0s override", "3s declared", QuietNotice, true},
		{"batch-slow", "20m0s override", "1m0s override", QuietNotice, true},
		{"x-slow", "20m0s override", "1m0s override", QuietNotice, false},
		{"loud-1", "5m0s policy", "30s policy", QuietStalled, false},
	} {
		r := newRig(t, p, SourceNATS)
		r.send(beat(c.id, 1, func(b *Beat) {
			if c.declares {
				b.Interval, b.StallTimeout = 3*time.Second, 7*time.Minute
			}
		}))
		n, _ := r.tr.store.find([]byte(c.id))
		rec := r.tr.store.at(n)
		th := r.tr.thresholdsOf(rec, r.tr.store.sideOf(rec))
		stall, every := fmt.Sprint(th.StallTimeout, " ", th.StallFrom), fmt.Sprint(th.Interval, " ", th.IntervalFrom)
		if stall != c.stall || every != c.interval || th.Quiet != c.quiet {
			t.Errorf("%s: stall %s, interval %s, quiet %s", c.id, stall, every, th.Quiet)
		}
	}
}

// Who works between its beats, well inside its limits, is never accused, be the
// beats as rare as they like: what happened since the last one is not known before
// the next one is due.
func TestWhoWorksBetweenItsBeatsIsNotAccused(t *testing.T) {
	for _, c := range []struct {
		every, stall time.Duration
		work         time.Duration // between two pieces of it
		told         bool          // by idle_secs; else by a visible change
	}{
		{30 * time.Second, 8 * time.Second, 2 * time.Second, true},
		{30 * time.Second, 8 * time.Second, 2 * time.Second, false},
		{30 * time.Second, 35 * time.Second, 10 * time.Second, true},
		{30 * time.Second, 119 * time.Second, 110 * time.Second, true},
		{30 * time.Second, 300 * time.Second, 260 * time.Second, true},
		{30 * time.Second, 300 * time.Second, 260 * time.Second, false},
	} {
		r := newRig(t, Policy{}, SourceNATS)
		begun := r.at.Mono
		send := func() {
			up := (r.at.Mono - begun).Truncate(time.Second)
			if up%c.every != 0 || up == 0 {
				return
			}
			r.send(beat("a", int64(up/time.Second), func(b *Beat) {
				b.Interval, b.StallTimeout = c.every, c.stall
				if c.told {
					b.Idle = up % c.work
				}
				b.Task = fmt.Appendf(nil, "step %d", up/c.work)
			}))
		}
		for range 1500 {
			r.run(time.Second, send)
			if r.at.Mono-begun > c.every {
				if d := r.detail("a"); d.Verdict != Running {
					t.Errorf("beats every %v, works every %v, limit %v, told %v: %v", c.every, c.work, c.stall, c.told, d.Why)
					break
				}
			}
		}
	}
}
