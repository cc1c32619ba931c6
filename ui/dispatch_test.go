package ui

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// scenesToPress brings a screen into each scene.
func scenesToPress(t *testing.T) map[scene]func() *screen {
	view := func(id viewID) func() *screen {
		return func() *screen {
			s := newScreen(t, hungWindow(), ops1(), 120, 40)
			s.m.layers = []viewID{id}
			return s
		}
	}
	table := view(viewSessions)
	with := func(do func(*Model)) func() *screen {
		return func() *screen { s := table(); s.m.layers = nil; do(s.m); return s }
	}
	out := map[scene]func() *screen{
		inSessions: with(func(*Model) {}),
		inReplay: func() *screen {
			return newScreen(t, sickWindow(), About{Name: "night", Replay: &fakeReplay{speed: 20}}, 120, 40)
		},
		inFirstRun: func() *screen { return newScreen(t, sickWindow(), About{}, 120, 40, func(o *Options) { o.Feed = nil }) },
		inMenu:     with(func(m *Model) { m.openSortMenu() }),
		inQuestion: with(func(m *Model) {
			m.askFirst(question{title: "SURE ?", yes: "do it", no: "stay", do: func(*Model) tea.Cmd { return nil }})
		}),
		inPrompt:  with(func(m *Model) { m.openFilter() }),
		inPalette: with(func(m *Model) { m.openPalette() }),
	}
	for _, v := range allViews() {
		if out[v.in] == nil {
			out[v.in] = view(v.id)
		}
	}
	return out
}

// Every key does in every scene what the one table of actions says, and nothing
// else; help shows it for exactly that; and the footer of the scene offers no key
// that does something else there.
func TestEveryKeyDoesOneThingInEveryScene(t *testing.T) {
	universe := map[string]bool{"5": true, "x": true, "é": true, "日": true, "f7": true, "ctrl+x": true, "ctrl+o": true, "insert": true, "shift+f3": true}
	for _, keys := range DefaultKeyMap() {
		for _, k := range keys {
			universe[k] = true
		}
	}
	for r := rune('!'); r <= '~'; r++ {
		universe[string(r)] = true
	}
	starts := scenesToPress(t)
	for in := scene(1); in < sceneEnd; in <<= 1 {
		if starts[in] == nil {
			t.Errorf("no screen is brought into %s", sceneNames[in])
			continue
		}
		s := starts[in]()
		if got := s.m.scene(); got != in {
			t.Errorf("a screen that should be in %s is in %s", sceneNames[in], sceneNames[got])
			continue
		}
		footerOf(t, s, in)
		did := ""
		for i := range s.m.actions { // what is done is noted, and not done
			a := &s.m.actions[i]
			a.off, a.do = nil, func(*Model) tea.Cmd { did += a.name + " "; return nil }
		}
		for _, k := range slices.Sorted(maps.Keys(universe)) {
			want := ""
			for i := range s.m.actions {
				if a := &s.m.actions[i]; a.in&in != 0 && slices.Contains(s.m.keys[a.name], k) {
					want += a.name + " "
				}
			}
			did = ""
			s.now += time.Minute
			s.press(k)
			if did != want {
				t.Errorf("%s in %s does %q, and the table says %q", k, sceneNames[in], did, want)
			}
			if strings.Count(want, " ") > 1 {
				t.Errorf("%s does %s in %s", k, want, sceneNames[in])
			}
			if want != "" && !helpGives(s.m, strings.TrimSpace(want), k) {
				t.Errorf("help does not give %s for %s", k, want)
			}
		}
	}
}

// helpGives reports whether the line of an action in help shows a key.
func helpGives(m *Model, name, key string) bool {
	for i := range m.actions {
		if m.actions[i].name != name {
			continue
		}
		return slices.ContainsFunc(m.helpLines(), func(l helpLine) bool {
			return l.right == m.actions[i].where()+m.actions[i].help && slices.Contains(strings.Fields(l.left), key)
		})
	}
	return false
}

// footerOf checks each pair of key and word that the footer shows.
func footerOf(t *testing.T, s *screen, in scene) {
	t.Helper()
	if in&(inInput|inQuestion) != 0 {
		return // they have words of their own
	}
	lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
	for _, pair := range strings.Split(strings.TrimSpace(lines[len(lines)-1]), "  ") {
		key, word, _ := strings.Cut(strings.TrimSpace(pair), " ")
		if a := s.m.bound[in][key]; a == nil || a.foot != word {
			t.Errorf("the footer of %s offers %q, which does something else", sceneNames[in], pair)
		}
	}
}
