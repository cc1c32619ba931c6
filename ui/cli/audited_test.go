package cli

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// A fate that cannot be written down is an alert, and whoever acted is told.
func TestFateThatIsNotAuditedIsSaid(t *testing.T) {
	settings, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	settings.NATS.Address, settings.Redis.Address, settings.DataDir = config.None, config.None, t.TempDir()
	path := filepath.Join(settings.DataDir, "audit.jsonl")
	planted := filepath.Join(t.TempDir(), "planted")
	if err := os.Symlink(planted, path); err != nil {
		t.Skip(err)
	}
	c, log := clock.System(), slog.New(slog.DiscardHandler)
	ends, err := newSettling(settings, settlingOptions{Writer: "test", clock: c, log: log, spawn: plainly})
	if err != nil {
		t.Fatal(err)
	}
	a := newActing(settings, actingOptions{role: "test", settling: ends, clock: c, log: log, spawn: plainly})
	a.watch(watchdog.NewEngine(watchdog.EngineConfig{Clock: c}))
	over := make(chan struct{})
	go func() { defer close(over); _ = a.engine.Run(t.Context()) }()
	alerts := func() []watchdog.Alert {
		t.Helper()
		w, err := a.engine.Look(t.Context(), watchdog.Ask{Alerts: 10})
		if err != nil {
			t.Fatal(err)
		}
		return w.Alerts.List
	}
	act := watchdog.Action{Command: watchdog.Command{ID: "c", Op: watchdog.OpStop, Session: "indexer", Generation: 2}, Fate: watchdog.FateEffective}

	if _, err := a.do(t.Context(), act.Command); err == nil || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("what cannot be audited: %v", err)
	}
	a.own = ourChild{}
	for op, done := range map[watchdog.Op]bool{watchdog.OpStop: true, watchdog.OpKill: true, watchdog.OpRestart: false, watchdog.OpExpire: false, watchdog.OpDump: false} {
		c := act.Command
		c.Op = op
		if _, err := a.do(t.Context(), c); done != (err == nil) {
			t.Errorf("a %s of our own child that cannot be audited: %v", op, err)
		}
		if list := alerts(); done && (len(list) != 1 || !strings.HasPrefix(list[0].Text, strings.ToUpper(string(op))+" indexer #2 is carried out, which is missing in the audit file: ")) {
			t.Errorf("alerts of a %s are %+v", op, list)
		}
	}
	a.keep(act)
	if err := a.unaudited(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("who acted is told %v", err)
	}
	if list := alerts(); len(list) != 1 || !strings.HasPrefix(list[0].Text, "STOP indexer #2 effective, which is missing in the audit file: ") {
		t.Errorf("alerts are %+v", list)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.keep(act)
	defer a.close()
	if err := a.unaudited(); err != nil {
		t.Errorf("it is written now, and %v", err)
	}
	if _, err := os.Lstat(planted); !errors.Is(err, os.ErrNotExist) {
		t.Error("it was written through a symbolic link")
	}
}

// ourChild is the way to what is supervised here.
type ourChild struct{ watchdog.CommandWay }

func (ourChild) Carries(watchdog.ID) bool { return true }
