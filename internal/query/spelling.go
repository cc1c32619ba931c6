package query

import "strings"

// nearest is "; did you mean X?" for the name most like the word, or empty if
// none is near.
func nearest(word string, names []string) string {
	if len(word) > 32 {
		return ""
	}
	word = strings.ToLower(word)
	best, bestDistance := "", len(word)/3+2
	for _, name := range names {
		d := distance(word, name)
		if len(word) >= 2 && strings.HasPrefix(name, word) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
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
