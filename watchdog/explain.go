package watchdog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// FormatAge puts a duration in the four cells that the screen uses for ages:
// 59s, 4m58, 14m, 6h02, 3d04.
func FormatAge(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return strconv.FormatInt(s, 10) + "s"
	case s < 600:
		return fmt.Sprintf("%dm%02d", s/60, s%60)
	case s < 3600:
		return strconv.FormatInt(s/60, 10) + "m"
	case s < 10*3600:
		return fmt.Sprintf("%dh%02d", s/3600, s/60%60)
	case s < 24*3600:
		return strconv.FormatInt(s/3600, 10) + "h"
	case s < 10*24*3600:
		return fmt.Sprintf("%dd%02d", s/86400, s/3600%24)
	case s < 10000*86400:
		return strconv.FormatInt(s/86400, 10) + "d"
	}
	return ">27y"
}

// FormatCount writes a number with commas, as the screen writes all that is counted:
// 2,002. Names that are numbers (a generation, a pid, a port) have none.
func FormatCount[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return sign + s
}

// FormatLimit is FormatAge for thresholds: whole minutes without their seconds.
func FormatLimit(d time.Duration) string {
	if d >= time.Minute && d < time.Hour && d%time.Minute == 0 {
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	if d >= time.Hour && d%time.Hour == 0 && d < 48*time.Hour {
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	}
	if d < time.Minute && d%time.Second != 0 {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return FormatAge(d)
}

// explain puts a decision into words.
func explain(d *decision, f *Facts, th *Thresholds, v *View, now time.Duration) Evidence {
	e := Evidence{
		Rule: ruleNames[d.rule], Threshold: d.threshold, Group: f.Group, Held: f.Held,
	}
	e.Text = sentence(d, f, th, v, now)
	if d.rule == ruleBeatsMissed {
		e.Rule = FormatCount(missedBeats(now-f.LastBeat, th.Interval)) + " beats missed"
	}
	e.Inputs = inputs(d, f, th, now)
	e.Next = forecasts(d, f, th, v, now)
	return e
}

// sentence is the WHY column: what was found, and the limit it is held against.
func sentence(d *decision, f *Facts, th *Thresholds, v *View, now time.Duration) string {
	age := func(t time.Duration) string { return FormatAge(now - t) }
	switch d.rule {
	case ruleTerminal:
		return endText(&f.Terminal) + maybeNew(f)
	case ruleEndBeat:
		return endBeatText(f, age(f.EndedAt)) + maybeNew(f)
	case ruleSupervisor:
		return f.Supervised.Detail
	case ruleBlind:
		if f.BeatKind == AgeUnknown {
			return "blind " + age(d.since) + "; age of its last beat unknown"
		}
		return "blind " + age(d.since) + "; last beat " + FormatAge(now-f.LastBeat+f.Missing) + " ago"
	case ruleLoopWatchdog:
		return "its loop watchdog says wedged"
	case ruleLoopLag:
		return "loop " + FormatAge(f.LoopLag) + " late, limit " + FormatLimit(th.LoopLagLimit)
	case rulePublisherStalled:
		if now-f.LastBeat > silentAfter(th.Interval, th.SilentAfterMissed) {
			return "publisher says stalled; no beat since, for " + age(f.LastBeat)
		}
		return "publisher says stalled"
	case ruleBeatsMissed:
		return silentText(f, th, v, now)
	case ruleKeyGone:
		return "Redis key gone: ended, stalled or evicted; no other source"
	case ruleWaiting:
		return waitWord(f.Waiting) + ", max " + FormatLimit(d.threshold)
	case ruleOverdue:
		return "OVERDUE: " + waitWord(f.Waiting) + " past its max " + FormatLimit(d.threshold)
	case ruleWaitOver:
		return waitOverText(f, th, now)
	case ruleWorkStalled:
		return "no work " + age(f.LastWork) + ", limit " + FormatLimit(th.StallTimeout)
	case ruleForeignTerminal:
		return "foreign terminal record: blocks settling"
	case ruleKeyDisputed:
		return "NATS running, Redis key gone"
	case ruleBusDisputed:
		return disputeText(f, now)
	case ruleQuiet, ruleQuietStalled:
		return "no visible change " + age(max(f.LastChange, f.FirstSeen))
	case ruleHTTPDisputed:
		return "no HTTP heartbeat for " + age(f.HTTPSilent) + ", " + lastSource(f).Title() + " beat " + age(f.LastBeat) + " old"
	case ruleUnheard:
		return "known from the ledger, not heard since we look, for " + age(f.LastBeat)
	case ruleRunning, ruleCount:
	}
	return ""
}

// maybeNew is said of an end after which beats came that nothing tells apart
// from a new execution's.
func maybeNew(f *Facts) string {
	if f.MaybeNew {
		return "; beats since could be a new run"
	}
	return ""
}

// endText leads with the reason; the outcome is said by the verdict beside it.
func endText(t *TerminalSeen) string {
	text := "settled " + t.Outcome.String()
	if t.Reason != "" {
		text = t.Reason + "; settled"
	}
	if t.SettledBy != "" {
		text += " by " + string(t.SettledBy)
	}
	if t.Overrules {
		text += ", over a foreign terminal record"
	}
	return text
}

// endBeatText leads with the publisher's own words, if it left any: they are
// the why of an error.
func endBeatText(f *Facts, ago string) string {
	text := "publisher says " + f.State.String() + ", " + ago + " ago"
	if f.Message != "" {
		return f.Message + "; " + text
	}
	return text
}

func waitOverText(f *Facts, th *Thresholds, now time.Duration) string {
	text := waitWord(f.Waiting) + " past max " + FormatLimit(waitLimit(f, th))
	if f.WorkKnown {
		return text + ", no work " + FormatAge(now-f.LastWork)
	}
	return text + ", no work seen since"
}

func waitWord(w Wait) string {
	switch w {
	case WaitHuman:
		return "HUMAN"
	case WaitTool:
		return "tool"
	case WaitRateLimit:
		return "rate limit"
	case WaitOther, WaitNone:
	}
	return "other"
}

func silentText(f *Facts, th *Thresholds, v *View, now time.Duration) string {
	text := FormatCount(missedBeats(now-f.LastBeat, th.Interval)) + " beats missed"
	if f.Unheard {
		text = "not heard since we look, for " + FormatAge(now-f.LastBeat)
	}
	if f.Group > 0 {
		text += ", 1 of " + FormatCount(f.Group)
	}
	s := decideSettle(f, th, v, now)
	switch short := s.inShort(f, v); {
	case f.Held != "" && !neverByItself(s.waits): // a release would not settle it either
		return text + ", HELD"
	case short != "":
		return text + "; " + short
	case f.Trouble != "":
		return text + "; settling failed, is tried again"
	}
	return text + "; lost in " + FormatAge(s.at-now)
}

// disputeText gives both ages and calls neither fresh: the younger may be old
// too, while we do not see.
func disputeText(f *Facts, now time.Duration) string {
	nats, redis := f.LastBy[SourceNATS], f.LastBy[SourceRedis]
	switch {
	case max(nats, redis) < f.LastBeat:
		return "bus beat " + FormatAge(now-max(nats, redis)) + " old, " + lastSource(f).String() + " " + FormatAge(now-f.LastBeat)
	case redis > nats:
		return "NATS beat " + FormatAge(now-nats) + " old, Redis " + FormatAge(now-redis)
	}
	return "Redis beat " + FormatAge(now-redis) + " old, NATS " + FormatAge(now-nats)
}

// inputs lists the facts that the verdict rests on, the deciding ones first.
func inputs(d *decision, f *Facts, th *Thresholds, now time.Duration) []Input {
	var in []Input
	add := func(i Input) { in = append(in, i) }
	since := func(t time.Duration) time.Duration {
		if t == never {
			return -1
		}
		return max(now-t, 0)
	}
	switch {
	case f.Terminal.Foreign: // what it says of itself is not to be believed
		add(Input{Name: "terminal", Value: "foreign", Source: "ledger", Age: since(f.Terminal.At)})
	case f.Terminal.ends():
		add(Input{Name: "terminal", Value: f.Terminal.Outcome.String(), Source: cmp.Or(string(f.Terminal.SettledBy), "ledger"), Age: since(f.Terminal.At)})
	}
	if f.Terminal.Overrules {
		add(Input{Name: "overruled", Value: "foreign terminal record", Source: "ledger", Age: since(f.Terminal.At)})
	}
	if f.Supervised.Phase > SupervisorRunning {
		add(Input{Name: "supervisor", Value: f.Supervised.Detail, Source: SourceLocal.String(), Age: since(f.Supervised.At)})
	}
	if f.Unheard {
		add(Input{Name: "told", Value: seconds(now - f.LastBeat), Unit: "s", Source: "ledger", Age: since(f.LastBeat)})
		add(Input{Name: "interval", Value: seconds(th.Interval), Unit: "s", Source: th.IntervalFrom, Age: -1})
		return in
	}
	add(Input{Name: "state", Value: f.StateText, Source: "publisher", Age: since(f.LastBeat)})
	add(Input{Name: "beat", Value: seconds(now - f.LastBeat + f.Missing), Unit: "s", Source: lastSource(f).String(),
		Age: since(f.LastBeat) + f.Missing, Estimated: f.BeatKind != AgeExact})
	add(Input{Name: "interval", Value: seconds(th.Interval), Unit: "s", Source: th.IntervalFrom, Age: -1})
	if f.WorkKnown {
		add(Input{Name: "work", Value: seconds(now - f.LastWork), Unit: "s", Source: "publisher", Age: since(f.LastBeat)})
	} else {
		add(Input{Name: "change", Value: seconds(now - max(f.LastChange, f.FirstSeen)), Unit: "s", Source: "observer",
			Age: -1, Estimated: true})
	}
	add(Input{Name: "stall_timeout", Value: seconds(th.StallTimeout), Unit: "s", Source: th.StallFrom, Age: -1})
	if f.Waiting != WaitNone {
		add(Input{Name: "wait", Value: f.Waiting.String(), Source: "publisher", Age: since(f.WaitSince)})
		add(Input{Name: "wait_max", Value: seconds(waitLimit(f, th)), Unit: "s", Source: "publisher", Age: -1})
	}
	if f.LoopLag >= 0 {
		add(Input{Name: "loop_lag", Value: strconv.FormatInt(f.LoopLag.Milliseconds(), 10), Unit: "ms", Source: "publisher", Age: since(f.LastBeat)})
	}
	if f.KeyHeld {
		value := "present"
		if f.KeyPolls > 0 {
			value = "gone"
		}
		add(Input{Name: "redis_key", Value: value, Source: SourceRedis.String(), Age: since(f.KeySeen)})
	}
	if d.rule == ruleBusDisputed {
		for _, src := range [...]Source{SourceNATS, SourceRedis} {
			if f.LastBy[src] == never {
				continue
			}
			add(Input{Name: "beat_" + src.String(), Value: seconds(now - f.LastBy[src]), Unit: "s", Source: src.String(), Age: since(f.LastBy[src])})
		}
	}
	return in
}

func lastSource(f *Facts) Source {
	for _, src := range AllSources() {
		if f.Carried.Has(src) && f.LastBy[src] == f.LastBeat {
			return src
		}
	}
	for _, src := range AllSources() {
		if f.Carried.Has(src) {
			return src
		}
	}
	return sourceCount
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64)
}

// forecasts tells what comes next: by time, soonest first, then what does not
// come by time.
func forecasts(d *decision, f *Facts, th *Thresholds, v *View, now time.Duration) []Forecast {
	out := possible(d, f, th, v, now)
	slices.SortStableFunc(out, func(a, b Forecast) int {
		if (a.In < 0) != (b.In < 0) {
			return cmp.Compare(b.In, a.In)
		}
		return cmp.Compare(a.In, b.In)
	})
	return out
}

func possible(d *decision, f *Facts, th *Thresholds, v *View, now time.Duration) []Forecast {
	const nothing, beat = "nothing arrives", "a beat arrives"
	in := func(at time.Duration) time.Duration { return max(at-now, 0) }
	switch d.verdict {
	case Silent:
		return append(lostForecast(f, th, v, now), Forecast{Running, -1, beat})
	case Unknown:
		if d.rule == ruleUnheard {
			return unheardForecast(f, th, v, now)
		}
		return []Forecast{{Running, -1, "a source is seen again; then one grace of " + FormatLimit(th.Interval)}}
	case Wedge:
		moves := Forecast{Running, -1, "its loop moves again"}
		if !th.CadenceKnown() {
			return []Forecast{moves}
		}
		return append(lostForecast(f, th, v, now), moves)
	case Stalled, Quiet:
		switch d.rule {
		case rulePublisherStalled:
			says := Forecast{Running, -1, "the publisher says running"}
			if decideSettle(f, th, v, now).at == forever {
				return []Forecast{says}
			}
			return append(lostForecast(f, th, v, now), says)
		case ruleQuiet, ruleQuietStalled:
			return []Forecast{{Silent, in(silentAt(f, th, v)), nothing}, {Running, -1, "its task, credits or state changes"}}
		}
		return []Forecast{{Silent, in(silentAt(f, th, v)), nothing}, {Running, -1, "work is seen"}}
	case Restarting:
		return []Forecast{{Running, -1, "the new execution beats"}}
	case CrashLoop:
		return []Forecast{{Restarting, -1, "an operator restarts it"}}
	case Disputed:
		return []Forecast{{Silent, in(silentAt(f, th, v)), nothing}, {Running, -1, "both sources agree again"}}
	case Waiting:
		end := v.moved(f.Carried, f.WaitSince, f.WaitSince+waitLimit(f, th), th.Interval)
		return []Forecast{
			{Silent, in(silentAt(f, th, v)), nothing},
			{Stalled, in(end + v.stretch(th.StallTimeout)), "the wait does not end"},
			{Running, -1, "the wait ends"},
		}
	case Running:
		return runningForecast(f, th, v, now)
	case Completed, Stopped, Failed, Lost, Expired, VerdictCount:
	}
	return nil
}

// lostForecast says when, by whom and if at all it is settled as lost.
func lostForecast(f *Facts, th *Thresholds, v *View, now time.Duration) []Forecast {
	s := decideSettle(f, th, v, now)
	switch {
	case f.Held != "" && !neverByItself(s.waits):
		return []Forecast{{Lost, -1, "not while held: " + f.Held}}
	case s.at == forever && s.waits == waitsCadence:
		return []Forecast{{Silent, -1, "nothing arrives; with unknown cadence it is never lost by itself"}}
	case s.at == forever:
		return []Forecast{{Silent, -1, "nothing arrives; " + s.waits}}
	}
	in := max(s.at-now, 0)
	switch {
	case v.Sweeper == "":
		return []Forecast{{Lost, in, "a sweeper runs; nobody here sweeps"}}
	case s.waits != "":
		return []Forecast{{Lost, in, "nothing arrives and nothing is in the way; now " + s.waits}}
	case f.Trouble != "":
		return []Forecast{{Lost, in, "nothing arrives; settled by " + v.Sweeper + ", whose last try failed: " + f.Trouble}}
	}
	return []Forecast{{Lost, in, "nothing arrives; settled by " + v.Sweeper}}
}

func unheardForecast(f *Facts, th *Thresholds, v *View, now time.Duration) []Forecast {
	const heard = "it is heard"
	if f.Carried == 0 || !th.CadenceKnown() {
		return []Forecast{{Running, -1, heard}}
	}
	return []Forecast{{Silent, max(silentAt(f, th, v)-now, 0), "nothing arrives"}, {Running, -1, heard}}
}

func runningForecast(f *Facts, th *Thresholds, v *View, now time.Duration) []Forecast {
	out := []Forecast{{Silent, max(silentAt(f, th, v)-now, 0), "no beat arrives"}}
	switch {
	case f.WorkKnown:
		out = append(out, Forecast{Stalled, max(workDeadline(f, th, v)-now, 0), "beats arrive without work"})
	case f.Shown && f.State == StateRunning && th.Quiet != QuietIgnore:
		verdict := Quiet
		if th.Quiet == QuietStalled {
			verdict = Stalled
		}
		out = append(out, Forecast{verdict, max(quietAt(f, th, v)-now, 0), "beats arrive and nothing visible changes"})
	}
	return out
}
