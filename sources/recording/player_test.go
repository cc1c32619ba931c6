package recording_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The screen steers a player without knowing it.
var (
	_ ui.Replay        = (*recording.Player)(nil)
	_ recording.Engine = (*watchdog.Engine)(nil)
	_ watchdog.Tap     = (*recording.Recorder)(nil)
)

// stage is a player with its engine, both running.
type stage struct {
	*recording.Player
	t      *testing.T
	engine *watchdog.Engine
	ctx    context.Context
}

// play runs a player on simulated time; it must be called inside a bubble.
func play(t *testing.T, s *recordingtest.Script, o recording.PlayerOptions) *stage {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); synctest.Wait() })
	st := &stage{t: t, ctx: ctx}
	open := func() (*recording.Reader, *watchdog.Engine) {
		r := reader(t, s)
		e := watchdog.NewEngine(r.Header().EngineConfig())
		go func() { _ = e.Run(ctx) }()
		return r, e
	}
	r, e := open()
	st.engine = e
	if o.Rewind != nil {
		o.Rewind = func(context.Context) (*recording.Reader, recording.Engine, error) {
			r, e := open()
			st.engine = e
			return r, e, nil
		}
	}
	st.Player = recording.NewPlayer(r, e, o)
	go func() {
		if err := st.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	return st
}

func (s *stage) look() watchdog.Window {
	s.t.Helper()
	synctest.Wait()
	w, err := s.engine.Look(s.ctx, everything())
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

func (s *stage) offset() time.Duration { return s.Progress().Offset }

func canRewind() func(context.Context) (*recording.Reader, recording.Engine, error) {
	return func(context.Context) (*recording.Reader, recording.Engine, error) {
		return nil, nil, errors.New("unused")
	}
}

func TestPlayerShowsWhatReplayShows(t *testing.T) {
	for _, speed := range []float64{1, 7.3, 1000} {
		synctest.Test(t, func(t *testing.T) {
			p := play(t, night(), recording.PlayerOptions{Speed: speed})
			for _, at := range []time.Duration{10 * time.Second, 35 * time.Second, 54 * time.Second, 80 * time.Second} {
				ahead := at + 10*time.Millisecond - p.offset()
				time.Sleep(time.Duration(float64(ahead) / speed))
				p.Pause()
				got := p.look()
				want, _ := replayed(t, night(), p.offset()+time.Millisecond)
				if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
					t.Errorf("speed %v at %v: %s", speed, p.offset(), diff)
				}
				if off := p.offset() - at; off.Abs() > time.Duration(speed*float64(10*time.Millisecond))+3*time.Second {
					t.Errorf("speed %v: wanted to stand at %v, stands at %v", speed, at, p.offset())
				}
				p.Resume()
			}
			time.Sleep(time.Minute)
			got, progress := p.look(), p.Progress()
			want, _ := replayed(t, night(), 0)
			if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
				t.Errorf("speed %v at the end: %s", speed, diff)
			}
			if !progress.Ended || progress.Gaps != 1 || progress.Offset != 90*time.Second {
				t.Errorf("speed %v: %+v", speed, progress)
			}
		})
	}
}

func TestPlayerKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, night(), recording.PlayerOptions{})
		at := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := p.offset(); got != want {
				t.Errorf("stands at %v, want %v", got, want)
			}
		}
		time.Sleep(5*time.Second + time.Millisecond)
		at(5 * time.Second)
		p.Pause()
		if !p.Paused() {
			t.Error("not paused")
		}
		time.Sleep(time.Hour)
		at(5 * time.Second)
		p.Resume()
		time.Sleep(2 * time.Second)
		at(7 * time.Second)
		p.SetSpeed(4)
		time.Sleep(2*time.Second + time.Millisecond)
		at(15 * time.Second)
		p.SetSpeed(0)
		if p.Speed() != recording.MinSpeed {
			t.Errorf("speed %v", p.Speed())
		}
		p.SetSpeed(1e9)
		if p.Speed() != recording.MaxSpeed {
			t.Errorf("speed %v", p.Speed())
		}
	})
}

func TestPlayerSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		p := play(t, night(), recording.PlayerOptions{Paused: true, Rewind: canRewind(), AtEnd: func() { told++ }})
		check := func(want time.Duration) {
			t.Helper()
			got := p.look()
			if p.offset() != want {
				t.Fatalf("stands at %v, want %v", p.offset(), want)
			}
			if !p.Paused() {
				t.Error("a step did not leave it paused")
			}
			expected, _ := replayed(t, night(), max(want, 1))
			if diff := cmp.Diff(text(t, expected), text(t, got)); diff != "" {
				t.Errorf("at %v: %s", want, diff)
			}
		}
		check(0)
		p.Step(1)
		check(time.Second)
		p.Step(1)
		p.Step(1)
		check(3 * time.Second)
		p.Step(30)
		check(33 * time.Second)
		p.Step(-1)
		check(32 * time.Second)
		p.Step(-100)
		check(0)
		p.Seek(80 * time.Second)
		check(80 * time.Second)
		p.Seek(12 * time.Second)
		check(12 * time.Second)
		p.Seek(time.Hour)
		synctest.Wait()
		if got := p.Progress(); !got.Ended || got.Offset != 90*time.Second {
			t.Errorf("%+v", got)
		}
		if reached, wrong := p.End(); !reached || wrong != "" || told != 1 {
			t.Errorf("at its end it says %v %q, and told so %d times", reached, wrong, told)
		}
		p.Step(-2)
		check(88 * time.Second)
		p.Resume()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if p.offset() != 89500*time.Millisecond {
			t.Errorf("after resuming it stands at %v", p.offset())
		}
	})
}

func TestPlayerWithoutRewindStaysWhenSteppedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, night(), recording.PlayerOptions{Paused: true})
		p.Step(10)
		synctest.Wait()
		p.Step(-5)
		synctest.Wait()
		if p.offset() != 10*time.Second {
			t.Errorf("stands at %v", p.offset())
		}
	})
}

func TestPlayerEndsWithTheBadLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, err := night().Bytes()
		if err != nil {
			t.Fatal(err)
		}
		r, err := recording.NewReader("x", strings.NewReader(string(data)+"nonsense\n"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := watchdog.NewEngine(r.Header().EngineConfig())
		go func() { _ = e.Run(ctx) }()
		p := recording.NewPlayer(r, e, recording.PlayerOptions{Speed: 100})
		if err := p.Run(ctx); err == nil || !strings.Contains(err.Error(), "is not an entry") {
			t.Errorf("Run gave %v", err)
		}
		cancel()
		synctest.Wait()
	})
}
