package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// supervising runs sessions of this machine: the supervisor, what publishes for
// it, and the dumps that it takes.
type supervising struct {
	*process.Supervisor
	dumps *process.DumpStore
	taken takenDumps
	buses []*courier
	// output sends lines to whoever listens; nil: there is no NATS.
	output *natsbus.Output
	shut   []func() // closes the buses' clients
	log    *slog.Logger
	over   chan struct{} // closed when nothing of it is left
	err    error         // once over is closed
}

// supervisingOptions say what is run, and whom it tells.
type supervisingOptions struct {
	sessions []config.Session
	dir      string // the data directory
	state    string // name of the file in it that keeps chains of failures
	writer   string
	ends     process.Ends
	byHand   bool // process.Options.ByHand
	clock    watchdog.Clock
	log      *slog.Logger
	engine   process.Engine

	heartbeatURL   string
	heartbeatToken func(watchdog.ID, watchdog.Generation) string
	onLine         func(watchdog.ID, process.Line)
}

// patientEnds wait for the choice of the ledger, which a first start comes before
// by a moment, instead of failing.
type patientEnds struct{ *settling }

func (p patientEnds) await(ctx context.Context) {
	select {
	case <-p.settles:
	case <-ctx.Done():
	}
}

// Claim asks the ledger for the number of an execution.
func (p patientEnds) Claim(ctx context.Context, c watchdog.Claim) (watchdog.Generation, error) {
	p.await(ctx)
	return p.settling.Claim(ctx, c)
}

// Settle writes an end once, and gives the record that stands.
func (p patientEnds) Settle(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	p.await(ctx)
	return p.settling.Settle(ctx, r)
}

// openSupervising makes everything that can be refused; nothing starts before run.
func openSupervising(settings *config.Config, o supervisingOptions) (*supervising, error) {
	s := &supervising{dumps: process.NewDumpStore(o.dir), log: o.log, over: make(chan struct{}), taken: takenDumps{log: o.log}}
	state, err := process.OpenFileStore(filepath.Join(o.dir, o.state))
	if err != nil {
		return nil, misconfigured(err)
	}
	s.Supervisor, err = process.New(process.Options{
		Sessions: o.sessions, Guard: settings.RestartGuard, MaxWait: settings.Policy.MaxWait,
		Clock: o.clock, Log: o.log, Engine: o.engine, Publishers: []process.Publisher{s}, Interval: settings.Publish.Interval,
		Writer: o.writer, Takes: watchdog.OpSetOf(supervisorOps()...), Ends: o.ends, ByHand: o.byHand, Store: state,
		Capturer:     process.NewLadder(process.LadderOptions{Store: s.dumps, Log: o.log}),
		HeartbeatURL: o.heartbeatURL, HeartbeatToken: o.heartbeatToken, OnLine: o.onLine, OnCapture: s.taken.take,
	})
	if err != nil {
		return nil, misconfigured(err)
	}
	if err := s.openBuses(settings, o); err != nil {
		return nil, misconfigured(err)
	}
	return s, nil
}

// openBuses opens the way of beats to every configured bus.
func (s *supervising) openBuses(settings *config.Config, o supervisingOptions) error {
	ttl := settings.Publish.RedisTTL
	if settings.NATS.Address != config.None {
		bus, err := natsbus.OpenGuard(natsOptions(settings), o.log)
		if err != nil {
			return err
		}
		bus.OnPing(func() { s.Ping() })
		s.buses, s.shut = append(s.buses, newCourier(bus, settings.NATS.Origin, ttl, o.log)), append(s.shut, bus.Close)
		var ids []watchdog.ID
		for i := range o.sessions {
			ids = append(ids, watchdog.ID(o.sessions[i].ID))
		}
		if s.output, err = natsbus.OpenOutput(natsOptions(settings), ids, o.writer, s.outputLines, o.clock, o.log); err != nil {
			return err
		}
	}
	if settings.Redis.Address != config.None {
		bus, err := redisstore.OpenGuard(redisOptions(settings), o.log)
		if err != nil {
			return err
		}
		s.buses, s.shut = append(s.buses, newCourier(bus, settings.Redis.Origin, ttl, o.log)), append(s.shut, bus.Close)
	}
	return nil
}

// run supervises until ctx ends and nothing of its children is left.
func (s *supervising) run(ctx context.Context) error {
	defer close(s.over)
	carrying, cancel := context.WithCancel(context.Background())
	var couriers sync.WaitGroup
	for _, c := range s.buses {
		couriers.Go(func() { c.run(carrying) })
	}
	if s.output != nil {
		couriers.Go(func() { _ = s.output.Run(carrying) }) // ends with carrying
	}
	s.err = s.Supervisor.Run(ctx)
	cancel()
	couriers.Wait()
	for _, shut := range s.shut {
		shut()
	}
	return s.err
}

// Publish hands a beat to the buses; neither waits.
func (s *supervising) Publish(b *watchdog.Beat) {
	for _, c := range s.buses {
		c.put(b)
	}
}

// stateFile names the file of one supervised session among those of others.
func stateFile(prefix, id, suffix string) string {
	return prefix + base64.RawURLEncoding.EncodeToString([]byte(id)) + suffix
}

// localChildren reads what the supervisor of this process and its store keep.
type localChildren struct {
	sup   *process.Supervisor // nil: nobody is supervised here; dumps of earlier runs may be there
	dumps *process.DumpStore
	// gather brings in those of supervisors elsewhere.
	gather *dumpGather
	heard  ui.Output // of sessions that others supervise; nil: they cannot be listened to
}

// Logs gives lines of output.
func (c localChildren) Logs(ctx context.Context, id watchdog.ID, from int64, most int) ([]ui.LogLine, error) {
	err := process.ErrUnknownSession
	var lines []process.Line
	if c.sup != nil {
		lines, err = c.sup.Logs(id, from, most)
	}
	if errors.Is(err, process.ErrUnknownSession) && c.heard != nil {
		return c.heard.Logs(ctx, id, from, most)
	}
	if err != nil {
		return nil, err
	}
	out := make([]ui.LogLine, len(lines))
	for i, l := range lines {
		out[i] = ui.LogLine{Seq: l.Seq, At: l.At, Generation: l.Generation, Stream: l.Stream.String(), Text: l.Text, Partial: l.Partial}
	}
	return out, nil
}

// Dumps lists captures.
func (c localChildren) Dumps(ctx context.Context, id watchdog.ID) ([]ui.DumpEntry, error) {
	c.gather.gather(ctx, id)
	list, err := c.dumps.List(id)
	if err != nil {
		return nil, err
	}
	out := make([]ui.DumpEntry, len(list))
	for i := range list {
		out[i] = dumpEntry(&list[i])
	}
	return out, nil
}

func dumpEntry(h *process.DumpHeader) ui.DumpEntry {
	e := ui.DumpEntry{Name: h.ID, ID: watchdog.ID(h.SessionID), At: h.At.Time, Reason: h.Reason, Bytes: h.Bytes, Truncated: h.Truncated,
		Method: known(h.Method), Format: known(h.Format), Verdict: known(h.Verdict), Culprit: known(h.Culprit), LoopThread: h.LoopThread}
	if h.Generation != nil {
		e.Generation = watchdog.Generation(*h.Generation)
	}
	return e
}

// known is a text that may be null.
func known(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Dump reads one capture.
func (c localChildren) Dump(_ context.Context, name string) ([]byte, error) {
	_, body, err := c.dumps.Open(name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, errors.Join(errors.New("the dump cannot be read whole"), err)
	}
	return text, nil
}
