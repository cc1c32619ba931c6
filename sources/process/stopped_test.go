package process

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// newestState is a store that is read like the file of a supervisor that was
// killed just now.
type newestState struct {
	mu   sync.Mutex
	left State
}

func (s *newestState) Load() (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left, nil
}

func (s *newestState) Save(st State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = st
	return nil
}

// A stop is kept before it is answered, wherever in its life the session is: a
// supervisor that is killed right after it is followed by one that leaves the
// session down until somebody starts it.
func TestAStopOutlivesItsSupervisor(t *testing.T) {
	t.Parallel()
	slow := func(o *Options) { o.Guard.BackoffMin, o.Guard.BackoffMax = time.Hour, time.Hour }
	for _, c := range []struct {
		name, script string
		guard        func(*Options)
		phase        watchdog.SupervisorPhase // when it is stopped
	}{
		{"running", "sleep 60", nil, watchdog.SupervisorRunning},
		{"waiting for a restart", "exit 1", slow, watchdog.SupervisorRestarting},
		{"held as a crash loop", "exit 1", nil, watchdog.SupervisorCrashLoop},
		{"stopping already", "trap '' TERM; while :; do sleep 1; done", nil, watchdog.SupervisorStopping},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conf := shell("a", c.script)
			conf.StopGrace = 300 * time.Millisecond
			store := new(newestState)
			with := func(o *Options) {
				if c.guard != nil {
					c.guard(o)
				}
				o.Store = store
			}
			first, end := superviseUntil(t, new(witness), with, conf)
			is := func(s *Supervisor, want watchdog.SupervisorPhase) func() bool {
				return func() bool {
					st, err := s.Session("a")
					return err == nil && st.Phase == want && (want != watchdog.SupervisorRunning || st.PID > 0)
				}
			}
			ctx := within(t)
			if c.phase == watchdog.SupervisorStopping {
				eventually(t, "running", is(first, watchdog.SupervisorRunning))
				given, cancel := context.WithCancel(ctx)
				var stopping sync.WaitGroup
				stopping.Go(func() { _, _ = first.Stop(given, Target{ID: "a"}) })
				eventually(t, c.name, func() bool {
					now, _ := store.Load()
					return is(first, c.phase)() && now.Sessions["a"].Stopped
				})
				cancel() // before its end
				stopping.Wait()
			} else {
				eventually(t, c.name, is(first, c.phase))
				if _, err := first.Stop(ctx, Target{ID: "a"}); err != nil {
					t.Fatal(err)
				}
			}
			killed, _ := store.Load()
			end()
			for id, s := range killed.Sessions {
				s.Run = nil // its processes are gone by now
				killed.Sessions[id] = s
			}

			for range 2 { // and one that only looks on does not forget it
				store.left = killed
				next, end := superviseUntil(t, new(witness), with, conf)
				eventually(t, "known to be down", func() bool {
					st, _ := next.Session("a")
					return strings.HasPrefix(st.Detail, "stopped, ") || st.Runs > 0
				})
				end()
				killed, _ = store.Load()
				if st, _ := next.Session("a"); st.Runs != 0 || st.Phase != watchdog.SupervisorHeld {
					t.Fatalf("%d runs, %v: %s", st.Runs, st.Phase, st.Detail)
				}
			}

			byHand, end := superviseUntil(t, new(witness), func(o *Options) { with(o); o.ByHand = true }, conf)
			eventually(t, "started by hand", func() bool { st, _ := byHand.Session("a"); return st.Runs > 0 })
			end()
			if c.phase != watchdog.SupervisorRunning {
				return
			}
			store.left = killed
			last, end := superviseUntil(t, new(witness), with, conf)
			defer end()
			ordersAnswered(t, last, killed)
			if now, _ := store.Load(); now.Sessions["a"].Stopped {
				t.Error("who started it again is forgotten")
			}
		})
	}
}

// ordersAnswered fails unless a session that is down since an earlier supervisor
// is known by the run that people saw last, and starts when it is restarted.
func ordersAnswered(t *testing.T, s *Supervisor, left State) {
	t.Helper()
	saved := left.Sessions["a"]
	if saved.Generation == 0 || saved.BootID == "" {
		t.Fatalf("kept %+v", saved)
	}
	eventually(t, "known by its last run", func() bool {
		st, _ := s.Session("a")
		return st.Generation == saved.Generation && st.BootID == saved.BootID
	})
	if _, err := s.Restart(within(t), Target{ID: "a", Generation: saved.Generation + 1}); !errors.Is(err, ErrOtherGeneration) {
		t.Errorf("a restart of a run that never was: %v", err)
	}
	if st, err := s.Restart(within(t), Target{ID: "a", Generation: saved.Generation}); err != nil || st.PID == 0 {
		t.Errorf("it is not started: %v, %+v", err, st)
	}
}

// What was held as a crash loop before this supervisor began is started by hand.
func TestWhatIsHeldSinceAnEarlierSupervisorCanBeRestarted(t *testing.T) {
	t.Parallel()
	store := &newestState{left: State{Boot: machineBoot(), Sessions: map[watchdog.ID]SessionState{"a": {Argv: shell("a", "sleep 60").Command,
		Chain: watchdog.RestartChain{Links: 3, Short: 3, Held: true}, Generation: 3, BootID: "of-the-third"}}}}
	s := supervise(t, new(witness), func(o *Options) { o.Store = store }, shell("a", "sleep 60"))
	left, _ := store.Load()
	ordersAnswered(t, s, left)
}

// The end of a supervisor is nobody's stop: the next one starts what ran.
func TestTheEndOfASupervisorIsNoStop(t *testing.T) {
	t.Parallel()
	store := new(newestState)
	with := func(o *Options) { o.Store = store }
	runs := func(s *Supervisor) func() bool {
		return func() bool { st, _ := s.Session("a"); return st.PID > 0 }
	}
	for range 2 {
		s, end := superviseUntil(t, new(witness), with, shell("a", "sleep 60"))
		eventually(t, "running", runs(s))
		end()
	}
}

// fullDisk keeps nothing until there is room.
type fullDisk struct {
	newestState
	tries, room atomic.Int64
}

func (f *fullDisk) Save(st State) error {
	if f.tries.Add(1); f.room.Load() == 0 {
		return syscall.ENOSPC
	}
	return f.newestState.Save(st)
}

// Who cannot keep the state says so once, however often it is tried, and once
// more when it is kept again.
func TestAStateThatCannotBeKeptIsToldOnce(t *testing.T) {
	t.Parallel()
	var said lines
	store := new(fullDisk)
	s := supervise(t, new(witness), func(o *Options) { o.Store, o.Log = store, slog.New(slog.NewTextHandler(&said, nil)) }, shell("a", "exit 1"))
	if _, err := s.Wait(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	if n := said.count("state is not kept"); n != 1 || store.tries.Load() < 5 {
		t.Errorf("told %d times in %d tries", n, store.tries.Load())
	}
	store.room.Store(1)
	if err := s.Start("a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "kept again, and told", func() bool { return said.count("state is kept again") == 1 })
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), words)
}
