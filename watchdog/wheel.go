package watchdog

import "time"

// tickLength is the engine's tick: how late a deadline may be noticed.
const tickLength = 100 * time.Millisecond

// wheelSize is the wheel's horizon in ticks, nearly seven minutes. What lies
// beyond is looked at when the horizon comes, and put back.
const wheelSize = 4096

// maxFires bounds what one tick may look at, so that no tick takes long; the
// rest follows with the next tick.
const maxFires = 4096

// wheel keeps for each tick the records to be looked at. Entries are lazy: a
// beat only moves the deadline, the record finds out when its old entry fires.
type wheel struct {
	slots [wheelSize][]uint32
	tick  uint32 // all slots up to this tick have fired
	left  []uint32
}

// tickAfter is the first tick that is not before at, counted from epoch.
func tickAfter(at, epoch time.Duration) uint32 {
	d := at - epoch
	if d <= 0 {
		return 0
	}
	return uint32(min(int64((d+tickLength-1)/tickLength), 1<<31))
}

// put enters n for tick and returns the tick that it was really entered for.
func (w *wheel) put(n, tick uint32) uint32 {
	tick = min(max(tick, w.tick+1), w.tick+wheelSize-1)
	slot := &w.slots[tick%wheelSize]
	*slot = append(*slot, n)
	return tick
}

// advance fires the entries of every tick up to now, at most maxFires of them.
// fire gets the record and the tick of its entry.
func (w *wheel) advance(now uint32, fire func(n, tick uint32)) {
	budget := maxFires
	for w.tick < now {
		next := w.tick + 1
		slot := &w.slots[next%wheelSize]
		w.left, *slot = *slot, w.left[:0]
		w.tick = next
		for i, n := range w.left {
			if budget == 0 {
				// Put the rest back and let this tick fire again.
				*slot = append(*slot, w.left[i:]...)
				w.tick = next - 1
				return
			}
			budget--
			fire(n, next)
		}
	}
}
