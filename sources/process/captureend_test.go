package process

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// TestCaptureOfEndingProcesses: a signal that ends the process gives what nothing
// else gave, and is sent to no other.
func TestCaptureOfEndingProcesses(t *testing.T) {
	for _, c := range []struct {
		name   string
		tool   string // what runs it; empty: it is compiled
		args   []string
		want   func(*CaptureWant)
		method string
		shows  string
		lives  bool
		steps  map[string]string
	}{
		{name: "python with -X faulthandler", tool: "python3", args: []string{"-X", "faulthandler", "@blocked.py"}, method: "SIGABRT", shows: "line 8 in call_tool"},
		{
			name: "plain python", tool: "python3", args: []string{"@blocked.py"}, method: "proc", shows: "comm=python3", lives: true,
			steps: map[string]string{"SIGABRT": "does not catch SIGABRT"},
		},
		{
			name: "python that answers alive", tool: "python3", args: []string{"-X", "faulthandler", "@agent.py"}, method: "SIGUSR1", shows: "line 13 in call_tool", lives: true,
			steps: map[string]string{"SIGABRT": "SIGUSR1 gave a dump"},
		},
		{
			name: "python, never a signal that ends it", tool: "python3", args: []string{"-X", "faulthandler", "@blocked.py"},
			want: func(w *CaptureWant) { w.Dump.AllowFatal = config.FatalNever }, method: "proc", lives: true,
			steps: map[string]string{"SIGABRT": "dump.allow_fatal is never"},
		},
		{name: "go", args: []string{"@goagent.go.txt"}, method: "SIGQUIT", shows: "main.(*Dispatcher).loop"},
		{
			name: "go that takes SIGQUIT itself", args: []string{"@goagent.go.txt", "notifyquit"}, method: "SIGABRT", shows: "main.(*Dispatcher).loop",
			want:  func(w *CaptureWant) { w.Dump.Timeout = time.Second },
			steps: map[string]string{"SIGQUIT": "brought no dump"},
		},
		{name: "go, spinning", args: []string{"@gospin.go.txt"}, method: "SIGQUIT", shows: "goroutine 1 "},
		{name: "ruby", tool: "ruby", args: []string{"@agent.rb"}, method: "SIGSEGV", shows: "in `wait_reply'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var argv []string
			if c.tool != "" {
				argv = append(argv, sourcetest.RealBinary(t, c.tool))
			}
			for _, arg := range c.args {
				if name, ok := strings.CutPrefix(arg, "@"); ok && c.tool == "" {
					arg = compiled(t, name)
				} else if ok {
					arg = testProgram(t, name)
				}
				argv = append(argv, arg)
			}
			a := startAgent(t, "ready", argv...)
			settle(t, a)
			before := a.tree(t)
			got := NewLadder(LadderOptions{}).Capture(t.Context(), a.want(func(w *CaptureWant) {
				w.Ending, w.Dump.Native = true, config.NativeNever
				if c.want != nil {
					c.want(w)
				}
			}))
			if c.lives {
				a.alive(t, before)
			}
			if got.Method != c.method || !strings.Contains(string(got.Text), c.shows) {
				t.Errorf("by %q, want %q with %q; steps:\n%s%.2000s", got.Method, c.method, c.shows, describeSteps(got), got.Text)
			}
			for method, why := range c.steps {
				if s := stepOf(t, got, method); s.Taken || !strings.Contains(s.Detail, why) {
					t.Errorf("step %s: taken %v, %q; want a reason with %q", method, s.Taken, s.Detail, why)
				}
			}
		})
	}
}

// TestCaptureAfterExit: a program that found itself wedged has dumped already,
// into its output or its file.
func TestCaptureAfterExit(t *testing.T) {
	t.Parallel()
	python := sourcetest.RealBinary(t, "python3")
	gateway := testProgram(t, "gateway.py")
	file := filepath.Join(t.TempDir(), "wedge.txt")
	old := "Thread 0x00007f0000000000 (most recent call first):\n  File \"yesterday.py\", line 1 in forgotten\n"
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, "", python, gateway, file)
	select {
	case <-a.exited:
	case <-time.After(captureRoom):
		t.Fatal("the gateway did not notice that its loop is wedged")
	}
	if code := a.cmd.ProcessState.ExitCode(); code != 75 {
		t.Fatalf("exit status %d, want 75", code)
	}
	exited := func(change func(*CaptureWant)) CaptureWant {
		return a.want(func(w *CaptureWant) {
			w.Exited, w.Reason = true, CaptureExit
			if change != nil {
				change(w)
			}
		})
	}
	fileMode := func(path string, offset int64) func(*CaptureWant) {
		return func(w *CaptureWant) {
			w.Dump.Mode, w.FileOffset = config.DumpMode{Kind: config.DumpFile, File: path}, offset
		}
	}
	link := filepath.Join(filepath.Dir(file), "link.txt")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(filepath.Dir(file), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		want   func(*CaptureWant)
		method string
		step   string // its reason
	}{
		{"output", nil, "output", "file: dump.mode names no file"},
		{"file from its offset", fileMode(file, int64(len(old))), "file", "output: the dump file has it"},
		{"file that was made anew", fileMode(file, 1<<40), "file", ""},
		{"file with nothing new", fileMode(file, size(t, file)), "output", "file: nothing was appended"},
		{"no file", fileMode(file+".none", 0), "output", "no such file"},
		{"symlink", fileMode(link, 0), "output", "file: the dump file cannot be read"},
		{"pipe", fileMode(pipe, 0), "output", "is no file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NewLadder(LadderOptions{}).Capture(t.Context(), exited(c.want))
			text := string(got.Text)
			if got.Method != c.method || !strings.Contains(text, "rebuild_index") || !strings.Contains(text, "run_until_complete") {
				t.Errorf("by %q, want %q; steps:\n%s%s", got.Method, c.method, describeSteps(got), text)
			}
			if c.name == "file from its offset" && strings.Contains(text, "forgotten") {
				t.Error("it holds a dump that was there before the start")
			}
			if steps := describeSteps(got); !strings.Contains(strings.ReplaceAll(steps, " in 0s", ""), c.step) {
				t.Errorf("steps without %q:\n%s", c.step, steps)
			}
		})
	}

	t.Run("a Go deadlock", func(t *testing.T) {
		dead := startAgent(t, "", compiled(t, "godead.go.txt"))
		<-dead.exited
		got := NewLadder(LadderOptions{}).Capture(t.Context(), dead.want(func(w *CaptureWant) { w.Exited = true }))
		if text := string(got.Text); got.Method != "output" || !strings.Contains(text, "all goroutines are asleep") || !strings.Contains(text, "main.main.func1") {
			t.Errorf("by %q:\n%s", got.Method, text)
		}
	})
	t.Run("nothing said", func(t *testing.T) {
		quiet := startAgent(t, "", "sh", "-c", "echo bye; exit 75")
		<-quiet.exited
		got := NewLadder(LadderOptions{}).Capture(t.Context(), quiet.want(func(w *CaptureWant) { w.Exited = true }))
		if got.Method != "" || got.Text != nil || !strings.Contains(stepOf(t, got, "output").Detail, "holds no dump") {
			t.Errorf("by %q: %q; steps:\n%s", got.Method, got.Text, describeSteps(got))
		}
	})
}

// TestCaptureAfterExitWaitsForThePipe: the end of a program is known before the
// last of its output has come.
func TestCaptureAfterExitWaitsForThePipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &heard{}
		go func() {
			for _, line := range []string{"panic: wedged\n", "\n", "goroutine 1 [running]:\n", "main.main()\n", "\t/srv/main.go:5 +0x1\n", "exit status 2\n"} {
				time.Sleep(outputSettle / 2)
				_, _ = io.WriteString(out, line)
			}
		}()
		got := NewLadder(LadderOptions{}).Capture(t.Context(), CaptureWant{ID: "a", Exited: true, Output: out})
		if !strings.HasPrefix(string(got.Text), "panic: wedged\n") || !strings.Contains(string(got.Text), "exit status 2\n") {
			t.Errorf("%q; steps:\n%s", got.Text, describeSteps(got))
		}
	})
}

// Who failed is searched for a dump; what is none is not kept as one.
func TestCaptureOfAFailureKeepsOnlyDumps(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		kept bool
	}{
		"fatal error": {"fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [sync.WaitGroup.Wait]:\nmain.main()\n\t/srv/main.go:5 +0x1\n", true},
		"traceback":   {"Traceback (most recent call last):\n  File \"a.py\", line 2, in <module>\n    f()\nValueError: 3\n", false},
		"a word":      {"no such table\n", false},
		"nothing":     {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &heard{}
				_, _ = io.WriteString(out, c.said)
				store := NewDumpStore(t.TempDir())
				NewLadder(LadderOptions{Store: store}).Capture(t.Context(), CaptureWant{ID: "a", Reason: CaptureExit, Exited: true, Maybe: true, Output: out})
				list, err := store.List("a")
				if err != nil || len(list) > 0 != c.kept {
					t.Errorf("%d kept, %v", len(list), err)
				}
			})
		})
	}
}
