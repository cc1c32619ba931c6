package query

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sessionwatch/sessionwatch/internal/spelling"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Predicate tells whether a session passes.
type Predicate func(*watchdog.Candidate) bool

// Query is a compiled filter. The zero Query lets everything pass.
type Query struct {
	text  string
	terms []term
}

// term is one condition and about how much it costs, so that the cheap ones
// are asked first.
type term struct {
	test Predicate
	cost int
}

const (
	costField = iota
	costText
	costRegexp
)

// String is the text that was compiled.
func (q Query) String() string { return q.text }

// Empty reports whether everything passes.
func (q Query) Empty() bool { return len(q.terms) == 0 }

// Match is the predicate, nil if everything passes. It may be called from
// several goroutines and keeps nothing of the candidate.
func (q Query) Match() func(*watchdog.Candidate) bool {
	switch len(q.terms) {
	case 0:
		return nil
	case 1:
		return q.terms[0].test
	}
	terms := q.terms
	return func(c *watchdog.Candidate) bool {
		for i := range terms {
			if !terms[i].test(c) {
				return false
			}
		}
		return true
	}
}

// Compile reads a query. The error is an *Error that says where it cannot be
// understood and what is allowed there.
func Compile(text string) (Query, error) {
	p := &parser{in: text}
	if len(text) > maxText {
		return Query{}, p.fail(maxText, "the query is longer than %d bytes; shorten it", maxText)
	}
	c := compiler{p, table()}
	q := Query{text: text}
	for {
		p.skipSpace()
		if p.end() {
			break
		}
		t, err := c.term()
		if err != nil {
			return Query{}, err
		}
		q.terms = append(q.terms, t)
	}
	slices.SortStableFunc(q.terms, func(a, b term) int { return a.cost - b.cost })
	return q, nil
}

type compiler struct {
	*parser
	fields []field
}

// term compiles one condition with the "!" before it.
func (c *compiler) term() (term, error) {
	start, negate := c.pos, false
	for strings.HasPrefix(c.rest(), "!") {
		c.pos++
		negate = !negate
	}
	if r, _ := utf8.DecodeRuneInString(c.rest()); c.end() || unicode.IsSpace(r) {
		return term{}, c.fail(start, "nothing stands after !; write it directly before a word or field")
	}
	t, err := c.condition()
	if err != nil || !negate {
		return t, err
	}
	test := t.test
	t.test = func(c *watchdog.Candidate) bool { return !test(c) }
	return t, nil
}

func (c *compiler) condition() (term, error) {
	start := c.pos
	if name, op, ok := c.name(c.known); ok {
		if name == "" {
			return term{}, c.fail(start, "%s needs a field before it, such as work%s5m", op, op)
		}
		return c.comparison(name, op, start)
	}
	v, err := c.parser.term(unicode.IsSpace)
	if err != nil {
		return term{}, err
	}
	if v.kind == pattern {
		re, err := c.regexp(v)
		if err != nil {
			return term{}, err
		}
		return term{func(s *watchdog.Candidate) bool { return re.match(s.ID) || re.match(s.Task) }, costRegexp}, nil
	}
	n := newNeedle(v.text)
	return term{func(s *watchdog.Candidate) bool { return n.in(s.ID) || n.in(s.Task) }, costText}, nil
}

func (c *compiler) known(name string) bool { return c.find(name) != nil }

func (c *compiler) find(name string) *field {
	name = strings.ToLower(name)
	for i := range c.fields {
		if f := &c.fields[i]; f.name == name || slices.Contains(f.aliases, name) {
			return f
		}
	}
	return nil
}

// comparison compiles a field, its operator and its values.
func (c *compiler) comparison(name, op string, start int) (term, error) {
	f := c.find(name)
	if f == nil {
		names := make([]string, len(c.fields))
		for i := range c.fields {
			names[i] = c.fields[i].name
		}
		return term{}, c.fail(start, "%q is not a field%s (fields: %s; to look for the word itself, put it into quotes)",
			name, spelling.DidYouMean(name, names), strings.Join(names, ", "))
	}
	if op == opIs && (f.age != nil || f.number != nil) { // "work:>5m" is "work>5m"
		if inner, ok := c.operator(); ok && inner != opIs {
			op = inner
			c.skipSpace()
		}
	}
	list, err := c.values(name + op)
	if err != nil {
		return term{}, err
	}
	switch {
	case f.text != nil:
		return c.textTerm(f, op, list, start)
	case f.words != nil:
		return c.wordTerm(f, op, list, start)
	}
	return c.orderedTerm(f, op, list, start)
}

// textTerm compiles a condition on a text.
func (c *compiler) textTerm(f *field, op string, list []value, start int) (term, error) {
	if op != opIs && op != opEqual && op != opNot {
		return term{}, c.fail(start, "%s is a text and cannot be compared with %s; use %s:%s, %s:~part, = or !=", f.name, op, f.name, "text*", f.name)
	}
	cost := costText
	tests := make([]func([]byte) bool, len(list))
	for i, v := range list {
		test, err := c.textTest(op, v)
		if err != nil {
			return term{}, err
		}
		if v.kind == pattern {
			cost = costRegexp
		}
		tests[i] = test
	}
	get := f.text
	return term{func(s *watchdog.Candidate) bool {
		b := get(s)
		for _, test := range tests {
			if test(b) {
				return op != opNot
			}
		}
		return op == opNot && len(b) > 0 // what is unknown matches no comparison
	}, cost}, nil
}

func (c *compiler) textTest(op string, v value) (func([]byte) bool, error) {
	lower := lowered(v.text)
	switch {
	case v.text == "":
		return func(b []byte) bool { return len(b) == 0 }, nil
	case v.kind == pattern:
		re, err := c.regexp(v)
		if err != nil {
			return nil, err
		}
		return func(b []byte) bool { return len(b) > 0 && re.match(b) }, nil
	case v.kind == contains:
		n := newNeedle(v.text)
		return func(b []byte) bool { return len(b) > 0 && n.in(b) }, nil
	case v.kind == bare && op == opIs:
		if known, special := unknownWord(lower); special {
			return func(b []byte) bool { return (len(b) > 0) == known }, nil
		}
		if strings.ContainsAny(lower, "*?") {
			return func(b []byte) bool { return len(b) > 0 && glob(b, lower) }, nil
		}
	}
	return func(b []byte) bool { return len(b) > 0 && equalFold(b, lower) }, nil
}

// unknownWord reads the words that ask whether a value is known at all.
func unknownWord(lower string) (known, special bool) {
	switch lower {
	case "unknown", "none":
		return false, true
	case "known", "any":
		return true, true
	}
	return false, false
}

// wordTerm compiles a condition on a field with a closed set of values.
func (c *compiler) wordTerm(f *field, op string, list []value, start int) (term, error) {
	if op != opIs && op != opEqual && op != opNot {
		return term{}, c.fail(start, "%s cannot be compared with %s; use %s:%s", f.name, op, f.name, f.words[0].name)
	}
	var tests []Predicate
	var set uint64
	for _, v := range list {
		w := f.word(strings.ToLower(v.text))
		if w == nil || v.kind == contains || v.kind == pattern {
			names := make([]string, len(f.words))
			for i := range f.words {
				names[i] = f.words[i].name
			}
			return term{}, c.fail(v.pos, "%q is not a value of %s%s (values: %s)", v.text, f.name, spelling.DidYouMean(v.text, names), strings.Join(names, ", "))
		}
		tests, set = append(tests, w.test), set|w.bit
	}
	test := func(s *watchdog.Candidate) bool {
		for _, test := range tests {
			if test(s) {
				return true
			}
		}
		return false
	}
	if get := f.set; get != nil && op != opIs {
		test = func(s *watchdog.Candidate) bool { return get(s) == set }
	}
	if op == opNot {
		return term{func(s *watchdog.Candidate) bool { return !test(s) }, costField}, nil
	}
	return term{test, costField}, nil
}

// word finds a value by its name, or by an unambiguous first letter of a set's.
func (f *field) word(name string) *word {
	for i := range f.words {
		if w := &f.words[i]; w.name == name || w.bit != 0 && len(name) == 1 && w.name[0] == name[0] {
			return w
		}
	}
	return nil
}

// orderedTerm compiles a condition on an age or a number.
func (c *compiler) orderedTerm(f *field, op string, list []value, start int) (term, error) {
	get, read, kind := f.number, readNumber, "a number such as 2.5"
	if f.age != nil {
		age := f.age
		get = func(s *watchdog.Candidate) float64 {
			if d := age(s); d >= 0 {
				return d.Seconds()
			}
			return math.NaN()
		}
		read, kind = readAge, "a duration such as 90s, 5m, 2h or 3d"
	}
	if len(list) > 1 && op != opIs && op != opEqual {
		return term{}, c.fail(list[1].pos, "%s%s takes one value; give %s", f.name, op, kind)
	}
	var tests []Predicate
	for _, v := range list {
		if known, special := unknownWord(strings.ToLower(v.text)); special && v.kind == bare && (op == opIs || op == opEqual) {
			tests = append(tests, func(s *watchdog.Candidate) bool { return !math.IsNaN(get(s)) == known })
			continue
		}
		want, ok := read(v.text)
		if !ok || v.kind == contains || v.kind == pattern {
			return term{}, c.fail(v.pos, "%q is not %s; write it as in %s, or %s:unknown", v.text, kind, f.example, f.name)
		}
		if f.age != nil && (op == opIs || op == opEqual || op == opNot) {
			return term{}, c.fail(start, "%s is an age and never exactly a value; compare it with <, <=, > or >=, or write %s:unknown", f.name, f.name)
		}
		tests = append(tests, compare(get, op, want))
	}
	if len(tests) == 1 {
		return term{tests[0], costField}, nil
	}
	return term{func(s *watchdog.Candidate) bool {
		for _, test := range tests {
			if test(s) {
				return true
			}
		}
		return false
	}, costField}, nil
}

// compare is false for NaN, whatever the operator.
func compare(get func(*watchdog.Candidate) float64, op string, want float64) Predicate {
	switch op {
	case opLess:
		return func(s *watchdog.Candidate) bool { return get(s) < want }
	case opAtMost:
		return func(s *watchdog.Candidate) bool { return get(s) <= want }
	case opMore:
		return func(s *watchdog.Candidate) bool { return get(s) > want }
	case opAtLeast:
		return func(s *watchdog.Candidate) bool { return get(s) >= want }
	case opNot:
		return func(s *watchdog.Candidate) bool { v := get(s); return v < want || v > want }
	}
	return func(s *watchdog.Candidate) bool { return get(s) == want }
}

func readNumber(text string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimPrefix(text, "#"), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// readAge reads seconds, or numbers with units from ms to d: "1h30m", "3d".
func readAge(text string) (seconds float64, ok bool) {
	if n, plain := readNumber(text); plain {
		return n, n >= 0
	}
	rest, total := strings.ToLower(text), 0.0
	for rest != "" {
		digits := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if digits <= 0 {
			return 0, false
		}
		n, good := readNumber(rest[:digits])
		if !good {
			return 0, false
		}
		rest = rest[digits:]
		unit := strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' || r == '.' })
		if unit < 0 {
			unit = len(rest)
		}
		size, known := unitSize(rest[:unit])
		if !known {
			return 0, false
		}
		total, rest = total+n*size.Seconds(), rest[unit:]
	}
	return total, text != ""
}

func unitSize(name string) (time.Duration, bool) {
	switch name {
	case "ms":
		return time.Millisecond, true
	case "s":
		return time.Second, true
	case "m":
		return time.Minute, true
	case "h":
		return time.Hour, true
	case "d":
		return 24 * time.Hour, true
	}
	return 0, false
}
