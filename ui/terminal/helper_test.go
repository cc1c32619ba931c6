package terminal_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// The test binary runs itself again as the program on the terminal.
const (
	helperVariable = "SESSIONWATCH_TERMINAL_HELPER" // "screen"; "busy": draws without being asked; "tidies": takes a while to end
	reportVariable = "SESSIONWATCH_TERMINAL_REPORT" // a file for what cannot be seen on the screen
	bareVariable   = "SESSIONWATCH_TERMINAL_BARE"   // "1": without a guardian
	waitVariable   = "SESSIONWATCH_TERMINAL_WAIT"   // how long it waits for answers when it gives the terminal back
)

func TestMain(m *testing.M) {
	if terminal.BeGuardian(os.Args[1:], os.Environ()) {
		syscall.Exit(0) // os.Exit takes a second with the race detector, whose setting a guardian does not know
	}
	if mode := os.Getenv(helperVariable); mode != "" {
		os.Exit(helper(mode))
	}
	sourcetest.AtOnce(8) // they wait for programs
	os.Exit(m.Run())
}

// helperCommand is the program, to be started in a rig.
func helperCommand(t *testing.T, mode string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = terminaltest.Environ(append(env, "TERM=xterm-256color", helperVariable+"="+mode)...)
	return cmd
}

// helperLine is the same as a line for a shell.
func helperLine(t *testing.T, mode string) string {
	return fmt.Sprintf("%s=%s %s", helperVariable, mode, helperCommand(t, mode).Path)
}

func helper(mode string) int {
	term, err := terminal.Open(terminal.Config{CrashFile: os.Getenv("SESSIONWATCH_TERMINAL_CRASH"), Guardian: os.Getenv(bareVariable) == ""})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer term.Close()
	if wait, err := time.ParseDuration(os.Getenv(waitVariable)); err == nil {
		term.AwaitAnswers(wait)
	}
	model := &screen{term: term, report: os.Getenv(reportVariable), busy: mode == "busy"}
	result, err := term.Run(context.Background(), model, terminal.Options{
		Capabilities: terminal.Probe(os.Environ()),
		Translate:    func(n terminal.Notice) tea.Msg { return n },
		Started: func(send func(tea.Msg)) {
			if mode == "busy" {
				term.Go(func() {
					for {
						send(tickMsg{})
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
		},
	})
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	case result.Signal != nil:
		if mode == "tidies" {
			_ = os.WriteFile(model.report, []byte("tidies"), 0o600)
			time.Sleep(300 * time.Millisecond) // it puts away what it holds
		}
		fmt.Fprintf(os.Stderr, "ended by %v\n", result.Signal)
		return 3
	}
	return 0
}

type tickMsg struct{}

// screen is a model that shows what reached it.
type screen struct {
	term    *terminal.Terminal
	report  string
	busy    bool
	width   int
	height  int
	updates int
	frozen  int
	keys    []string
	notes   []string
}

func (s *screen) Init() tea.Cmd { return tea.RequestBackgroundColor }

func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	s.updates++
	if s.report != "" {
		_ = os.WriteFile(s.report, fmt.Appendf(nil, "%d", s.updates), 0o600)
	}
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		s.note("background")
	case tea.ResumeMsg:
		s.note("resumed")
	case tea.PasteMsg:
		s.note("paste:" + msg.Content)
	case terminal.Drained:
		s.note(fmt.Sprintf("drained:%v", msg.Dropped > 0))
	case terminal.SuspendRefused:
		s.note("refused")
	case terminal.Glyphs:
		s.note(fmt.Sprintf("wide:%v", msg.Wide))
	case tea.KeyPressMsg:
		return s, s.key(msg.String())
	}
	return s, nil
}

func (s *screen) note(text string) { s.notes = append(s.notes, text) }

func (s *screen) key(key string) tea.Cmd {
	s.keys = append(s.keys, key)
	switch key {
	case "q":
		return tea.Quit
	case "x":
		s.frozen = s.updates
	case "p":
		panic("in Update")
	case "g":
		s.term.Go(func() { panic("in a goroutine") })
	case "c":
		return func() tea.Msg { panic("in a command") }
	case "b":
		return tea.Batch(tea.ClearScreen, func() tea.Msg { panic("in a batch") })
	case "s":
		return tea.Sequence(tea.ClearScreen, func() tea.Msg { panic("in a sequence") })
	case "w":
		_ = os.WriteFile(s.report, []byte("wedged"), 0o600)
		select {}
	case "u", "h", "m", "o", "e":
		unguarded(key)
	case "y":
		return s.term.Copy("copied text", func(err error) tea.Msg { return nil })
	case "v":
		return s.term.Lend(exec.Command("sh", "-c", "printf 'lent: '; stty | grep -c -- -icanon; read line; exit 0"), nil)
	case "ctrl+z":
		return tea.Suspend
	}
	return nil
}

// unguarded does what a library could do, beyond the reach of any Guard.
func unguarded(key string) {
	switch key {
	case "u":
		go func() { panic("out of bounds") }()
	case "h":
		go func() { panic("bad\x1b]52;c;aGk=\a value") }()
	case "m":
		shared := map[int]int{}
		for range 8 {
			go func() {
				for i := 0; ; i++ {
					shared[i%7] = i
				}
			}()
		}
	case "o":
		debug.SetMaxStack(1 << 20)
		go overflow(0)
	case "e":
		fmt.Fprintln(os.Stderr, "a complaint\x1b]52;c;aGk=\a of a library")
	}
}

// overflow never ends by itself: the stack ends it.
func overflow(n int) int {
	if n < 0 {
		return 0
	}
	return overflow(n+1) + n
}

func (s *screen) View() tea.View {
	var b strings.Builder
	fmt.Fprintf(&b, "SCREEN %dx%d\nkeys %s\nnotes %s\n", s.width, s.height, strings.Join(s.keys, " "), strings.Join(s.notes, " "))
	if s.busy {
		at := s.updates
		if s.frozen > 0 {
			at = s.frozen
			fmt.Fprintf(&b, "frozen at %d\n", at)
		} else {
			fmt.Fprintln(&b)
		}
		for row := 4; row < s.height; row++ {
			fmt.Fprintf(&b, "row %d %s\n", row, strings.Repeat(string(rune('a'+(at+row)%26)), max(0, s.width-10)))
		}
	}
	v := tea.NewView(strings.TrimSuffix(b.String(), "\n"))
	v.WindowTitle = "9! prod\x1b]52;c;aGk=\a sessionwatch and more"
	v.MouseMode = tea.MouseModeCellMotion
	v.ReportFocus = true
	return v
}
