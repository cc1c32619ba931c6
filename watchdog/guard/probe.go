package guard

import "time"

// maxPending bounds the probes that are remembered while none comes back.
const maxPending = 64

// probe is one acknowledgement that was posted.
type probe struct {
	number uint64
	at     time.Time
}

// strikes counts successive probes that did not come back. It is pure: the time
// is told to it.
type strikes struct {
	limit   int
	missed  int
	wedged  bool
	number  uint64  // of the last probe
	pending []probe // that are unanswered, the oldest first
	heard   time.Time
}

// post notes a probe and gives its number.
func (s *strikes) post(now time.Time) uint64 {
	s.number++
	p := probe{number: s.number, at: now}
	if len(s.pending) == maxPending {
		s.pending[maxPending-1] = p // the oldest gives the lag and must stay
	} else {
		s.pending = append(s.pending, p)
	}
	return s.number
}

// answer notes that a probe came back: all before it are answered with it. It
// reports whether that ends a wedge.
func (s *strikes) answer(number uint64, now time.Time) (recovered bool) {
	n := 0
	for n < len(s.pending) && s.pending[n].number <= number {
		n++
	}
	if n == 0 {
		return false // another answer was first
	}
	s.pending = append(s.pending[:0], s.pending[n:]...)
	s.missed, s.heard = 0, now
	recovered, s.wedged = s.wedged, false
	return recovered
}

// judge is asked one interval after the last probe. It reports whether the loop
// is wedged since now.
func (s *strikes) judge() (wedged bool) {
	if len(s.pending) == 0 || !s.heard.Before(s.pending[len(s.pending)-1].at) {
		s.missed = 0
		return false
	}
	s.missed++
	if s.missed < s.limit || s.wedged {
		return false
	}
	s.wedged = true
	return true
}

// forget begins anew: there is no loop to probe, or we were not there to see it.
// It reports whether that ends a wedge.
func (s *strikes) forget() (recovered bool) {
	recovered = s.wedged
	s.missed, s.wedged, s.pending = 0, false, s.pending[:0]
	return recovered
}

// excuse leaves a time in which we did not run out of account: what was posted
// counts as posted now.
func (s *strikes) excuse(now time.Time) {
	s.missed = 0
	for i := range s.pending {
		s.pending[i].at = now
	}
}

// lag is the age of the oldest unanswered probe.
func (s *strikes) lag(now time.Time) time.Duration {
	if len(s.pending) == 0 {
		return 0
	}
	return max(0, now.Sub(s.pending[0].at))
}
