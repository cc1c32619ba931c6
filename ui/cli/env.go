package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
)

// Env is everything that a command takes from the process around it. Tests give
// their own; System gives the real one.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	StdoutTTY      bool // a person looks at it

	// Environ lists the environment as NAME=value; of a name that stands twice
	// the last one counts.
	Environ []string
	// Interrupts gives a context that ends at SIGINT, SIGTERM or SIGHUP. A
	// second signal after that kills the process, so nobody is trapped.
	Interrupts func(parent context.Context) (context.Context, context.CancelFunc)

	wrap func(tea.Model) tea.Model // tests put something between terminal and screen; nil
}

func (e Env) onScreen(model tea.Model) tea.Model {
	if e.wrap == nil {
		return model
	}
	return e.wrap(model)
}

// System is the Env of the running process.
func System() Env {
	return Env{
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		StdoutTTY:  term.IsTerminal(os.Stdout.Fd()),
		Environ:    os.Environ(),
		Interrupts: interrupts,
	}
}

func interrupts(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Once interrupted, the default handling is restored: the second one kills.
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// getenv reads a variable; unset and empty are the same.
func (e Env) getenv(name string) string {
	for _, pair := range slices.Backward(e.Environ) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
