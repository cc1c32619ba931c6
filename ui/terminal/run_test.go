package terminal

import (
	"context"
	"errors"
	"io"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"go.uber.org/goleak"
)

// doing is a model that does one thing when it is shown.
type doing struct{ cmd tea.Cmd }

func (d doing) Init() tea.Cmd                       { return d.cmd }
func (d doing) Update(tea.Msg) (tea.Model, tea.Cmd) { return d, nil }
func (d doing) View() tea.View                      { return tea.NewView("shown") }

func TestRunLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	master, slave := openPair(t)
	go func() { _, _ = io.Copy(io.Discard, master) }()
	before, err := term.GetState(slave.Fd())
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := Open(Config{In: slave, Out: slave, Env: []string{"TERM=xterm-256color", "LANG=C.UTF-8"}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := terminal.Run(t.Context(), doing{tea.Quit}, Options{Capabilities: Probe(terminal.env)})
	if err != nil || result.Signal != nil {
		t.Errorf("quit: %v, %v", result.Signal, err)
	}
	if _, ok := result.Model.(doing); !ok {
		t.Errorf("the model came back as %T", result.Model)
	}

	ctx, cancel := context.WithCancel(t.Context())
	_, err = terminal.Run(ctx, doing{func() tea.Msg { cancel(); return nil }}, Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	after, err := term.GetState(slave.Fd())
	if err != nil || *after != *before {
		t.Errorf("the state of the terminal: %v\n%+v\n%+v", err, after, before)
	}
	terminal.Close()
	terminal.Close()
	terminal.Restore()
	_ = slave.Close()
	_ = master.Close()
}

func TestRunOneModelAtATime(t *testing.T) {
	master, slave := openPair(t)
	go func() { _, _ = io.Copy(io.Discard, master) }()
	terminal, err := Open(Config{In: slave, Out: slave, Env: []string{"TERM=xterm"}})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	second := make(chan error, 1)
	_, err = terminal.Run(t.Context(), doing{func() tea.Msg {
		_, err := terminal.Run(t.Context(), doing{}, Options{})
		second <- err
		return tea.QuitMsg{}
	}}, Options{})
	if err != nil {
		t.Error(err)
	}
	if err := <-second; !errors.Is(err, ErrRunning) {
		t.Errorf("the second one: %v", err)
	}
}
