package query

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// expression is a regular expression and a text without which it cannot match:
// looking for that first spares most sessions the slow automaton.
type expression struct {
	re   *regexp.Regexp
	must needle
}

func newExpression(text string) (*expression, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return &expression{re, newNeedle(required(tree))}, nil
}

func (e *expression) match(b []byte) bool { return e.must.in(b) && e.re.Match(b) }

// required is a text, in ASCII and in any case, that stands in everything that
// matches; empty if none is found.
func required(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return longestPlain(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if r := required(sub); len(r) > len(best) {
				best = r
			}
		}
		return best
	}
	return ""
}

// longestPlain is the longest run of ASCII. With fold, k and s end a run: signs
// beyond ASCII (U+212A, U+017F) fold into them.
func longestPlain(runes []rune, fold bool) string {
	best, run := "", ""
	for _, r := range runes {
		if r >= utf8.RuneSelf || fold && strings.ContainsRune("kKsS", r) {
			run = ""
			continue
		}
		if run += string(r); len(run) > len(best) {
			best = run
		}
	}
	return best
}

// regexp compiles a regular expression of the query.
func (c *compiler) regexp(v value) (*expression, error) {
	e, err := newExpression(v.text)
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return nil, c.fail(v.pos, "the regular expression cannot be read: %s (the syntax is RE2's)", reason)
	}
	return e, nil
}
