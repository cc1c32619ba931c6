package sourcetest

import (
	"fmt"
	"os"
	"testing"
)

// Soaking reports whether .ci/soak runs the full counts.
func Soaking() bool { return os.Getenv("SESSIONWATCH_SOAK") == "long" }

// Figure logs a row of the table of faults, and adds it to the one that .ci/soak
// prints.
func Figure(t testing.TB, fault, load, goal, seen string) {
	t.Helper()
	row := fmt.Sprintf("| %s | %s | %s | %s |", fault, load, goal, seen)
	t.Log(row)
	path := os.Getenv("SESSIONWATCH_SOAK_TABLE")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := fmt.Fprintln(f, row); err != nil {
		t.Fatal(err)
	}
}
