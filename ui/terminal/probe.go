package terminal

import (
	"strings"

	"github.com/charmbracelet/colorprofile"
)

// Capabilities is what can be known of a terminal without asking it.
type Capabilities struct {
	// Profile says which colours it can show. NO_COLOR leaves bold and
	// reverse; TERM=dumb leaves nothing.
	Profile colorprofile.Profile
	// ASCII says that symbols beyond ASCII must not be drawn, and Why.
	ASCII bool
	Why   string
	// AskGlyphs says that the terminal may be asked how wide it draws the
	// symbols, to be on the safe side.
	AskGlyphs bool
	// Tmux says that we run inside tmux.
	Tmux bool
	// Light is a guess at the background until the terminal has answered:
	// dark, unless COLORFGBG says otherwise.
	Light bool
}

// Probe reads what the environment tells of a terminal. It asks nobody and
// runs nothing, so it delays no frame; what a terminal itself can answer comes
// later, as a message, or never.
func Probe(environ []string) Capabilities {
	env := func(name string) string { return lookup(environ, name) }
	c := Capabilities{
		Profile: colorprofile.Env(environ),
		Tmux:    env("TMUX") != "",
		Light:   lightByEnvironment(env("COLORFGBG")),
	}
	name := env("TERM")
	switch {
	case name == "" || name == "dumb":
		c.Profile = colorprofile.NoTTY
	case env("NO_COLOR") != "": // any value counts, not only true ones
		c.Profile = colorprofile.ASCII
	case c.Profile < colorprofile.ANSI:
		c.Profile = colorprofile.ANSI
	}
	locale := firstOf(env("LC_ALL"), env("LC_CTYPE"), env("LANG"))
	c.Why = asciiReason(name, locale)
	c.ASCII = c.Why != ""
	c.AskGlyphs = !c.ASCII
	return c
}

// asciiReason is why only ASCII should be drawn; empty if more may be.
func asciiReason(term, locale string) string {
	code := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(locale))
	switch {
	case term == "" || term == "dumb":
		return "the terminal says that it can do nothing (TERM=" + term + ")"
	case term == "linux":
		return "the font of the Linux console lacks the symbols"
	case !strings.Contains(code, "utf8"):
		return "the locale is not UTF-8 (" + locale + ")"
	case strings.HasPrefix(code, "zh"), strings.HasPrefix(code, "ja"), strings.HasPrefix(code, "ko"):
		return "symbols may be two cells wide in this locale (" + locale + ")"
	}
	return ""
}

// lightByEnvironment reads the background out of "foreground;background".
func lightByEnvironment(colours string) bool {
	i := strings.LastIndexByte(colours, ';')
	return i >= 0 && (colours[i+1:] == "7" || colours[i+1:] == "15")
}

// lookup gives the value of a variable; the last one counts.
func lookup(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if k, v, ok := strings.Cut(entry, "="); ok && k == name {
			value = v
		}
	}
	return value
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// The question for the width of the symbols: they are drawn in the second row
// (a report of the first one looks like a function key), behind the switch to
// the alternate screen and before the first frame clears it, so nobody sees
// them. A mute terminal leaves the question open, and nothing comes of it.
const (
	glyphRow    = 2
	glyphColumn = 6
	glyphProbe  = "\x1b[2;1H●○▲✗✓\x1b[6n\x1b[H\x1b[2J"
)

func (t *Terminal) askGlyphs() {
	t.in.awaitColumn(glyphRow)
	t.out.setPrelude([]byte(glyphProbe))
}
