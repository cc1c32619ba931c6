package demo

import "time"

// dice gives numbers that depend on nothing but what they are thrown for, so
// that any moment of a script can be asked for in any order.
type dice uint64

// with is the dice for a part of what d stands for.
func (d dice) with(n uint64) dice {
	// SplitMix64: every bit of the input moves half of the output's.
	x := uint64(d) + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return dice(x ^ x>>31)
}

// name is the dice for a part that has a name.
func (d dice) name(s string) dice {
	for i := range len(s) {
		d = d.with(uint64(s[i]))
	}
	return d
}

// unit is in [0, 1).
func (d dice) unit() float64 { return float64(d.with(0)>>11) / (1 << 53) }

// between is in [from, to).
func (d dice) between(from, to float64) float64 { return from + d.unit()*(to-from) }

// span is in [from, to).
func (d dice) span(from, to time.Duration) time.Duration {
	return time.Duration(d.between(float64(from), float64(to)))
}

// below is in [0, n).
func (d dice) below(n int) int { return int(uint64(d.with(0)) % uint64(n)) }

// pick takes one of several.
func pick[T any](d dice, from []T) T { return from[d.below(len(from))] }
