package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

func signalMode(s syscall.Signal) func(*CaptureWant) {
	return func(w *CaptureWant) { w.Dump.Mode = config.DumpMode{Kind: config.DumpSignal, Signal: s} }
}

// TestCaptureOfRuntimes takes a dump of a stuck program of each runtime: the best
// that the runtime allows, and each program lives on as it was.
func TestCaptureOfRuntimes(t *testing.T) {
	tool := func(name string) func(*testing.T) string {
		return func(t *testing.T) string { return sourcetest.RealBinary(t, name) }
	}
	for _, c := range []struct {
		name    string
		tool    func(*testing.T) string // what runs it; nil: it is compiled
		args    []string                // an "@" names a file of testdata
		want    func(*CaptureWant)
		native  string // a tool without which the case says nothing
		runtime runtimeKind
		method  string
		shows   []string
		skipped map[string]string // step: part of the reason
		facts   string            // verdict and culprit; empty: not asked
		stuckBy string            // process of its tree that shows it to be where it is stuck; empty: its threads do
		again   bool              // by the steps of another case: without the race detector alone
	}{
		{
			name: "python, blocked coroutine, registered", tool: tool("python3"), args: []string{"@agent.py"},
			runtime: runtimePython, method: "SIGUSR1", shows: []string{"agent.py", "line 13 in call_tool", "run_forever", "== tid"}, facts: "wedged, agent.py:13 call_tool",
			skipped: map[string]string{"eu-stack": "SIGUSR1 gave a dump", "SIGABRT": "SIGUSR1 gave a dump"},
		},
		{
			name: "python, blocked coroutine, nothing registered", tool: tool("python3"), args: []string{"@blocked.py"}, native: "eu-stack",
			runtime: runtimePython, method: "eu-stack", shows: []string{"time_sleep", "clock_nanosleep"},
			skipped: map[string]string{"SIGUSR1": "does not catch SIGUSR1", "SIGABRT": "it is to live on"},
		},
		{
			name: "python, lock held in C", again: true, tool: tool("python3"), args: []string{"@gil.py"},
			runtime: runtimePython, method: "SIGUSR1", shows: []string{"gil.py", "line 9 in main"}, facts: "wedged, gil.py:9 main",
		},
		{
			name: "python, native too", again: true, tool: tool("python3"), args: []string{"@agent.py"}, native: "eu-stack",
			want:    func(w *CaptureWant) { w.Dump.Native = config.NativeAlways },
			runtime: runtimePython, method: "SIGUSR1", shows: []string{"call_tool", "clock_nanosleep"},
		},
		{
			name: "python below two shells", again: true, tool: tool("sh"), args: []string{"-c", "sh -c 'python3 @agent.py; true'; true"},
			runtime: runtimePython, method: "SIGUSR1", shows: []string{"call_tool"}, facts: "wedged, agent.py:13 call_tool",
		},
		{
			name: "node, spinning, port allowed", tool: tool("node"), args: []string{"--inspect-port=0", "@agent.js", "cpu"}, want: signalMode(syscall.SIGUSR1),
			runtime: runtimeNode, method: "inspector", shows: []string{`"functionName": "scanTokens"`, "agent.js"}, facts: "busy, agent.js:9 scanTokens",
		},
		{
			name: "node, spinning, debugger open", again: true, tool: tool("node"), args: []string{"--inspect=127.0.0.1:0", "@agent.js", "cpu"},
			runtime: runtimeNode, method: "inspector", shows: []string{`"functionName": "scanTokens"`}, facts: "busy, agent.js:9 scanTokens",
		},
		{
			name: "node, spinning, no port", again: true, tool: tool("node"), args: []string{"@agent.js", "cpu"}, native: "eu-stack",
			runtime: runtimeNode, method: "eu-stack", shows: []string{"TID "},
			skipped: map[string]string{"inspector": "would open a port"},
		},
		{
			name: "node, blocked in native code", tool: tool("node"), args: []string{"--inspect-port=0", "@agent.js", "sync"}, native: "eu-stack", stuckBy: "sleep",
			want: func(w *CaptureWant) {
				signalMode(syscall.SIGUSR1)(w)
				w.Dump.Timeout = 3 * time.Second
			},
			runtime: runtimeNode, method: "eu-stack", shows: []string{"SyncProcessRunner"},
			skipped: map[string]string{"inspector": "native code"},
		},
		{
			name: "java, deadlock", tool: tool("java"), args: []string{"@Agent.java"},
			runtime: runtimeJava, method: "jcmd", shows: []string{"Found one Java-level deadlock", "Agent.dispatch", "cpu="}, facts: "deadlock, Agent.java:13 dispatch, Agent.java:20 flush, Agent.java:26 cross",
			skipped: map[string]string{"SIGQUIT": "jcmd gave a dump"},
		},
		{
			name: "java, deadlock, by signal", tool: tool("java"), args: []string{"@Agent.java"}, want: signalMode(syscall.SIGQUIT),
			runtime: runtimeJava, method: "SIGQUIT", shows: []string{"Full thread dump", "Found one Java-level deadlock", "Agent.dispatch"}, facts: "deadlock, Agent.java:13 dispatch, Agent.java:20 flush, Agent.java:26 cross",
		},
		{
			name: "java, deadlock, signals left alone", again: true, tool: tool("java"), args: []string{"-Xrs", "@Agent.java"},
			runtime: runtimeJava, method: "jcmd", shows: []string{"Found one Java-level deadlock"},
		},
		{
			name: "go, stuck dispatcher, pprof", args: []string{"@goagent.go.txt", "pprof", "addr"},
			runtime: runtimeGo, method: "pprof", shows: []string{"main.(*Dispatcher).loop", "[chan send"}, facts: "wedged, goagent.go:53 (*Dispatcher).loop",
		},
		{
			name: "go, spinning", again: true, args: []string{"@gospin.go.txt"}, native: "eu-stack",
			runtime: runtimeGo, method: "eu-stack", shows: []string{"main.main.func1"},
			skipped: map[string]string{"pprof": "not built into it", "SIGQUIT": "it is to live on"},
		},
		{
			name: "ruby, waiting for a queue", again: true, tool: tool("ruby"), args: []string{"@agent.rb"}, native: "eu-stack",
			runtime: runtimeRuby, method: "eu-stack", shows: []string{"rb_", "TID "},
		},
		{
			name: "ruby, waiting for a queue, trapped", tool: tool("ruby"), args: []string{"@agent.rb", "trap"}, want: signalMode(syscall.SIGUSR1),
			runtime: runtimeRuby, method: "SIGUSR1", shows: []string{"wait_reply", "agent.rb:6"},
		},
		{
			name: "php", again: true, tool: tool("php"), args: []string{"@agent.php"}, native: "eu-stack",
			runtime: runtimePHP, method: "eu-stack", shows: []string{"usleep"},
		},
		{
			name: "shell, sleeping", again: true, tool: tool("sh"), args: []string{"@sleeper.sh"}, native: "eu-stack",
			runtime: runtimeNative, method: "eu-stack", shows: []string{"nanosleep", "comm=sleep", "comm=sh"},
		},
		{
			name: "c, deadlock", args: []string{"@agent.c"}, native: "eu-stack",
			runtime: runtimeNative, method: "eu-stack", shows: []string{"dispatch", "flusher", "agent.c:13", "futex"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if racing && c.again {
				t.Skip("another program for the same steps of ours; it runs without the race detector")
			}
			if c.native != "" {
				sourcetest.RealBinary(t, c.native)
			}
			var argv []string
			for _, arg := range c.args {
				if before, name, ok := strings.Cut(arg, "@"); ok && c.tool == nil {
					arg = compiled(t, name)
				} else if ok {
					name, after, _ := strings.Cut(name, ";")
					arg = before + testProgram(t, name) + strings.TrimRight(";"+after, ";")
				}
				argv = append(argv, arg)
			}
			if c.tool != nil {
				argv = append([]string{c.tool(t)}, argv...)
			}
			a := startAgent(t, "ready", argv...)
			settle(t, a)
			if c.stuckBy != "" && !sourcetest.Eventually(captureRoom, func() bool {
				return slices.ContainsFunc(a.tree(t), func(p processStat) bool { return p.comm == c.stuckBy })
			}) {
				t.Fatalf("it does not run %s", c.stuckBy)
			}
			before := a.tree(t)
			// A busy machine may let a program come late to where it is stuck, or
			// keep the one that spins from a CPU in the very moment.
			var (
				store *DumpStore
				got   Capture
			)
			missing := func() (text string) {
				for _, text := range c.shows {
					if !strings.Contains(string(got.Text), text) {
						return text
					}
				}
				return ""
			}
			tries := 0
			sourcetest.Eventually(captureRoom, func() bool {
				want := a.want(c.want)
				want.Dump.Timeout = min(want.Dump.Timeout<<min(tries, 5), captureRoom)
				tries++ // a tool that reads a big binary may have been cut off
				store = NewDumpStore(t.TempDir())
				got = NewLadder(LadderOptions{Store: store}).Capture(t.Context(), want)
				return got.Method == c.method && missing() == ""
			})
			a.alive(t, before)

			if got.Method != c.method {
				t.Errorf("the dump is of %q, want %q", got.Method, c.method)
			}
			if text := missing(); text != "" {
				t.Errorf("the dump does not show %q", text)
			}
			for method, why := range c.skipped {
				if s := stepOf(t, got, method); s.Taken || !strings.Contains(s.Detail, why) {
					t.Errorf("step %s: taken %v, %q; want a reason with %q", method, s.Taken, s.Detail, why)
				}
			}
			list, err := store.List("indexer")
			if err != nil || len(list) != 1 || filepath.Ext(got.Path) != dumpSuffix {
				t.Fatalf("kept %d captures at %q: %v", len(list), got.Path, err)
			}
			h := list[0]
			if facts := value(h.Verdict) + ", " + value(h.Culprit); c.facts != "" && facts != c.facts {
				t.Errorf("it is told as %s, want %s", facts, c.facts)
			}
			if got.Kept != h.ID || got.Verdict != value(h.Verdict) {
				t.Errorf("the answer tells %q as %q, the store %q as %q", got.Kept, got.Verdict, h.ID, value(h.Verdict))
			}
			if h.Runtime != string(c.runtime) || h.Bytes != int64(len(got.Text)) || *h.Method != c.method {
				t.Errorf("recorded: runtime %s, %d bytes, by %v", h.Runtime, h.Bytes, *h.Method)
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("%s: %s, %s; steps:\n%s%.3000s", value(h.Format), value(h.Verdict), value(h.Culprit), describeSteps(got), got.Text)
			}
		})
	}
}

// value is what a field of a header holds.
func value(text *string) string {
	if text == nil {
		return "null"
	}
	return *text
}

// settle waits until a program has come to where it is stuck: its threads do not
// change any more.
func settle(t *testing.T, a *agent) {
	t.Helper()
	same, last := 0, -1
	sourcetest.Eventually(captureRoom, func() bool {
		n := 0
		for _, p := range a.tree(t) {
			n += p.threads
		}
		if n != last {
			same, last = 0, n
		}
		same++
		return same > 20
	})
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestCaptureOfDumpsOfAnyKind: a program may answer a signal in its own words,
// into its output or a file.
func TestCaptureOfDumpsOfAnyKind(t *testing.T) {
	python := sourcetest.RealBinary(t, "python3")
	file := filepath.Join(t.TempDir(), "stacks.txt")
	for _, c := range []struct {
		name, program, shows string
		mode                 config.DumpMode
		method               string
	}{
		{"its own words", "signal.signal(signal.SIGUSR2, lambda *_: print('state: waiting for', 'godot', flush=True))", "state: waiting for godot",
			config.DumpMode{Kind: config.DumpSignal, Signal: syscall.SIGUSR2}, "SIGUSR2"},
		{"print_stack", "signal.signal(signal.SIGUSR2, lambda s, f: traceback.print_stack(f))", "in wait_for_ever",
			config.DumpMode{Kind: config.DumpSignal, Signal: syscall.SIGUSR2}, "SIGUSR2"},
		{"into a file", "faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], 'a'))", "in wait_for_ever",
			config.DumpMode{Kind: config.DumpFile, File: file}, "SIGUSR1"},
		{"into a file, by itself", "faulthandler.dump_traceback(file=open(sys.argv[1], 'a'))", "in <module>",
			config.DumpMode{Kind: config.DumpFile, File: file + ".own"}, "file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := filepath.Join(t.TempDir(), "own.py")
			text := "import faulthandler, signal, sys, time, traceback\n" + c.program + `
def wait_for_ever():
    while True: time.sleep(60)
print("ready", flush=True)
wait_for_ever()
`
			if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			a := startAgent(t, "ready", python, source, firstOf(c.mode.File, file))
			settle(t, a)
			before := a.tree(t)
			got := NewLadder(LadderOptions{}).Capture(t.Context(), a.want(func(w *CaptureWant) {
				w.Dump.Mode, w.Dump.Native, w.Dump.Timeout = c.mode, config.NativeNever, time.Second
			}))
			a.alive(t, before)
			if got.Method != c.method || !strings.Contains(string(got.Text), c.shows) {
				t.Errorf("by %q, want %q with %q; steps:\n%s%.1000s", got.Method, c.method, c.shows, describeSteps(got), got.Text)
			}
		})
	}
}

// TestCaptureModes: what the settings name is done, and nothing else of the
// runtime's.
func TestCaptureModes(t *testing.T) {
	sleeper := startAgent(t, "ready", "sh", testProgram(t, "sleeper.sh"))
	settle(t, sleeper)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stacks" {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, "goroutine 1 [running]:\nmain.main()\n")
	}))
	defer server.Close()
	mode := func(m config.DumpMode) func(*CaptureWant) {
		return func(w *CaptureWant) { w.Dump.Mode, w.Dump.Native = m, config.NativeNever }
	}
	command := func(argv ...string) func(*CaptureWant) {
		return mode(config.DumpMode{Kind: config.DumpCommand, Command: argv})
	}
	for _, c := range []struct {
		name   string
		want   func(*CaptureWant)
		method string // empty: nothing is taken
		shows  string
		step   string // method whose reason is asked for
		why    string
	}{
		{name: "none", want: mode(config.DumpMode{Kind: config.DumpNone}), step: "any", why: "dump.mode is none"},
		{name: "command", want: command("echo", "stack of", "{pid}", "$HOME;id"), method: "command", shows: "stack of " + strconv.Itoa(sleeper.tree(t)[1].pid) + " $HOME;id\n"},
		{name: "command that fails", want: command("false", "{pid}"), method: "proc", step: "command", why: "status 1"},
		{name: "command that is silent", want: command("true"), method: "proc", step: "command", why: "printed nothing"},
		{name: "command that is not there", want: command("no-such-tool-here"), method: "proc", step: "command", why: "cannot be run"},
		{
			name: "command that hangs", method: "proc", step: "command", why: "did not end in time",
			want: func(w *CaptureWant) {
				command("sh", "-c", "sleep 3600 & sleep 3600")(w)
				w.Dump.Timeout = 300 * time.Millisecond
			},
		},
		{name: "http", want: mode(config.DumpMode{Kind: config.DumpHTTP, URL: server.URL + "/stacks"}), method: "http", shows: "main.main()"},
		{name: "http that refuses", want: mode(config.DumpMode{Kind: config.DumpHTTP, URL: server.URL + "/?token=hush"}), method: "proc", step: "http", why: "418"},
		{name: "signal that is not caught", want: mode(config.DumpMode{Kind: config.DumpSignal, Signal: syscall.SIGUSR1}), method: "proc", step: "SIGUSR1", why: "does not catch SIGUSR1"},
		{name: "signal that can never be", want: mode(config.DumpMode{Kind: config.DumpSignal, Signal: syscall.SIGKILL}), method: "proc", step: "SIGKILL", why: "yields no dump"},
		{name: "target by name", want: func(w *CaptureWant) { w.Dump.Target, w.Dump.Native = "sleeper.sh", config.NativeNever }, method: "proc", shows: "comm=sh"},
		{name: "target that is not there", want: func(w *CaptureWant) { w.Dump.Target = "uvicorn" }, method: "proc", step: "target", why: `called "uvicorn"`},
		{name: "process that is gone", want: func(w *CaptureWant) { w.Start++ }, step: "target", why: "another one's now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := sleeper.tree(t)
			got := NewLadder(LadderOptions{}).Capture(t.Context(), sleeper.want(c.want))
			sleeper.alive(t, before)
			if got.Method != c.method || !strings.HasPrefix(string(got.Text), c.shows) && !strings.Contains(string(got.Text), c.shows) {
				t.Errorf("by %q, want %q with %q:\n%s", got.Method, c.method, c.shows, got.Text)
			}
			if c.step == "" {
				return
			}
			if s := stepOf(t, got, c.step); s.Taken || !strings.Contains(s.Detail, c.why) || strings.Contains(s.Detail, "hush") {
				t.Errorf("step %s: taken %v, %q; want a reason with %q", c.step, s.Taken, s.Detail, c.why)
			}
		})
	}
}

// TestCaptureSendsNoSignalTooEarly: handlers are installed by code that may not
// have run yet.
func TestCaptureSendsNoSignalTooEarly(t *testing.T) {
	a := startAgent(t, "ready", sourcetest.RealBinary(t, "python3"), testProgram(t, "agent.py"))
	got := NewLadder(LadderOptions{}).Capture(t.Context(), a.want(func(w *CaptureWant) { w.Active, w.Dump.Native = false, config.NativeNever }))
	if s := stepOf(t, got, "SIGUSR1"); s.Taken || !strings.Contains(s.Detail, "no activity yet") {
		t.Errorf("SIGUSR1: taken %v, %q", s.Taken, s.Detail)
	}
	if text := string(a.out.Since(0)); strings.Contains(text, "most recent call first") {
		t.Errorf("it was signalled:\n%s", text)
	}
}

// TestCaptureOfStoppedProcess: it is seen, not signalled, and stays as it was.
func TestCaptureOfStoppedProcess(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "ready", sourcetest.RealBinary(t, "python3"), testProgram(t, "agent.py"))
	settle(t, a)
	if err := syscall.Kill(a.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := func() bool { p, err := readStat(a.cmd.Process.Pid); return err == nil && p.stopped() }
	if !sourcetest.Eventually(captureRoom, stopped) {
		t.Fatal("it does not stop")
	}
	got := NewLadder(LadderOptions{}).Capture(t.Context(), a.want(nil))
	if s := stepOf(t, got, "SIGUSR1"); s.Taken || !strings.Contains(s.Detail, "it is stopped") {
		t.Errorf("SIGUSR1: taken %v, %q", s.Taken, s.Detail)
	}
	if !strings.Contains(string(got.Text), "T (stopped)") {
		t.Errorf("the dump does not say that it is stopped:\n%.2000s", got.Text)
	}
	if !stopped() {
		t.Error("the capture continued it")
	}
}

// TestCaptureSamples: several looks at the same stack tell what moves.
func TestCaptureSamples(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "ready", sourcetest.RealBinary(t, "python3"), testProgram(t, "agent.py"))
	settle(t, a)
	store := NewDumpStore(t.TempDir())
	got := NewLadder(LadderOptions{Store: store}).Capture(t.Context(), a.want(func(w *CaptureWant) {
		w.Dump.Samples, w.Dump.Interval = 3, 50*time.Millisecond
	}))
	if n := strings.Count(string(got.Text), "in call_tool"); n != 3 {
		t.Errorf("%d dumps of 3; steps:\n%s", n, describeSteps(got))
	}
	list, err := store.List("indexer")
	if err != nil || len(list) != 1 {
		t.Fatalf("%d captures: %v", len(list), err)
	}
	var parts []string
	for _, p := range list[0].Parts {
		text := string(got.Text[p.Offset : p.Offset+p.Bytes])
		parts = append(parts, fmt.Sprintf("%s %d", p.Method, p.Sample))
		if p.Method == "SIGUSR1" && strings.Count(text, "in call_tool") != 1 || p.Method == "proc" && !strings.HasPrefix(text, "== tid") {
			t.Errorf("part %s %d is cut at the wrong place:\n%.300s", p.Method, p.Sample, text)
		}
	}
	if want := "SIGUSR1 1, SIGUSR1 2, SIGUSR1 3, proc 1, proc 2, proc 3"; strings.Join(parts, ", ") != want {
		t.Errorf("parts %v, want %s", parts, want)
	}
}

// TestCaptureHoldsItsTime: neither a mute process nor a caller's deadline makes
// it last.
func TestCaptureHoldsItsTime(t *testing.T) {
	a := startAgent(t, "ready", sourcetest.RealBinary(t, "python3"), "-c", `
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: None)
print("ready", flush=True)
while True: time.sleep(60)
`)
	settle(t, a)
	for _, c := range []struct {
		name   string
		caller time.Duration
		want   func(*CaptureWant)
	}{
		{"the caller's", 400 * time.Millisecond, nil},
		{"its budget", time.Hour, func(w *CaptureWant) { w.Dump.Budget = 400 * time.Millisecond }},
		{"a step's", time.Hour, func(w *CaptureWant) { w.Dump.Timeout = 400 * time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.caller)
			defer cancel()
			began := time.Now()
			got := NewLadder(LadderOptions{}).Capture(ctx, a.want(func(w *CaptureWant) {
				w.Dump.Native = config.NativeNever
				w.Dump.Samples, w.Dump.Interval = 2, 10*time.Millisecond
				if c.want != nil {
					c.want(w)
				}
			}))
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("it took %s", took)
			}
			if s := stepOf(t, got, "SIGUSR1"); s.Taken || !strings.Contains(s.Detail, "no dump within") && s.Detail != "no time was left" {
				t.Errorf("SIGUSR1: taken %v, %q", s.Taken, s.Detail)
			}
			if got.Method != "proc" {
				t.Errorf("by %q; steps:\n%s", got.Method, describeSteps(got))
			}
		})
	}
}

// TestCaptureBounds: max_bytes holds, and what is missing is said.
func TestCaptureBounds(t *testing.T) {
	a := startAgent(t, "ready", compiled(t, "goagent.go.txt"), "pprof", "addr")
	settle(t, a)
	got := NewLadder(LadderOptions{}).Capture(t.Context(), a.want(func(w *CaptureWant) { w.Dump.MaxBytes = 8 << 10 }))
	if n := len(got.Text); !got.Truncated || n > 9<<10 || !strings.Contains(string(got.Text), "bytes left out") || got.Method != "pprof" {
		t.Errorf("%d bytes by %q, truncated %v", n, got.Method, got.Truncated)
	}
}

// TestCaptureWithoutEuStack falls back to gdb, and says what is not installed.
func TestCaptureWithoutEuStack(t *testing.T) {
	gdb := sourcetest.RealBinary(t, "gdb")
	a := startAgent(t, "ready", compiled(t, "agent.c"))
	settle(t, a)
	before := a.tree(t)
	for _, c := range []struct{ has, method, shows string }{{"gdb", "gdb", "dispatch"}, {"", "proc", "futex"}} {
		got := NewLadder(LadderOptions{Tool: func(name string) (string, error) {
			if name == c.has {
				return gdb, nil
			}
			return "", exec.ErrNotFound
		}}).Capture(t.Context(), a.want(nil))
		a.alive(t, before)
		if got.Method != c.method || !strings.Contains(string(got.Text), c.shows) {
			t.Errorf("by %q, want %q; steps:\n%s", got.Method, c.method, describeSteps(got))
		}
		if s := stepOf(t, got, "eu-stack"); s.Detail != "eu-stack is not installed" {
			t.Errorf("eu-stack: %q", s.Detail)
		}
	}
}

// TestCaptureWakesWhatATracerLeftStopped: a tool that is killed while it attaches
// may leave the process stopped.
func TestCaptureWakesWhatATracerLeftStopped(t *testing.T) {
	a := startAgent(t, "ready", "sh", testProgram(t, "sleeper.sh"))
	settle(t, a)
	before := a.tree(t)
	tool := filepath.Join(t.TempDir(), "eu-stack")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nfor pid; do :; done\nkill -STOP $pid\nsleep 3600\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	got := NewLadder(LadderOptions{Tool: func(name string) (string, error) {
		if name == "eu-stack" {
			return tool, nil
		}
		return "", exec.ErrNotFound
	}}).Capture(t.Context(), a.want(func(w *CaptureWant) { w.Dump.Timeout = 500 * time.Millisecond }))
	a.alive(t, before)
	if s := stepOf(t, got, "eu-stack"); s.Taken || !strings.Contains(s.Detail, "continued by us") {
		t.Errorf("eu-stack: taken %v, %q", s.Taken, s.Detail)
	}
}

// TestCaptureDescribes keeps what a reader says of the best part, and survives
// one that fails.
func TestCaptureDescribes(t *testing.T) {
	a := startAgent(t, "ready", "sh", testProgram(t, "sleeper.sh"))
	for _, c := range []struct {
		name     string
		describe func([]byte, string) DumpFacts
		format   string
	}{
		{"told", func(text []byte, loop string) DumpFacts {
			if !strings.HasPrefix(string(text), "== tid") || loop != "reactor" {
				t.Errorf("asked about %.20q, loop %q", text, loop)
			}
			return DumpFacts{Format: "proc", Verdict: "unclear"}
		}, "proc"},
		{"panics", func([]byte, string) DumpFacts { panic("torn") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := NewDumpStore(t.TempDir())
			NewLadder(LadderOptions{Store: store, Describe: c.describe}).Capture(t.Context(), a.want(func(w *CaptureWant) {
				w.Dump.Native, w.Dump.LoopThread = config.NativeNever, "reactor"
			}))
			list, err := store.List("")
			if err != nil || len(list) != 1 {
				t.Fatalf("%d captures: %v", len(list), err)
			}
			if format := list[0].Format; (format == nil) != (c.format == "") || format != nil && *format != c.format {
				t.Errorf("format %v, want %q", format, c.format)
			}
		})
	}
}

// TestCaptureTakesTurns: when a fleet stalls at once, the machine is not given to
// tools, and one that gets no turn says so.
func TestCaptureTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ladder := NewLadder(LadderOptions{Busy: 1})
		ladder.busy <- struct{}{}
		began := time.Now()
		got := ladder.Capture(t.Context(), CaptureWant{ID: "a", Exited: true})
		if took := time.Since(began); took != 20*time.Second || !strings.Contains(describeSteps(got), "all the time there was") {
			t.Errorf("after %s:\n%s", took, describeSteps(got))
		}
		<-ladder.busy
		if got := ladder.Capture(t.Context(), CaptureWant{ID: "a", Exited: true}); stepOf(t, got, "output").Detail != "its output is not kept" {
			t.Errorf("its turn was not given back:\n%s", describeSteps(got))
		}
	})
}
