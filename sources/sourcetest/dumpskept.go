//go:build unix

package sourcetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// DumpsKept is a way that keeps dumps which nobody asked for.
type DumpsKept interface {
	KeepDump(ctx context.Context, d wire.Dump) error
	KeptDumps(ctx context.Context, id watchdog.ID, had func(wire.Dump) bool) ([]wire.Dump, error)
}

// dumpsStand is a supervisor that dumps by itself, and an operator who comes in the
// morning: he finds the newest of each session, and no more than may stand.
func dumpsStand(t *testing.T, h DumpHarness) {
	b := h.Serve(t)
	c, stop := b.Open(t, trusting("run@night/1"))
	supervisor := c.(DumpsKept)
	ctx, cancel := context.WithTimeout(t.Context(), 3*h.Patience)
	defer cancel()
	at := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Hour)
	taken := func(id watchdog.ID, n int) wire.Dump {
		d := DumpOfCommand(id, "")
		d.ID, d.By, d.At, d.Reason = fmt.Sprintf("%s@%d", id, n), "", at.Add(time.Duration(n)*time.Minute), "stalled"
		d.Text = fmt.Appendf(nil, "dump %d of %s\n", n, id)
		return d
	}
	nothing := func(wire.Dump) bool { return false }
	if h.Forgets {
		if err := supervisor.KeepDump(ctx, taken("a.b", 1)); err == nil {
			t.Error("a bus that keeps nothing keeps a dump")
		}
		return
	}
	if kept, err := supervisor.KeptDumps(ctx, "", nothing); err != nil || len(kept) > 0 {
		t.Fatalf("before the first one %d stand, %v", len(kept), err)
	}
	const sent = wire.KeptDumps + 2
	for n := range sent {
		if err := supervisor.KeepDump(ctx, taken("a.b", n)); err != nil {
			t.Fatal(err)
		}
	}
	long := taken("日本:1", 0)
	long.Text = bytes.Repeat([]byte("frame\n"), 500_000)
	if err := supervisor.KeepDump(ctx, long); err != nil {
		t.Fatal(err)
	}
	go stop()
	stop() // it is gone by then
	morning, _ := b.Open(t, trusting("ops"))
	operator := morning.(DumpsKept)
	kept, err := operator.KeptDumps(ctx, "a.b", nothing)
	if err != nil || len(kept) != wire.KeptDumps {
		t.Fatalf("%d of the session stand, want %d; %v", len(kept), wire.KeptDumps, err)
	}
	for i, d := range kept {
		want := taken("a.b", sent-1-i)
		if d.ID != want.ID || d.By != "run@night/1" || d.Command != "" || d.Object != "" || d.Reason != "stalled" || !d.At.Equal(want.At) || !bytes.Equal(d.Text, want.Text) {
			t.Errorf("number %d is %+v", i, d)
		}
	}
	all, err := operator.KeptDumps(ctx, "", func(d wire.Dump) bool { return d.Session == "a.b" })
	if err != nil || len(all) != 1 || all[0].Session != long.Session || !all[0].Truncated || len(all[0].Text) > wire.MaxKeptDumpBytes || len(all[0].Text) < 200<<10 {
		t.Errorf("%v; of what is not had %d stand: %.200v", err, len(all), all)
	}
}
