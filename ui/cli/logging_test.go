//go:build unix

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLogFileIsPrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log.json")
	log, closer, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("hello", "id", "a\x1b[31mb")
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %v, want 0600", got)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(text, &line); err != nil || line["msg"] != "hello" {
		t.Errorf("not a JSON line: %q (%v)", text, err)
	}
	if strings.Contains(string(text), "\x1b") {
		t.Errorf("an escape byte reached the log: %q", text)
	}
}

func TestLogFileOfOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, pipe, open := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "open")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{link, "symbolic link"},
		{pipe, "not a regular file"},
		{dir, "not a regular file"},
		{open, "chmod 600"},
		{filepath.Join(dir, "absent", "log"), "no such file or directory"},
	} {
		_, _, err := openLog(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.path, err, c.want)
		}
	}
	if text, _ := os.ReadFile(target); string(text) != "precious\n" {
		t.Errorf("the target of the link was written: %q", text)
	}
}
