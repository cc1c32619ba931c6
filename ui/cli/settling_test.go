package cli

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// dueEngine hears what is posted; all that is to be settled is still due.
type dueEngine struct{ sourcetest.Recorder }

func (*dueEngine) StillDue(watchdog.Settle) bool { return true }

// TestASettlingLearnsToWrite: beside a screen that only looks nothing is made on a
// bus, until an end is to be written; what is said of the ledger stays what the
// reader says.
func TestASettlingLearnsToWrite(t *testing.T) {
	server, err := embedded.StartNATS(embedded.NATSOptions{JetStream: true, StoreDir: t.TempDir(), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	settings, err := bareSettings("test", server.ClientURL(), "-")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSettling(settings, settlingOptions{Writer: "screen@here/1", OnDemand: true, clock: clock.System(), log: discard(), spawn: plainly})
	if err != nil {
		t.Fatal(err)
	}
	if !s.writes() {
		t.Error("it says that it cannot settle")
	}
	var engine dueEngine
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx, &engine) })
	defer running.Wait()
	defer cancel()

	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := nc.JetStream(nats.MaxWait(30 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	streams := func() (n int) {
		for range js.StreamNames() {
			n++
		}
		return n
	}
	engine.Wait(t, 30*time.Second, "that it looked", func() bool { return len(sourcetest.EventsOf[watchdog.LedgerChanged](&engine.Recorder, 0)) > 0 })
	if n := streams(); n != 0 {
		t.Errorf("%d streams were made by looking", n)
	}

	within, done := context.WithTimeout(t.Context(), 60*time.Second)
	defer done()
	r := watchdog.Record{ID: "a", Generation: 1, Outcome: watchdog.OutcomeExpired, SettledBy: watchdog.ByOperator, Reason: "test", At: time.Now().UTC()}
	for stands, err := s.Settle(within, r); ; stands, err = s.Settle(within, r) {
		if err == nil {
			if stands.Outcome != watchdog.OutcomeExpired || stands.Writer != "screen@here/1" {
				t.Errorf("the end stands as %+v", stands)
			}
			break
		}
		if within.Err() != nil {
			t.Fatal(err)
		}
	}
	if streams() == 0 {
		t.Error("an end was written, and there is no stream")
	}
	engine.Wait(t, 30*time.Second, "the end, from who reads", func() bool { return len(sourcetest.EventsOf[watchdog.TerminalSeen](&engine.Recorder, 0)) > 0 })
	for _, ev := range sourcetest.EventsOf[watchdog.LedgerChanged](&engine.Recorder, 0) {
		if ev.Ready && ev.Authority.Name != watchdog.AuthorityJetStream {
			t.Errorf("it tells %+v", ev)
		}
	}
	if swept := sourcetest.EventsOf[watchdog.Swept](&engine.Recorder, 0); len(swept) > 0 {
		t.Errorf("a process that only looks tells of passes: %+v", swept)
	}
}

// TestAReadOnlySettlingNeverWrites: it does not learn.
// Who only looks tells a bus where nothing was ever settled from one that is away.
func TestAReaderTellsAbsentFromAway(t *testing.T) {
	for why, c := range map[string]struct {
		marks   []watchdog.Mark
		unnamed bool
	}{
		"none is named":  {[]watchdog.Mark{{Place: "NATS"}, {Place: "Redis"}}, true},
		"one is unheard": {[]watchdog.Mark{{Place: "NATS"}, {Place: "Redis", Err: watchdog.ErrAuthorityAway}}, false},
	} {
		t.Run(why, func(t *testing.T) {
			name, why := (&ledgerStores{reads: true}).onlyNamed(c.marks)
			if name != "" || (why == unnamed) != c.unnamed {
				t.Errorf("it names %q because %q", name, why)
			}
			var told watchdog.LedgerChanged
			s := &settling{o: settlingOptions{clock: clock.System()}, post: func(ev watchdog.Event) { told = ev.(watchdog.LedgerChanged) }}
			s.wait(why)
			if told.Unnamed != c.unnamed || told.Reason == "" {
				t.Errorf("told %+v", told)
			}
		})
	}
}

func TestAReadOnlySettlingNeverWrites(t *testing.T) {
	settings, err := bareSettings("test", "nats://127.0.0.1:1", "-")
	if err != nil {
		t.Fatal(err)
	}
	settings.ReadOnly = true
	s, err := newSettling(settings, settlingOptions{Writer: "screen@here/1", OnDemand: true, clock: clock.System(), log: discard(), spawn: plainly})
	if err != nil {
		t.Fatal(err)
	}
	defer s.stores.close()
	if s.writes() {
		t.Error("it says that it can settle")
	}
	if _, err := s.Settle(t.Context(), watchdog.Record{ID: "a", Generation: 1}); err == nil {
		t.Error("it settles")
	}
}
