//go:build linux

package process

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// ourChildren are the children of this process, ended ones too.
func ourChildren(t *testing.T) []processStat {
	t.Helper()
	all, err := readProcesses()
	if err != nil {
		t.Fatal(err)
	}
	var out []processStat
	for _, p := range all {
		if p.parent == os.Getpid() {
			out = append(out, p)
		}
	}
	return out
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// withoutCgroups leaves us the walk through the processes alone.
func withoutCgroups(o *Options) { o.cgroups = &cgroups{dir: "/nonexistent"} }

func TestWhatLeftTheGroupIsFoundAndEnded(t *testing.T) {
	sourcetest.RealBinary(t, "setsid")
	for _, c := range []struct{ name, script string }{
		{"setsid while its parent lives", "setsid sh -c 'echo $$ > PID; exec sleep 600' & wait; wait; sleep 600"},
		{"setsid, parent gone", "(setsid sh -c 'echo $$ > PID; exec sleep 600' &); sleep 600"},
		{"setsid that ignores SIGTERM", "(setsid sh -c 'trap \"\" TERM; echo $$ > PID; while :; do sleep 0.1; done' &); sleep 600"},
		{"setsid with another environment, seen before", "setsid env -i /bin/sh -c 'echo $$ > PID; sleep 600; :' & wait; sleep 600"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := new(witness)
			file := filepath.Join(t.TempDir(), "pid")
			session := shell("a", strings.ReplaceAll(c.script, "PID", file))
			session.StopGrace = 500 * time.Millisecond
			s, stop := superviseUntil(t, w, withoutCgroups, session)
			pid := pidIn(t, file)
			eventually(t, "all of it is measured", func() bool { st, _ := s.Session("a"); return st.Processes >= 2 && st.RSS > 0 })
			st, err := s.Stop(within(t), Target{ID: "a"})
			if err != nil || len(st.Survivors) > 0 {
				t.Errorf("Stop: %+v, %v", st, err)
			}
			if alive(pid) {
				t.Errorf("process %d lives on", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			stop()
			if left := ourChildren(t); len(left) > 0 {
				t.Errorf("children are left: %+v", left)
			}
		})
	}
}

// The exits of children that other code waits for are its own, though ours are
// reaped beside them.
func TestNoExitOfOthersIsTaken(t *testing.T) {
	w := new(witness)
	supervise(t, w, func(o *Options) { withoutCgroups(o); o.sample = 5 * time.Millisecond },
		shell("a", "while :; do (setsid sleep 0.01 &); sleep 0.02; done"))
	for i := range 40 {
		cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", i))
		if i%2 == 1 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 { // lies ended for a while
			eventually(t, "it has ended", func() bool { return !alive(cmd.Process.Pid) })
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != i {
			t.Fatalf("exit code %d was taken for %d", i, got)
		}
	}
}

func TestAChildIsNeverBlockedByItsOutput(t *testing.T) {
	w := new(witness)
	done := filepath.Join(t.TempDir(), "done")
	session := shell("a", "head -c 4000000 /dev/zero | tr '\\0' x >&2; echo last >&2; touch "+done+"; exec sleep 600")
	s := supervise(t, w, nil, session)
	eventually(t, "4 MB are written", func() bool { _, err := os.Stat(done); return err == nil })
	eventually(t, "the tail is kept", func() bool {
		lines, _ := s.Logs("a", -1, 1)
		return len(lines) == 1 && lines[0].Text == strings.Repeat("x", 4_000_000%maxLine)+"last" && lines[0].Stream == Stderr
	})
}

func TestATerminalOfItsOwn(t *testing.T) {
	w := new(witness)
	session := shell("a", "if test -t 0 -a -t 1 -a -t 2; then echo terminal; fi; stty size; printf 'a\\033[31mb\\n'; trap 'exit 0' TERM; while :; do sleep 0.1; done")
	session.PTY = true
	s := supervise(t, w, nil, session)
	want := fmt.Sprintf("terminal|%d %d|ab", ptyRows, ptyColumns)
	got := ""
	if !sourcetest.Eventually(patience, func() bool {
		lines, _ := s.Logs("a", 0, 10)
		got = strings.Join(texts(lines), "|")
		return got == want
	}) {
		t.Errorf("output %q, want %q", got, want)
	}
	if st, err := s.Stop(within(t), Target{ID: "a"}); err != nil || st.ExitCode() != 0 {
		t.Errorf("Stop: %+v, %v", st, err)
	}
}

func TestWhatAChildFindsInItsEnvironment(t *testing.T) {
	t.Setenv("NATS_URL", "nats://user:secret@bus:4222")
	w := new(witness)
	s := supervise(t, w, func(o *Options) {
		o.HeartbeatURL = "http://127.0.0.1:1/heartbeat"
		o.HeartbeatToken = func(id watchdog.ID, g watchdog.Generation) string { return fmt.Sprintf("token-%s-%d", id, g) }
	}, shell("a", "env; exec sleep 600"))
	eventually(t, "the environment is told", func() bool {
		lines, _ := s.Logs("a", 0, 1000)
		all := strings.Join(texts(lines), "\n") + "\n"
		return strings.Contains(all, "\nSESSIONWATCH_GENERATION=1\n") && strings.Contains(all, "SESSIONWATCH_HEARTBEAT_TOKEN=token-a-1\n") &&
			strings.Contains(all, "SESSIONWATCH_SESSION_ID=a\n") && strings.Contains(all, "NOTIFY_SOCKET=/") && !strings.Contains(all, "secret")
	})
}

// notifier is a real systemd-notify.
func notifier(t *testing.T) string { return sourcetest.RealBinary(t, "systemd-notify") }

func TestSystemdNotifySetsTaskAndActivity(t *testing.T) {
	program := notifier(t)
	w := new(witness)
	session := shell("a", program+" --ready --status='Processing chunk 47/200'; "+program+" X_CREDITS=8.43; "+program+" EXTEND_TIMEOUT_USEC=60000000; touch READY; exec sleep 600")
	file := filepath.Join(t.TempDir(), "ready")
	session.Command[2] = strings.ReplaceAll(session.Command[2], "READY;", file+";")
	s := supervise(t, w, nil, session)
	eventually(t, "the beat tells task, credits and wait", func() bool {
		b := w.lastBeat("a")
		return string(b.Task) == "Processing chunk 47/200" && b.Credits == 8.43 && b.WaitingFor == watchdog.WaitOther && b.WaitingMax > 50*time.Second
	})
	st, _ := s.Session("a")
	if st.Refused != 0 {
		t.Errorf("%d messages were refused", st.Refused)
	}
	// The same program outside the session is a stranger.
	cmd := exec.Command(program, "--no-block", "--status=forged")
	cmd.Env = []string{"NOTIFY_SOCKET=" + s.byID["a"].notify.path}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eventually(t, "the stranger is refused", func() bool { st, _ := s.Session("a"); return st.Refused > 0 })
	if b := w.lastBeat("a"); string(b.Task) != "Processing chunk 47/200" {
		t.Errorf("the stranger set the task to %q", b.Task)
	}
}

// dumper is a Capturer that tells what it was asked.
type dumper struct {
	asked chan CaptureWant
	gate  chan struct{} // nil: answers at once
}

func (d *dumper) Capture(ctx context.Context, want CaptureWant) Capture {
	d.asked <- want
	if d.gate != nil {
		select {
		case <-d.gate:
		case <-ctx.Done():
		}
	}
	return Capture{ID: want.ID, Generation: want.Generation, Reason: want.Reason, Method: "test"}
}

func TestAStallIsDumpedThenRestarted(t *testing.T) {
	w, d := new(witness), &dumper{asked: make(chan CaptureWant, 9), gate: make(chan struct{})}
	session := shell("a", "echo begun; exec sleep 600")
	session.StallTimeout, session.StallAction = 300*time.Millisecond, config.StallRestart
	session.Dump = new(config.Config).DefaultSession().Dump
	s := supervise(t, w, func(o *Options) { o.Capturer = d }, session)
	want := <-d.asked
	if want.Reason != CaptureStall || !want.Ending || !want.Active || want.PID == 0 || want.Start == 0 || string(want.Output.Since(0)) != "begun\n" {
		t.Errorf("asked for %+v", want)
	}
	if !alive(want.PID) {
		t.Error("it was ended before its dump")
	}
	close(d.gate)
	eventually(t, "it is restarted", func() bool { st, _ := s.Session("a"); return st.Generation >= 2 && st.PID > 0 })
	eventually(t, "settled", func() bool { e := w.ends(); return len(e) > 0 && e[0] == "a/1 stopped" })
	if got := w.states("a"); !strings.HasPrefix(got, "running stalled") {
		t.Errorf("states of the beats: %s", got)
	}
}

func TestAWedgeThatTheChildReportsIsDumped(t *testing.T) {
	program := notifier(t)
	w, d := new(witness), &dumper{asked: make(chan CaptureWant, 9)}
	session := shell("a", program+" WATCHDOG=trigger; exec sleep 600")
	s := supervise(t, w, func(o *Options) { o.Capturer = d }, session)
	if want := <-d.asked; want.Reason != CaptureWedge || want.Ending {
		t.Errorf("asked for %+v", want)
	}
	eventually(t, "wedged", func() bool {
		st, _ := s.Session("a")
		return st.Wedged && w.lastBeat("a").State == watchdog.StateStalled
	})
	got, err := s.Dump(within(t), Target{ID: "a", Generation: 1})
	if err != nil || got.Reason != CaptureAsked {
		t.Errorf("a dump that an operator asks for: %+v, %v", got, err)
	}
}

func TestExit75IsDumpedFromItsOutputAndRestarted(t *testing.T) {
	w, d := new(witness), &dumper{asked: make(chan CaptureWant, 9)}
	session := shell("a", "echo 'Thread 0x1 (most recent call first):' >&2; exit 75")
	session.Restart = config.RestartNever
	s := supervise(t, w, func(o *Options) { o.Capturer = d }, session)
	want := <-d.asked
	if want.Reason != CaptureExit || !want.Exited {
		t.Errorf("asked for %+v", want)
	}
	eventually(t, "its output is there", func() bool { return strings.Contains(string(want.Output.Since(0)), "most recent call first") })
	st, err := s.Wait(within(t), "a")
	if err != nil || st.Runs != 3 || st.Phase != watchdog.SupervisorCrashLoop {
		t.Errorf("got %+v, %v", st, err)
	}
}

func TestAChildThatBeatsForItselfIsNotContradicted(t *testing.T) {
	w := new(witness)
	s := supervise(t, w, nil, shell("a", "exec sleep 600"))
	eventually(t, "ours are there", func() bool { return w.countBeats("a") > 1 })
	var b watchdog.Beat
	b.Reset()
	b.ID, b.BootID, b.Generation, b.State = []byte("a"), []byte("its-own"), 1, watchdog.StateRunning
	b.Uptime = 1
	own := w.lastBeat("a")
	s.ForeignBeat(&own) // our own, come back over the bus
	eventually(t, "ours go on", func() bool { return w.lastBeat("a").Seq > own.Seq+1 })
	s.ForeignBeat(&b)
	eventually(t, "ours stop", func() bool { st, _ := s.Session("a"); return st.Foreign })
	n := w.countBeats("a")
	for range 5 { // intervals of ours
		s.ForeignBeat(&b)
		last := time.Now()
		eventually(t, "an interval passes", func() bool { return time.Since(last) > 200*time.Millisecond })
	}
	if more := w.countBeats("a") - n; more > 0 {
		t.Errorf("%d beats of ours came beside its own", more)
	}
	last := w.lastBeat("a") // handed over
	if last.Idle >= 0 || string(last.BootID) != string(own.BootID) || last.Uptime > 1 {
		t.Errorf("the last beat of ours tells %v idle, boot %q, up %d s", last.Idle, last.BootID, last.Uptime)
	}
	eventually(t, "ours resume when its own are gone", func() bool { return w.countBeats("a") > n })
}

// Who asks while others have just been answered is answered too, after the second.
func TestEveryoneWhoPingsIsAnswered(t *testing.T) {
	w := new(witness)
	s := supervise(t, w, func(o *Options) { o.Interval = time.Hour; o.random = func() float64 { return 0 } }, shell("a", "exec sleep 600"))
	eventually(t, "it beats", func() bool { return w.countBeats("a") == 1 })
	begun := time.Now()
	for want := 2; want <= 4; want++ {
		for range 100 { // a crowd is one
			s.Ping()
		}
		eventually(t, "the ping is answered", func() bool { return w.countBeats("a") >= want })
	}
	if n, took := w.countBeats("a")-1, time.Since(begun); n > 2+int(took/time.Second) {
		t.Errorf("%d answers within %v", n, took)
	}
}

// The engine beside it sees work as it is done; the buses wait for the interval.
func TestWorkIsSeenBetweenBeats(t *testing.T) {
	w := new(witness)
	supervise(t, w, func(o *Options) { o.Interval = time.Hour }, shell("a", "while :; do echo step; sleep 0.1; done"))
	eventually(t, "the engine hears of new work", func() bool { return w.countBeats("a") >= 3 })
	last := w.lastBeat("a")
	if last.Idle > time.Second {
		t.Errorf("the last beat says %v idle", last.Idle)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent > 1 {
		t.Errorf("%d beats went to the bus", w.sent)
	}
}

func TestALedgerThatIsAwayHoldsNothingUp(t *testing.T) {
	w := new(witness)
	w.setAway(true)
	s := supervise(t, w, nil, shell("a", "exec sleep 600"))
	eventually(t, "it runs without a number", func() bool { st, _ := s.Session("a"); return st.PID > 0 })
	if st, _ := s.Session("a"); st.Generation != 0 {
		t.Errorf("it has the number %d", st.Generation)
	}
	if _, err := s.Stop(within(t), Target{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := w.ends(); len(got) != 0 {
		t.Errorf("settled %v", got)
	}
	w.setAway(false)
	eventually(t, "it is numbered and settled after all", func() bool { return strings.Join(w.ends(), ", ") == "a/1 stopped" })
}

func TestHeartbeatsAreWork(t *testing.T) {
	w := new(witness)
	session := shell("a", "exec sleep 600")
	session.StallTimeout = 400 * time.Millisecond
	s := supervise(t, w, nil, session)
	eventually(t, "stalled", func() bool { st, _ := s.Session("a"); return st.Stalled })
	var b watchdog.Beat
	b.Reset()
	b.ID, b.Generation, b.Task, b.Credits = []byte("a"), 1, []byte("crawling"), 3.5
	if err := s.Heartbeat(&b); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it works again", func() bool {
		got := w.lastBeat("a")
		return got.State == watchdog.StateRunning && string(got.Task) == "crawling" && got.Credits == 3.5
	})
	b.Generation = 7
	if err := s.Heartbeat(&b); err == nil {
		t.Error("a heartbeat of another generation was taken")
	}
	b.ID = []byte("nobody")
	if err := s.Heartbeat(&b); err == nil {
		t.Error("a heartbeat of a stranger was taken")
	}
}

// The dump of a real program goes through the whole of it: the signal, the
// child's own stderr, and no recovery by what the dump wrote.
func TestTheDumpOfAStalledPythonIsItsStack(t *testing.T) {
	t.Parallel()
	python := sourcetest.RealBinary(t, "python3")
	w := new(witness)
	session := shell("a", "")
	session.Command = []string{python, "-c", "import faulthandler, signal, time\nfaulthandler.register(signal.SIGUSR1, all_threads=True)\ndef stuck_in_a_tool():\n  time.sleep(600)\nprint('begun', flush=True)\nstuck_in_a_tool()"}
	session.StallTimeout, session.Dump.Samples = 3*time.Second, 1
	got := make(chan Capture, 9)
	s := supervise(t, w, func(o *Options) {
		o.Capturer, o.OnCapture = NewLadder(LadderOptions{}), func(c Capture) { got <- c }
	}, session)
	select {
	case c := <-got:
		if !strings.Contains(string(c.Text), "in stuck_in_a_tool") {
			t.Errorf("by %q: %s\n%+v", c.Method, c.Text, c.Steps)
		}
	case <-time.After(2 * patience):
		t.Fatal("no dump")
	}
	before := w.countBeats("a")
	eventually(t, "some beats more", func() bool { return w.countBeats("a") > before+10 })
	if got := w.states("a"); got != "running stalled" {
		t.Errorf("states of the beats: %s", got)
	}
	if st, _ := s.Session("a"); st.Runs != 1 || st.PID == 0 {
		t.Errorf("it was harmed: %+v", st)
	}
}

// A fiftieth of the figure, but where there is time.
func crashLoad() (children, cycles int) {
	if sourcetest.Soaking() {
		return 20, 1000
	}
	return 4, 20
}

func TestCrashCyclesLeaveNothing(t *testing.T) {
	sourcetest.RealBinary(t, "setsid")
	children, cycles := crashLoad()
	n := cycles / children
	const grace = 2 * time.Second
	w := new(witness)
	var sessions []config.Session
	for i := range children {
		c := shell(fmt.Sprint("s", i), "(setsid sleep 600 &); sleep 600 & exit 1")
		c.StopGrace = grace
		sessions = append(sessions, c)
	}
	s, stop := superviseUntil(t, w, func(o *Options) {
		withoutCgroups(o)
		o.Guard.Burst, o.Guard.BackoffMin, o.Guard.BackoffMax = n, time.Millisecond, time.Millisecond
		o.Guard.Fleet.PerHour, o.Guard.Fleet.Hold = 1_000_000, time.Millisecond
	}, sessions...)
	before := 0
	eventually(t, "all run", func() bool {
		before = max(before, openFiles(t))
		for _, st := range s.Sessions() {
			if st.Runs == 0 {
				return false
			}
		}
		return true
	})
	for i := range children {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(cycles)*time.Second+patience)
		st, err := s.Wait(ctx, watchdog.ID(fmt.Sprint("s", i)))
		cancel()
		if err != nil || st.Runs != n || st.Phase != watchdog.SupervisorCrashLoop {
			t.Errorf("got %+v, %v; want %d runs", st, err, n)
		}
	}
	left, after := ourChildren(t), openFiles(t)
	if len(left) > 0 {
		t.Errorf("children are left: %+v", left)
	}
	if after > before {
		t.Errorf("%d files were open, and %d are", before, after)
	}
	stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := len(w.records); got != n*children {
		t.Errorf("%d ends were settled, want %d", got, n*children)
	}
	worst := w.slowestEnd()
	if worst > grace+time.Second {
		t.Errorf("a run took %v to end", worst)
	}
	sourcetest.Figure(t, "crash cycles with setsid grandchildren", fmt.Sprintf("%d cycles, %d children", cycles, children),
		"0 zombies, 0 fd growth, stop within grace + 1 s, guard trips exactly at its number",
		fmt.Sprintf("%d left, %+d files, %v at most, held at %d of %d", len(left), max(after-before, 0), worst.Round(time.Millisecond), n, n))
}

// slowestEnd is the longest time from the end of a leader to that of its run.
func (w *witness) slowestEnd() time.Duration {
	var worst time.Duration
	since := map[watchdog.ID]time.Duration{}
	for _, e := range w.events {
		e, ok := e.(watchdog.Supervised)
		if !ok {
			continue
		}
		if began, was := since[e.ID]; was && e.Phase != watchdog.SupervisorStopping {
			worst = max(worst, e.At-began)
			delete(since, e.ID)
		} else if !was && e.Phase == watchdog.SupervisorStopping {
			since[e.ID] = e.At
		}
	}
	return worst
}

// startHelper runs a supervisor as a process of its own.
func startHelper(t *testing.T, state string, sessions ...config.Session) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(sessions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helperSessions+"="+string(text), helperState+"="+state)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestAKilledSupervisorLeavesNothingThatTheNextDoesNotFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	state := filepath.Join(dir, "state", "supervisor.json")
	leader, grandchild, stray := filepath.Join(dir, "leader"), filepath.Join(dir, "grandchild"), filepath.Join(dir, "stray")
	script := "echo $$ > " + leader + "; sh -c 'trap \"\" TERM; echo $$ > " + grandchild + "; while :; do sleep 0.1; done' & (setsid sh -c 'echo $$ > " + stray + "; exec sleep 600' &); sleep 600"
	session := shell("a", script)
	session.StopGrace = 300 * time.Millisecond
	helper := startHelper(t, state, session)
	pids := []int{pidIn(t, leader), pidIn(t, grandchild), pidIn(t, stray)}
	if _, err := OpenFileStore(state); err == nil || !strings.Contains(err.Error(), fmt.Sprint("held by pid ", helper.Process.Pid)) {
		t.Errorf("a second supervisor was answered with %v", err)
	}
	eventually(t, "the state names the process", func() bool {
		text, err := os.ReadFile(state)
		return err == nil && strings.Contains(string(text), fmt.Sprintf("\"PID\": %d", pids[0]))
	})
	sockets, err := filepath.Glob(filepath.Join(os.TempDir(), socketsPrefix+"*", "n0.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets: %v, %v", sockets, err)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait()
	eventually(t, "the leader dies with it", func() bool { return !alive(pids[0]) })

	store, err := OpenFileStore(state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	w := new(witness)
	defer func() {
		if _, err := os.Stat(sockets[0]); err == nil {
			t.Errorf("%s of the killed supervisor is still there", sockets[0])
		}
	}()
	w.claims = make([]watchdog.Claim, 5) // the ledger is another one than the helper's
	after := shell("a", "exec sleep 600")
	after.StopGrace = session.StopGrace
	s, stop := superviseUntil(t, w, func(o *Options) { o.Store = store }, after)
	eventually(t, "a new run begins", func() bool { st, _ := s.Session("a"); return st.PID > 0 })
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d lives on beside the new run", pid)
		}
	}
	eventually(t, "the old run is lost", func() bool { return len(w.ends()) > 0 && w.ends()[0] == "a/1 lost" })
	stop()
	if got := strings.Join(w.ends(), ", "); got != "a/1 lost, a/6 stopped" {
		t.Errorf("settled %s", got)
	}
}

func TestCrashLoopAndFleetAreKeptAcrossARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "supervisor.json")
	run := func() (*witness, *Supervisor, func()) {
		store, err := OpenFileStore(path)
		if err != nil {
			t.Fatal(err)
		}
		w := new(witness)
		s, stop := superviseUntil(t, w, func(o *Options) {
			o.Store, o.Guard.Fleet.PerHour, o.Guard.Fleet.Hold = store, 3, time.Hour
		}, shell("a", "exit 1"), shell("b", "exit 1"))
		return w, s, func() { stop(); _ = store.Close() }
	}
	_, s, stop := run()
	eventually(t, "one is held, and then all restarts", func() bool {
		_, why, held := s.Held()
		return held && strings.Contains(why, "more than 3 restarts")
	})
	before := s.Sessions()
	stop()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state: %v, %v", info, err)
	}
	w, s, stop := run()
	defer stop()
	if left, why, held := s.Held(); !sourcetest.Eventually(patience, func() bool { left, why, held = s.Held(); return held }) || left < 50*time.Minute {
		t.Errorf("held %v for %v: %s", held, left, why)
	}
	for i, st := range before {
		if st.Phase != watchdog.SupervisorCrashLoop {
			continue
		}
		eventually(t, "it is held again", func() bool { return s.Sessions()[i].Phase == watchdog.SupervisorCrashLoop })
		if now := s.Sessions()[i]; now.Runs != 0 || now.Restarts != st.Restarts {
			t.Errorf("before %+v, after %+v", st, now)
		}
	}
	_ = w
}

func TestAnObserverThatWasStoppedAccusesNobody(t *testing.T) {
	w := new(witness)
	session := shell("a", "while :; do echo work; sleep 0.1; done")
	session.StallTimeout, session.StallAction = 3*time.Second, config.StallStop
	state := filepath.Join(t.TempDir(), "s.json")
	t.Setenv(helperSockets, t.TempDir())
	file := filepath.Join(t.TempDir(), "pid")
	session.Command[2] = "echo $$ > " + file + "; " + session.Command[2]
	helper := startHelper(t, state, session)
	pid := pidIn(t, file)
	_ = helper.Process.Signal(syscall.SIGSTOP)
	begun := time.Now()
	eventually(t, "more than the stall timeout passes", func() bool { return time.Since(begun) > 4*time.Second })
	_ = helper.Process.Signal(syscall.SIGCONT)
	begun = time.Now()
	eventually(t, "it is left in peace", func() bool { return !alive(pid) || time.Since(begun) > time.Second })
	if !alive(pid) {
		t.Error("it was stopped for our own absence")
	}
	_ = w
}

func TestCPUAndMemoryAreThoseOfTheWholeTree(t *testing.T) {
	w := new(witness)
	s := supervise(t, w, nil, shell("a", "sh -c 'while :; do :; done' & wait"))
	eventually(t, "a child that spins is seen", func() bool {
		st, _ := s.Session("a")
		return st.CPU > 0.2 && !math.IsNaN(st.CPU) && st.RSS > 100_000 && st.Processes == 2
	})
}
