//go:build unix

package filestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestNoteBoardConformance(t *testing.T) {
	sourcetest.RunNoteBoard(t, sourcetest.NoteBoardHarness{
		Serve:    func(t testing.TB) sourcetest.NoteStore { return noteFile{pathOf(t)} },
		Encode:   wire.EncodeNote,
		Lasting:  true,
		Patience: 8 * time.Second,
	})
}

// noteFile is a place for one file of notes.
type noteFile struct{ path string }

func (n noteFile) Open(t testing.TB, readOnly bool) (watchdog.NoteBoard, func()) {
	t.Helper()
	b, err := OpenBoard(n.path, readOnly, clock.System(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return b, func() {}
}

func (n noteFile) PutRaw(t testing.TB, stored map[string][]byte) {
	t.Helper()
	n.do(t, func(notes *bbolt.Bucket) error {
		for key, text := range stored {
			if err := notes.Put([]byte(key), text); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n noteFile) do(t testing.TB, do func(*bbolt.Bucket) error) {
	t.Helper()
	db, err := bbolt.Open(n.path, 0o600, &bbolt.Options{Timeout: 5 * time.Second})
	if err == nil {
		err = errors.Join(db.Update(func(tx *bbolt.Tx) error { return do(tx.Bucket(bucketNotes)) }), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (n noteFile) Count(t testing.TB) int {
	t.Helper()
	if _, err := os.Stat(n.path); err != nil {
		return -1
	}
	count := 0
	n.do(t, func(notes *bbolt.Bucket) error {
		count = notes.Stats().KeyN
		return nil
	})
	return count
}

func noteOf(key watchdog.AlertKey, at time.Time) watchdog.AlertNote {
	return watchdog.AlertNote{Key: key, Kind: watchdog.NoteAck, Author: "ops1", Text: "seen", At: at.UTC().Truncate(time.Millisecond)}
}

// TestNotesOfManyProcesses writes from other processes, which are killed in the
// midst of it: what they said was written stands.
func TestNotesOfManyProcesses(t *testing.T) {
	path := pathOf(t)
	b, err := OpenBoard(path, false, clock.System(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var wrote sync.Map
	var all sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		all.Go(func() {
			for range 3 {
				c := startChild(t, "notes", path, name)
				for range 10 {
					if key := c.Line(); key != "" {
						wrote.Store(watchdog.AlertKey(key), true)
					}
				}
				c.Kill()
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan []watchdog.AlertNote, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = b.Watch(ctx, func(notes []watchdog.AlertNote) { told <- notes; cancel() })
	}()
	stands := map[watchdog.AlertKey]bool{}
	select {
	case notes := <-told:
		for _, n := range notes {
			stands[n.Key] = true
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is told")
	}
	<-over
	wrote.Range(func(key, _ any) bool {
		if !stands[key.(watchdog.AlertKey)] {
			t.Errorf("%s was written, and is gone", key)
		}
		return true
	})
	if len(stands) < 60 {
		t.Errorf("%d notes stand, of at least 60 that were written", len(stands))
	}
}

// TestNotesInABadPlace says what is wrong with what stands at the path.
func TestNotesInABadPlace(t *testing.T) {
	for name, c := range map[string]struct {
		lay  func(path string) error
		says string
	}{
		"another file": {func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("no notes ", 9000)), 0o600) }, "it was left as it is"},
		"an empty one": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "it was left as it is"},
		"a ledger": {func(path string) error {
			f, err := Open(path, nil)
			if err != nil {
				return err
			}
			return f.Close()
		}, "it was left as it is"},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "directory"},
		"a symbolic link": {func(path string) error {
			return os.Symlink(filepath.Join(filepath.Dir(path), "elsewhere"), path)
		}, "symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "alerts.db")
			if err := c.lay(path); err != nil {
				t.Fatal(err)
			}
			b, err := OpenBoard(path, false, clock.System(), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := b.Put(ctx, noteOf("a#1/stalled", time.Now())); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Put says %v", err)
			}
			if err := b.Watch(ctx, func([]watchdog.AlertNote) {}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Watch says %v", err)
			}
		})
	}
}

// writeNotes writes one note after another and says each that was written.
func writeNotes(path, name string) error {
	b, err := OpenBoard(path, false, clock.System(), nil)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		n := noteOf(watchdog.AlertKey(name+"-"+randomID()[:8]+"#1/stalled"), time.Now())
		if err := b.Put(context.Background(), n); err != nil {
			return err
		}
		_, _ = os.Stdout.WriteString(string(n.Key) + "\n")
	}
}
