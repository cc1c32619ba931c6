package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// scene is where a key is pressed. No key does two things in one scene.
type scene uint32

const (
	inSessions scene = 1 << iota
	inReplay         // sessions, shown from a recording
	inWhy
	inSources
	inHelp
	inEvents
	inAlerts
	inCommands
	inLogs
	inDumps // the list of them
	inDump  // one of them
	inTrial
	inHandover
	inRaw
	inFirstRun
	inMenu     // a list to choose from: sort, columns, contexts
	inQuestion // yes or no
	inPrompt
	inPalette
	sceneEnd

	inLists = inSessions | inReplay
	inPages = inWhy | inSources | inHelp
	inLines = inAlerts | inEvents | inCommands | inLogs | inDumps | inDump | inTrial | inHandover | inRaw
	inText  = inPages | inLines
	inViews = inLists | inText | inFirstRun | inMenu
	// inRecorded is where a recording is looked at; what else is there says that
	// it is none.
	inRecorded = inReplay | inWhy | inSources | inEvents
	inInput    = inPrompt | inPalette
)

var sceneNames = map[scene]string{
	inSessions: "sessions", inReplay: "replay", inWhy: "why", inSources: "sources", inHelp: "help", inFirstRun: "first run",
	inEvents: "events", inAlerts: "alerts", inCommands: "commands", inLogs: "logs", inDumps: "dumps", inDump: "a dump", inTrial: "a trial", inHandover: "a hand-over", inRaw: "raw payload", inQuestion: "a question",
	inMenu: "menu", inPrompt: "prompt", inPalette: "palette",
}

// scenes lists the single scenes of a set.
func (c scene) scenes() []scene {
	var out []scene
	for one := scene(1); one < sceneEnd; one <<= 1 {
		if c&one != 0 {
			out = append(out, one)
		}
	}
	return out
}

// KeyMap gives the keys of each action, by the action's name. Help, footer and
// palette are generated from it.
type KeyMap map[string][]string

// DefaultKeyMap is the key map of an empty configuration.
func DefaultKeyMap() KeyMap {
	km := KeyMap{}
	for _, a := range allActions() {
		if a.keys != "" {
			km[a.name] = strings.Fields(a.keys)
		}
	}
	return km
}

// forbidden keys cannot be told from others, or belong to the multiplexer or
// to leaving.
var forbidden = map[string]string{
	"ctrl+i": "the terminal sends it for tab",
	"ctrl+m": "the terminal sends it for enter",
	"ctrl+k": "it stays free",
	"ctrl+b": "it is the prefix of tmux",
	"ctrl+a": "it is the prefix of screen",
	"ctrl+c": "it always leaves",
	"esc":    "it always undoes a layer",
}

// Rebind gives a key map in which the named actions have other keys instead of
// their own; several keys are separated by spaces, and "" takes the key away.
// Every fault is reported, one sentence each.
func (km KeyMap) Rebind(overrides map[string]string) (KeyMap, []error) {
	out := maps.Clone(km)
	byName := map[string]*action{}
	actions := allActions()
	for i := range actions {
		byName[actions[i].name] = &actions[i]
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		a := byName[name]
		if a == nil || a.fixed {
			errs = append(errs, fmt.Errorf("ui.keys.%s: no such action can be rebound; help (?) and the palette (:) give their names", name))
			continue
		}
		keys := strings.Fields(overrides[name])
		for _, k := range keys {
			if err := keyFits(a, k); err != nil {
				errs = append(errs, fmt.Errorf("ui.keys.%s: %w", name, err))
			}
		}
		out[name] = keys
	}
	return out, append(errs, out.conflicts()...)
}

// keyNames are the keys that are no single character.
var keyNames = strings.Fields("enter tab space backspace delete insert up down left right home end pgup pgdown f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12")

// knownKey reports whether a key of that name can come.
func knownKey(key string) bool {
	bare := strings.TrimPrefix(strings.TrimPrefix(key, "ctrl+"), "shift+")
	return len([]rune(bare)) == 1 || slices.Contains(keyNames, bare)
}

func keyFits(a *action, key string) error {
	if why, ok := forbidden[key]; ok {
		return fmt.Errorf("%s cannot be bound: %s", key, why)
	}
	if !strings.Contains(key, "alt+") && !knownKey(key) {
		return fmt.Errorf("%q is no key: give one character, or ctrl+ and one, or a name such as %s", key, strings.Join(keyNames[:6], ", "))
	}
	if strings.Contains(key, "alt+") {
		return fmt.Errorf("%s cannot be bound: alt with a key counts as esc", key)
	}
	if a.touch && len(key) == 1 && key[0] >= 'a' && key[0] <= 'z' {
		return fmt.Errorf("%s cannot be bound: a lower-case letter never touches an agent", key)
	}
	if a.in&inInput != 0 && len([]rune(key)) == 1 {
		return fmt.Errorf("%s cannot be bound: it is text there", key)
	}
	return nil
}

// conflicts finds keys that would do two things in one scene.
func (km KeyMap) conflicts() []error {
	var errs []error
	type place struct {
		in  scene
		key string
	}
	taken := map[place]string{}
	for _, a := range allActions() {
		for _, in := range a.in.scenes() {
			for _, key := range km[a.name] {
				if other, ok := taken[place{in, key}]; ok {
					errs = append(errs, fmt.Errorf("ui.keys: %s does both %s and %s in %s; bind one of them to another key", key, other, a.name, sceneNames[in]))
					continue
				}
				taken[place{in, key}] = a.name
			}
		}
	}
	return errs
}

// bindings is the dispatcher: what a key does in a scene.
type bindings map[scene]map[string]*action

func newBindings(actions []action, km KeyMap) bindings {
	b := bindings{}
	for i := range actions {
		a := &actions[i]
		for _, in := range a.in.scenes() {
			if b[in] == nil {
				b[in] = map[string]*action{}
			}
			for _, key := range km[a.name] {
				b[in][key] = a
			}
		}
	}
	return b
}

// keyLabel shows the keys of an action: "j down".
func (km KeyMap) keyLabel(name string) string { return strings.Join(km[name], " ") }

// firstKey is the key that footer and hints show.
func (km KeyMap) firstKey(name string) string {
	if keys := km[name]; len(keys) > 0 {
		return keys[0]
	}
	return ""
}
