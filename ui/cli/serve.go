package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/httpregistry"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// serving is a station without a screen: it settles for everybody, keeps the
// registry, and offers its view to whoever may ask.
type serving struct {
	*station
	began    time.Time
	registry *httpregistry.Registry // nil: no port is listened on
	viewPath string                 // the file with the token of the view on that port
	running  sync.WaitGroup

	reapAlerts atomic.Uint64 // how often too much was reaped
}

// openServing opens everything that can be refused; it waits for no server.
func openServing(settings *config.Config, log *slog.Logger) (*serving, error) {
	s := &serving{began: time.Now()}
	o := stationOptions{role: roleServe, db: "serve.db", state: "sessions.json", tapes: true, sessions: settings.Sessions, sweeps: true, log: log, spawn: plainly,
		guard: newSelfGuard(settings, nil, log)}
	if listen := settings.Serve.Listen; listen != config.None && settings.Serve.TLS.CertFile == "" {
		o.heartbeatURL = "http://" + listen + "/heartbeat"
		o.heartbeatToken = func(id watchdog.ID, g watchdog.Generation) string {
			if s.registry == nil || g == 0 {
				return ""
			}
			return s.registry.Token(id, g)
		}
	}
	var err error
	if s.station, err = openStation(settings, o); err != nil {
		return nil, err
	}
	return s, nil
}

// run serves until ctx ends.
func (s *serving) run(ctx context.Context, ready func(text string)) error {
	token, tokenPath, err := tokenOf(s.settings, "registry.token_file", s.settings.Registry.TokenFile, s.dir, "token")
	if err != nil {
		return err
	}
	history := s.file.History(0, 0)
	view := serveview.NewServer(serveview.Options{
		Engine: s.watching.engine, Logger: s.log, Children: servedChildren{s.read()}, Late: quarantined{s.file.Quarantine()}.Late, Audit: s.audit.Write, Registry: s.registryView(), Do: s.act(), Note: s.watching.alerting.put, Raised: s.watching.alerting.raised.after,
		Trial:    servedTrial{s.watching.taping},
		Handover: shift{look: s.watching.engine.Look, audit: auditIn(s.dir), history: history}.Handover,
		About:    serveview.About{Name: nameOf(s.settings), Sweeper: s.writer, ReadOnly: s.settings.ReadOnly, Version: readBuild().Version, PID: os.Getpid(), Release: s.settings.Registry.Release},
	})
	places, err := s.listen(ctx, token, view)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(places)+1)
	for _, l := range places {
		s.running.Go(func() {
			if err := httpregistry.Serve(inner, l.listener, l.tls, l.handler, s.log); err != nil {
				errs <- badNews(fmt.Errorf("%s: %w", l.name, err))
			}
		})
	}
	s.running.Go(func() { keepHistory(inner, s.watching.engine, history, s.file.Quarantine(), s.log) })
	if s.registry != nil {
		s.running.Go(func() { _ = s.registry.Run(inner) }) // ends with inner
	}
	s.supervise(plainly)
	ready(s.greeting(places, tokenPath))
	select {
	case <-ctx.Done():
		err = nil
	case err = <-errs:
	case <-s.watching.done:
		err = s.watching.err
	}
	s.watching.watch.disarm()
	cancel()
	s.running.Wait()
	return err
}

// act is how this serve takes actions; nil: it is read-only.
func (s *serving) act() func(context.Context, watchdog.Command) (watchdog.Action, error) {
	if s.settings.ReadOnly {
		return nil
	}
	return s.acting.do
}

// offered is one place where the view or the registry is offered.
type offered struct {
	name     string
	listener net.Listener
	tls      *tls.Config
	handler  http.Handler
}

// listen opens the socket of this machine, and the port unless it is "-".
func (s *serving) listen(ctx context.Context, token string, view *serveview.Server) ([]offered, error) {
	socket, err := listenSocket(ctx, socketPath(s.dir))
	if err != nil {
		return nil, badNews(err)
	}
	out := []offered{{name: socketPath(s.dir), listener: socket, handler: view.Handler()}}
	if s.settings.Serve.Listen == config.None {
		return out, nil
	}
	fail := func(err error) ([]offered, error) {
		_ = socket.Close()
		return nil, err
	}
	config, err := s.tls()
	if err != nil {
		return fail(misconfigured(err))
	}
	if err := s.openRegistry(token); err != nil {
		return fail(err)
	}
	viewToken, viewPath, err := tokenOf(s.settings, "serve.token_file", s.settings.Serve.TokenFile, s.dir, "token")
	if err != nil {
		return fail(err)
	}
	s.viewPath = viewPath
	port, err := httpregistry.Listen(s.settings.Serve.Listen)
	if err != nil {
		return fail(badNews(err))
	}
	host, _, _ := net.SplitHostPort(s.settings.Serve.Listen) // it was checked
	access := httpregistry.Access{Hosts: append([]string{host}, s.settings.Serve.AllowedHosts...)}
	mux := http.NewServeMux()
	mux.Handle("/", s.registry.Handler(access, s.health))
	mux.Handle("/v1/", httpregistry.Protect(viewToken, access, view.Handler()))
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	return append(out, offered{name: scheme + "://" + port.Addr().String(), listener: port, tls: config, handler: mux}), nil
}

func (s *serving) tls() (*tls.Config, error) {
	files := s.settings.Serve.TLS
	if files.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("serve.tls: %w; give a certificate and its key as PEM", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}

// openRegistry makes the registry: its hashes stand in Redis, or in this process
// where there is none.
func (s *serving) openRegistry(token string) error {
	var store httpregistry.Store = httpregistry.NewMemoryStore()
	if s.settings.Redis.Address != config.None && !s.settings.ReadOnly {
		store = registryHashes{s.settling.stores.conn.Registry()}
	}
	r := s.settings.Registry
	registry, err := httpregistry.New(httpregistry.Options{
		Store: store, Ends: registryEnds{s.settling}, Sink: heartbeats{s.watching.engine, s.children},
		Watch: registryWatch{s.watching.engine, r.TTL}, Clock: s.watching.clock, Token: token,
		Interval: r.Interval, TTL: r.TTL, ReapInterval: r.ReapInterval, Hook: s.hook, Cancel: canceler{s.acting},
		Writer: s.writer, Address: s.settings.Serve.Listen, Audit: s.audit.Write, Alert: s.alert, Logger: s.log,
	})
	if err != nil {
		return misconfigured(err)
	}
	s.registry = registry
	spare := func(e watchdog.Settle) bool { return s.reapers(store, e) }
	s.settling.spare.Store(&spare)
	return nil
}

// registryView tells how the registry does; nil where none is kept.
func (s *serving) registryView() func() serveview.Registry {
	if s.settings.Serve.Listen == config.None {
		return nil
	}
	return func() (r serveview.Registry) { // the view is asked once the registry is there
		at, why := s.registry.LastGoodRound()
		if r.Problem = why; !at.IsZero() {
			r.LastRun = &at
		}
		for _, one := range s.registry.Releases() {
			r.Releases = append(r.Releases, serveview.Release{SessionID: one.ID, OK: one.OK, ExitCode: one.ExitCode,
				Output: one.Output, At: one.At, TookMs: one.Took.Milliseconds()})
		}
		return r
	}
}

// alert keeps in the audit file that more is reaped than is normal; the log has
// it too.
func (s *serving) alert(text string) {
	err := s.audit.Write(struct {
		Event string `json:"event"`
		At    string `json:"at"`
		By    string `json:"by"`
		Text  string `json:"text"`
	}{"registry.reap_rate", wire.FormatTime(time.Now()), s.writer, text})
	if err != nil {
		s.log.Error("an audit line was not written", "error", err)
	}
	s.watching.engine.Post(watchdog.Trouble{Cause: watchdog.CauseReapRate, Text: text + ".", Evidence: s.reapAlerts.Add(1), At: s.clock.Now().Mono})
}

// reapers reports whether an end is the reaper's to settle: of a session that
// only HTTP carries and whose hash lives, its own ttl decides.
func (s *serving) reapers(store httpregistry.Store, e watchdog.Settle) bool {
	if e.Outcome != watchdog.OutcomeLost || e.By != watchdog.BySweeper {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	w, err := s.watching.engine.Look(ctx, watchdog.Ask{Focus: e.ID, KeepEnded: true})
	if err != nil || w.Focus == nil || w.Focus.Sources != watchdog.SourceHTTP.Set() {
		return false
	}
	hash, found, err := store.Entry(ctx, e.ID)
	return err == nil && found && hash.Status == httpregistry.Alive
}

// heartbeats tells the engine of heartbeats, and the supervisor of those of its
// own children: they are proof of work.
type heartbeats struct {
	*watchdog.Engine
	children *supervising // nil: nothing is supervised
}

// Beats takes in a batch.
func (h heartbeats) Beats(batch []watchdog.Beat) {
	h.Engine.Beats(batch)
	if h.children == nil {
		return
	}
	for i := range batch {
		_ = h.children.Heartbeat(&batch[i]) // of a session that others run, or that has ended
	}
}

// health is what GET /health says.
func (s *serving) health() httpregistry.Health {
	h := httpregistry.Health{Status: "ok", UptimeSecs: time.Since(s.began).Seconds(), Watchdog: s.watchdogHealth()}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	w, err := s.watching.engine.Look(ctx, watchdog.Ask{})
	if err != nil {
		h.Status = "degraded"
		return h
	}
	if age := w.Ledger.LastPass; age >= 0 && w.Ledger.Sweeping {
		secs := age.Seconds()
		h.LastPassAgeSecs = &secs
	}
	if w.Ledger.Overdue {
		h.Status = "degraded"
	}
	return h
}

// watchdogHealth tells of the watchdog over the engine; nil where none is
// configured.
func (s *serving) watchdogHealth() *httpregistry.WatchdogHealth {
	settings := &s.settings.Watchdog
	if !settings.Configured {
		return nil
	}
	h := &httpregistry.WatchdogHealth{Enabled: settings.Enabled, WedgeAfterS: (settings.LivenessInterval * time.Duration(settings.LivenessStrikes)).Seconds()}
	if w := s.watching.watch; w != nil {
		h.Armed, h.LoopLagMilli = w.Armed(), float64(w.lag().Microseconds())/1000
	}
	return h
}

func (s *serving) greeting(at []offered, tokenPath string) string {
	var places []string
	for _, l := range at {
		places = append(places, l.name)
	}
	text := "serving on " + strings.Join(places, " and ") + "; token: " + tokenPath
	if s.viewPath != "" && s.viewPath != tokenPath {
		text += " (of the view under /v1/: " + s.viewPath + ")"
	}
	if s.writer == "" {
		return text + "; read-only: nothing is settled"
	}
	return text + "; settles as " + s.writer
}

// listenSocket opens the socket of this machine. One that a serve left behind is
// removed; one at which a serve answers is an error.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if _, err := os.Lstat(path); err == nil {
		dialer := net.Dialer{Timeout: time.Second}
		if c, err := dialer.DialContext(ctx, "unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("another serve answers at %s; end it, or give this one another --data-dir", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("cannot remove the socket that a serve left at %s: %w", path, reason(err))
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose a shorter data_dir if the path is over 100 characters", path, reason(errors.Unwrap(err)))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
