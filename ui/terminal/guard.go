package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// reportLimit is how long the end of the process waits for a report of the
// panic to be written: standard error may be the terminal that takes nothing.
const reportLimit = 500 * time.Millisecond

// faultNotice is the first line after a fault.
const faultNotice = "sessionwatch ended after a fault of its own; the terminal has been restored.\n"

// Guard runs f. If it panics, the terminal is restored, panic and stack go to
// standard error and to the crash file, and the process exits with ExitFault.
// Every goroutine of ours that lives beside a screen runs under it: Go itself
// would end the process with the terminal still raw, unless there is a guardian.
func (t *Terminal) Guard(f func()) {
	defer t.catch()
	f()
}

// Go starts a guarded goroutine.
func (t *Terminal) Go(f func()) { go t.Guard(f) }

// catch must be deferred directly.
func (t *Terminal) catch() {
	if r := recover(); r != nil {
		t.fault(r, debug.Stack())
	}
}

// fault ends the process after a panic. The first one wins.
func (t *Terminal) fault(r any, stack []byte) {
	if !t.faulted.CompareAndSwap(false, true) {
		select {}
	}
	t.Restore()
	t.report(fmt.Appendf(nil, "panic: %v\n\n%s", r, stack))
	t.exit(ExitFault)
}

// report writes a panic to the crash file and to standard error, both within
// the limit.
func (t *Terminal) report(text []byte) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		where := ""
		if t.crash != "" {
			if err := writeCrash(t.crash, text); err != nil {
				where = fmt.Sprintf("The report could not be kept: %v\n", err)
			} else {
				where = fmt.Sprintf("The report is also in %s\n", t.crash)
			}
		}
		_, _ = fmt.Fprintf(t.stderr, "%s%s%s", faultNotice, where, text)
	}()
	timer := time.NewTimer(reportLimit)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
}

// writeCrash appends a report to the crash file.
func writeCrash(path string, text []byte) error {
	f, err := openCrash(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// openCrash opens a file that only we may read, to append to it.
func openCrash(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
}

// guarded is the model that Bubble Tea sees: the screen's own, under Guard.
type guarded struct {
	model tea.Model
	t     *Terminal
}

func (g *guarded) Init() tea.Cmd {
	defer g.t.catch()
	cmds := []tea.Cmd{g.t.guardCmd(g.model.Init())}
	width, height := g.t.painter.size()
	for _, msg := range []tea.Msg{tea.ColorProfileMsg{Profile: g.t.painter.profile}, tea.WindowSizeMsg{Width: width, Height: height}} {
		model, cmd := g.model.Update(msg)
		g.model = model
		cmds = append(cmds, g.t.guardCmd(cmd))
	}
	return tea.Batch(cmds...)
}

func (g *guarded) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	defer g.t.catch()
	p := g.t.painter
	switch m := msg.(type) {
	case tea.KeyPressMsg, tea.MouseMsg, tea.PasteMsg:
		p.hasten()
	case tea.WindowSizeMsg:
		p.erase(m.Width, m.Height)
	case tea.ModeReportMsg:
		p.learn(m)
	}
	if msg == tea.ClearScreen() {
		p.erase(p.size())
	}
	model, cmd := g.model.Update(msg)
	g.model = model
	return g, g.t.guardCmd(cmd)
}

// View draws, and shows Bubble Tea nothing.
func (g *guarded) View() tea.View {
	defer g.t.catch()
	v := g.model.View()
	v.WindowTitle = CleanTitle(v.WindowTitle)
	g.t.painter.show(v)
	return tea.View{}
}

// guardCmd puts a command, and those that it may return, under Guard.
func (t *Terminal) guardCmd(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() tea.Msg {
		defer t.catch()
		msg := cmd()
		t.guardList(msg)
		return msg
	}
}

// guardList guards the commands of a batch or a sequence in place. The type of
// a sequence is not exported, so what counts is that it is a list of commands.
func (t *Terminal) guardList(msg tea.Msg) {
	list := reflect.ValueOf(msg)
	if !list.IsValid() || list.Kind() != reflect.Slice || list.Type().Elem() != reflect.TypeFor[tea.Cmd]() {
		return
	}
	for i := range list.Len() {
		cmd, _ := list.Index(i).Interface().(tea.Cmd)
		list.Index(i).Set(reflect.ValueOf(t.guardCmd(cmd)))
	}
}

// Stderr is where reports go.
func (t *Terminal) Stderr() io.Writer { return t.stderr }
