package wire

import "time"

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime spells a moment of the wall clock as all "at" fields do.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads an "at" field. Any spelling of RFC 3339 is taken.
func ParseTime(text string) (time.Time, error) { return time.Parse(time.RFC3339Nano, text) }
