package config

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/spelling"
)

// Config is the whole configuration: the settings after flags and environment
// were applied, and what they mean for those who connect. It is not changed
// after Load, but by ReadSecrets.
type Config struct {
	Settings

	NATS  NATS
	Redis Redis

	Path     string   // of the file that was read; empty: none
	Context  string   // the chosen one; empty: none
	Warnings []string // sentences on what is allowed but hardly meant

	files   Files
	lines   map[string]int
	origins map[string]string
	paths   busPaths
}

// busPaths say where in the file the chosen blocks stand.
type busPaths struct{ nats, redis string }

// Flag is a flag that was given on the command line; flags that were not given
// must not be passed.
type Flag struct {
	Name  string // as people write it: "--nats"
	Key   string // the setting: "nats.url"
	Value string
}

// KeyWatchdogTimeout is the Key of --watchdog-timeout: a budget in seconds
// that is spread over the strikes and enables the watchdog.
const KeyWatchdogTimeout = "watchdog.timeout"

// Options are where the configuration comes from.
type Options struct {
	Path    string // --config; empty: as the environment says; "-": no file
	Context string // --context; empty: none
	Flags   []Flag

	Getenv func(string) string // nil: os.Getenv
	Files  Files               // nil: SystemFiles

	// DeferSecrets leaves password and token files unread until ReadSecrets,
	// so that a screen can draw before it reads them.
	DeferSecrets bool
}

// loader is one run of Load.
type loader struct {
	Options
	d     *decoder
	c     *Config
	root  *block
	nats  map[string]NATS // of the contexts
	redis map[string]Redis
}

// Load reads the configuration. What is wrong with it comes back as *Faults,
// all at once; then the Config is nil.
func Load(o Options) (*Config, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Files == nil {
		o.Files = SystemFiles{}
	}
	l := &loader{Options: o, c: &Config{files: o.Files, origins: map[string]string{}}}
	l.root = &block{l.c.Settings.fields()}
	l.root.reset()
	l.readFile()
	l.c.lines = l.d.lines
	l.readBuses()
	l.applyEnvironment()
	l.applyContext()
	l.applyFlags()
	l.finish()
	if err := faultsError(l.d.faults); err != nil {
		return nil, err
	}
	l.c.Warnings = append(l.c.Warnings, l.c.Settings.warnings()...)
	if !o.DeferSecrets {
		if err := l.c.ReadSecrets(); err != nil {
			return nil, err
		}
	}
	return l.c, nil
}

// Locate gives the configuration file that Load would read, and who named it;
// named is empty for the default place, where no file need be.
func Locate(o Options) (path, named string) {
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	if o.Path != "" {
		return o.Path, "--config"
	}
	if p := getenv("SESSIONWATCH_CONFIG"); p != "" {
		return p, "SESSIONWATCH_CONFIG"
	}
	if dir := baseDir(getenv, "XDG_CONFIG_HOME", ".config"); dir != "" {
		return filepath.Join(dir, "config.yaml"), ""
	}
	return None, ""
}

// baseDir is our directory below one of the XDG base directories; empty if
// neither the variable nor HOME says where that is.
func baseDir(getenv func(string) string, variable, below string) string {
	if dir := getenv(variable); filepath.IsAbs(dir) { // others are to be ignored
		return filepath.Join(dir, "sessionwatch")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, below, "sessionwatch")
	}
	return ""
}

// readFile decodes the file into the settings.
func (l *loader) readFile() {
	path, named := Locate(l.Options)
	if path == None {
		l.d = newDecoder("", l.Getenv("HOME"))
		return
	}
	l.d = newDecoder(path, l.Getenv("HOME"))
	l.d.groups = l.c.Settings.groups()
	f, err := l.Files.Open(path, false)
	if named == "" && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		place := named
		if place == "" {
			place = path
		}
		l.d.faultElsewhere(place, "cannot open %s: %s; correct the name, or run: sessionwatch config init", quoted(path), reason(err))
		return
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		l.d.faultElsewhere(path, "cannot read the configuration: %s", reason(err))
		return
	}
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode().IsRegular() {
		l.c.Warnings = append(l.c.Warnings, quoted(path)+" may be changed by others, and it says which commands are run; run chmod go-w on it")
	}
	l.c.Path = path
	l.d.decode(data, l.root)
}

// groups maps each key below a top block to "block:", for hints.
func (s *Settings) groups() map[string][]string {
	out := map[string][]string{}
	for _, f := range s.fields() {
		if b, ok := f.value.(*block); ok {
			for _, name := range b.names() {
				out[name] = append(out[name], f.name+":")
			}
		}
	}
	return out
}

// readBuses checks the buses that the file names, chosen or not.
func (l *loader) readBuses() {
	s := &l.c.Settings
	l.c.NATS = l.d.nats("nats", &s.NATSBlock, false)
	l.c.Redis = l.d.redis("redis", &s.RedisBlock, false)
	l.c.paths = busPaths{"nats", "redis"}
	l.nats, l.redis = map[string]NATS{}, map[string]Redis{}
	for _, name := range slices.Sorted(maps.Keys(s.Contexts)) {
		c, path := s.Contexts[name], "contexts."+name
		if c.NATS == nil && c.Redis == nil {
			l.d.complain(path, path, "names no server; give nats or redis")
			continue
		}
		l.nats[name], l.redis[name] = NATS{Address: None}, Redis{Address: None}
		if c.NATS != nil {
			l.nats[name] = l.d.nats(path+".nats", c.NATS, true)
		}
		if c.Redis != nil {
			l.redis[name] = l.d.redis(path+".redis", c.Redis, true)
		}
	}
	l.checkPolling()
}

// applyEnvironment puts the environment over the file, but for
// WATCHDOG_STALL_TIMEOUT, which only replaces the built-in value.
func (l *loader) applyEnvironment() {
	if t := l.Getenv("NATS_URL"); t != "" && !l.overruled("nats.url") {
		l.overrideNATS("NATS_URL", t, true)
	}
	if t := l.Getenv("REDIS_URL"); t != "" && !l.overruled("redis.url") {
		l.overrideRedis("REDIS_URL", t, true)
	}
	if t := l.Getenv("WATCHDOG_STALL_TIMEOUT"); t != "" {
		d, fault := seconds(t)
		if fault != "" {
			l.d.faultElsewhere("WATCHDOG_STALL_TIMEOUT", "%s", fault)
		} else if l.d.lines["policy.stall_timeout"] == 0 {
			l.c.Policy.StallTimeout = d
			l.c.origins["policy.stall_timeout"] = "WATCHDOG_STALL_TIMEOUT"
		}
	}
}

// overruled reports whether a flag or context decides the key, so that the
// environment does not matter, not even for its faults or its login.
func (l *loader) overruled(key string) bool {
	return l.Context != "" || slices.ContainsFunc(l.Flags, func(f Flag) bool { return f.Key == key })
}

func (l *loader) overrideNATS(place, t string, secretsAllowed bool) {
	n, b := &l.c.NATS, &l.c.NATSBlock
	l.c.origins["nats.url"], l.c.origins["nats.urls"] = place, place
	b.URLs, n.URLs, n.Origin = nil, nil, place
	if t == None {
		b.URL, n.Address = None, None
		return
	}
	texts := strings.Split(t, ",")
	for i := range texts {
		texts[i] = strings.TrimSpace(texts[i])
	}
	a, fault := parseNATS(texts)
	if fault == "" && a.secretive && !secretsAllowed {
		fault = "holds a password or token, which every user of this machine could read; use NATS_URL, or a file named in the configuration"
	}
	if fault != "" {
		l.d.faultElsewhere(place, "%s", fault)
		return
	}
	b.URL = strings.Join(a.urls, ",")
	n.URLs, n.Address = a.urls, b.URL
	if a.user != "" || a.token != "" { // this login replaces that of the file
		*b = NATSBlock{URL: b.URL, User: a.user, TLS: b.TLS}
		n.CredsFile, n.NKeyFile, n.passwordFile, n.tokenFile = "", "", "", ""
		n.User, n.Password, n.Token = a.user, Secret{a.password}, Secret{a.token}
		l.c.origins["nats.user"], l.c.origins["nats.password"], l.c.origins["nats.token"] = place, place, place
	}
}

func (l *loader) overrideRedis(place, t string, secretsAllowed bool) {
	r, b := &l.c.Redis, &l.c.RedisBlock
	l.c.origins["redis.url"], l.c.origins["redis.addrs"] = place, place
	b.Addrs, r.Addrs, r.Origin, b.MasterName, r.MasterName = nil, nil, place, "", ""
	if t == None {
		b.URL, r.Address = None, None
		return
	}
	a, fault := parseRedis(t)
	switch {
	case fault != "":
	case a.secretive && !secretsAllowed:
		fault = "holds a password, which every user of this machine could read; use REDIS_URL, or a file named in the configuration"
	case a.db != 0 && r.Cluster:
		fault = "names a database, but redis.cluster is true and a cluster has 0 alone; remove what follows the port"
	case a.user != "" && a.password == "" && r.passwordFile == "":
		fault = "the user has no password; use REDIS_URL, or name a file in redis.password_file"
	}
	if fault != "" {
		l.d.faultElsewhere(place, "%s", fault)
		return
	}
	b.URL = a.display()
	r.Addrs, r.UseTLS, r.DB, r.Address = []string{a.addr}, a.tls, a.db, b.URL
	if a.user != "" {
		b.Username, r.Username = a.user, a.user
		l.c.origins["redis.username"] = place
	}
	if a.password != "" { // this login replaces that of the file
		b.Username, b.PasswordFile, r.passwordFile = a.user, "", ""
		r.Username, r.Password = a.user, Secret{a.password}
		l.c.origins["redis.username"], l.c.origins["redis.password"] = place, place
	}
}

// applyContext replaces nats, redis and read_only by those of the chosen context.
func (l *loader) applyContext() {
	name := l.Context
	if name == "" {
		return
	}
	s := &l.c.Settings
	chosen := s.Contexts[name]
	if chosen == nil {
		names := slices.Sorted(maps.Keys(s.Contexts))
		has := "the configuration has no contexts; add one under contexts:"
		if len(names) > 0 {
			has = "the configuration has " + listed(names) + spelling.DidYouMean(name, names)
		}
		l.d.faultElsewhere("--context", "%s is not known; %s", quoted(name), has)
		return
	}
	place := "context " + name
	l.c.Context, l.c.NATS, l.c.Redis = name, l.nats[name], l.redis[name]
	l.c.NATS.Origin, l.c.Redis.Origin = place, place
	s.NATSBlock, s.RedisBlock = NATSBlock{URL: None}, RedisBlock{URL: None, PollInterval: s.RedisBlock.PollInterval}
	if chosen.NATS != nil {
		s.NATSBlock = *chosen.NATS
	}
	if chosen.Redis != nil {
		s.RedisBlock = *chosen.Redis
	}
	path := "contexts." + name
	l.c.paths = busPaths{path + ".nats", path + ".redis"}
	for _, key := range []string{"nats.url", "nats.urls", "redis.url", "redis.addrs"} {
		l.c.origins[key] = place
	}
	l.root.leaves("", func(key string, _ leaf) {
		below, _, _ := strings.Cut(key, ".")
		if below != "nats" && below != "redis" {
			return
		}
		switch {
		case l.d.lines[path+"."+key] > 0:
			l.c.origins[key] = place
		case l.c.origins[key] == "":
			l.c.origins[key] = "default"
		}
	})
	// A context that does not say keeps what stands above: never less safe.
	if l.d.lines[path+".read_only"] > 0 {
		s.ReadOnly = chosen.ReadOnly
		l.c.origins["read_only"] = place
	}
}

// applyFlags puts the flags over everything else.
func (l *loader) applyFlags() {
	leaves := map[string]leaf{}
	l.root.leaves("", func(key string, v leaf) { leaves[key] = v })
	for _, f := range l.Flags {
		switch f.Key {
		case "nats.url":
			if l.beatsContext(f, l.c.NATS.Address) {
				l.overrideNATS(f.Name, f.Value, false)
			}
		case "redis.url":
			if l.beatsContext(f, l.c.Redis.Address) {
				l.overrideRedis(f.Name, f.Value, false)
			}
		case KeyWatchdogTimeout:
			l.watchdogTimeout(f)
		default:
			v, ok := leaves[f.Key].(texter)
			if !ok {
				l.d.faultElsewhere(f.Name, "no flag can set %s; set it in the file", quoted(f.Key))
				continue
			}
			if fault := v.parse(f.Value); fault != "" {
				l.d.faultElsewhere(f.Name, "%s", fault)
			}
			l.c.origins[f.Key] = f.Name
			delete(l.d.bad, f.Key)
		}
		l.c.Watchdog.Configured = l.c.Watchdog.Configured || strings.HasPrefix(f.Key, "watchdog.")
	}
}

// beatsContext complains if an address flag contradicts a chosen context, whose
// login must not go to another server.
func (l *loader) beatsContext(f Flag, contextAddress string) bool {
	if l.c.Context == "" || f.Value == None || contextAddress == None {
		return true
	}
	l.d.faultElsewhere(f.Name, "--context %s says already where that is; give one of the two", l.c.Context)
	return false
}

func (l *loader) watchdogTimeout(f Flag) {
	budget, fault := seconds(f.Value)
	w := &l.c.Watchdog
	interval := budget / time.Duration(w.LivenessStrikes)
	if fault == "" && interval <= 0 {
		fault = quoted(f.Value) + " is too short for " + strconv.Itoa(w.LivenessStrikes) + " probes; give more seconds"
	}
	if fault != "" {
		l.d.faultElsewhere(f.Name, "%s", fault)
		return
	}
	w.Enabled, w.LivenessInterval = true, interval
	l.c.origins["watchdog.enabled"], l.c.origins["watchdog.liveness_interval"] = f.Name, f.Name
}

// finish fills in what rests on other settings and checks the rules between keys.
func (l *loader) finish() {
	s := &l.c.Settings
	if l.d.lines["watchdog"] > 0 {
		s.Watchdog.Configured = true
	}
	s.Policy.RegistryTTL, s.Policy.RejectLate = s.Registry.TTL, s.LateOutput == LateReject
	for i := range s.Sessions {
		if s.Sessions[i].StallTimeout == 0 {
			s.Sessions[i].StallTimeout = s.Policy.StallTimeout
		}
	}
	if s.DataDir == "" {
		s.DataDir = baseDir(l.Getenv, "XDG_STATE_HOME", ".local/state")
	}
	l.c.NATS.Origin = l.addressOrigin(l.c.NATS.Origin, "nats.url", "nats.urls")
	l.c.Redis.Origin = l.addressOrigin(l.c.Redis.Origin, "redis.url", "redis.addrs")
	l.d.check(s, l.c.place)
}

// addressOrigin is the origin of an address that no flag, variable or context set.
func (l *loader) addressOrigin(set, one, many string) string {
	if set != "" {
		return set
	}
	if l.d.lines[many] > 0 && l.d.lines[one] == 0 {
		return l.c.Origin(many)
	}
	return l.c.Origin(one)
}

// checkPolling compares each poll interval of the file with the lifetime of the keys.
func (l *loader) checkPolling() {
	s := &l.c.Settings
	check := func(path string, b *RedisBlock) {
		if b.PollInterval >= s.Policy.RedisTTL {
			l.d.blame(rule{
				[]string{path + ".poll_interval", "policy.redis_ttl"},
				formatDuration(b.PollInterval) + " is not under policy.redis_ttl " + formatDuration(s.Policy.RedisTTL) +
					", so keys come and go unseen; lower poll_interval",
			}, l.c.place)
		}
	}
	check("redis", &s.RedisBlock)
	for _, name := range slices.Sorted(maps.Keys(s.Contexts)) {
		if b := s.Contexts[name].Redis; b != nil {
			check("contexts."+name+".redis", b)
		}
	}
}
