package terminal

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/colorprofile"
)

func TestProbe(t *testing.T) {
	tests := []struct {
		env     string
		profile colorprofile.Profile
		ascii   bool
		light   bool
	}{
		{"TERM=xterm-256color LANG=en_US.UTF-8", colorprofile.ANSI256, false, false},
		{"TERM=xterm-256color LANG=C.utf8 COLORTERM=truecolor", colorprofile.TrueColor, false, false},
		{"TERM=screen-256color LANG=C.UTF-8 TMUX=/x,1,0", colorprofile.ANSI256, false, false},
		{"TERM=vt220 LANG=de_DE.UTF-8", colorprofile.ANSI, false, false},
		{"TERM=xterm-256color LANG=en_US.UTF-8 NO_COLOR=yes", colorprofile.ASCII, false, false},
		{"TERM=xterm-256color LANG=en_US.UTF-8 NO_COLOR=", colorprofile.ANSI256, false, false},
		{"TERM=dumb LANG=en_US.UTF-8", colorprofile.NoTTY, true, false},
		{"LANG=en_US.UTF-8", colorprofile.NoTTY, true, false},
		{"TERM=linux LANG=en_US.UTF-8", colorprofile.ANSI, true, false},
		{"TERM=xterm-256color LANG=C", colorprofile.ANSI256, true, false},
		{"TERM=xterm-256color", colorprofile.ANSI256, true, false},
		{"TERM=xterm-256color LANG=en_US.UTF-8 LC_ALL=POSIX", colorprofile.ANSI256, true, false},
		{"TERM=xterm-256color LANG=C LC_CTYPE=en_US.UTF-8", colorprofile.ANSI256, false, false},
		{"TERM=xterm-256color LANG=ja_JP.UTF-8", colorprofile.ANSI256, true, false},
		{"TERM=xterm-256color LANG=en_US.UTF-8 COLORFGBG=0;15", colorprofile.ANSI256, false, true},
		{"TERM=xterm-256color LANG=en_US.UTF-8 COLORFGBG=15;default;0", colorprofile.ANSI256, false, false},
	}
	for _, tt := range tests {
		c := Probe(strings.Fields(tt.env))
		if c.Profile != tt.profile || c.ASCII != tt.ascii || c.Light != tt.light {
			t.Errorf("%s: %v ascii=%v (%s) light=%v", tt.env, c.Profile, c.ASCII, c.Why, c.Light)
		}
		if c.ASCII == c.AskGlyphs || c.ASCII != (c.Why != "") {
			t.Errorf("%s: %+v", tt.env, c)
		}
	}
}

// fault 42
func TestCleanTitle(t *testing.T) {
	for in, want := range map[string]string{
		"9! prod sessionwatch":            "9! prod sessionwatch",
		"a\x1b]52;c;aGk=\ab\u009b6nc\nd":  "ab",
		"a\x1b]52;c;aGk=\ab\ttab":         "ab tab",
		strings.Repeat("w", 30):           strings.Repeat("w", TitleCells),
		"漢字漢字漢字漢字漢字漢字":                    "漢字漢字漢字漢字漢字",
		"\x1b]0;never ends and takes it.": "",
	} {
		got := CleanTitle(in)
		if strings.ContainsAny(got, "\x1b\a\u009b\n") {
			t.Errorf("%q gives %q", in, got)
		}
		if len(want) > 2 && got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func TestOpenNeedsATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	_, slave := openPair(t)
	for _, c := range []Config{{In: slave, Out: w}, {In: r, Out: slave}} {
		if term, err := Open(c); err == nil {
			term.Close()
			t.Errorf("%s and %s are no terminal", c.In.Name(), c.Out.Name())
		}
	}
}

func TestTmuxThatIsAway(t *testing.T) {
	env := append(os.Environ(), "TMUX=/nonexistent/socket,1,0")
	if err := loadTmuxBuffer(context.Background(), env, "text"); err == nil {
		t.Error("no error from a tmux that is not there")
	}
}
