package spelling

import (
	"strings"
	"testing"
)

func TestDidYouMean(t *testing.T) {
	names := []string{"stall_timeout", "heartbeat_interval", "verdict", "work"}
	for word, want := range map[string]string{
		"stall_timout":            "; did you mean stall_timeout?",
		"stall-timeout":           "; did you mean stall_timeout?",
		"VERDCIT":                 "; did you mean verdict?",
		"he":                      "; did you mean heartbeat_interval?",
		"wrk":                     "; did you mean work?",
		"zzzzzzzz":                "",
		"":                        "",
		strings.Repeat("w", 1000): "",
	} {
		if got := DidYouMean(word, names); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
