package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// didYouMean is "; did you mean X?" for the nearest of the names, or empty if
// none is near.
func didYouMean(word string, names []string) string {
	if len(word) > 64 {
		return ""
	}
	folded := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	best, bestDistance := "", len(word)/3+2
	for _, name := range names {
		d := distance(folded, strings.ToLower(name))
		if strings.HasPrefix(name, folded) && len(folded) >= 3 {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance counts the insertions, deletions and replacements between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// quoted shows a value in a fault: never a control character, never endless.
func quoted(text string) string {
	const limit = 60
	if utf8.RuneCountInString(text) > limit {
		text = string([]rune(text)[:limit]) + "..."
	}
	return strconv.Quote(text)
}

// listed is "a, b, c".
func listed[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
