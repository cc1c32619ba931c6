package watchdog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TrialThreshold is one threshold of the policy that a trial may change.
type TrialThreshold struct {
	Name    string // as in the configuration, without "policy."
	Meaning string
	Each    bool // may stand behind a pattern of ids too: "batch-*:stall_timeout=20m"
	get     func(*Policy) string
	set     func(*Policy, string) error
	each    func(*Override, string) error
}

// Value is the threshold in p, for people.
func (t TrialThreshold) Value(p *Policy) string { return t.get(p) }

// TrialThresholds lists what a trial may change. The rest of the policy changes
// no verdict.
func TrialThresholds() []TrialThreshold {
	span := func(name, meaning string, at func(*Policy) *time.Duration) TrialThreshold {
		return TrialThreshold{Name: name, Meaning: meaning,
			get: func(p *Policy) string { return FormatLimit(*at(p)) },
			set: func(p *Policy, text string) error { return readSpan(at(p), text) }}
	}
	number := func(name, meaning string, at func(*Policy) *int) TrialThreshold {
		return TrialThreshold{Name: name, Meaning: meaning,
			get: func(p *Policy) string { return strconv.Itoa(*at(p)) },
			set: func(p *Policy, text string) (err error) {
				if *at(p), err = strconv.Atoi(text); err != nil || *at(p) < 1 {
					return fmt.Errorf("%q is not a whole number of at least 1", text)
				}
				return nil
			}}
	}
	all := []TrialThreshold{
		span("stall_timeout", "stalled after so long without work", func(p *Policy) *time.Duration { return &p.StallTimeout }),
		{Name: "quiet", Meaning: "beats without a visible change: notice, stalled or ignore",
			get: func(p *Policy) string { return string(p.Quiet) },
			set: func(p *Policy, text string) error { return readQuiet(&p.Quiet, text) }},
		span("heartbeat_interval", "expected of producers that do not say", func(p *Policy) *time.Duration { return &p.HeartbeatInterval }),
		number("silent_after_missed", "silent after so many missed beats, plus 20 %", func(p *Policy) *int { return &p.SilentAfterMissed }),
		span("lost_after", "lost after so long without a beat, at least", func(p *Policy) *time.Duration { return &p.LostAfter }),
		number("lost_after_missed", "and after so many missed beats, at least", func(p *Policy) *int { return &p.LostAfterMissed }),
		span("max_wait", "caps how long a declared wait may last", func(p *Policy) *time.Duration { return &p.MaxWait }),
		span("loop_lag_limit", "wedged from so much lag of its loop", func(p *Policy) *time.Duration { return &p.LoopLagLimit }),
		{Name: "brake_share", Meaning: "share of the live that may go silent together",
			get: func(p *Policy) string { return strconv.FormatFloat(p.BrakeShare, 'g', -1, 64) },
			set: func(p *Policy, text string) error { return readShare(&p.BrakeShare, text) }},
		span("brake_hold", "how long those are held from being settled", func(p *Policy) *time.Duration { return &p.BrakeHold }),
	}
	each := map[string]func(*Override, string) error{
		"stall_timeout":      func(o *Override, text string) error { return readSpan(&o.StallTimeout, text) },
		"heartbeat_interval": func(o *Override, text string) error { return readSpan(&o.HeartbeatInterval, text) },
		"quiet":              func(o *Override, text string) error { return readQuiet(&o.Quiet, text) },
	}
	for i := range all {
		all[i].each = each[all[i].Name]
		all[i].Each = all[i].each != nil
	}
	return all
}

func readSpan(d *time.Duration, text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Errorf("%s has no unit; write %ss for seconds", text, text)
	}
	v, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a duration; give one such as 90s or 10m", text)
	case v <= 0:
		return fmt.Errorf("%s is not above 0; give a duration such as 90s or 10m", text)
	case v > longestTried:
		return fmt.Errorf("%s is over a year; give a shorter duration", text)
	}
	*d = v
	return nil
}

const longestTried = 366 * 24 * time.Hour

func readQuiet(q *QuietMode, text string) error {
	if err := QuietMode(text).validate("quiet"); err != nil {
		return fmt.Errorf("%q is not one of notice, stalled, ignore", text)
	}
	*q = QuietMode(text)
	return nil
}

func readShare(share *float64, text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= 1) {
		return fmt.Errorf("%q is not a share above 0 and at most 1, such as 0.05", text)
	}
	*share = v
	return nil
}

// ParseTrial gives p with the thresholds that words name: "stall_timeout=10m
// lost_after=3m quiet=stalled". Behind a pattern of ids, as in
// "batch-*:stall_timeout=20m", a threshold comes before what those sessions
// declare. Its error has one sentence for each fault.
func ParseTrial(p Policy, words string) (Policy, error) {
	p = p.WithDefaults()
	var errs []error
	var over []Override
	fields := strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' })
	if len(fields) == 0 {
		return p, errors.New("no threshold is named; write one such as stall_timeout=10m")
	}
	for _, field := range fields {
		if err := readTried(&p, &over, field); err != nil {
			errs = append(errs, err)
		}
	}
	p.Overrides = append(over, p.Overrides...)
	if len(errs) == 0 {
		errs = p.Validate()
	}
	return p, errors.Join(errs...)
}

// readTried reads one word: name=value, or pattern:name=value.
func readTried(p *Policy, over *[]Override, word string) error {
	left, value, ok := strings.Cut(word, "=")
	if !ok || value == "" {
		return fmt.Errorf("%s has no value; write one such as stall_timeout=10m", word)
	}
	name, match := strings.TrimPrefix(left, "policy."), ""
	if at := strings.LastIndexByte(left, ':'); at >= 0 {
		match, name = left[:at], left[at+1:]
	}
	all := TrialThresholds()
	var t *TrialThreshold
	var names []string
	for i := range all {
		if all[i].Name == name {
			t = &all[i]
		}
		names = append(names, all[i].Name)
	}
	var err error
	switch {
	case t == nil:
		return fmt.Errorf("%q is no threshold that can be tried; there are %s", name, strings.Join(names, ", "))
	case match == "" && left != name && left != "policy."+name:
		return fmt.Errorf("%s has no pattern before its colon; write one such as *:%s=%s", word, name, value)
	case match == "":
		err = t.set(p, value)
	case t.each == nil:
		return fmt.Errorf("%s holds for all sessions; leave the pattern %s out", name, match)
	default:
		o := Override{Match: match}
		err = t.each(&o, value)
		*over = append(*over, o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// TrialChanges says in what two policies differ, one text each: "stall_timeout
// 5m > 10m".
func TrialChanges(now, would *Policy) []string {
	var out []string
	for _, t := range TrialThresholds() {
		if was, is := t.get(now), t.get(would); was != is {
			out = append(out, t.Name+" "+was+" > "+is)
		}
	}
	added := max(len(would.Overrides)-len(now.Overrides), 0)
	for _, o := range would.Overrides[:added] {
		if o.StallTimeout > 0 {
			out = append(out, o.Match+": stall_timeout "+FormatLimit(o.StallTimeout))
		}
		if o.HeartbeatInterval > 0 {
			out = append(out, o.Match+": heartbeat_interval "+FormatLimit(o.HeartbeatInterval))
		}
		if o.Quiet != "" {
			out = append(out, o.Match+": quiet "+string(o.Quiet))
		}
	}
	return out
}
