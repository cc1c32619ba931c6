package cli_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// TestEveryKey presses every key of the key map in a real terminal and looks at
// what the screen shows after it. A key that is added to the map and not to the
// journeys below fails it, and so does a key that the design promises and the map
// has not.
func TestEveryKey(t *testing.T) {
	keys := &pressedKeys{keys: ui.DefaultKeyMap(), done: map[keyOf]bool{}}
	journeys := map[string]func(*testing.T, *pressedKeys){
		"silence": journeyThroughASilence, "table": journeyThroughTheTable, "texts": journeyThroughTexts, "agents": journeyThroughTheDemo, "supervised": journeyFromTheFirstPage,
	}
	var ended atomic.Int32
	t.Run("journeys", func(t *testing.T) {
		for name, journey := range journeys {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				journey(t, keys)
				ended.Add(1)
			})
		}
	})
	if int(ended.Load()) < len(journeys) { // one has failed, or was not asked for
		return
	}
	for _, missed := range keys.missed() {
		t.Errorf("no journey presses %s for %s: add a press, and what the screen shows then", missed.key, missed.action)
	}
}

// TestPromisedKeys: the key map has each key of the design, for what it promises.
func TestPromisedKeys(t *testing.T) {
	km := ui.DefaultKeyMap()
	for keys, actions := range map[string]string{
		"j": "down", "k": "up", "down": "down", "up": "up", "g": "top", "G": "bottom", "pgup": "page-up", "pgdown": "page-down", "ctrl+d": "half-down", "ctrl+u": "half-up",
		"/": "filter search search-help", ":": "palette", "?": "help", "esc": "undo leave", "q": "quit", "ctrl+c": "interrupt",
		"enter": "open enter-alert go-to to-session open-dump", "d": "pane", "l": "session-logs", "e": "session-events", "p": "raw", "i": "why",
		"n": "next next-match", "N": "previous previous-match", "space": "mark pause", "V": "mark-range", "U": "unmark",
		"s": "sort", "I": "invert", "C": "columns", "!": "attention", "0": "all", "Z": "freeze", "F": "follow", "w": "wrap", "t": "times",
		"a": "ack", "z": "snooze", "M": "mute", "R": "restart", "X": "expire", "S": "stop", "T": "dump", "c": "copy copy-place", "E": "export", "H": "handover",
		"ctrl+r": "retry", "ctrl+l": "redraw", "ctrl+z": "suspend",
		"1": "sessions", "2": "alerts", "3": "events", "4": "commands", "5": "logs", "6": "dumps", "[": "previous-view", "]": "next-view", "tab": "focus",
		"D": "compare", "v": "raw-dump", "o": "edit", "B": "group", ",": "step-back", ".": "step-on", "+": "faster", "-": "slower",
	} {
		for _, action := range strings.Fields(actions) {
			if !slices.Contains(km[action], keys) {
				t.Errorf("%s is promised for %s, which is bound to %q", keys, action, km[action])
			}
		}
	}
	for action, keys := range km {
		for _, k := range keys {
			if slices.Contains([]string{"ctrl+i", "ctrl+m", "ctrl+k", "ctrl+b", "ctrl+a"}, k) {
				t.Errorf("%s is bound to %s, which stays free", action, k)
			}
		}
	}
}

// keyOf is one key of one action.
type keyOf struct{ action, key string }

// pressedKeys are the keys of the map, and which of them were seen to work.
type pressedKeys struct {
	keys ui.KeyMap
	mu   sync.Mutex
	done map[keyOf]bool
}

func (p *pressedKeys) missed() []keyOf {
	var out []keyOf
	for action, keys := range p.keys {
		for _, k := range keys {
			if !p.done[keyOf{action, k}] {
				out = append(out, keyOf{action, k})
			}
		}
	}
	slices.SortFunc(out, func(a, b keyOf) int { return strings.Compare(a.action+a.key, b.action+b.key) })
	return out
}

// keyboard presses keys in one terminal.
type keyboard struct {
	*terminaltest.Tmux
	t    *testing.T
	all  *pressedKeys
	home string // where it was started
	// command started the program.
	command string
}

// startKeyboard starts the program, as a user gets it, in a directory of its own,
// from a shell.
func startKeyboard(t *testing.T, all *pressedKeys, size terminaltest.Size, args string) *keyboard {
	t.Helper()
	built, home := asBuilt(t), t.TempDir()
	k := &keyboard{Tmux: terminaltest.StartTmux(t, size), t: t, all: all, home: home, command: strings.TrimSpace(built + " " + args)}
	k.Await("ready$")
	k.Type(fmt.Sprintf("cd %s; export HOME=%s XDG_CONFIG_HOME= XDG_STATE_HOME= SESSIONWATCH_CONFIG= EDITOR=%s NATS_URL=nats://127.0.0.1:1 REDIS_URL=redis://127.0.0.1:1; clear", home, home, editor(t, home)), "Enter")
	k.Until("the shell is ready", func() bool { return strings.TrimSpace(k.Screen()) == "ready$" })
	k.Type(k.command, "Enter")
	return k
}

// editor is one that says what it was given, and waits for a key.
func editor(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "editor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho EDITS \"$@\"\nread -r line\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// tmuxNames are the keys that tmux calls by another name than the key map.
var tmuxNames = map[string]string{
	"enter": "Enter", "esc": "Escape", "space": "Space", "tab": "Tab", "shift+tab": "BTab", "backspace": "BSpace", "delete": "DC", "home": "Home", "end": "End",
	"up": "Up", "down": "Down", "left": "Left", "right": "Right", "pgup": "PPage", "pgdown": "NPage", ";": "\\;",
}

func tmuxName(key string) string {
	if name := tmuxNames[key]; name != "" {
		return name
	}
	if letter, ok := strings.CutPrefix(key, "ctrl+"); ok {
		return "C-" + letter
	}
	return key
}

// press presses a key of an action, then types text if there is any, and waits
// until the screen shows what it did not show before: a regular expression, or
// with "!" before it one that no longer matches.
func (k *keyboard) press(action, key, want string, text ...string) {
	k.t.Helper()
	if !slices.Contains(k.all.keys[action], key) {
		k.t.Fatalf("%s is not bound to %s but to %q", action, key, k.all.keys[action])
	}
	k.keep(key+" ("+action+")", want, func() {
		k.Keys(tmuxName(key))
		if len(text) > 0 {
			k.Type(strings.Join(text, ""))
		}
	})
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.all.done[keyOf{action, key}] = true
}

// enter types text, and waits likewise.
func (k *keyboard) enter(text, want string) {
	k.t.Helper()
	k.keep("typing "+text, want, func() { k.Type(text) })
}

// seek types what is searched for, and waits for what is found: part of the text may
// find it before the rest has been taken.
func (k *keyboard) seek(text, want string) {
	k.t.Helper()
	k.enter(text, "^ / "+regexp.QuoteMeta(text)+"$")
	k.see(want)
}

func (k *keyboard) keep(what, want string, do func()) {
	k.t.Helper()
	pattern, gone := strings.CutPrefix(want, "!")
	re := regexp.MustCompile("(?m)" + pattern)
	if before := k.Screen(); re.MatchString(before) != gone {
		k.t.Fatalf("before %s the screen is already as wanted, %q:\n%s", what, want, before)
	}
	do()
	k.Until(fmt.Sprintf("%s does %q", what, want), func() bool { return re.MatchString(k.Screen()) != gone })
}

// see waits until the screen shows something, whatever was pressed.
func (k *keyboard) see(want string) {
	k.t.Helper()
	re := regexp.MustCompile("(?m)" + want)
	k.Until("the screen shows "+want, func() bool { return re.MatchString(k.Screen()) })
}

var cursorLine = regexp.MustCompile("(?m)^>.*")

func matches(pattern, screen string) bool {
	return regexp.MustCompile("(?m)" + pattern).MatchString(screen)
}

// settled waits until a question would take an answer. Nothing on the screen tells
// when: it is deaf for so long after the key that asked it.
func (k *keyboard) settled() {
	time.Sleep(350 * time.Millisecond)
	k.Until("the question is settled", func() bool { return !matches(`\[wait: `, k.Screen()) })
}

// scrawl writes over the screen behind the program's back.
func scrawl(t *testing.T, k *terminaltest.Tmux, text string) {
	t.Helper()
	tty, err := os.OpenFile(k.Format("#{pane_tty}"), os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	if _, err := tty.WriteString("\x1b7\x1b[10;10H" + text + "\x1b8"); err != nil {
		t.Fatal(err)
	}
}

// occupy holds a port of loopback, unless somebody else does.
func occupy(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
}
