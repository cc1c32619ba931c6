package terminal

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// maxCopied is how much text terminals take by OSC 52; many cut the
	// encoded form at 100,000 bytes.
	maxCopied = 74_000
	// tmuxLimit bounds a call of tmux.
	tmuxLimit = 2 * time.Second
)

// ErrCopyTooLong says that a text does not fit into a terminal's clipboard
// sequence.
var ErrCopyTooLong = errors.New("too long to copy through the terminal (74,000 bytes at most): export it to a file instead")

// Copy puts text into the clipboard: by OSC 52, and inside tmux also into its
// own buffer, since tmux drops OSC 52 unless it was told otherwise. Whether the
// terminal took it cannot be known; show what was copied. done turns the
// outcome of what can be known into a message; nil: nobody wants to know.
func (t *Terminal) Copy(text string, done func(error) tea.Msg) tea.Cmd {
	answer := func(err error) tea.Msg {
		if done == nil {
			return nil
		}
		return done(err)
	}
	if len(text) > maxCopied {
		return func() tea.Msg { return answer(ErrCopyTooLong) }
	}
	toTmux := func() tea.Msg {
		if lookup(t.env, "TMUX") == "" {
			return answer(nil)
		}
		return answer(loadTmuxBuffer(context.Background(), t.env, text))
	}
	return tea.Batch(tea.SetClipboard(text), toTmux)
}

// loadTmuxBuffer gives text to the tmux that environ names, which passes it on
// to its own terminal.
func loadTmuxBuffer(ctx context.Context, environ []string, text string) error {
	ctx, cancel := context.WithTimeout(ctx, tmuxLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", "load-buffer", "-w", "-")
	cmd.Env = environ
	cmd.Stdin = strings.NewReader(text)
	cmd.WaitDelay = tmuxLimit / 4
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copying into tmux's buffer failed (%w): %s", err, CleanTitle(string(out)))
	}
	return nil
}
