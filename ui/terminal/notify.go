package terminal

import (
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

const (
	// noticeCells bounds a notice; desktops cut longer ones anyway.
	noticeCells = 200
	bell        = "\a"
)

// Ring rings the terminal's bell. It never blocks; a terminal that does not
// drain, or that was given back, does not hear it.
func (t *Terminal) Ring() { _, _ = t.out.Write([]byte(bell)) }

// Notify shows a notice on the desktop of whoever sits before the terminal, if
// that knows how to. It never blocks. Both texts are cleaned.
func (t *Terminal) Notify(title, text string) {
	if seq := noticeSequence(t.env, title, text); seq != "" {
		_, _ = t.out.Write([]byte(seq))
	}
}

// noticeSequence is OSC 9 and OSC 777, of which terminals know one, both or none.
// One that is known to take either gets one, so that nobody is told twice. Inside
// tmux both are passed through, which it does if allow-passthrough is on.
func noticeSequence(environ []string, title, text string) string {
	env := func(name string) string { return lookup(environ, name) }
	term := env("TERM")
	if term == "" || term == "dumb" || term == "linux" {
		return ""
	}
	title = termtext.Truncate(strings.ReplaceAll(termtext.Clean(title), ";", ","), TitleCells+len("sessionwatch "))
	text = termtext.Truncate(termtext.Clean(text), noticeCells)
	// The title comes first: a text that begins with a number and a semicolon is
	// another command to some terminals.
	nine := "\x1b]9;" + title + ": " + text + bell
	notify := "\x1b]777;notify;" + title + ";" + text + bell
	if env("TMUX") != "" {
		return throughTmux(nine) + throughTmux(notify)
	}
	switch program := env("TERM_PROGRAM"); {
	case program == "iTerm.app", program == "WezTerm", program == "ghostty", term == "xterm-kitty", term == "xterm-ghostty":
		return nine
	case strings.HasPrefix(term, "rxvt"), strings.HasPrefix(term, "foot"), env("VTE_VERSION") != "":
		return notify
	}
	return nine + notify
}

// throughTmux wraps a sequence so that tmux hands it to its own terminal.
func throughTmux(seq string) string {
	return "\x1bPtmux;" + strings.ReplaceAll(seq, "\x1b", "\x1b\x1b") + "\x1b\\"
}
