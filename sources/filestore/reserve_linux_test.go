package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What finds no room leaves no half of a line. Only who may mount has a disk to
// fill.
func TestAuditOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	path, fill := filepath.Join(disk, "own", "audit.jsonl"), filepath.Join(disk, "fill")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Write("first"); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(fill, make([]byte, 1<<20), 0o600) // as far as it goes
	if err := a.Write(strings.Repeat("x", 3*os.Getpagesize())); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("an entry without room: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if err := a.Write("last"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`"first"`, `"last"`}, lines(t, path)); diff != "" {
		t.Error(diff)
	}
}
