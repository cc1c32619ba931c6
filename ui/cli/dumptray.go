package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How long a dump may take to arrive once its receiver has said that it was
// taken, and to be sent.
const (
	dumpArrives = 10 * time.Second
	dumpLeaves  = 30 * time.Second
)

// dumpSender sends dumps to whoever asked for them.
type dumpSender interface {
	PublishDump(ctx context.Context, d wire.Dump) error
}

// sendDump sends a capture to who gave a command.
func sendDump(ctx context.Context, store *process.DumpStore, back dumpSender, c process.Capture, command string) error {
	ctx, cancel := context.WithTimeout(ctx, dumpLeaves)
	defer cancel()
	d := store.OnWire(c)
	d.Command = command
	return back.PublishDump(ctx, d)
}

// dumpTray keeps the dumps that are asked for over a bus in the data directory,
// where those of our own children stand. Dumps that others asked for are not
// kept: nobody here would know why they are there.
type dumpTray struct {
	settings *config.Config
	keep     int // of a session
	log      *slog.Logger
	spawn    func(func())
	arrives  time.Duration // dumpArrives
}

func newDumpTray(settings *config.Config, log *slog.Logger, spawn func(func())) *dumpTray {
	return &dumpTray{settings: settings, keep: settings.DefaultSession().Dump.Keep, log: log, spawn: spawn, arrives: dumpArrives}
}

// awaitedDump is a dump that is waited for.
type awaitedDump struct {
	ready chan struct{} // closed when it cannot be missed any more
	done  chan struct{} // closed when it has come, or never will
	dump  wire.Dump
	err   error
}

// await listens for the dump of a command until ctx ends.
func (t *dumpTray) await(ctx context.Context, bus openBus, c watchdog.Command) *awaitedDump {
	w := &awaitedDump{ready: make(chan struct{}), done: make(chan struct{})}
	t.spawn(func() {
		defer close(w.done)
		w.dump, w.err = bus.AwaitDump(ctx, c.Session, c.ID, sync.OnceFunc(func() { close(w.ready) }))
	})
	select {
	case <-w.ready:
	case <-w.done:
	case <-ctx.Done():
	}
	return w
}

// carry brings a command for a dump to its receiver. It is effective when the
// receiver took the dump, and its detail says under which name it stands here, or
// why it does not.
func (t *dumpTray) carry(ctx context.Context, bus openBus, c watchdog.Command, heard func(watchdog.Answer)) (watchdog.Answer, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	w := t.await(waiting, bus, c)
	a, err := bus.Carry(ctx, c, heard)
	if err != nil || a.Fate != watchdog.FateEffective {
		return a, err
	}
	limit := time.NewTimer(t.arrives)
	defer limit.Stop()
	select {
	case <-w.done:
	case <-limit.C:
	case <-ctx.Done():
	}
	stop()
	<-w.done
	a.Detail = t.put(w, a)
	return a, nil
}

// put keeps a dump that came, and tells what an operator reads of it.
func (t *dumpTray) put(w *awaitedDump, a watchdog.Answer) string {
	missing := func(why error) string {
		t.log.Warn("a dump that was asked for is not here", "session", a.Session, "command", a.Command, "reason", why)
		return a.Detail + behind("; ", "the dump did not arrive: "+why.Error())
	}
	if w.err != nil {
		return missing(w.err)
	}
	dir, err := dataDir(t.settings)
	if err != nil {
		return missing(err)
	}
	h, err := process.NewDumpStore(dir).Receive(w.dump, time.Now(), t.keep)
	if err != nil {
		return missing(err)
	}
	text := fmt.Sprintf("%s, %s, from %s", h.ID, bytesText(h.Bytes), orNone(w.dump.By))
	if h.Truncated {
		text += ", truncated"
	}
	return text + behind(": ", known(h.Verdict)) + behind(", ", known(h.Culprit))
}

// bytesText writes a number of bytes as people say it: 812 B, 12 kB, 3.1 MB.
func bytesText(n int64) string {
	switch {
	case n < 1e3:
		return fmt.Sprintf("%d B", n)
	case n < 1e6:
		return fmt.Sprintf("%d kB", (n+500)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
