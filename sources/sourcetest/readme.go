//go:build unix

package sourcetest

import (
	"os"
	"path/filepath"
	"strings"
)

// ReadmeBlock gives the block of the README that holds a text, so that what people
// copy is what is proved. It panics if there is not exactly one.
func ReadmeBlock(holds string) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, found := os.Stat(filepath.Join(dir, "go.mod")); found == nil {
			break
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
		} else {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		panic(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		panic(err)
	}
	var found []string
	for i, part := range strings.Split(string(text), "\n```") {
		if i%2 == 0 {
			continue
		}
		if _, block, _ := strings.Cut(part, "\n"); strings.Contains(block, holds) {
			found = append(found, block+"\n")
		}
	}
	if len(found) != 1 {
		panic("the README has not one block that holds " + holds)
	}
	return found[0]
}
