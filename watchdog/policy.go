package watchdog

import (
	"errors"
	"fmt"
	"path"
	"time"
)

// QuietMode is what becomes of a session whose beats are fresh while nothing
// visible changes.
type QuietMode string

// The modes of policy.quiet.
const (
	QuietNotice  QuietMode = "notice"
	QuietStalled QuietMode = "stalled"
	QuietIgnore  QuietMode = "ignore"
)

// Override replaces thresholds for the sessions whose id matches. The first
// match wins for each value. A zero value leaves the policy's own.
type Override struct {
	Match             string        // path.Match pattern on the id; "*" does not cross "/"
	HeartbeatInterval time.Duration // makes the cadence known
	StallTimeout      time.Duration
	Quiet             QuietMode
}

// Policy holds every threshold. Zero values mean the default.
type Policy struct {
	HeartbeatInterval time.Duration // expected of producers that do not say; 30 s
	RedisTTL          time.Duration // of the liveness keys; 60 s
	StallTimeout      time.Duration // without work; 300 s
	SilentAfterMissed int           // intervals without a beat, plus 20 %; 2
	LostAfter         time.Duration // 90 s
	LostAfterMissed   int           // 3
	Quiet             QuietMode     // notice
	MaxWait           time.Duration // caps what a publisher declares; 24 h
	LoopLagLimit      time.Duration // 15 s
	SweepInterval     time.Duration // 60 s
	SweepBatch        int           // 500
	SweepTimeout      time.Duration // 120 s
	BrakeShare        float64       // of the live that may go silent together; 0.02
	BrakeHold         time.Duration // 10 min
	RegistryTTL       time.Duration // of sessions that only HTTP carries; 45 s
	RejectLate        bool          // late beats are counted, not kept
	Overrides         []Override
	MaxSessions       int // unknown ids beyond are shed; 200,000
	MaxNewPerSecond   int // 20,000
}

// Fixed figures of spec S6, not settings.
const (
	// SightWindow is how old the last round trip of a sighted source may be.
	SightWindow = 10 * time.Second
	// SilentSlack stretches the silent threshold: "2 intervals + 20 %".
	SilentSlack = 1.2
	// GroupWindow is the time within which silences count as one group.
	GroupWindow = 60 * time.Second
	// GroupMin is the smallest correlated silence.
	GroupMin = 5
	// HumanWaitAttention is how long a human wait may last before it needs attention.
	HumanWaitAttention = 15 * time.Minute
	// CompletedLinger is how long a good end stays in the default view.
	CompletedLinger = 10 * time.Minute
	// MaxHealthScore is the highest self-health score: deadlines x (1 + score).
	MaxHealthScore = 7
)

// DefaultPolicy is the policy of an empty configuration.
func DefaultPolicy() Policy { return Policy{}.WithDefaults() }

// WithDefaults fills what is zero.
func (p Policy) WithDefaults() Policy {
	setDuration(&p.HeartbeatInterval, 30*time.Second)
	setDuration(&p.RedisTTL, 60*time.Second)
	setDuration(&p.StallTimeout, 300*time.Second)
	setInt(&p.SilentAfterMissed, 2)
	setDuration(&p.LostAfter, 90*time.Second)
	setInt(&p.LostAfterMissed, 3)
	if p.Quiet == "" {
		p.Quiet = QuietNotice
	}
	setDuration(&p.MaxWait, 24*time.Hour)
	setDuration(&p.LoopLagLimit, 15*time.Second)
	setDuration(&p.SweepInterval, 60*time.Second)
	setInt(&p.SweepBatch, 500)
	setDuration(&p.SweepTimeout, 120*time.Second)
	if p.BrakeShare == 0 {
		p.BrakeShare = 0.02
	}
	setDuration(&p.BrakeHold, 10*time.Minute)
	setDuration(&p.RegistryTTL, 45*time.Second)
	setInt(&p.MaxSessions, 200_000)
	setInt(&p.MaxNewPerSecond, 20_000)
	return p
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

func setInt(n *int, def int) {
	if *n == 0 {
		*n = def
	}
}

// Validate gives one sentence for each fault of a policy whose defaults are
// filled in. The names are those of the configuration file.
func (p Policy) Validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"policy.heartbeat_interval", p.HeartbeatInterval}, {"policy.redis_ttl", p.RedisTTL},
		{"policy.stall_timeout", p.StallTimeout}, {"policy.lost_after", p.LostAfter},
		{"policy.max_wait", p.MaxWait}, {"policy.loop_lag_limit", p.LoopLagLimit},
		{"policy.sweep_interval", p.SweepInterval}, {"policy.sweep_timeout", p.SweepTimeout},
		{"policy.brake_hold", p.BrakeHold}, {"registry.ttl", p.RegistryTTL},
	} {
		if d.value <= 0 {
			bad("%s: %v is not above 0", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"policy.silent_after_missed", p.SilentAfterMissed}, {"policy.lost_after_missed", p.LostAfterMissed},
		{"policy.sweep_batch", p.SweepBatch}, {"limits.sessions", p.MaxSessions}, {"limits.new_per_second", p.MaxNewPerSecond},
	} {
		if n.value < 1 {
			bad("%s: %d is not at least 1", n.name, n.value)
		}
	}
	if !(p.BrakeShare > 0 && p.BrakeShare <= 1) {
		bad("policy.brake_share: %v is not above 0 and at most 1", p.BrakeShare)
	}
	if p.HeartbeatInterval > 0 && p.RedisTTL > 0 && p.RedisTTL <= p.HeartbeatInterval {
		bad("policy.redis_ttl: %v must exceed policy.heartbeat_interval %v, or healthy keys expire between two beats", p.RedisTTL, p.HeartbeatInterval)
	}
	if err := p.Quiet.validate("policy.quiet"); err != nil {
		errs = append(errs, err)
	}
	for i, o := range p.Overrides {
		errs = append(errs, o.validate(fmt.Sprintf("policy.overrides[%d]", i))...)
	}
	return errs
}

func (q QuietMode) validate(name string) error {
	switch q {
	case QuietNotice, QuietStalled, QuietIgnore:
		return nil
	}
	return fmt.Errorf("%s: %q is not one of notice, stalled, ignore", name, string(q))
}

func (o Override) validate(name string) []error {
	var errs []error
	if o.Match == "" {
		errs = append(errs, fmt.Errorf("%s.match: is empty; give a pattern such as \"batch-*\"", name))
	} else if _, err := path.Match(o.Match, ""); errors.Is(err, path.ErrBadPattern) {
		errs = append(errs, fmt.Errorf("%s.match: %q is not a pattern: %w", name, o.Match, err))
	}
	if o.HeartbeatInterval < 0 {
		errs = append(errs, fmt.Errorf("%s.heartbeat_interval: %v is not above 0", name, o.HeartbeatInterval))
	}
	if o.StallTimeout < 0 {
		errs = append(errs, fmt.Errorf("%s.stall_timeout: %v is not above 0", name, o.StallTimeout))
	}
	if o.Quiet != "" {
		if err := o.Quiet.validate(name + ".quiet"); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
