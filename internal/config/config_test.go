package config

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// machine is a machine of a test: its files and its environment.
type machine struct {
	files fstest.MapFS
	env   map[string]string
	links map[string]bool
}

func (m *machine) Open(name string, noFollow bool) (fs.File, error) {
	if noFollow && m.links[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return m.files.Open(strings.TrimPrefix(name, "/"))
}

func newMachine() *machine {
	return &machine{files: fstest.MapFS{}, env: map[string]string{"HOME": "/home/op"}, links: map[string]bool{}}
}

func (m *machine) write(name, text string, mode fs.FileMode) {
	m.files[strings.TrimPrefix(name, "/")] = &fstest.MapFile{Data: []byte(text), Mode: mode}
}

func (m *machine) load(o Options) (*Config, error) {
	o.Files, o.Getenv = m, func(k string) string { return m.env[k] }
	return Load(o)
}

// loadText loads a file with this text.
func loadText(t *testing.T, text string, flags ...Flag) (*Config, error) {
	t.Helper()
	m := newMachine()
	m.write("/c.yaml", text, 0o600)
	return m.load(Options{Path: "/c.yaml", Flags: flags})
}

func mustLoad(t *testing.T, text string, flags ...Flag) *Config {
	t.Helper()
	c, err := loadText(t, text, flags...)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	f, ok := err.(*Faults)
	if !ok {
		t.Fatalf("error is %T %v, want *Faults", err, err)
	}
	var out []string
	for _, one := range f.List {
		out = append(out, one.String())
	}
	return out
}

const wholeFile = `
nats:   {url: nats://localhost:4222, urls: [], creds_file: "", nkey_file: "", user: "", password_file: "", token_file: "", tls: {ca_file: "", cert_file: "", key_file: ""}}
redis:  {url: redis://localhost:6379, addrs: [], master_name: "", cluster: false, username: "", password_file: "", tls: {ca_file: "", cert_file: "", key_file: ""}, poll_interval: 2s}
contexts:                        # named clusters; each may hold nats, redis, read_only
  prod: {nats: {url: "tls://nats.example:4222"}, redis: {url: "rediss://redis.example:6379"}, read_only: true}
read_only: false
ledger: auto                     # auto | jetstream | redis | file
policy:
  heartbeat_interval: 30s        # expected of producers that do not say, until learned
  redis_ttl: 60s
  stall_timeout: 300s
  silent_after_missed: 2
  lost_after: 90s
  lost_after_missed: 3
  quiet: notice                  # notice | stalled | ignore
  max_wait: 24h
  loop_lag_limit: 15s
  sweep_interval: 60s
  sweep_batch: 500
  sweep_timeout: 120s
  brake_share: 0.02
  brake_hold: 10m
  overrides: [{match: "batch-*", stall_timeout: 20m, quiet: ignore, heartbeat_interval: 60s}]
publish: {interval: 30s, redis_ttl: 60s}
sessions:
  - id: indexer
    command: [python3, agent.py]
    dir: ""
    env: {}
    restart: on-failure          # never | on-failure | always
    restart_exit_codes: [75]
    stop_grace: 10s
    stall: {timeout: 300s, action: alert}   # alert | restart | stop
    dump: {mode: auto}
    pty: false
    log_file: ""
restart_guard: {burst: 3, window: 60s, backoff_min: 1s, backoff_max: 60s, fleet: {per_hour: 40, failing: 0.5, hold: 120s}}
serve: {listen: "127.0.0.1:7077", token_file: "", tls: {cert_file: "", key_file: ""}, allowed_hosts: []}
registry: {token_file: "", interval: 15s, ttl: 45s, reap_interval: 15s, release: [], release_timeout: 10s}
commands: {public_keys: [], signing_key_file: "", trust_loopback: false, lease: 60s, max_deliveries: 3}
limits: {sessions: 200000, new_per_second: 20000}   # unknown ids beyond are shed
late_output: quarantine          # quarantine | reject
watchdog: {enabled: true, liveness_interval: 5s, liveness_strikes: 3, on_wedge: dump_and_exit, exit_code: 75, dump_file: ""}
alerts: {bell: true, desktop: false, webhook: "", command: [], timeout: 5s}
ui: {theme: auto, ascii: false, mouse: false, hints: true, columns: [], keys: {}}
log_file: ""
data_dir: ""
`

var settingsEqual = cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Watchdog{}, "Configured")}

// TestDefaults: no file, an empty file and the file that spells every key of
// the documentation with its default all mean the same.
func TestDefaults(t *testing.T) {
	none, err := newMachine().load(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(watchdog.DefaultPolicy(), none.Policy, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("policy differs from the core's (-core +config):\n%s", diff)
	}
	if none.DataDir != "/home/op/.local/state/sessionwatch" {
		t.Errorf("data_dir %q", none.DataDir)
	}
	for _, text := range []string{"", "\n# nothing\n", "---\n", "nats:\npolicy:\nsessions:\ncontexts:\n"} {
		if diff := cmp.Diff(none.Settings, mustLoad(t, text).Settings, settingsEqual); diff != "" {
			t.Errorf("file %q:\n%s", text, diff)
		}
	}
	whole := mustLoad(t, wholeFile)
	if len(whole.Contexts) != 1 || len(whole.Sessions) != 1 || len(whole.Policy.Overrides) != 1 {
		t.Fatalf("context, session or override is missing: %+v", whole.Settings)
	}
	wantSession := none.DefaultSession()
	wantSession.ID, wantSession.Command = "indexer", []string{"python3", "agent.py"}
	if diff := cmp.Diff(wantSession, whole.Sessions[0], settingsEqual); diff != "" {
		t.Errorf("a session differs from its defaults:\n%s", diff)
	}
	whole.Contexts, whole.Sessions, whole.Policy.Overrides = nil, nil, nil
	if diff := cmp.Diff(none.Settings, whole.Settings, settingsEqual); diff != "" {
		t.Errorf("the documented file is not the defaults:\n%s", diff)
	}
}

// TestExample: the example means the defaults, as it is and uncommented.
func TestExample(t *testing.T) {
	want := mustLoad(t, "")
	text := Example()
	active := regexp.MustCompile(`(?m)^# `).ReplaceAllString(text, "")
	for _, text := range []string{text, active} {
		got, err := loadText(t, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want.Settings, got.Settings, settingsEqual); diff != "" {
			t.Errorf("differs:\n%s", diff)
		}
	}
	for _, v := range want.Values() {
		name := v.Key[strings.LastIndex(v.Key, ".")+1:]
		if !strings.Contains(active, name+":") {
			t.Errorf("%s is missing", v.Key)
		}
	}
	if strings.Contains(text, "\t") || strings.Contains(text, " \n") {
		t.Error("tabs or trailing blanks")
	}
}

// TestEveryKeyIsDocumented: each row of the tables says what its key means.
func TestEveryKeyIsDocumented(t *testing.T) {
	var walk func(path string, b *block)
	walk = func(path string, b *block) {
		seen := map[string]bool{}
		for _, f := range b.fields {
			if seen[f.name] {
				t.Errorf("%s stands twice", join(path, f.name))
			}
			seen[f.name] = true
			if inner, ok := f.value.(*block); ok {
				walk(join(path, f.name), inner)
			} else if f.doc == "" {
				t.Errorf("%s has no documentation", join(path, f.name))
			}
			if e, ok := f.value.(exampler); ok {
				_, inner := e.element()
				walk(join(path, f.name), inner)
			}
		}
	}
	var s Settings
	walk("", &block{s.fields()})
}

func TestPrecedence(t *testing.T) {
	m := newMachine()
	m.write("/home/op/.config/sessionwatch/config.yaml", "nats: {url: nats://file}\nui:\n  theme: dark\n", 0o600)
	load := func(flags ...Flag) *Config {
		t.Helper()
		c, err := m.load(Options{Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	check := func(c *Config, address, origin string) {
		t.Helper()
		if c.NATS.Address != address || c.NATS.Origin != origin || c.Origin("nats.url") != origin {
			t.Errorf("NATS %q from %q (%q), want %q from %q", c.NATS.Address, c.NATS.Origin, c.Origin("nats.url"), address, origin)
		}
	}
	check(load(), "nats://file", "file:1")
	m.env["NATS_URL"] = "nats://env:4222,nats://env2:4222"
	check(load(), "nats://env:4222,nats://env2:4222", "NATS_URL")
	check(load(Flag{"--nats", "nats.url", "flag:4222"}), "nats://flag:4222", "--nats")
	none := load(Flag{"--nats", "nats.url", "-"})
	check(none, "-", "--nats")
	if none.NATS.URLs != nil {
		t.Errorf("none has URLs %v", none.NATS.URLs)
	}
	c := load(Flag{"--theme", "ui.theme", "light"}, Flag{"--read-only", "read_only", "true"})
	if c.UI.Theme != ThemeLight || c.Origin("ui.theme") != "--theme" || !c.ReadOnly {
		t.Errorf("flags are lost: %+v", c.UI)
	}
	if load().Origin("ui.theme") != "file:3" || load().Origin("ui.ascii") != "default" || load().UI.Theme != ThemeDark {
		t.Error("origins of the file and the default")
	}
	m.env["NATS_URL"] = "-"
	check(load(), "-", "NATS_URL")
	m.env["NATS_URL"] = ""
	check(load(), "nats://file", "file:1")
	m.env["NATS_URL"] = "http://u:hunter2@elsewhere" // a flag makes it irrelevant
	over := load(Flag{"--nats", "nats.url", "flag:4222"})
	check(over, "nats://flag:4222", "--nats")
	if over.NATS.User != "" || over.NATS.Password.Set() {
		t.Errorf("the login of the environment goes to the flag's server: %+v", over.NATS)
	}
	m.env["NATS_URL"] = ""

	_, err := m.load(Options{Flags: []Flag{{"--theme", "ui.theme", "drak"}, {"--x", "no.such", "1"}, {"--redis", "redis.url", "redis://:hunter2@h"}}})
	got := faultsOf(t, err)
	want := []string{`--theme: "drak" is not known`, `--x: no flag can set "no.such"`, "--redis: holds a password, which every user"}
	for i := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) || strings.Contains(got[i], "hunter2") {
			t.Errorf("faults %q", got)
		}
	}
}

func TestStallTimeoutOfTheEnvironment(t *testing.T) {
	m := newMachine()
	m.env["WATCHDOG_STALL_TIMEOUT"] = "120"
	m.write("/a.yaml", "sessions: [{id: a, command: [x]}, {id: b, command: [x], stall: {timeout: 9m}}]\n", 0o600)
	c, err := m.load(Options{Path: "/a.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Policy.StallTimeout != 2*time.Minute || c.Origin("policy.stall_timeout") != "WATCHDOG_STALL_TIMEOUT" {
		t.Errorf("stall timeout %v from %s", c.Policy.StallTimeout, c.Origin("policy.stall_timeout"))
	}
	if c.Sessions[0].StallTimeout != 2*time.Minute || c.Sessions[1].StallTimeout != 9*time.Minute {
		t.Errorf("sessions: %v %v", c.Sessions[0].StallTimeout, c.Sessions[1].StallTimeout)
	}
	m.write("/a.yaml", "policy: {stall_timeout: 7m}\n", 0o600)
	if c, err = m.load(Options{Path: "/a.yaml"}); err != nil || c.Policy.StallTimeout != 7*time.Minute {
		t.Errorf("the file must win: %v %v", c, err)
	}
	c, err = m.load(Options{Flags: []Flag{{"--stall", "policy.stall_timeout", "8m"}}})
	if err != nil || c.Policy.StallTimeout != 8*time.Minute || c.Origin("policy.stall_timeout") != "--stall" {
		t.Errorf("the flag must win: %v %v", c, err)
	}
	for _, bad := range []string{"0", "-1", "nan", "inf", "5m", "1e300"} {
		m.env["WATCHDOG_STALL_TIMEOUT"] = bad
		_, err := m.load(Options{Path: "-"})
		if got := faultsOf(t, err); !strings.HasPrefix(got[0], "WATCHDOG_STALL_TIMEOUT: ") {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

func TestWatchdogBlock(t *testing.T) {
	for text, want := range map[string]bool{"true": true, `"true"`: true, "yes": true, `"on"`: true, "On": true, "1": true, "off": false, `"no"`: false, "FALSE": false} {
		c := mustLoad(t, "watchdog: {enabled: "+text+"}\n")
		if c.Watchdog.Enabled != want || !c.Watchdog.Configured {
			t.Errorf("%s: %+v", text, c.Watchdog)
		}
	}
	file := "watchdog: {enabled: off, liveness_strikes: 4}\n"
	c := mustLoad(t, file, Flag{"--watchdog-timeout", KeyWatchdogTimeout, "20"})
	if !c.Watchdog.Enabled || c.Watchdog.LivenessInterval != 5*time.Second || c.Origin("watchdog.enabled") != "--watchdog-timeout" {
		t.Errorf("%+v", c.Watchdog)
	}
	if c := mustLoad(t, "", Flag{"--watchdog", "watchdog.enabled", "false"}); c.Watchdog.Enabled || !c.Watchdog.Configured {
		t.Errorf("%+v", c.Watchdog)
	}
	if c := mustLoad(t, ""); !c.Watchdog.Enabled || c.Watchdog.Configured {
		t.Errorf("%+v", c.Watchdog)
	}
	for _, bad := range []string{"0", "-3", "nan", "+Inf", "x", "", "1e-9"} {
		_, err := loadText(t, "", Flag{"--watchdog-timeout", KeyWatchdogTimeout, bad})
		if got := faultsOf(t, err); !strings.HasPrefix(got[0], "--watchdog-timeout: ") {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

func TestContexts(t *testing.T) {
	m := newMachine()
	m.env["NATS_URL"], m.env["REDIS_URL"] = "nats://u:p@env", "redis://env"
	m.write("/c.yaml", `
nats: {url: nats://top}
contexts:
  prod:
    nats: {url: "tls://prod:4222"}
    redis: {url: "rediss://prod/2", poll_interval: 5s}
    read_only: true
  lab: {nats: {urls: ["nats://a", "nats://b"]}}
`, 0o600)
	load := func(context string, flags ...Flag) (*Config, error) {
		return m.load(Options{Path: "/c.yaml", Context: context, Flags: flags})
	}
	c, err := load("prod")
	if err != nil {
		t.Fatal(err)
	}
	if c.NATS.Address != "tls://prod:4222" || c.NATS.Origin != "context prod" || c.NATS.User != "" || c.NATS.Password.Set() {
		t.Errorf("NATS %+v", c.NATS)
	}
	if c.Redis.DB != 2 || !c.Redis.UseTLS || c.Redis.Addrs[0] != "prod:6379" || c.Redis.PollInterval != 5*time.Second {
		t.Errorf("Redis %+v", c.Redis)
	}
	if !c.ReadOnly || c.Origin("read_only") != "context prod" || c.Origin("redis.poll_interval") != "context prod" || c.Origin("redis.cluster") != "default" {
		t.Errorf("read_only %v, origins %v", c.ReadOnly, c.origins)
	}
	lab, err := load("lab", Flag{"--read-only", "read_only", "true"})
	if err != nil {
		t.Fatal(err)
	}
	if lab.Redis.Address != None || lab.NATS.Address != "nats://a,nats://b" || lab.Origin("read_only") != "--read-only" {
		t.Errorf("lab: %+v %+v", lab.NATS, lab.Redis)
	}
	if lab, err = load("lab", Flag{"--redis", "redis.url", "redis://x"}, Flag{"--nats", "nats.url", "-"}); err != nil || lab.Redis.Address != "redis://x:6379" || lab.NATS.Address != None {
		t.Errorf("flags beside a context: %v %v", lab, err)
	}
	_, err = load("lab", Flag{"--nats", "nats.url", "nats://x"})
	if got := faultsOf(t, err); !strings.Contains(got[0], "--nats: --context lab says already where that is") {
		t.Errorf("%v", got)
	}
	_, err = load("prd")
	if got := faultsOf(t, err); !strings.Contains(got[0], `--context: "prd" is not known; the configuration has lab, prod; did you mean prod?`) {
		t.Errorf("%v", got)
	}
	if names := c.ContextNames(); !cmp.Equal(names, []string{"lab", "prod"}) {
		t.Errorf("names %v", names)
	}
}

func TestLoginsOfTheEnvironment(t *testing.T) {
	m := newMachine()
	m.write("/c.yaml", "nats: {creds_file: /x.creds}\nredis: {username: old, password_file: /pw}\n", 0o600)
	m.env["NATS_URL"], m.env["REDIS_URL"] = "nats://ops:hunter2@h:4222", "rediss://bob:hunter3@h:6380/4"
	c, err := m.load(Options{Path: "/c.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if c.NATS.User != "ops" || c.NATS.Password.Reveal() != "hunter2" || c.NATS.CredsFile != "" || c.NATS.Address != "nats://h:4222" {
		t.Errorf("NATS user %q, creds %q, address %q", c.NATS.User, c.NATS.CredsFile, c.NATS.Address)
	}
	if c.Redis.Username != "bob" || c.Redis.Password.Reveal() != "hunter3" || c.Redis.DB != 4 || !c.Redis.UseTLS {
		t.Errorf("Redis %+v", c.Redis)
	}
	assertHidden(t, c, "hunter")
	m.env["NATS_URL"] = "nats://hunter4@h"
	if c, err = m.load(Options{Path: "/c.yaml"}); err != nil || c.NATS.Token.Reveal() != "hunter4" || c.NATS.User != "" {
		t.Errorf("token: %+v %v", c, err)
	}
	assertHidden(t, c, "hunter")
	for _, bad := range []string{"nats://a:hunter2@h,nats://b:hunter2@h", "nats://a:hunter2/@h", "nats://a:hunter2@h:x", "http://a:hunter2@h", "nats://a:hunter2@h\x1b[2J"} {
		m.env["NATS_URL"] = bad
		_, err := m.load(Options{Path: "/c.yaml"})
		if got := faultsOf(t, err); len(got) != 1 || !strings.HasPrefix(got[0], "NATS_URL: ") || strings.Contains(got[0], "hunter") || strings.Contains(got[0], "\x1b") {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

// assertHidden looks for a secret in everything that prints a Config.
func assertHidden(t *testing.T, c *Config, secret string) {
	t.Helper()
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "nats", c.NATS, "redis", c.Redis, "password", c.NATS.Password)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "nats", c.NATS, "password", c.Redis.Password)
	asJSON, err := json.Marshal([]any{c.NATS, c.Redis, c.Settings})
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{
		fmt.Sprint(c.NATS, c.Redis, c.Settings), fmt.Sprintf("%+v %#v %q %x", c.NATS, c.Redis, c.NATS.Password, c.Redis.Password),
		fmt.Sprint(c.Values()), string(asJSON), log.String(),
	} {
		if strings.Contains(out, secret) || strings.Contains(out, fmt.Sprintf("%x", secret)) {
			t.Errorf("%q stands in %s", secret, out)
		}
	}
}

func TestSecretFiles(t *testing.T) {
	m := newMachine()
	m.write("/etc/sw/c.yaml", `nats: {user: ops, password_file: nats.pw}
redis: {password_file: ~/redis.pw}
serve: {token_file: /tok}
alerts: {webhook: "https://hooks.example/T0/hunter9"}
sessions: [{id: a, command: [x], env: {API_KEY: hunter8}}]
`, 0o600)
	m.write("/etc/sw/nats.pw", "hunter2\r\n", 0o644)
	m.write("/home/op/redis.pw", "hunter3 \n", 0o600)
	m.write("/tok", "hunter4", 0o400)
	c, err := m.load(Options{Path: "/etc/sw/c.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if c.NATS.Password.Reveal() != "hunter2" || c.Redis.Password.Reveal() != "hunter3 " {
		t.Errorf("passwords %q %q", c.NATS.Password.Reveal(), c.Redis.Password.Reveal())
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "mode 0644") {
		t.Errorf("warnings %q", c.Warnings)
	}
	if tok, err := c.SecretFile("serve.token_file"); err != nil || tok.Reveal() != "hunter4" {
		t.Errorf("token %v", err)
	}
	if tok, err := c.SecretFile("registry.token_file"); err != nil || tok.Set() {
		t.Errorf("no token: %v", err)
	}
	shown := fmt.Sprint(c.Values())
	for _, secret := range []string{"hunter2", "hunter3", "hunter8", "hunter9"} {
		if strings.Contains(shown, secret) {
			t.Errorf("config show tells %s", secret)
		}
	}
	deferred, err := m.load(Options{Path: "/etc/sw/c.yaml", DeferSecrets: true})
	if err != nil || deferred.NATS.Password.Set() {
		t.Fatalf("deferred: %v", err)
	}
	if err := deferred.ReadSecrets(); err != nil || !deferred.NATS.Password.Set() {
		t.Errorf("read later: %v", err)
	}

	for name, spoil := range map[string]func(){
		"is empty":             func() { m.write("/etc/sw/nats.pw", "\n", 0o600) },
		"more than one line":   func() { m.write("/etc/sw/nats.pw", "a\nb\n", 0o600) },
		"larger than 64 KiB":   func() { m.write("/etc/sw/nats.pw", strings.Repeat("x", maxSecret+1), 0o600) },
		"not a regular file":   func() { m.write("/etc/sw/nats.pw", "", fs.ModeDir|0o700) },
		"is a symbolic link":   func() { m.links["/etc/sw/nats.pw"] = true },
		"file does not exist;": func() { delete(m.links, "/etc/sw/nats.pw"); delete(m.files, "etc/sw/nats.pw") },
	} {
		delete(m.links, "/etc/sw/nats.pw")
		spoil()
		_, err := m.load(Options{Path: "/etc/sw/c.yaml"})
		got := faultsOf(t, err)
		if len(got) != 1 || !strings.HasPrefix(got[0], "/etc/sw/c.yaml:1: nats.password_file: ") || !strings.Contains(got[0], name) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestSystemFiles: on the machine itself, links and FIFOs are no secrets, and
// neither hangs.
func TestSystemFiles(t *testing.T) {
	dir := t.TempDir()
	real, link, fifo := filepath.Join(dir, "pw"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(real, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, warning, fault := readSecret(SystemFiles{}, real); s.Reveal() != "hunter2" || warning != "" || fault != "" {
		t.Errorf("%q %q %q", s.Reveal(), warning, fault)
	}
	for name, want := range map[string]string{link: "is a symbolic link", fifo: "is not a regular file", dir: "is not a regular file", real + "x": "no such file"} {
		if s, _, fault := readSecret(SystemFiles{}, name); s.Set() || !strings.Contains(fault, want) {
			t.Errorf("%s: %q, want %q", name, fault, want)
		}
	}
}

// TestHostileFilesAreReadFast: nesting and repetition cost no more than their size.
func TestHostileFilesAreReadFast(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", maxFileSize/4), strings.Repeat("? ", maxFileSize/8), strings.Repeat("a: b\n", maxFileSize/24),
		strings.Repeat("- ", maxFileSize/8), "ui: {keys: {" + strings.Repeat("a,", maxFileSize/8) + "}}", strings.Repeat("&a ", maxFileSize/12),
	} {
		if _, err := loadText(t, text); err == nil {
			t.Errorf("%.20q is accepted", text)
		}
	}
}

func TestWhichFile(t *testing.T) {
	m := newMachine()
	m.write("/xdg/sessionwatch/config.yaml", "log_file: a.log\n", 0o600)
	m.write("/named.yaml", "log_file: /b.log\n", 0o622)
	expect := func(o Options, path, logFile string) *Config {
		t.Helper()
		c, err := m.load(o)
		if err != nil || c.Path != path || c.LogFile != logFile {
			t.Fatalf("%+v: %v %+v", o, err, c)
		}
		return c
	}
	expect(Options{}, "", "")
	m.env["XDG_CONFIG_HOME"] = "relative"
	expect(Options{}, "", "")
	m.env["XDG_CONFIG_HOME"] = "/xdg"
	expect(Options{}, "/xdg/sessionwatch/config.yaml", "/xdg/sessionwatch/a.log")
	m.env["SESSIONWATCH_CONFIG"] = "/named.yaml"
	if c := expect(Options{}, "/named.yaml", "/b.log"); len(c.Warnings) != 1 {
		t.Errorf("a file that others may write: %q", c.Warnings)
	}
	expect(Options{Path: "-"}, "", "")
	m.env["SESSIONWATCH_CONFIG"] = "/gone.yaml"
	_, err := m.load(Options{})
	if got := faultsOf(t, err); !strings.HasPrefix(got[0], `SESSIONWATCH_CONFIG: cannot open "/gone.yaml": file does not exist`) {
		t.Errorf("%q", got)
	}
	_, err = m.load(Options{Path: "/gone2.yaml"})
	if got := faultsOf(t, err); !strings.HasPrefix(got[0], `--config: cannot open "/gone2.yaml"`) {
		t.Errorf("%q", got)
	}
	m.write("/big.yaml", "# "+strings.Repeat("x", maxFileSize), 0o600)
	_, err = m.load(Options{Path: "/big.yaml"})
	if got := faultsOf(t, err); !strings.Contains(got[0], "is larger than") {
		t.Errorf("%q", got)
	}
}

func TestDumpModes(t *testing.T) {
	tests := map[string]DumpMode{
		"auto":                                   {Kind: DumpAuto},
		"none":                                   {Kind: DumpNone},
		"signal:SIGUSR1":                         {Kind: DumpSignal, Signal: syscall.SIGUSR1},
		`"command:[py-spy, dump, --pid, {pid}]"`: {Kind: DumpCommand, Command: []string{"py-spy", "dump", "--pid", "{pid}"}},
		`{command: [py-spy, dump, --pid, "{pid}"]}`: {Kind: DumpCommand, Command: []string{"py-spy", "dump", "--pid", "{pid}"}},
		`{command: [gdb, -p, {pid}, 8]}`:            {Kind: DumpCommand, Command: []string{"gdb", "-p", "{pid}", "8"}},
		"http:http://127.0.0.1:6060/debug":          {Kind: DumpHTTP, URL: "http://127.0.0.1:6060/debug"},
		"http://127.0.0.1:6060/debug":               {Kind: DumpHTTP, URL: "http://127.0.0.1:6060/debug"},
		"file:dumps/x.txt":                          {Kind: DumpFile, File: "/dumps/x.txt"},
		"{signal: SIGQUIT}":                         {Kind: DumpSignal, Signal: syscall.SIGQUIT},
	}
	for text, want := range tests {
		c := mustLoad(t, "sessions: [{id: a, command: [x, 8080], dump: {mode: "+text+"}}]\n")
		if diff := cmp.Diff(want, c.Sessions[0].Dump.Mode); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
		if c.Sessions[0].Command[1] != "8080" {
			t.Errorf("command %q", c.Sessions[0].Command)
		}
	}
	for _, text := range []string{"auto:x", "file:", "command:x", "command:[]", "\"command:[a\"", "http:ftp://x", "http://u:hunter2@x", "{a: b, c: d}", "[a]", "", "signal:USR1", "signal:SIGKILL", "signal:SIGSTOP"} {
		_, err := loadText(t, "sessions: [{id: a, command: [x], dump: {mode: "+text+"}}]\n")
		if got := faultsOf(t, err); strings.Contains(got[0], "hunter2") {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// FuzzLoad: no text panics; a fault names its place; what is accepted keeps the
// rules and shows no control character.
func FuzzLoad(f *testing.F) {
	f.Add(wholeFile)
	f.Add(Example())
	f.Add("a: &a [*a, *a]\n<<: *a\n? {}\n: [}\n---\n")
	f.Add("nats: {url: \"nats://u:p@h\"}\nsessions: [{id: a, command: [x], dump: {mode: \"command:[a, {pid}]\"}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := loadText(t, text)
		if err != nil {
			for _, one := range faultsOf(t, err) {
				if !strings.HasPrefix(one, "/c.yaml") {
					t.Fatalf("fault without a place: %q", one)
				}
			}
			return
		}
		if errs := c.Policy.Validate(); len(errs) > 0 || c.Registry.TTL < 3*c.Registry.Interval || c.Publish.RedisTTL <= c.Publish.Interval {
			t.Fatalf("accepted against the rules: %v", errs)
		}
		for _, v := range c.Values() {
			if strings.ContainsAny(v.Value, "\n\x1b\x00") {
				t.Fatalf("%s shows a control character: %q", v.Key, v.Value)
			}
		}
	})
}
