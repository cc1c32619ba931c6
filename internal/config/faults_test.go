package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fault 47
func TestFaults(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // each a part of the line at the same place
	}{
		{"unknown key", "nats:\n  ur: x\n", []string{`/c.yaml:2: unknown key "ur" in nats; did you mean url?`}},
		{"unknown top key", "polcy: {}\n", []string{`/c.yaml:1: unknown key "polcy" in the file; did you mean policy?`}},
		{"key of another block", "poll_interval: 2s\n", []string{`/c.yaml:1: unknown key "poll_interval" in the file; it belongs under redis:`}},
		{"password has no key", "nats: {password: hunter2}\n", []string{`did you mean password_file?`}},
		{"duplicate", "read_only: true\nlog_file: x\nread_only: false\n", []string{`/c.yaml:3: read_only: stands already on line 1`}},
		{"duplicate inside", "nats:\n  url: a\n  url: b\n", []string{`/c.yaml:3: nats.url: stands already on line 2`}},
		{"list for text", "nats: {url: [a]}\n", []string{"nats.url: is a list; give text"}},
		{"text for block", "nats: localhost\n", []string{`nats: "localhost" is text; give a mapping`}},
		{"text for list", "registry: {release: run.sh}\n", []string{`registry.release: "run.sh" is text; give a list`}},
		{"number for text", "redis: {master_name: 7}\n", []string{`"7" is a number; put it into quotes`}},
		{"null", "nats: {url: }\n", []string{"nats.url: has no value"}},
		{"text for number", "policy: {sweep_batch: \"500\"}\n", []string{`"500" is text; give a whole number`}},
		{"fraction", "policy: {sweep_batch: 1.5}\n", []string{`"1.5" does not fit; give a whole number from 1`}},
		{"huge", "policy: {sweep_batch: 99999999999999999999}\n", []string{`does not fit`}},
		{"zero", "policy: {lost_after_missed: 0}\n", []string{`0 is out of range`}},
		{"word for boolean", "read_only: yes\n", []string{`/c.yaml:1: read_only: "yes" is text; write true or false`}},
		{"quoted boolean", "read_only: \"true\"\n", []string{`write true or false, without quotes`}},
		{"choice", "ledger: jetsream\n", []string{`"jetsream" is not known; give one of auto, jetstream, redis, file; did you mean jetstream?`}},
		{"late output", "late_output: quarantne\n", []string{`did you mean quarantine?`}},
		{"share", "policy: {brake_share: .nan}\n", []string{`.nan`}},
		{"share above one", "policy: {brake_share: 2}\n", []string{`2 is out of range`}},
		{"share infinite", "restart_guard: {fleet: {failing: .inf}}\n", []string{`restart_guard.fleet.failing`}},
		{"two documents", "read_only: true\n---\nread_only: false\n", []string{"a second document starts here"}},
		{"alias", "nats: &a {url: nats://x}\nredis: *a\n", []string{"/c.yaml:2: redis: aliases such as *a are not supported"}},
		{"merge", "redis:\n  <<: {url: redis://x}\n", []string{"/c.yaml:2: redis: merging with << is not supported"}},
		{"syntax", "nats: {url: a\nredis: }\n", []string{"/c.yaml:1: is not YAML: did not find expected"}},
		{"tab", "nats:\n\turl: a\n", []string{"indent with spaces"}},
		{"root list", "- a\n", []string{"/c.yaml:1: is a list; give a mapping"}},
		{"odd key", "? [a]\n: b\n", []string{"a key is a list; keys are words"}},
		{"all at once, by line", "redis: {poll_interval: 0s}\nnats: {usr: 1}\nledger: x\n",
			[]string{"/c.yaml:1: redis.poll_interval: 0s is not above 0", "/c.yaml:2: unknown key", "/c.yaml:3: ledger"}},
		{"bad id", "sessions: [{id: \"a b\", command: [x]}]\n", []string{`sessions[0].id: "a b" is not a session id`}},
		{"exit code", "watchdog: {exit_code: 256}\n", []string{"from 1 to 255"}},
		{"strikes", "watchdog: {liveness_strikes: 0}\n", []string{"watchdog.liveness_strikes: 0 is out of range"}},
		{"watchdog switch", "watchdog: {enabled: maybe}\n", []string{`"maybe" is neither yes nor no`}},
		{"context name", "contexts: {\"a b\": {nats: {url: x}}}\n", []string{`"a b" is not a name`}},
		{"size", "sessions: [{id: a, command: [x], dump: {max_bytes: 16}}]\n", []string{"has no unit; give a size such as 16MiB"}},
		{"dump mode", "sessions: [{id: a, command: [x], dump: {mode: signal:SIGFOO}}]\n", []string{"is not a signal"}},
		{"dump mode word", "sessions: [{id: a, command: [x], dump: {mode: maybe}}]\n", []string{"is not known; give auto, none"}},
		{"public key", "commands: {public_keys: [\"ops1:AAAA\"]}\n", []string{`the key of "ops1" is not 32 bytes`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadText(t, tt.text)
			got := faultsOf(t, err)
			if len(got) != len(tt.want) {
				t.Fatalf("faults:\n%s\nwant %d", strings.Join(got, "\n"), len(tt.want))
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("fault %q\nwant part %q", got[i], tt.want[i])
				}
			}
		})
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, `"2s"`: 2 * time.Second,
	} {
		if got := mustLoad(t, "alerts: {timeout: "+text+"}\n").Alerts.Timeout; got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"5", "0", "-5", "0s", "-5s", "1.5", ".nan", ".inf", "-.inf", "NaN", "inf", "Infs", "5 m", "soon", "1d", "9999999h", "99999999999999999999s", "true", "2026-01-01", "[1s]", `""`} {
		_, err := loadText(t, "alerts:\n  timeout: "+text+"\n")
		got := faultsOf(t, err)
		if len(got) != 1 || !strings.HasPrefix(got[0], "/c.yaml:2: alerts.timeout: ") {
			t.Errorf("%s: %q", text, got)
		}
	}
	for _, d := range []time.Duration{time.Millisecond, 1500 * time.Millisecond, time.Second, 10 * time.Minute, 20 * time.Hour, 61 * time.Minute, 3601 * time.Second} {
		if back, err := time.ParseDuration(formatDuration(d)); err != nil || back != d {
			t.Errorf("%v is written %q", d, formatDuration(d))
		}
	}
}

// fault 47
func TestRules(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"registry ttl", "registry:\n  ttl: 20s\n", "/c.yaml:2: registry.ttl: TTL < 3 x interval is refused: 20s is under 3 x 15s; raise registry.ttl to 45s"},
		{"registry interval", "registry:\n  interval: 16s\n", "/c.yaml:2: registry.ttl: TTL < 3 x interval is refused"},
		{"sweep without a rest", "policy:\n  sweep_interval: 1ns\n", "/c.yaml:2: policy.sweep_interval: 1ns is under 1s"},
		{"reaper without a rest", "registry:\n  reap_interval: 999ms\n", "/c.yaml:2: registry.reap_interval: 999ms is under 1s"},
		{"publish", "publish: {interval: 60s, redis_ttl: 60s}\n", "publish.redis_ttl: 1m0s must exceed publish.interval 1m0s"},
		{"poll", "redis: {poll_interval: 60s}\n", "redis.poll_interval: 1m is not under policy.redis_ttl 1m"},
		{"poll of a context", "contexts:\n  a:\n    redis:\n      url: redis://x\n      poll_interval: 2m\n", "/c.yaml:5: contexts.a.redis.poll_interval: 2m is not under"},
		{"policy of the core", "policy:\n  redis_ttl: 10s\n", "/c.yaml:2: policy.redis_ttl: 10s must exceed policy.heartbeat_interval 30s"},
		{"policy, other key", "policy:\n  heartbeat_interval: 60s\n", "/c.yaml:2: policy.redis_ttl: 1m0s must exceed"},
		{"override pattern", "policy:\n  overrides:\n    - match: \"[\"\n      quiet: ignore\n", `/c.yaml:3: policy.overrides[0].match: "[" is not a pattern`},
		{"override without match", "policy:\n  overrides:\n    - quiet: ignore\n", `/c.yaml:3: policy.overrides[0].match: is empty`},
		{"override without effect", "policy:\n  overrides:\n    - match: a\n", `/c.yaml:3: policy.overrides[0]: changes nothing`},
		{"backoff", "restart_guard: {backoff_min: 2m}\n", "restart_guard.backoff_min: 2m0s is above backoff_max 1m0s"},
		{"fleet never trips", "restart_guard: {fleet: {per_hour: 3600}}\n", "the fleet guard can never trip"},
		{"guard never trips", "restart_guard: {window: 1ms}\n", "the guard can never trip"},
		{"serve tls", "serve: {tls: {cert_file: a}}\n", "cert_file and key_file go together"},
		{"nats tls", "nats: {tls: {key_file: a}}\n", "nats.tls: cert_file and key_file go together"},
		{"exit 78", "watchdog: {exit_code: 78}\n", "78 tells supervisors never to restart us"},
		{"twin sessions", "sessions:\n- {id: a, command: [x]}\n- {id: a, command: [x]}\n", `/c.yaml:3: sessions[1].id: "a" is also the id of sessions[0]`},
		{"no command", "sessions:\n- id: a\n", "sessions[0].command: has no command"},
		{"no id", "sessions:\n- command: [a]\n", "/c.yaml:2: sessions[0].id: has no id"},
		{"restart on 78", "sessions:\n- {id: a, command: [x], restart_exit_codes: [75, 78]}\n", "78 means a configuration error"},
		{"dump budget", "sessions:\n- {id: a, command: [x], dump: {timeout: 30s}}\n", "sessions[0].dump.timeout: one step may take 30s"},
		{"dump samples", "sessions:\n- {id: a, command: [x], dump: {samples: 11}}\n", "11 samples, 2s apart"},
		{"env name", "sessions:\n- {id: a, command: [x], env: {\"A=B\": c}}\n", "is not the name of an environment variable"},
		{"url and urls", "nats: {url: nats://a, urls: [nats://b]}\n", "nats.urls: url and urls both say"},
		{"url and addrs", "redis: {url: redis://a, addrs: [b]}\n", "redis.addrs: url and addrs both say"},
		{"scheme", "nats: {url: http://a}\n", `nats.url: the scheme "http" is not known; use one of nats, tls, ws, wss`},
		{"redis scheme", "redis: {url: valkey://a}\n", `use one of redis, rediss`},
		{"port", "nats: {url: nats://a:70000}\n", "the port is not within"},
		{"empty url", "nats: {url: \"\"}\n", "nats.url: the address has no host"},
		{"password in nats", "nats: {url: \"nats://u:hunter2@a\"}\n", "nats.url: holds a password or token; put it into a file"},
		{"token in nats", "nats: {urls: [\"nats://hunter2@a\"]}\n", "nats.urls: holds a password or token"},
		{"password in redis", "redis: {url: \"redis://:hunter2@a\"}\n", "redis.url: holds a password"},
		{"password in a query", "redis: {url: \"redis://a?password=hunter2\"}\n", "what follows ? in the address is not supported"},
		{"broken password", "redis: {url: \"redis://u:hunter2/x@a\"}\n", "redis.url: the address is not a URL"},
		{"password in a context", "contexts: {a: {redis: {url: \"redis://:hunter2@a\"}}}\n", "contexts.a.redis.url: holds a password"},
		{"password in the webhook", "alerts: {webhook: \"https://u:hunter2@a/b\"}\n", "alerts.webhook: the URL holds a user or password"},
		{"webhook", "alerts: {webhook: example.org}\n", "is not a URL"},
		{"two logins", "nats: {creds_file: a, token_file: b}\n", "nats.token_file: creds_file and token_file are different ways to log in"},
		{"user alone", "nats: {user: a}\n", "nats.user: has no password"},
		{"password alone", "nats: {password_file: a}\n", "belongs to a user"},
		{"redis user alone", "redis: {username: a}\n", "redis.username: the user has no password"},
		{"sentinels", "redis: {master_name: m}\n", "redis.master_name: needs the addresses of the sentinels"},
		{"which kind", "redis: {addrs: [a, b]}\n", "set master_name (sentinels) or cluster: true"},
		{"both kinds", "redis: {addrs: [a, b], cluster: true, master_name: m}\n", "give one"},
		{"database of a cluster", "redis: {url: redis://a/3, cluster: true}\n", "a cluster has 0 alone"},
		{"mixed tls", "redis: {addrs: [redis://a, rediss://b], cluster: true}\n", "mixes redis:// and rediss://"},
		{"tls without tls", "redis: {url: redis://a, tls: {ca_file: x}}\n", "redis.tls: has no effect without TLS"},
		{"empty context", "contexts:\n  a: {read_only: true}\n", "/c.yaml:2: contexts.a: names no server"},
		{"context without address", "contexts: {a: {nats: {user: x, password_file: y}}}\n", "contexts.a.nats: names no server"},
		{"listen", "serve: {listen: localhost}\n", "is not host:port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadText(t, tt.text)
			got := faultsOf(t, err)
			if len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("faults:\n%s\nwant one with %q", strings.Join(got, "\n"), tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the fault tells the secret: %v", err)
			}
		})
	}
}

func TestManyFaultsAreBounded(t *testing.T) {
	_, err := loadText(t, strings.Repeat("sessions:\n", 1000))
	got := faultsOf(t, err)
	if len(got) != maxFaults+1 || !strings.HasSuffix(got[maxFaults], "and 899 more; mend these first") {
		t.Errorf("%d faults, last %q", len(got), got[len(got)-1])
	}
}

func TestWarnings(t *testing.T) {
	c := mustLoad(t, "serve: {listen: \"0.0.0.0:7077\"}\nsessions: [{id: a, command: [x], stall: {action: restart}}]\n")
	if len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0], "without TLS") || !strings.Contains(c.Warnings[1], "never trip the restart guard") {
		t.Errorf("%q", c.Warnings)
	}
}

// What others find wrong has the line of its key, or of the block around it, or
// the flag it came from.
func TestRefuseGivesEachFaultItsPlace(t *testing.T) {
	c := mustLoad(t, "read_only: true\nui:\n  keys:\n    stop: x\n  columns: [a, b]\n", Flag{Name: "--theme", Key: "ui.theme", Value: "dark"})
	err := c.Refuse(
		Fault{Key: "ui.theme", Text: "too dark"}, Fault{Key: "ui.keys.why", Text: "is not there"}, Fault{Key: "ui.columns", Text: "none"}, Fault{Key: "ui.keys.stop", Text: "no"}, Fault{Key: "nowhere", Text: "odd"})
	var got []string
	for _, line := range strings.Split(err.Error(), "\n") {
		got = append(got, strings.TrimPrefix(line, c.Path))
	}
	want := []string{":3: ui.keys.why: is not there", ":4: ui.keys.stop: no", ":5: ui.columns: none", "--theme: ui.theme: too dark", "the configuration: nowhere: odd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := c.Refuse(); err != nil {
		t.Error(err)
	}
}
