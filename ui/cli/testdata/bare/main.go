// Command bare is the smallest program on Bubble Tea: the floor for how soon a
// screen can stand.
package main

import (
	"fmt"
	"os"

	tea "charm.land/bubbletea/v2"
)

type bare struct{}

func (bare) Init() tea.Cmd { return nil }

func (bare) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if key, ok := msg.(tea.KeyPressMsg); ok && key.String() == "q" {
		return bare{}, tea.Quit
	}
	return bare{}, nil
}

func (bare) View() tea.View {
	v := tea.NewView("enter choose")
	v.AltScreen = true
	return v
}

func main() {
	if _, err := tea.NewProgram(bare{}).Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
