//go:build unix

package filestore

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// childVariable makes the test binary do the work of another process.
const childVariable = "FILESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if work := os.Getenv(childVariable); work != "" {
		if err := beChild(strings.Split(work, " ")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func beChild(work []string) error {
	path := work[1]
	switch work[0] {
	case "hold":
		f, err := Open(path, nil)
		if err != nil {
			return err
		}
		fmt.Println("held")
		time.Sleep(time.Minute) // until it is killed
		return f.Close()
	case "settle":
		return settleForEver(path)
	case "full":
		return settleUntilFull(path)
	case "audit":
		return auditMany(path, work[2])
	case "notes":
		return writeNotes(path, work[2])
	}
	return fmt.Errorf("no such work: %v", work)
}

// settleForEver settles one generation after another and says each that the
// ledger said was written.
func settleForEver(path string) error {
	f, err := Open(path, nil)
	if err != nil {
		return err
	}
	l := f.Ledger(wire.Seal{}, clock.System())
	fmt.Println("ready")
	for g := watchdog.Generation(1); ; g++ {
		if _, err := l.WriteOnce(context.Background(), recordOf("a", g, "child")); err != nil {
			return err
		}
		fmt.Println(g)
	}
}

// settleUntilFull settles until the file may not grow any more, and proves that
// what the ledger says is what is there.
func settleUntilFull(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := Open(path, nil)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	limit := uint64(info.Size()) + 256<<10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	l := f.Ledger(wire.Seal{}, clock.System())
	ctx := context.Background()
	for g := watchdog.Generation(1); g < 100_000; g++ {
		r := recordOf("a", g, "child")
		r.Why = []byte(`{"filler":"` + strings.Repeat("x", 8<<10) + `"}`)
		_, err := l.WriteOnce(ctx, r)
		if err == nil {
			continue
		}
		_, found, readErr := l.Record(ctx, "a", g)
		_, before, _ := l.Record(ctx, "a", g-1)
		fmt.Printf("full\t%d\t%v\t%v\t%v\t%v\n", g, err, found, readErr, before)
		return f.Close()
	}
	return fmt.Errorf("the file never was full")
}

func auditMany(path, name string) error {
	a, err := OpenAudit(path)
	if err != nil {
		return err
	}
	for i := range 200 {
		if err := a.Write(map[string]any{"writer": name, "n": i, "filler": strings.Repeat(name, 50*i)}); err != nil {
			return err
		}
	}
	return a.Close()
}

// startChild starts a process that does some work.
func startChild(t testing.TB, work ...string) *sourcetest.Child {
	t.Helper()
	return sourcetest.StartChild(t, childVariable, strings.Join(work, " "))
}

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func pathOf(t testing.TB) string { t.Helper(); return filepath.Join(t.TempDir(), "data", "ledger.db") }

func recordOf(id watchdog.ID, g watchdog.Generation, nonce string) watchdog.Record {
	return watchdog.Record{
		ID: id, Generation: g, Outcome: watchdog.OutcomeLost, SettledBy: watchdog.BySweeper,
		Writer: "test@here/" + strconv.Itoa(os.Getpid()), Nonce: nonce, Reason: "3 beats missed",
		At: time.Date(2026, 11, 30, 3, 12, 44, 0, time.UTC),
	}
}
