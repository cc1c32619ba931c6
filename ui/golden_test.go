package ui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

var sizes = [][2]int{{40, 10}, {80, 24}, {120, 40}, {200, 60}}

// shot is a golden frame: how to get to it, and whether its colours and its ASCII
// are kept as well as its text.
type shot struct {
	name   string
	styled bool
	sized  bool // at every size, not at 80x24 alone
	open   func(t *testing.T, width, height int, change ...func(*Options)) *screen
}

// shots is every golden frame of the screen. At least one of each view is styled.
func shots() []shot {
	prod := About{Name: "prod", ReadOnly: true, Sweeper: "serve@eu1-01"}
	ops, local := About{Name: "prod", Sweeper: "serve@eu1-01"}, About{Name: "local", Sweeper: "run@eu1-02/4700"}
	late, parent, night := ops, local, About{Name: "night", ReadOnly: true, Replay: &fakeReplay{}, Length: 4 * time.Hour}
	late.Late = quarantine()
	parent.Supervised = []watchdog.ID{"indexer", "etl-nightly"}
	out := []shot{
		seen("first-view", sickWindow, prod, "").kept(),
		seen("why", sickWindow, prod, "i").kept(),
		seen("help", sickWindow, prod, "?").kept(),
		seen("filter", sickWindow, prod, "/ b a t c h").kept(),
		seen("palette", sickWindow, prod, ":").kept(),
		seen("sort", sickWindow, prod, "s").kept(),
		seen("frozen", sickWindow, prod, "Z").kept(),
		seen("quiet", quietWindow, prod, "").kept(),
		seen("learning", learningWindow, prod, ""),
		seen("blind", blindWindow, prod, "").kept(),
		seen("mass", massWindow, prod, "").kept(),
		seen("mass-why", massWindow, prod, "i"),
		seen("sources", sourcesWindow, prod, ": s o u r c e s enter").kept(),
		seen("demo", sickWindow, About{Name: "demo", Demo: true, Sweeper: "this screen"}, "").kept(),
		seen("ended", endedWindow, prod, ""),
		seen("ended-why", endedWindow, prod, "i"),
		seen("crash-loop", supervisedWindow, local, ""),
		seen("child", runningChild, local, ""),
		seen("restarting", restartingChild, local, ""),
		seen("ledger-away", ledgerAway, ops, ""),
		seen("ledger-sources", ledgerAway, ops, ": s o u r c e s enter"),
		seen("latest", eventfulWindow, prod, ""),
		seen("events", eventfulWindow, prod, "3").kept(),
		seen("alerts-none", quietWindow, ops, "2"),
		seen("session-events", eventfulWindow, prod, "e"),
		seen("late-events", eventfulWindow, late, "3 L").kept(),
		seen("raw", payloadWindow, prod, "p").kept(),
		seen("raw-as-came", payloadWindow, prod, "p v"),
		seen("export", sickWindow, prod, "E").kept(),
		seen("pane", eventfulWindow, prod, "tab G k k"),
		seen("columns", sickWindow, prod, "C j space").kept(),
		seen("release", massWindow, ops, ": r e l e a s e enter r a c k").kept(),
		seen("leaving", runningChild, parent, "q").kept(),
		seen("refused", func() watchdog.Window { return emptyWindow(refusedLinks()...) }, About{Name: "local"}, "").kept(),
		seen("connected", func() watchdog.Window { return emptyWindow(upLink(watchdog.SourceNATS), refusedLinks()[1]) }, About{Name: "local"}, ""),
		seen("replay", sickWindow, night, "").kept(),
		seen("replay-why", sickWindow, night, "i"),
	}
	out = append(out, pageShots(local)...)
	out = append(out, alertShots(ops, prod)...)
	out = append(out, questionShots()...)
	out = append(out, summaryShots()...)
	for i := range out {
		out[i].sized = slices.Contains(mainShots, out[i].name)
	}
	return out
}

// kept keeps the colours of a shot, and its ASCII.
func (s shot) kept() shot {
	s.styled = true
	return s
}

// mainShots are those whose colours and ASCII are kept at every size.
var mainShots = []string{"first-view", "alerts", "events", "why", "ask-restart"}

// styleName is the file of a frame with its colours.
func styleName(shot, style string, size [2]int) string {
	name := "style-" + shot + "-" + style
	if size != styledSize {
		name += fmt.Sprintf("-%dx%d", size[0], size[1])
	}
	return name
}

// styledSize is the one at which colours and ASCII of every kept shot are kept.
var styledSize = [2]int{80, 24}

// seen is a shot of a window after some keys.
func seen(name string, window func() watchdog.Window, about About, keys string) shot {
	return shot{name: name, open: func(t *testing.T, width, height int, change ...func(*Options)) *screen {
		w := window()
		s := newScreen(t, w, about, width, height, append([]func(*Options){withHost}, change...)...)
		s.press(strings.Fields(keys)...)
		s.show(eventsOf(w, s.feed.last()))
		return s
	}}
}

func withHost(o *Options) {
	o.Host = fakeHost{}
	o.Export = func(e Export) (string, error) { return e.Path, nil }
}

// pageShots are the views of what is supervised, and of what came after an end.
func pageShots(local About) []shot {
	page := func(name, keys string) shot {
		return shot{name: name, open: func(t *testing.T, width, height int, change ...func(*Options)) *screen {
			s := newScreen(t, runningChild(), local, width, height, change...)
			s.supervise(dumped(t), runningChild())
			s.press(strings.Fields(keys)...)
			return s
		}}
	}
	late := func(name, keys string) shot {
		return shot{name: name, open: func(t *testing.T, width, height int, change ...func(*Options)) *screen {
			out, w := lateOutput()
			s := newScreen(t, w, About{Name: "prod", Sweeper: "serve@eu1-01", Output: out}, width, height, change...)
			s.press(strings.Fields(keys)...)
			return s
		}}
	}
	return []shot{
		page("logs", "l").kept(), page("logs-wrapped", "l w"), page("logs-search", "l / c h u n k"),
		page("dumps", "6").kept(), page("dump", "6 enter").kept(), page("dump-go", "6 j enter"), page("dump-places", "6 j enter B"),
		page("dump-compare", "6 j j enter D").kept(), page("dump-raw", "6 enter v"),
		late("logs-late", "l"), late("logs-late-shown", "l L").kept(),
	}
}

// summaryShots are of what is made off the screen's goroutine.
func summaryShots() []shot {
	trial := func(name, keys string) shot {
		return shot{name: name, open: func(t *testing.T, width, height int, change ...func(*Options)) *screen {
			s := newScreen(t, sickWindow(), About{Name: "prod", Trial: &fakeTrier{result: trialOf()}}, width, height, append([]func(*Options){withHost}, change...)...)
			s.press(strings.Fields(keys)...)
			return s
		}}
	}
	handover := shot{name: "handover", open: func(t *testing.T, width, height int, change ...func(*Options)) *screen {
		s, _ := newHandoverScreen(t, width, height, append([]func(*Options){withHost}, change...)...)
		return s
	}}
	return []shot{
		trial("trial", ": t r i a l space s t a l l _ t i m e o u t = 1 0 m enter j j").kept(), trial("trial-ask", ": t r i a l enter").kept(),
		handover.kept(),
	}
}

// TestGoldenFrames keeps the text of each shot at each size. What colours say,
// words say: the text is the same with every theme.
func TestGoldenFrames(t *testing.T) {
	for _, f := range shots() {
		for _, size := range sizes {
			name := fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				text := ansi.Strip(f.open(t, size[0], size[1]).m.frame())
				golden(t, name, text+"\n")
				for _, theme := range []Theme{ThemeLight, ThemeNone} { // without a colour the cursor of an input is a line
					got := ansi.Strip(f.open(t, size[0], size[1], themed(theme)).m.frame())
					if diff := cmp.Diff(strings.ReplaceAll(text, "_", " "), strings.ReplaceAll(got, "_", " ")); diff != "" {
						t.Errorf("the theme %s changes words:\n%s", theme, diff)
					}
				}
			})
		}
	}
}

func themed(theme Theme) func(*Options) { return func(o *Options) { o.Theme = theme } }

// TestGoldenStyles keeps the colours of the styled shots, and what stands there
// without colour or symbols.
func TestGoldenStyles(t *testing.T) {
	for _, f := range shots() {
		for _, size := range sizes {
			if size != styledSize && !f.sized {
				continue
			}
			t.Run(fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1]), func(t *testing.T) { goldenStyles(t, f, size) })
		}
	}
}

func goldenStyles(t *testing.T, f shot, size [2]int) {
	var themes []Theme
	if f.styled {
		themes = []Theme{ThemeDark, ThemeLight}
	}
	if size == styledSize && (f.name == "first-view" || f.name == "alerts") {
		themes = append(themes, ThemeMono, ThemeContrast)
	}
	for _, theme := range themes {
		frame := f.open(t, size[0], size[1], themed(theme)).m.frame()
		golden(t, styleName(f.name, theme.String(), size), strings.ReplaceAll(frame, "\x1b", "\\e")+"\n")
	}
	frame := f.open(t, size[0], size[1], func(o *Options) { o.ASCII, o.Theme = true, ThemeNone }).m.frame()
	for i := range len(frame) {
		if c := frame[i]; c != '\n' && (c < 0x20 || c > 0x7e) {
			t.Fatalf("byte %q in an ASCII frame without styles:\n%s", c, frame)
		}
	}
	if f.styled {
		golden(t, styleName(f.name, "ascii", size), frame+"\n")
	}
}

// TestEveryViewHasAShot: each view and each way of asking has a shot that is
// kept with its colours.
func TestEveryViewHasAShot(t *testing.T) {
	kept := map[string]bool{}
	for _, f := range shots() {
		if !f.styled {
			continue
		}
		m := f.open(t, 80, 24).m
		kept[m.views[m.top()].name] = true
		for what, holds := range map[string]bool{"prompt": m.prompt != nil, "palette": m.palette != nil, "first-run page": m.firstRunShown(),
			"replay": m.about.Replay != nil, "marks": len(m.marks.ids) > 0, "frozen table": m.table.frozen} {
			kept[what] = kept[what] || holds
		}
	}
	for _, v := range allViews() {
		if !kept[v.name] {
			t.Errorf("no shot of the view %s is kept with its colours", v.name)
		}
	}
	for what, holds := range kept {
		if !holds {
			t.Errorf("no shot of the %s is kept with its colours", what)
		}
	}
}

// TestGoldenFilesAreCompared: no file stays behind that nothing compares.
func TestGoldenFilesAreCompared(t *testing.T) {
	used := map[string]bool{"trial-text": true, "handover-text": true, "handover-text-none": true}
	for _, f := range shots() {
		for _, size := range sizes {
			used[fmt.Sprintf("%s-%dx%d", f.name, size[0], size[1])] = true
		}
		for _, style := range []string{"dark", "light", "ascii", "mono", "contrast"} {
			for _, size := range sizes {
				used[styleName(f.name, style, size)] = f.styled && (f.sized || size == styledSize)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		if !used[strings.TrimSuffix(filepath.Base(f), ".golden")] {
			t.Errorf("%s is compared with nothing: delete it", f)
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
