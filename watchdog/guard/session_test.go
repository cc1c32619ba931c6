package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// told is one beat that a publisher was given.
type told struct {
	At time.Duration
	guard.Message
}

// bus is a publisher that keeps everything, or misbehaves.
type bus struct {
	began  time.Time
	before func(context.Context, guard.Message) error

	mu     sync.Mutex
	beats  []told
	pings  map[int]func()
	nextID int
}

func newBus() *bus { return &bus{began: time.Now(), pings: map[int]func(){}} }

func (b *bus) Publish(ctx context.Context, m guard.Message) error {
	if b.before != nil {
		if err := b.before(ctx, m); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beats = append(b.beats, told{At: time.Since(b.began), Message: m})
	return nil
}

func (b *bus) OnPing(f func()) (remove func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nextID++
	id := b.nextID
	b.pings[id] = f
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.pings, id)
	}
}

func (b *bus) ping() {
	b.mu.Lock()
	all := b.pings
	b.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// all gives the beats so far, and forgets them.
func (b *bus) take() []told {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.beats
	b.beats = nil
	return out
}

// says lists the beats as "second state".
func (b *bus) says() []string {
	var out []string
	for _, t := range b.take() {
		out = append(out, fmt.Sprintf("%gs %s", t.At.Seconds(), t.Beat.State))
	}
	return out
}

func start(t *testing.T, o guard.Options) (*guard.Session, context.Context) {
	t.Helper()
	if o.ID == "" {
		o.ID = "s"
	}
	s, ctx, err := guard.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, ctx
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// fault 1
func TestStallIsSaidAtOnceAndEachIntervalAndEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{b}})
		time.Sleep(95 * time.Second)
		s.Touch()
		same(t, "before", b.says(), []string{"0s running", "30s running", "60s running", "90s running"})
		time.Sleep(300*time.Second - 1)
		b.take()
		time.Sleep(time.Nanosecond)
		same(t, "at the timeout", b.says(), []string{"395s stalled"})
		time.Sleep(61 * time.Second)
		same(t, "while it lasts", b.says(), []string{"425s stalled", "455s stalled"})
		s.Touch()
		same(t, "with the next touch", b.says(), []string{"456s running"})
		time.Sleep(30 * time.Second)
		same(t, "after it", b.says(), []string{"486s running"})
	})
}

func TestManyTouchesStallLateByAGrainAtMostNeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{b}, StallTimeout: 10 * time.Second, Interval: time.Hour, RedisTTL: 2 * time.Hour})
		for range 777 {
			s.Touch()
			time.Sleep(time.Millisecond)
		}
		s.Touch()
		last := time.Since(b.began)
		time.Sleep(time.Minute)
		beats := b.take()
		if len(beats) != 2 || beats[1].Beat.State != watchdog.StateStalled {
			t.Fatalf("beats %+v", beats)
		}
		if late := beats[1].At - last - 10*time.Second; late < 0 || late > 10*time.Millisecond {
			t.Errorf("stalled %v after the timeout, want 0 to 10ms", late)
		}
	})
}

func TestBeatsCarryWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, other := newBus(), newBus()
		budget, err := guard.NewBudget(10, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := start(t, guard.Options{
			ID: "batch-job:7.x", Publishers: []guard.Publisher{b, other}, Task: "first", AgentID: "worker-7", Host: "eu1-02", PID: 4711, Budget: budget,
		})
		if err := budget.Spend(1.57); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29*time.Second + 600*time.Millisecond)
		s.SetTask("chunk 47/200")
		time.Sleep(400 * time.Millisecond)
		beats := b.take()
		want := &watchdog.Beat{
			ID: []byte("batch-job:7.x"), Uptime: 30, Credits: 8.43, Task: []byte("chunk 47/200"), BootID: []byte(s.BootID()), Seq: 2,
			Idle: 400 * time.Millisecond, Interval: 30 * time.Second, StallTimeout: 300 * time.Second, LoopLag: -1,
			PID: 4711, Agent: []byte("worker-7"), Host: []byte("eu1-02"),
		}
		last := beats[len(beats)-1]
		same(t, "beat", last.Beat, want)
		if last.Plain || last.TTL != time.Minute {
			t.Errorf("plain %v, TTL %v", last.Plain, last.TTL)
		}
		if string(beats[0].Beat.Task) != "first" || beats[0].Beat.Seq != 1 {
			t.Errorf("first beat %+v", beats[0].Beat)
		}
		same(t, "the other publisher", len(other.take()), len(beats))
	})
}

func TestBalanceIsUnknownWithoutABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		start(t, guard.Options{Publishers: []guard.Publisher{b}, Plain: true})
		m := b.take()[0]
		if !math.IsNaN(m.Beat.Credits) || !m.Plain {
			t.Errorf("message %+v", m)
		}
	})
}

func TestEndIsSaidOnce(t *testing.T) {
	boom := errors.New("the disk is full")
	for _, c := range []struct {
		name    string
		end     func(*guard.Session)
		state   watchdog.State
		message string
	}{
		{"complete", (*guard.Session).Complete, watchdog.StateCompleted, ""},
		{"fail", func(s *guard.Session) { s.Fail(boom) }, watchdog.StateError, "the disk is full"},
		{"fail without a reason", func(s *guard.Session) { s.Fail(nil) }, watchdog.StateError, guard.ErrUnfinished.Error()},
		{"neither", func(*guard.Session) {}, watchdog.StateError, guard.ErrUnfinished.Error()},
		{"the first counts", func(s *guard.Session) { s.Complete(); s.Fail(boom); s.Complete() }, watchdog.StateCompleted, ""},
		{"stopped", func(s *guard.Session) { s.Stop("wedged"); s.Stop("again") }, watchdog.StateError, "stopped: wedged"},
		{"stopped without a reason", func(s *guard.Session) { s.Stop("") }, watchdog.StateError, "stopped"},
		{"stopped, yet complete", func(s *guard.Session) { s.Stop("x"); s.Complete() }, watchdog.StateCompleted, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBus()
				s, ctx := start(t, guard.Options{Publishers: []guard.Publisher{b}})
				time.Sleep(10 * time.Second)
				c.end(s)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Minute)
				if ctx.Err() == nil {
					t.Error("the context of the work goes on after Close")
				}
				ends := 0
				beats := b.take()
				for _, m := range beats {
					if m.Beat.State == watchdog.StateCompleted || m.Beat.State == watchdog.StateError {
						ends++
					}
				}
				last := beats[len(beats)-1].Beat
				if ends != 1 || last.State != c.state || string(last.Message) != c.message {
					t.Errorf("%d ends, the last beat says %v %q", ends, last.State, last.Message)
				}
				if last.Uptime != 10 {
					t.Errorf("uptime %d at the end", last.Uptime)
				}
				s.Touch() // all of it is harmless after the end
				s.SetTask("late")
				s.Stop("late")
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if late := b.take(); len(late) != 0 {
					t.Errorf("beats after the end: %+v", late)
				}
				if n := len(b.pings); n != 0 {
					t.Errorf("%d pings are still listened to", n)
				}
			})
		})
	}
}

func TestPanicOfTheAgentEndsInError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		func() {
			defer func() { _ = recover() }()
			s, _, err := guard.Start(t.Context(), guard.Options{ID: "s", Publishers: []guard.Publisher{b}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			panic("agent")
		}()
		said := b.says()
		if said[0] == "0s running" { // its first beat may be out already
			said = said[1:]
		}
		same(t, "beats", said, []string{"0s error"})
	})
}

// fault 2
func TestDeclaredWaitIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{b}})
		time.Sleep(10 * time.Second)
		end, err := s.Wait(watchdog.WaitTool, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		first := b.take()[1]
		if first.At != 10*time.Second || first.Beat.WaitingFor != watchdog.WaitTool || first.Beat.WaitingMax != time.Hour || first.Beat.State != watchdog.StateRunning {
			t.Errorf("the wait is told by %+v", first)
		}
		time.Sleep(time.Hour + 300*time.Second - 1)
		for _, m := range b.take() {
			if m.Beat.State != watchdog.StateRunning || m.Beat.WaitingMax != time.Hour {
				t.Fatalf("during the wait: %+v", m)
			}
		}
		time.Sleep(time.Nanosecond)
		over := b.take()
		if len(over) != 1 || over[0].Beat.State != watchdog.StateStalled || over[0].Beat.WaitingFor != watchdog.WaitTool {
			t.Fatalf("the stall timeout after the maximum: %+v", over)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		back := b.take()
		if len(back) != 1 || back[0].Beat.State != watchdog.StateRunning || back[0].Beat.WaitingFor != watchdog.WaitNone {
			t.Fatalf("the end of the wait: %+v", back)
		}
		time.Sleep(300 * time.Second)
		if last := slices.MaxFunc(b.take(), func(a, b told) int { return int(a.At - b.At) }); last.Beat.State != watchdog.StateStalled {
			t.Error("the end of a wait was not the last activity")
		}
	})
}

func TestWaitsOverlapAndFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{b}})
		wait := func(kind watchdog.Wait, max time.Duration) func() error {
			end, err := s.Wait(kind, max)
			if err != nil {
				t.Fatal(err)
			}
			return end
		}
		shown := func() (out []string) {
			for _, m := range b.take() {
				out = append(out, fmt.Sprintf("%gs %s %v", m.At.Seconds(), m.Beat.WaitingFor, m.Beat.WaitingMax))
			}
			return out
		}
		time.Sleep(5 * time.Second)
		tool := wait(watchdog.WaitTool, time.Minute)
		time.Sleep(5 * time.Second)
		human := wait(watchdog.WaitHuman, time.Hour)
		time.Sleep(5 * time.Second)
		same(t, "the longest is shown", shown(), []string{"0s  0s", "5s tool 1m0s", "10s human 1h0m0s"})
		_ = human()
		time.Sleep(500 * time.Millisecond)
		same(t, "then the other", shown(), []string{"15s tool 1m0s"})
		_ = tool()
		tool = wait(watchdog.WaitTool, time.Minute) // no beat was sent in between
		time.Sleep(5 * time.Second)
		// An observer counts the maximum from the beginning of what it took for
		// one wait.
		same(t, "one that follows at once", shown(), []string{"16s tool 1m10.5s"})
		_ = tool()
		_ = tool() // a second end changes nothing
		time.Sleep(5 * time.Second)
		same(t, "none", shown(), []string{"20.5s  0s"})
	})
}

func TestWaitIsCappedAndChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{b}, MaxWait: time.Minute, StallTimeout: time.Minute})
		for _, c := range []struct {
			kind watchdog.Wait
			max  time.Duration
		}{{watchdog.WaitNone, time.Minute}, {200, time.Minute}, {watchdog.WaitTool, 0}, {watchdog.WaitTool, -1}} {
			if _, err := s.Wait(c.kind, c.max); err == nil {
				t.Errorf("Wait(%d, %v) was taken", c.kind, c.max)
			}
		}
		if _, err := s.Wait(watchdog.WaitOther, math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute - 1)
		for _, m := range b.take() {
			if m.Beat.State != watchdog.StateRunning {
				t.Fatalf("%+v", m)
			}
		}
		time.Sleep(time.Nanosecond)
		same(t, "after the cap and the timeout", b.says(), []string{"120s stalled"})
	})
}

func TestStopEndsTheWaitAndRefusesItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		s, ctx := start(t, guard.Options{Publishers: []guard.Publisher{b}})
		end, err := s.Wait(watchdog.WaitHuman, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { s.Stop("operator") })
		<-ctx.Done()
		if got := time.Since(b.began); got != time.Minute {
			t.Errorf("the work was told after %v", got)
		}
		if !errors.Is(context.Cause(ctx), guard.ErrStopped) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if err := end(); !errors.Is(err, guard.ErrStopped) {
			t.Errorf("the answer is taken: %v", err)
		}
		if _, err := s.Wait(watchdog.WaitHuman, time.Hour); !errors.Is(err, guard.ErrStopped) {
			t.Errorf("a new wait: %v", err)
		}
	})
}

func TestPingIsAnsweredWithinASecondOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		start(t, guard.Options{Publishers: []guard.Publisher{b}})
		time.Sleep(10 * time.Second)
		b.take()
		delays := map[time.Duration]bool{}
		for range 20 {
			asked := time.Since(b.began)
			for range 50 {
				b.ping()
			}
			time.Sleep(time.Second)
			answers := b.take()
			if len(answers) != 1 {
				t.Fatalf("%d answers within a second", len(answers))
			}
			delays[answers[0].At-asked] = true
			time.Sleep(5 * time.Second)
			b.take()
		}
		if len(delays) < 10 {
			t.Errorf("the answers are not spread: %v", delays)
		}
		for range 100 { // ten a second, for ten seconds
			b.ping()
			time.Sleep(100 * time.Millisecond)
		}
		answers := b.take()
		for i := 1; i < len(answers); i++ {
			if gap := answers[i].At - answers[i-1].At; gap < time.Second {
				t.Errorf("two answers within %v", gap)
			}
		}
		if len(answers) < 5 {
			t.Errorf("%d answers in ten seconds", len(answers))
		}
	})
}

func TestBudgetWarnsOnceAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		warnings := 0
		budget, err := guard.NewBudget(1, func(spent, max float64) {
			warnings++
			if spent < 0.8 || max != 1 {
				t.Errorf("warned at %v of %v", spent, max)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		s, ctx := start(t, guard.Options{Publishers: []guard.Publisher{b}, Budget: budget})
		for i := range 9 { // tenths, which no binary number is
			time.Sleep(2 * time.Second)
			if err := budget.Spend(0.1); err != nil {
				t.Fatal(err)
			}
			if want := 0; i >= 7 {
				want = 1
				if warnings != want {
					t.Errorf("%d warnings after %d tenths", warnings, i+1)
				}
			} else if warnings != 0 {
				t.Errorf("warned after %d tenths", i+1)
			}
		}
		beats := b.take()
		if len(beats) != 2 || string(beats[1].Beat.Message) != "0.8 of 1 credits are spent" || math.Abs(beats[1].Beat.Credits-0.2) > 1e-9 {
			t.Errorf("the warning is told by %s", beats[len(beats)-1].Beat.Message)
		}
		if ctx.Err() != nil {
			t.Fatal("stopped before the budget was spent")
		}
		if err := budget.Spend(0.1); !errors.Is(err, guard.ErrBudget) {
			t.Errorf("the last tenth: %v", err)
		}
		if !errors.Is(context.Cause(ctx), guard.ErrBudget) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if err := budget.Spend(0.5); !errors.Is(err, guard.ErrBudget) || budget.Remaining() > -0.49 {
			t.Errorf("beyond it: %v, balance %v", err, budget.Remaining())
		}
		s.Complete()
		_ = s.Close()
		beats = b.take()
		if last := beats[len(beats)-1].Beat; last.State != watchdog.StateError || !strings.HasPrefix(string(last.Message), "budget exhausted") || warnings != 1 {
			t.Errorf("the end is %v %q, warned %d times", last.State, last.Message, warnings)
		}
	})
}

func TestBudgetRefusesWhatIsNoAmount(t *testing.T) {
	for _, max := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := guard.NewBudget(max, nil); err == nil {
			t.Errorf("a budget of %v was made", max)
		}
	}
	b, err := guard.NewBudget(math.MaxFloat64, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []float64{-1, -1e-300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := b.Spend(n); err == nil || errors.Is(err, guard.ErrBudget) {
			t.Errorf("Spend(%v): %v", n, err)
		}
	}
	if b.Remaining() != math.MaxFloat64 {
		t.Errorf("balance %v after what was refused", b.Remaining())
	}
	_ = b.Spend(math.MaxFloat64 / 2)
	_ = b.Spend(math.MaxFloat64 / 2)
	if err := b.Spend(math.MaxFloat64); !errors.Is(err, guard.ErrBudget) || math.IsNaN(b.Remaining()) || math.IsInf(b.Remaining(), 0) {
		t.Errorf("overflow: %v, balance %v", err, b.Remaining())
	}
	if err := b.Spend(1); !errors.Is(err, guard.ErrBudget) {
		t.Errorf("after the overflow: %v", err)
	}
}

func TestBudgetCountsFromManyGoroutines(t *testing.T) {
	b, err := guard.NewBudget(1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 99 {
				if err := b.Spend(1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if b.Remaining() != 10 {
		t.Errorf("balance %v, want 10", b.Remaining())
	}
}

func TestBudgetBelongsToOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, err := guard.NewBudget(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = budget.Spend(2) // before the start
		_, ctx := start(t, guard.Options{Budget: budget})
		if !errors.Is(context.Cause(ctx), guard.ErrBudget) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if _, _, err := guard.Start(t.Context(), guard.Options{ID: "b", Budget: budget}); err == nil {
			t.Error("two sessions share a budget")
		}
	})
}

func TestGoneCancelsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		b.before = func(_ context.Context, m guard.Message) error {
			if m.Beat.Seq < 3 {
				return nil
			}
			return fmt.Errorf("reaped by the registry: %w", guard.ErrGone)
		}
		_, ctx := start(t, guard.Options{Publishers: []guard.Publisher{b}})
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, guard.ErrGone) || !strings.Contains(cause.Error(), "registry") {
			t.Errorf("cause %v", cause)
		}
		if at := time.Since(b.began); at != time.Minute {
			t.Errorf("told after %v", at)
		}
	})
}
