package ui

import (
	"fmt"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Theme names a set of colours.
type Theme uint8

// The themes. Auto starts dark and follows what the terminal says of its
// background and of its colours.
const (
	ThemeAuto Theme = iota
	ThemeDark
	ThemeLight
	ThemeMono     // bold and reverse only: 16 colours, NO_COLOR
	ThemeContrast // bold, reverse and underline on the terminal's own colours
	ThemeNone     // no attribute at all: TERM=dumb
)

var themeNames = [...]string{"auto", "dark", "light", "mono", "contrast", "none"}

// String is the name in configuration and flags.
func (t Theme) String() string {
	if int(t) < len(themeNames) {
		return themeNames[t]
	}
	return "invalid"
}

// ThemeOf reads the name of a theme; empty is auto.
func ThemeOf(name string) (Theme, error) {
	if name == "" {
		return ThemeAuto, nil
	}
	for i, known := range themeNames {
		if name == known {
			return Theme(i), nil
		}
	}
	return ThemeAuto, fmt.Errorf("theme %q is not known; use one of %s", name, strings.Join(themeNames[:], ", "))
}

// Style is a rendered pair: what switches it on, and off again. The zero Style
// changes nothing.
type Style struct{ on, off string }

func sgr(params string) Style {
	if params == "" {
		return Style{}
	}
	return Style{on: "\x1b[" + params + "m", off: "\x1b[m"}
}

// Styles holds every style that the screen uses. Colour has five meanings and
// no other; running is the terminal's own colour.
type Styles struct {
	Act     Style // wedged, stalled, crash-loop: somebody must act
	BadEnd  Style // lost, error
	Suspect Style // silent, disputed, quiet, unknown
	Wait    Style // waiting, restarting
	Done    Style // completed, stopped, expired

	Plain  Style
	Dim    Style // labels, rules, what is not the news
	Title  Style
	Cursor Style // the whole row under the cursor
	Badge  Style // DEMO, REPLAY, FROZEN: must not be overlooked
}

// palette holds the SGR parameters of a theme.
type palette struct{ act, badEnd, suspect, wait, done, dim, title, cursor, badge string }

// DefaultStyles renders the styles of a theme. Auto is dark until the terminal
// has answered.
func DefaultStyles(t Theme) Styles {
	var p palette
	switch t {
	case ThemeLight:
		p = palette{"1;38;5;124", "38;5;89", "38;5;94", "38;5;25", "38;5;241", "38;5;241", "1", "7", "1;7"}
	case ThemeMono:
		p = palette{"1;7", "1", "1", "", "", "", "1", "7", "1;7"}
	case ThemeContrast:
		p = palette{"1;7", "1;4", "1", "4", "", "", "1;4", "7", "1;7"}
	case ThemeNone:
	default:
		p = palette{"1;38;5;208", "38;5;218", "38;5;222", "38;5;117", "38;5;246", "38;5;246", "1", "7", "1;7"}
	}
	return Styles{
		Act: sgr(p.act), BadEnd: sgr(p.badEnd), Suspect: sgr(p.suspect), Wait: sgr(p.wait), Done: sgr(p.done),
		Dim: sgr(p.dim), Title: sgr(p.title), Cursor: sgr(p.cursor), Badge: sgr(p.badge),
	}
}

// meaning picks one of the five colours, or none.
type meaning uint8

const (
	meansNothing meaning = iota
	meansAct
	meansBadEnd
	meansSuspect
	meansWait
	meansDone
)

func (s *Styles) of(m meaning) Style {
	switch m {
	case meansAct:
		return s.Act
	case meansBadEnd:
		return s.BadEnd
	case meansSuspect:
		return s.Suspect
	case meansWait:
		return s.Wait
	case meansDone:
		return s.Done
	}
	return s.Plain
}

// look is how a verdict appears; the word always stands beside the glyph.
type look struct {
	glyph, ascii string
	means        meaning
}

// Glyphs holds every character that is not plain text.
type Glyphs struct {
	looks [watchdog.VerdictCount]look
	ascii bool
	Rule  string // horizontal
	Side  string // vertical
}

// DefaultGlyphs gives the glyphs, or those of plain ASCII.
func DefaultGlyphs(ascii bool) Glyphs {
	g := Glyphs{ascii: ascii, Rule: "─", Side: "│", looks: [watchdog.VerdictCount]look{
		watchdog.Running:    {"●", ".", meansNothing},
		watchdog.Waiting:    {"○", "o", meansWait},
		watchdog.Quiet:      {"?", "?", meansSuspect},
		watchdog.Unknown:    {"?", "?", meansSuspect},
		watchdog.Disputed:   {"%", "%", meansSuspect},
		watchdog.Silent:     {"~", "~", meansSuspect},
		watchdog.Stalled:    {"▲", "!", meansAct},
		watchdog.Wedge:      {"▲", "!", meansAct},
		watchdog.Restarting: {"○", "o", meansWait},
		watchdog.CrashLoop:  {"▲", "!", meansAct},
		watchdog.Completed:  {"✓", "+", meansDone},
		watchdog.Stopped:    {"✓", "+", meansDone},
		watchdog.Failed:     {"✗", "x", meansBadEnd},
		watchdog.Lost:       {"✗", "x", meansBadEnd},
		watchdog.Expired:    {"✗", "x", meansDone},
	}}
	if ascii {
		g.Rule, g.Side = "-", "|"
	}
	return g
}

// verdict gives the glyph and the meaning of a verdict.
func (g *Glyphs) verdict(v watchdog.Verdict) (string, meaning) {
	if v >= watchdog.VerdictCount {
		return "?", meansSuspect
	}
	l := &g.looks[v]
	if g.ascii {
		return l.ascii, l.means
	}
	return l.glyph, l.means
}
