//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// patience bounds what a test waits for on a busy machine.
const patience = 20 * time.Second

// witness is an engine, a publisher and a ledger that remember.
type witness struct {
	mu      sync.Mutex
	beats   []watchdog.Beat
	events  []watchdog.Event
	sent    int // beats to the publisher
	records []watchdog.Record
	claims  []watchdog.Claim
	away    bool // the ledger does not answer
}

func (w *witness) Beats(b []watchdog.Beat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beats = append(w.beats, b...)
}

func (w *witness) Post(e watchdog.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *witness) Publish(*watchdog.Beat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
}

func (w *witness) Claim(_ context.Context, c watchdog.Claim) (watchdog.Generation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return 0, watchdog.ErrAuthorityAway
	}
	for i, old := range w.claims {
		if old.BootID == c.BootID {
			return watchdog.Generation(i + 1), nil
		}
	}
	w.claims = append(w.claims, c)
	return watchdog.Generation(len(w.claims)), nil
}

func (w *witness) Settle(_ context.Context, r watchdog.Record) (watchdog.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return watchdog.Record{}, watchdog.ErrAuthorityAway
	}
	w.records = append(w.records, r)
	return r, nil
}

func (w *witness) setAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

func (w *witness) ends() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, r := range w.records {
		out = append(out, fmt.Sprintf("%s/%d %s", r.ID, r.Generation, r.Outcome))
	}
	return out
}

// states are the states of the beats of one session in their order, each once
// in a row.
func (w *witness) states(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, b := range w.beats {
		if s := string(b.StateText); string(b.ID) == id && (len(out) == 0 || out[len(out)-1] != s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

func (w *witness) lastBeat(id string) watchdog.Beat {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.beats) - 1; i >= 0; i-- {
		if string(w.beats[i].ID) == id {
			return w.beats[i]
		}
	}
	return watchdog.Beat{}
}

func (w *witness) countBeats(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, b := range w.beats {
		if string(b.ID) == id {
			n++
		}
	}
	return n
}

// shell is a session that runs a script.
func shell(id, script string) config.Session {
	s := new(config.Config).DefaultSession()
	s.ID, s.Command = id, []string{"/bin/sh", "-c", script}
	s.StallTimeout, s.StopGrace = time.Hour, 5*time.Second
	return s
}

// quick is a guard that a test does not wait for.
func quick() config.RestartGuard {
	return config.RestartGuard{Burst: 3, Window: time.Minute, BackoffMin: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond,
		Fleet: config.FleetGuard{PerHour: 1000, Failing: 1, Hold: time.Minute}}
}

// supervise runs sessions until the test ends.
func supervise(t *testing.T, w *witness, change func(*Options), sessions ...config.Session) *Supervisor {
	t.Helper()
	s, stop := superviseUntil(t, w, change, sessions...)
	t.Cleanup(stop)
	return s
}

func superviseUntil(t *testing.T, w *witness, change func(*Options), sessions ...config.Session) (*Supervisor, func()) {
	t.Helper()
	o := Options{Sessions: sessions, Guard: quick(), Clock: clock.System(), Engine: w, Publishers: []Publisher{w}, Ends: w,
		Interval: 200 * time.Millisecond, sample: 100 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	return s, func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Run: %v", err)
				}
			case <-time.After(patience):
				t.Fatal("Run does not return")
			}
		})
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !sourcetest.Eventually(patience, ok) {
		t.Fatalf("after %v still not: %s", patience, what)
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// alive reports whether a process runs and is no zombie.
func alive(pid int) bool {
	p, err := statOf(pid)
	return err == nil && !p.ended()
}

// pidIn reads a process id that a script wrote.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	pid := 0
	eventually(t, file+" holds a pid", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	return pid
}

func TestAnEndIsSettledByItsExitCode(t *testing.T) {
	for _, c := range []struct {
		script, want string
		code         int
		states       string
	}{
		{"exit 0", "a/1 completed", 0, "running completed"},
		{"exit 78", "a/1 error", 78, "running error"},
		{"kill -SEGV $$", "a/1 error", 139, "running error"},
	} {
		t.Run(c.script, func(t *testing.T) {
			w := new(witness)
			session := shell("a", c.script)
			session.Restart = config.RestartNever
			s, stop := superviseUntil(t, w, nil, session)
			st, err := s.Wait(within(t), "a")
			stop()
			if err != nil || st.ExitCode() != c.code {
				t.Errorf("ended with %d (%v), want %d", st.ExitCode(), err, c.code)
			}
			if got := strings.Join(w.ends(), ", "); got != c.want {
				t.Errorf("settled %q, want %q", got, c.want)
			}
			if got := w.states("a"); got != c.states {
				t.Errorf("states of the beats: %q, want %q", got, c.states)
			}
		})
	}
}

func TestACrashLoopIsHeldAtItsNumber(t *testing.T) {
	w := new(witness)
	dir := t.TempDir()
	s := supervise(t, w, nil, shell("a", "echo x >> "+dir+"/runs; exit 1"))
	st, err := s.Wait(within(t), "a")
	if err != nil || st.Phase != watchdog.SupervisorCrashLoop || st.Restarts != 2 || st.Runs != 3 {
		t.Errorf("got %+v, %v", st, err)
	}
	text, _ := os.ReadFile(dir + "/runs")
	if n := strings.Count(string(text), "x"); n != 3 {
		t.Errorf("it was started %d times, want 3", n)
	}
	eventually(t, "all three are settled", func() bool { return strings.Join(w.ends(), ", ") == "a/1 error, a/2 error, a/3 error" })
	if err := s.Start("a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a start by hand runs it again", func() bool { return len(w.ends()) > 3 })
}

// The chain of failures goes on over supervisors: of the same command, held or
// not.
func TestFailuresAreCountedOverSupervisors(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  string // what the supervisor before ran
		byHand bool
		runs   int // of the second supervisor
		phase  watchdog.SupervisorPhase
	}{
		{"one more of three", "exit 1", false, 1, watchdog.SupervisorCrashLoop},
		{"another command", "exit 2", false, 3, watchdog.SupervisorCrashLoop},
		{"held", "hold", false, 0, watchdog.SupervisorCrashLoop},
		{"held, started by hand", "hold", true, 1, watchdog.SupervisorCrashLoop},
	} {
		t.Run(c.name, func(t *testing.T) {
			chain := watchdog.RestartChain{Links: 2, Short: 2}
			if c.first == "hold" {
				c.first, chain = "exit 1", watchdog.RestartChain{Links: 3, Short: 3, Held: true}
			}
			store := &stateOf{State{Boot: machineBoot(), Sessions: map[watchdog.ID]SessionState{
				"a": {Argv: shell("a", c.first).Command, Chain: chain}}}}
			s := supervise(t, new(witness), func(o *Options) { o.Store, o.ByHand = store, c.byHand }, shell("a", "exit 1"))
			st, err := s.Wait(within(t), "a")
			if err != nil || st.Runs != c.runs || st.Phase != c.phase {
				t.Errorf("%d runs, %v, %v; want %d, %v", st.Runs, st.Phase, err, c.runs, c.phase)
			}
		})
	}
}

// stateOf is what an earlier supervisor left.
type stateOf struct{ left State }

func (s *stateOf) Load() (State, error) { return s.left, nil }
func (s *stateOf) Save(State) error     { return nil }

// The end of a supervisor cuts off no settlement, and waits for one that comes
// late; of that nobody is warned.
func TestTheEndWaitsForItsSettlements(t *testing.T) {
	var log strings.Builder
	w := &slowLedger{failures: 2}
	s, end := superviseUntil(t, &w.witness, func(o *Options) { o.Ends, o.Log = w, slog.New(slog.NewTextHandler(&log, nil)) }, shell("a", "exit 0"))
	if _, err := s.Wait(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	end() // while the first try is under way
	if got := strings.Join(w.ends(), ", "); got != "a/1 completed" || w.cut.Load() > 0 {
		t.Errorf("settled %q, %d cut off", got, w.cut.Load())
	}
	if text := log.String(); strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
		t.Errorf("logged: %s", text)
	}
}

// slowLedger takes its time, and fails at first.
type slowLedger struct {
	witness
	failures int
	cut      atomic.Int32 // calls whose context ended under them
}

func (w *slowLedger) Settle(ctx context.Context, r watchdog.Record) (watchdog.Record, error) {
	select {
	case <-ctx.Done():
		w.cut.Add(1)
		return watchdog.Record{}, ctx.Err()
	case <-time.After(200 * time.Millisecond):
	}
	if w.failures--; w.failures >= 0 {
		return watchdog.Record{}, watchdog.ErrAuthorityAway
	}
	return w.witness.Settle(ctx, r)
}

func TestStopEndsTheWholeGroup(t *testing.T) {
	for _, c := range []struct {
		name, script string
		grace        time.Duration
		outcome      string
	}{
		{"a background child", "sleep 600 & echo $! > PID; wait", 5 * time.Second, "a/1 stopped"},
		{"a background child that holds the pipe, leader gone first", "trap 'exit 0' TERM; sleep 600 & echo $! > PID; wait", 5 * time.Second, "a/1 stopped"},
		{"a member that ignores SIGTERM", "sh -c 'trap \"\" TERM; echo $$ > PID; while :; do sleep 1; done' & trap 'exit 0' TERM; while :; do sleep 0.1; done", 300 * time.Millisecond, "a/1 stopped"},
		{"a leader that ignores SIGTERM", "trap '' TERM; echo $$ > PID; while :; do sleep 0.1; done", 300 * time.Millisecond, "a/1 stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := new(witness)
			file := filepath.Join(t.TempDir(), "pid")
			session := shell("a", strings.ReplaceAll(c.script, "PID", file))
			session.StopGrace = c.grace
			s := supervise(t, w, nil, session)
			pid := pidIn(t, file)
			begun := time.Now()
			st, err := s.Stop(within(t), Target{ID: "a"})
			if err != nil || len(st.Survivors) > 0 || st.PID != 0 {
				t.Errorf("Stop: %+v, %v", st, err)
			}
			if took := time.Since(begun); took > c.grace+5*time.Second {
				t.Errorf("it took %v with a grace of %v", took, c.grace)
			}
			if alive(pid) {
				t.Errorf("process %d lives on", pid)
			}
			eventually(t, c.outcome, func() bool { return strings.Join(w.ends(), ", ") == c.outcome })
		})
	}
}

func TestAnEndByItselfTakesTheRestAlong(t *testing.T) {
	w := new(witness)
	file := filepath.Join(t.TempDir(), "pid")
	session := shell("a", "sleep 600 & echo $! > "+file)
	session.StopGrace = 30 * time.Second
	s := supervise(t, w, nil, session)
	begun := time.Now()
	if _, err := s.Wait(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the pipe that a grandchild holds hung it for %v", took)
	}
	if pid := pidIn(t, file); alive(pid) {
		t.Errorf("process %d lives on", pid)
	}
	eventually(t, "completed", func() bool { return strings.Join(w.ends(), ", ") == "a/1 completed" })
}

func TestStopWinsOverABackoff(t *testing.T) {
	w := new(witness)
	s := supervise(t, w, func(o *Options) { o.Guard.BackoffMin, o.Guard.BackoffMax = time.Hour, time.Hour }, shell("a", "exit 1"))
	eventually(t, "it waits for its restart", func() bool {
		st, _ := s.Session("a")
		return st.Phase == watchdog.SupervisorRestarting && st.NextRestart > 0
	})
	st, err := s.Stop(within(t), Target{ID: "a"})
	if err != nil || st.Phase != watchdog.SupervisorHeld || st.Runs != 1 || st.NextRestart != 0 {
		t.Errorf("got %+v, %v", st, err)
	}
}

func TestTwoRestartsAtOnceAreOne(t *testing.T) {
	w := new(witness)
	dir := t.TempDir()
	s := supervise(t, w, nil, shell("a", "echo x >> "+dir+"/runs; trap 'sleep 0.3; exit 0' TERM; while :; do sleep 0.05; done"))
	eventually(t, "it runs", func() bool { _, err := os.Stat(dir + "/runs"); return err == nil })
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := s.Restart(within(t), Target{ID: "a", Generation: 1}); err != nil && !errors.Is(err, ErrOtherGeneration) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	eventually(t, "the second run begins", func() bool {
		text, _ := os.ReadFile(dir + "/runs")
		return strings.Count(string(text), "x") == 2
	})
	st, err := s.Session("a")
	if err != nil || st.Runs != 2 || st.Restarts != 1 || st.Generation != 2 {
		t.Errorf("got %+v, %v", st, err)
	}
	if got := strings.Join(w.ends(), ", "); got != "a/1 stopped" {
		t.Errorf("settled %s", got)
	}
	if _, err := s.Stop(within(t), Target{ID: "a", Generation: 1}); !errors.Is(err, ErrOtherGeneration) {
		t.Errorf("a stop of generation 1 was answered with %v", err)
	}
}

func TestTheSupervisorTakesItsChildrenAlong(t *testing.T) {
	w := new(witness)
	file := filepath.Join(t.TempDir(), "pid")
	_, stop := superviseUntil(t, w, nil, shell("a", "echo $$ > "+file+"; exec sleep 600"))
	pid := pidIn(t, file)
	stop()
	if alive(pid) {
		t.Errorf("process %d lives on", pid)
	}
	if got := strings.Join(w.ends(), ", "); got != "a/1 stopped" {
		t.Errorf("settled %q", got)
	}
}

func TestACommandThatDoesNotExistIsAnError(t *testing.T) {
	w := new(witness)
	session := shell("a", "")
	session.Command = []string{"/nonexistent/agent"}
	s := supervise(t, w, nil, session)
	st, err := s.Wait(within(t), "a")
	if err != nil || st.ExitCode() != exitNotStarted || st.Phase != watchdog.SupervisorCrashLoop {
		t.Errorf("got %+v, %v", st, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.records) == 0 || !strings.Contains(w.records[0].Reason, "/nonexistent/agent cannot be started: no such file") {
		t.Errorf("settled %+v", w.records)
	}
}
