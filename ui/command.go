package ui

import (
	"errors"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// splitCommand reads a command line as it is typed: words, with quotes and
// backslashes for what holds spaces. No shell reads it, so nothing else means
// anything.
func splitCommand(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote, escaped := false, rune(0), false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			in, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			in, quote = true, r
		case unicode.IsSpace(r):
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			in = true
			word.WriteRune(r)
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case escaped:
		return nil, errors.New("nothing stands behind the last backslash")
	}
	if in {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("type a command, such as  python3 agent.py")
	}
	return words, nil
}

// openSupervise asks for a command to run as a session.
func (m *Model) openSupervise() tea.Cmd {
	m.prompt = &prompt{
		label: "run", hint: "a command, such as  python3 agent.py;  no shell reads it; ends with this screen",
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, text string) (tea.Cmd, bool) {
			command, err := splitCommand(text)
			if err != nil {
				m.prompt.err = err.Error()
				return nil, false
			}
			return m.leaveFor(Target{Kind: TargetRun, Command: command}), true
		},
	}
	return nil
}
