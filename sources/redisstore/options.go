package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Defaults of the options.
const (
	DefaultURL          = "redis://localhost:6379"
	DefaultPollInterval = 2 * time.Second
	DefaultMaxKeys      = 250_000
)

// Options say which Redis to talk to and how often. The zero value means
// DefaultURL with every default.
type Options struct {
	URL        string   // redis://, rediss:// (TLS) or unix://; a password in it is never shown
	Addrs      []string // host:port of the Cluster's seeds or of the sentinels; replaces the URL's host
	MasterName string   // set: Addrs are sentinels that know this master
	Cluster    bool     // the servers form a Redis Cluster

	Username         string // an ACL user; replaces the URL's
	Password         string // replaces the URL's
	PasswordFile     string // read at Open; its last line break is cut; replaces Password
	SentinelUsername string
	SentinelPassword string
	DB               int // 0: the URL's

	TLS TLSOptions

	Origin       string        // where the address came from, for people: default, file, flag, REDIS_URL
	PollInterval time.Duration // 2 s
	RedisTTL     time.Duration // the TTL that publishers give their keys (policy.redis_ttl); 60 s
	MaxKeys      int           // keys watched at most; 250,000
	ReadOnly     bool          // a Publisher is refused
}

// TLSOptions are needed only if the system's roots do not know the server, or
// if the server asks for a certificate.
type TLSOptions struct {
	Enabled  bool   // also without a rediss:// URL
	CAFile   string // PEM; replaces the system's roots; switches TLS on
	CertFile string // PEM, with KeyFile: our own certificate
	KeyFile  string
}

// target is a checked Options: what the client library needs, and what people
// may see of it.
type target struct {
	Options
	network  string
	addr     string // of a single server
	username string
	password string
	db       int
	tls      *tls.Config
	display  string // redacted
	sockets  int    // of one server, at most; 0 is maxSockets
}

func (t *target) socketLimit() int {
	if t.sockets == 0 {
		return maxSockets
	}
	return t.sockets
}

// resolve checks o and reads its files. Its errors say what to change and never
// contain a password.
func (o Options) resolve() (*target, error) {
	o = o.withDefaults()
	t := &target{Options: o}
	var errs []error
	errs = append(errs, t.readURL(), t.readCredentials(), t.readTLS(), t.checkPlan())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t.display = t.redacted()
	return t, nil
}

func (o Options) withDefaults() Options {
	if o.URL == "" {
		o.URL = DefaultURL
	}
	if o.PollInterval == 0 {
		o.PollInterval = DefaultPollInterval
	}
	if o.RedisTTL == 0 {
		o.RedisTTL = watchdog.DefaultPolicy().RedisTTL
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	return o
}

func (t *target) readURL() error {
	parsed, err := redis.ParseURL(t.URL)
	if err != nil {
		// The reason may quote the URL, and with it a part of the password.
		return fmt.Errorf("redis.url cannot be read; write redis://host:6379, rediss://host:6379 or unix:///path, "+
			"and percent-encode %s in a password", "/ ? # @ %")
	}
	t.network, t.addr, t.username, t.password, t.db, t.tls =
		parsed.Network, parsed.Addr, parsed.Username, parsed.Password, parsed.DB, parsed.TLSConfig
	return nil
}

func (t *target) readCredentials() error {
	if t.Username != "" {
		t.username = t.Username
	}
	if t.Password != "" {
		t.password = t.Password
	}
	if t.DB != 0 {
		t.db = t.DB
	}
	if t.PasswordFile == "" {
		return nil
	}
	text, err := os.ReadFile(t.PasswordFile)
	if err != nil {
		return fmt.Errorf("redis.password_file cannot be read: %w", err)
	}
	t.password = strings.TrimRight(string(text), "\r\n")
	if t.password == "" {
		return fmt.Errorf("redis.password_file: %s is empty; write the password into it", t.PasswordFile)
	}
	return nil
}

func (t *target) readTLS() error {
	o := t.Options.TLS
	if t.tls == nil && !o.Enabled && o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" {
		return nil
	}
	if t.tls == nil {
		t.tls = &tls.Config{}
	}
	t.tls.MinVersion = tls.VersionTLS12
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return fmt.Errorf("redis.tls.ca_file cannot be read: %w", err)
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("redis.tls.ca_file: %s holds no PEM certificate", o.CAFile)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("redis.tls: cert_file and key_file belong together; give both or neither")
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return fmt.Errorf("redis.tls: cert_file and key_file cannot be used: %w", err)
		}
		t.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// checkPlan finds what does not fit together.
func (t *target) checkPlan() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t.PollInterval < 0 {
		bad("redis.poll_interval: %v is not above 0", t.PollInterval)
	}
	if t.RedisTTL < 0 {
		bad("policy.redis_ttl: %v is not above 0", t.RedisTTL)
	}
	if t.PollInterval >= t.RedisTTL && t.RedisTTL > 0 {
		bad("redis.poll_interval: %v must be under the TTL of the keys, %v, or a key can come and go between two polls", t.PollInterval, t.RedisTTL)
	}
	if t.MaxKeys < 0 {
		bad("limits.sessions: %d is not above 0", t.MaxKeys)
	}
	if t.MasterName != "" && t.Cluster {
		bad("redis: master_name (sentinel) and cluster exclude each other; leave one out")
	}
	if t.MasterName != "" && len(t.Addrs) == 0 {
		bad("redis.addrs: is empty; with master_name it must list the sentinels as host:port")
	}
	if t.Cluster && t.db != 0 {
		bad("redis: a Cluster has database 0 only, not %d", t.db)
	}
	if len(t.Addrs) > 1 && t.MasterName == "" && !t.Cluster {
		bad("redis.addrs: lists several servers; say cluster: true or give the sentinels' master_name")
	}
	for _, a := range t.Addrs {
		if _, _, err := net.SplitHostPort(a); err != nil {
			bad("redis.addrs: %q is not host:port", a)
		}
	}
	return errors.Join(errs...)
}

// seeds are the addresses to start from.
func (t *target) seeds() []string {
	if len(t.Addrs) > 0 {
		return t.Addrs
	}
	return []string{t.addr}
}

// redacted is the address as people may see it.
func (t *target) redacted() string {
	hosts := strings.Join(t.seeds(), ",")
	switch {
	case t.MasterName != "":
		return "sentinel " + t.MasterName + " at " + hosts
	case t.Cluster:
		return "cluster " + hosts
	case t.network == "unix":
		return "unix://" + t.addr
	}
	u := url.URL{Scheme: "redis", Host: hosts}
	if t.tls != nil {
		u.Scheme = "rediss"
	}
	if t.db != 0 {
		u.Path = fmt.Sprintf("/%d", t.db)
	}
	return u.String()
}

// transportWarning says what an eavesdropper could read.
func (t *target) transportWarning() string {
	if t.tls != nil || t.network == "unix" {
		return ""
	}
	for _, a := range t.seeds() {
		host, _, _ := net.SplitHostPort(a)
		if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
			continue
		}
		if t.password != "" {
			return "no TLS: the password crosses the network in the clear"
		}
		return "no TLS"
	}
	return ""
}
