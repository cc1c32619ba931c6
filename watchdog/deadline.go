package watchdog

import (
	"sort"
	"time"
)

// Spell is a stretch of the receiver's monotonic time in which nothing could
// be seen. An open spell has no end yet.
type Spell struct {
	From, To time.Duration
}

// maxSpells bounds the memory of a Blindness. Older spells are forgotten: at
// one every 20 s they reach back five hours.
const maxSpells = 1024

// maxGraces is how many runs of spells move one deadline by a grace. Between two
// runs lies a whole grace of sight, in which a publisher that lives is heard of:
// without a bound, a link that breaks a little less often than its publishers
// beat would hide a dead one for ever.
const maxGraces = 3

// Blindness is the history of what we could not see, oldest spell first. The
// zero value saw everything.
type Blindness struct {
	spells []Spell
	open   bool // the last spell has no end yet

	cut   bool          // no link stands, which is not blindness yet
	cutAt time.Duration // the last proof of sight before it
}

// Cut notes that no link stands any more. It opens no spell: whether we are
// blind already is decided by the age of the last proof, from.
func (b *Blindness) Cut(from time.Duration) {
	if !b.cut {
		b.cut, b.cutAt = true, from
	}
}

// Mend notes that a link stands again, and reports whether none did before. What
// was said meanwhile nobody heard, however short it was: it is a spell.
func (b *Blindness) Mend(at time.Duration) bool {
	if !b.cut {
		return false
	}
	b.cut = false
	b.Add(b.cutAt, at)
	return true
}

// Open reports whether a spell is open now.
func (b *Blindness) Open() bool { return b.open }

// Since is the begin of the open spell.
func (b *Blindness) Since() time.Duration {
	if !b.open {
		return 0
	}
	return b.spells[len(b.spells)-1].From
}

// Begin opens a spell at from. It may reach back before the present moment,
// to the last proof of sight, but never before the end of the spell before it.
func (b *Blindness) Begin(from time.Duration) {
	if b.open {
		return
	}
	b.push(Spell{From: from, To: from})
	b.open = true
}

// End closes the open spell.
func (b *Blindness) End(at time.Duration) {
	if !b.open {
		return
	}
	last := &b.spells[len(b.spells)-1]
	last.To = max(at, last.From)
	b.open = false
}

// Add records a spell that is over already. One of no length gives a fresh
// grace and moves nothing else: the suspend of a machine, during which the
// monotonic clock stands still.
func (b *Blindness) Add(from, to time.Duration) {
	if b.open {
		return // the open spell covers it
	}
	b.push(Spell{From: from, To: max(from, to)})
}

// push adds a spell. One that reaches further back than those before it, because
// we learned of it later, takes them in.
func (b *Blindness) push(s Spell) {
	for n := len(b.spells); n > 0 && b.spells[n-1].From >= s.From; n-- {
		s.To = max(s.To, b.spells[n-1].To)
		b.spells = b.spells[:n-1]
	}
	if n := len(b.spells); n > 0 {
		s.From = max(s.From, b.spells[n-1].To)
		s.To = max(s.To, s.From)
	}
	if len(b.spells) == maxSpells {
		b.spells = append(b.spells[:0], b.spells[maxSpells/4:]...)
	}
	b.spells = append(b.spells, s)
}

// Touches reports whether a spell reaches beyond since, so that a deadline that
// counts from there has moved.
func (b *Blindness) Touches(since time.Duration) bool {
	n := len(b.spells)
	return n > 0 && (b.open || b.spells[n-1].To > since)
}

// Extension is by how much the deadline at, which counts from since, moves: the
// blind time after since, plus one grace for each run of spells. Spells that
// follow each other within one grace are one run, and there are maxGraces at
// most, so that a flapping link does not renew its grace for ever. A deadline
// that has passed stands: a spell that begins after it moves nothing. A spell
// counts once it is over: until then Clock stands still instead.
func (b *Blindness) Extension(since, at, grace time.Duration) time.Duration {
	return b.sum(since, grace, func(from, moved time.Duration) bool { return from < at+moved })
}

// Within is what Extension counts of the spells that begin between since and
// until.
func (b *Blindness) Within(since, until, grace time.Duration) time.Duration {
	return b.sum(since, grace, func(from, _ time.Duration) bool { return from < until })
}

// sum adds up spells and graces for as long as counts says so of the begin of
// the next spell and the sum so far.
func (b *Blindness) sum(since, grace time.Duration, counts func(from, total time.Duration) bool) time.Duration {
	over := b.spells
	if b.open {
		over = over[:len(over)-1]
	}
	first := sort.Search(len(over), func(i int) bool { return over[i].To > since })
	var total time.Duration
	graces := 0
	for i := first; i < len(over) && counts(over[i].From, total); i++ {
		total += over[i].To - max(over[i].From, since)
		if graces < maxGraces && (i == first || over[i].From-over[i-1].To >= grace) {
			total += grace
			graces++
		}
	}
	return total
}

// Clock is the time that deadlines are held against: now, or, while blind, the
// moment at which the blindness began.
func (b *Blindness) Clock(now time.Duration) time.Duration {
	if b.open {
		return min(now, b.Since())
	}
	return now
}

// sightMasks holds one Blindness for each set of sources: a session is blind
// while every source that carried it is.
type sightMasks [1 << sourceCount]Blindness

// silentAfter is the age of the last beat at which a session is silent: the
// interval, n times, plus 20 %.
func silentAfter(interval time.Duration, missed int) time.Duration {
	return time.Duration(float64(interval) * float64(missed) * SilentSlack)
}

// lostAfter is the age of the last beat at which a generation may be settled.
func lostAfter(p *Policy, cadence time.Duration) time.Duration {
	return max(p.LostAfter, time.Duration(p.LostAfterMissed)*cadence)
}

// missedBeats is how many intervals passed without a beat.
func missedBeats(age, interval time.Duration) int {
	if interval <= 0 {
		return 0
	}
	return int(age / interval)
}

// learned gaps: cadence is 1.5 x the largest of the last 8, once there are 8.
const (
	gapCount     = 8
	gapSlackNum  = 3
	gapSlackDen  = 2
	gapSecondBit = 1 << 15
)

// packGap keeps a gap in 16 bits, rounded up: milliseconds below 32.7 s, whole
// seconds up to 9 h beyond.
func packGap(d time.Duration) uint16 {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	if ms < gapSecondBit {
		return uint16(max(ms, 0))
	}
	s := (d + time.Second - 1) / time.Second
	return gapSecondBit | uint16(min(s, gapSecondBit-1))
}

func unpackGap(g uint16) time.Duration {
	if g&gapSecondBit != 0 {
		return time.Duration(g&^gapSecondBit) * time.Second
	}
	return time.Duration(g) * time.Millisecond
}

// learnedCadence is what eight gaps teach; 0 while there are fewer.
func learnedCadence(gaps *[gapCount]uint16, n uint8) time.Duration {
	if n < gapCount {
		return 0
	}
	var largest time.Duration
	for _, g := range gaps {
		largest = max(largest, unpackGap(g))
	}
	return largest * gapSlackNum / gapSlackDen
}
