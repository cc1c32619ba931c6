package stackdump

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The floor of reading is to look at every byte for the ends of lines.
func floorOf(text string) time.Duration {
	best := time.Hour
	for range 5 {
		start := time.Now()
		lines := 0
		for rest := text; rest != ""; lines++ {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		best = min(best, time.Since(start))
		runtime.KeepAlive(lines)
	}
	return best
}

// goroutines is a dump of n goroutines in a few shapes, as runtime.Stack writes it.
func goroutines(n int) string {
	var b strings.Builder
	for i := range n {
		switch {
		case i == 7:
			fmt.Fprintf(&b, "goroutine %d [chan send, 2 minutes] {role: \"event-loop\"}:\nmain.(*Dispatcher).loop(0x660845?, {0xd2cb6b030e0?, 0x70d100?}, 0xa50a80?)\n\t/srv/app/goagent/main.go:53 +0x85\n\n", i+1)
		case i%5 == 0:
			fmt.Fprintf(&b, "goroutine %d [sync.Mutex.Lock]:\nsync.(*Mutex).Lock(...)\n\t/usr/local/go/src/sync/mutex.go:46\nmain.(*Dispatcher).report(0x%x, 0x%x)\n\t/srv/app/goagent/main.go:38 +0x2e\ncreated by main.main in goroutine 1\n\t/srv/app/goagent/main.go:67 +0x2d5\n\n", i+1, 0xc000010000+i, i)
		default:
			fmt.Fprintf(&b, "goroutine %d [select]:\nmain.(*Dispatcher).waitJob(0x%x, {0x78f160, 0x%x})\n\t/srv/app/goagent/main.go:29 +0x6d\ncreated by main.main in goroutine 1\n\t/srv/app/goagent/main.go:64 +0x29b\n\n", i+1, 0xc000010000+i, i)
		}
	}
	return b.String()
}

// BenchmarkGoroutines reads and groups 10,000 goroutines: 150 ms at most.
func BenchmarkGoroutines(b *testing.B) {
	measure(b, goroutines(10_000))
}

// BenchmarkAnything reads 16 MiB of each kind: a second and four times the
// memory of the text at most.
func BenchmarkAnything(b *testing.B) {
	const size = 16 << 20
	kinds := map[string]string{
		"goroutines": goroutines(1000), "zeros": "\x00", "letters": "a", "braces": "{\n", "cycle": "\"a\":\n", "listing": "0x1, 0x2, 0x3\n", "empty": "\n", "log": "2026-11-30 05:38:59 INFO request 17 (ok) took 3ms\n",
		"euTiny": "TID 1:\n#0 0x0 f\n", "euFrames": "#0 0x0 f\n", "torn": "Thread 0x1234567890 INFO\n", "tornFrame": "  File \"/srv/app INFO request 17 ok\n",
		"exceptions": "java.lang.Error: x\n\tat a.b(c)\n", "json": `{"header":{"reportVersion":1},"nativeStack":[{},{},{}],`, "quotes": `"` + "\n", "headers": "goroutine 1 [running]:\n", "profile": "goroutine profile: total 1\n1 @ 0x1\n",
		"escapes": "\x1b[31mred \\u0430\n", "print": "  File \"a\", line 1, in f\n", "ruby": "#<Thread:0x1 run>\n", "proc": "== tid 1 comm=a\n", "gdb": "Thread 1 (LWP 1):\n#0 f () at a.c:1\n",
	}
	for _, s := range samples(b) {
		if text := read(b, s.File); strings.HasPrefix(s.File, "py311-usr1-asyncio") || strings.HasPrefix(s.File, "java17-jstack") || strings.HasPrefix(s.File, "py311-interleaved") {
			kinds[s.File] = text
		}
	}
	for name, unit := range kinds {
		text := strings.Repeat(unit, size/len(unit)+1)[:size]
		switch name {
		case "euFrames":
			text = "TID 1:\n" + text
		case "quotes", "cycle", "listing":
			text = "Full thread dump x\nFound one Java-level deadlock:\n_java_thread_list=0x\n" + text
		}
		b.Run(name, func(b *testing.B) { measure(b, text) })
	}
}

// measure reports how long a text takes to be read and grouped at best, against
// the floor at best, and the most memory beside the text, against its length.
func measure(b *testing.B, text string) {
	floor := floorOf(text)
	var peak uint64
	took := time.Hour
	for b.Loop() {
		done := make(chan struct{})
		most := make(chan uint64)
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		go func() { most <- highest(done) }()
		start := time.Now()
		file := Parse(text)
		for i := range file.Dumps[:min(len(file.Dumps), 1)] {
			Analyze(&file.Dumps[i], Options{})
		}
		took = min(took, time.Since(start))
		close(done)
		if high := <-most; high > before.HeapInuse {
			peak = max(peak, high-before.HeapInuse)
		}
		runtime.KeepAlive(file)
	}
	b.ReportMetric(float64(took.Microseconds())/1000, "ms")
	b.ReportMetric(float64(floor.Microseconds())/1000, "floor-ms")
	b.ReportMetric(float64(took)/float64(floor), "ratio")
	b.ReportMetric(1+float64(peak)/float64(len(text)), "memory-ratio")
}

// highest watches the heap until done is closed.
func highest(done <-chan struct{}) uint64 {
	var high uint64
	var m runtime.MemStats
	for {
		runtime.ReadMemStats(&m)
		high = max(high, m.HeapInuse)
		select {
		case <-done:
			return high
		case <-time.After(2 * time.Millisecond):
		}
	}
}
