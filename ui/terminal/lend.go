package terminal

import (
	"errors"
	"io"
	"os/exec"

	tea "charm.land/bubbletea/v2"
)

// Lend gives the terminal to a command, such as an editor, and takes it again
// when that has ended. done turns its outcome into a message; nil: nobody
// wants to know. While it is lent, ctrl+c and ctrl+z are the command's.
func (t *Terminal) Lend(cmd *exec.Cmd, done func(error) tea.Msg) tea.Cmd {
	return tea.Exec(&lending{t: t, cmd: cmd}, func(err error) tea.Msg {
		if done == nil {
			return nil
		}
		return done(err)
	})
}

// Lent reports whether a command has the terminal. The program's loop waits
// for it meanwhile, which is not a wedge.
func (t *Terminal) Lent() bool { return t.lent.Load() }

// lending runs a command on the bare terminal: it must not read through our
// filter, nor start before our last frame is out.
type lending struct {
	t   *Terminal
	cmd *exec.Cmd
}

func (l *lending) SetStdin(io.Reader)  {}
func (l *lending) SetStdout(io.Writer) {}
func (l *lending) SetStderr(io.Writer) {}

// Run runs the command while Bubble Tea stands aside.
func (l *lending) Run() error {
	t := l.t
	t.lent.Store(true)
	defer t.lent.Store(false)
	t.out.Flush(flushLimit)
	t.Restore()
	l.cmd.Stdin, l.cmd.Stdout = t.in.file, t.out.file
	if l.cmd.Stderr == nil {
		l.cmd.Stderr = t.out.file
	}
	err := l.cmd.Run()
	defer t.askSize()
	return errors.Join(err, t.take())
}
