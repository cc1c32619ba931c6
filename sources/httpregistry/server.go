package httpregistry

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Access says who may speak to a handler over the network.
type Access struct {
	// Hosts are names that a request may be addressed to, beside loopback ones
	// and the address that is listened on.
	Hosts []string
	// PerSecond and Burst limit the requests of one remote address; 0: defaults.
	PerSecond float64
	Burst     int
}

const (
	defaultPerSecond = 500
	defaultBurst     = 2000
	remotesKept      = 10_000
)

// Health is what GET /health says.
type Health struct {
	Status          string          `json:"status"` // ok, degraded
	UptimeSecs      float64         `json:"uptime_secs"`
	LastPassAgeSecs *float64        `json:"last_pass_age_secs"`
	Watchdog        *WatchdogHealth `json:"watchdog,omitempty"`
}

// WatchdogHealth stands in /health only where a watchdog is configured.
type WatchdogHealth struct {
	Enabled      bool    `json:"enabled"`
	Armed        bool    `json:"armed"`
	WedgeAfterS  float64 `json:"wedge_after_s"`
	LoopLagMilli float64 `json:"loop_lag_ms"`
}

type grantKey struct{}

// grantOf gives what the bearer of a request may do; the middleware put it there.
func grantOf(req *http.Request) grant {
	g, _ := req.Context().Value(grantKey{}).(grant)
	return g
}

// Handler serves the registry. health gives the body of GET /health.
func (r *Registry) Handler(a Access, health func() Health) http.Handler {
	mux := http.NewServeMux()
	d := newDoor(r.tokens, a, r.metrics)
	mux.Handle("POST /heartbeat", d.guarded("/heartbeat", r.heartbeat))
	mux.Handle("POST /sessions", d.guarded("/sessions", r.register))
	mux.Handle("POST /sessions/{id}/cancel", d.guarded("/sessions/cancel", r.cancel))
	mux.Handle("GET /health", d.open("/health", func(w http.ResponseWriter, _ *http.Request) error {
		h := health()
		code := http.StatusOK
		if h.Status != "ok" {
			code = http.StatusServiceUnavailable
		}
		return reply(w, code, h)
	}))
	metrics := r.metrics.handler()
	mux.Handle("GET /metrics", d.open("/metrics", func(w http.ResponseWriter, req *http.Request) error {
		metrics.ServeHTTP(w, req)
		return nil
	}))
	return mux
}

// Protect puts a door before another handler: the token, the checks of Host and
// Origin, and the rate.
func Protect(token string, a Access, next http.Handler) http.Handler {
	d := newDoor(tokens{secret: []byte(token)}, a, nil)
	return d.guarded("", func(w http.ResponseWriter, req *http.Request) error {
		if !grantOf(req).fleet {
			return &refusal{code: http.StatusUnauthorized, text: "only the token of the view may look"}
		}
		next.ServeHTTP(w, req)
		return nil
	})
}

// door checks a request before anybody answers it.
type door struct {
	tokens  tokens
	access  Access
	metrics *metrics // nil: nothing is counted

	mu      sync.Mutex
	remotes map[string]*rate.Limiter
}

func newDoor(t tokens, a Access, m *metrics) *door {
	return &door{tokens: t, access: a, metrics: m, remotes: map[string]*rate.Limiter{}}
}

type answerer func(http.ResponseWriter, *http.Request) error

// guarded demands a token before anything else is looked at.
func (d *door) guarded(path string, answer answerer) http.Handler {
	return d.counted(path, func(w http.ResponseWriter, req *http.Request) error {
		g, ok := d.tokens.read(req.Header.Get("Authorization"))
		if !ok {
			return &refusal{code: http.StatusUnauthorized, text: "send Authorization: Bearer <token>; the token stands in the file that serve names at its start"}
		}
		if err := d.checkOrigin(req); err != nil {
			return err
		}
		if err := d.checkRate(req); err != nil {
			return err
		}
		return answer(w, req.WithContext(context.WithValue(req.Context(), grantKey{}, g)))
	})
}

// open answers without a token: what it tells names no session.
func (d *door) open(path string, answer answerer) http.Handler {
	return d.counted(path, func(w http.ResponseWriter, req *http.Request) error {
		if err := d.checkOrigin(req); err != nil {
			return err
		}
		if err := d.checkRate(req); err != nil {
			return err
		}
		return answer(w, req)
	})
}

// counted turns an error into its answer and counts it.
func (d *door) counted(path string, answer answerer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen := &seenWriter{ResponseWriter: w, code: http.StatusOK}
		seen.Header().Set("X-Content-Type-Options", "nosniff")
		seen.Header().Set("Cache-Control", "no-store")
		if err := answer(seen, req); err != nil {
			refuse(seen, err)
		}
		if d.metrics != nil {
			d.metrics.answered(path, seen.code)
		}
	})
}

func refuse(w http.ResponseWriter, err error) {
	var no *refusal
	if !errors.As(err, &no) {
		no = &refusal{code: http.StatusInternalServerError, text: "this request could not be answered; see the log of serve"}
	}
	w.Header().Set("Content-Type", "application/json")
	if no.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((no.retry+time.Second-1)/time.Second)))
	}
	if no.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sessionwatch"`)
	}
	w.WriteHeader(no.code)
	var body any = map[string]string{"error": no.text}
	if no.gone != nil {
		body = no.gone
	}
	write(w, body)
}

// write sends an answer as people read it, without the escapes that only a web
// page needs.
func write(w http.ResponseWriter, body any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // if not, who asked is gone; there is nobody to tell
}

// seenWriter remembers the status that was written.
type seenWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader notes the status.
func (s *seenWriter) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets streams be flushed.
func (s *seenWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// checkOrigin keeps web pages out that reached us by a name of their own.
func (d *door) checkOrigin(req *http.Request) error {
	if !d.allowed(req.Host) {
		return &refusal{code: http.StatusForbidden, text: "this host name is not allowed; name it in serve.allowed_hosts"}
	}
	origin := req.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || !d.allowed(u.Host) {
		return &refusal{code: http.StatusForbidden, text: "requests of this web page are not allowed"}
	}
	return nil
}

// allowed reports whether a Host or the host of an Origin is one of ours.
func (d *door) allowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" {
		return true
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(d.access.Hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// checkRate limits what one remote address may ask.
func (d *door) checkRate(req *http.Request) error {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		host = req.RemoteAddr
	}
	d.mu.Lock()
	limit, ok := d.remotes[host]
	if !ok {
		if len(d.remotes) >= remotesKept {
			clear(d.remotes)
		}
		limit = rate.NewLimiter(rate.Limit(or(d.access.PerSecond, defaultPerSecond)), int(or(float64(d.access.Burst), defaultBurst)))
		d.remotes[host] = limit
	}
	d.mu.Unlock()
	if limit.Allow() {
		return nil
	}
	return &refusal{code: http.StatusTooManyRequests, retry: time.Second, text: "too many requests from this address; send heartbeats less often"}
}

func or(v, def float64) float64 {
	if v > 0 {
		return v
	}
	return def
}
