package guard_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

type wallClock struct{}

func (wallClock) Now() watchdog.Instant { return watchdog.Instant{Wall: time.Now().UnixNano()} }

func localWay() *watchdog.LocalCommands {
	return watchdog.NewLocalCommands(watchdog.LocalCommandOptions{Name: "agent", Clock: wallClock{}})
}

// ask sends a command to the session and gives its result and the words before.
func ask(t *testing.T, way watchdog.CommandWay, s *guard.Session, op watchdog.Op, change func(*watchdog.Command)) (watchdog.Answer, []watchdog.Answer, error) {
	t.Helper()
	c := watchdog.Command{ID: string(op) + "-1", Op: op, Session: s.ID(), BootID: s.BootID(), IssuedBy: "ops1", Expires: time.Now().Add(watchdog.CommandTTL)}
	if change != nil {
		change(&c)
	}
	var words []watchdog.Answer
	ctx, cancel := context.WithTimeout(t.Context(), 2*watchdog.CommandTTL)
	defer cancel()
	a, err := way.Carry(ctx, c, func(a watchdog.Answer) { words = append(words, a) })
	return a, words, err
}

// lastBeat remembers what was published last.
type lastBeat struct {
	mu   sync.Mutex
	beat watchdog.Beat
}

func (l *lastBeat) Publish(_ context.Context, m guard.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beat = *m.Beat
	return nil
}

func (l *lastBeat) last() watchdog.Beat {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beat
}

func TestStopByCommand(t *testing.T) {
	for _, c := range []struct {
		name   string
		work   func(ctx context.Context, s *guard.Session)
		change func(*watchdog.Command)
		fate   watchdog.Fate
		detail string
		state  watchdog.State
		shown  string
	}{
		{"the work heeds it", func(ctx context.Context, s *guard.Session) { <-ctx.Done(); s.Fail(context.Cause(ctx)) }, nil,
			watchdog.FateEffective, "stopped by ops1", watchdog.StateError, "stopped by ops1"},
		{"it gives a reason, and the work only closes", func(ctx context.Context, _ *guard.Session) { <-ctx.Done() },
			func(c *watchdog.Command) { c.Reason = "wedged" }, watchdog.FateEffective, "stopped by ops1: wedged", watchdog.StateError, "stopped by ops1: wedged"},
		{"the work takes its time", func(ctx context.Context, s *guard.Session) { <-ctx.Done(); time.Sleep(time.Minute); s.Fail(ctx.Err()) }, nil,
			watchdog.FateEffective, "stopped by ops1", watchdog.StateError, "stopped by ops1"},
		{"the work was done meanwhile", func(ctx context.Context, s *guard.Session) { <-ctx.Done(); s.Complete() }, nil,
			watchdog.FateLostRace, "completed", watchdog.StateCompleted, ""},
		{"the work fails of itself", func(ctx context.Context, s *guard.Session) { <-ctx.Done(); s.Fail(errors.New("disk full")) }, nil,
			watchdog.FateEffective, "disk full", watchdog.StateError, "disk full"},
		{"it waits for a human", func(ctx context.Context, s *guard.Session) {
			end, err := s.Wait(watchdog.WaitHuman, time.Hour)
			if err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if err := end(); !errors.Is(err, guard.ErrStopped) {
				t.Errorf("the wait ends with %v", err)
			}
		}, nil, watchdog.FateEffective, "stopped by ops1", watchdog.StateError, "stopped by ops1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way, out := localWay(), &lastBeat{}
				s, ctx, err := guard.Start(t.Context(), guard.Options{ID: "a", Commands: []watchdog.CommandInbox{way}, Publishers: []guard.Publisher{out}})
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					c.work(ctx, s)
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
				a, words, err := ask(t, way, s, watchdog.OpStop, c.change)
				<-done
				if err != nil || a.Fate != c.fate || !strings.Contains(a.Detail, c.detail) || a.By != "agent" {
					t.Errorf("%v, the answer is %+v", err, a)
				}
				if len(words) < 2 || words[0].Fate != watchdog.FateDelivered || words[1].Fate != watchdog.FateAcknowledged {
					t.Errorf("the words on the way are %+v", words)
				}
				if b := out.last(); b.State != c.state || string(b.Message) != c.shown {
					t.Errorf("the last beat says %s, %q", b.State, b.Message)
				}
				if !errors.Is(context.Cause(ctx), guard.ErrStopped) {
					t.Errorf("the work's context ended with %v", context.Cause(ctx))
				}
			})
		})
	}
}

func TestCommandForAnotherExecutionTouchesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*watchdog.Command)
		fate   watchdog.Fate
	}{
		"another boot id":   {func(c *watchdog.Command) { c.BootID = "other" }, watchdog.FateLostRace},
		"a number alone":    {func(c *watchdog.Command) { c.BootID, c.Generation = "", 2 }, watchdog.FateRefused},
		"nothing that fits": {func(c *watchdog.Command) { c.BootID = "" }, watchdog.FateRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way := localWay()
				s, ctx, err := guard.Start(t.Context(), guard.Options{ID: "a", Commands: []watchdog.CommandInbox{way}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				synctest.Wait()
				a, _, err := ask(t, way, s, watchdog.OpStop, c.change)
				if err != nil || a.Fate != c.fate || ctx.Err() != nil {
					t.Errorf("%v, the answer is %+v; the work's context: %v", err, a, ctx.Err())
				}
			})
		})
	}
}

func TestStopThatIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way, out := localWay(), &lastBeat{}
		var stopped atomic.Int32
		s, ctx, err := guard.Start(t.Context(), guard.Options{
			ID: "a", Commands: []watchdog.CommandInbox{way}, Publishers: []guard.Publisher{out}, OnStop: func(watchdog.Command) { stopped.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		var words []watchdog.Answer
		limited, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c := watchdog.Command{ID: "c1", Op: watchdog.OpStop, Session: "a", BootID: s.BootID(), Expires: time.Now().Add(time.Hour)}
		if a, err := way.Carry(limited, c, func(a watchdog.Answer) { words = append(words, a) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, the answer is %+v", err, a)
		}
		// The sender concludes it; the agent goes on, and nothing is told twice.
		if a, err := way.Conclude(t.Context(), watchdog.Answer{Command: "c1", Session: "a", Fate: watchdog.FateIneffective}); err != nil || a.Fate != watchdog.FateIneffective {
			t.Errorf("%v, %+v", err, a)
		}
		if len(words) != 2 || stopped.Load() != 1 || ctx.Err() != nil {
			t.Errorf("words %+v, OnStop was called %d times, the context: %v", words, stopped.Load(), ctx.Err())
		}
		if b := out.last(); b.State == watchdog.StateError {
			t.Error("it has ended")
		}
	})
}

// dumpKeeper takes dumps, or fails.
type dumpKeeper struct {
	err error
	got []guard.Dump
}

func (d *dumpKeeper) PublishDump(_ context.Context, dump guard.Dump) error {
	d.got = append(d.got, dump)
	return d.err
}

func TestDumpByCommand(t *testing.T) {
	for name, c := range map[string]struct {
		keeper *dumpKeeper
		change func(*watchdog.Command)
		fate   watchdog.Fate
		detail string
	}{
		"sent":                 {&dumpKeeper{}, nil, watchdog.FateEffective, "goroutines"},
		"not sent":             {&dumpKeeper{err: errors.New("too large")}, nil, watchdog.FateIneffective, "too large"},
		"of whatever runs":     {&dumpKeeper{}, func(c *watchdog.Command) { c.BootID = "" }, watchdog.FateEffective, "goroutines"},
		"of another execution": {&dumpKeeper{}, func(c *watchdog.Command) { c.BootID = "other" }, watchdog.FateLostRace, "another run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way := localWay()
				s, _, err := guard.Start(t.Context(), guard.Options{ID: "a", Commands: []watchdog.CommandInbox{way}, Dumps: c.keeper})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				synctest.Wait()
				a, _, err := ask(t, way, s, watchdog.OpDump, c.change)
				if err != nil || a.Fate != c.fate || !strings.Contains(a.Detail, c.detail) {
					t.Errorf("%v, the answer is %+v", err, a)
				}
				if c.fate == watchdog.FateLostRace {
					if len(c.keeper.got) > 0 {
						t.Error("it was dumped")
					}
					return
				}
				if len(c.keeper.got) != 1 || !bytes.Contains(c.keeper.got[0].Text, []byte("TestDumpByCommand")) || c.keeper.got[0].Command != "dump-1" || c.keeper.got[0].BootID != s.BootID() {
					t.Errorf("dumped were %d: %+v", len(c.keeper.got), c.keeper.got)
				}
			})
		})
	}
}

// publishingInbox takes the dumps that are asked for through it.
type publishingInbox struct {
	watchdog.CommandInbox
	*dumpKeeper
}

func TestDumpGoesBackTheWayItWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := localWay()
		back := &dumpKeeper{}
		s, _, err := guard.Start(t.Context(), guard.Options{ID: "a", Commands: []watchdog.CommandInbox{publishingInbox{way, back}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		if a, _, err := ask(t, way, s, watchdog.OpDump, nil); err != nil || a.Fate != watchdog.FateEffective {
			t.Errorf("%v, the answer is %+v", err, a)
		}
		if len(back.got) != 1 || back.got[0].Command != "dump-1" || len(back.got[0].Text) == 0 {
			t.Errorf("the inbox was given %d dumps: %+v", len(back.got), back.got)
		}
	})
}

func TestBeatsSayWhichCommandsAreTaken(t *testing.T) {
	kill := func(watchdog.Command) error { return nil }
	for name, c := range map[string]struct {
		o     guard.Options
		said  bool
		takes []watchdog.Op
	}{
		"none":     {guard.Options{}, false, nil},
		"the rest": {guard.Options{Commands: []watchdog.CommandInbox{localWay()}}, true, []watchdog.Op{watchdog.OpStop, watchdog.OpDump}},
		"all": {guard.Options{Commands: []watchdog.CommandInbox{localWay()}, OnKill: kill, OnRestart: kill}, true,
			[]watchdog.Op{watchdog.OpStop, watchdog.OpKill, watchdog.OpRestart, watchdog.OpDump}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &lastBeat{}
				c.o.ID, c.o.Publishers = "a", []guard.Publisher{out}
				if c.said {
					c.o.Commands = []watchdog.CommandInbox{localWay()}
				}
				s, _, err := guard.Start(t.Context(), c.o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				synctest.Wait()
				if b := out.last(); b.TakesSaid != c.said || b.Takes != watchdog.OpSetOf(c.takes...) {
					t.Errorf("the beat says %v, %v", b.TakesSaid, b.Takes.Ops())
				}
			})
		})
	}
	if _, _, err := guard.Start(t.Context(), guard.Options{ID: "a", Plain: true, Commands: []watchdog.CommandInbox{localWay()}}); err == nil || !strings.Contains(err.Error(), "Plain") {
		t.Errorf("a plain session that takes commands: %v", err)
	}
	if _, _, err := guard.Start(t.Context(), guard.Options{ID: "a", Commands: []watchdog.CommandInbox{nil}}); err == nil || !strings.Contains(err.Error(), "Commands[0]") {
		t.Errorf("no inbox: %v", err)
	}
}

func TestKillAndRestartAreTheAgentsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := localWay()
		var s *guard.Session
		var err error
		s, _, err = guard.Start(t.Context(), guard.Options{
			ID: "a", Commands: []watchdog.CommandInbox{way},
			OnKill:    func(watchdog.Command) error { return errors.New("a transaction is open") },
			OnRestart: func(watchdog.Command) error { s.Fail(errors.New("begun anew")); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		if a, _, err := ask(t, way, s, watchdog.OpKill, nil); err != nil || a.Fate != watchdog.FateIneffective || !strings.Contains(a.Detail, "transaction") {
			t.Errorf("%v, the answer to kill is %+v", err, a)
		}
		if a, _, err := ask(t, way, s, watchdog.OpRestart, nil); err != nil || a.Fate != watchdog.FateEffective {
			t.Errorf("%v, the answer to restart is %+v", err, a)
		}
	})
}

// hostileInbox fails, panics and hangs in turn.
type hostileInbox struct{ calls chan struct{} }

func (h *hostileInbox) Receive(ctx context.Context, _ watchdog.ID, _ []watchdog.Op, _ func(context.Context, watchdog.Delivery)) error {
	h.calls <- struct{}{}
	switch len(h.calls) % 3 {
	case 1:
		return errors.New("the bus is away")
	case 2:
		panic("a bug")
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestHostileInboxCostsTheAgentNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hostileInbox{make(chan struct{}, 100)}
		s, ctx, err := guard.Start(t.Context(), guard.Options{ID: "a", Commands: []watchdog.CommandInbox{h}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if len(h.calls) != 3 || ctx.Err() != nil {
			t.Errorf("it was asked %d times; the work's context: %v", len(h.calls), ctx.Err())
		}
		began := time.Now()
		if err := s.Close(); err != nil || time.Since(began) > time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
	})
}
