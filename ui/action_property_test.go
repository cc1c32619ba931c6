package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// everyKey is each key that does anything anywhere, and some that do not.
func everyKey(m *Model) []string {
	seen := map[string]bool{"x": true, "1": true, "日": true, "alt+S": true, "alt+y": true, "ctrl+g": true}
	for _, keys := range m.bound {
		for k := range keys {
			if _, err := nameOf(k); err == nil {
				seen[k] = true
			}
		}
	}
	var out []string
	for k := range seen {
		if k != "ctrl+z" && k != "ctrl+c" {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// nameOf says whether a test can press a key by its name.
func nameOf(name string) (tea.KeyPressMsg, error) {
	k := key(name)
	if keyName(k) != name {
		return k, fmt.Errorf("%s cannot be pressed here", name)
	}
	return k, nil
}

// What is read-only, or a recording, acts on nothing: not by any key anywhere,
// not by any word of the palette, not by the mouse.
func TestReadOnlyActsOnNothing(t *testing.T) {
	abouts := []About{{Name: "prod", ReadOnly: true, Operator: "ops1"}, {Name: "night", Replay: &fakeReplay{}}}
	words := []string{"stop now", "kill", "kill it", "restart x", "expire x", "dump x", "release x"}
	for _, a := range allActions() {
		words = append(words, a.name)
	}
	rapid.Check(t, func(rt *rapid.T) {
		about := abouts[rapid.IntRange(0, 1).Draw(rt, "about")]
		w := massWindow()
		w.Focus.Can = canAll()
		s := newScreen(t, w, about, 80, 24)
		s.can, s.follow = func(watchdog.ID) watchdog.Can { return canAll() }, true
		s.feed.children = &fakeChildren{}
		s.show(w)
		keys := everyKey(s.m)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			s.now += time.Second
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0, 1:
				s.press("esc")
				s.now += time.Second
				s.palette(rapid.SampledFrom(words).Draw(rt, "word"))
			case 2:
				s.send(tea.MouseClickMsg{X: rapid.IntRange(0, 79).Draw(rt, "x"), Y: rapid.IntRange(0, 23).Draw(rt, "y"), Button: tea.MouseLeft})
				s.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
			case 3:
				s.send(tea.PasteMsg{Content: rapid.SampledFrom([]string{"S", "y", "stop", "kill\n", ":stop\n"}).Draw(rt, "paste")})
			default:
				s.press(rapid.SampledFrom(keys).Draw(rt, "key"))
			}
			if rapid.Bool().Draw(rt, "window") {
				s.show(w)
			}
		}
		if len(s.feed.commands) > 0 || len(s.feed.reasons) > 0 {
			rt.Fatalf("%v was asked for, and %d releases", s.ops(), len(s.feed.reasons))
		}
	})
}

// restless is a fleet that is never the same twice: its order, its generations,
// its boots and who is there at all change with every window.
type restless struct {
	w    watchdog.Window
	gens map[watchdog.ID]watchdog.Generation
}

func newRestless() *restless {
	r := &restless{w: manyWindow(30), gens: map[watchdog.ID]watchdog.Generation{}}
	for i := range r.w.Rows {
		r.gens[r.w.Rows[i].ID] = 1
	}
	return r
}

// next changes it, and gives what is seen of it now.
func (r *restless) next(rt *rapid.T) watchdog.Window {
	rows := r.w.Rows
	for range rapid.IntRange(0, 30).Draw(rt, "swaps") {
		i, j := rapid.IntRange(0, len(rows)-1).Draw(rt, "i"), rapid.IntRange(0, len(rows)-1).Draw(rt, "j")
		rows[i], rows[j] = rows[j], rows[i]
	}
	for range rapid.IntRange(0, 2).Draw(rt, "restarts") {
		row := &rows[rapid.IntRange(0, len(rows)-1).Draw(rt, "restarted")]
		row.Generation++
		r.gens[row.ID] = row.Generation
	}
	w := r.w
	w.Rows = slices.Clone(rows)
	if gone := rapid.IntRange(-5, len(rows)-1).Draw(rt, "gone"); gone >= 0 {
		w.Rows = slices.Delete(w.Rows, gone, gone+1)
	}
	w.Matched, w.Total = len(w.Rows), len(w.Rows)
	return w
}

// typist presses keys and knows, without asking the screen, which of them a
// person can have meant.
type typist struct {
	s       *screen
	lastKey time.Duration
	seen    string // the frame before the key
}

// press sends one key and reports the commands that came of it.
func (p *typist) press(name string, after time.Duration) []watchdog.Command {
	p.s.now += after
	p.seen = p.s.frame()
	before := len(p.s.feed.commands)
	p.s.send(key(name))
	return p.s.feed.commands[before:]
}

// Type-ahead, pastes, keys during a re-sort, a hundred re-sorts a second: nothing
// is confirmed but by y after it was quiet, and what is asked for is what stood
// in the question, and is still current.
//
// fault 44, fault 45
func TestNothingIsHitByAccident(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fleet := newRestless()
		s := newScreen(t, fleet.w, ops1(), 100, 40)
		s.can, s.follow = func(watchdog.ID) watchdog.Can { return canAll() }, true
		s.show(fleet.w)
		p := &typist{s: s}
		keys := []string{"S", "R", "X", "y", "Y", "K", "n", "enter", "j", "k", "G", "g", "space", "V", "U", "i", "esc", "r", "k", "i", "l", "4"}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 7).Draw(rt, "what") {
			case 0, 1, 2: // a re-sort, 10 ms after the last one
				s.now += 10 * time.Millisecond
				s.show(fleet.next(rt))
			case 3: // a paste that comes as keys
				before := len(s.feed.commands)
				s.now += time.Second
				var after []tea.Cmd
				for _, r := range rapid.SampledFrom([]string{"Sy\r", "SKkill\r", "yyyy", "RyRy", "stop 12\r"}).Draw(rt, "text") {
					name := string(r)
					if r == '\r' {
						name = "enter"
					}
					s.now += time.Millisecond
					_, cmd := s.m.Update(key(name))
					after = append(after, cmd)
				}
				p.lastKey = s.now
				s.now += burstTime
				for _, cmd := range after {
					s.run(cmd)
				}
				if n := len(s.feed.commands) - before; n > 0 {
					rt.Fatalf("a burst asked for %v", s.ops()[before:])
				}
			case 4:
				p.lastKey = s.now
				s.send(tea.PasteMsg{Content: rapid.SampledFrom([]string{"y", "S", "kill", "stop 12", "\ry\r"}).Draw(rt, "paste")})
			default:
				name := rapid.SampledFrom(keys).Draw(rt, "key")
				after := time.Duration(rapid.SampledFrom([]int{15, 90, 299, 300, 1500}).Draw(rt, "after")) * time.Millisecond
				asked := p.press(name, after)
				quiet := s.now - p.lastKey
				p.lastKey = s.now
				p.check(rt, name, quiet, asked, fleet.gens)
			}
		}
	})
}

// check judges what a key asked for.
func (p *typist) check(rt *rapid.T, name string, quiet time.Duration, asked []watchdog.Command, current map[watchdog.ID]watchdog.Generation) {
	if len(asked) == 0 {
		return
	}
	typed := strings.Contains(p.seen, "Type  ")
	switch {
	case typed && name == "enter":
	case name != "y":
		rt.Fatalf("%s asked for %+v", name, asked)
	case quiet < questionQuiet:
		rt.Fatalf("y asked for %+v after %v", asked, quiet)
	}
	for _, c := range asked {
		title := fmt.Sprintf("%s %s #%d ?", strings.ToUpper(string(c.Op)), c.Session, c.Generation)
		if len(asked) > 1 {
			title = fmt.Sprintf("%s %d sessions ?", strings.ToUpper(string(c.Op)), len(asked))
		}
		if !strings.Contains(p.seen, title) && !strings.Contains(p.seen, "sessions ?") {
			rt.Fatalf("%+v was asked for, and the screen showed\n%s", c, p.seen)
		}
		if current[c.Session] != c.Generation {
			rt.Fatalf("%s #%d was asked for, and #%d is current", c.Session, c.Generation, current[c.Session])
		}
	}
}
