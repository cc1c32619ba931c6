//go:build linux

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The faults of real servers and processes, with the program as a process. It
// records what it sees; the recording, replayed, says what it thought of every
// session at every tick.

// observed is a sessionwatch that records.
type observed struct {
	t    testing.TB
	cmd  *exec.Cmd
	path string
	says bytes.Buffer
	end  sync.Once
}

func observe(t testing.TB, args ...string) *observed {
	t.Helper()
	o := &observed{t: t, path: filepath.Join(t.TempDir(), "seen.jsonl.gz")}
	o.cmd = program(t, alone(t), append([]string{"record", o.path}, args...)...)
	o.cmd.Stdout, o.cmd.Stderr = &o.says, &o.says
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.stop)
	return o
}

func (o *observed) signal(s syscall.Signal) { _ = o.cmd.Process.Signal(s) }

// stop ends the recording.
func (o *observed) stop() {
	o.end.Do(func() {
		o.signal(syscall.SIGCONT)
		o.signal(syscall.SIGINT)
		if err := o.cmd.Wait(); err != nil {
			o.t.Errorf("record: %v\n%s", err, o.says.String())
		}
	})
}

// judged is a tracker that tells what it thinks after every tick.
type judged struct {
	*watchdog.Tracker
	each func(at watchdog.Instant, w watchdog.Window)
}

func (j judged) Apply(ev watchdog.Event) []watchdog.Effect {
	effects := j.Tracker.Apply(ev)
	if tick, ok := ev.(watchdog.Ticked); ok {
		j.each(tick.Now, j.Look(watchdog.Ask{}))
	}
	return effects
}

// replay ends the recording, tells what was thought at each tick, and gives all
// sessions as they stood at the end.
func (o *observed) replay(each func(at watchdog.Instant, w watchdog.Window)) watchdog.Window {
	o.t.Helper()
	o.stop()
	r, err := recording.Open(o.path)
	if err != nil {
		o.t.Fatal(err)
	}
	defer r.Close()
	if each == nil {
		each = func(watchdog.Instant, watchdog.Window) {}
	}
	j := judged{r.Header().NewTracker(), each}
	res, err := recording.Replay(r, j, recording.ReplayOptions{})
	if err != nil || len(res.Gaps) > 0 {
		o.t.Fatalf("the recording is not whole: %v %v", err, res.Gaps)
	}
	return j.Look(watchdog.Ask{Height: -1, KeepEnded: true})
}

// accused counts what a healthy fleet must never be called.
func accused(f watchdog.Fleet) int {
	n := 0
	for _, v := range []watchdog.Verdict{
		watchdog.Silent, watchdog.Stalled, watchdog.Wedge, watchdog.Disputed, watchdog.Quiet,
		watchdog.Lost, watchdog.Failed, watchdog.Stopped, watchdog.Expired, watchdog.CrashLoop,
	} {
		n += f.ByVerdict[v]
	}
	return n
}

// verdicts names what is there, for a failure's text.
func verdicts(f watchdog.Fleet) string {
	var words []string
	for v, n := range f.ByVerdict {
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %v", n, watchdog.Verdict(v)))
		}
	}
	return strings.Join(words, ", ")
}

// history is what a recording thought, tick by tick.
type history struct {
	t     testing.TB
	n     int // sessions
	at    []time.Time
	fleet []watchdog.Fleet
	beats []uint64 // by NATS
}

// innocent replays a recording and fails on the first accusation at any tick.
func (o *observed) innocent(n int) (*history, watchdog.Window) {
	o.t.Helper()
	h := &history{t: o.t, n: n}
	found := false
	last := o.replay(func(at watchdog.Instant, w watchdog.Window) {
		h.at, h.fleet = append(h.at, time.Unix(0, at.Wall)), append(h.fleet, w.Fleet)
		var beats uint64
		for _, l := range w.Links {
			if l.Source == watchdog.SourceNATS {
				beats = l.Beats
			}
		}
		h.beats = append(h.beats, beats)
		if accused(w.Fleet) > 0 && !found {
			found = true
			o.t.Errorf("at %s somebody is accused: %s", time.Unix(0, at.Wall).Format("15:04:05.0"), verdicts(w.Fleet))
		}
	})
	return h, last
}

// until is how long after a moment the first tick came at which all sessions
// had a verdict; if it is running, with a beat of each by NATS since.
func (h *history) until(since time.Time, v watchdog.Verdict) time.Duration {
	h.t.Helper()
	var before uint64
	for i, at := range h.at {
		if !at.After(since) {
			before = h.beats[i]
			continue
		}
		if h.fleet[i].ByVerdict[v] >= h.n && (v != watchdog.Running || h.beats[i]-before >= uint64(h.n)) {
			return at.Sub(since)
		}
	}
	h.t.Errorf("after %s not all %d are %v", since.Format("15:04:05"), h.n, v)
	return 0
}

// fresh fails unless all sessions are running with beats of now.
func fresh(t testing.TB, w watchdog.Window, n int) {
	t.Helper()
	if w.Fleet.ByVerdict[watchdog.Running] != n || len(w.Rows) != n {
		t.Errorf("at the end %s, want %d running", verdicts(w.Fleet), n)
	}
	for _, row := range w.Rows {
		if row.BeatAge > 5*time.Second {
			t.Errorf("the last beat of %s is %v old: its watcher is dead", row.ID, row.BeatAge)
			return
		}
	}
}

// watched is a screen that is sampled all the time.
type watched struct {
	*terminaltest.PTY
	done chan struct{}
	over sync.WaitGroup
	mu   sync.Mutex
	bad  string // the first screen that accused somebody
}

var accusation = regexp.MustCompile(`[0-9] NEED YOU|[~%▲✗!] (silent|stalled|disputed|wedged|lost|error) `)

func watch(t testing.TB, args ...string) *watched {
	t.Helper()
	w := &watched{
		PTY:  terminaltest.StartPTY(t, terminaltest.Large, program(t, alone(t), append([]string{"attach"}, args...)...)),
		done: make(chan struct{}),
	}
	w.over.Go(func() {
		for {
			select {
			case <-w.done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if s := w.Screen(); accusation.MatchString(s) {
				w.mu.Lock()
				if w.bad == "" {
					w.bad = s
				}
				w.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { w.innocent(t) })
	return w
}

func (w *watched) innocent(t testing.TB) {
	t.Helper()
	select {
	case <-w.done:
		return
	default:
	}
	close(w.done)
	w.over.Wait()
	if w.bad != "" {
		t.Errorf("the screen accused somebody:\n%s", w.bad)
	}
}

func (w *watched) right(n int) bool {
	s := w.Screen()
	return strings.Contains(s, thousands(n)+" live") && !strings.Contains(s, "? unknown") && !strings.Contains(s, "CANNOT SEE")
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// await is Until with a patience of its own.
func await(t testing.TB, limit time.Duration, what string, p *watched, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s\n%s", what, p.Screen())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// fault 7, 16: both servers away, killed and then only stopped: everything is
// unknown within 20 s, nobody is accused at any moment, before, within or
// after, and the view is right again without a restart of ours. A stopped server
// hands out, when it goes on, all that its sockets held: old beats, in order.
func TestServersAwayAccuseNobody(t *testing.T) {
	measures(t)
	waits(t)
	n := amount(200, 1000)
	nats, natsAt := realNATS(t)
	redis, redisAt := realRedis(t)
	startProducers(t, "away", n, natsAt, redisAt)
	seen := observe(t, "--nats", "nats://"+natsAt, "--redis", "redis://"+redisAt)
	screen := watch(t, "--nats", "nats://"+natsAt, "--redis", "redis://"+redisAt)
	await(t, 20*time.Second, "the fleet is seen", screen, func() bool { return screen.right(n) })
	hold, stay := amount(3*time.Second, 5*time.Minute), amount(3*time.Second, 5*time.Second)
	var gone, back []time.Time
	for _, way := range []struct{ take, give func() }{
		{func() { nats.Kill(t); redis.Kill(t) }, func() { nats.Restart(t); redis.Restart(t) }},
		{func() { nats.Pause(t); redis.Pause(t) }, func() { nats.Resume(t); redis.Resume(t) }},
	} {
		way.take()
		gone = append(gone, time.Now())
		await(t, 20*time.Second, "everything is unknown", screen, func() bool {
			s := screen.Screen()
			return strings.Contains(s, "unknown") && strings.Contains(s, "CANNOT SEE") && !strings.Contains(s, "● running")
		})
		time.Sleep(hold)
		way.give()
		back = append(back, time.Now())
		await(t, 60*time.Second, "the view is right again", screen, func() bool { return screen.right(n) })
		time.Sleep(stay) // and stays so
	}
	h, last := seen.innocent(n)
	screen.innocent(t)
	fresh(t, last, n)
	for i, way := range []string{"killed", "stopped"} {
		blind, right := h.until(gone[i], watchdog.Unknown), h.until(back[i], watchdog.Running)
		if blind > 20*time.Second*slack {
			t.Errorf("%s: unknown only after %v", way, blind)
		}
		sourcetest.Figure(t, "7", fmt.Sprintf("both servers %s for %v, %d sessions, 1 s beats", way, back[i].Sub(gone[i]).Round(time.Second), n),
			"nobody accused; unknown within 20 s; right 5 s after they are back",
			fmt.Sprintf("0 accused; unknown after %.1f s; right after %.1f s", blind.Seconds(), right.Seconds()))
	}
}

// fault 7, 14: NATS killed again and again, while sessions come: nobody is
// accused, every new one is seen, and at the end the view equals that of an
// observer that began anew.
func TestManyRestartsEndInTheSameView(t *testing.T) {
	measures(t)
	waits(t)
	n := amount(200, 1000)
	nats, natsAt := realNATS(t)
	_, redisAt := realRedis(t)
	startProducers(t, "old", n, natsAt, redisAt)
	urls := []string{"--nats", "nats://" + natsAt, "--redis", "redis://" + redisAt}
	seen := observe(t, urls...)
	screen := watch(t, urls...)
	await(t, 20*time.Second, "the fleet is seen", screen, func() bool { return screen.right(n) })
	kills := amount(2, 100)
	type spell struct {
		back time.Time
		n    int
	}
	var spells []spell
	for i := range kills {
		nats.Kill(t)
		time.Sleep(time.Duration(i%4) * time.Second)
		nats.Restart(t)
		spells = append(spells, spell{time.Now(), n})
		await(t, 60*time.Second, "the view is right again", screen, func() bool { return screen.right(n) })
		time.Sleep(2 * time.Second)
		if i%2 == 0 { // who comes after a restart is seen too
			startProducers(t, fmt.Sprintf("new%d", i), 10, natsAt, redisAt)
			n += 10
			await(t, 20*time.Second, "the new ones are seen", screen, func() bool { return screen.right(n) })
		}
	}
	anew := observe(t, urls...)
	time.Sleep(6 * time.Second)
	fleet := func(w watchdog.Window) map[watchdog.ID]watchdog.Verdict {
		out := map[watchdog.ID]watchdog.Verdict{}
		for _, row := range w.Rows {
			out[row.ID] = row.Verdict
		}
		return out
	}
	h, last := seen.innocent(n)
	_, first := anew.innocent(n)
	fresh(t, last, n)
	if diff := cmp.Diff(fleet(first), fleet(last)); diff != "" {
		t.Errorf("who began anew (-) sees something else than who was there all the time (+):\n%s", diff)
	}
	var worst time.Duration
	for _, s := range spells {
		h.n = s.n
		worst = max(worst, h.until(s.back, watchdog.Running))
	}
	sourcetest.Figure(t, "7, 14", fmt.Sprintf("nats-server killed %d times, %s sessions at the end, 1 s beats", kills, thousands(n)),
		"0 accused; right 5 s after the server is back; same view as a fresh observer",
		fmt.Sprintf("0 accused; all beat by NATS again after %.1f s at worst; same view of %d", worst.Seconds(), n))
	if worst > 5*time.Second*slack {
		t.Errorf("the view was right only %v after the server was back", worst)
	}
}

// fault 6: we are stopped while everybody works.
func TestStoppedObserverAccusesNobody(t *testing.T) {
	measures(t)
	waits(t)
	n := amount(200, 1000)
	_, natsAt := realNATS(t)
	_, redisAt := realRedis(t)
	startProducers(t, "busy", n, natsAt, redisAt)
	urls := []string{"--nats", "nats://" + natsAt, "--redis", "redis://" + redisAt}
	seen := observe(t, urls...)
	screen := watch(t, urls...)
	await(t, 20*time.Second, "the fleet is seen", screen, func() bool { return screen.right(n) })
	length := amount(12*time.Second, 120*time.Second)
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		seen.signal(s)
		screen.Signal(s)
		if s == syscall.SIGSTOP {
			time.Sleep(length)
		}
	}
	went := time.Now()
	await(t, 60*time.Second, "the view is right again", screen, func() bool { return screen.right(n) })
	time.Sleep(amount(5*time.Second, 10*time.Second))
	h, last := seen.innocent(n)
	screen.innocent(t)
	fresh(t, last, n)
	sourcetest.Figure(t, "6", fmt.Sprintf("stopped for %v, %d sessions, 1 s beats", length, n), "0 accused",
		fmt.Sprintf("0 accused; all running %.1f s after it goes on", h.until(went, watchdog.Running).Seconds()))
}

// fault 50: a flood of ids that nobody knows, while the known ones beat.
func TestFloodOfIdsIsShedExactly(t *testing.T) {
	measures(t)
	known, flood := amount(1000, 10_000), amount(20_000, 1_000_000)
	_, natsAt := realNATS(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "limits: {sessions: %d, new_per_second: 100000}\n", known), 0o600); err != nil {
		t.Fatal(err)
	}
	startProducers(t, "known", known, natsAt, "")
	args := []string{"--config", config, "--nats", "nats://" + natsAt, "--redis", "-"}
	screen := watch(t, args...)
	await(t, 30*time.Second, "the known ones are seen", screen, func() bool { return screen.right(known) })
	seen := observe(t, args...)
	time.Sleep(3 * time.Second) // every known one has beaten
	for i := range 5 {
		natsFlood(t, natsAt, fmt.Sprintf("flood%d", i), flood/5)
	}
	await(t, 30*time.Second, "the count of what was shed stands on the screen", screen, func() bool {
		return strings.Contains(screen.Screen(), "shed")
	})
	time.Sleep(3 * time.Second)
	resident := peakMemory(t, seen.cmd.Process.Pid)
	_, last := seen.innocent(known)
	fresh(t, last, known)
	if last.Self.Shed != uint64(flood) || last.Self.Drops != 0 {
		t.Errorf("shed %d, dropped %d; want %d and none", last.Self.Shed, last.Self.Drops, flood)
	}
	if resident > 300<<20 {
		t.Errorf("it took %d MB", resident>>20)
	}
	sourcetest.Figure(t, "50", fmt.Sprintf("flood of %d unknown ids, %d known", flood, known), "<= 300 MB; no known one dropped; shed count exact",
		fmt.Sprintf("%d MB; %d known running; shed %d, dropped %d", resident>>20, last.Fleet.ByVerdict[watchdog.Running], last.Self.Shed, last.Self.Drops))
}

// peakMemory is the largest resident size of a process so far, in bytes.
func peakMemory(t testing.TB, pid int) int64 { return statusOf(t, pid, "VmHWM:") }

func statusOf(t testing.TB, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s of process %d", name, pid)
	return 0
}
