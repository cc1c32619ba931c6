package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// drainPatience is how long the end of the output is waited for once nothing
// of a run is left: a pipe that a foreign process holds must not hang it.
const drainPatience = 2 * time.Second

// command is what is started.
type command struct {
	argv  []string
	dir   string
	env   []string
	pty   bool
	mark  string  // in env: finds what left the group
	group *cgroup // nil: none could be made
}

// child is one run of a command: the leader of a session and a process group of
// its own. Its methods may be called from any goroutine.
type child struct {
	cmd   *exec.Cmd
	pid   int
	start uint64 // clock ticks since boot; 0 not known
	mark  string
	group *cgroup
	table *processTable

	mu     sync.Mutex // signals are sent under it, and only before the reap
	reaped bool
	term   bool // SIGTERM was asked for
	kill   bool // SIGKILL was

	asked   chan struct{} // term or kill changed, or abandon
	abandon chan struct{}
	pipes   []*os.File // read ends
	drained sync.WaitGroup
}

// errEmptyCommand: there is nothing to start.
var errEmptyCommand = errors.New("the command is empty; give a program and its arguments")

// CheckCommand tells why a command could not be started at all, in the words in
// which its start would fail. nil: nothing speaks against it.
func CheckCommand(argv []string, dir string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errEmptyCommand
	}
	if dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return fmt.Errorf("%s cannot be started in %s: %w", argv[0], dir, bare(err))
		} else if !info.IsDir() {
			return fmt.Errorf("%s cannot be started in %s: %w", argv[0], dir, syscall.ENOTDIR)
		}
	}
	path := argv[0]
	if filepath.Base(path) != path && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
		if !filepath.IsAbs(path) {
			path = "." + string(filepath.Separator) + path
		}
	}
	if _, err := exec.LookPath(path); err != nil {
		return fmt.Errorf("%s cannot be started: %w", argv[0], bare(err))
	}
	return nil
}

// NotStarted is what a shell answers for a command that failed so: 127 if it is
// not there, 126 if it cannot be run.
func NotStarted(err error) int {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return exitNotStarted
	}
	return exitNotStarted - 1
}

// startChild starts a command. out is given what it writes, on goroutines of
// its own, until the run has ended.
func startChild(s *spawner, table *processTable, c command, out func(stream Stream, chunk []byte)) (*child, error) {
	if len(c.argv) == 0 || c.argv[0] == "" {
		return nil, errEmptyCommand
	}
	ch, err := c.start(s, table, out)
	if err != nil && c.group != nil {
		// The kernel may refuse the group for many reasons; the child is worth
		// more than it.
		c.group.close()
		c.group = nil
		ch, err = c.start(s, table, out)
	}
	return ch, err
}

func (c command) start(s *spawner, table *processTable, out func(stream Stream, chunk []byte)) (*child, error) {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.SysProcAttr = ownSession()
	c.group.start(cmd.SysProcAttr)
	ch := &child{cmd: cmd, mark: c.mark, group: c.group, table: table, asked: make(chan struct{}, 1), abandon: make(chan struct{})}
	streams, theirs, err := ch.open(c.pty)
	if err != nil {
		return nil, err
	}
	err = s.start(cmd)
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		ch.closePipes()
		return nil, fmt.Errorf("%s cannot be started: %w", c.argv[0], bare(err))
	}
	ch.pid = cmd.Process.Pid
	ch.start = startOf(ch.pid)
	table.own(ch.pid)
	for i, f := range ch.pipes {
		ch.drained.Go(func() { drain(f, streams[i], out) })
	}
	return ch, nil
}

// bare is err without the path that its sentence names already.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	var name *exec.Error
	if errors.As(err, &name) {
		return name.Err
	}
	return err
}

// open makes the pipes or the terminal of the child, and gives the streams of
// our ends and the files that are its own.
func (c *child) open(terminal bool) (streams []Stream, theirs []*os.File, err error) {
	if terminal {
		ours, its, err := pty.Open()
		if err != nil {
			return nil, nil, fmt.Errorf("no terminal can be opened for it: %w; set pty to false", err)
		}
		_ = pty.Setsize(its, &pty.Winsize{Rows: ptyRows, Cols: ptyColumns})
		c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = its, its, its
		c.cmd.SysProcAttr.Setctty = true // of its stdin
		c.pipes = []*os.File{ours}
		return []Stream{Stdout}, []*os.File{its}, nil
	}
	for _, end := range []struct {
		stream Stream
		dst    *io.Writer
	}{{Stdout, &c.cmd.Stdout}, {Stderr, &c.cmd.Stderr}} {
		ours, its, err := os.Pipe()
		if err != nil {
			c.closePipes()
			for _, f := range theirs {
				_ = f.Close()
			}
			return nil, nil, fmt.Errorf("no pipe can be opened for its output: %w; raise the limit of open files", err)
		}
		*end.dst = its
		c.pipes, theirs, streams = append(c.pipes, ours), append(theirs, its), append(streams, end.stream)
	}
	return streams, theirs, nil
}

// The size of a child's terminal: wide enough that few lines are folded.
const (
	ptyRows    = 50
	ptyColumns = 160
)

// drain reads until the end, whatever becomes of the bytes: a child is never
// blocked by its own output.
func drain(f *os.File, stream Stream, out func(Stream, []byte)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			out(stream, buf[:n])
		}
		if err != nil { // EOF; EIO of a terminal; closed by us
			return
		}
	}
}

func (c *child) closePipes() {
	for _, f := range c.pipes {
		_ = f.Close()
	}
}

// terminate asks for a SIGTERM to all of the run.
func (c *child) terminate() {
	c.mu.Lock()
	c.term = true
	c.mu.Unlock()
	c.wake()
	_, _ = c.members() // while ancestry still tells what is ours
	c.signalGroup(syscall.SIGTERM)
}

// destroy asks for a SIGKILL to all of the run, again and again until nothing is
// left: what forks while it is killed is killed too.
func (c *child) destroy() {
	c.mu.Lock()
	c.kill = true
	c.mu.Unlock()
	c.wake()
	rest, _ := c.members()
	c.signalGroup(syscall.SIGKILL)
	c.group.kill()
	for _, m := range rest {
		if m.pid != c.pid {
			c.table.signal(m, syscall.SIGKILL)
		}
	}
}

// giveUp lets the run end although some of it survives.
func (c *child) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.abandon:
	default:
		close(c.abandon)
	}
}

func (c *child) wake() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// signalGroup signals the group while its number is still held by the leader,
// which may have ended but is not reaped.
func (c *child) signalGroup(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || c.pid <= 1 {
		return
	}
	_ = syscall.Kill(-c.pid, sig)
}

// watch waits for the end of the leader and then of all the rest, reaps, and
// returns when the output is at its end. It calls exited once, and gives what
// survives.
func (c *child) watch(exited func(watchdog.Exit)) (survivors []int) {
	exit := c.awaitExit()
	exited(exit)
	survivors = c.awaitEmpty()
	c.reap()
	done := make(chan struct{})
	go func() {
		c.drained.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainPatience):
	}
	c.closePipes()
	<-done
	c.group.close()
	return survivors
}

// The pace at which the rest of a run is looked for.
const (
	firstLook = 2 * time.Millisecond
	slowLook  = 100 * time.Millisecond
)

// awaitEmpty returns when nothing of the run is left, or when it is given up.
func (c *child) awaitEmpty() []int {
	termed := map[member]bool{}
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		rest, sure := c.members()
		if len(rest) == 0 && sure {
			return nil
		}
		if len(rest) == 0 {
			pause = firstLook // it will be told in a moment
		}
		c.mu.Lock()
		term, kill := c.term, c.kill
		c.mu.Unlock()
		for _, p := range rest {
			switch {
			case kill:
				c.table.signal(p, syscall.SIGKILL)
			case term && !termed[p]:
				termed[p] = true
				c.table.signal(p, syscall.SIGTERM)
			}
		}
		select {
		case <-c.abandon:
			pids := make([]int, len(rest))
			for i, p := range rest {
				pids[i] = p.pid
			}
			return pids
		case <-c.asked:
			pause = firstLook
		case <-time.After(pause):
		}
	}
}

// members are the live processes of the run.
func (c *child) members() (live []member, sure bool) {
	grouped := c.group.pids()
	live, sure = c.table.members(c.pid, c.mark, grouped)
	return live, sure && len(grouped) == 0
}

// reap takes the exit status of the leader; its number may then be given again.
func (c *child) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	c.reaped = true
	_ = c.cmd.Wait() // the status is known already
	c.table.disown(c.pid)
}
