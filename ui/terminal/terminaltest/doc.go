// Package terminaltest drives programs on real terminals in tests: on a
// pseudo-terminal with an emulated screen (PTY), whose every byte is in the
// test's hand, and in a real tmux (Tmux).
//
// It owns the terminal, the process on it, and waiting with a limit. It knows
// nothing of any screen's content, and is never part of a program.
//
// A program that is to be suspended needs a shell that continues it: start the
// shell in the rig and type the command (see Shell).
package terminaltest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Patience is how long the rigs wait for what must come at last. It is long,
// since a busy machine is no fault; what must be fast measures by itself.
const Patience = 20 * time.Second

// Size is a screen's size in cells.
type Size struct{ Columns, Rows int }

// The sizes for which screens are designed.
var (
	Small  = Size{40, 10}
	Normal = Size{80, 24}
	Large  = Size{120, 40}
	Huge   = Size{200, 60}
)

// Poll waits until condition holds, and fails the test with what() if it does
// not within Patience.
func Poll(t testing.TB, condition func() bool, what func() string) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal(what())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Shell is an interactive shell without anyone's settings, with the prompt
// "ready$ ". It skips the test if there is no bash.
func Shell(t testing.TB) *exec.Cmd {
	t.Helper()
	bash := Need(t, "bash")
	cmd := exec.Command(bash, "--norc", "--noprofile", "-i")
	cmd.Env = append(Environ("TERM=xterm-256color"), "PS1=ready$ ", "HISTFILE=")
	return cmd
}

// Need finds a program. A test that needs one that is missing is skipped, or
// fails if SESSIONWATCH_TEST_REAL=1.
func Need(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("SESSIONWATCH_TEST_REAL") == "1":
		t.Fatalf("%s is not installed, and SESSIONWATCH_TEST_REAL=1 demands it", name)
	default:
		t.Skipf("%s is not installed", name)
	}
	return path
}

// Environ is the environment of the test without what tells of the terminal it
// happens to run on, in a UTF-8 locale, and with the entries given.
func Environ(entries ...string) []string {
	drop := []string{
		"TERM=", "TERM_PROGRAM", "TMUX", "COLORTERM=", "NO_COLOR=", "CLICOLOR", "COLORFGBG=",
		"SSH_", "LANG=", "LC_", "COLUMNS=", "LINES=", "TEA_",
	}
	env := []string{"LANG=C.UTF-8"}
next:
	for _, e := range os.Environ() {
		for _, d := range drop {
			if strings.HasPrefix(e, d) {
				continue next
			}
		}
		env = append(env, e)
	}
	return append(env, entries...)
}

// settings is what stty says of a terminal device, in the form it reads again.
func settings(t testing.TB, device string) string {
	t.Helper()
	cmd := exec.Command(Need(t, "stty"), "-g")
	f, err := os.OpenFile(device, os.O_RDWR|noctty, 0)
	if err != nil {
		t.Fatalf("opening %s: %v", device, err)
	}
	defer f.Close()
	cmd.Stdin = f
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("stty -g on %s: %v: %s", device, err, out)
	}
	return strings.TrimSpace(string(out))
}

// quoted frames a screen for a failure's text.
func quoted(screen string) string {
	return fmt.Sprintf("--- screen\n%s\n---", strings.TrimRight(screen, "\n"))
}
