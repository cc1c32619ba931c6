package wire

import (
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// number is what the scan of a number learns on its way. For short ones that is
// the whole value: mantissa / 10^fraction.
type number struct {
	negative bool // and not zero
	short    bool // no exponent, at most 18 digits
	mantissa uint64
	fraction int
}

const shortDigits = 18

var powersOfTen = [shortDigits + 1]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
}

// number scans a number; pos is at its first byte.
func (s *scanner) number(t *token) bool {
	t.kind, t.start = kindNumber, s.pos
	src, i := s.src, s.pos
	minus := src[i] == '-'
	if minus {
		i++
	}
	mantissa, first := uint64(0), i
	for i < len(src) && src[i]-'0' <= 9 {
		mantissa = mantissa*10 + uint64(src[i]-'0') // wraps if it is not short
		i++
	}
	digits := i - first
	if digits == 0 || digits > 1 && src[first] == '0' {
		return s.fail(watchdog.RefusedJSON)
	}
	fraction := 0
	if i < len(src) && src[i] == '.' {
		point := i
		for i++; i < len(src) && src[i]-'0' <= 9; i++ {
			mantissa = mantissa*10 + uint64(src[i]-'0')
		}
		if fraction = i - point - 1; fraction == 0 {
			return s.fail(watchdog.RefusedJSON)
		}
	}
	short := digits+fraction <= shortDigits
	if i < len(src) && src[i]|0x20 == 'e' {
		short = false
		if i++; i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		power := i
		for i < len(src) && src[i]-'0' <= 9 {
			i++
		}
		if i == power {
			return s.fail(watchdog.RefusedJSON)
		}
	}
	t.end, s.pos = i, i
	nonzero := mantissa != 0
	if !short {
		nonzero = hasDigit(src[first:i])
	}
	t.number = number{negative: minus && nonzero, short: short, mantissa: mantissa, fraction: fraction}
	return true
}

// hasDigit reports whether the mantissa at the start of text is not zero.
func hasDigit(text []byte) bool {
	for _, c := range text {
		if c|0x20 == 'e' {
			break
		}
		if c >= '1' && c <= '9' {
			return true
		}
	}
	return false
}

// float is the nearest float64, never -0; ok is false if there is none.
func (n *number) float(text []byte) (f float64, ok bool) {
	if n.short && n.mantissa <= 1<<53 {
		// Both are exact, so their quotient is rounded once.
		f = float64(n.mantissa) / float64(powersOfTen[n.fraction])
		if n.negative {
			f = -f
		}
		return f, true
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	if f == 0 {
		f = 0 // drops the sign of -0
	}
	return f, err == nil
}

// scaled is the floor of the magnitude x 10^scale. exact says that nothing was
// cut off; ok is false beyond an int64.
func (n *number) scaled(text []byte, scale int) (v int64, exact, ok bool) {
	if !n.short {
		return scaledLong(text, scale)
	}
	if n.fraction > scale {
		power := powersOfTen[n.fraction-scale]
		return int64(n.mantissa / power), n.mantissa%power == 0, true
	}
	hi, lo := bits.Mul64(n.mantissa, powersOfTen[scale-n.fraction])
	return int64(lo), true, hi == 0 && lo <= math.MaxInt64
}

// scaledLong does the same on the spelling of a number of any length. It is
// exact, as a float64 is not: 0.99...9 is below 1 with any number of nines.
func scaledLong(text []byte, scale int) (v int64, exact, ok bool) {
	mantissa, point, exponent := splitNumber(text)
	// The value is 0.DDD x 10^left, of which the first left digits are whole.
	left := point + exponent + scale
	whole := uint64(0)
	exact, leading := true, true
	for _, c := range mantissa {
		if c == '.' {
			continue
		}
		if leading && c == '0' {
			left--
			continue
		}
		leading = false
		if left <= 0 {
			exact = exact && c == '0'
			continue
		}
		if left > 19 {
			return 0, false, false
		}
		whole = whole*10 + uint64(c-'0') // no overflow: 19 digits fit a uint64
		left--
	}
	for ; !leading && left > 0; left-- {
		whole *= 10
	}
	return int64(whole), exact, whole <= math.MaxInt64
}

// splitNumber gives the digits of a number with their point, how many stand
// before it, and the exponent, held within bounds that no beat can fill.
func splitNumber(text []byte) (mantissa []byte, point, exponent int) {
	if text[0] == '-' {
		text = text[1:]
	}
	mantissa, point = text, -1
	for i, c := range text {
		if c == '.' {
			point = i
		}
		if c|0x20 == 'e' {
			mantissa = text[:i]
			exponent = exponentOf(text[i+1:])
			break
		}
	}
	if point < 0 {
		point = len(mantissa)
	}
	return mantissa, point, exponent
}

func exponentOf(text []byte) int {
	negative := text[0] == '-'
	if text[0] == '-' || text[0] == '+' {
		text = text[1:]
	}
	e := 0
	for _, c := range text {
		e = min(e*10+int(c-'0'), 4*MaxBeatBytes)
	}
	if negative {
		return -e
	}
	return e
}
