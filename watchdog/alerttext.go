package watchdog

import (
	"fmt"
	"strings"
	"time"
)

// alertShown is a copy of an alert for people. Without words it is named and no
// more: thousands at once cannot be read anyway.
func (t *Tracker) alertShown(a *alert, words bool) Alert {
	now := t.now.Mono
	out := Alert{Key: a.key(), Cause: a.cause, Attention: causes[a.cause].attention, ID: a.id, Generation: a.generation,
		N: a.size(), Since: max(now-a.began, 0), Began: t.instantAt(a.began).Wall, Gone: a.gone, Evidence: a.evidence,
		Standing: a.standing, Note: a.note, Verdict: Silent}
	if a.birth != 0 {
		out.Verdict, _ = t.shown(t.store.at(a.rec))
	}
	switch {
	case a.cause == CauseGroup:
		if a.group != nil {
			g := t.groupShown(a.group, now)
			out.HeldFor, out.Shared, out.Members = g.HeldFor, g.Shared, g.Members
		}
		out.Text = groupText(a, out.Shared)
	case !words:
		out.Text = a.lead() + "."
	default:
		out.Text = t.alertText(a)
	}
	return out
}

// lead is what the sentence of an alert begins with: "STALLED x #3".
func (a *alert) lead() string {
	lead := strings.TrimSpace(causes[a.cause].title + " " + string(a.id))
	if a.cause == CauseCredits || a.id == "" {
		return lead
	}
	if a.generation == 0 {
		return lead + " #?"
	}
	return lead + " #" + formatNumber(a.generation)
}

// alertText is the sentence of an alert, with its stop.
func (t *Tracker) alertText(a *alert) string {
	switch a.cause {
	case CauseCredits, CauseAction, CauseReapRate:
		return a.text
	case CauseCrashLoop:
		return a.lead() + ": " + a.text + t.calmText(a) + "."
	}
	r := t.store.at(a.rec)
	if v, _ := t.shown(r); v == Unknown && r.verdict != Unknown {
		return a.lead() + ": so when it was last seen; now we are blind."
	}
	return a.lead() + ": " + t.alertReason(a, r) + "."
}

// alertReason is the sentence of a verdict, without lead and stop.
func (t *Tracker) alertReason(a *alert, r *record) string {
	now := t.now.Mono
	sd := t.store.sideOf(r)
	f := t.facts(a.rec, r, sd)
	f.StateText = string(t.stateText(r))
	if sd != nil {
		f.Message = sd.message
	}
	th, v := t.thresholdsOf(r, sd), t.view()
	d := decide(&f, &th, &v, now)
	text := sentence(&d, &f, &th, &v, now)
	switch a.cause {
	case CauseStalled:
		if now-f.LastBeat <= silentAfter(th.Interval, th.SilentAfterMissed) {
			text += "; beats go on"
		}
	case CauseLost:
		return t.lostText(&f)
	case CauseDisputed:
		return disputeSays(&d, &f, now, text)
	case CauseForeign:
		return "the ledger holds an end that is not ours to trust; nothing is settled"
	case CauseHuman:
		return FormatAge(now-f.WaitSince) + " of " + FormatLimit(d.threshold) + t.taskOf(r)
	case CauseOverdue:
		return FormatAge(now-f.WaitSince) + ", max was " + FormatLimit(d.threshold) + " for " + waitWord(f.Waiting) + t.taskOf(r)
	}
	return text
}

// taskOf is ": approve refund", or nothing.
func (t *Tracker) taskOf(r *record) string {
	if task := t.store.text.get(r.task); len(task) > 0 {
		return ": " + string(task)
	}
	return ""
}

// lostText is "no beat 2m31; settled 02:34Z by sweeper".
func (t *Tracker) lostText(f *Facts) string {
	e := &f.Terminal
	text := endText(e)
	if !f.Unheard && e.Reason != reasonSuperseded {
		text = "no beat " + FormatAge(t.now.Mono-f.LastBeat) + "; settled"
		if e.Settled != 0 {
			text += " " + FormatMoment(e.Settled, t.now.Wall)
		}
		if e.SettledBy != "" {
			text += " by " + string(e.SettledBy)
		}
	}
	return text
}

// FormatMoment is a moment of the wall clock, in UTC: 02:34Z, with its date once
// it is a day old.
func FormatMoment(at, now int64) string {
	layout := "15:04Z"
	if now-at > int64(24*time.Hour) {
		layout = "01-02 15:04Z"
	}
	return time.Unix(0, at).UTC().Format(layout)
}

// disputeSays is "{A} says {x}, {B} says {y}".
func disputeSays(d *decision, f *Facts, now time.Duration, other string) string {
	switch d.rule {
	case ruleKeyDisputed:
		return "NATS says running, Redis says its key is gone"
	case ruleBusDisputed:
		nats, redis := f.LastBy[SourceNATS], f.LastBy[SourceRedis]
		a, b, x, y := "NATS", "Redis", nats, redis
		if redis > nats {
			a, b, x, y = b, a, y, x
		}
		if x < f.LastBeat { // a third one is ahead of both
			a, b, x, y = lastSource(f).Title(), a, f.LastBeat, x
		}
		return fmt.Sprintf("%s says beat %s ago, %s says %s", a, FormatAge(now-x), b, FormatAge(now-y))
	case ruleHTTPDisputed:
		return "HTTP says no heartbeat for " + FormatAge(now-f.HTTPSilent) + ", " + lastSource(f).Title() + " says beat " + FormatAge(now-f.LastBeat) + " ago"
	}
	return other
}

// loopText is what a supervisor says of a crash loop, with the exit code and the
// last line of standard error.
func (t *Tracker) loopText(r *record) string {
	sd := t.store.sideOf(r)
	if sd == nil {
		return "it failed too often"
	}
	s := &sd.supervised
	text, _, _ := strings.Cut(s.Detail, "; held")
	if text == "" {
		text = "it failed too often"
	}
	if code := fmt.Sprint("code ", s.Process.ExitCode); s.Process.ExitCode >= 0 && !strings.Contains(text, code) && s.Process.Restarts > 0 {
		text += ", " + code
	}
	if s.Process.LastLine != "" {
		text += "; stderr: " + s.Process.LastLine
	}
	return text
}

// calmText says of a crash loop that it is over, and when it counts as over.
func (t *Tracker) calmText(a *alert) string {
	if !a.gone {
		return ""
	}
	return "; it runs again, stable in " + FormatAge(a.leaveAt-t.now.Mono)
}

// groupText is "400 silent together: all on hosts eu2-*."
func groupText(a *alert, shared string) string {
	silent := a.size() - len(a.lost)
	text := FormatCount(a.size()) + " silent together"
	if silent == 0 {
		text = FormatCount(len(a.lost)) + " went silent together and were lost"
	}
	if shared != "" {
		text += ": " + shared
	}
	if len(a.lost) > 0 && silent > 0 {
		text += "; " + FormatCount(len(a.lost)) + " of them lost"
	}
	return text + "."
}
