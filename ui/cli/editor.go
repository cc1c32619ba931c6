package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/ui/terminal"
)

// editorCommand is the command that opens an editor at a line of a file that a
// stack dump names. The name is somebody else's: it is one argument, never read
// by a shell, and never an option.
func editorCommand(getenv func(string) string, path string, line int) (*exec.Cmd, error) {
	words := strings.Fields(getenv("VISUAL"))
	if len(words) == 0 {
		words = strings.Fields(getenv("EDITOR"))
	}
	if len(words) == 0 {
		return nil, errors.New("no editor is set; set VISUAL or EDITOR, such as EDITOR=vim")
	}
	program, err := exec.LookPath(words[0])
	if err != nil {
		return nil, fmt.Errorf("the editor %q cannot be found; set VISUAL or EDITOR to one that is installed", words[0])
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%q is no name of a file", path)
	}
	info, err := os.Stat(whole)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is not on this machine", whole)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", whole)
	}
	return exec.Command(program, append(words[1:len(words):len(words)], atLine(program, whole, line)...)...), nil
}

// atLine are the arguments by which an editor opens a file at a line.
func atLine(program, path string, line int) []string {
	if line <= 0 {
		return []string{path}
	}
	switch strings.TrimSuffix(filepath.Base(program), ".exe") {
	case "code", "codium", "cursor":
		return []string{"--goto", path + ":" + strconv.Itoa(line)}
	case "hx", "helix", "subl", "zed":
		return []string{path + ":" + strconv.Itoa(line)}
	}
	return []string{"+" + strconv.Itoa(line), path}
}

// lendEditor lends the terminal to the editor.
func (a *app) lendEditor(tty *terminal.Terminal) func(string, int) (tea.Cmd, error) {
	return func(path string, line int) (tea.Cmd, error) {
		command, err := editorCommand(a.env.getenv, path, line)
		if err != nil {
			return nil, err
		}
		return tty.Lend(command, ui.EditorClosed), nil
	}
}
