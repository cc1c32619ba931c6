package config

import (
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Settings is the configuration as the file spells it, after flags and
// environment were applied. Durations are above zero; file names are absolute
// or relative to the working directory; an empty text or list is "not set".
type Settings struct {
	NATSBlock    NATSBlock
	RedisBlock   RedisBlock
	Contexts     map[string]*Context
	ReadOnly     bool
	Ledger       Ledger
	Policy       watchdog.Policy // with limits
	Publish      Publish
	Sessions     []Session
	RestartGuard RestartGuard
	Serve        Serve
	Registry     Registry
	Commands     Commands
	LateOutput   LateOutput
	Watchdog     Watchdog
	Alerts       Alerts
	UI           UI
	LogFile      string
	DataDir      string // ledger, history, audit file, dumps; empty only if no home directory is known
}

func (s *Settings) fields() []field {
	return []field{
		{"nats", "the NATS servers", &block{s.NATSBlock.fields()}},
		{"redis", "the Redis server, its sentinels or its cluster", &block{s.RedisBlock.fields()}},
		{"contexts", "named clusters for --context; each may hold nats, redis and read_only, and replaces all three", &named[Context]{&s.Contexts, (*Context).fields}},
		{"read_only", "refuse every action and write nothing on any bus", boolean(&s.ReadOnly, false)},
		{"ledger", "where the terminal records are: auto, jetstream, redis, file", choice(&s.Ledger, LedgerAuto, LedgerAuto, LedgerJetStream, LedgerRedis, LedgerFile)},
		{"policy", "when a session counts as silent, stalled, lost", &block{policyFields(&s.Policy)}},
		{"publish", "the beats of supervised sessions", &block{s.Publish.fields()}},
		{"sessions", "commands to supervise", &blocks[Session]{&s.Sessions, (*Session).fields}},
		{"restart_guard", "when restarting is given up", &block{s.RestartGuard.fields()}},
		{"serve", "sessionwatch serve", &block{s.Serve.fields()}},
		{"registry", "sessions that beat over HTTP, and their reaper", &block{s.Registry.fields()}},
		{"commands", "who may stop and restart sessions over a bus", &block{s.Commands.fields()}},
		{"limits", "unknown session ids beyond these are shed; known ones never", &block{limitFields(&s.Policy)}},
		{"late_output", "output after an involuntary end: quarantine, reject", choice(&s.LateOutput, LateQuarantine, LateQuarantine, LateReject)},
		{"watchdog", "the watchdog over our own loops", &block{s.Watchdog.fields()}},
		{"alerts", "how alerts leave the screen", &block{s.Alerts.fields()}},
		{"ui", "the screen", &block{s.UI.fields()}},
		{"log_file", "our own log; empty: none while the screen is up", filePath(&s.LogFile)},
		{"data_dir", "ledger, history, audit.jsonl, dumps/; empty: $XDG_STATE_HOME/sessionwatch", filePath(&s.DataDir)},
	}
}

// TLSFiles are the files of a TLS client or server.
type TLSFiles struct {
	CAFile, CertFile, KeyFile string
}

// Set reports whether any file is named.
func (t TLSFiles) Set() bool { return t != TLSFiles{} }

func (t *TLSFiles) fields() []field {
	return []field{
		{"ca_file", "certificates to trust; empty: those of the system", filePath(&t.CAFile)},
		{"cert_file", "our own certificate", filePath(&t.CertFile)},
		{"key_file", "its private key", filePath(&t.KeyFile)},
	}
}

// NATSBlock is the nats block; Config.NATS is what to connect to.
type NATSBlock struct {
	URL                                                string
	URLs                                               []string
	CredsFile, NKeyFile, User, PasswordFile, TokenFile string
	TLS                                                TLSFiles
}

func (n *NATSBlock) fields() []field {
	return []field{
		{"url", "nats://, tls://, ws:// or wss://; - for none", text(&n.URL, "nats://localhost:4222")},
		{"urls", "several servers of one cluster, instead of url", texts(&n.URLs)},
		{"creds_file", "a NATS credentials file", filePath(&n.CredsFile)},
		{"nkey_file", "an NKey seed", filePath(&n.NKeyFile)},
		{"user", "with password_file", text(&n.User, "")},
		{"password_file", "a file that holds the password alone", filePath(&n.PasswordFile)},
		{"token_file", "a file that holds a token alone", filePath(&n.TokenFile)},
		{"tls", "certificates for NATS", &block{n.TLS.fields()}},
	}
}

// RedisBlock is the redis block; Config.Redis is what to connect to.
type RedisBlock struct {
	URL          string
	Addrs        []string
	MasterName   string
	Cluster      bool
	Username     string
	PasswordFile string
	TLS          TLSFiles
	PollInterval time.Duration
}

func (r *RedisBlock) fields() []field {
	return []field{
		{"url", "redis://host:6379/0 or rediss:// for TLS; - for none", text(&r.URL, "redis://localhost:6379")},
		{"addrs", "host:port of sentinels or cluster nodes, instead of url; rediss://host:port for TLS", texts(&r.Addrs)},
		{"master_name", "the master that the sentinels in addrs watch", text(&r.MasterName, "")},
		{"cluster", "the servers form a Redis Cluster", boolean(&r.Cluster, false)},
		{"username", "an ACL user, with password_file", text(&r.Username, "")},
		{"password_file", "a file that holds the password alone", filePath(&r.PasswordFile)},
		{"tls", "certificates for Redis", &block{r.TLS.fields()}},
		{"poll_interval", "how often liveness keys are read; under policy.redis_ttl", duration(&r.PollInterval, 2*time.Second)},
	}
}

// Context is a named cluster. A nil block is "none".
type Context struct {
	NATS     *NATSBlock
	Redis    *RedisBlock
	ReadOnly bool
}

func (c *Context) fields() []field {
	return []field{
		{"nats", "as nats above; absent: none", &optional[NATSBlock]{&c.NATS, (*NATSBlock).fields}},
		{"redis", "as redis above; absent: none", &optional[RedisBlock]{&c.Redis, (*RedisBlock).fields}},
		{"read_only", "as read_only above", boolean(&c.ReadOnly, false)},
	}
}

// Ledger is where terminal records are kept.
type Ledger string

// The ledgers.
const (
	LedgerAuto      Ledger = "auto"
	LedgerJetStream Ledger = "jetstream"
	LedgerRedis     Ledger = "redis"
	LedgerFile      Ledger = "file"
)

// LateOutput is what becomes of output after an involuntary end.
type LateOutput string

// The ways to treat late output.
const (
	LateQuarantine LateOutput = "quarantine"
	LateReject     LateOutput = "reject"
)

// policyFields bind straight to the policy of the core, whose defaults they take.
func policyFields(p *watchdog.Policy) []field {
	def := watchdog.DefaultPolicy()
	return []field{
		{"heartbeat_interval", "expected of producers that do not say, until learned", duration(&p.HeartbeatInterval, def.HeartbeatInterval)},
		{"redis_ttl", "lifetime of the liveness keys", duration(&p.RedisTTL, def.RedisTTL)},
		{"stall_timeout", "without work; WATCHDOG_STALL_TIMEOUT replaces only the built-in value", duration(&p.StallTimeout, def.StallTimeout)},
		{"silent_after_missed", "intervals without a beat, plus 20 %", integer(&p.SilentAfterMissed, def.SilentAfterMissed, 1, 1000)},
		{"lost_after", "without a beat, at least", duration(&p.LostAfter, def.LostAfter)},
		{"lost_after_missed", "beats; 5 across zones", integer(&p.LostAfterMissed, def.LostAfterMissed, 1, 1000)},
		{"quiet", "beats go on, nothing visible changes: notice, stalled, ignore", quiet(&p.Quiet, def.Quiet)},
		{"max_wait", "caps the waits that publishers declare", duration(&p.MaxWait, def.MaxWait)},
		{"loop_lag_limit", "beyond it an event loop is wedged", duration(&p.LoopLagLimit, def.LoopLagLimit)},
		{"sweep_interval", "between two passes that settle the lost", duration(&p.SweepInterval, def.SweepInterval)},
		{"sweep_batch", "generations a pass", integer(&p.SweepBatch, def.SweepBatch, 1, 1_000_000)},
		{"sweep_timeout", "of one pass", duration(&p.SweepTimeout, def.SweepTimeout)},
		{"brake_share", "of the live that may go silent together before settling is held", share(&p.BrakeShare, def.BrakeShare)},
		{"brake_hold", "how long a group that went silent together is held", duration(&p.BrakeHold, def.BrakeHold)},
		{"overrides", "other thresholds for the ids that match a pattern", &blocks[watchdog.Override]{&p.Overrides, overrideFields}},
	}
}

func quiet(dst *watchdog.QuietMode, def watchdog.QuietMode) value {
	return choice(dst, def, watchdog.QuietNotice, watchdog.QuietStalled, watchdog.QuietIgnore)
}

func overrideFields(o *watchdog.Override) []field {
	return []field{
		{"match", "a pattern on the id, such as batch-*", text(&o.Match, "")},
		{"stall_timeout", "as in policy", duration(&o.StallTimeout, 0)},
		{"quiet", "as in policy", quiet(&o.Quiet, "")},
		{"heartbeat_interval", "as in policy; here it makes the cadence known", duration(&o.HeartbeatInterval, 0)},
	}
}

func limitFields(p *watchdog.Policy) []field {
	def := watchdog.DefaultPolicy()
	return []field{
		{"sessions", "known at once", integer(&p.MaxSessions, def.MaxSessions, 1, 100_000_000)},
		{"new_per_second", "first seen within a second", integer(&p.MaxNewPerSecond, def.MaxNewPerSecond, 1, 100_000_000)},
	}
}

// Publish paces the beats that we publish for supervised sessions.
type Publish struct {
	Interval time.Duration
	RedisTTL time.Duration // above Interval
}

func (p *Publish) fields() []field {
	return []field{
		{"interval", "between two beats", duration(&p.Interval, 30*time.Second)},
		{"redis_ttl", "lifetime of the liveness key; above interval", duration(&p.RedisTTL, 60*time.Second)},
	}
}

// RestartGuard says when restarting is given up.
type RestartGuard struct {
	Burst                  int           // failures of a chain at which a session is held
	Window                 time.Duration // a run shorter than this joins the chain
	BackoffMin, BackoffMax time.Duration
	Fleet                  FleetGuard
}

// FleetGuard holds all restarts when too much fails at once.
type FleetGuard struct {
	PerHour int
	Failing float64 // share of the sessions
	Hold    time.Duration
}

func (g *RestartGuard) fields() []field {
	return []field{
		{"burst", "failures in a row at which a session is held as a crash loop", integer(&g.Burst, 3, 1, 1000)},
		{"window", "a failure counts as in a row if the run was shorter", duration(&g.Window, 60*time.Second)},
		{"backoff_min", "before the first restart", duration(&g.BackoffMin, time.Second)},
		{"backoff_max", "the back-off doubles up to this", duration(&g.BackoffMax, 60*time.Second)},
		{"fleet", "holds all restarts when too much fails at once", &block{[]field{
			{"per_hour", "more restarts than this within an hour", integer(&g.Fleet.PerHour, 40, 1, 1_000_000)},
			{"failing", "or this share of the sessions failing", share(&g.Fleet.Failing, 0.5)},
			{"hold", "how long", duration(&g.Fleet.Hold, 120*time.Second)},
		}}},
	}
}

// Serve is sessionwatch serve.
type Serve struct {
	Listen       string // host:port
	TokenFile    string
	TLS          TLSFiles // without CAFile
	AllowedHosts []string // of the Host header, besides the own address
}

func (s *Serve) fields() []field {
	return []field{
		{"listen", "host:port of registry, health, metrics and view; - for none", textLike(&s.Listen, "127.0.0.1:7077", "host:port", checkListen)},
		{"token_file", "a file that holds the bearer token of the view", filePath(&s.TokenFile)},
		{"tls", "certificate of the server", &block{s.TLS.fields()[1:]}},
		{"allowed_hosts", "further names that the Host header may hold", texts(&s.AllowedHosts)},
	}
}

// Registry is the HTTP registry and its reaper.
type Registry struct {
	TokenFile      string
	Interval, TTL  time.Duration // TTL at least 3 x Interval
	ReapInterval   time.Duration
	Release        []string // argv; empty: no hook
	ReleaseTimeout time.Duration
}

func (r *Registry) fields() []field {
	return []field{
		{"token_file", "a file that holds the bearer token; empty: a random one in data_dir", filePath(&r.TokenFile)},
		{"interval", "between two heartbeats of a client", duration(&r.Interval, 15*time.Second)},
		{"ttl", "without a heartbeat a session is reaped; at least 3 x interval, 5 x across zones", duration(&r.TTL, 45*time.Second)},
		{"reap_interval", "between two passes of the reaper", duration(&r.ReapInterval, 15*time.Second)},
		{"release", "command that frees what a reaped session held: [argv]", argv(&r.Release)},
		{"release_timeout", "of that command", duration(&r.ReleaseTimeout, 10*time.Second)},
	}
}

// Commands says whose commands are obeyed.
type Commands struct {
	PublicKeys     []PublicKey
	SigningKeyFile string
	TrustLoopback  bool
	Lease          time.Duration
	MaxDeliveries  int
}

func (c *Commands) fields() []field {
	return []field{
		{"public_keys", "whose signed commands are obeyed: [\"ops1:BASE64\"], Ed25519", &list[PublicKey]{dst: &c.PublicKeys, item: publicKey}},
		{"signing_key_file", "the key with which our own commands are signed", filePath(&c.SigningKeyFile)},
		{"trust_loopback", "obey unsigned commands from a server on this machine", boolean(&c.TrustLoopback, false)},
		{"lease", "how long a receiver may hold a command", duration(&c.Lease, 60*time.Second)},
		{"max_deliveries", "tries before a command is undeliverable", integer(&c.MaxDeliveries, 3, 1, 100)},
	}
}

// Watchdog is the watchdog over our own screen loop and engine loop.
type Watchdog struct {
	Enabled          bool
	LivenessInterval time.Duration
	LivenessStrikes  int
	OnWedge          OnWedge
	ExitCode         int
	DumpFile         string // empty: in data_dir

	// Configured reports whether the file has the block or a flag set it:
	// /health shows one only then.
	Configured bool
}

// OnWedge is what the watchdog does on a wedge.
type OnWedge string

// The reactions to a wedge.
const (
	DumpAndExit OnWedge = "dump_and_exit"
	DumpOnly    OnWedge = "dump_only"
)

func (w *Watchdog) fields() []field {
	return []field{
		{"enabled", "true, yes, on or false, no, off", looseBoolean(&w.Enabled, true)},
		{"liveness_interval", "between two probes", duration(&w.LivenessInterval, 5*time.Second)},
		{"liveness_strikes", "probes in a row that did not come back", integer(&w.LivenessStrikes, 3, 1, 1000)},
		{"on_wedge", "dump_and_exit or dump_only", choice(&w.OnWedge, DumpAndExit, DumpAndExit, DumpOnly)},
		{"exit_code", "75 asks a supervisor to restart us", integer(&w.ExitCode, 75, 1, 255)},
		{"dump_file", "is appended to; empty: a file in data_dir/dumps", filePath(&w.DumpFile)},
	}
}

// Alerts is how alerts leave the screen.
type Alerts struct {
	Bell, Desktop bool
	Webhook       string   // may be a secret: see Redact
	Command       []string // argv; empty: none
	Timeout       time.Duration
}

func (a *Alerts) fields() []field {
	return []field{
		{"bell", "ring the terminal's bell", boolean(&a.Bell, true)},
		{"desktop", "desktop notice through the terminal", boolean(&a.Desktop, false)},
		{"webhook", "URL that is posted to", webhook(&a.Webhook)},
		{"command", "[argv] that is run", argv(&a.Command)},
		{"timeout", "of webhook and command", duration(&a.Timeout, 5*time.Second)},
	}
}

// UI is the screen.
type UI struct {
	Theme Theme
	ASCII bool
	Mouse bool
	Hints bool
	Keys  map[string]string // action to key; the screen knows both
	// Columns are those that are shown, whatever the width; the screen knows them.
	Columns []string
}

// Theme is a set of colours.
type Theme string

// The themes.
const (
	ThemeAuto     Theme = "auto"
	ThemeDark     Theme = "dark"
	ThemeLight    Theme = "light"
	ThemeMono     Theme = "mono"
	ThemeContrast Theme = "contrast"
	ThemeNone     Theme = "none"
)

func (u *UI) fields() []field {
	return []field{
		{"theme", "auto, dark, light, mono, contrast, none", choice(&u.Theme, ThemeAuto, ThemeAuto, ThemeDark, ThemeLight, ThemeMono, ThemeContrast, ThemeNone)},
		{"ascii", "no characters beyond ASCII", boolean(&u.ASCII, false)},
		{"mouse", "take the mouse from the terminal", boolean(&u.Mouse, false)},
		{"hints", "point out keys until they are known", boolean(&u.Hints, true)},
		{"columns", "the columns that are shown, such as [for, beat, host]; none: the width says", texts(&u.Columns)},
		{"keys", "other keys: {action: key}", &textMap{dst: &u.Keys, check: func(name string) string {
			if name == "" || len(name) > 64 {
				return quoted(name) + " is not an action; the names stand in the help (?)"
			}
			return ""
		}}},
	}
}
