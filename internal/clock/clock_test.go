package clock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

var (
	_ watchdog.Clock                    = (*clock.Manual)(nil)
	_ interface{ Mono() time.Duration } = clock.System().(interface{ Mono() time.Duration })
)

func TestSystemStartsAtZeroAndNeverGoesBack(t *testing.T) {
	c := clock.System()
	last := c.Now()
	if last.Mono < 0 || last.Mono > time.Minute {
		t.Fatalf("Mono = %v just after the start", last.Mono)
	}
	for range 1000 {
		now := c.Now()
		if now.Mono < last.Mono || now.Boot < last.Boot {
			t.Fatalf("went back from %+v to %+v", last, now)
		}
		if now.Boot < now.Mono {
			t.Fatalf("Boot %v is behind Mono %v", now.Boot, now.Mono)
		}
		last = now
	}
	if gap := last.Boot - last.Mono; gap > time.Second {
		t.Errorf("Boot is %v before Mono without a suspend", gap)
	}
	if d := time.Since(time.Unix(0, last.Wall)); d < 0 || d > time.Minute {
		t.Errorf("Wall is %v away from time.Now", d)
	}
}

func TestSystemFollowsSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		before := c.Now()
		time.Sleep(time.Hour)
		after := c.Now()
		if d := after.Mono - before.Mono; d != time.Hour {
			t.Errorf("Mono moved by %v, want 1h", d)
		}
		if d := after.Wall - before.Wall; d != int64(time.Hour) {
			t.Errorf("Wall moved by %v, want 1h", time.Duration(d))
		}
		if after.Boot < after.Mono {
			t.Errorf("Boot %v is behind Mono %v", after.Boot, after.Mono)
		}
		if m := c.(interface{ Mono() time.Duration }).Mono(); m != after.Mono {
			t.Errorf("Mono() = %v, Now().Mono = %v", m, after.Mono)
		}
	})
}

func TestManualMovesEachClock(t *testing.T) {
	m := clock.NewManual(watchdog.Instant{Mono: 1, Boot: 2, Wall: 3})
	m.Advance(10)
	m.Suspend(100)
	m.JumpWall(-1000)
	want := watchdog.Instant{Mono: 11, Boot: 112, Wall: -887}
	if got := m.Now(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	m.Set(watchdog.Instant{Mono: 5})
	if got := m.Mono(); got != 5 {
		t.Errorf("Mono() = %v after Set, want 5ns", got)
	}
}

func TestManualIsSafeForConcurrentUse(t *testing.T) {
	var m clock.Manual
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				m.Advance(1)
				_ = m.Now()
			}
		})
	}
	wg.Wait()
	if got := m.Mono(); got != 8000 {
		t.Errorf("Mono() = %v, want 8000ns", got)
	}
}

func BenchmarkNow(b *testing.B) {
	c := clock.System()
	for b.Loop() {
		c.Now()
	}
}

func BenchmarkMono(b *testing.B) {
	c := clock.System().(interface{ Mono() time.Duration })
	for b.Loop() {
		c.Mono()
	}
}
