package config

import (
	"fmt"
	"strings"
	"time"
)

// rule is a check between keys. The first of its keys that stands in the file
// is blamed; it is left alone if any of them has a fault already.
type rule struct {
	keys  []string
	fault string // empty: kept
}

// shortestRound is how often a sweep or a reaper may come round.
const shortestRound = time.Second

// rules are those of the whole file, in the order of its blocks.
func (s *Settings) rules() []rule {
	var list []rule
	when := func(broken bool, text string, keys ...string) {
		if broken {
			list = append(list, rule{keys, text})
		}
	}
	p, r, g := s.Publish, s.Registry, s.RestartGuard
	when(p.RedisTTL <= p.Interval, fmt.Sprintf(
		"%v must exceed publish.interval %v, or the key expires between two beats; raise redis_ttl", p.RedisTTL, p.Interval),
		"publish.redis_ttl", "publish.interval")
	when(s.Policy.SweepInterval < shortestRound, fmt.Sprintf(
		"%v is under %v: passes would follow each other without a rest; raise it", s.Policy.SweepInterval, shortestRound), "policy.sweep_interval")
	when(r.ReapInterval < shortestRound, fmt.Sprintf(
		"%v is under %v: rounds would follow each other without a rest; raise it", r.ReapInterval, shortestRound), "registry.reap_interval")
	when(r.TTL < 3*r.Interval, fmt.Sprintf(
		"TTL < 3 x interval is refused: %v is under 3 x %v; raise registry.ttl to %v (5 x across zones) or lower registry.interval",
		r.TTL, r.Interval, 3*r.Interval), "registry.ttl", "registry.interval")
	when(g.BackoffMin > g.BackoffMax, fmt.Sprintf(
		"%v is above backoff_max %v; lower it", g.BackoffMin, g.BackoffMax),
		"restart_guard.backoff_min", "restart_guard.backoff_max")
	most := int(time.Hour/g.BackoffMin) * max(1, len(s.Sessions))
	when(g.Fleet.PerHour >= most, fmt.Sprintf(
		"the fleet guard can never trip: with backoff_min %v there are at most %d restarts an hour; lower per_hour", g.BackoffMin, most),
		"restart_guard.fleet.per_hour", "restart_guard.backoff_min")
	when(g.Window < 100*time.Millisecond, fmt.Sprintf(
		"the guard can never trip: no failing run is shorter than %v; raise window", g.Window), "restart_guard.window")
	when((s.Serve.TLS.CertFile == "") != (s.Serve.TLS.KeyFile == ""),
		"cert_file and key_file go together; give both or none", "serve.tls.cert_file", "serve.tls.key_file")
	when(s.Watchdog.ExitCode == 78,
		"78 tells supervisors never to restart us; give 75 or another code", "watchdog.exit_code")
	seen := map[string]bool{}
	for i, k := range s.Commands.PublicKeys {
		when(k.ID != "" && seen[k.ID], quoted(k.ID)+" names two keys; give each its own name",
			"commands.public_keys["+fmt.Sprint(i)+"]")
		seen[k.ID] = true
	}
	for i := range s.Sessions {
		list = append(list, s.sessionRules(i)...)
	}
	return append(list, s.policyRules()...)
}

// policyRules are those of the core, mapped to the keys that it names, and
// those that it cannot know.
func (s *Settings) policyRules() []rule {
	var list []rule
	for _, err := range s.Policy.Validate() {
		key, text, _ := strings.Cut(err.Error(), ": ")
		keys := []string{key}
		if key == "policy.redis_ttl" {
			keys = append(keys, "policy.heartbeat_interval")
		}
		if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
			keys = append(keys, key[:dot]) // a key that is missing: blame its block
		}
		list = append(list, rule{keys, text})
	}
	for i, o := range s.Policy.Overrides {
		if o.StallTimeout == 0 && o.HeartbeatInterval == 0 && o.Quiet == "" {
			path := indexed("policy.overrides", i)
			list = append(list, rule{
				[]string{path, path + ".stall_timeout", path + ".heartbeat_interval", path + ".quiet"},
				"changes nothing; give stall_timeout, heartbeat_interval or quiet",
			})
		}
	}
	return list
}

func (s *Settings) sessionRules(i int) []rule {
	var list []rule
	one, path := &s.Sessions[i], indexed("sessions", i)
	when := func(broken bool, text string, names ...string) {
		if broken {
			keys := make([]string, len(names))
			for j, name := range names {
				keys[j] = join(path, name)
			}
			list = append(list, rule{append(keys, path), text})
		}
	}
	when(one.ID == "", "has no id; give one such as id: indexer", "id")
	for j := range i {
		if one.ID != "" && s.Sessions[j].ID == one.ID {
			when(true, fmt.Sprintf("%s is also the id of sessions[%d]; each session has its own", quoted(one.ID), j), "id")
			break
		}
	}
	when(len(one.Command) == 0 || one.Command[0] == "", "has no command; give one such as command: [python3, agent.py]", "command")
	for _, code := range one.RestartExitCodes {
		when(code == 78, "78 means a configuration error and is never restarted; remove it", "restart_exit_codes")
	}
	u := one.Dump
	when(u.Timeout > u.Budget, fmt.Sprintf("one step may take %v but all together only %v; raise dump.budget", u.Timeout, u.Budget),
		"dump.timeout", "dump.budget")
	when(time.Duration(u.Samples-1)*u.Interval >= u.Budget, fmt.Sprintf(
		"%d samples, %v apart, do not fit into %v; raise dump.budget", u.Samples, u.Interval, u.Budget),
		"dump.samples", "dump.interval", "dump.budget")
	return list
}

// warnings are what is allowed but hardly meant.
func (s *Settings) warnings() []string {
	var list []string
	if s.Serve.Listen != None && !loopback(s.Serve.Listen) && s.Serve.TLS.CertFile == "" {
		list = append(list, fmt.Sprintf(
			"serve.listen: %s can be reached from other machines without TLS, so tokens pass in the clear; set serve.tls", s.Serve.Listen))
	}
	for i, one := range s.Sessions {
		if one.StallAction == StallRestart && one.StallTimeout >= s.RestartGuard.Window {
			list = append(list, fmt.Sprintf(
				"sessions[%d].stall: a run that stalls lasts at least %v, so stalls never trip the restart guard (window %v); raise restart_guard.window above it",
				i, one.StallTimeout, s.RestartGuard.Window))
		}
	}
	return list
}

// check applies the rules to what was decoded.
func (d *decoder) check(s *Settings, origin func(key string) (place string, line int)) {
	for _, r := range s.rules() {
		d.blame(r, origin)
	}
}

func (d *decoder) blame(r rule, origin func(key string) (string, int)) {
	key := r.keys[0]
	for _, k := range r.keys {
		if d.bad[k] {
			return
		}
	}
	for _, k := range r.keys {
		if place, _ := origin(k); place != "" {
			key = k
			break
		}
	}
	place, line := origin(key)
	if place == "" {
		place = d.file
	}
	d.bad[key] = true
	d.faults = append(d.faults, Fault{Place: place, Line: line, Key: r.keys[0], Text: r.fault})
}
