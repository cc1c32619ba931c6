package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func headerOf(id string, at time.Time) *DumpHeader {
	method := "SIGUSR1"
	return &DumpHeader{SessionID: id, At: WireTime{at}, Reason: "stalled", Method: &method, Parts: []DumpPart{}, Steps: []DumpStep{}}
}

var storeTime = time.Date(2026, 11, 30, 3, 12, 44, 120_000_000, time.UTC)

func TestDumpStoreKeepsAndGives(t *testing.T) {
	dir := t.TempDir()
	s := NewDumpStore(dir)
	if list, err := s.List(""); list != nil || err != nil {
		t.Errorf("a store that holds nothing: %v, %v", list, err)
	}
	text := []byte("line\n\x00\x1b[2Jno end")
	path, err := s.Save(headerOf("indexer", storeTime), text, 20)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700, filepath.Dir(filepath.Dir(path)): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", name, info.Mode().Perm(), err, want)
		}
	}
	if want := filepath.Join(dir, "dumps", "aW5kZXhlcg", "20261130T031244.120Z.dump"); path != want {
		t.Errorf("kept at %s, want %s", path, want)
	}
	raw, _ := os.ReadFile(path)
	head, rest, _ := bytes.Cut(raw, []byte("\n"))
	if !json.Valid(head) || !bytes.Equal(rest, text) {
		t.Errorf("a file is a line of JSON and the text: %.200q", raw)
	}
	list, err := s.List("indexer")
	if err != nil || len(list) != 1 || list[0].ID != "indexer@20261130T031244.120Z" || *list[0].Method != "SIGUSR1" {
		t.Fatalf("%+v, %v", list, err)
	}
	h, body, err := s.Open(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(body)
	_ = body.Close()
	if !bytes.Equal(got, text) || cmp.Diff(h, list[0]) != "" {
		t.Errorf("%q; %s", got, cmp.Diff(h, list[0]))
	}
	entry, _ := json.Marshal(h.Entry())
	if want := `{"id":"indexer@20261130T031244.120Z","at":"2026-11-30T03:12:44.120Z","reason":"stalled","method":"SIGUSR1","bytes":0,"truncated":false,"format":null,"verdict":null,"culprit":null}`; string(entry) != want {
		t.Errorf("%s\nwant %s", entry, want)
	}
}

func TestDumpStoreKeepsTheNewest(t *testing.T) {
	s := NewDumpStore(t.TempDir())
	for i := range 7 {
		if _, err := s.Save(headerOf("a", storeTime.Add(time.Duration(i)*time.Minute)), nil, 3); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Save(headerOf("b", storeTime), nil, 0); err != nil {
		t.Fatal(err)
	}
	list, err := s.List("a")
	var at []string
	for _, h := range list {
		at = append(at, h.At.Format("15:04"))
	}
	if err != nil || strings.Join(at, " ") != "03:18 03:17 03:16" {
		t.Errorf("kept %v, %v", at, err)
	}
	if all, err := s.List(""); err != nil || len(all) != 4 {
		t.Errorf("all sessions: %d, %v", len(all), err)
	}
}

func TestDumpStoreAtOnce(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := NewDumpStore(dir).Save(headerOf("a", storeTime), []byte("x"), 100); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	list, err := NewDumpStore(dir).List("a")
	ids := make(map[string]bool)
	for _, h := range list {
		ids[h.ID] = true
	}
	if err != nil || len(ids) != 20 {
		t.Errorf("%d captures of 20 in the same moment: %v", len(ids), err)
	}
}

// TestDumpStoreNames: every id that is accepted has a directory of its own.
func TestDumpStoreNames(t *testing.T) {
	s := NewDumpStore(t.TempDir())
	long := strings.Repeat("é", 127)
	ids := []string{"a", "../../etc", "a/b", ".", "x@y", long + "1", long + "2", "日本", "A", "a.b:c"}
	for _, id := range ids {
		path, err := s.Save(headerOf(id, storeTime), []byte(id), 5)
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		if !strings.HasPrefix(path, s.dir+string(filepath.Separator)) {
			t.Errorf("%q is kept at %s", id, path)
		}
	}
	for _, id := range ids {
		list, err := s.List(watchdog.ID(id))
		if err != nil || len(list) != 1 || list[0].SessionID != id {
			t.Errorf("%q: %+v, %v", id, list, err)
			continue
		}
		_, body, err := s.Open(list[0].ID)
		if err != nil {
			t.Errorf("%q: %v", list[0].ID, err)
			continue
		}
		if text, _ := io.ReadAll(body); string(text) != id {
			t.Errorf("%q holds %q", id, text)
		}
		_ = body.Close()
	}
	for _, id := range []string{"", "a", "a@", "@", "a@../../x", "a@20261130T031244.121Z", "none@20261130T031244.120Z", "a@20261130T031244.120Z/../x"} {
		if _, _, err := s.Open(id); !errors.Is(err, ErrNoDump) {
			t.Errorf("%q: %v, want ErrNoDump", id, err)
		}
	}
}

// TestDumpStoreTrustsNobody: what others planted is neither followed nor removed.
func TestDumpStoreTrustsNobody(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("{}\nsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	session := func(dir string) string { return filepath.Join(dir, "dumps", sessionDir("a")) }
	for _, c := range []struct {
		name  string
		plant func(dir string) error
		saves bool
	}{
		{"dumps is a symlink", func(dir string) error { return os.Symlink(filepath.Dir(precious), filepath.Join(dir, "dumps")) }, false},
		{"dumps is a file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "dumps"), nil, 0o600) }, false},
		{"dumps is open to all", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "dumps"), 0o755), os.Chmod(filepath.Join(dir, "dumps"), 0o777))
		}, false},
		{"the session is a symlink", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "dumps"), 0o700), os.Symlink(filepath.Dir(precious), session(dir)))
		}, false},
		{"its file is a symlink", func(dir string) error {
			return errors.Join(os.MkdirAll(session(dir), 0o700), os.Symlink(precious, filepath.Join(session(dir), storeTime.Format(dumpStamp)+dumpSuffix)))
		}, true},
		{"its unfinished file is a symlink", func(dir string) error {
			return errors.Join(os.MkdirAll(session(dir), 0o700), os.Symlink(precious, filepath.Join(session(dir), storeTime.Format(dumpStamp)+dumpSuffix+".part")))
		}, true},
		{"a directory, a file of another kind and a broken one", func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(session(dir), "20200101T000000.000Z.dump"), 0o700),
				os.WriteFile(filepath.Join(session(dir), "20200101T000000.001Z.dump"), []byte("no header"), 0o600),
				os.WriteFile(filepath.Join(session(dir), "notes.txt"), nil, 0o600))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.plant(dir); err != nil {
				t.Fatal(err)
			}
			s := NewDumpStore(dir)
			_, err := s.Save(headerOf("a", storeTime), []byte("mine"), 5)
			if (err == nil) != c.saves {
				t.Errorf("saved: %v, want %v", err, c.saves)
			}
			list, err := s.List("a")
			if c.saves && (err != nil || len(list) != 1) {
				t.Errorf("listed %d: %v", len(list), err)
			}
			if text, _ := os.ReadFile(precious); string(text) != "{}\nsecret" {
				t.Errorf("it wrote through a symlink: %q", text)
			}
			if entries, _ := os.ReadDir(filepath.Dir(precious)); len(entries) != 1 {
				t.Errorf("it wrote beside the file of another: %v", entries)
			}
		})
	}
}

// TestDumpStoreCannotWrite: a capture that cannot be kept says where it was to
// go.
func TestDumpStoreCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewDumpStore(filepath.Join(file, "below")).Save(headerOf("a", storeTime), nil, 1); err == nil || !strings.Contains(err.Error(), "cannot be kept") {
		t.Errorf("%v", err)
	}
}

func FuzzDumpHeader(f *testing.F) {
	line, _ := json.Marshal(headerOf("a", storeTime))
	f.Add(append(line, "\ntext"...))
	f.Add([]byte("{}\n"))
	f.Add([]byte("[1]"))
	dir := f.TempDir()
	s := NewDumpStore(dir)
	path, err := s.Save(headerOf("a", storeTime), nil, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, body, err := s.Open("a@" + storeTime.Format(dumpStamp)); err == nil {
			_, rest, _ := bytes.Cut(file, []byte("\n"))
			if text, _ := io.ReadAll(body); !bytes.Equal(text, rest) {
				t.Errorf("%q behind the header of %q", text, file)
			}
			_ = body.Close()
		}
		if _, err := s.List("a"); err != nil {
			t.Error(fmt.Errorf("one broken file hides the others: %w", err))
		}
	})
}

// A file out of the store is told from any other text, whatever was had.
func TestCutHeader(t *testing.T) {
	dir := t.TempDir()
	for i, text := range []string{"Thread 1\n  File \"a.py\"\n", ""} {
		path, err := NewDumpStore(dir).Save(headerOf("a", storeTime.Add(time.Duration(i)*time.Minute)), []byte(text), 9)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if h, got, ok := CutHeader(string(file)); !ok || got != text || h.SessionID != "a" {
			t.Errorf("%v, %q, %+v of %s", ok, got, h, file)
		}
	}
	for _, text := range []string{"", "Thread 1\n", "{}\n", `{"id":"a@b","session_id":"c"}` + "\n", `{"id":"a@b","session_id":"a"}`, `{"id":"log line","level":"info"}` + "\nmore\n"} {
		if _, _, ok := CutHeader(text); ok {
			t.Errorf("taken for a capture: %s", text)
		}
	}
}
