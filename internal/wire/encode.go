package wire

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// AppendBeat appends the JSON of b with all fields; what is unknown is null.
// Text is cleaned, so that whatever an agent says of itself stays within
// MaxBeatBytes and is what a reader will see. A beat with a valid id decodes to
// itself.
func AppendBeat(dst []byte, b *watchdog.Beat) []byte {
	e := encoder{dst: dst}
	e.five(b)
	e.whole(fieldGeneration, int64(b.Generation), b.Generation > 0)
	e.text(fieldBootID, b.BootID)
	e.whole(fieldSeq, b.Seq, b.Seq >= 0)
	e.duration(fieldIdle, b.Idle, seconds, b.Idle >= 0)
	e.duration(fieldInterval, b.Interval, seconds, b.Interval > 0)
	e.duration(fieldStallTimeout, b.StallTimeout, seconds, b.StallTimeout > 0)
	e.name(fieldWaitingFor)
	if word := b.WaitingFor.String(); word != "" {
		e.dst = AppendString(e.dst, word)
	} else {
		e.null()
	}
	e.duration(fieldWaitingMax, b.WaitingMax, seconds, b.WaitingMax > 0)
	e.duration(fieldLoopLag, b.LoopLag, milliseconds, b.LoopLag >= 0)
	e.text(fieldAgent, b.Agent)
	e.text(fieldHost, b.Host)
	e.whole(fieldPID, b.PID, b.PID > 0)
	e.text(fieldMessage, b.Message)
	e.ops(b.Takes, b.TakesSaid)
	return append(e.dst, '}')
}

// AppendPlainBeat appends the JSON of b with exactly the five fields that every
// producer sends.
func AppendPlainBeat(dst []byte, b *watchdog.Beat) []byte {
	e := encoder{dst: dst}
	e.five(b)
	return append(e.dst, '}')
}

// encoder appends fields in the order of the table.
type encoder struct{ dst []byte }

func (e *encoder) five(b *watchdog.Beat) {
	e.name(fieldID)
	e.dst = AppendString(e.dst, b.ID)
	e.name(fieldState)
	if b.StateText != nil {
		e.dst = AppendString(e.dst, termtext.Clean(b.StateText))
	} else {
		e.dst = AppendString(e.dst, b.State.String())
	}
	e.whole(fieldUptime, b.Uptime, b.Uptime >= 0)
	e.name(fieldCredits)
	e.dst = appendFloat(e.dst, b.Credits)
	e.text(fieldTask, b.Task)
}

func (e *encoder) name(f field) {
	open := byte(',')
	if f == fieldID {
		open = '{'
	}
	e.dst = append(e.dst, open, '"')
	e.dst = append(e.dst, fieldNames[f]...)
	e.dst = append(e.dst, '"', ':')
}

func (e *encoder) null() { e.dst = append(e.dst, "null"...) }

func (e *encoder) text(f field, text []byte) {
	e.name(f)
	if text == nil {
		e.null()
		return
	}
	e.dst = AppendString(e.dst, termtext.Clean(text))
}

// ops appends the commands that a publisher takes.
func (e *encoder) ops(takes watchdog.OpSet, known bool) {
	e.name(fieldCommands)
	if !known {
		e.null()
		return
	}
	e.dst = append(e.dst, '[')
	for i, op := range takes.Ops() {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		e.dst = AppendString(e.dst, string(op))
	}
	e.dst = append(e.dst, ']')
}

func (e *encoder) whole(f field, v int64, known bool) {
	e.name(f)
	if !known {
		e.null()
		return
	}
	e.dst = strconv.AppendInt(e.dst, v, 10)
}

// duration appends d as a decimal of the unit that is 10^unit nanoseconds,
// exact to the nanosecond.
func (e *encoder) duration(f field, d time.Duration, unit int, known bool) {
	e.name(f)
	if !known {
		e.null()
		return
	}
	e.decimal(d, unit)
}

func (e *encoder) decimal(d time.Duration, unit int) {
	power := int64(powersOfTen[unit])
	e.dst = strconv.AppendInt(e.dst, int64(d)/power, 10)
	rest := int64(d) % power
	if rest == 0 {
		return
	}
	e.dst = append(e.dst, '.')
	for ; rest > 0; rest = rest * 10 % power {
		e.dst = append(e.dst, '0'+byte(rest*10/power))
	}
}

// appendFloat appends the shortest spelling of f, or null if JSON has none.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}
