package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/sources/httpregistry"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// actingOptions say how far a process acts on sessions, and with what.
type actingOptions struct {
	role     string              // in results and records: "serve", "attach"
	settling *settling           // writes ends, unless read-only
	children func() *supervising // nil: nothing is supervised here
	// audit is the open audit file; nil: it is opened when the first entry is to
	// be written.
	audit *filestore.Audit
	hook  *httpregistry.Releaser // nil: one of our own

	clock watchdog.Clock
	log   *slog.Logger
	spawn func(func())
}

// acting carries out what people ask for from this process. Beside a screen that
// only looks nothing is opened, and nothing created on a bus, before the first
// action.
type acting struct {
	o        actingOptions
	settings *config.Config
	by       string
	operator *watchdog.Operator
	engine   *watchdog.Engine    // once it runs
	own      watchdog.CommandWay // to what is supervised here
	ways     []*commandBus
	gather   *dumpGather // nil: there is no data directory
	refusals *refusals

	mu    sync.Mutex
	audit *filestore.Audit
	ours  bool // we opened audit

	missing error // why the newest fate is missing in the audit file; nil: it is there
}

// newActing makes an acting; nothing is opened before the first action.
func newActing(settings *config.Config, o actingOptions) *acting {
	a := &acting{o: o, settings: settings, by: orders.ProcessName(o.role), audit: o.audit, refusals: newRefusals()}
	if o.hook == nil {
		a.o.hook = httpregistry.NewReleaser(settings.Registry.Release, settings.Registry.ReleaseTimeout, o.clock, o.log)
	}
	if o.children == nil {
		a.o.children = func() *supervising { return nil }
	}
	a.own = here{a.o.children, a.by, o.clock}
	ways := []watchdog.CommandWay{a.own}
	for _, b := range commandBuses(settings, a.by, a.fleet, a.refusals.take, o.clock, o.log, o.spawn) {
		b.tray = newDumpTray(settings, o.log, o.spawn)
		a.ways = append(a.ways, b)
		ways = append(ways, b)
	}
	a.gather = newDumpGather(settings, a.ways, o.log)
	c := watchdog.OperatorConfig{Ways: ways, Heard: a.heardOn, Evidence: a.evidence, Released: a.release, Name: a.by, Clock: o.clock,
		Post: func(ev watchdog.Event) { a.engine.Post(ev) }, Audit: a.keep, Log: o.log}
	if a.acts().Settles {
		c.Settle, c.Number = o.settling.Settle, a.numbered(o.settling.Claim)
	}
	a.operator = watchdog.NewOperator(c)
	return a
}

// actsOf says how far a process that watches what the settings name can act.
func actsOf(settings *config.Config) watchdog.Acts {
	if settings.ReadOnly {
		return watchdog.Acts{ReadOnly: true}
	}
	bus := settings.NATS.Address != config.None || settings.Redis.Address != config.None
	return watchdog.Acts{Able: true, Bus: bus, Settles: bus}
}

// acts says how far we can act.
func (a *acting) acts() watchdog.Acts {
	acts := actsOf(a.settings)
	acts.Settles, acts.Ends = a.o.settling.writes(), true
	return acts
}

// run carries actions out until ctx ends.
func (a *acting) run(ctx context.Context) {
	var telling sync.WaitGroup
	quit := make(chan struct{})
	telling.Go(func() { a.refusals.run(quit, a.refused) })
	_ = a.operator.Run(ctx) // ends with ctx
	a.closeWays()
	close(quit)
	telling.Wait()
	a.close()
}

func (a *acting) closeWays() {
	for _, b := range a.ways {
		b.close()
	}
}

func (a *acting) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ours && a.audit != nil {
		_ = a.audit.Close() // every entry was written through
		a.audit = nil
	}
}

// watch tells the engine behind everything.
func (a *acting) watch(engine *watchdog.Engine) { a.engine = engine }

// do asks for an action. What leaves no trace is not done, but that what runs here
// can always be ended.
func (a *acting) do(ctx context.Context, c watchdog.Command) (watchdog.Action, error) {
	if a.settings.ReadOnly {
		return watchdog.Action{}, watchdog.ErrReadOnly
	}
	if c.IssuedBy == "" {
		c.IssuedBy = operatorName()
	}
	asked := actionEntry{Event: "action.asked", Timestamp: unixSeconds(time.Now()), Op: string(c.Op), SessionID: string(c.Session), Generation: int64(c.Generation),
		Reason: c.Reason, IssuedBy: c.IssuedBy, Evidence: a.verdict(ctx, c.Session)}
	if err := a.write(asked); err != nil {
		if !a.endsOwn(c) {
			return watchdog.Action{}, fmt.Errorf("nothing was done, since it cannot be written to the audit file: %w", err)
		}
		a.lacks(c, "is carried out", err)
	}
	return a.engine.Do(ctx, c)
}

// endsOwn reports whether a command ends what is supervised here: a full disk keeps
// nobody from ending his own child, as leaving the screen would.
func (a *acting) endsOwn(c watchdog.Command) bool {
	return (c.Op == watchdog.OpStop || c.Op == watchdog.OpKill) && a.own.Carries(c.Session)
}

// lacks tells that something of an action is missing in the audit file.
func (a *acting) lacks(c watchdog.Command, what string, err error) {
	a.mu.Lock()
	a.missing = err
	a.mu.Unlock()
	a.o.log.Error("an action is missing in the audit file", "op", string(c.Op), "session", c.Session, "what", what, "error", err)
	now := a.o.clock.Now()
	a.engine.Post(watchdog.Trouble{Cause: watchdog.CauseAction, ID: c.Session, Generation: c.Generation, Evidence: uint64(now.Wall), At: now.Mono,
		Text: fmt.Sprintf("%s %s %s %s, which is missing in the audit file: %v.", strings.ToUpper(string(c.Op)), c.Session, generation(c.Generation), what, err)})
}

// actionEntry is a line of the audit file.
type actionEntry struct {
	Event      string  `json:"event"` // action.asked, action.fate
	Timestamp  float64 `json:"timestamp"`
	Command    string  `json:"command_id,omitempty"`
	Op         string  `json:"op"`
	SessionID  string  `json:"session_id"`
	Generation int64   `json:"generation"` // 0 not known
	Fate       string  `json:"fate,omitempty"`
	Detail     string  `json:"detail,omitempty"`
	Reason     string  `json:"reason"`
	IssuedBy   string  `json:"issued_by"`
	By         string  `json:"by,omitempty"`
	Way        string  `json:"way,omitempty"`
	Evidence   string  `json:"evidence,omitempty"` // the verdict when it was asked for, and why
}

// keep writes a change of a fate to the audit file.
func (a *acting) keep(act watchdog.Action) {
	err := a.write(actionEntry{Event: "action.fate", Timestamp: unixSeconds(time.Now()), Command: act.ID, Op: string(act.Op), SessionID: string(act.Session),
		Generation: int64(act.Generation), Fate: act.Fate.String(), Detail: act.Detail, Reason: act.Reason, IssuedBy: act.IssuedBy, By: act.By, Way: act.Way})
	if err != nil {
		a.lacks(act.Command, act.Fate.Sentence(), err)
		return
	}
	a.mu.Lock()
	a.missing = nil
	a.mu.Unlock()
}

// unaudited says why the newest fate is missing in the audit file; nil: it is
// there.
func (a *acting) unaudited() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.missing == nil {
		return nil
	}
	return fmt.Errorf("it is missing in the audit file what became of it: %w", a.missing)
}

func (a *acting) write(entry any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.audit == nil {
		dir, err := dataDir(a.settings)
		if err != nil {
			return err
		}
		if a.audit, err = filestore.OpenAudit(filepath.Join(dir, "audit.jsonl")); err != nil {
			a.audit = nil
			return err
		}
		a.ours = true
	}
	return a.audit.Write(entry)
}

// look asks for everything about one session.
func (a *acting) look(ctx context.Context, id watchdog.ID) *watchdog.Detail {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	w, err := a.engine.Look(ctx, watchdog.Ask{Focus: id, KeepEnded: true})
	if err != nil {
		return nil
	}
	return w.Focus
}

// verdict is what is said of a session now, in words.
func (a *acting) verdict(ctx context.Context, id watchdog.ID) string {
	d := a.look(ctx, id)
	if d == nil {
		return ""
	}
	return d.Verdict.String() + ": " + d.Why
}

// evidence is what a record keeps of a session.
func (a *acting) evidence(id watchdog.ID) []byte {
	d := a.look(context.Background(), id)
	if d == nil {
		return nil
	}
	return wire.EncodeEvidence(watchdog.Settle{ID: d.ID, Generation: d.Generation, Verdict: d.Verdict, Evidence: d.Evidence})
}

// heardOn reports whether a bus brought beats of a session; what is supervised
// here is heard here.
func (a *acting) heardOn(id watchdog.ID, way string) bool {
	if way == hereWay {
		return true
	}
	d := a.look(context.Background(), id)
	return d == nil || slices.ContainsFunc(d.Sources.Sources(), func(src watchdog.Source) bool { return src.String() == way })
}

// fleet is the identity of the authority, as far as we know it.
func (a *acting) fleet() string {
	if a.engine == nil {
		return ""
	}
	return a.engine.FleetIdentity()
}

// numbered asks the ledger for the number of the execution that a command means.
func (a *acting) numbered(claim func(context.Context, watchdog.Claim) (watchdog.Generation, error)) func(context.Context, watchdog.Command) (watchdog.Generation, error) {
	return func(ctx context.Context, c watchdog.Command) (watchdog.Generation, error) {
		mine, ok := a.engine.ClaimOf(c.Session)
		if !ok || c.BootID != "" && mine.BootID != "" && mine.BootID != c.BootID {
			return 0, errors.New("another run of it is current by now")
		}
		if mine.Generation != 0 {
			return mine.Generation, nil
		}
		return claim(ctx, mine)
	}
}
