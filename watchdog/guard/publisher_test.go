package guard_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

var errAway = errors.New("connection refused")

func TestBrokenPublishersHarmNobody(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, broken := range map[string]func(context.Context, guard.Message) error{
		"fails":         func(context.Context, guard.Message) error { return errAway },
		"panics":        func(context.Context, guard.Message) error { panic("publisher") },
		"hangs":         func(ctx context.Context, _ guard.Message) error { <-ctx.Done(); return ctx.Err() },
		"reads too far": func(_ context.Context, m guard.Message) error { _ = m.Beat.Message[9]; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good, bad := newBus(), newBus()
				bad.before = broken
				s, ctx := start(t, guard.Options{Publishers: []guard.Publisher{bad, good}})
				began := time.Now()
				for range 100 {
					s.Touch()
					s.SetTask("on it")
				}
				if d := time.Since(began); d != 0 {
					t.Errorf("the agent was held for %v", d)
				}
				time.Sleep(5 * time.Minute)
				beats := good.take()
				for i, m := range beats {
					if want := time.Duration(i) * 30 * time.Second; m.At != want {
						t.Errorf("beat %d came at %v, want %v", i, m.At, want)
					}
				}
				if len(beats) != 11 || ctx.Err() != nil {
					t.Errorf("%d beats, work %v", len(beats), ctx.Err())
				}
				s.Complete()
				began = time.Now()
				err := s.Close()
				if err == nil || !strings.Contains(err.Error(), "did not reach") {
					t.Errorf("Close: %v", err)
				}
				if d := time.Since(began); d > 2200*time.Millisecond {
					t.Errorf("Close took %v", d)
				}
				same(t, "the last beat elsewhere", good.says(), []string{"300s completed"})
			})
		})
	}
}

func TestPublisherThatHeedsNoContextHoldsCloseForItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		good, deaf := newBus(), newBus()
		deaf.before = func(context.Context, guard.Message) error { <-release; return nil }
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{deaf, good}, FlushTimeout: 500 * time.Millisecond})
		time.Sleep(95 * time.Second)
		s.Complete()
		began := time.Now()
		if err := s.Close(); err == nil {
			t.Error("Close is content")
		}
		if d := time.Since(began); d > 600*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
		same(t, "the other", good.says(), []string{"0s running", "30s running", "60s running", "90s running", "95s completed"})
		close(release)
	})
}

// fault 16
func TestNothingOldIsSentAndTheFirstAfterAnOutageIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		var mu sync.Mutex
		away, tries := true, 0
		b.before = func(context.Context, guard.Message) error {
			mu.Lock()
			defer mu.Unlock()
			tries++
			if away {
				return errAway
			}
			return nil
		}
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{b}})
		time.Sleep(5 * time.Minute)
		s.SetTask("after the outage")
		mu.Lock()
		away = false
		if tries < 20 || tries > 60 {
			t.Errorf("%d attempts in 5 minutes", tries)
		}
		mu.Unlock()
		time.Sleep(16 * time.Second)
		beats := b.take()
		if len(beats) == 0 || string(beats[0].Beat.Task) != "after the outage" {
			t.Fatalf("beats after the return: %+v", beats)
		}
		if age := beats[0].At - time.Duration(beats[0].Beat.Uptime)*time.Second; age >= time.Second {
			t.Errorf("the first beat was %v old", age)
		}
		time.Sleep(2 * time.Minute)
		for i, m := range b.take() {
			if i > 0 && m.Beat.Seq == 0 {
				t.Errorf("beat %+v", m)
			}
		}
	})
}

func TestABeatThatWaitedTooLongIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		hang := true
		b.before = func(context.Context, guard.Message) error {
			if hang {
				hang = false
				time.Sleep(3 * time.Minute) // whatever its context says
			}
			return nil
		}
		start(t, guard.Options{Publishers: []guard.Publisher{b}})
		time.Sleep(190 * time.Second)
		beats := b.take()
		if len(beats) < 2 {
			t.Fatalf("%d beats", len(beats))
		}
		for _, m := range beats[1:] {
			if age := m.At - time.Duration(m.Beat.Uptime)*time.Second; age > 5*time.Second {
				t.Errorf("a beat %v old was sent", age)
			}
		}
	})
}

func TestTroubleIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBus()
		b.before = func(context.Context, guard.Message) error {
			if time.Since(b.began) < 10*time.Minute {
				return errAway
			}
			return nil
		}
		start(t, guard.Options{Publishers: []guard.Publisher{b}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(20 * time.Minute)
		b.take()
		text := log.String()
		if strings.Count(text, "beats are not published") != 1 || strings.Count(text, "published again") != 1 || !strings.Contains(text, "connection refused") {
			t.Errorf("log:\n%s", text)
		}
	})
}

func TestCloseGivesABeatUnderWayAMomentToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		b.before = func(ctx context.Context, _ guard.Message) error {
			select {
			case <-time.After(100 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s, _ := start(t, guard.Options{Publishers: []guard.Publisher{b}})
		synctest.Wait()
		s.Complete()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		same(t, "beats", b.says(), []string{"0.1s running", "0.2s completed"})
	})
}

func TestStalledBeatsSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus()
		start(t, guard.Options{Publishers: []guard.Publisher{b}, StallTimeout: 45 * time.Second, Plain: true})
		time.Sleep(2 * time.Minute)
		for _, m := range b.take() {
			stalled := m.At >= 45*time.Second
			if (m.Beat.State == watchdog.StateStalled) != stalled {
				t.Errorf("at %v: %v", m.At, m.Beat.State)
			}
		}
	})
}
