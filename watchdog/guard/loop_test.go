package guard_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// stage is an event loop that can be blocked, and what its watchdog did.
type stage struct {
	t      *testing.T
	events chan func()
	over   chan struct{}
	once   sync.Once

	mu     sync.Mutex
	exits  []int
	dump   bytes.Buffer
	wedges []time.Duration
	mended int
	ended  time.Duration
	began  time.Time
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, events: make(chan func(), 8), over: make(chan struct{}), began: time.Now()}
	go func() {
		for {
			select {
			case f := <-s.events:
				f()
			case <-s.over:
				return
			}
		}
	}()
	t.Cleanup(s.close)
	return s
}

func (s *stage) close() { s.once.Do(func() { close(s.over) }) }

func (s *stage) post(ack func()) bool {
	select {
	case <-s.over:
		return false
	default:
	}
	select {
	case s.events <- ack:
		return true
	case <-s.over:
		return false
	}
}

// block keeps the loop busy for d.
func (s *stage) block(d time.Duration) {
	s.events <- func() {
		select {
		case <-time.After(d):
		case <-s.over:
		}
	}
	synctest.Wait()
}

func (s *stage) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dump.Write(p)
}

func (s *stage) exit(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exits = append(s.exits, code)
	s.ended = time.Since(s.began)
}

func (s *stage) options() guard.LoopOptions {
	return guard.LoopOptions{
		Name: "the screen", Post: s.post, Dump: s, Exit: s.exit,
		OnWedge: func(lag time.Duration) { s.mu.Lock(); defer s.mu.Unlock(); s.wedges = append(s.wedges, lag) },
		OnRecover: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mended++
		},
	}
}

// loop makes the watchdog; change may be nil.
func (s *stage) loop(change func(*guard.LoopOptions)) *guard.Loop {
	s.t.Helper()
	o := s.options()
	if change != nil {
		change(&o)
	}
	l, err := guard.NewLoop(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.Disarm)
	return l
}

// saw gives the exit codes, the dumps and the recoveries so far.
func (s *stage) saw() (exits []int, dump string, wedges []time.Duration, mended int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.exits...), s.dump.String(), append([]time.Duration(nil), s.wedges...), s.mended
}

func (s *stage) expectQuiet(what string) {
	s.t.Helper()
	if exits, dump, wedges, _ := s.saw(); len(exits) != 0 || dump != "" || len(wedges) != 0 {
		s.t.Errorf("%s: exits %v, wedges %v, dump of %d bytes", what, exits, wedges, len(dump))
	}
}

func TestLoopDefaults(t *testing.T) {
	l, err := guard.NewLoop(guard.LoopOptions{Post: func(func()) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	if l.WedgeAfter() != 15*time.Second || l.Armed() || l.Wedged() || l.Lag() != 0 {
		t.Errorf("wedge after %v, armed %v, wedged %v, lag %v", l.WedgeAfter(), l.Armed(), l.Wedged(), l.Lag())
	}
	l.Disarm() // unarmed
	l.Disarm()
}

func TestLoopRefusesBadNumbers(t *testing.T) {
	post := func(func()) bool { return true }
	for name, o := range map[string]guard.LoopOptions{
		"no post":           {},
		"negative interval": {Post: post, Interval: -1},
		"negative strikes":  {Post: post, Strikes: -1},
		"endless":           {Post: post, Interval: math.MaxInt64, Strikes: 2},
		"too many strikes":  {Post: post, Interval: time.Hour, Strikes: math.MaxInt},
		"exit code":         {Post: post, ExitCode: 256},
		"negative code":     {Post: post, ExitCode: -1},
	} {
		if _, err := guard.NewLoop(o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for _, c := range []struct {
		budget  float64
		strikes int
	}{{0, 3}, {-1, 3}, {math.NaN(), 3}, {math.Inf(1), 3}, {math.Inf(-1), 3}, {15, 0}, {15, -1}, {1e300, 1}, {1e-300, 1}} {
		if _, err := guard.IntervalFor(c.budget, c.strikes); err == nil {
			t.Errorf("IntervalFor(%v, %d) was taken", c.budget, c.strikes)
		}
	}
	if d, err := guard.IntervalFor(15, 3); err != nil || d != 5*time.Second {
		t.Errorf("IntervalFor(15, 3) = %v, %v", d, err)
	}
}

func TestHealthyLoopNeverTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.loop(nil)
		l.Arm()
		l.Arm() // idempotent: one arming, one goroutine
		for range 500 {
			s.block(9 * time.Second) // long, and never for three probes
			time.Sleep(10 * time.Second)
			if l.Lag() > time.Second {
				t.Fatalf("a loop that works lags by %v", l.Lag())
			}
		}
		s.expectQuiet("a loop that works")
	})
}

func TestWedgedLoopEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		file := filepath.Join(t.TempDir(), "dump.txt")
		if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		restored := time.Duration(0)
		l := s.loop(func(o *guard.LoopOptions) {
			o.DumpFile = file
			o.BeforeExit = func() { restored = time.Since(s.began) }
		})
		l.Arm()
		time.Sleep(12 * time.Second)
		s.block(time.Hour)
		time.Sleep(15*time.Second - 1)
		s.expectQuiet("before the third strike")
		if lag := l.Lag(); lag < 11*time.Second || lag > 12*time.Second {
			t.Errorf("lag %v, want the age of the oldest probe", lag)
		}
		time.Sleep(5 * time.Second)
		exits, dump, wedges, _ := s.saw()
		same(t, "exits", exits, []int{guard.ExitRestart})
		if s.ended != 30*time.Second || restored != s.ended {
			t.Errorf("ended at %v, restored at %v", s.ended, restored)
		}
		same(t, "wedges", wedges, []time.Duration{15 * time.Second})
		for _, want := range []string{"the screen made no progress for about 15 s", "the stacks of all goroutines follow", "(*stage).block"} {
			if !strings.Contains(dump, want) {
				t.Errorf("the dump lacks %q", want)
			}
		}
		kept, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(kept), "before\n=== ") || !strings.Contains(string(kept), "(*stage).block") {
			t.Errorf("the dump file: %v, %.80q", err, kept)
		}
		if !l.Wedged() {
			t.Error("not wedged")
		}
	})
}

func TestDumpOnlyGoesOnAndDumpsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.loop(func(o *guard.LoopOptions) { o.DumpOnly = true; o.Interval = time.Second; o.Strikes = 5 })
		l.Arm()
		for i := 1; i <= 2; i++ {
			s.block(10 * time.Minute)
			time.Sleep(9 * time.Minute)
			exits, dump, wedges, _ := s.saw()
			if len(exits) != 0 || strings.Count(dump, "made no progress") != i || len(wedges) != i || !l.Wedged() {
				t.Fatalf("wedge %d: exits %v, %d dumps, wedges %v", i, exits, strings.Count(dump, "made no progress"), wedges)
			}
			if lag := l.Lag(); lag < 9*time.Minute-time.Second || lag > 9*time.Minute {
				t.Errorf("lag %v", lag)
			}
			time.Sleep(time.Minute)
			time.Sleep(time.Second)
			if _, _, _, mended := s.saw(); mended != i || l.Wedged() || l.Lag() > time.Second {
				t.Errorf("after recovery %d: told %d times, wedged %v, lag %v", i, mended, l.Wedged(), l.Lag())
			}
		}
	})
}

func TestClosedLoopIsNotWedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.loop(nil)
		l.Arm()
		time.Sleep(7 * time.Second)
		s.close()
		time.Sleep(time.Hour)
		s.expectQuiet("a closed loop")
		if l.Lag() != 0 {
			t.Errorf("lag %v", l.Lag())
		}
	})
}

func TestLoopThatClosesWhileWedgedIsWedgedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.loop(func(o *guard.LoopOptions) { o.DumpOnly = true })
		l.Arm()
		for range cap(s.events) + 1 {
			s.events <- func() { <-s.over }
		}
		time.Sleep(time.Minute)
		if !l.Wedged() {
			t.Fatal("a full queue is no wedge")
		}
		s.close()
		time.Sleep(time.Minute)
		if l.Wedged() || l.Lag() != 0 {
			t.Errorf("wedged %v, lag %v", l.Wedged(), l.Lag())
		}
	})
}

func TestPostThatHangsIsAWedgeAndCostsOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		calls := 0
		release := make(chan struct{})
		l := s.loop(func(o *guard.LoopOptions) {
			o.DumpOnly = true
			o.Post = func(func()) bool { calls++; <-release; return true }
		})
		l.Arm()
		time.Sleep(time.Hour)
		synctest.Wait()
		if !l.Wedged() || calls != 1 {
			t.Errorf("wedged %v, %d posts hang", l.Wedged(), calls)
		}
		if _, dump, _, _ := s.saw(); strings.Count(dump, "made no progress") != 1 {
			t.Error("not one dump")
		}
		close(release)
	})
}

func TestLostProbesAreNoWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		n := 0
		l := s.loop(func(o *guard.LoopOptions) {
			o.Post = func(ack func()) bool {
				if n++; n%3 != 0 {
					return true // taken, and dropped by a queue that was full
				}
				return s.post(ack)
			}
		})
		l.Arm()
		time.Sleep(time.Hour)
		s.expectQuiet("two of three probes are lost")
	})
}

func TestFailuresInsideAreSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.loop(func(o *guard.LoopOptions) { o.Post = func(func()) bool { panic("post") } })
		l.Arm()
		time.Sleep(time.Hour)
		s.expectQuiet("a Post that panics")
	})
	synctest.Test(t, func(t *testing.T) { // and those of the reaction do not prevent the exit
		s := newStage(t)
		l := s.loop(func(o *guard.LoopOptions) {
			o.Dump = writerFunc(func([]byte) (int, error) { panic("writer") })
			o.DumpFile = filepath.Join(t.TempDir(), "no", "such", "place")
			o.OnWedge = func(time.Duration) { panic("callback") }
			o.BeforeExit = func() { panic("hook") }
			o.ExitCode = 3
		})
		l.Arm()
		s.block(time.Hour)
		time.Sleep(time.Minute)
		exits, _, _, _ := s.saw()
		same(t, "exits", exits, []int{3})
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// fault 11
func TestNothingThatHangsPreventsTheExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		release := make(chan struct{})
		hang := func() { <-release }
		l := s.loop(func(o *guard.LoopOptions) {
			o.Dump = writerFunc(func([]byte) (int, error) { hang(); return 0, io.EOF })
			o.OnWedge = func(time.Duration) { hang() }
			o.BeforeExit = hang
		})
		l.Arm()
		s.block(time.Hour)
		time.Sleep(time.Minute)
		exits, _, _, _ := s.saw()
		same(t, "exits", exits, []int{guard.ExitRestart})
		if s.ended < 15*time.Second || s.ended > 20*time.Second {
			t.Errorf("ended at %v", s.ended)
		}
		close(release)
	})
}

func TestDisarmWinsOverAnExitUnderWay(t *testing.T) {
	for name, where := range map[string]func(*guard.LoopOptions, func()){
		"in the dump": func(o *guard.LoopOptions, disarm func()) {
			o.Dump = writerFunc(func(p []byte) (int, error) { disarm(); return len(p), nil })
		},
		"in the hook": func(o *guard.LoopOptions, disarm func()) { o.BeforeExit = disarm },
		"when told":   func(o *guard.LoopOptions, disarm func()) { o.OnWedge = func(time.Duration) { disarm() } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				var l *guard.Loop
				reached := false
				l = s.loop(func(o *guard.LoopOptions) {
					where(o, func() { reached = true; l.Disarm() })
				})
				l.Arm()
				s.block(time.Hour)
				time.Sleep(5 * time.Minute)
				if exits, _, _, _ := s.saw(); len(exits) != 0 || !reached {
					t.Errorf("exits %v", exits)
				}
			})
		})
	}
}

func TestDisarmWaitsNotLongerThanAnIntervalAndASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		release := make(chan struct{})
		l := s.loop(func(o *guard.LoopOptions) {
			o.Interval, o.Strikes = 100*time.Millisecond, 3
			o.Dump = writerFunc(func([]byte) (int, error) { <-release; return 0, io.EOF })
		})
		l.Arm()
		s.block(time.Hour)
		time.Sleep(301 * time.Millisecond)
		began := time.Now()
		l.Disarm()
		if d := time.Since(began); d > 1100*time.Millisecond {
			t.Errorf("Disarm took %v", d)
		}
		time.Sleep(time.Minute)
		if exits, _, _, _ := s.saw(); len(exits) != 0 {
			t.Errorf("exits %v", exits)
		}
		close(release)
	})
}

func TestEachArmingIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.loop(nil)
		l.Arm()
		s.block(14 * time.Second)
		time.Sleep(13 * time.Second)
		l.Disarm()
		if l.Armed() || l.Lag() != 0 {
			t.Errorf("armed %v, lag %v", l.Armed(), l.Lag())
		}
		l.Arm() // old strikes and old answers do not count
		time.Sleep(time.Hour)
		s.expectQuiet("armed anew")
		s.block(time.Hour)
		time.Sleep(30 * time.Second)
		if exits, _, _, _ := s.saw(); len(exits) != 1 {
			t.Errorf("exits %v after the wedge of the second arming", exits)
		}
	})
}

func TestStartUpDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // off, confirmed, extended
		s := newStage(t)
		l := s.loop(nil)
		off := l.DeadlineForStartup(0, 0)
		if !off.Progress() {
			t.Error("a deadline that is off counts extensions")
		}
		l.DeadlineForShutdown(-1)
		d := l.DeadlineForStartup(10*time.Second, 3)
		for range 3 {
			time.Sleep(9 * time.Second)
			if !d.Progress() {
				t.Fatal("progress does not extend")
			}
		}
		time.Sleep(9 * time.Second)
		if d.Progress() {
			t.Error("extended without bound")
		}
		d.Confirm()
		time.Sleep(time.Hour)
		s.expectQuiet("confirmed in time")
	})
	synctest.Test(t, func(t *testing.T) { // the last extension passes too
		s := newStage(t)
		l := s.loop(func(o *guard.LoopOptions) { o.ExitCode = 9 })
		d := l.DeadlineForStartup(10*time.Second, 1)
		time.Sleep(9 * time.Second)
		d.Progress()
		time.Sleep(10*time.Second - 1)
		s.expectQuiet("before it")
		time.Sleep(time.Nanosecond)
		exits, dump, _, _ := s.saw()
		same(t, "exits", exits, []int{9})
		if !strings.Contains(dump, "the start-up of the screen did not end within 19 s") || d.Progress() {
			t.Errorf("dump %.200s", dump)
		}
	})
	synctest.Test(t, func(t *testing.T) { // confirmed while the dump is written
		s := newStage(t)
		made := make(chan *guard.Deadline, 1)
		l := s.loop(func(o *guard.LoopOptions) {
			o.Dump = writerFunc(func(p []byte) (int, error) { (<-made).Confirm(); return s.Write(p) })
		})
		made <- l.DeadlineForStartup(time.Second, 0)
		time.Sleep(time.Hour)
		if exits, dump, _, _ := s.saw(); len(exits) != 0 || dump == "" {
			t.Errorf("exits %v, dump of %d bytes", exits, len(dump))
		}
	})
}

func TestShutdownDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.loop(nil)
		l.Arm()
		l.Disarm()
		d := l.DeadlineForShutdown(guard.ShutdownWithin)
		time.Sleep(4 * time.Second)
		d.Confirm()
		time.Sleep(time.Hour)
		s.expectQuiet("in time")

		l.DeadlineForShutdown(guard.ShutdownWithin)
		time.Sleep(time.Second)
		l.Arm() // a new life: what belongs to the old one never ends it
		time.Sleep(time.Hour)
		s.expectQuiet("armed again")

		l.Disarm()
		l.DeadlineForShutdown(guard.ShutdownWithin)
		time.Sleep(time.Minute)
		exits, dump, _, _ := s.saw()
		same(t, "exits", exits, []int{guard.ExitRestart})
		if !strings.Contains(dump, "the shutdown of the screen did not end within 5 s") {
			t.Errorf("dump %.200s", dump)
		}
	})
}

func TestStaleDeadlineNeverExitsEvenWhileItDumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		var l *guard.Loop
		l = s.loop(func(o *guard.LoopOptions) {
			o.Dump = writerFunc(func(p []byte) (int, error) { l.Arm(); return s.Write(p) })
		})
		l.DeadlineForShutdown(time.Second)
		time.Sleep(time.Hour)
		if exits, dump, _, _ := s.saw(); len(exits) != 0 || dump == "" {
			t.Errorf("exits %v", exits)
		}
	})
}

func TestDumpFileIsOurOwnRegularFile(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink(target, link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, dir} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			l := s.loop(func(o *guard.LoopOptions) { o.DumpFile = path })
			l.Arm()
			s.block(time.Hour)
			time.Sleep(time.Minute)
			if exits, dump, _, _ := s.saw(); len(exits) != 1 || dump == "" {
				t.Errorf("%s: exits %v", path, exits)
			}
		})
	}
	if text, _ := os.ReadFile(target); len(text) != 0 {
		t.Error("the dump went through a link")
	}
	created := filepath.Join(dir, "new")
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.loop(func(o *guard.LoopOptions) { o.DumpFile = created }).DeadlineForShutdown(time.Second)
		time.Sleep(time.Minute)
	})
	if info, err := os.Stat(created); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the new file: %v, %v", info, err)
	}
}

func TestLagGoesOutWithTheBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newStage(t), newBus()
		l := s.loop(func(o *guard.LoopOptions) { o.DumpOnly = true })
		start(t, guard.Options{Publishers: []guard.Publisher{b}, Loop: l})
		time.Sleep(time.Second)
		l.Arm()
		s.block(time.Hour)
		time.Sleep(40 * time.Second)
		beats := b.take()
		if beats[0].Beat.LoopLag != -1 || beats[1].Beat.LoopLag < 23*time.Second || beats[1].Beat.LoopLag > 29*time.Second {
			t.Errorf("lags %v, %v", beats[0].Beat.LoopLag, beats[1].Beat.LoopLag)
		}
	})
}
