package query

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/spelling"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// SortKey is an order of the sessions. What is unknown comes last.
type SortKey struct {
	Name string
	Doc  string
	// Key goes into watchdog.Ask.Sort; nil is the order of attention. It never
	// gives NaN, which would have no place in an order.
	Key func(*watchdog.Candidate) watchdog.Key
}

// SortKeys lists the orders, the default first.
func SortKeys() []SortKey {
	return []SortKey{
		{"attention", "what needs a person first, the rest by id", nil},
		{"verdict", "by verdict, the worst first", func(c *watchdog.Candidate) watchdog.Key {
			return watchdog.Key{Num: float64(c.Attention)*float64(watchdog.VerdictCount) + float64(c.Verdict)}
		}},
		{"for", "the longest in its verdict first", oldest(func(c *watchdog.Candidate) time.Duration { return c.For })},
		{"id", "by id", func(*watchdog.Candidate) watchdog.Key { return watchdog.Key{} }},
		{"gen", "the most often restarted first", number(func(c *watchdog.Candidate) float64 { return -generation(c) })},
		{"up", "the longest running first", oldest(func(c *watchdog.Candidate) time.Duration { return c.Uptime })},
		{"beat", "the oldest beat first", oldest(func(c *watchdog.Candidate) time.Duration { return c.BeatAge })},
		{"work", "the oldest work first", oldest(func(c *watchdog.Candidate) time.Duration { return c.WorkAge })},
		{"credits", "the fewest credits first", number(func(c *watchdog.Candidate) float64 { return c.Credits })},
		{"host", "by host", byText(func(c *watchdog.Candidate) []byte { return c.Host })},
		{"agent", "by agent", byText(func(c *watchdog.Candidate) []byte { return c.Agent })},
		{"state", "by state", byText(func(c *watchdog.Candidate) []byte { return c.State })},
		{"task", "by task", byText(func(c *watchdog.Candidate) []byte { return c.Task })},
	}
}

// SortBy finds an order by its name; an empty one is the default.
func SortBy(name string) (SortKey, error) {
	keys := SortKeys()
	names := make([]string, len(keys))
	for i, k := range keys {
		if k.Name == strings.ToLower(name) || name == "" {
			return k, nil
		}
		names[i] = k.Name
	}
	return SortKey{}, fmt.Errorf("%q is not an order%s (orders: %s)", name, spelling.DidYouMean(name, names), strings.Join(names, ", "))
}

func oldest(age func(*watchdog.Candidate) time.Duration) func(*watchdog.Candidate) watchdog.Key {
	return number(func(c *watchdog.Candidate) float64 {
		if d := age(c); d >= 0 {
			return -d.Seconds()
		}
		return math.NaN()
	})
}

func number(get func(*watchdog.Candidate) float64) func(*watchdog.Candidate) watchdog.Key {
	return func(c *watchdog.Candidate) watchdog.Key {
		n := get(c)
		if math.IsNaN(n) {
			n = math.Inf(1)
		}
		return watchdog.Key{Num: n}
	}
}

// byText copies the text, which is the store's. Case does not matter.
func byText(get func(*watchdog.Candidate) []byte) func(*watchdog.Candidate) watchdog.Key {
	return func(c *watchdog.Candidate) watchdog.Key {
		b := get(c)
		if len(b) == 0 {
			return watchdog.Key{Num: 1}
		}
		return watchdog.Key{Text: strings.ToLower(string(b))}
	}
}
