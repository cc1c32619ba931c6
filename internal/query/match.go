package query

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// byRarity ranks the bytes of ids and tasks, the most frequent first; a byte
// that is not in it is rarer than all of them.
const byRarity = " -etaoinsrcldhu0123456mpgb789kfwyv:._/jxqz"

// needle is a text that is looked for without regard to case.
type needle struct {
	lower string // of the text
	ascii bool
	pivot int // place of the rarest byte, with which the search begins
}

func newNeedle(text string) needle {
	n := needle{lower: lowered(text), ascii: true}
	best := -1
	for i := range len(n.lower) {
		if n.lower[i] >= utf8.RuneSelf {
			n.ascii = false
		}
		rank := strings.IndexByte(byRarity, n.lower[i])
		if rank < 0 {
			rank = len(byRarity)
		}
		if rank > best {
			best, n.pivot = rank, i
		}
	}
	return n
}

// lowered lowers rune by rune, as the matchers do, so that both sides agree.
func lowered(text string) string { return strings.Map(unicode.ToLower, text) }

// in reports whether the text stands in b.
func (n *needle) in(b []byte) bool {
	if !n.ascii {
		return n.inRunes(b)
	}
	if len(n.lower) == 0 {
		return true
	}
	last := len(b) - len(n.lower) // the last place where it can start
	if last < 0 {
		return false
	}
	c := n.lower[n.pivot]
	window := b[n.pivot : last+n.pivot+1]
	if n.startsWhere(b, window, c) {
		return true
	}
	if c >= 'a' && c <= 'z' {
		return n.startsWhere(b, window, c-'a'+'A')
	}
	return false
}

// startsWhere looks at every place of the window that holds the pivot c.
func (n *needle) startsWhere(b, window []byte, c byte) bool {
	for from := 0; ; {
		i := bytes.IndexByte(window[from:], c)
		if i < 0 {
			return false
		}
		from += i
		if equalASCII(b[from:from+len(n.lower)], n.lower) {
			return true
		}
		from++
	}
}

// equalASCII compares with a lower text of the same length.
func equalASCII(b []byte, lower string) bool {
	for i := range len(lower) {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// inRunes is in for a text beyond ASCII.
func (n *needle) inRunes(b []byte) bool {
	for {
		if _, ok := prefixFold(b, n.lower); ok {
			return true
		}
		if len(b) == 0 {
			return false
		}
		_, size := utf8.DecodeRune(b)
		b = b[size:]
	}
}

// prefixFold cuts a lower text off the front of b.
func prefixFold(b []byte, lower string) (rest []byte, ok bool) {
	for len(lower) > 0 {
		want, n := utf8.DecodeRuneInString(lower)
		got, m := utf8.DecodeRune(b)
		if m == 0 || unicode.ToLower(got) != want {
			return nil, false
		}
		lower, b = lower[n:], b[m:]
	}
	return b, true
}

// equalFold compares without regard to case.
func equalFold(b []byte, lower string) bool {
	rest, ok := prefixFold(b, lower)
	return ok && len(rest) == 0
}

// glob matches the whole of b against a lower pattern, in which * is any text
// and ? one character. It takes no longer than len(b) x len(pattern).
func glob(b []byte, pattern string) bool {
	star, mark := "", []byte(nil) // what follows the last *, and from where it is tried
	starred := false
	for {
		if len(pattern) > 0 && pattern[0] == '*' {
			pattern = pattern[1:]
			star, mark, starred = pattern, b, true
			continue
		}
		if len(b) == 0 {
			return len(pattern) == 0
		}
		got, m := utf8.DecodeRune(b)
		want, n := utf8.DecodeRuneInString(pattern)
		if n > 0 && (want == '?' || want == unicode.ToLower(got)) {
			b, pattern = b[m:], pattern[n:]
			continue
		}
		if !starred {
			return false
		}
		_, m = utf8.DecodeRune(mark)
		mark = mark[m:]
		b, pattern = mark, star
	}
}
