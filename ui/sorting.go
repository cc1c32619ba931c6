package ui

import (
	"math"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// sortChoice is one order of the sort menu; key nil is the window's own.
type sortChoice struct {
	name, help string
	key        func(*watchdog.Candidate) watchdog.Key
}

// sortChoices is the one table of them. What is not known comes last.
func sortChoices() []sortChoice {
	oldest := func(d time.Duration) watchdog.Key {
		if d < 0 {
			return watchdog.Key{Num: math.Inf(1)}
		}
		return watchdog.Key{Num: -d.Seconds()}
	}
	return []sortChoice{
		{"attention", "what needs attention first, the rest by id: rows stand still", nil},
		{"id", "by session id", func(c *watchdog.Candidate) watchdog.Key { return watchdog.Key{} }},
		{"verdict", "by verdict, the urgent first", func(c *watchdog.Candidate) watchdog.Key {
			return watchdog.Key{Num: float64(c.Attention)*100 + float64(c.Verdict)}
		}},
		{"for", "the oldest verdict first", func(c *watchdog.Candidate) watchdog.Key { return oldest(c.For) }},
		{"beat", "the oldest beat first", func(c *watchdog.Candidate) watchdog.Key { return oldest(c.BeatAge) }},
		{"work", "the longest without work first", func(c *watchdog.Candidate) watchdog.Key { return oldest(c.WorkAge) }},
		{"up", "the longest running first", func(c *watchdog.Candidate) watchdog.Key { return oldest(c.Uptime) }},
		{"credits", "the least credits first", func(c *watchdog.Candidate) watchdog.Key {
			if math.IsNaN(c.Credits) {
				return watchdog.Key{Num: math.Inf(1)}
			}
			return watchdog.Key{Num: c.Credits}
		}},
		{"host", "by host", func(c *watchdog.Candidate) watchdog.Key { return watchdog.Key{Text: string(c.Host)} }},
		{"agent", "by agent", func(c *watchdog.Candidate) watchdog.Key { return watchdog.Key{Text: string(c.Agent)} }},
		{"task", "by task", func(c *watchdog.Candidate) watchdog.Key { return watchdog.Key{Text: string(c.Task)} }},
	}
}
