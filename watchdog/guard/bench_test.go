package guard_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// BenchmarkTouch compares Touch, called without a pause, with the store of one
// atomic word, and tells what it would cost to read the clock each time. The
// goal is under 20 ns.
func BenchmarkTouch(b *testing.B) {
	s, _, err := guard.Start(b.Context(), guard.Options{ID: "s"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var word atomic.Int64
	for b.Loop() {
		s.Touch()
	}
	ours := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	floor := each(b.N, func() { word.Store(1) })
	b.ReportMetric(ours/floor, "ratio")
	b.ReportMetric(floor, "floor-ns/op")
	began := time.Now()
	b.ReportMetric(each(b.N, func() { word.Store(int64(time.Since(began))) }), "clock-ns/op")
}

// BenchmarkTouchFromManyGoroutines is the same from 100 goroutines at once; there
// the atomic store pays for the line that all of them want.
func BenchmarkTouchFromManyGoroutines(b *testing.B) {
	s, _, err := guard.Start(b.Context(), guard.Options{ID: "s"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var word atomic.Int64
	var ours, floor float64
	for b.Loop() {
		ours = together(s.Touch)
		floor = together(func() { word.Store(1) })
	}
	b.ReportMetric(0, "ns/op") // of a whole round, which tells nothing
	b.ReportMetric(ours/floor, "ratio")
	b.ReportMetric(ours, "ns/touch")
	b.ReportMetric(floor, "floor-ns/touch")
}

// together is what one call costs while 100 goroutines call, in nanoseconds of
// the wall clock for each.
func together(f func()) float64 {
	const goroutines, calls = 100, 20_000
	var wg sync.WaitGroup
	began := time.Now()
	for range goroutines {
		wg.Go(func() {
			for range calls {
				f()
			}
		})
	}
	wg.Wait()
	return float64(time.Since(began).Nanoseconds()) / (goroutines * calls)
}

// each is what one call costs, in nanoseconds.
func each(n int, f func()) float64 {
	n = max(n, 1000)
	began := time.Now()
	for range n {
		f()
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}
