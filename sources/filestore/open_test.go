//go:build unix

package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestFilesArePrivate(t *testing.T) {
	path := pathOf(t)
	f := open(t, path)
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700, pidPath(path): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(rest) != 1 {
		t.Errorf("left behind: %v", rest)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("a file that others could read was left so: %v", info.Mode())
	}
}

func TestAHeldFileNamesItsHolder(t *testing.T) {
	path := pathOf(t)
	other := startChild(t, "hold", path)
	if got := other.Line(); got != "held" {
		t.Fatalf("the other process says %q", got)
	}
	began := time.Now()
	_, err := Open(path, nil)
	if want := fmt.Sprintf("held by pid %d", other.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	other.Kill()
	open(t, path) // what a killed process held is free
}

func TestAPlantedFileIsNotFollowed(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := pathOf(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func() error{
		"symlink":   func() error { return os.Symlink(victim, path) },
		"dangling":  func() error { return os.Symlink(victim+"-new", path) },
		"directory": func() error { return os.Mkdir(path, 0o700) },
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(path, nil); err == nil {
			t.Errorf("%s: opened", name)
			_ = f.Close()
		}
		if a, err := OpenAudit(path); err == nil {
			t.Errorf("%s: opened for audit", name)
			_ = a.Close()
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(victim); string(got) != "precious" {
		t.Errorf("the victim holds %q", got)
	}
	if info, _ := os.Stat(victim); info.Mode().Perm() != 0o644 {
		t.Errorf("the victim's mode is %v", info.Mode())
	}
}

// filled is a good file with something in every part.
func filled(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = pathOf(t)
	f := open(t, path)
	l := f.Ledger(wire.Seal{}, clock.System())
	for g := watchdog.Generation(1); g < 200; g++ {
		r := recordOf("a", g, "n")
		if _, err := l.WriteOnce(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.SwapHead(t.Context(), watchdog.Head{ID: "a", Generation: 200}, ""); err != nil {
		t.Fatal(err)
	}
	if err := f.Quarantine().Keep(t.Context(), watchdog.Late{ID: "a", Raw: []byte("late")}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestADamagedFileIsLeftAsItIs(t *testing.T) {
	path, good := filled(t)
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	foreignContent, _ := os.ReadFile(foreign)
	for name, content := range map[string][]byte{
		"empty":             {},
		"text":              []byte("not a ledger\n"),
		"cut in the header": good[:100],
		"cut at a page":     good[:os.Getpagesize()*4],
		"cut in a page":     good[:os.Getpagesize()*5+100],
		"half":              good[:len(good)/2],
		"zeroes":            make([]byte, len(good)),
		"zeroes behind":     append(bytes.Clone(good[:os.Getpagesize()*3]), make([]byte, len(good)-os.Getpagesize()*3)...),
		"another program's": foreignContent,
		"another format":    bytes.ReplaceAll(good, []byte(format), []byte("sessionwatch 9")),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path, nil)
			if err == nil {
				_ = f.Close()
				t.Fatal("it was opened")
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%v does not say what to do", err)
			}
			if left, _ := os.ReadFile(path); !bytes.Equal(left, content) {
				t.Error("it was changed")
			}
		})
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path) // no lock of a refused file is left
}

// TestNoiseInAFileNeverEndsUs writes noise over pages of a good file: whatever
// becomes of it, there is an answer and no crash.
func TestNoiseInAFileNeverEndsUs(t *testing.T) {
	path, good := filled(t)
	dice := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 60 {
		bad := bytes.Clone(good)
		for range 1 + dice.IntN(8) {
			at := dice.IntN(len(bad))
			for i := at; i < min(at+1+dice.IntN(64), len(bad)); i++ {
				bad[i] = byte(dice.IntN(256))
			}
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, nil)
		if err != nil {
			refused++
			continue
		}
		l := f.Ledger(wire.Seal{}, clock.System())
		for g := watchdog.Generation(1); g < 210; g++ {
			if r, found, err := l.Record(t.Context(), "a", g); err == nil && found && r.ID != "a" {
				t.Fatalf("noise was read as a record: %+v", r)
			}
		}
		_, _ = l.Outbox(t.Context(), 1000)
		_, _ = l.WriteOnce(t.Context(), recordOf("b", 1, "n"))
		_ = f.Close()
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}
