package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// toolError bounds what is kept of a tool's own words.
const toolError = 2 << 10

// runTool runs an argv, never a shell, and gives what it wrote to stdout. When
// ctx ends, its whole group is killed, and its pipes are waited for no longer
// than a moment.
func runTool(ctx context.Context, argv []string, limit int64) (taking, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, complaint := &clipWriter{limit: limit}, &clipWriter{limit: toolError}
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.Dir = "/" // some tools read their settings from where they stand
	cmd.Env = toolEnvironment(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 500 * time.Millisecond
	err := cmd.Run()
	var got taking
	got.text, got.cut = out.text()
	if cmd.ProcessState != nil {
		code := cmd.ProcessState.ExitCode()
		got.exit = &code
	}
	said, _ := complaint.text()
	words := termtext.Clean(strings.Join(strings.Fields(string(said)), " "))
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return got, fmt.Errorf("%s did not end in time and was killed", filepath.Base(argv[0]))
	case errors.As(err, &exit):
		return got, &toolFailure{tool: filepath.Base(argv[0]), code: exit.ExitCode(), words: words}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return got, fmt.Errorf("%s could not be run: %w", argv[0], err)
	}
	got.note = words
	return got, nil
}

// toolFailure is a tool that said by its status that it failed.
type toolFailure struct {
	tool, words string
	code        int
}

func (f *toolFailure) Error() string {
	text := fmt.Sprintf("%s ended with status %d", f.tool, f.code)
	if f.words != "" {
		text += ": " + f.words
	}
	return text
}

// toolEnvironment leaves out what tools of dumps have no business with: the
// addresses of our buses, which may hold passwords, and where symbols could be
// fetched from over the network.
func toolEnvironment(ours []string) []string {
	env := make([]string, 0, len(ours))
	for _, v := range ours {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case name == "NATS_URL", name == "REDIS_URL", name == "DEBUGINFOD_URLS", name == "NOTIFY_SOCKET", strings.HasPrefix(name, "SESSIONWATCH_"):
		default:
			env = append(env, v)
		}
	}
	return env
}

// toolRung runs a tool on the target. A tool that answers must show one of the
// lines that make a dump of it: some end with status 0 without one.
func (c *capturing) toolRung(name string, g grade, must string, argv func(path, pid string) []string) rung {
	path, missing := c.ladder.opts.Tool(name)
	return rung{
		method: name, grade: g,
		skip: func() string {
			if missing != nil {
				return name + " is not installed"
			}
			return ""
		},
		take: func(ctx context.Context, limit int64) (taking, error) {
			got, err := runTool(ctx, argv(path, strconv.Itoa(c.target.pid)), limit)
			if bytes.Contains(got.text, []byte(must)) {
				if err != nil { // a stack that could not be followed to its end, say
					got.note = err.Error()
				}
				got.cut = got.cut || ctx.Err() != nil
				return got, nil
			}
			if err == nil {
				err = fmt.Errorf("%s gave no stacks: %s", name, firstOf(got.note, termtext.Clean(lastLine(got.text)), "it said nothing"))
			}
			return got, err
		},
	}
}

// commandRung runs the command of the settings.
func (c *capturing) commandRung(command []string) rung {
	return rung{
		method: "command", grade: gradeRuntime,
		skip: func() string { return "" },
		take: func(ctx context.Context, limit int64) (taking, error) {
			argv := make([]string, len(command))
			for i, word := range command {
				argv[i] = strings.ReplaceAll(word, "{pid}", strconv.Itoa(c.target.pid))
			}
			path, err := c.ladder.opts.Tool(argv[0])
			if err != nil {
				return taking{}, fmt.Errorf("the command of dump.mode cannot be run: %w", err)
			}
			argv[0] = path
			got, err := runTool(ctx, argv, limit)
			if err == nil && len(bytes.TrimSpace(got.text)) == 0 {
				err = fmt.Errorf("%s printed nothing: %s", argv[0], firstOf(got.note, "no error either"))
			}
			return got, err
		},
	}
}

// jcmdRung asks a Java machine by its own tool, of its own release if it has
// one. Attaching sends SIGQUIT unless the machine has opened its door already, so
// it holds to the same rule.
func (c *capturing) jcmdRung() rung {
	r := c.toolRung("jcmd", gradeRuntime, "Full thread dump ", func(path, pid string) []string {
		return []string{path, pid, "Thread.print", "-l", "-e"}
	})
	if own := filepath.Join(filepath.Dir(c.target.exe), "jcmd"); filepath.IsAbs(own) {
		if info, err := os.Stat(own); err == nil && info.Mode().IsRegular() {
			r = c.toolRung("jcmd", gradeRuntime, "Full thread dump ", func(_, pid string) []string {
				return []string{own, pid, "Thread.print", "-l", "-e"}
			})
			r.skip = func() string { return "" }
		}
	}
	installed := r.skip
	r.skip = func() string {
		if why := installed(); why != "" {
			return why
		}
		sets, err := readSignals(c.target.pid)
		switch {
		case err != nil:
			return err.Error()
		case c.target.stopped():
			return "it is stopped: it would not answer"
		case !has(sets.caught|sets.ignored, int(syscall.SIGQUIT)) && !attachable(c.target.pid):
			return "it does not catch SIGQUIT, which jcmd sends and which would end it"
		}
		return ""
	}
	return r
}

// attachable reports whether a Java machine listens for its tools already.
func attachable(pid int) bool {
	info, err := os.Lstat(fmt.Sprintf("/proc/%d/root/tmp/.java_pid%d", pid, pid))
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// pySpyRung reads the interpreter's stacks from outside.
func (c *capturing) pySpyRung() rung {
	return c.traced(c.toolRung("py-spy", gradeRuntime, "Thread ", func(path, pid string) []string {
		return []string{path, "dump", "--pid", pid}
	}))
}

// euStackRung is quick, and sees every thread, but no parked goroutine.
func (c *capturing) euStackRung() rung {
	return c.traced(c.toolRung("eu-stack", gradeNative, "\n#0 ", func(path, pid string) []string {
		return []string{path, "-v", "-s", "-p", pid} // with libraries, files and lines
	}))
}

func (c *capturing) gdbRung() rung {
	return c.traced(c.toolRung("gdb", gradeNative, "\n#0 ", func(path, pid string) []string {
		return []string{path, "-nx", "-batch", "-p", pid, "-iex", "set auto-load no", "-ex", "set pagination off", "-ex", "thread apply all bt"}
	}))
}

// traced makes a rung of a tool that halts the process for a moment: it is for
// dump.native to allow, and must leave the process as it was.
func (c *capturing) traced(r rung) rung {
	skip, take := r.skip, r.take
	r.skip = func() string {
		if c.want.Dump.Native == config.NativeNever {
			return "dump.native is never"
		}
		return skip()
	}
	r.take = func(ctx context.Context, limit int64) (taking, error) {
		before := c.target.state
		got, err := take(ctx, limit)
		if before != 'T' && before != 't' && c.wake() {
			got.note = joined(got.note, "it was left stopped, and continued by us")
		}
		return got, err
	}
	return r
}

// wake continues a target that a tracer left stopped, as one does that was
// killed while it attached.
func (c *capturing) wake() bool {
	for range 10 {
		if c.alive() != "" || !c.target.stopped() {
			return false
		}
		if c.target.state == 'T' {
			return c.signal(syscall.SIGCONT) == nil
		}
		time.Sleep(outputPoll) // the kernel has not let go of it yet
	}
	return false
}

// joined puts two remarks into one.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
