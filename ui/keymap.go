package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
	inSessions: "sessions", inReplay: "replay", inWhy: "why", inSources: "sources", inHelp: "help", inFirstRun: "the first page",
	inEvents: "events", inAlerts: "alerts", inCommands: "commands", inLogs: "logs", inDumps: "dumps", inDump: "a dump", inTrial: "a trial", inHandover: "a hand-over", inRaw: "a raw payload", inQuestion: "a question",
	inMenu: "a menu", inPrompt: "a prompt", inPalette: "the palette",
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

// KeyFault is what is wrong with the keys that an action was given.
type KeyFault struct {
	Action string // as ui.keys names it
	Text   string // what is wrong and what to do
}

// Error says it with its place in the configuration.
func (f *KeyFault) Error() string { return "ui.keys." + f.Action + ": " + f.Text }

// Rebind gives a key map in which the named actions have other keys instead of
// their own; several keys are separated by spaces, and "" takes the key away.
// Every fault is reported, one sentence each.
func (km KeyMap) Rebind(overrides map[string]string) (KeyMap, []*KeyFault) {
	out := maps.Clone(km)
	byName := map[string]*action{}
	actions := allActions()
	for i := range actions {
		byName[actions[i].name] = &actions[i]
	}
	var faults []*KeyFault
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		a := byName[name]
		if a == nil || a.fixed {
			faults = append(faults, &KeyFault{name, "no such action can be rebound; help (?) and the palette (:) give their names"})
			continue
		}
		keys := strings.Fields(overrides[name])
		for _, k := range keys {
			if why := keyFits(a, k); why != "" {
				faults = append(faults, &KeyFault{name, why})
			}
		}
		out[name] = keys
	}
	for _, c := range out.conflicts() {
		name := c.action
		if _, ok := overrides[name]; !ok { // whoever was given the key is to blame
			name = c.other
		}
		faults = append(faults, &KeyFault{name, c.String() + "; bind one of them to another key"})
	}
	return out, faults
}

// keyNames are the keys that are no single character.
var keyNames = strings.Fields("enter tab space backspace delete insert up down left right home end pgup pgdown f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12")

// knownKey reports whether a key of that name can come. Shift is in a character
// itself, and ctrl takes no notice of it.
func knownKey(key string) bool {
	bare, ctrl := strings.CutPrefix(key, "ctrl+")
	if slices.Contains(keyNames, strings.TrimPrefix(bare, "shift+")) {
		return true
	}
	r, ok := character(bare)
	return ok && unicode.IsPrint(r) && !unicode.IsMark(r) && !(ctrl && unicode.IsUpper(r))
}

// character is the one character that a text consists of.
func character(text string) (r rune, ok bool) {
	r, size := utf8.DecodeRuneInString(text)
	return r, size > 0 && size == len(text) && (r != utf8.RuneError || size > 1)
}

// touching reports whether a key may touch an agent: no letter may that is typed
// without a thought, in whatever script; capitals may, and what is no letter.
func touching(key string) bool {
	r, ok := character(key)
	return !ok || unicode.IsUpper(r) || !unicode.IsLetter(r) && !unicode.Is(unicode.Other_Lowercase, r)
}

// keyFits says why an action cannot have a key; empty: it can.
func keyFits(a *action, key string) string {
	why, barred := forbidden[key]
	_, single := character(key)
	switch {
	case barred:
		return key + " cannot be bound: " + why
	case strings.Contains(key, "alt+"), strings.Contains(key, "meta+"):
		return key + " cannot be bound: alt with a key counts as esc"
	case !knownKey(key):
		return fmt.Sprintf("%q is no key: give one character (a capital is %q, not shift+x), or ctrl+ and a small one, or a name such as %s", key, "X", strings.Join(keyNames[:6], ", "))
	case a.touch && !touching(key):
		return key + " cannot be bound: a lower-case letter never touches an agent; give a capital, such as " + a.keys
	case a.in&inInput != 0 && single:
		return key + " cannot be bound: it is text there"
	}
	return ""
}

// conflict is a key that would do two things in one scene.
type conflict struct {
	key, other, action string
	in                 scene
}

func (c conflict) String() string {
	return c.key + " does both " + c.other + " and " + c.action + " in " + sceneNames[c.in]
}

// conflicts finds keys that would do two things in one scene.
func (km KeyMap) conflicts() []conflict {
	var out []conflict
	type place struct {
		in  scene
		key string
	}
	taken := map[place]string{}
	for _, a := range allActions() {
		for _, in := range a.in.scenes() {
			for _, key := range km[a.name] {
				if other, ok := taken[place{in, key}]; ok {
					out = append(out, conflict{key, other, a.name, in})
					continue
				}
				taken[place{in, key}] = a.name
			}
		}
	}
	return out
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
