package ui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

var sizes = [][2]int{{40, 10}, {80, 24}, {120, 40}, {200, 60}}

// frames are the views of the golden files.
func frames() []struct {
	name   string
	window watchdog.Window
	about  About
	keys   string
} {
	prod := About{Name: "prod", ReadOnly: true, Sweeper: "serve@eu1-01"}
	ops := About{Name: "prod", Sweeper: "serve@eu1-01"}
	return []struct {
		name   string
		window watchdog.Window
		about  About
		keys   string
	}{
		{"first-view", sickWindow(), prod, ""},
		{"why", sickWindow(), prod, "i"},
		{"help", sickWindow(), prod, "?"},
		{"filter", sickWindow(), prod, "/ b a t c h"},
		{"palette", sickWindow(), prod, ":"},
		{"sort", sickWindow(), prod, "s"},
		{"frozen", sickWindow(), prod, "Z"},
		{"quiet", quietWindow(), prod, ""},
		{"learning", learningWindow(), prod, ""},
		{"blind", blindWindow(), prod, ""},
		{"mass", massWindow(), prod, ""},
		{"mass-why", massWindow(), prod, "i"},
		{"sources", sourcesWindow(), prod, ": s o u r c e s enter"},
		{"demo", sickWindow(), About{Name: "demo", Demo: true, Sweeper: "this screen"}, ""},
		{"ended", endedWindow(), prod, ""},
		{"ended-why", endedWindow(), prod, "i"},
		{"crash-loop", supervisedWindow(), About{Name: "local", Sweeper: "run@eu1-02/4700"}, ""},
		{"child", runningChild(), About{Name: "local", Sweeper: "run@eu1-02/4700"}, ""},
		{"restarting", restartingChild(), About{Name: "local", Sweeper: "run@eu1-02/4700"}, ""},
		{"ledger-away", ledgerAway(), About{Name: "prod", Sweeper: "serve@eu1-01"}, ""},
		{"ledger-sources", ledgerAway(), About{Name: "prod", Sweeper: "serve@eu1-01"}, ": s o u r c e s enter"},
		{"latest", eventfulWindow(), prod, ""},
		{"events", eventfulWindow(), prod, "3"},
		{"alerts-none", quietWindow(), ops, "2"},
		{"session-events", eventfulWindow(), prod, "e"},
		{"late-events", eventfulWindow(), About{Name: "prod", Sweeper: "serve@eu1-01", Late: quarantine()}, "3 L"},
		{"raw", payloadWindow(), prod, "p"},
		{"raw-as-came", payloadWindow(), prod, "p v"},
		{"export", sickWindow(), prod, "E"},
		{"pane", eventfulWindow(), prod, "tab G k k"},
		{"columns", sickWindow(), prod, "C j space"},
		{"release", massWindow(), About{Name: "prod", Sweeper: "serve@eu1-01"}, ": r e l e a s e enter r a c k"},
		{"leaving", runningChild(), About{Name: "local", Sweeper: "run@eu1-02/4700", Supervised: []watchdog.ID{"indexer", "etl-nightly"}}, "q"},
		{"refused", emptyWindow(refusedLinks()...), About{Name: "local"}, ""},
		{"connected", emptyWindow(upLink(watchdog.SourceNATS), refusedLinks()[1]), About{Name: "local"}, ""},
	}
}

func withHost(o *Options) {
	o.Host = fakeHost{}
	o.Export = func(e Export) (string, error) { return e.Path, nil }
}

func TestGoldenFrames(t *testing.T) {
	for _, f := range frames() {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), func(t *testing.T) {
				s := newScreen(t, f.window, f.about, size[0], size[1], withHost)
				s.press(strings.Fields(f.keys)...)
				s.show(eventsOf(f.window, s.feed.last()))
				golden(t, fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), ansi.Strip(s.m.frame())+"\n")
			})
		}
	}
}

func TestGoldenStyles(t *testing.T) {
	for _, theme := range []Theme{ThemeDark, ThemeLight, ThemeMono, ThemeContrast, ThemeNone} {
		s := newScreen(t, sickWindow(), About{Name: "prod", ReadOnly: true}, 80, 24, func(o *Options) { o.Theme = theme })
		golden(t, "style-"+theme.String(), strings.ReplaceAll(s.m.frame(), "\x1b", "\\e")+"\n")
	}
}

func TestGoldenASCII(t *testing.T) {
	for _, f := range frames() {
		s := newScreen(t, f.window, f.about, 80, 24, func(o *Options) { o.ASCII, o.Theme = true, ThemeNone })
		s.press(strings.Fields(f.keys)...)
		s.show(eventsOf(f.window, s.feed.last()))
		frame := s.m.frame()
		for i := range len(frame) {
			if c := frame[i]; c != '\n' && (c < 0x20 || c > 0x7e) {
				t.Fatalf("%s: byte %q in an ASCII frame without styles", f.name, c)
			}
		}
		if f.name == "first-view" || f.name == "events" {
			golden(t, "ascii-"+f.name, frame+"\n")
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./ui -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if it should, run go test ./ui -update:\n%s", path, diff)
	}
}
