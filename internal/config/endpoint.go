package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// None, as an address, means that this kind of server is not used.
const None = "-"

// NATS is what to connect to. No field but the secrets holds a secret.
type NATS struct {
	URLs    []string // without user and password; nil: no NATS
	Address string   // for people; "-" for none
	Origin  string   // of the address: default, file:3, NATS_URL, --nats, context prod

	// At most one way to log in is set: CredsFile, NKeyFile, User and Password,
	// or Token.
	CredsFile, NKeyFile string
	User                string
	Password, Token     Secret
	TLS                 TLSFiles

	passwordFile, tokenFile string
}

// Redis is what to connect to. No field but Password holds a secret.
type Redis struct {
	Addrs   []string // host:port; nil: no Redis
	Address string   // for people; "-" for none
	Origin  string   // of the address, as in NATS

	MasterName string // Addrs are sentinels
	Cluster    bool   // Addrs are nodes of a cluster
	Username   string
	Password   Secret
	DB         int
	UseTLS     bool
	TLS        TLSFiles

	PollInterval time.Duration

	passwordFile string
}

// address is a URL taken apart, so that its secrets go where secrets are kept.
type address struct {
	url            url.URL // without user and password
	user, password string
	hasUser        bool
	hasPassword    bool
}

// secretive reports whether the address held a password; for NATS a lone user
// is a token.
func (a address) secretive(loneUserIsToken bool) bool {
	return a.hasPassword || a.hasUser && loneUserIsToken
}

// parseAddress reads a URL. Its complaints never repeat the text, which may
// hold a password in any of its parts.
func parseAddress(t, defaultScheme string, schemes ...string) (address, string) {
	if !strings.Contains(t, "://") {
		t = defaultScheme + "://" + t
	}
	want := "write it as " + defaultScheme + "://host:port"
	if strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return address{}, "the address holds white space or a control character; " + want
	}
	u, err := url.Parse(t)
	if err != nil {
		return address{}, "the address is not a URL; " + want + ", and write special characters of a password as %XX"
	}
	known := false
	for _, s := range schemes {
		known = known || u.Scheme == s
	}
	switch {
	case !known:
		return address{}, "the scheme " + quoted(u.Scheme) + " is not known; use one of " + listed(schemes)
	case u.Hostname() == "":
		return address{}, "the address has no host; " + want
	case u.Fragment != "":
		return address{}, "the address has a part after #; remove it, and write # in a password as %23"
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return address{}, "the port is not within 1 to 65535; " + want
		}
	}
	a := address{url: *u}
	if u.User != nil {
		a.user = u.User.Username()
		a.password, a.hasPassword = u.User.Password()
		a.hasUser = a.user != "" || a.hasPassword
		a.hasPassword = a.hasPassword && a.password != ""
		a.url.User = nil
	}
	return a, ""
}

// natsAddress is one or several servers and the login that their URLs held.
type natsAddress struct {
	urls                  []string
	user, password, token string
	secretive             bool
}

// parseNATS reads one text, which may hold several URLs after commas, or a list.
func parseNATS(texts []string) (natsAddress, string) {
	var out natsAddress
	var login *address
	for _, t := range texts {
		a, fault := parseAddress(t, "nats", "nats", "tls", "ws", "wss")
		if fault != "" {
			return out, fault
		}
		if a.url.RawQuery != "" || a.url.Scheme[0] != 'w' && a.url.Path != "" && a.url.Path != "/" {
			return out, "the address has a path or a query; write it as nats://host:port"
		}
		a.url.Path = strings.TrimSuffix(a.url.Path, "/")
		out.urls = append(out.urls, a.url.String())
		if !a.hasUser {
			continue
		}
		out.secretive = out.secretive || a.secretive(true)
		if login != nil && (login.user != a.user || login.password != a.password) {
			return out, "the addresses log in differently; give all of them the same user and password"
		}
		login = &a
	}
	switch {
	case login == nil:
	case login.hasPassword:
		out.user, out.password = login.user, login.password
	default:
		out.token = login.user
	}
	return out, ""
}

// redisAddress is a server and what its URL says besides.
type redisAddress struct {
	addr           string // host:port
	tls            bool
	db             int
	user, password string
	secretive      bool
}

func parseRedis(t string) (redisAddress, string) {
	a, fault := parseAddress(t, "redis", "redis", "rediss")
	if fault != "" {
		return redisAddress{}, fault
	}
	port := a.url.Port()
	if port == "" {
		port = "6379"
	}
	out := redisAddress{
		addr: net.JoinHostPort(a.url.Hostname(), port), tls: a.url.Scheme == "rediss",
		user: a.user, password: a.password, secretive: a.secretive(false),
	}
	number := strings.Trim(a.url.Path, "/")
	query, err := url.ParseQuery(a.url.RawQuery)
	if err != nil {
		return out, "what follows ? in the address cannot be read; remove it"
	}
	if query.Has("db") && number == "" {
		number = query.Get("db")
	}
	query.Del("db")
	if len(query) > 0 {
		return out, "what follows ? in the address is not supported; remove it (only db=N is; TLS is rediss://)"
	}
	if number != "" {
		if out.db, err = strconv.Atoi(number); err != nil || out.db < 0 || out.db > 1_000_000 {
			return out, "what follows the host is not the number of a database; write it as redis://host:6379/0"
		}
	}
	return out, ""
}

// display is the address as people see it; it holds no secret.
func (r redisAddress) display() string {
	scheme := "redis://"
	if r.tls {
		scheme = "rediss://"
	}
	if r.db == 0 {
		return scheme + r.addr
	}
	return scheme + r.addr + "/" + strconv.Itoa(r.db)
}

// redactPath hides the path too: that of a webhook is its password.
func redactPath(t string) string {
	t = termtext.RedactURL(t)
	if scheme, rest, ok := strings.Cut(t, "://"); ok {
		if host, _, more := strings.Cut(rest, "/"); more {
			return scheme + "://" + host + "/***"
		}
	}
	return t
}

// checkHTTP accepts http and https URLs without a login.
func checkHTTP(t string) string {
	a, fault := parseAddress(t, "http", "http", "https")
	switch {
	case fault != "":
		return fault
	case a.hasUser:
		return "the URL holds a user or password; remove it"
	case !strings.Contains(t, "://"):
		return quoted(t) + " is not a URL; write it as http://host:port/path"
	}
	return ""
}

func webhook(dst *string) value {
	s := textLike(dst, "", "a URL", checkHTTP).(*scalar[string])
	return &hiddenText{*s, redactPath}
}

// checkListen accepts host:port, with an empty host for every interface.
func checkListen(t string) string {
	if t == None {
		return ""
	}
	_, port, err := net.SplitHostPort(t)
	if n, e := strconv.Atoi(port); err != nil || e != nil || n < 0 || n > 65535 {
		return quoted(t) + " is not host:port; give one such as 127.0.0.1:7077"
	}
	return ""
}

// loopback reports whether a listening address is reachable from this machine only.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
