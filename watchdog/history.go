package watchdog

import (
	"math"
	"time"
)

// rings are the last ten minutes of beats and of work: one count from 0 to 15
// in four bits for each HistoryStep.
type rings struct {
	head        uint32 // step number of the newest point
	beats, work [HistoryPoints / 2]uint8
}

func stepOf(m time.Duration) uint32 { return uint32(max(m, 0) / HistoryStep) }

// roll moves the head to the step of now and clears what it passes.
func (r *rings) roll(step uint32) {
	if step <= r.head {
		return
	}
	if step-r.head >= HistoryPoints {
		r.beats, r.work = [HistoryPoints / 2]uint8{}, [HistoryPoints / 2]uint8{}
		r.head = step
		return
	}
	for r.head < step {
		r.head++
		i, shift := nibble(r.head)
		r.beats[i] &^= 0xf << shift
		r.work[i] &^= 0xf << shift
	}
}

func nibble(step uint32) (i uint32, shift uint32) {
	p := step % HistoryPoints
	return p / 2, p % 2 * 4
}

func bump(ring *[HistoryPoints / 2]uint8, step uint32) {
	i, shift := nibble(step)
	if ring[i]>>shift&0xf < 0xf {
		ring[i] += 1 << shift
	}
}

// unroll copies a ring, oldest point first, as seen at step.
func (r *rings) unroll(step uint32) (beats, work [HistoryPoints]uint8) {
	for k := range uint32(HistoryPoints) {
		if step < k || step-k > r.head || r.head-(step-k) >= HistoryPoints {
			continue
		}
		i, shift := nibble(step - k)
		beats[HistoryPoints-1-k] = r.beats[i] >> shift & 0xf
		work[HistoryPoints-1-k] = r.work[i] >> shift & 0xf
	}
	return beats, work
}

// progressOf reads "47/200" from a task: the last pair of numbers with a slash
// between them, where the second is not smaller than the first and not 0.
func progressOf(task []byte) (done, of uint32, ok bool) {
	for i := len(task) - 2; i > 0; i-- {
		if task[i] != '/' || !digit(task[i-1]) || !digit(task[i+1]) {
			continue
		}
		lo, hi := i, i+1
		for lo > 0 && digit(task[lo-1]) {
			lo--
		}
		for hi < len(task) && digit(task[hi]) {
			hi++
		}
		if partOfPath(task, lo, hi) {
			continue
		}
		d, okD := smallNumber(task[lo:i])
		n, okN := smallNumber(task[i+1 : hi])
		if okD && okN && n > 0 && d <= n {
			return d, n, true
		}
	}
	return 0, 0, false
}

// partOfPath tells "src/10/20" and "2026/11/30" from a progress.
func partOfPath(task []byte, lo, hi int) bool {
	near := func(i int) bool {
		return i >= 0 && i < len(task) && (task[i] == '/' || task[i] == '.' || task[i] == '-' || task[i] == '_')
	}
	if near(lo - 1) {
		return true
	}
	return hi < len(task) && task[hi] == '/'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func smallNumber(text []byte) (uint32, bool) {
	if len(text) > 9 {
		return 0, false
	}
	var n uint32
	for _, c := range text {
		n = n*10 + uint32(c-'0')
	}
	return n, true
}

// rateMemory is how long past rates weigh in the present one.
const rateMemory = 5 * time.Minute

// blend mixes a new rate a minute, observed over dt, into an old one; NaN is
// no rate yet.
func blend(old float32, delta float64, dt time.Duration) float32 {
	if dt <= 0 {
		return old
	}
	rate := delta / dt.Minutes()
	if math.IsNaN(float64(old)) {
		return float32(rate)
	}
	w := 1 - math.Exp(-float64(dt)/float64(rateMemory))
	return float32(float64(old)*(1-w) + rate*w)
}

// stopped reports whether something that used to move by step, at rate a
// minute, has not moved for so long that its rate is none now: four such steps
// should have come, four beats could have told, and a minute has passed.
func stopped(rate, step float64, idle, interval time.Duration) bool {
	if math.IsNaN(rate) || rate <= 0 {
		return false
	}
	return idle > max(4*interval, time.Minute) && rate*idle.Minutes() > 4*step
}
