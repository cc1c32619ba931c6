package ui

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// No letter but a capital can be given to what touches an agent, in whatever
// script and with whatever modifier a terminal can send.
func TestOnlyCapitalsCanTouchAnAgent(t *testing.T) {
	for i, all := 0, allActions(); i < len(all); i++ {
		a := &all[i]
		if !a.touch {
			continue
		}
		for _, table := range []*unicode.RangeTable{unicode.L, unicode.Other_Lowercase} {
			for _, r16 := range table.R16 {
				for r := rune(r16.Lo); r <= rune(r16.Hi); r += rune(r16.Stride) {
					if key := string(r); !unicode.IsUpper(r) && keyFits(a, key) == "" {
						t.Errorf("%s was bound to %s (%U)", a.name, key, r)
					}
				}
			}
		}
		for _, key := range []string{"𝔵", "shift+x", "shift+é", "shift+X", "alt+x", "alt+X", "meta+x", "alt+shift+x", "ctrl+alt+x", "ctrl+shift+x", "ctrl+X", "super+x", "e\u0301", "\u0301", "\u200d", "\xff", ""} {
			if keyFits(a, key) == "" {
				t.Errorf("%s was bound to %q", a.name, key)
			}
		}
		for _, key := range []string{"Y", "É", "Ж", "Λ", "%", "f5", "shift+f5", "ctrl+x", "ctrl+f5"} {
			if why := keyFits(a, key); why != "" {
				t.Errorf("%s: %s", a.name, why)
			}
		}
	}
}

// What a terminal sends for a lower-case letter, with any modifier, is bound to
// nothing that touches an agent, but inside a question.
func TestNoLowerCaseKeyTouchesAnAgent(t *testing.T) {
	m := New(Options{})
	mods := []tea.KeyMod{0, tea.ModShift, tea.ModAlt, tea.ModMeta, tea.ModSuper, tea.ModHyper, tea.ModCapsLock, tea.ModNumLock, tea.ModAlt | tea.ModShift, tea.ModCtrl | tea.ModAlt}
	for r := rune(' '); r < 0x3000; r++ {
		if !unicode.IsLetter(r) || unicode.IsUpper(r) {
			continue
		}
		for _, mod := range mods {
			for _, k := range []tea.Key{{Code: r, Mod: mod}, {Code: r, Mod: mod, Text: string(r)}, {Code: r, Mod: mod, BaseCode: 's'}} {
				name := keyName(tea.KeyPressMsg(k))
				for in, keys := range m.bound {
					if a := keys[name]; a != nil && a.touch && in != inQuestion {
						t.Fatalf("%+v is %s and does %s in %s", k, name, a.name, sceneNames[in])
					}
				}
			}
		}
	}
}

// A capital that was given to an action takes the place of its old key: it works,
// the old one does not, and help, palette and footer show it.
func TestRebindingAnActionOnAgents(t *testing.T) {
	km, faults := DefaultKeyMap().Rebind(map[string]string{"stop": "Y", "next": "%"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s := newScreen(t, hungWindow(), ops1(), 80, 24, func(o *Options) { o.KeyMap = km })
	s.can = func(watchdog.ID) watchdog.Can { return canAll() }
	s.do("... S")
	if s.m.top() == viewQuestion || !strings.Contains(s.m.note.text, "S does nothing here") {
		t.Errorf("the old key: %q", s.m.note.text)
	}
	s.do("... Y")
	if s.m.top() != viewQuestion || !strings.Contains(ansi.Strip(s.m.frame()), "STOP indexer") {
		t.Errorf("the new key asks nothing:\n%s", ansi.Strip(s.m.frame()))
	}
	s.do("... esc ... j")
	lines := strings.Split(ansi.Strip(s.m.frame()), "\n")
	if footer := lines[len(lines)-1]; !strings.Contains(footer, "% next") || strings.Contains(footer, "n next") {
		t.Errorf("the footer is %q", footer)
	}
	for _, l := range s.m.helpLines() {
		if strings.HasPrefix(l.right, "stop, or kill") && l.left != "Y" {
			t.Errorf("help gives %q for stop", l.left)
		}
	}
}

// A fault names the action that was given the key, also where it is another one's.
func TestKeyFaultNamesWhatWasRebound(t *testing.T) {
	for name, keys := range map[string]string{"why": "n", "down": "i", "stop": "x", "page-up": "shift+x", "nothing": "x"} {
		_, faults := DefaultKeyMap().Rebind(map[string]string{name: keys})
		if len(faults) == 0 || slices.ContainsFunc(faults, func(f *KeyFault) bool { return f.Action != name }) {
			t.Errorf("%s: %s: %v", name, keys, faults)
		}
	}
}
