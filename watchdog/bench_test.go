package watchdog

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// fill makes a tracker with n sessions that beat every 30 s.
func fill(n int) (*Tracker, Instant) {
	now := Instant{Mono: time.Second, Boot: time.Second}
	tr := NewTracker(Policy{MaxSessions: n + 1, MaxNewPerSecond: n + 1}, now)
	tr.Apply(SourceAdded{Source: SourceNATS})
	tr.Apply(RoundTrip{Source: SourceNATS, At: now.Mono})
	var batch []Beat
	for i := range n {
		b := beat(fmt.Sprintf("batch-job-%07d", i), 142)
		b.Received = now.Mono + time.Duration(i%300)*tickLength
		b.Credits = 8.43
		batch = append(batch, b)
		if len(batch) == 256 || i == n-1 {
			tr.ApplyBeats(batch)
			batch = batch[:0]
		}
	}
	return tr, Instant{Mono: now.Mono + 30*time.Second, Boot: now.Boot + 30*time.Second}
}

// BenchmarkMemory prints the bytes of a session in the main record and in all,
// and the time of a full garbage collection (P3).
func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		tr, _ := fill(n)
		runtime.GC()
		runtime.ReadMemStats(&after)
		began := time.Now()
		runtime.GC()
		gc := time.Since(began)
		b.ReportMetric(float64(recordBytes), "B/record")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/session")
		b.ReportMetric(float64(gc.Microseconds())/1000, "ms/GC")
		runtime.KeepAlive(tr)
	}
}

// BenchmarkTick prints the worst tick of a minute in which a million sessions
// beat every 30 s, against a scan of all deadlines in the same run (P3).
func BenchmarkTick(b *testing.B) {
	const n = 1_000_000
	tr, now := fill(n)
	ids := make([][]byte, n)
	for i := range ids {
		ids[i] = fmt.Appendf(nil, "batch-job-%07d", i)
	}
	deadlines := make([]time.Duration, n)
	b.ResetTimer()
	for range b.N {
		var worst, scan time.Duration
		var all []time.Duration
		batch := make([]Beat, 0, 256)
		at := 0
		for tick := range 600 {
			now.Mono += tickLength
			now.Boot += tickLength
			for range n / 300 {
				beat := beat("", int64(150+tick))
				beat.ID, beat.Received, beat.Credits = ids[at%n], now.Mono, 8.43
				batch = append(batch, beat)
				at++
				if len(batch) == cap(batch) {
					tr.ApplyBeats(batch)
					batch = batch[:0]
				}
			}
			if tick%10 == 0 {
				tr.Apply(RoundTrip{Source: SourceNATS, At: now.Mono})
			}
			began := time.Now()
			tr.Advance(now)
			took := time.Since(began)
			all = append(all, took)
			worst = max(worst, took)
			if tick%100 == 0 {
				began = time.Now()
				for i := range deadlines {
					if deadlines[i] > now.Mono {
						deadlines[i] = 0
					}
				}
				scan = max(scan, time.Since(began))
			}
		}
		slices.Sort(all)
		b.ReportMetric(float64(worst.Microseconds())/1000, "ms/worst-tick")
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/median-tick")
		b.ReportMetric(float64(worst)/float64(scan), "ratio-to-scan")
	}
}

// BenchmarkApply prints the cost of a beat against a map under a mutex in the
// same run.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tr, now := fill(n)
			batch := make([]Beat, 256)
			for i := range batch {
				batch[i] = beat("", 150)
			}
			ids := make([][]byte, n)
			for i := range ids {
				ids[i] = fmt.Appendf(nil, "batch-job-%07d", i*7919%n)
			}
			b.ResetTimer()
			for i := 0; i < b.N; i += len(batch) {
				for k := range batch {
					batch[k].ID, batch[k].Received = ids[(i+k)%n], now.Mono
				}
				tr.ApplyBeats(batch)
			}
		})
	}
}

// BenchmarkLook prints the answer of a window of 60 rows.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tr, now := fill(n)
			tr.Advance(now)
			l := lens{t: tr}
			l.look(&Ask{})
			for b.Loop() {
				l.look(&Ask{Height: 60, Anchor: "batch-job-0000500"})
			}
		})
	}
}
