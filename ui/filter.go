package ui

import (
	"bytes"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func compileFilter(text string) (func(*watchdog.Candidate) bool, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, nil
	}
	return func(c *watchdog.Candidate) bool {
		for _, w := range words {
			if !bytes.Contains(c.ID, []byte(w)) && !bytes.Contains(c.Task, []byte(w)) {
				return false
			}
		}
		return true
	}, nil
}
