package guard

import (
	"sync/atomic"
	"time"
)

// How often the session was touched since the marks were last swept.
const (
	touchedNot uint32 = iota
	touchedOnce
	touchedOften
)

// activity remembers when work was last seen. A touch reads the clock only if
// it is the first since the last sweep; all others read one shared word, which
// costs next to nothing from any number of goroutines. So the moment of a lone
// touch is exact, and that of the last of many is late by one grain at most,
// never early: nobody is called stalled too soon.
type activity struct {
	_     [64]byte // the words of the fast path stay clear of busy neighbours
	marks atomic.Uint32
	last  atomic.Int64 // on the session's clock
	_     [64]byte
}

// touch notes activity. It reports whether this is the first since the sweep.
func (a *activity) touch(began time.Time) (first bool) {
	for {
		switch a.marks.Load() {
		case touchedOften:
			return false
		case touchedOnce:
			if a.marks.CompareAndSwap(touchedOnce, touchedOften) {
				return false
			}
		default:
			a.last.Store(int64(time.Since(began)))
			if a.marks.CompareAndSwap(touchedNot, touchedOnce) {
				return true
			}
		}
	}
}

// at is when work was last seen, as far as it is known now.
func (a *activity) at(now time.Duration) time.Duration {
	if a.marks.Load() == touchedOften {
		return now
	}
	return time.Duration(a.last.Load())
}

// sweep begins a new grain.
func (a *activity) sweep(now time.Duration) {
	if a.marks.Swap(touchedNot) == touchedOften {
		a.last.Store(int64(now))
	}
}

func (a *activity) marked() bool { return a.marks.Load() != touchedNot }

// grainOf is how long marks gather before they are swept.
func grainOf(stallTimeout time.Duration) time.Duration {
	return min(max(stallTimeout/1000, time.Millisecond), 100*time.Millisecond)
}
