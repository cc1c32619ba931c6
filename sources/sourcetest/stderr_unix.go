//go:build unix

package sourcetest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// CaptureStderr sends what is written to file descriptor 2 into a file, by
// whichever way a library holds it. The function that it returns puts stderr
// back and gives what was written.
func CaptureStderr(t testing.TB) func() string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	saved, err := unix.Dup(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup2(int(file.Fd()), 2); err != nil {
		t.Fatal(err)
	}
	restored := false
	restore := func() {
		if !restored {
			restored = true
			_ = unix.Dup2(saved, 2)
			_ = unix.Close(saved)
			_ = file.Close()
		}
	}
	t.Cleanup(restore)
	return func() string {
		restore()
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
