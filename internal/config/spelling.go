package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

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
