package cli_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/ui/cli"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// ranDumps runs the command and gives its exit code and what it said.
func ranDumps(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaint strings.Builder
	env, _ := inProcess(t, &out, &complaint, "HOME="+t.TempDir())
	code = cli.Main(append([]string{"dumps"}, args...), env)
	return code, out.String(), complaint.String()
}

// keepDumps puts captures of two sessions into a data directory.
func keepDumps(t *testing.T, dir string) {
	t.Helper()
	method, generation := "sigquit", uint64(2)
	store := process.NewDumpStore(dir)
	for i, text := range []string{"first\x1b[31m\n", "goroutine 1 [running]:\nmain.main()\n"} {
		h := process.DumpHeader{SessionID: "indexer", Generation: &generation, Reason: "stalled", Method: &method, Bytes: int64(len(text)),
			At: process.WireTime{Time: time.Date(2026, 3, 1, 12, i, 0, 0, time.UTC)}}
		if _, err := store.Save(&h, []byte(text), 5); err != nil {
			t.Fatal(err)
		}
	}
	h := process.DumpHeader{SessionID: "user:42:chat", Reason: "request", At: process.WireTime{Time: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)}}
	if _, err := store.Save(&h, nil, 5); err != nil {
		t.Fatal(err)
	}
}

const indexerDumps = `[{"id":"indexer@20260301T120100.000Z","at":"2026-03-01T12:01:00.000Z","reason":"stalled","method":"sigquit","bytes":35,"truncated":false,"format":null,"verdict":null,"culprit":null},` +
	`{"id":"indexer@20260301T120000.000Z","at":"2026-03-01T12:00:00.000Z","reason":"stalled","method":"sigquit","bytes":11,"truncated":false,"format":null,"verdict":null,"culprit":null}]` + "\n"

// Dumps are listed and shown the same, whether a serve keeps them or the data
// directory.
func TestDumpsAreListedAndShown(t *testing.T) {
	for _, through := range []string{"directory", "serve"} {
		t.Run(through, func(t *testing.T) {
			// The path of a socket is limited to about 100 bytes.
			t.Chdir(t.TempDir())
			dir := "d"
			keepDumps(t, dir)
			if through == "serve" {
				var stderr shared
				env, interrupt := inProcess(t, io.Discard, &stderr, "HOME="+t.TempDir())
				ended := make(chan int, 1)
				go func() {
					ended <- cli.Main([]string{"serve", "--nats", "-", "--redis", "-", "--listen", "-", "--data-dir", dir}, env)
				}()
				terminaltest.Poll(t, func() bool { files, _ := filepath.Glob("d/serve.sock"); return len(files) == 1 }, func() string { return "no socket" })
				defer func() {
					interrupt()
					if code := <-ended; code != 0 {
						t.Errorf("serve: exit code %d, %s", code, stderr.String())
					}
				}()
			}
			for _, c := range []struct {
				args           []string
				code           int
				stdout, stderr string
			}{
				{[]string{"indexer", "--json"}, 0, indexerDumps, ""},
				{[]string{"nobody", "--json"}, 0, "[]\n", ""},
				{[]string{"nobody"}, 0, "", "no dump was taken of nobody\n"},
				{[]string{"indexer", "--show", "1"}, 0, "goroutine 1 [running]:\nmain.main()\n", ""},
				{[]string{"indexer", "--show", "indexer@20260301T120000.000Z"}, 0, "first\n", ""},
				{[]string{"--show", "user:42:chat@20260301T110000.000Z"}, 0, "", ""},
				{[]string{"indexer", "--show", "3"}, 2, "", "sessionwatch: there is no dump 3; 2 dumps here: list them without --show\n"},
			} {
				code, stdout, stderr := ranDumps(t, append(c.args, "--data-dir", dir)...)
				if code != c.code || stdout != c.stdout || stderr != c.stderr {
					t.Errorf("%v: exit code %d, want %d\n%q, want %q\n%q, want %q", c.args, code, c.code, stdout, c.stdout, stderr, c.stderr)
				}
			}
			_, stdout, _ := ranDumps(t, "--data-dir", dir)
			for _, want := range []string{"1  indexer@20260301T120100.000Z       2026-03-01 12:01:00Z  stalled     35", "3  user:42:chat@20260301T110000.000Z"} {
				if !strings.Contains(stdout, want) {
					t.Errorf("the list lacks %q:\n%s", want, stdout)
				}
			}
		})
	}
}

func TestDumpsOfNoID(t *testing.T) {
	if code, _, stderr := ranDumps(t, "a b"); code != 2 || !strings.Contains(stderr, "is no id") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
