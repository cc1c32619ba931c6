package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// pages are the views of what is supervised, by the keys that lead there.
var pages = []struct{ name, keys string }{
	{"logs", "l"}, {"logs-wrapped", "l w"}, {"logs-search", "l / c h u n k"}, {"dumps", "6"}, {"dump", "6 enter"}, {"dump-go", "6 j enter"}, {"dump-places", "6 j enter B"},
	{"dump-compare", "6 j j enter D"}, {"dump-raw", "6 enter v"},
}

func TestGoldenPages(t *testing.T) {
	for _, f := range pages {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), func(t *testing.T) {
				s := newScreen(t, runningChild(), About{Name: "local", Sweeper: "run@eu1-02/4700"}, size[0], size[1])
				s.supervise(dumped(t), runningChild())
				s.press(strings.Fields(f.keys)...)
				golden(t, fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), ansi.Strip(s.m.frame())+"\n")
			})
		}
	}
}

// What came after an end stands below its own heading, at every size.
func TestGoldenLateOutput(t *testing.T) {
	for _, f := range []struct{ name, keys string }{{"logs-late", "l"}, {"logs-late-shown", "l L"}} {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), func(t *testing.T) {
				out, w := lateOutput()
				s := newScreen(t, w, About{Name: "prod", Sweeper: "serve@eu1-01", Output: out}, size[0], size[1])
				s.press(strings.Fields(f.keys)...)
				golden(t, fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), ansi.Strip(s.m.frame())+"\n")
			})
		}
	}
}

// Each of the views of evidence in dark, light, and without colour or symbols.
func TestGoldenEvidenceStyles(t *testing.T) {
	for _, theme := range []Theme{ThemeDark, ThemeLight, ThemeNone} {
		style := func(o *Options) { o.Theme, o.ASCII = theme, theme == ThemeNone }
		out, w := lateOutput()
		s := newScreen(t, w, About{Name: "prod", Output: out}, 80, 24, style)
		s.press("l", "L")
		golden(t, "style-logs-late-"+theme.String(), strings.ReplaceAll(s.m.frame(), "\x1b", "\\e")+"\n")
		s = newScreen(t, payloadWindow(), About{Name: "prod"}, 80, 24, style)
		s.press("p")
		s.show(payloadWindow())
		golden(t, "style-raw-"+theme.String(), strings.ReplaceAll(s.m.frame(), "\x1b", "\\e")+"\n")
		s = newScreen(t, eventfulWindow(), About{Name: "prod", Late: quarantine()}, 80, 24, style)
		s.press("3", "L")
		s.show(eventsOf(eventfulWindow(), s.feed.last()))
		golden(t, "style-late-events-"+theme.String(), strings.ReplaceAll(s.m.frame(), "\x1b", "\\e")+"\n")
	}
}

func TestGoldenPageStyles(t *testing.T) {
	for _, theme := range []Theme{ThemeDark, ThemeLight, ThemeNone} {
		for _, f := range []struct{ name, keys string }{{"logs", "l"}, {"dump", "6 enter"}} {
			s := newScreen(t, runningChild(), About{Name: "local"}, 80, 24, func(o *Options) { o.Theme, o.ASCII = theme, theme == ThemeNone })
			s.supervise(dumped(t), runningChild())
			s.press(strings.Fields(f.keys)...)
			golden(t, "style-"+f.name+"-"+theme.String(), strings.ReplaceAll(s.m.frame(), "\x1b", "\\e")+"\n")
		}
	}
}
