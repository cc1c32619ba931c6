package ownfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOurOwnFileIsOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !Ours(info) {
		t.Error("a file that we made is said to be another's")
	}
}

func TestALinkIsNotFollowed(t *testing.T) {
	if NoFollow == 0 {
		t.Skip("this system has no such flag")
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "victim"), link); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(link, os.O_WRONLY|os.O_CREATE|NoFollow, 0o600); err == nil {
		_ = f.Close()
		t.Error("a planted link was followed")
	}
}
