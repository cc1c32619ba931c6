package orders

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// fakeWay notes what it is told.
type fakeWay struct {
	closed   chan struct{}
	running  bool
	received watchdog.ID
	dump     wire.Dump
}

func (w *fakeWay) Run(context.Context) error {
	w.running = true
	<-w.closed
	w.running = false
	return nil
}
func (w *fakeWay) Close() { close(w.closed) }
func (w *fakeWay) Receive(_ context.Context, id watchdog.ID, _ []watchdog.Op, _ func(context.Context, watchdog.Delivery)) error {
	w.received = id
	return nil
}
func (w *fakeWay) PublishDump(_ context.Context, d wire.Dump) error {
	w.dump = d
	return nil
}
func (w *fakeWay) Refused() (n watchdog.RefusedCommands) {
	n.Add(watchdog.CommandUnsigned)
	return n
}

func TestAnInboxRunsItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWay{closed: make(chan struct{})}
		in := NewInbox(w)
		if synctest.Wait(); !w.running {
			t.Error("the way does not run")
		}
		if err := in.Receive(t.Context(), "a", nil, nil); err != nil || w.received != "a" {
			t.Errorf("the way receives for %q, %v", w.received, err)
		}
		if err := in.PublishDump(t.Context(), guard.Dump{ID: "a", BootID: "b", Command: "c1", Text: []byte("stacks")}); err != nil {
			t.Error(err)
		}
		if d := w.dump; d.Session != "a" || d.BootID != "b" || d.Command != "c1" || d.PID == 0 || string(d.Text) != "stacks" {
			t.Errorf("the way publishes %+v", d)
		}
		if n := in.Refused(); n.Of(watchdog.CommandUnsigned) != 1 {
			t.Errorf("refused: %v", n)
		}
		if in.Close(); w.running {
			t.Error("Close came back while the way runs")
		}
	})
}
