package query

import (
	"math"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Field describes a field for help and completion.
type Field struct {
	Name    string
	Aliases []string
	Doc     string
	Example string
	Values  []string // the words that it takes; nil: free text or a number
}

// field is one row of the table. One of text, age, number and words says of
// which kind it is.
type field struct {
	name    string
	aliases []string
	doc     string
	example string

	text   func(*watchdog.Candidate) []byte        // empty is unknown
	age    func(*watchdog.Candidate) time.Duration // negative is unknown
	number func(*watchdog.Candidate) float64       // NaN is unknown
	words  []word
	// set is what "=" compares as a whole, for a field that holds several words.
	set func(*watchdog.Candidate) uint64
}

// word is one value of a field with a closed set of values.
type word struct {
	name string
	test func(*watchdog.Candidate) bool
	bit  uint64 // of field.set
}

// table is every field, in the order of the help.
func table() []field {
	return []field{
		{name: "verdict", doc: "what we say about it; live and ended stand for several", example: "verdict:stalled,wedged", words: verdictWords()},
		{name: "attention", doc: "whether it needs a person: yes, no, counted, or the rank", example: "attention:yes", words: attentionWords()},
		{name: "id", aliases: []string{"session"}, doc: "the session id", example: "id:batch-*",
			text: func(c *watchdog.Candidate) []byte { return c.ID }},
		{name: "task", doc: "the current task", example: "task:~chunk",
			text: func(c *watchdog.Candidate) []byte { return c.Task }},
		{name: "state", doc: "the state as published", example: "state:tool*",
			text: func(c *watchdog.Candidate) []byte { return c.State }},
		{name: "host", doc: "the host that it says it runs on", example: "host:eu2-*",
			text: func(c *watchdog.Candidate) []byte { return c.Host }},
		{name: "agent", doc: "the agent id", example: "agent:worker-7",
			text: func(c *watchdog.Candidate) []byte { return c.Agent }},
		{name: "for", doc: "how long it has had its verdict", example: "for>10m",
			age: func(c *watchdog.Candidate) time.Duration { return c.For }},
		{name: "beat", doc: "age of the last beat", example: "beat>1m",
			age: func(c *watchdog.Candidate) time.Duration { return c.BeatAge }},
		{name: "work", doc: "age of the last work, or of the last visible change where work cannot be seen", example: "work>5m",
			age: func(c *watchdog.Candidate) time.Duration { return c.WorkAge }},
		{name: "up", aliases: []string{"uptime"}, doc: "how long this execution has run", example: "up<1h",
			age: func(c *watchdog.Candidate) time.Duration { return c.Uptime }},
		{name: "credits", aliases: []string{"credit"}, doc: "the credits that remain", example: "credits<2",
			number: func(c *watchdog.Candidate) float64 { return c.Credits }},
		{name: "gen", aliases: []string{"generation"}, doc: "the number of the execution", example: "gen>1", number: generation},
		{name: "waiting", aliases: []string{"wait"}, doc: "what it declares to wait for", example: "waiting:human", words: waitWords()},
		{name: "src", aliases: []string{"source"}, doc: "sources that carry it; = means these and no others", example: "src=nats",
			words: sourceWords(), set: func(c *watchdog.Candidate) uint64 { return uint64(c.Sources) }},
	}
}

// Fields lists the fields in the order of the help.
func Fields() []Field {
	rows := table()
	out := make([]Field, len(rows))
	for i, f := range rows {
		out[i] = Field{Name: f.name, Aliases: f.aliases, Doc: f.doc, Example: f.example}
		for _, w := range f.words {
			out[i].Values = append(out[i].Values, w.name)
		}
	}
	return out
}

func generation(c *watchdog.Candidate) float64 {
	if c.Generation == 0 {
		return math.NaN()
	}
	return float64(c.Generation)
}

func verdictWords() []word {
	var out []word
	for v := range watchdog.VerdictCount {
		out = append(out, word{name: v.String(), test: func(c *watchdog.Candidate) bool { return c.Verdict == v }})
	}
	return append(out,
		word{name: "live", test: func(c *watchdog.Candidate) bool { return !c.Verdict.Ended() }},
		word{name: "ended", test: func(c *watchdog.Candidate) bool { return c.Verdict.Ended() }})
}

func attentionWords() []word {
	rank := func(name string, a watchdog.Attention) word {
		return word{name: name, test: func(c *watchdog.Candidate) bool { return c.Attention == a }}
	}
	return []word{
		{name: "yes", test: func(c *watchdog.Candidate) bool { return c.Attention < watchdog.AttentionNone }},
		{name: "no", test: func(c *watchdog.Candidate) bool { return c.Attention >= watchdog.AttentionNone }},
		{name: "counted", test: func(c *watchdog.Candidate) bool { return c.Attention.Counted() }},
		rank("act", watchdog.AttentionAct), rank("bad-end", watchdog.AttentionBadEnd),
		rank("suspect", watchdog.AttentionSuspect), rank("wait", watchdog.AttentionWait),
		rank("quiet", watchdog.AttentionQuiet), rank("unknown", watchdog.AttentionUnknown),
		rank("none", watchdog.AttentionNone),
	}
}

func waitWords() []word {
	out := []word{
		{name: "none", test: func(c *watchdog.Candidate) bool { return c.Waiting == watchdog.WaitNone }},
		{name: "any", test: func(c *watchdog.Candidate) bool { return c.Waiting != watchdog.WaitNone }},
	}
	for w := watchdog.WaitHuman; w <= watchdog.WaitOther; w++ {
		out = append(out, word{name: w.String(), test: func(c *watchdog.Candidate) bool { return c.Waiting == w }})
	}
	return out
}

func sourceWords() []word {
	var out []word
	for _, s := range watchdog.AllSources() {
		out = append(out, word{
			name: s.String(), bit: uint64(s.Set()),
			test: func(c *watchdog.Candidate) bool { return c.Sources.Has(s) },
		})
	}
	return append(out, word{name: "none", test: func(c *watchdog.Candidate) bool { return c.Sources == 0 }})
}
