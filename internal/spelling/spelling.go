// Package spelling finds what somebody may have meant who typed a word wrong.
// It is a leaf: it knows no words of its own.
package spelling

import "strings"

// longest is the longest word for which a correction is looked for.
const longest = 64

// DidYouMean is "; did you mean X?" for the nearest of the names, ready to end
// a sentence, or empty if none is near. Case and the difference between "-" and
// "_" do not count, and the begin of a name counts as nearly typed.
func DidYouMean(word string, names []string) string {
	if len(word) > longest {
		return ""
	}
	folded := fold(word)
	best, bestDistance := "", len(word)/3+2
	for _, name := range names {
		d := Distance(folded, fold(name))
		if len(folded) >= 2 && strings.HasPrefix(fold(name), folded) {
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

func fold(word string) string { return strings.ReplaceAll(strings.ToLower(word), "-", "_") }

// Distance counts the bytes to insert, delete or replace between two words.
func Distance(a, b string) int {
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
