// Package deptest holds the rule that every import of this project goes down:
//
//	main -> ui/cli -> ui, ui/terminal -> demo -> sources -> internal -> watchdog
//
// It owns that rule and its test, and nothing else; no package imports it. The
// rule covers what is built into the program. Tests may import what they need,
// as far as the compiler lets them.
package deptest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path that the project's own imports begin with.
const Module = "github.com/sessionwatch/sessionwatch"

// Package is one package and what it imports directly.
type Package struct {
	ImportPath string
	Imports    []string
}

// room is a part of the house and what it may import beyond the standard
// library. An entry that ends in "/..." stands for a whole tree. Libraries are
// free unless only is set.
type room struct {
	path     string // below the module; the longest match counts
	own      []string
	onlyLibs []string // nil: any library; empty: none
}

var none = []string{}

// rooms lists the house from the ground up. The first match from the end wins.
func rooms() []room {
	charm := []string{"charm.land/...", "github.com/charmbracelet/...", "github.com/sahilm/fuzzy"}
	terminal := append([]string{"golang.org/x/sys/...", "golang.org/x/term"}, charm...)
	return []room{
		{path: "watchdog/...", own: []string{"watchdog"}, onlyLibs: none},
		{path: "internal/...", own: []string{"watchdog", "internal/termtext", "internal/spelling"}},
		{path: "internal/orders", own: []string{"watchdog/...", "internal/wire"}, onlyLibs: none},
		{path: "sources/...", own: []string{"watchdog/...", "internal/..."}},
		{path: "sources/recording/recordingtest", own: []string{"watchdog/...", "internal/...", "sources/recording"}},
		{path: "demo/...", own: []string{"watchdog/...", "internal/...", "sources/..."}},
		{path: "ui", own: []string{"watchdog", "internal/query", "internal/stackdump", "internal/termtext"}, onlyLibs: charm},
		{path: "ui/terminal/...", own: []string{"ui", "watchdog", "internal/query", "internal/stackdump", "internal/termtext"}, onlyLibs: terminal},
		{path: "ui/terminal/terminaltest", own: none, onlyLibs: append([]string{"github.com/creack/pty"}, charm...)}, // for tests only
		{path: "ui/cli", own: []string{"ui/...", "demo/...", "sources/...", "internal/...", "watchdog/..."}},
		{path: "", own: []string{"ui/cli"}, onlyLibs: none},
	}
}

// Violations gives one sentence for each import that goes the wrong way.
func Violations(packages []Package) []string {
	var out []string
	for _, p := range packages {
		own, ok := below(p.ImportPath)
		if !ok {
			continue
		}
		r, ok := roomOf(own)
		if !ok {
			out = append(out, fmt.Sprintf("%s stands in no room of the house: give it a place in internal/deptest", own))
			continue
		}
		for _, imported := range p.Imports {
			if sentence := r.judge(own, imported); sentence != "" {
				out = append(out, sentence)
			}
		}
	}
	slices.Sort(out)
	return out
}

func roomOf(own string) (room, bool) {
	all := rooms()
	for i := len(all) - 1; i >= 0; i-- {
		if matches(all[i].path, own) {
			return all[i], true
		}
	}
	return room{}, false
}

// judge is empty if importer, which stands in room r, may import imported.
func (r room) judge(importer, imported string) string {
	path, ours := below(imported)
	switch {
	case ours:
		if slices.ContainsFunc(r.own, func(pattern string) bool { return matches(pattern, path) }) {
			return ""
		}
		return fmt.Sprintf("%q may not import %s: allowed are %s", importer, path, strings.Join(r.own, ", "))
	case standard(imported) || r.onlyLibs == nil:
		return ""
	case slices.ContainsFunc(r.onlyLibs, func(pattern string) bool { return matches(pattern, imported) }):
		return ""
	case len(r.onlyLibs) == 0:
		return fmt.Sprintf("%q may not import %s: the standard library only", importer, imported)
	}
	return fmt.Sprintf("%q may not import %s: allowed libraries are %s", importer, imported, strings.Join(r.onlyLibs, ", "))
}

// below gives the path inside the module; the module itself is "".
func below(importPath string) (string, bool) {
	if importPath == Module {
		return "", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

// standard reports whether a path is of the standard library: its first
// element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func matches(pattern, path string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == tree || strings.HasPrefix(path, tree+"/")
	}
	return path == pattern
}
