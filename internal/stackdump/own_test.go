package stackdump

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
)

//go:noinline
func waitInPool(c chan int) { <-c }

//go:noinline
func waitAlone(mu *sync.Mutex) { mu.Lock() }

// TestOwnGoroutines reads this process in all forms that the runtime offers: they
// must tell the same of the same goroutines.
func TestOwnGoroutines(t *testing.T) {
	const pool = 25
	c := make(chan int)
	var mu sync.Mutex
	mu.Lock()
	var ended sync.WaitGroup
	for range pool {
		ended.Go(func() { waitInPool(c) })
	}
	ended.Go(func() { waitAlone(&mu) })
	defer ended.Wait()
	defer mu.Unlock()
	defer close(c)

	forms := map[string]func() string{
		"go": func() string {
			text := make([]byte, 4<<20)
			return string(text[:runtime.Stack(text, true)])
		},
		"go-pprof-text": func() string { return profileOf(t, 1) },
		"pprof-proto":   func() string { return profileOf(t, 0) },
	}
	for format, take := range forms {
		// They reach their wait soon after they started.
		var inPool, alone int
		for range 10_000 {
			f := Parse(take())
			if f.Format != Format(format) || len(f.Dumps) != 1 || f.Cut != Whole || f.Stray > 0 {
				t.Fatalf("%s: format %s, %d dumps, %v, %d stray lines %q", format, f.Format, len(f.Dumps), f.Cut, f.Stray, f.StrayText)
			}
			inPool, alone = standIn(f, "waitInPool"), standIn(f, "waitAlone")
			if inPool == pool && alone == 1 {
				break
			}
			runtime.Gosched()
		}
		if inPool != pool || alone != 1 {
			t.Errorf("%s: %d goroutines in the pool and %d alone, want %d and 1", format, inPool, alone, pool)
		}
	}
}

func profileOf(t *testing.T, debug int) string {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, debug); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// standIn counts the threads whose innermost frame of their own is a function.
func standIn(f *File, function string) int {
	n := 0
	for i := range f.Dumps[0].Threads {
		th := &f.Dumps[0].Threads[i]
		if k := th.innermost(); k >= 0 && strings.HasSuffix(th.Frames[k].Function, "."+function) {
			n += th.Count
		}
	}
	return n
}
