package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/sources/httpregistry"
	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// station is a process that does more than look: an engine with a ledger, a data
// directory, and the sessions that are supervised here.
type station struct {
	settings *config.Config
	log      *slog.Logger
	dir      string
	writer   string // who we are in records; empty: read-only
	clock    watchdog.Clock

	file     *filestore.File
	audit    *filestore.Audit
	settling *settling
	watching *started
	children *supervising // nil: nothing is supervised
	acting   *acting
	hook     *httpregistry.Releaser
	leave    context.CancelFunc

	receiving sync.WaitGroup // of commands
}

// The roles of a station, as records name their writers.
const (
	roleServe = "serve"
	roleRun   = "run"
)

// stationOptions say what kind of station it is.
type stationOptions struct {
	role     string // roleServe, roleRun
	db       string // its own file in the data directory
	state    string // of the supervisor, likewise
	sessions []config.Session
	sweeps   bool // settles what others run too
	tapes    bool // keeps what comes in, for trials and recordings
	log      *slog.Logger
	spawn    func(func())
	guard    *selfGuard // watches over the engine; nil: nothing does
	ringer   ringer     // of a screen; without one nothing rings

	heartbeatURL   string
	heartbeatToken func(watchdog.ID, watchdog.Generation) string
	onLine         func(watchdog.ID, process.Line)
}

// openStation opens everything that can be refused and begins to watch. It waits
// for no server. Children start with supervise.
func openStation(settings *config.Config, o stationOptions) (s *station, err error) {
	s = &station{settings: settings, log: o.log, clock: clock.System(), leave: func() {}}
	if !settings.ReadOnly {
		s.writer = orders.ProcessName(o.role)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if settings.ReadOnly && len(o.sessions) > 0 {
		return s, badNews(errors.New("read-only: nothing can be supervised, since a supervisor publishes and settles; leave --read-only (read_only in the configuration) out"))
	}
	if s.dir, err = dataDir(settings); err != nil {
		return s, err
	}
	if s.file, err = filestore.Open(filepath.Join(s.dir, o.db), o.log); err != nil {
		if o.role == roleRun {
			err = fmt.Errorf("%w, or another --id", err)
		}
		return s, badNews(err)
	}
	if s.audit, err = filestore.OpenAudit(filepath.Join(s.dir, "audit.jsonl")); err != nil {
		return s, misconfigured(err)
	}
	seal, err := sealOf(settings)
	if err != nil {
		return s, misconfigured(err)
	}
	s.settling, err = newSettling(settings, settlingOptions{Writer: s.writer, File: s.file.Ledger(seal, s.clock),
		Quarantine: s.file.Quarantine(), Alone: o.role == roleRun, clock: s.clock, log: o.log, spawn: o.spawn})
	if err != nil {
		return s, misconfigured(err)
	}
	s.hook = httpregistry.NewReleaser(settings.Registry.Release, settings.Registry.ReleaseTimeout, s.clock, o.log)
	s.acting = newActing(settings, actingOptions{role: o.role, settling: s.settling, children: func() *supervising { return s.children }, audit: s.audit,
		hook: s.hook, clock: s.clock, log: o.log, spawn: o.spawn})
	alerts, err := newAlerting(settings, alertingOptions{ringer: o.ringer, clears: o.role == roleServe, writer: orders.ProcessName(o.role), clock: s.clock, log: o.log, spawn: o.spawn})
	if err != nil {
		return s, misconfigured(err)
	}
	defer func() {
		if err != nil {
			alerts.boards.shut()
		}
	}()
	observer := newObserver(settings, observerOptions{clock: s.clock, log: o.log, ping: true, settling: s.settling, sweeps: o.sweeps, spawn: o.spawn,
		guard: o.guard, acting: s.acting, alerting: alerts, tapes: o.tapes})
	if len(o.sessions) > 0 {
		s.children, err = openSupervising(settings, supervisingOptions{sessions: o.sessions, dir: s.dir, state: o.state, writer: s.writer,
			ends: patientEnds{s.settling}, byHand: o.role == roleRun, clock: s.clock, log: o.log, engine: observer.engine,
			heartbeatURL: o.heartbeatURL, heartbeatToken: o.heartbeatToken, onLine: o.onLine})
		if err != nil {
			return s, err
		}
		observer.foreign = s.children.ForeignBeat
	}
	s.watching, err = observer.start()
	return s, err
}

// supervise starts the children; they end with close.
func (s *station) supervise(spawn func(func())) {
	if s.children == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.leave = cancel
	s.receive(ctx, spawn)
	spawn(func() {
		if err := s.children.run(ctx); err != nil {
			s.log.Error("the supervisor ended", "error", err)
		}
	})
}

// receive obeys what comes over the buses for the sessions that are supervised
// here. Results are told even after the last of them has ended.
func (s *station) receive(ctx context.Context, spawn func(func())) {
	for _, b := range s.acting.ways {
		s.receiving.Add(1)
		spawn(func() {
			defer s.receiving.Done()
			s.children.receive(ctx, b)
		})
	}
}

// close ends the children, waits until nothing of them is left and their ends
// are settled, and then ends everything else.
func (s *station) close() {
	if s.watching != nil {
		s.watching.watch.disarm()
	}
	s.leave()
	if s.children != nil && s.watching != nil {
		<-s.children.over
		s.receiving.Wait()
	}
	if s.watching != nil {
		_ = s.watching.stop() // what ended it was told
	}
	if s.audit != nil {
		_ = s.audit.Close() // every entry was written through
	}
	if s.file != nil {
		_ = s.file.Close() // nothing is under way any more
	}
}

// read gives what can be read of the sessions that are supervised here.
func (s *station) read() localChildren {
	c := localChildren{dumps: process.NewDumpStore(s.dir), gather: s.acting.gather}
	if s.children != nil {
		c.sup, c.dumps = s.children.Supervisor, s.children.dumps
	}
	c.heard, _ = s.watching.output()
	return c
}
