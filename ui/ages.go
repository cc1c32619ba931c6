package ui

import (
	"math"
	"strconv"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// ageStep is the step in which a healthy age moves, so that an unchanged fleet
// repaints next to nothing.
const ageStep = 5 * time.Second

// coarse rounds an age up to the step: "at most this old".
func coarse(d time.Duration) time.Duration {
	if d < 0 {
		return d
	}
	return max((d+ageStep-1)/ageStep*ageStep, ageStep)
}

// appendAge writes an age in at most four cells: 59s 4m58 14m 6h02 3d04.
// Unknown is "-".
func appendAge(b []byte, d time.Duration) []byte {
	switch {
	case d < 0:
		return append(b, '-')
	case d < time.Minute:
		return append(strconv.AppendInt(b, int64(d/time.Second), 10), 's')
	case d < 10*time.Minute:
		return appendPair(b, d, time.Minute, 'm', time.Second)
	case d < time.Hour:
		return append(strconv.AppendInt(b, int64(d/time.Minute), 10), 'm')
	case d < 10*time.Hour:
		return appendPair(b, d, time.Hour, 'h', time.Minute)
	case d < 24*time.Hour:
		return append(strconv.AppendInt(b, int64(d/time.Hour), 10), 'h')
	case d < 10*24*time.Hour:
		return appendPair(b, d, 24*time.Hour, 'd', time.Hour)
	default:
		return append(strconv.AppendInt(b, int64(min(d/(24*time.Hour), 999)), 10), 'd')
	}
}

func appendPair(b []byte, d, unit time.Duration, letter byte, rest time.Duration) []byte {
	b = append(strconv.AppendInt(b, int64(d/unit), 10), letter)
	n := int64(d % unit / rest)
	return append(b, byte('0'+n/10), byte('0'+n%10))
}

// appendMarked writes an age behind "~" (an estimate) or ">" (a lower bound);
// the mark takes a cell, so the smaller unit goes.
func appendMarked(b []byte, mark byte, d time.Duration) []byte {
	b = append(b, mark)
	switch {
	case d < time.Minute:
		return append(strconv.AppendInt(b, int64(max(d, 0)/time.Second), 10), 's')
	case d < time.Hour:
		return append(strconv.AppendInt(b, int64(d/time.Minute), 10), 'm')
	case d < 24*time.Hour:
		return append(strconv.AppendInt(b, int64(d/time.Hour), 10), 'h')
	default:
		return append(strconv.AppendInt(b, int64(min(d/(24*time.Hour), 99)), 10), 'd')
	}
}

func age(d time.Duration) string { return string(appendAge(nil, d)) }

// healthy says whether the ages of a row move in steps.
func healthy(r *watchdog.Row) bool {
	return r.Attention == watchdog.AttentionNone && !r.Verdict.Ended()
}

func appendBeatAge(b []byte, r *watchdog.Row) []byte {
	d := r.BeatAge
	if d >= 0 && healthy(r) {
		d = coarse(d)
	}
	switch {
	case d < 0 || r.BeatKind == watchdog.AgeUnknown:
		return append(b, '-')
	case r.BeatKind == watchdog.AgeEstimated:
		return appendMarked(b, '~', d)
	}
	return appendAge(b, d)
}

func appendWorkAge(b []byte, r *watchdog.Row) []byte {
	d := r.WorkAge
	if d >= 0 && healthy(r) {
		d = coarse(d)
	}
	switch {
	case d < 0:
		return append(b, '-')
	case r.WorkBound:
		return appendMarked(b, '>', d)
	case !r.WorkKnown:
		return appendMarked(b, '~', d)
	}
	return appendAge(b, d)
}

// appendCredits writes a balance in at most six cells: 8.43, 912, 12.4k, -.
func appendCredits(b []byte, c float64) []byte {
	if math.IsNaN(c) {
		return append(b, '-')
	}
	if c < 0 {
		b = append(b, '-')
		c = -c
	}
	switch {
	case c < 99.995:
		return strconv.AppendFloat(b, c, 'f', 2, 64)
	case c < 999.5:
		return strconv.AppendFloat(b, c, 'f', 0, 64)
	}
	for _, unit := range "kMGTP" {
		c /= 1000
		if c < 99.95 {
			return append(strconv.AppendFloat(b, c, 'f', 1, 64), byte(unit))
		}
		if c < 999.5 {
			return append(strconv.AppendFloat(b, c, 'f', 0, 64), byte(unit))
		}
	}
	return append(b, ">999P"...)
}

// count writes what is counted: 2,002.
func count[T int | int64 | uint64](n T) string { return watchdog.FormatCount(n) }

// wall writes a wall-clock time in UTC, with the date once it is older than a
// day; seen from now. Both are Unix nanoseconds.
func wall(at, now int64) string {
	t := time.Unix(0, at).UTC()
	if d := now - at; d > int64(24*time.Hour) || d < -int64(24*time.Hour) {
		return t.Format("2006-01-02 15:04Z")
	}
	return t.Format("15:04:05Z")
}

// wallAt is the wall-clock time, as wall writes it, of a moment of the feed's
// own clock. It is reckoned from the feed's start: the two clocks are never read
// at quite the same moment, so reckoned from now the same moment would be one
// second now and another then. A wall clock that was set since is followed.
func (m *Model) wallAt(mono time.Duration) string {
	w := &m.window
	set := time.Duration(w.Now.Wall-w.Started.Wall) - (w.Now.Mono - w.Started.Mono)
	if set.Abs() < time.Second {
		set = 0
	}
	return wall(w.Started.Wall+int64(set+mono-w.Started.Mono), w.Now.Wall)
}

// clock writes the time of the header without a date.
func clock(at int64) string { return time.Unix(0, at).UTC().Format("15:04:05Z") }
