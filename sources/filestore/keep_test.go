//go:build unix

package filestore

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestHistoryIsBoundedByAge(t *testing.T) {
	h := open(t, pathOf(t)).History(time.Hour, 0)
	for i := range 10 {
		id := watchdog.ID(fmt.Sprint("s", i%2))
		if err := h.Append(t.Context(), Moment{At: noon.Add(time.Duration(i) * 20 * time.Minute), ID: id, Kind: "verdict", From: "running", To: "silent"}); err != nil {
			t.Fatal(err)
		}
	}
	fleet, err := h.Fleet(t.Context(), time.Time{}, 100)
	if err != nil || len(fleet) != 4 { // 180, 160, 140 and 120 minutes
		t.Fatalf("%d moments of the last hour, want 4: %v", len(fleet), err)
	}
	if !fleet[0].At.Equal(noon.Add(3 * time.Hour)) {
		t.Errorf("the newest is of %v", fleet[0].At)
	}
	if some, _ := h.Fleet(t.Context(), noon.Add(150*time.Minute), 100); len(some) != 2 {
		t.Errorf("%d moments since 150 minutes, want 2", len(some))
	}
	one, err := h.Session(t.Context(), "s1", 100)
	if err != nil || len(one) != 2 || one[0].ID != "s1" || one[0].To != "silent" {
		t.Errorf("%+v %v", one, err)
	}
	if none, err := h.Session(t.Context(), "s9", 100); err != nil || none != nil {
		t.Errorf("%+v %v", none, err)
	}
}

func TestHistoryIsBoundedBySize(t *testing.T) {
	h := open(t, pathOf(t)).History(0, 10_000)
	for i := range 20 {
		var batch []Moment
		for n := range 50 {
			batch = append(batch, Moment{At: noon, ID: watchdog.ID(fmt.Sprint("s", n)), Kind: "verdict", Text: fmt.Sprint(i, strings.Repeat("x", 100))})
		}
		if err := h.Append(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	all, err := h.Fleet(t.Context(), time.Time{}, 10_000)
	if err != nil || len(all) < 30 || len(all) > 60 {
		t.Errorf("%d moments are kept: %v", len(all), err)
	}
	if all[0].Text[:2] != "19" {
		t.Errorf("the newest is %q", all[0].Text)
	}
}

func TestQuarantineKeepsTheOriginal(t *testing.T) {
	q := open(t, pathOf(t)).Quarantine()
	late := watchdog.Late{
		ID: "a.b:c", Generation: 2, Raw: []byte("\xff\x00{"), Source: watchdog.SourceNATS,
		At: noon, LateBy: 1500 * time.Millisecond, MaybeNew: true,
	}
	if err := q.Keep(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	got, err := q.List(t.Context(), "a.b:c", 10)
	if diff := cmp.Diff([]watchdog.Late{late}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := q.Sessions(t.Context(), func(id watchdog.ID, count int) bool {
		if id != "a.b:c" || count != 1 {
			t.Errorf("%s has %d", id, count)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
}

func TestQuarantineIsBounded(t *testing.T) {
	f := open(t, pathOf(t))
	q := f.Quarantine()
	keep := func(id watchdog.ID, at time.Time, text string) {
		t.Helper()
		if err := q.Keep(t.Context(), watchdog.Late{ID: id, Raw: []byte(text), At: at}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.update(t.Context(), func(tx *bbolt.Tx) error {
		session, err := tx.Bucket(bucketQuarantine).CreateBucket([]byte("many"))
		for i := 0; err == nil && i < QuarantineCount; i++ {
			var n uint64
			if n, err = session.NextSequence(); err == nil {
				err = session.Put(numbered(n), fmt.Appendf(nil, `{"original":"%s","quarantined_at":"2026-11-30T12:00:00Z"}`, base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(i)))))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		keep("many", noon, fmt.Sprint(QuarantineCount+i))
	}
	got, err := q.List(t.Context(), "many", 2*QuarantineCount)
	if err != nil || len(got) != QuarantineCount || string(got[len(got)-1].Raw) != "5" {
		t.Fatalf("%d are kept, the oldest is %q: %v", len(got), got[len(got)-1].Raw, err)
	}
	keep("old", noon.Add(-8*24*time.Hour), "old")
	keep("old", noon, "new")
	if got, _ := q.List(t.Context(), "old", 10); len(got) != 1 || string(got[0].Raw) != "new" {
		t.Errorf("what is too old is kept: %+v", got)
	}
	if err := q.Prune(t.Context(), noon.Add(8*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	left := 0
	_ = q.Sessions(t.Context(), func(watchdog.ID, int) bool { left++; return true })
	if left != 0 {
		t.Errorf("%d sessions are left after a week", left)
	}
}

func TestAuditLinesOfManyProcessesAreWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "audit.jsonl")
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		c := startChild(t, "audit", path, name)
		all.Go(func() {
			if line := c.Line(); line != "" {
				t.Errorf("%s: %s", name, line)
			}
			_ = c.Wait()
		})
	}
	all.Wait()
	next := map[string]int{}
	for _, line := range lines(t, path) {
		var e struct {
			Writer string
			N      int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %.100s", err, line)
		}
		if e.N != next[e.Writer] {
			t.Fatalf("line %d of %s, want %d", e.N, e.Writer, next[e.Writer])
		}
		next[e.Writer]++
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		if next[name] != 200 {
			t.Errorf("%d lines of %s, want 200", next[name], name)
		}
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

// A process that gets no time in the midst of a line has not crashed.
func TestAuditWaitsForALineThatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.turn = time.Minute
	slow, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if !lockWithin(slow.file, time.Minute) {
		t.Skip("this file system has no locks")
	}
	half := func(text string) {
		t.Helper()
		if _, err := slow.file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	half(`{"event":"slo`)
	written := make(chan error)
	go func() { written <- a.Write(map[string]string{"event": "next"}) }()
	select {
	case err := <-written:
		t.Fatalf("it was written into the midst of a line: %v", err)
	case <-time.After(5 * tornPause):
	}
	half("w\"}\n")
	unlock(slow.file)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`{"event":"slow"}`, `{"event":"next"}`}, lines(t, path)); diff != "" {
		t.Error(diff)
	}
}

func TestAuditAfterALineThatWasCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"event":"cut`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(event string) {
		t.Helper()
		if err := a.Write(map[string]string{"event": event}); err != nil {
			t.Fatal(err)
		}
	}
	write("<whole>\n")
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.WriteString(`{"event":"of another`); err != nil { // which crashed since we began
		t.Fatal(err)
	}
	_ = other.Close()
	write("next")
	if diff := cmp.Diff([]string{`{"event":"cut`, `{"event":"<whole>\n"}`, `{"event":"of another`, `{"event":"next"}`}, lines(t, path)); diff != "" {
		t.Error(diff)
	}
	if err := os.Rename(path, path+".1"); err != nil { // as log rotation does
		t.Fatal(err)
	}
	write("rotated")
	if got := lines(t, path); len(got) != 1 || got[0] != `{"event":"rotated"}` {
		t.Errorf("after rotation: %q", got)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Write("late"); err == nil {
		t.Error("a closed trail takes entries")
	}
}

func TestAuditRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := OpenAudit(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

func lines(t *testing.T, path string) (out []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for s := bufio.NewScanner(file); s.Scan(); {
		out = append(out, s.Text())
	}
	return out
}

func TestTheLatestOfAllSessions(t *testing.T) {
	q := open(t, pathOf(t)).Quarantine()
	for i := range 30 {
		l := watchdog.Late{ID: watchdog.ID(fmt.Sprint("s", i%7)), Generation: 1, Raw: []byte(fmt.Sprint(i)), At: noon.Add(time.Duration(i) * time.Second)}
		if err := q.Keep(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := q.Latest(t.Context(), 3)
	if err != nil || len(got) != 3 || string(got[0].Raw) != "29" || string(got[2].Raw) != "27" {
		t.Errorf("%+v %v", got, err)
	}
	if all, err := q.Latest(t.Context(), 1000); err != nil || len(all) != 30 {
		t.Errorf("%d of 30: %v", len(all), err)
	}
}
