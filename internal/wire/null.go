package wire

import (
	"strconv"
	"time"
)

// The types below print null for what is unknown.

// text is unknown when it is empty.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return AppendString(nil, t), nil
}

// secs is printed in seconds, to the millisecond; negative is unknown.
type secs time.Duration

func (s secs) MarshalJSON() ([]byte, error) {
	if s < 0 {
		return []byte("null"), nil
	}
	return decimal(float64(time.Duration(s).Round(time.Millisecond)) / 1e9), nil
}

// millis is printed in milliseconds, to the microsecond; negative is unknown.
type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) {
	if m < 0 {
		return []byte("null"), nil
	}
	return decimal(float64(time.Duration(m).Round(time.Microsecond)) / 1e6), nil
}

// amount is unknown when it is no number.
type amount float64

func (a amount) MarshalJSON() ([]byte, error) { return appendFloat(nil, float64(a)), nil }

// ordinal counts from 1; 0 and less are unknown.
type ordinal int64

func (n ordinal) MarshalJSON() ([]byte, error) {
	if n < 1 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// index counts from 0; less is unknown.
type index int64

func (n index) MarshalJSON() ([]byte, error) {
	if n < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

func decimal(f float64) []byte { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

// span is printed in seconds, exact to the nanosecond; 0 and less are unknown.
type span time.Duration

func (s span) MarshalJSON() ([]byte, error) {
	if s <= 0 {
		return []byte("null"), nil
	}
	e := encoder{}
	e.decimal(time.Duration(s), seconds)
	return e.dst, nil
}
