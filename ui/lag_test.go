package ui

import (
	"testing"
	"time"
)

func TestLagOfOurOwnLoopsIsShownOnceItIsWorthIt(t *testing.T) {
	for _, c := range []struct {
		screen, engine time.Duration
		score          int
		want           string
	}{
		{0, 0, 0, ""},
		{100 * time.Millisecond, 100 * time.Millisecond, 0, ""},
		{254 * time.Millisecond, 0, 0, "lag screen 250ms"},
		{0, 1200 * time.Millisecond, 0, "lag engine 1.2s"},
		{2 * time.Second, 300 * time.Millisecond, 0, "lag screen 2s, engine 300ms"},
		{2 * time.Second, 3 * time.Second, 2, "lag screen 2s"}, // the rest is said with the score
	} {
		m := New(Options{Lag: func() time.Duration { return c.screen }})
		m.window.Self.Lag, m.window.Self.Score = c.engine, c.score
		if got := m.lagText(); got != c.want {
			t.Errorf("screen %v, engine %v, score %d: %q, want %q", c.screen, c.engine, c.score, got, c.want)
		}
	}
	if got := New(Options{}).lagText(); got != "" {
		t.Errorf("without a watchdog: %q", got)
	}
}
